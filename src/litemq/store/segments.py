"""The commit log's files in order: find, roll, drop.

Files are preallocated to one size; a name is the position of the first byte, 20 digits.  A new file is made under a
temporary name and renamed when it is complete: a crash leaves the old set plus a ``commitlog.new`` that opening
removes.  It lies beside the directory, because a real RocketMQ does not start over a stranger among the segments.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Iterator
from pathlib import Path

from litemq.store.fs import File, FileSystem

_NEW = ".new"


def name_of(position: int) -> str:
    """Return the file name of the segment that starts at ``position``."""
    return f"{position:020d}"


class Segment:
    """One file of the log."""

    __slots__ = ("file", "first_time", "path", "size", "start")

    def __init__(self, path: Path, start: int, size: int, file: File) -> None:
        self.path = path
        self.start = start
        self.size = size
        self.file = file
        self.first_time: int | None = None
        """Store time of its first sound record, once somebody asked."""

    @property
    def end(self) -> int:
        """Return the position behind the file's last byte."""
        return self.start + self.size


class Segments:
    """All files of one log, oldest first; there is always at least one once ``add`` was called."""

    def __init__(self, fs: FileSystem, directory: Path, segment_bytes: int) -> None:
        self._fs = fs
        self._directory = directory
        self._size = segment_bytes
        self._starts: list[int] = []
        self._segments: list[Segment] = []
        self._prepared: Segment | None = None
        self._making = threading.Lock()

    @classmethod
    def open(cls, fs: FileSystem, directory: Path, segment_bytes: int) -> Segments:
        """Open what is there; half-made files are removed, an empty last file too (a crash while it was made)."""
        self = cls(fs, directory, segment_bytes)
        fs.remove(self._new)
        for name in fs.names(directory):
            path = directory / name
            if len(name) == 20 and name.isdigit():
                file = fs.open(path, write=True)
                size = file.size()
                if size == 0:
                    file.close()
                    fs.remove(path)
                    continue
                self._put(Segment(path, int(name), size, file))
        return self

    def _put(self, segment: Segment) -> None:
        self._starts.append(segment.start)
        self._segments.append(segment)

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(list(self._segments))

    @property
    def first(self) -> Segment:
        """Return the oldest segment."""
        return self._segments[0]

    @property
    def last(self) -> Segment:
        """Return the segment that is written to."""
        return self._segments[-1]

    def find(self, position: int) -> Segment | None:
        """Return the segment that holds ``position``; None when it is gone or not there yet."""
        i = bisect.bisect_right(self._starts, position) - 1
        if i < 0 or position >= self._segments[i].end:
            return None
        return self._segments[i]

    def between(self, start: int, end: int) -> list[Segment]:
        """Return the segments that hold a byte of ``start`` to ``end``."""
        return [segment for segment in list(self._segments) if segment.start < end and segment.end > start]

    def prepare(self, start: int) -> None:
        """Make the next file ahead of time; may run in a thread while the last one is written to."""
        with self._making:
            # A roll may have been faster: then a file of this name is written to, and must not be replaced.
            if self._prepared is None and start == self.last.end:
                self._prepared = self._make(start)

    def add(self, start: int) -> Segment:
        """Start the file at ``start``: the prepared one, or a new one."""
        with self._making:
            segment, self._prepared = self._prepared, None
            if segment is not None and segment.start != start:
                segment.file.close()
                self._fs.remove(segment.path)
                segment = None
            segment = segment or self._make(start)
            self._put(segment)
            return segment

    @property
    def _new(self) -> Path:
        return self._directory.with_name(self._directory.name + _NEW)

    def _make(self, start: int) -> Segment:
        path = self._directory / name_of(start)
        self._fs.remove(self._new)
        file = self._fs.create(self._new, self._size, reserve=True)
        file.sync()  # a name must never lead to a file whose length did not reach the disk
        self._fs.rename(self._new, path)
        self._fs.sync_dir(self._directory)  # without it a power cut can take a flushed segment's name away
        return Segment(path, start, self._size, file)

    def drop_first(self) -> Segment:
        """Remove the oldest file; it is closed when the last thread that reads it lets go of it."""
        segment = self._segments.pop(0)
        self._starts.pop(0)
        self._fs.remove(segment.path)
        return segment

    def drop_after(self, position: int) -> list[Segment]:
        """Remove every file that starts at or behind ``position``; return them (their files are closed)."""
        dropped = []
        while self._segments and self._segments[-1].start >= position:
            segment = self._segments.pop()
            self._starts.pop()
            segment.file.close()
            self._fs.remove(segment.path)
            dropped.append(segment)
        if dropped:
            self._fs.sync_dir(self._directory)
        return dropped

    def sync_names(self) -> None:
        """Make removals survive a power cut."""
        self._fs.sync_dir(self._directory)

    def close(self) -> None:
        """Close every file."""
        for segment in self._segments:
            segment.file.close()
        if self._prepared is not None:
            self._prepared.file.close()
