"""The commit log's files in order: find, roll, drop.

Files are preallocated to one size; a name is the position of the first byte, 20 digits.  A new file is made under a
temporary name and renamed when it is complete: a crash leaves the old set plus a ``commitlog.new`` that opening
removes.  It lies beside the directory, because a real RocketMQ does not start over a stranger among the segments.

The last file and the one made ahead of time are always open; of the others only those that were used last.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Iterator
from pathlib import Path

from litemq.store.fs import File, FileSystem
from litemq.store.open_files import OpenFiles

_NEW = ".new"
MAX_OPEN = 64
"""Full files that are kept open."""


def name_of(position: int) -> str:
    """Return the file name of the segment that starts at ``position``."""
    return f"{position:020d}"


class Segment:
    """One file of the log."""

    __slots__ = ("_file", "_files", "first_time", "path", "size", "start")

    def __init__(self, path: Path, start: int, size: int, files: OpenFiles[Path], file: File | None = None) -> None:
        self.path = path
        self.start = start
        self.size = size
        self._files = files
        self._file = file
        """Its own open file, when it does not come and go with the others."""
        self.first_time: int | None = None
        """Store time of its first sound record, once somebody asked."""

    @property
    def end(self) -> int:
        """Return the position behind the file's last byte."""
        return self.start + self.size

    @property
    def file(self) -> File:
        """Return the open file, in any thread; it stays open while the caller holds it."""
        file = self._file
        if file is None:
            try:
                file = self._files.get(self.path)
            except FileNotFoundError:
                file = self._file  # removed meanwhile, and held for those who still read it
                if file is None:
                    raise
        return file

    def hold(self) -> None:
        """Keep the file open as long as the segment is referred to."""
        self._file = self.file

    def seal(self) -> None:
        """Let the file come and go with the others: nothing is appended to it any more."""
        if self._file is not None:
            # It may yet have to be flushed.  Should it be closed before: a write that fails behind our back is told
            # to whoever syncs the file next, by whatever descriptor.
            self._files.put(self.path, self._file)
            self._file = None

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
        self._files.drop(self.path)


class Segments:
    """All files of one log, oldest first; there is always at least one once ``add`` was called."""

    def __init__(self, fs: FileSystem, directory: Path, segment_bytes: int, open_files: int = MAX_OPEN) -> None:
        self._fs = fs
        self._directory = directory
        self._size = segment_bytes
        self._starts: list[int] = []
        self._segments: list[Segment] = []
        self._prepared: Segment | None = None
        self._making = threading.Lock()
        self._files: OpenFiles[Path] = OpenFiles(min(open_files, MAX_OPEN), self._open_file)

    def _open_file(self, path: Path) -> File:
        file = self._fs.open(path, write=True)
        # The kernel would read ahead on the loop, and behind the log's end.
        file.read_ahead(False)
        return file

    @classmethod
    def open(cls, fs: FileSystem, directory: Path, segment_bytes: int, open_files: int = MAX_OPEN) -> Segments:
        """Take in what is there; half-made files are removed, an empty last file too (a crash while it was made)."""
        self = cls(fs, directory, segment_bytes, open_files)
        fs.remove(self._new)
        for name in fs.names(directory):
            path = directory / name
            if len(name) == 20 and name.isdigit():
                size = self._files.get(path).size()
                if size == 0:
                    self._files.drop(path)
                    fs.remove(path)
                    continue
                self._put(Segment(path, int(name), size, self._files))
        self._hold_last()
        return self

    def _hold_last(self) -> None:
        if self._segments:
            self.last.hold()

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
                segment.close()
                self._fs.remove(segment.path)
                segment = None
            segment = segment or self._make(start)
            if self._segments:
                self.last.seal()
            self._put(segment)
            return segment

    @property
    def _new(self) -> Path:
        return self._directory.with_name(self._directory.name + _NEW)

    def _make(self, start: int) -> Segment:
        path = self._directory / name_of(start)
        self._fs.remove(self._new)
        file = self._fs.create(self._new, self._size, reserve=True)
        file.read_ahead(False)
        file.sync()  # a name must never lead to a file whose length did not reach the disk
        self._fs.rename(self._new, path)
        self._fs.sync_dir(self._directory)  # without it a power cut can take a flushed segment's name away
        return Segment(path, start, self._size, self._files, file)

    def drop_first(self) -> Segment:
        """Remove the oldest file; it is closed when the last thread that reads the segment lets go of it."""
        self.first.hold()  # it cannot be opened any more once its name is gone
        segment = self._segments.pop(0)
        self._starts.pop(0)
        self._fs.remove(segment.path)
        self._files.drop(segment.path)
        return segment

    def drop_after(self, position: int) -> list[Segment]:
        """Remove every file that starts at or behind ``position``; return them (their files are closed)."""
        dropped = []
        while self._segments and self._segments[-1].start >= position:
            segment = self._segments.pop()
            self._starts.pop()
            segment.close()
            self._fs.remove(segment.path)
            dropped.append(segment)
        if dropped:
            self._hold_last()
            self._fs.sync_dir(self._directory)
        return dropped

    def sync_names(self) -> None:
        """Make removals survive a power cut."""
        self._fs.sync_dir(self._directory)

    def close(self) -> None:
        """Close every file; a full one that a thread still reads is closed when that is done."""
        for segment in self._segments[-1:]:
            segment.close()
        if self._prepared is not None:
            self._prepared.close()
        self._files.clear()
