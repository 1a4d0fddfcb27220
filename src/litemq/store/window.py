"""A segment file through a window: a part of it in memory, small reads beside it, and where its zeros begin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from litemq.store.fs import File

WINDOW: Final = 512 << 10
"""Bytes that are looked at together: with the table of rows they fit the second-level cache."""

_ZERO_STEP: Final = 1 << 20
_ZEROS: Final = bytes(_ZERO_STEP)


class Window:
    """A part of a segment in memory, and small reads beside it; nothing at or behind ``size`` is seen."""

    def __init__(self, file: File, size: int, buffer: bytearray) -> None:
        self.size = size
        self.start = 0
        self.end = 0
        self._file = file
        self._own = buffer
        self._buffer = buffer
        self.view = memoryview(buffer)

    def load(self, at: int, need: int = 0) -> None:
        """Bring the bytes from ``at`` on into memory; ``need`` of them must exist."""
        if need > len(self._own):
            self._buffer = bytearray(need)
        elif self._buffer is not self._own:
            self._buffer = self._own
        self.view = memoryview(self._buffer)
        self.start = at
        wanted = max(0, min(len(self._buffer), self.size - at))
        self.end = at + self._file.read_into(self.view[:wanted], at)
        if self.end < at + wanted:  # cut while we read
            self.size = self.end
        elif self.end < self.size:
            self._file.will_need(self.end, len(self._own))  # the kernel does not read ahead in segments by itself

    def read(self, at: int, size: int) -> bytes:
        """Return up to ``size`` bytes, fewer only at the end."""
        size = max(0, min(size, self.size - at))
        return self._file.read_at(size, at) if size else b""

    def is_zero(self, at: int) -> bool:
        """Return whether nothing but zeros follows."""
        return all(part == _ZEROS[: len(part)] for _, part in self._data(at))

    def end_of_written(self, at: int) -> int:
        """Return the place behind the last byte that is not zero, at least ``at``."""
        end = at
        for place, part in self._data(at):
            if part != _ZEROS[: len(part)]:
                end = place + len(part.rstrip(b"\0"))
        return end

    def _data(self, at: int) -> Iterator[tuple[int, bytes]]:
        """Yield (place, bytes) of what may hold anything but zeros; small steps first, most looks end there."""
        step = 4096
        for start, stop in self._file.data_ranges(at):
            at = start
            while at < min(stop, self.size):
                part = self.read(at, min(step, stop - at))
                if not part:
                    return
                yield at, part
                at += len(part)
                step = _ZERO_STEP
