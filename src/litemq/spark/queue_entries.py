"""The entries of one ConsumeQueue on disk, by offset: what leads from a queue to its records."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

from litemq.format.queue_entry import EntryLayout, QueueEntry
from litemq.spark.backend import Counters
from litemq.store.fs import FileSystem
from litemq.store.info import next_offset

CHUNK = 1 << 16
"""Entries that are read at once."""


class QueueEntries:
    """One queue's files; nothing stays open between calls."""

    def __init__(self, fs: FileSystem, folder: Path, layout: EntryLayout, counters: Counters) -> None:
        self._fs = fs
        self._folder = folder
        self._layout = layout
        self._counters = counters
        self._starts = sorted(int(name) for name in fs.names(folder) if name.isascii() and name.isdigit())
        self.first = self._starts[0] // layout.size if self._starts else 0
        self.end = max(self.first, next_offset(fs, folder, layout.size))
        """Offset behind the last entry."""

    def entry(self, offset: int) -> QueueEntry:
        """Return one entry; all zeros where none is written."""
        return self._layout.decode(self.read(offset, 1), 0)

    def read(self, offset: int, count: int) -> bytes:
        """Return ``count`` entries; zeros where nothing is written."""
        size = self._layout.size
        at, end = offset * size, (offset + count) * size
        parts = []
        while at < end:
            number = bisect_right(self._starts, at) - 1
            behind = self._starts[number + 1] if number + 1 < len(self._starts) else end
            want = min(end, behind) - at
            data = b"" if number < 0 else self._read_file(self._starts[number], at, want)
            parts.append(data.ljust(want, b"\0"))
            at += want
        return b"".join(parts)

    def _read_file(self, start: int, at: int, size: int) -> bytes:
        file = self._fs.open(self._folder / f"{start:020d}")
        try:
            data = file.read_at(size, at - start)
        finally:
            file.close()
        self._counters.index_bytes += len(data)
        self._counters.reads += 1
        return data

    def first_where(self, reached: Callable[[QueueEntry], bool | None], low: int, high: int) -> int:
        """Return the first offset from ``low`` on whose entry satisfies a condition that later ones satisfy too.

        ``reached`` may not know (None), of a hole or a damaged record: then the next entry that is known speaks for it.
        """
        while low < high:
            middle = (low + high) // 2
            at = middle
            answer = reached(self.entry(at))
            while answer is None and at + 1 < high:
                at += 1
                answer = reached(self.entry(at))
            if answer is False:
                low = at + 1
            else:
                high = middle
        return low

    def first_at(self, position: int, low: int, high: int) -> int:
        """Return the first offset whose record starts at or behind ``position``."""

        def reached(entry: QueueEntry) -> bool | None:
            if entry.is_before_start:
                return False
            return entry.position >= position if entry.is_written else None

        return self.first_where(reached, low, high)
