"""Kernel: serve what one read of a connection brought.

The wire's kernel splits the frames into a table, the store's kernel appends runs of plain sends from it, the wire's
kernel encodes their answers from the same table; pulls are answered or wait; whatever is not plain is served one by
one between the runs, so that the order of a connection is kept.  All answers to the plain sends of a read are one
write.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.litemq.broker._pull_cy import PullCore
    from cython.cimports.litemq.broker._sent_cy import SentCounts
    from cython.cimports.litemq.broker.faces.remoting._pulls_cy import PullTable
    from cython.cimports.litemq.format._spans_cy import Peer, Spans
    from cython.cimports.litemq.store._rows_cy import RowAppender
    from cython.cimports.litemq.wire.remoting._answers_cy import Outbox, sends
    from cython.cimports.litemq.wire.remoting._busy_poll_cy import BusyPoll
    from cython.cimports.litemq.wire.remoting._receiver_cy import Receiver
    from cython.cimports.litemq.wire.remoting._requests_cy import split
else:
    from litemq.broker._pull_cy import PullCore
    from litemq.broker._sent_cy import SentCounts
    from litemq.broker.faces.remoting._pulls_cy import PullTable
    from litemq.format._spans_cy import Peer, Spans
    from litemq.store._rows_cy import RowAppender
    from litemq.wire.remoting._answers_cy import Outbox, sends
    from litemq.wire.remoting._busy_poll_cy import BusyPoll
    from litemq.wire.remoting._receiver_cy import Receiver
    from litemq.wire.remoting._requests_cy import split

from litemq.errors import BadFrame, LiteMQError
from litemq.format import spans as columns
from litemq.store._append_cy import DONE
from litemq.store._rows_cy import NOT_PLAIN
from litemq.wire.remoting.codes import MAX_FRAME_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from litemq.broker.durability import Durability
    from litemq.store.message_store import MessageStore

_KIND = cython.declare(cython.Py_ssize_t, columns.KIND)
_ENTRY_COUNT = cython.declare(cython.Py_ssize_t, columns.ENTRY_COUNT)
_WIDTH = cython.declare(cython.Py_ssize_t, columns.WIDTH)
_SEND = cython.declare(cython.longlong, columns.SEND)
_BATCH = cython.declare(cython.longlong, columns.BATCH)
_PULL = cython.declare(cython.longlong, columns.PULL)
_FRAME_AT = cython.declare(cython.Py_ssize_t, columns.FRAME_AT)
_FULL = cython.declare(cython.int, columns.FULL)
_DONE = cython.declare(cython.int, DONE)
_NOT_PLAIN = cython.declare(cython.int, NOT_PLAIN)
_BAD_FRAME = cython.declare(cython.int, columns.BAD_FRAME)
_TURN_NS = cython.declare(cython.longlong, 100_000)
"""So long a connection's pulls may take before the loop looks after the others."""


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cclass
class Bench:
    """What all connections of a broker work with, one read after the other."""

    if not cython.compiled:
        __slots__ = ("busy_poll", "durability", "now_ns", "outbox", "puller", "rows", "sent", "spans", "store", "woken")

    def __init__(
        self,
        store: MessageStore,
        durability: Durability,
        puller: PullCore,
        busy_poll: BusyPoll,
        sent: SentCounts,
        now_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.store = store
        self.rows: RowAppender = store.plain.rows
        self.durability = durability
        self.puller = puller
        self.woken = store.woken
        self.busy_poll = busy_poll
        self.sent = sent
        self.now_ns = now_ns
        self.spans = Spans()
        self.outbox = Outbox()


@cython.cclass
class RowReceiver(Receiver):  # type: ignore[misc] # what is cimported has no type
    """The part of a broker's connection that serves rows; a subclass serves what is not plain.

    ``drains``: the last read had a pull that found messages at once.  Whoever reads a backlog does not wait for the
    next message, so the loop need not either.
    """

    if not cython.compiled:
        __slots__ = ("bench", "drains", "pulls", "sender")

    def set_up(self, bench: Bench, pulls: PullTable) -> None:
        """Give the connection what it works with."""
        self.bench = bench
        self.pulls = pulls
        self.drains = False
        self.sender = Peer("0.0.0.0:0")

    def set_sender(self, peer: str) -> None:
        """Name the peer, ``ip:port``."""
        self.sender = Peer(peer)

    # -- for a subclass --------------------------------------------------------------------------

    @cython.ccall
    @cython.exceptval(-1)
    def serve_row(self, spans: Spans, row: cython.Py_ssize_t) -> cython.int:
        """Serve a request that is not plain; return how many rows were, if their answers are in the outbox, else 0."""
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def refuse_row(self, spans: Spans, row: cython.Py_ssize_t, error: LiteMQError) -> cython.int:
        """Tell why a request is refused."""
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def hold(self, answers: bytes) -> cython.int:
        """Send answers when the log is as durable as they promise."""
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def choke(self) -> cython.int:
        """Read no more until the log is flushed."""
        return 0

    # -- one read --------------------------------------------------------------------------------

    @cython.ccall
    @cython.exceptval(-1)
    def take(self, buffer: bytearray, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Serve the whole frames of ``buffer[:size]``; return how many bytes they take.

        Raises:
            BadFrame: the bytes are no frames.
        """
        spans: Spans = self.bench.spans
        at: cython.Py_ssize_t = 0
        count: cython.Py_ssize_t = 0
        served: cython.Py_ssize_t
        spans.data = buffer
        spans.peer = self.sender
        self.drains = False
        while True:
            at += split(spans, at, size - at)
            count += spans.count
            if spans.count > 0:
                served = self.serve_rows(spans)
                if served < spans.count:
                    at = spans.rows[served * _WIDTH + _FRAME_AT]
                    break
            if spans.status != _FULL:
                break
        if spans.status == _BAD_FRAME and not self.is_behind:
            raise BadFrame(f"what follows is no frame of at most {MAX_FRAME_SIZE} bytes")
        self.bench.busy_poll.note(0 if self.drains else count, self)
        return at

    @cython.cfunc
    @cython.exceptval(-1)
    def serve_rows(self, spans: Spans) -> cython.Py_ssize_t:
        """Serve all rows, or those before the one that is returned: the loop calls ``go_on`` for the others."""
        store: object = self.bench.store
        first: cython.Py_ssize_t = 0
        done: cython.Py_ssize_t
        count: cython.Py_ssize_t = spans.count
        kind: cython.longlong
        found: cython.longlong
        since: cython.longlong = 0
        together: cython.int
        stored: cython.bint = False
        rows: RowAppender = self.bench.rows
        refuses: cython.bint = self.bench.durability.waits and self.bench.durability.is_full
        try:
            while first < count:
                done = first
                kind = spans.rows[first * _WIDTH + _KIND]
                if (kind == _SEND or kind == _BATCH) and not refuses:
                    try:
                        done = rows.append_ordinary(spans, first)
                        if rows.why != _DONE and rows.why != _NOT_PLAIN:
                            rows.settle()
                            done = store.append_rows(spans, done)  # type: ignore[attr-defined] # object, to the compiler
                    except LiteMQError:
                        pass  # Python's way meets the same error, and tells the client
                if done > first:
                    stored = True
                    self.bench.sent.note_rows(spans, first, done)
                    sends(spans, first, done, self.bench.outbox)
                if done < count:
                    rows.settle()
                    if spans.rows[done * _WIDTH + _KIND] == _PULL:
                        found = self.bench.puller.found
                        if since == 0:
                            since = self.bench.now_ns()
                        try:
                            self.pulls.serve(spans, done)
                        except LiteMQError as error:
                            self.refuse_row(spans, done, error)
                        if self.bench.puller.found > found:
                            self.drains = True
                        if done + 1 < count and self.bench.now_ns() - since > _TURN_NS and self.later():
                            return done + 1
                    else:
                        together = self.serve_row(spans, done)
                        if together > 0:
                            stored = True
                            done += together - 1  # the last of them has one entry
                    done += spans.rows[done * _WIDTH + _ENTRY_COUNT]
                first = done
        finally:
            if stored:  # whatever became of the others: the outbox is shared
                self.finish(count == 1)
        return count

    @cython.cfunc
    @cython.exceptval(-1)
    def finish(self, is_single: cython.bint) -> cython.int:
        """Send the answers to the plain sends of one read, and wake who waits for their messages."""
        bench: Bench = self.bench
        answers: bytes = bench.outbox.take()
        if bench.durability.waits:
            bench.rows.settle()
            self.hold(answers)
        else:
            try:
                self.tell(answers, is_single and not self.has_just_come)
            finally:
                bench.rows.tidy()
        if bench.rows.log.end >= bench.rows.log.look_at:
            bench.store.look_after_log()
            if bench.store.is_choked:
                self.choke()
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def tell(self, answers: bytes, sleeps: cython.bint) -> cython.int:
        """Send the answers and wake the pulls.  A client that ``sleeps`` gets both by one awakening."""
        bench: Bench = self.bench
        if sleeps:
            bench.rows.feed()
            try:
                if bench.woken:
                    bench.puller.wake()
            finally:
                if answers:
                    self.write(answers)
        else:
            try:  # the answers first: their client can go on
                if answers:
                    self.write(answers)
            finally:
                bench.rows.feed()
            if bench.woken:
                bench.puller.wake()
        return 0
