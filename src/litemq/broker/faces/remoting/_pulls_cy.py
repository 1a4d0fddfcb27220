"""Kernel: the pulls of one connection, from the rows of a read to the bytes of their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.litemq.broker._pull_cy import Pull, PullCore
    from cython.cimports.litemq.format._byte_order_h import copy, put64
    from cython.cimports.litemq.format._spans_cy import Spans
    from cython.cimports.litemq.store._slice_cy import Pulled
    from cython.cimports.litemq.wire.remoting._answers_cy import put_pull_head
else:
    from litemq.broker._pull_cy import Pull, PullCore
    from litemq.format._spans_cy import Spans
    from litemq.format.byte_order import copy, put64
    from litemq.store._slice_cy import Pulled
    from litemq.wire.remoting._answers_cy import put_pull_head

from litemq.broker._pull_cy import HEAD_ROOM, Verdict
from litemq.format import spans as columns
from litemq.wire.remoting.codes import Code
from litemq.wire.remoting.command import encode_response
from litemq.wire.remoting.status import answer_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from litemq.broker.offsets import Offsets
    from litemq.errors import LiteMQError
    from litemq.features.filters import Filter
    from litemq.wire.remoting.connection import Connection

COMMITS = 1
PARKS = 2
HAS_SUBSCRIPTION = 4

_COMMITS = cython.declare(cython.longlong, COMMITS)
_HEAD_ROOM = cython.declare(cython.Py_ssize_t, HEAD_ROOM)
_MOST_KEPT = cython.declare(cython.Py_ssize_t, 1024)  # of one connection
_MOST_KEPT_OF_ALL = cython.declare(cython.longlong, 20_000)  # about 30 MB, whatever clients ask
_LONGEST_KEY = cython.declare(cython.Py_ssize_t, 640)

_CODEC = cython.declare(cython.Py_ssize_t, columns.CODEC)
_OPAQUE = cython.declare(cython.Py_ssize_t, columns.OPAQUE)
_OFFSET = cython.declare(cython.Py_ssize_t, columns.OFFSET)
_COMMIT_OFFSET = cython.declare(cython.Py_ssize_t, columns.COMMIT_OFFSET)
_SYS_FLAG = cython.declare(cython.Py_ssize_t, columns.SYS_FLAG)
_WIDTH = cython.declare(cython.Py_ssize_t, columns.WIDTH)
_QUEUE_ID = cython.declare(cython.Py_ssize_t, columns.QUEUE_ID)
_MAX_COUNT = cython.declare(cython.Py_ssize_t, columns.MAX_COUNT)
_MAX_BYTES = cython.declare(cython.Py_ssize_t, columns.MAX_BYTES)
_SUSPEND_MS = cython.declare(cython.Py_ssize_t, columns.SUSPEND_MS)
_RECORD_FORMAT = cython.declare(cython.Py_ssize_t, columns.RECORD_FORMAT)
_GROUP_AT = cython.declare(cython.Py_ssize_t, columns.GROUP_AT)
_TOPIC_AT = cython.declare(cython.Py_ssize_t, columns.TOPIC_AT)
_SUBSCRIPTION_AT = cython.declare(cython.Py_ssize_t, columns.SUBSCRIPTION_AT)
_EXPRESSION_AT = cython.declare(cython.Py_ssize_t, columns.EXPRESSION_AT)

_CODES = {
    Verdict.NOTHING: Code.PULL_NOT_FOUND,
    Verdict.NO_MATCH: Code.PULL_RETRY_IMMEDIATELY,
    Verdict.MOVED: Code.PULL_OFFSET_MOVED,
}


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cclass
class RemotingPull(Pull):  # type: ignore[misc] # what is cimported has no type
    """A pull that is answered with frames on its connection; ``codec`` and ``opaque`` are those of its last request."""

    if not cython.compiled:
        __slots__ = ("codec", "connection", "opaque")

    def __init__(
        self,
        connection: Connection,
        group: str,
        topic: str,
        queue_id: int,
        wanted: Filter,
        *,
        max_count: int,
        max_bytes: int,
        park_ms: int,
        as_rocketmq: bool,
    ) -> None:
        super().__init__(
            connection,
            group,
            topic,
            queue_id,
            wanted,
            max_count=max_count,
            max_bytes=max_bytes,
            park_ms=park_ms,
            as_rocketmq=as_rocketmq,
        )
        self.connection = connection
        self.codec = 0
        self.opaque = 0

    @cython.ccall
    @cython.exceptval(-1)
    def give(self, pulled: Pulled) -> cython.int:
        """Write header and records as one buffer."""
        start: cython.Py_ssize_t = put_pull_head(
            pulled.buffer,
            _HEAD_ROOM,
            len(pulled.buffer) - _HEAD_ROOM,
            self.codec,
            0,
            self.opaque,
            pulled.next_offset,
            pulled.min_offset,
            pulled.max_offset,
        )
        self.connection.write(memoryview(pulled.buffer)[start:])
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def tell(
        self, verdict: object, next_offset: cython.longlong, low: cython.longlong, high: cython.longlong
    ) -> cython.int:
        """Write an answer without records."""
        frame = bytearray(_HEAD_ROOM)
        code: cython.longlong = _CODES[verdict]  # type: ignore[index] # a ``Verdict``
        start: cython.Py_ssize_t = put_pull_head(
            frame, _HEAD_ROOM, 0, self.codec, code, self.opaque, next_offset, low, high
        )
        self.connection.write(memoryview(frame)[start:])
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def refuse(self, error: LiteMQError) -> cython.int:
        """Write why there is no answer."""
        self.connection.write(encode_response(answer_to(error), opaque=self.opaque, codec=self.codec))
        return 0


@cython.cclass
class PullTable:
    """The pulls that a connection asked: who asks the same again, at another offset, is not checked again.

    ``prepare`` makes and checks the pull of a row.
    """

    if not cython.compiled:
        __slots__ = ("key", "known", "offsets", "prepare", "puller")

    def __init__(self, puller: PullCore, offsets: Offsets, prepare: Callable[[Spans, int], RemotingPull]) -> None:
        self.puller = puller
        self.offsets = offsets
        self.prepare = prepare
        self.known: dict[bytes, RemotingPull] = {}
        self.key = bytearray(_LONGEST_KEY)

    @cython.ccall
    @cython.exceptval(-1)
    def clear(self) -> cython.int:
        """Forget all pulls."""
        self.puller.kept -= len(self.known)
        self.known.clear()
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def serve(self, spans: Spans, row: cython.Py_ssize_t) -> cython.int:
        """Answer the pull in a row, now or later.

        Raises:
            LiteMQError: it is refused.
        """
        if spans is None or row < 0 or row >= spans.count:
            raise IndexError(f"there is no row {row}")
        o: cython.Py_ssize_t = row * _WIDTH
        key: bytes = self.key_of(spans, o)
        pull: RemotingPull | None = self.known.get(key)
        if pull is None or pull.checked != self.puller.generation or pull.is_busy:
            pull = self.prepare(spans, row)
            self.keep(key, pull)
        pull.codec = spans.rows[o + _CODEC]
        pull.opaque = spans.rows[o + _OPAQUE]
        pull.offset = spans.rows[o + _OFFSET]
        if spans.rows[o + _SYS_FLAG] & _COMMITS:
            self.offsets.commit(pull.group, pull.topic, pull.queue_id, max(spans.rows[o + _COMMIT_OFFSET], 0))
        return self.puller.pull(pull)

    @cython.cfunc
    @cython.exceptval(-1)
    def keep(self, key: bytes, pull: RemotingPull) -> cython.int:
        """Remember a pull, within bounds."""
        if len(self.known) >= _MOST_KEPT:
            self.clear()
        if key not in self.known:
            if not key or self.puller.kept >= _MOST_KEPT_OF_ALL:
                return 0
            self.puller.kept += 1
        self.known[key] = pull
        return 0

    @cython.cfunc
    def key_of(self, spans: Spans, o: cython.Py_ssize_t) -> bytes:
        """Return what two requests have in common that are the same pull; empty when that is too long."""
        at: cython.Py_ssize_t = 0
        p: cython.p_uchar = self.key
        put64(p, 0, spans.rows[o + _QUEUE_ID])
        put64(p, 8, spans.rows[o + _SYS_FLAG])
        put64(p, 16, spans.rows[o + _MAX_COUNT])
        put64(p, 24, spans.rows[o + _MAX_BYTES])
        put64(p, 32, spans.rows[o + _SUSPEND_MS])
        put64(p, 40, spans.rows[o + _RECORD_FORMAT])
        at = self.put_text(spans, o + _GROUP_AT, 48)
        at = self.put_text(spans, o + _TOPIC_AT, at)
        at = self.put_text(spans, o + _SUBSCRIPTION_AT, at)
        at = self.put_text(spans, o + _EXPRESSION_AT, at)
        if at < 0:
            return b""
        if cython.compiled:
            return cython.cast(cython.p_char, p)[:at]
        else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
            return bytes(p[:at])

    @cython.cfunc
    @cython.exceptval(check=False)
    def put_text(self, spans: Spans, cell: cython.Py_ssize_t, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Put a text with its size into the key; return the place behind it, -1 when there is no room."""
        size: cython.longlong = spans.rows[cell + 1]
        if at < 0 or size > _LONGEST_KEY - at - 8:
            return -1
        p: cython.p_uchar = self.key
        text: cython.p_uchar = spans.text
        put64(p, at, size)
        copy(p, at + 8, text, spans.rows[cell], size)
        return at + 8 + size
