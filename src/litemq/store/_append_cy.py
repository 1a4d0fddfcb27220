"""Kernel: stage messages as records, and feed what is derived from records.

``Batch.stage`` turns messages into record bytes and rows; after these bytes were written, ``Batch.dispatch`` adds an
entry to the ConsumeQueue of each row and its keys to the key index.  Recovery and replicas feed rows of scanned
bytes into the same code by ``dispatch_rows``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.litemq._message_cy import Appended, Message
    from cython.cimports.litemq.format._encode_cy import Plan, plan_litemq, plan_rocketmq, put_litemq, put_rocketmq
    from cython.cimports.litemq.format._text_cy import hash_utf8, is_utf8
    from cython.cimports.litemq.store._tails_cy import IndexTail, QueueTail
else:
    from litemq._message_cy import Appended, Message
    from litemq.format._encode_cy import Plan, plan_litemq, plan_rocketmq, put_litemq, put_rocketmq
    from litemq.format._text_cy import hash_utf8, is_utf8
    from litemq.store._tails_cy import IndexTail, QueueTail

from litemq.errors import ConcurrentAppend, InvalidRequest, RecordTooLarge
from litemq.format import rows as layout
from litemq.store._tails_cy import INDEX_TAIL_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable

_POSITION = cython.declare(cython.Py_ssize_t, layout.POSITION)
_SIZE = cython.declare(cython.Py_ssize_t, layout.SIZE)
_QUEUE_ID = cython.declare(cython.Py_ssize_t, layout.QUEUE_ID)
_QUEUE_OFFSET = cython.declare(cython.Py_ssize_t, layout.QUEUE_OFFSET)
_TAG_HASH = cython.declare(cython.Py_ssize_t, layout.TAG_HASH)
_STORE_TIME = cython.declare(cython.Py_ssize_t, layout.STORE_TIME)
_STATUS = cython.declare(cython.Py_ssize_t, layout.STATUS)
_TOPIC_AT = cython.declare(cython.Py_ssize_t, layout.TOPIC_AT)
_TOPIC_SIZE = cython.declare(cython.Py_ssize_t, layout.TOPIC_SIZE)
_ID_AT = cython.declare(cython.Py_ssize_t, layout.ID_AT)
_ID_SIZE = cython.declare(cython.Py_ssize_t, layout.ID_SIZE)
_KEYS_AT = cython.declare(cython.Py_ssize_t, layout.KEYS_AT)
_KEYS_SIZE = cython.declare(cython.Py_ssize_t, layout.KEYS_SIZE)
_KEYS_COUNT = cython.declare(cython.Py_ssize_t, layout.KEYS_COUNT)
_WIDTH = cython.declare(cython.Py_ssize_t, layout.WIDTH)
_INDEX_TAIL_LIMIT = cython.declare(cython.Py_ssize_t, INDEX_TAIL_LIMIT)
_COPY_LIMIT = cython.declare(cython.Py_ssize_t, 4096)
CONCURRENT = "another thread is in the middle of an append; one thread owns a store and calls it"
# Why a step stopped.
DONE = 0
SEGMENT_FULL = 1
NO_QUEUE = 2
INDEX_FULL = 3
GAP = 4
_DONE = cython.declare(cython.int, DONE)
_SEGMENT_FULL = cython.declare(cython.int, SEGMENT_FULL)
_NO_QUEUE = cython.declare(cython.int, NO_QUEUE)
_INDEX_FULL = cython.declare(cython.int, INDEX_FULL)
_GAP = cython.declare(cython.int, GAP)


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


# -- dispatch -----------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(-1)
def key_hash(
    p: cython.pointer(cython.const[cython.uchar]),
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    tail: QueueTail,
    checked: cython.bint,
) -> cython.longlong:
    """Return Java's hash of ``topic#key``; wrong UTF-8, which only RocketMQ's text may hold, counts as U+FFFD."""
    if checked or is_utf8(p, at, end):
        return hash_utf8(p, at, end, tail.key_hash)
    data: bytes
    if cython.compiled:
        data = cython.cast(cython.p_char, p)[at:end]
    else:
        data = bytes(p[at:end])
    data = data.decode("utf-8", "replace").encode()
    return hash_utf8(data, 0, len(data), tail.key_hash)


@cython.cfunc
@cython.exceptval(-1)
def add_keys(
    p: cython.pointer(cython.const[cython.uchar]),
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
    tail: QueueTail,
    index: IndexTail,
) -> cython.int:
    """Index the message id, then every key; 0 when the file became full (``keys_done`` says how far it came)."""
    skip: cython.longlong = index.keys_done
    done: cython.longlong = 0
    at: cython.Py_ssize_t = rows[o + _KEYS_AT]
    end: cython.Py_ssize_t = at + rows[o + _KEYS_SIZE]
    start: cython.Py_ssize_t
    count: cython.longlong = rows[o + _KEYS_COUNT]
    position: cython.longlong = rows[o + _POSITION]
    time: cython.longlong = rows[o + _STORE_TIME]
    if rows[o + _ID_SIZE] > 0:
        if done >= skip:
            start = rows[o + _ID_AT]
            if not index.add(key_hash(p, start, start + rows[o + _ID_SIZE], tail, count >= 0), position, time):
                index.keys_done = done
                return 0
        done += 1
    while at < end:
        if count >= 0:  # a list of texts, each with its u16 length
            start = at + 2
            at = start + ((p[at] << 8) | p[at + 1])
        else:  # one text, split at blanks
            while at < end and p[at] == 32:
                at += 1
            start = at
            while at < end and p[at] != 32:
                at += 1
        if (count >= 0 or at > start) and done >= skip:
            if not index.add(key_hash(p, start, at, tail, count >= 0), position, time):
                index.keys_done = done
                return 0
        done += 1
    index.keys_done = 0
    return 1


@cython.cfunc
@cython.exceptval(-1)
def dispatch(
    p: cython.pointer(cython.const[cython.uchar]),
    rows: cython.p_longlong,
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    tails: list[QueueTail | None],
    index: IndexTail,
    dirty: list[QueueTail],
    full: list[QueueTail],
) -> cython.Py_ssize_t:
    """Feed rows ``first`` to ``count``; return the row at which it stopped, ``count`` when all went through.

    It stops at a full index file (``index.keys_done`` or ``index.count`` tells) and at a row whose queue offset is
    not the queue's next one.  A row without a tail (None) is passed over; a tail whose next offset is negative has
    keys but no entries here.
    """
    i: cython.Py_ssize_t
    o: cython.Py_ssize_t
    status: cython.longlong
    tail: QueueTail
    for i in range(first, count):
        o = i * _WIDTH
        item = tails[i]
        if item is None:
            continue
        tail = item
        status = rows[o + _STATUS]
        if tail.next_offset >= 0 and index.keys_done == 0 and (status == 0 or status == 2):
            if rows[o + _QUEUE_OFFSET] != tail.next_offset:
                if not (rows[o + _QUEUE_OFFSET] == tail.next_offset - 1 and rows[o + _POSITION] == tail.last_position):
                    return i
                # the row's entry is there already: it stopped behind it when the index file was full
            else:
                tail.add(rows[o + _POSITION], rows[o + _SIZE], rows[o + _TAG_HASH], rows[o + _STORE_TIME], dirty, full)
        if status != 3 and not add_keys(p, rows, o, tail, index):
            return i
    return count


def dispatch_rows(
    view: cython.const[cython.uchar][::1],
    table: cython.longlong[::1],
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    tails: list[QueueTail | None],
    index: IndexTail,
    dirty: list[QueueTail],
    full: list[QueueTail],
) -> int:
    """``dispatch`` for scanned bytes."""
    if count <= first:
        return count
    if cython.compiled:
        return dispatch(cython.address(view[0]), cython.address(table[0]), first, count, tails, index, dirty, full)
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        return dispatch(view, table, first, count, tails, index, dirty, full)


def resolve(
    view: cython.const[cython.uchar][::1],
    table: cython.longlong[::1],
    count: cython.Py_ssize_t,
    queues: dict[tuple[bytes, int], QueueTail | None],
    tails: list[QueueTail | None],
    changes: QueueTail | None,
) -> int:
    """Add the tails of the rows behind those that ``tails`` has, from ``queues`` ({(topic, queue id): tail}).

    It stops behind a row of ``changes``, and at a row whose queue is not there; returns how many rows have a tail.
    """
    i: cython.Py_ssize_t
    o: cython.Py_ssize_t
    size: cython.Py_ssize_t
    at: cython.Py_ssize_t
    key: tuple[bytes, int]
    tail: object
    for i in range(len(tails), count):
        o = i * _WIDTH
        at = table[o + _TOPIC_AT]
        size = table[o + _TOPIC_SIZE]
        if cython.compiled:
            key = (cython.cast(cython.p_char, cython.address(view[0]))[at : at + size], table[o + _QUEUE_ID])
        else:
            key = (bytes(view[at : at + size]), table[o + _QUEUE_ID])
        if key not in queues:
            return i
        tail = queues[key]
        tails.append(tail)
        if tail is changes and tail is not None:
            return i + 1
    return count


# -- staging ------------------------------------------------------------------------------------


def not_a_message(number: int, item: object) -> TypeError:
    """Return the error of something else where a message should be."""
    return TypeError(f"message {number} of the call must be a litemq.types.Message, not {type(item).__name__}")


@cython.cclass
class LogEnd:
    """Where the log is written: the end, the last segment's bounds, and the call that writes into its file.

    ``last_time`` is the store time of the newest record: the clock may step back, the log's times do not.
    From ``look_at`` on the store wants to look after its log with each append: something is due, or refused.
    """

    if not cython.compiled:
        __slots__ = (
            *("end", "last_time", "look_at", "messages", "segment_end", "segment_start", "write_at", "writes"),
        )

    def __init__(self, end: int) -> None:
        self.end = end
        self.last_time = 0
        self.look_at = 0
        self.writes = 0
        self.messages = 0

    def enter(self, segment_start: int, segment_end: int, write_at: Callable[..., None]) -> None:
        """Write into another segment from now on."""
        self.segment_start = segment_start
        self.segment_end = segment_end
        self.write_at = write_at


@cython.final
@cython.cclass
class Batch:
    """Messages on their way into the log: record bytes in ``out``, one row each, and their queues' tails.

    ``busy`` from ``claim`` to ``clear``: a call that finds it so comes from a second thread, as nothing is locked.
    ``code`` is the record format, ``store_host`` and ``store_address`` are the host of new records as text and as
    RocketMQ's bytes, ``max_record`` and ``max_body`` bound the sizes of a record and of its body.
    """

    if not cython.compiled:
        __slots__ = (
            *("busy", "code", "count", "dirty", "fed", "full", "max_body", "max_record", "needs_care", "out", "plan"),
            *("row_limit", "rows", "size", "store_address", "store_host", "table", "tails"),
        )

    def __init__(self, code: int, store_host: str, store_address: bytes, max_record: int, max_body: int) -> None:
        self.busy = False
        self.code = code
        self.store_host = store_host
        self.store_address = store_address
        self.max_record = max_record
        self.max_body = max_body
        self.out = bytearray(1 << 16)
        self.row_limit = 64
        self.table = layout.table(64)
        self.rows = self.table
        self.tails: list[QueueTail] = []
        self.dirty: list[QueueTail] = []
        self.full: list[QueueTail] = []
        self.count = 0
        self.size = 0
        self.fed = 0
        self.needs_care = False
        self.plan = Plan()

    @cython.ccall
    @cython.exceptval(-1)
    def claim(self) -> cython.int:
        """Make sure that nobody else is in the middle of an append, until ``clear``."""
        if self.busy:
            raise ConcurrentAppend(CONCURRENT)
        self.busy = True
        return 0

    def append(
        self,
        messages: list[Message],
        queues: dict[str, dict[int, QueueTail]],
        log: LogEnd,
        index: IndexTail,
    ) -> list[Appended] | None:
        """Stage, write and dispatch messages in the ordinary case: known queues, room in the segment.

        None when the case is not ordinary: nothing happened.  ``needs_care`` afterwards: dispatch came to row
        ``fed``, tails or the index want to be written out, and the batch must be cleared then.
        """
        self.claim()
        try:
            if self.stage(messages, 0, queues, log.end, log.segment_end - log.end, log.last_time) != _DONE:
                self.clear()
                return None
            log.write_at(self.staged(), log.end - log.segment_start)
        except BaseException:
            self.clear()  # what was staged before a refused message must not go out with the next one
            raise
        log.end += self.size
        log.writes += 1
        log.messages += self.count
        answer = self.results()
        self.feed(index)
        return answer

    @cython.cfunc
    def staged(self) -> object:
        """Return the staged bytes, to be written."""
        if self.size > _COPY_LIMIT:
            return memoryview(self.out)[: self.size]
        if cython.compiled:  # a small copy is cheaper than a view
            return cython.cast(cython.p_char, cython.cast(cython.p_uchar, self.out))[: self.size]
        else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
            return bytes(self.out[: self.size])

    @cython.cfunc
    @cython.exceptval(-1)
    def feed(self, index: IndexTail) -> cython.int:
        """Feed queues and index with what was written; ``needs_care`` says whether something is left to be done."""
        self.fed = self.dispatch(index, 0)
        self.needs_care = (
            self.fed != self.count or len(self.dirty) > 0 or len(self.full) > 0 or index.used >= _INDEX_TAIL_LIMIT
        )
        if not self.needs_care:
            self.clear()
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def make_room(self, size: cython.Py_ssize_t) -> cython.int:
        """Make room for one record more, of ``size`` bytes, and for its row."""
        if self.size + size > len(self.out):
            self.out.extend(bytes(max(len(self.out), size)))
        if self.count >= self.row_limit:
            self.table = self.table + layout.table(self.row_limit)
            self.rows = self.table
            self.row_limit *= 2
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def stage(
        self,
        messages: list,  # type: ignore[type-arg] # the .pxd wants it bare
        first: cython.Py_ssize_t,
        queues: dict,  # type: ignore[type-arg] # the .pxd wants it bare
        position: cython.longlong,
        room: cython.longlong,
        store_time: cython.longlong,
    ) -> cython.int:
        """Stage messages from ``first`` on, as long as they fit into ``room`` bytes of the segment.

        Returns why it stopped: DONE, SEGMENT_FULL, or NO_QUEUE when ``messages[first + count]`` names a queue that
        is not in ``queues`` ({topic: {queue id: tail}}).  An error leaves what was staged before it.
        """
        message: Message
        tail: QueueTail
        plan: Plan = self.plan
        p: cython.p_uchar = self.out
        rows: cython.p_longlong
        i: cython.Py_ssize_t
        count: cython.Py_ssize_t = self.count
        size: cython.Py_ssize_t = self.size
        offset: cython.longlong
        status: cython.int
        code: cython.int = self.code
        left: cython.Py_ssize_t = 8 if code == 1 else 0
        if cython.compiled:
            rows = cython.address(self.rows[0])
        else:
            rows = self.rows
        for i in range(first, len(messages)):
            if i >= len(messages):  # nothing compiled looks at the bounds, and some formats' texts let others run
                raise InvalidRequest("the list of messages changed while it was appended")
            item = messages[i]
            if type(item) is not Message:  # None, too, which an assignment would let pass
                raise not_a_message(i, item)
            message = cython.cast(Message, item)
            found = queues.get(message.topic)
            if found is None:
                return _NO_QUEUE
            known = cython.cast(dict, found).get(message.queue_id)
            if known is None:
                return _NO_QUEUE
            tail = known
            if code == 0:
                plan_litemq(message, self.store_host, plan)
                status = message.status
            else:
                plan_rocketmq(message, self.store_host, self.store_address, plan, True)
                status = (plan.sys_flag >> 2) & 3  # what every reader of the record goes by
            if len(message.body) > self.max_body:
                raise RecordTooLarge(what="body", size=len(message.body), limit=self.max_body)
            if plan.size > self.max_record:
                raise RecordTooLarge(what="record", size=plan.size, limit=self.max_record)
            if size + plan.size + left > room:
                return _SEGMENT_FULL
            self.make_room(plan.size)
            p = self.out
            if cython.compiled:
                rows = cython.address(self.rows[0])
            else:
                rows = self.rows
            offset = tail.next_offset + tail.staged if status == 0 or status == 2 else 0
            if code == 0:
                put_litemq(
                    p, size, message, plan, position + size, offset, store_time, self.store_host, rows, count * _WIDTH
                )
            else:
                put_rocketmq(
                    p,
                    size,
                    message,
                    plan,
                    position + size,
                    offset,
                    store_time,
                    self.store_address,
                    rows,
                    count * _WIDTH,
                )
            if status == 0 or status == 2:
                tail.staged += 1
            self.tails.append(tail)
            count += 1
            size += plan.size
            self.count = count
            self.size = size
        return _DONE

    def bytes_staged(self) -> memoryview:
        """Return the staged record bytes."""
        return memoryview(self.out)[: self.size]

    @cython.ccall
    @cython.exceptval(-1)
    def dispatch(self, index: IndexTail, first: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Feed queues and index from row ``first`` on; see the function ``dispatch``."""
        if index is None:
            raise TypeError("index must be an IndexTail, not None")
        p: cython.p_uchar = self.out
        if cython.compiled:
            return dispatch(
                p, cython.address(self.rows[0]), first, self.count, self.tails, index, self.dirty, self.full
            )
        else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
            return dispatch(p, self.rows, first, self.count, self.tails, index, self.dirty, self.full)

    @cython.ccall
    def results(self) -> list:  # type: ignore[type-arg] # the .pxd wants it bare
        """Return an ``Appended`` for each staged message."""
        i: cython.Py_ssize_t
        o: cython.Py_ssize_t
        answer: list[Appended] = []
        made: Appended
        for i in range(self.count):
            o = i * _WIDTH
            made = Appended.__new__(Appended)  # its ``__init__`` would take numbers as objects
            made.position = self.rows[o + _POSITION]
            made.end = made.position + self.rows[o + _SIZE]
            made.queue_offset = self.rows[o + _QUEUE_OFFSET]
            made.store_time = self.rows[o + _STORE_TIME]
            answer.append(made)
        return answer

    @cython.ccall
    @cython.exceptval(-1)
    def clear(self) -> cython.int:
        """Forget what was staged; offsets that were given out are free again."""
        tail: QueueTail
        for item in self.tails:
            tail = item
            tail.staged = 0
        self.tails.clear()
        self.count = 0
        self.size = 0
        self.needs_care = False
        self.busy = False
        if len(self.out) > 1 << 20:
            self.out = bytearray(1 << 16)
        if self.row_limit > 4096:
            self.row_limit = 64
            self.table = layout.table(64)
            self.rows = self.table
        return 0
