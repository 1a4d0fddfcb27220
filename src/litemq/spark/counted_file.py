"""A file whose reads are counted, for whoever wants to know what an answer cost."""

from __future__ import annotations

from litemq.spark.backend import Counters
from litemq.store.fs import File


class CountedFile:
    """Reads like the file that it is given."""

    def __init__(self, file: File, counters: Counters) -> None:
        self._file = file
        self._counters = counters
        self.size = file.size
        self.data_ranges = file.data_ranges
        self.will_need = file.will_need
        self.read_ahead = file.read_ahead
        self.close = file.close
        self.write_at = file.write_at
        self.sync = file.sync
        self.zero = file.zero
        self.truncate = file.truncate

    def read_at(self, size: int, position: int) -> bytes:
        """Return up to ``size`` bytes."""
        data = self._file.read_at(size, position)
        self._counters.record_bytes += len(data)
        self._counters.reads += 1
        return data

    def read_into(self, buffer: memoryview, position: int, *, nowait: bool = False) -> int:
        """Fill ``buffer`` and return how many bytes came."""
        size = self._file.read_into(buffer, position, nowait=nowait)
        self._counters.record_bytes += max(0, size)
        self._counters.reads += 1
        return size
