"""The records of a log in the order in which a conversion takes them.

One log: log order.  A ``tmq`` tree has a log for each queue: of the records that stand first in their queues the one
that was born first comes next, so every queue keeps its order.  All queues are read at once, each through a window
whose size depends on how many there are, and few of their files are open at a time.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from litemq.format import rows
from litemq.format.record import Format, decode_row
from litemq.store.fs import Buffer, File, FileSystem
from litemq.store.log_walk import Log
from litemq.store.segment_walk import WINDOW, Batch, Damage
from litemq.types import Record

OnBatch = Callable[[Log, Batch], None]

_MERGE_BYTES: Final = 32 << 20
"""Bytes of all windows of a merge together, while no window gets below the smallest."""
_SMALLEST_WINDOW: Final = 4 << 10
_OPEN_FILES: Final = 128


class Source:
    """The sound records of a log; damage is counted as it is met."""

    def __init__(self, log: Log, on_batch: OnBatch | None = None) -> None:
        self.torn = 0
        self.corrupt = 0
        self._log = log
        self._on_batch = on_batch

    def records(self) -> Iterator[Record]:
        """Yield them, once."""
        fmt = self._log.format
        if fmt is None:
            return
        if len(self._log.files.streams) > 1:
            yield from self._merged(fmt)
            return
        for batch in self._batches():
            for row in range(batch.first, batch.count):
                yield decode_row(fmt, batch.view, batch.table, row, batch.segment.name)

    def _batches(self, streams: range | None = None, window: int = WINDOW) -> Iterator[Batch]:
        for batch in self._log.batches(streams=streams, on_damage=self._count, window=window):
            if self._on_batch is not None:
                self._on_batch(self._log, batch)
            yield batch

    def _count(self, damage: Damage) -> None:
        if damage.kind == "torn":
            self.torn += 1
        else:
            self.corrupt += 1

    def _merged(self, fmt: Format) -> Iterator[Record]:
        count = len(self._log.files.streams)
        window = max(_SMALLEST_WINDOW, min(WINDOW, _MERGE_BYTES // count))
        pool = _FilePool(self._log.fs)
        self._log.open_file = pool.open
        try:
            cursors = [_Cursor(fmt, self._batches(range(number, number + 1), window)) for number in range(count)]
            heads = [(cursor.born_time, number) for number, cursor in enumerate(cursors) if cursor.advance()]
            heapq.heapify(heads)
            while heads:
                cursor = cursors[heads[0][1]]
                yield cursor.record()
                if cursor.advance():
                    heapq.heapreplace(heads, (cursor.born_time, heads[0][1]))
                else:
                    heapq.heappop(heads)
        finally:
            self._log.open_file = self._log.fs.open
            pool.close()


class _Cursor:
    """A place in one queue's log."""

    def __init__(self, fmt: Format, batches: Iterator[Batch]) -> None:
        self.born_time = 0
        self._fmt = fmt
        self._batches = batches
        self._batch: Batch | None = None
        self._row = 0

    def advance(self) -> bool:
        """Go to the next record; False when there is none."""
        self._row += 1
        if self._batch is None or self._row >= self._batch.count:
            self._batch = next(self._batches, None)
            if self._batch is None:
                return False
            self._row = self._batch.first
        self.born_time = self._batch.table[self._row * rows.WIDTH + rows.STORE_TIME]
        return True

    def record(self) -> Record:
        assert self._batch is not None
        return decode_row(self._fmt, self._batch.view, self._batch.table, self._row, self._batch.segment.name)


class _FilePool:
    """Files that are read in turn, only the latest of them open."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._open: OrderedDict[Path, File] = OrderedDict()

    def open(self, path: Path) -> File:
        """Return a file that is opened again whenever it is read."""
        self.file(path)
        return _PooledFile(self, path)

    def file(self, path: Path) -> File:
        file = self._open.get(path)
        if file is None:
            file = self._open[path] = self._fs.open(path)
            if len(self._open) > _OPEN_FILES:
                self._open.popitem(last=False)[1].close()
        else:
            self._open.move_to_end(path)
        return file

    def forget(self, path: Path) -> None:
        file = self._open.pop(path, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()


class _PooledFile:
    """A file of the pool; it was opened to be read, so that writing fails."""

    __slots__ = ("_path", "_pool")

    def __init__(self, pool: _FilePool, path: Path) -> None:
        self._pool = pool
        self._path = path

    def read_at(self, size: int, position: int) -> bytes:
        return self._pool.file(self._path).read_at(size, position)

    def read_into(self, buffer: memoryview, position: int, *, nowait: bool = False) -> int:
        return self._pool.file(self._path).read_into(buffer, position, nowait=nowait)

    def read_ahead(self, wanted: bool) -> None:
        self._pool.file(self._path).read_ahead(wanted)

    def will_need(self, position: int, size: int) -> None:
        self._pool.file(self._path).will_need(position, size)

    def size(self) -> int:
        return self._pool.file(self._path).size()

    def data_ranges(self, position: int) -> list[tuple[int, int]]:
        return self._pool.file(self._path).data_ranges(position)

    def write_at(self, data: Buffer, position: int) -> None:
        self._pool.file(self._path).write_at(data, position)

    def sync(self) -> None:
        self._pool.file(self._path).sync()

    def zero(self, position: int, size: int) -> None:
        self._pool.file(self._path).zero(position, size)

    def truncate(self, size: int) -> None:
        self._pool.file(self._path).truncate(size)

    def close(self) -> None:
        self._pool.forget(self._path)
