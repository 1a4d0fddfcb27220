"""Kernel: append the plain sends of a table of spans, with one write for a run of them.

A send is plain when its topic is in the table of plain topics, its queue is one of the topic's, and ``SpanWriter``
finds its record plain.  All others are left to the caller, which makes a message of the request and appends that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.litemq.format._byte_order_h import same
    from cython.cimports.litemq.format._encode_spans_cy import SpanWriter
    from cython.cimports.litemq.format._spans_cy import Spans
    from cython.cimports.litemq.store._append_cy import Batch, LogEnd
    from cython.cimports.litemq.store._tails_cy import IndexEnd, QueueTail
else:
    from litemq.format._encode_spans_cy import SpanWriter
    from litemq.format._spans_cy import Spans
    from litemq.format.byte_order import same
    from litemq.store._append_cy import Batch, LogEnd
    from litemq.store._tails_cy import IndexEnd, QueueTail

from litemq.format import rows as layout
from litemq.format import spans as columns
from litemq.store._append_cy import DONE, NO_QUEUE, SEGMENT_FULL

if TYPE_CHECKING:
    from collections.abc import Callable

_KIND = cython.declare(cython.Py_ssize_t, columns.KIND)
_ENTRY_COUNT = cython.declare(cython.Py_ssize_t, columns.ENTRY_COUNT)
_TOPIC_AT = cython.declare(cython.Py_ssize_t, columns.TOPIC_AT)
_TOPIC_SIZE = cython.declare(cython.Py_ssize_t, columns.TOPIC_SIZE)
_QUEUE_ID = cython.declare(cython.Py_ssize_t, columns.QUEUE_ID)
_BODY_SIZE = cython.declare(cython.Py_ssize_t, columns.BODY_SIZE)
_POSITION = cython.declare(cython.Py_ssize_t, columns.POSITION)
_STORED_SIZE = cython.declare(cython.Py_ssize_t, columns.STORED_SIZE)
_QUEUE_OFFSET = cython.declare(cython.Py_ssize_t, columns.QUEUE_OFFSET)
_STORE_TIME = cython.declare(cython.Py_ssize_t, columns.STORE_TIME)
_WIDTH = cython.declare(cython.Py_ssize_t, columns.WIDTH)
_SEND = cython.declare(cython.longlong, columns.SEND)
_BATCH = cython.declare(cython.longlong, columns.BATCH)
_ROW_POSITION = cython.declare(cython.Py_ssize_t, layout.POSITION)
_ROW_SIZE = cython.declare(cython.Py_ssize_t, layout.SIZE)
_ROW_QUEUE_OFFSET = cython.declare(cython.Py_ssize_t, layout.QUEUE_OFFSET)
_ROW_WIDTH = cython.declare(cython.Py_ssize_t, layout.WIDTH)

NOT_PLAIN = 5
"""Why a run ended, beside the reasons of ``_append_cy``: the next row is for the caller."""
WRITE_FAILED = 6
"""… the log takes no more writes."""
WANTS_LOOK = 7
"""… the store wants to look after its log first."""
_DONE = cython.declare(cython.int, DONE)
_SEGMENT_FULL = cython.declare(cython.int, SEGMENT_FULL)
_NO_QUEUE = cython.declare(cython.int, NO_QUEUE)
_NOT_PLAIN = cython.declare(cython.int, NOT_PLAIN)
_WRITE_FAILED = cython.declare(cython.int, WRITE_FAILED)
_WANTS_LOOK = cython.declare(cython.int, WANTS_LOOK)


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cclass
class PlainTopic:
    """A topic whose sends may be plain: its write queues, and the tails of those that were used."""

    if not cython.compiled:
        __slots__ = ("name", "queue_count", "tails", "topic")

    def __init__(self, topic: str, queue_count: int) -> None:
        self.topic = topic
        self.name = topic.encode()
        self.queue_count = queue_count
        self.tails: list[QueueTail | None] = [None] * queue_count


@cython.cclass
class RowAppender:
    """Appends runs of plain sends through ``batch``; ``why`` says what ended the last run.

    ``plain`` ({topic as UTF-8: PlainTopic}) is looked at, never changed.
    """

    if not cython.compiled:
        __slots__ = (
            *("batch", "failed", "finish", "index", "last", "log", "max_body", "max_record", "now_ms", "plain", "why"),
            "writer",
        )

    def __init__(
        self,
        plain: dict[bytes, PlainTopic],
        batch: Batch,
        log: LogEnd,
        index: IndexEnd,
        *,
        max_record: int,
        max_body: int,
        now_ms: Callable[[], int],
        finish: Callable[[Batch], None],
        failed: Callable[[OSError], object],
    ) -> None:
        """``finish`` does for a batch that was fed what is left, ``failed`` is told of a write that failed."""
        self.plain = plain
        self.batch = batch
        self.log = log
        self.index = index
        self.max_record = max_record
        self.max_body = max_body
        self.now_ms = now_ms
        self.finish = finish
        self.failed = failed
        self.last = PlainTopic("", 0)
        self.why = 0

    def set_writer(self, writer: SpanWriter) -> None:
        """Encode records with ``writer``: needed before the first send."""
        self.writer = writer

    def forget(self) -> None:
        """Look topics up anew: the table of plain topics changed."""
        self.last = PlainTopic("", 0)

    def is_send(self, spans: Spans, first: cython.Py_ssize_t) -> bool:
        """Return whether a row begins a send."""
        if spans is None:
            raise TypeError("spans must be a Spans, not None")
        if first < 0 or first >= spans.count:
            return False
        return spans.rows[first * _WIDTH + _KIND] == _SEND or spans.rows[first * _WIDTH + _KIND] == _BATCH

    @cython.ccall
    @cython.exceptval(-1)
    def append_ordinary(self, spans: Spans, first: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Append plain sends from row ``first`` on, as long as that needs nothing of the store but its log.

        Returns the first row that was not taken; unless ``why`` is DONE or NOT_PLAIN, ``MessageStore.append_rows``
        may take it yet.  Call ``settle`` in any case, before anything else looks at the store.
        """
        if self.log.end >= self.log.look_at:
            self.why = _WANTS_LOOK
            return first
        return self.append(spans, first)

    @cython.ccall
    @cython.exceptval(-1)
    def append(self, spans: Spans, first: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Append plain sends from row ``first`` on with one write; return the first row that was not taken.

        What was not written leaves nothing behind.  Of what was written queues and index know after ``settle``.
        """
        if spans is None:
            raise TypeError("spans must be a Spans, not None")
        batch: Batch = self.batch
        log: LogEnd = self.log
        row: cython.Py_ssize_t
        i: cython.Py_ssize_t
        s: cython.Py_ssize_t
        o: cython.Py_ssize_t = 0
        now: cython.longlong = self.now_ms()
        if now > log.last_time:
            log.last_time = now
        batch.claim()
        try:
            row = self.stage(spans, first, log.end, log.segment_end - log.end, log.last_time)
            if batch.count > 0:
                log.write_at(batch.staged(), log.end - log.segment_start)
        except OSError as error:
            batch.clear()
            self.failed(error)
            self.why = _WRITE_FAILED
            return first
        except BaseException:
            batch.clear()
            raise
        if batch.count == 0:
            batch.clear()
            return row
        log.end += batch.size
        log.writes += 1
        log.messages += batch.count
        for i in range(first, row):
            s = i * _WIDTH
            spans.rows[s + _POSITION] = batch.rows[o + _ROW_POSITION]
            spans.rows[s + _STORED_SIZE] = batch.rows[o + _ROW_SIZE]
            spans.rows[s + _QUEUE_OFFSET] = batch.rows[o + _ROW_QUEUE_OFFSET]
            spans.rows[s + _STORE_TIME] = log.last_time
            o += _ROW_WIDTH
        spans.store_address = self.writer.store_address
        return row

    @cython.ccall
    @cython.exceptval(-1)
    def settle(self) -> cython.int:
        """Feed queues and index with what was appended, and write out what has become much."""
        self.feed()
        self.tidy()
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def feed(self) -> cython.int:
        """Feed queues and index with what was appended, so that readers find it; ``tidy`` must follow."""
        batch: Batch = self.batch
        if batch.count > 0 and not batch.needs_care:
            batch.feed(self.index.tail)
            if batch.fed != batch.count:
                self.finish(batch)
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def tidy(self) -> cython.int:
        """Write out what ``feed`` made too much to be kept in memory; nobody waits for that."""
        batch: Batch = self.batch
        if batch.needs_care:
            self.finish(batch)
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def stage(
        self,
        spans: Spans,
        first: cython.Py_ssize_t,
        position: cython.longlong,
        room: cython.longlong,
        store_time: cython.longlong,
    ) -> cython.Py_ssize_t:
        """Stage plain sends from row ``first`` on; return the first row that was not, ``why`` says the reason."""
        batch: Batch = self.batch
        row: cython.Py_ssize_t = first
        i: cython.Py_ssize_t
        s: cython.Py_ssize_t
        entries: cython.Py_ssize_t
        count: cython.Py_ssize_t
        size: cython.Py_ssize_t
        self.why = _DONE
        while row < spans.count:
            s = row * _WIDTH
            if spans.rows[s + _KIND] != _SEND and spans.rows[s + _KIND] != _BATCH:
                self.why = _NOT_PLAIN
                break
            self.why = self.find_topic(spans, s)
            if self.why != _DONE:
                break
            entries = spans.rows[s + _ENTRY_COUNT]
            count = batch.count
            size = batch.size
            for i in range(entries):
                self.why = self.stage_one(spans, s + i * _WIDTH, position, room, store_time)
                if self.why != _DONE:
                    break
            if self.why != _DONE:
                if entries > 1:
                    self.unstage(count, size)
                    if self.why == _SEGMENT_FULL:
                        # All or nothing, and it may be larger than a segment: the caller sees to that.
                        self.why = _NOT_PLAIN
                break
            row += entries
        return row

    @cython.cfunc
    @cython.exceptval(-1)
    def find_topic(self, spans: Spans, s: cython.Py_ssize_t) -> cython.int:
        """Make the topic of a row the last one, and see whether its queue is there."""
        p: cython.p_uchar = spans.text
        at: cython.Py_ssize_t = spans.rows[s + _TOPIC_AT]
        size: cython.Py_ssize_t = spans.rows[s + _TOPIC_SIZE]
        queue: cython.longlong = spans.rows[s + _QUEUE_ID]
        name: bytes
        if at + size > len(spans.text):
            return _NOT_PLAIN
        if len(self.last.name) != size or not same(p, at, self.last.name, 0, size):
            if cython.compiled:
                name = cython.cast(cython.p_char, p)[at : at + size]
            else:
                name = bytes(p[at : at + size])
            found = self.plain.get(name)
            if found is None:
                return _NOT_PLAIN
            self.last = found
        if queue < 0 or queue >= self.last.queue_count:
            return _NOT_PLAIN
        if self.last.tails[cython.cast(cython.Py_ssize_t, queue)] is None:
            return _NO_QUEUE
        return _DONE

    @cython.cfunc
    @cython.exceptval(-1)
    def stage_one(
        self,
        spans: Spans,
        s: cython.Py_ssize_t,
        position: cython.longlong,
        room: cython.longlong,
        store_time: cython.longlong,
    ) -> cython.int:
        """Stage one row, whose topic and queue are known; return why not."""
        batch: Batch = self.batch
        tail: QueueTail = self.last.tails[cython.cast(cython.Py_ssize_t, spans.rows[s + _QUEUE_ID])]
        size: cython.Py_ssize_t
        if spans.rows[s + _BODY_SIZE] > self.max_body:
            return _NOT_PLAIN
        size = self.writer.plan(spans, s)
        if size == 0 or size > self.max_record:
            return _NOT_PLAIN
        if batch.size + size + (8 if self.writer.code == 1 else 0) > room:
            return _SEGMENT_FULL
        batch.make_room(size)
        if cython.compiled:
            self.writer.put(
                batch.out,
                batch.size,
                spans,
                s,
                position + batch.size,
                tail.next_offset + tail.staged,
                store_time,
                cython.address(batch.rows[0]),
                batch.count * _ROW_WIDTH,
            )
        else:
            self.writer.put(
                batch.out,
                batch.size,
                spans,
                s,
                position + batch.size,
                tail.next_offset + tail.staged,
                store_time,
                batch.rows,
                batch.count * _ROW_WIDTH,
            )
        tail.staged += 1
        batch.tails.append(tail)
        batch.count += 1
        batch.size += size
        return _DONE

    @cython.cfunc
    @cython.exceptval(-1)
    def unstage(self, count: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.int:
        """Take back what was staged behind the first ``count`` rows."""
        batch: Batch = self.batch
        tail: QueueTail
        while batch.count > count:
            tail = batch.tails.pop()
            tail.staged -= 1
            batch.count -= 1
        batch.size = size
        return 0
