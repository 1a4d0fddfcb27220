"""Kernel: the way of most pulls: what they ask for is there, and in memory."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.litemq.store._slice_cy import Pulled, Slicer
    from cython.cimports.litemq.store._tails_cy import QueueTail
else:
    from litemq.store._slice_cy import Pulled, Slicer
    from litemq.store._tails_cy import QueueTail

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from litemq.store.commit_log import CommitLog
    from litemq.store.consume_queue import ConsumeQueues
    from litemq.store.tables import Tables


class PullStatus(Enum):
    """How a pull ended."""

    FOUND = "records are there"
    NO_MATCH = "messages were looked at, none of them is wanted and sound"
    AT_END = "nothing is there to read yet"
    TOO_SMALL = "the offset is below the queue's first"
    TOO_LARGE = "the offset is above the queue's end"
    EMPTY = "the queue never had a message"


_FOUND = cython.declare(object, PullStatus.FOUND)
_NO_MATCH = cython.declare(object, PullStatus.NO_MATCH)


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cclass
class TailPuller:
    """Pulls what is in memory.  ``low`` and ``high`` are the bounds of the queue that was asked for last.

    With ``sees_all``, everything that was appended can be read; else what lies before ``readable_end``.
    """

    if not cython.compiled:
        __slots__ = ("high", "log", "low", "queues", "readable_end", "sees_all", "slicer", "tables")

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        tables: Tables,
        readable_end: Callable[[], int],
        sees_all: bool,
        slicer: Slicer,
    ) -> None:
        self.log = log
        self.queues = queues
        self.tables = tables
        self.readable_end = readable_end
        self.sees_all = sees_all
        self.slicer = slicer
        self.low = 0
        self.high = 0

    @cython.ccall
    def pull(
        self,
        tail: QueueTail,
        offset: cython.longlong,
        tag_hashes: Collection[int] | None,
        max_count: cython.longlong,
        max_bytes: cython.longlong,
        max_scan: cython.longlong,
        head_room: cython.Py_ssize_t,
        as_rocketmq: cython.bint,
    ) -> Pulled | None:
        """Return what ``PullReader.pull_from`` would, None when that is outside the queue's bounds or not in memory."""
        slicer: Slicer = self.slicer
        self.find_bounds(tail)
        if offset < self.low or offset >= self.high:
            return None
        slicer.log_end = self.log.tail.end
        slicer.begin(offset, self.high, tag_hashes, max_count, max_bytes, max_scan, head_room, as_rocketmq)
        if not self.collect(tail) and slicer.count == 0:
            return None
        return slicer.finish(_FOUND if slicer.count > 0 else _NO_MATCH, self.low, self.high)

    @cython.cfunc
    @cython.exceptval(-1)
    def find_bounds(self, tail: QueueTail) -> cython.int:
        end: cython.longlong
        self.high = tail.next_offset
        if not self.sees_all:
            end = self.readable_end()
            if tail.last_position >= end:
                self.high = self.queues.end_offset(tail, end)
        files: object = tail.files
        start: object = self.log.start
        if files.min_offset_start == start:  # type: ignore[attr-defined] # object, to the compiler
            self.low = files.min_offset  # type: ignore[attr-defined]
        if files.min_offset_start != start or self.low < 0:  # type: ignore[attr-defined]
            self.low = self.queues.min_offset(tail, start)  # type: ignore[arg-type]
        purged = self.tables.deletions.min_offsets.get(tail.topic)
        if purged is not None:
            self.low = max(self.low, purged.get(tail.queue_id, 0))
        self.low = min(self.low, self.high)
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def collect(self, tail: QueueTail) -> cython.bint:
        """Collect records; return whether all of it was in memory."""
        slicer: Slicer = self.slicer
        stride: cython.Py_ssize_t = tail.entry_size
        written: cython.longlong = tail.next_offset - tail.used // stride
        count: cython.Py_ssize_t
        place: cython.Py_ssize_t
        find: object = self.log.segments.find
        while True:
            count = slicer.missing()
            if count == 0:
                return True
            if slicer.offset >= written:
                place = (slicer.offset - written) * stride
                slicer.choose(tail.tail, place, min(count, tail.next_offset - slicer.offset))
            else:
                entries, place = self.queues.chunk(tail, slicer.offset)
                if entries is None:
                    return False
                slicer.choose(entries, place, min(count, (len(entries) - place) // stride))
            if not slicer.fetch(find, True):
                return False
