"""Answers that wait until what they promise is on disk.

With ``async`` an answer goes out at once.  Otherwise the answers of one read are one buffer with the log position that
must be flushed first; buffers leave in the order of their positions.  A flush that takes too long turns waiting
answers into "stored, not flushed in time"; a flush that fails into "the store takes no more".
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from litemq.errors import FlushFailed, LiteMQError
from litemq.store.message_store import MessageStore
from litemq.wire.remoting.codes import Code
from litemq.wire.remoting.command import Response, decode, encode_response
from litemq.wire.remoting.connection import Connection
from litemq.wire.remoting.status import answer_to

logger = logging.getLogger(__name__)


_HELD_BYTES = 256
"""Of each waiting buffer, beside its own bytes."""


def _nothing() -> None:
    """Nobody waits."""


@dataclass(slots=True)
class _Held:
    end: int
    since_ms: int
    connection: Connection
    data: bytes


class Durability:
    """Holds answers back.  Called on the loop; only ``_flushed`` comes from the flush thread."""

    def __init__(
        self,
        store: MessageStore,
        *,
        policy: str,
        timeout_ms: int,
        limit_bytes: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._store = store
        self.limit_bytes = limit_bytes
        """Memory of waiting answers above which no more should be made."""
        self.held_bytes = 0
        self.waits = policy != "async"
        """Whether answers wait at all."""
        self._timeout_ms = timeout_ms
        self._held: deque[_Held] = deque()
        self._loop = loop
        self.on_readable: Callable[[], None] = _nothing
        """Called on the loop when more of the log has become readable."""
        self.timeouts = 0
        store.on_flushed(self._flushed)

    def __len__(self) -> int:
        return len(self._held)

    @property
    def is_full(self) -> bool:
        """Return whether so much waits that nothing more should be promised."""
        return self.held_bytes >= self.limit_bytes

    def hold(self, end: int, connection: Connection, data: bytes, *, now_ms: int) -> None:
        """Send ``data`` when everything before ``end`` is flushed."""
        if not self.waits or self._store.flushed_end >= end:
            connection.write(data)
            return
        self._held.append(_Held(end, now_ms, connection, data))
        self.held_bytes += len(data) + _HELD_BYTES
        self._store.ask_flush()

    def _flushed(self, _end: int) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.release)

    def release(self) -> None:
        """Send what no longer has to wait."""
        flushed = self._store.flushed_end
        held = self._held
        while held and held[0].end <= flushed:
            item = self._take()
            item.connection.write(item.data)
        if held:
            self._store.ask_flush()
        self.on_readable()

    def _take(self) -> _Held:
        item = self._held.popleft()
        self.held_bytes -= len(item.data) + _HELD_BYTES
        return item

    def expire(self, now_ms: int) -> None:
        """Answer those that waited too long, and all of them when there will be no flush any more."""
        failure = self._store.failure
        if failure is not None and self._held:
            self._answer_all(failure)
        while self._held and now_ms - self._held[0].since_ms > self._timeout_ms:
            item = self._take()
            self.timeouts += 1
            late = Response(Code.FLUSH_DISK_TIMEOUT, remark="stored, but not flushed in time")
            item.connection.write(_with_code(item.data, late))

    def _answer_all(self, failure: LiteMQError) -> None:
        logger.error("answers given up: count=%d reason=%s", len(self._held), failure)
        refusal = answer_to(failure if isinstance(failure, FlushFailed) else FlushFailed(str(failure)))
        while self._held:
            item = self._take()
            item.connection.write(_with_code(item.data, refusal))


def _with_code(data: bytes, response: Response) -> bytes:
    """Return the same answers with another code: those that say stored say something else now."""
    frames = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big") + 4
        read = decode(data[at : at + size])
        if isinstance(read, Response) and read.code == Code.SUCCESS:
            changed = Response(response.code, read.ext, read.body, response.remark)
            frames.append(encode_response(changed, opaque=read.opaque, codec=data[at + 4]))
        else:
            frames.append(data[at : at + size])
        at += size
    return b"".join(frames)
