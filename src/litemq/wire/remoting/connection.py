"""One connection of a remoting server, both directions: requests in, answers out, and calls of our own.

Everything runs on the event loop.  ``_receiver_cy`` has the way of the bytes.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from litemq.errors import BadFrame, NoAnswer
from litemq.wire.remoting._receiver_cy import Receiver
from litemq.wire.remoting.codes import FLAG_ONEWAY, JSON, MAX_FRAME_SIZE, Code
from litemq.wire.remoting.command import Request, Response, decode, encode_request, encode_response
from litemq.wire.remoting.status import answer_to

if TYPE_CHECKING:
    from litemq.wire.remoting.server import Server

logger = logging.getLogger(__name__)

Handler = Callable[["Connection", Request], Response | Awaitable[Response | None] | None]
"""Answers a request; None: nothing is sent, or it will be later."""

Handlers = Mapping[int, Handler]

_LARGEST_OPAQUE = 0x7FFFFFFF


class Connection(Receiver, asyncio.BufferedProtocol):
    """A peer.  Handlers get it as the one who asks; ``call`` and ``notify`` ask the peer."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.read_buffer, server.read_view)
        self.server = server
        self.peer = ""
        """Its address, ``ip:port``."""
        self.codec = JSON
        """Header codec of its last request; our own requests use it, too."""
        self.version = 0
        self.language = "OTHER"
        self.active_at = 0.0
        """Loop time of the first sweep after its last sign of life."""
        self._calls: dict[int, asyncio.Future[Response]] = {}
        self._opaque = 0
        self._tasks: set[asyncio.Future[None]] = set()
        self._stalled_at = 0.0
        self.on_lost: list[Callable[[Connection], None]] = []
        """Called once when the connection is gone."""

    @property
    def is_open(self) -> bool:
        """Return whether something can be sent."""
        return self.transport is not None and not self.transport.is_closing()

    # -- asyncio's side --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection in, or refuse it at a limit."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=self.server.limits.output_pause_bytes)
        if transport.get_extra_info("sslcontext") is None:
            self.descriptor = transport.get_extra_info("socket").fileno()
        address = transport.get_extra_info("peername") or ("0.0.0.0", 0)
        self.peer = f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"
        self.active_at = self.server.now
        if not self.server.take_in(self, address[0]):
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection: calls fail, whoever asked to know is told."""
        try:
            self.go_on()  # with what came before the end; nothing can be left for later any more
            if exc is not None:
                self._take_rest()
        finally:
            self._end()

    def _end(self) -> None:
        self.transport = None
        self.descriptor = -1
        self.server.forget(self)
        lost = NoAnswer(f"the connection of {self.peer} was lost")
        for call in self._calls.values():
            if not call.done():
                call.set_exception(lost)
        self._calls.clear()
        for task in self._tasks:
            task.cancel()
        for told in self.on_lost:
            told(self)
        self.on_lost.clear()

    def _take_rest(self) -> None:
        """Serve what had arrived before a peer closed without reading its answers: a commit, say, or a last send."""
        if self.transport is None:
            return
        with suppress(OSError):  # nothing is left, or the socket is closed
            descriptor = self.transport.get_extra_info("socket").fileno()
            while count := os.readv(descriptor, [self.get_buffer(-1)]):
                self.buffer_updated(count)

    def pause_writing(self) -> None:
        """Stop reading: the peer does not take what it asked for."""
        self.is_paused = True
        self._stalled_at = self.server.now
        if self.is_open and self.transport is not None:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        """Read on."""
        self.is_paused = False
        self.server.resume(self)

    def eof_received(self) -> bool:
        """Close when the peer does."""
        return False

    # -- frames ----------------------------------------------------------------------------------

    def take(self, buffer: bytearray, size: int) -> int:
        """Serve the whole frames of ``buffer[:size]``; return how many bytes they take.

        Raises:
            BadFrame: the bytes are no frames.
        """
        at = 0
        view = memoryview(buffer)
        while size - at >= 4:
            total = int.from_bytes(view[at : at + 4], "big") + 4
            if total > MAX_FRAME_SIZE or total < 8:
                raise BadFrame(f"a frame of {total} bytes; 8 to {MAX_FRAME_SIZE} are taken")
            if size - at < total:
                break
            self.serve(decode(view[at : at + total]))
            at += total
        return at

    def serve(self, command: Request | Response) -> None:
        """Serve one request, or hand an answer to the call that waits for it."""
        if isinstance(command, Response):
            call = self._calls.pop(command.opaque, None)
            if call is not None and not call.done():
                call.set_result(command)
            return
        self.codec, self.version, self.language = command.codec, command.version, command.language
        handler = self.server.handlers.get(command.code)
        if handler is None:
            text = f"request type {command.code} not supported"
            self.answer(command, Response(Code.REQUEST_CODE_NOT_SUPPORTED, remark=text))
            return
        try:
            answer = handler(self, command)
        except Exception as error:  # noqa: BLE001 - whatever a handler stumbles over, its peer gets an answer
            answer = answer_to(error)
        if answer is None:
            return
        if isinstance(answer, Response):
            self.answer(command, answer)
        else:
            self._answer_later(command, answer)

    def _answer_later(self, request: Request, answer: Awaitable[Response | None]) -> None:
        if len(self._tasks) >= self.server.limits.requests_in_flight:
            close = getattr(answer, "close", None)
            if close is not None:
                close()
            self.server.requests_refused += 1
            busy = (
                f"{len(self._tasks)} requests of this connection are in flight already (limits.requests_in_flight); "
                "try again in 1000 ms"
            )
            self.answer(request, Response(Code.SYSTEM_BUSY, remark=busy))
            return
        task = asyncio.ensure_future(self._wait_for(request, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wait_for(self, request: Request, answer: Awaitable[Response | None]) -> None:
        try:
            response = await answer
        except Exception as error:  # noqa: BLE001 - as in ``serve``
            response = answer_to(error)
        if response is not None:
            self.answer(request, response)

    def answer(self, request: Request, response: Response) -> None:
        """Answer a request; one that wants no answer gets none."""
        if not request.is_oneway:
            self.write(encode_response(response, opaque=request.opaque, codec=request.codec))

    def later(self) -> bool:
        """Have ``go_on`` called when the loop has looked after the others; False: it cannot be."""
        if not self.is_open or self.transport is None:
            return False
        self.is_behind = True
        self.transport.pause_reading()
        asyncio.get_running_loop().call_soon(self._go_on_reading)
        return True

    def _go_on_reading(self) -> None:
        self.go_on()
        if not self.is_behind:
            self.server.resume(self)

    def check_unread(self) -> int:
        """Close the connection when its peer leaves too much unread."""
        unread = self.transport.get_write_buffer_size() if self.transport is not None else 0
        if unread > self.server.limits.output_bytes:
            logger.warning("slow reader closed: peer=%s unread=%d", self.peer, unread)
            self.server.slow_readers += 1
            self.abort()
        return 0

    def reject(self, error: BadFrame) -> int:
        """Close the connection: what came is no frame."""
        logger.warning("connection closed: peer=%s reason=%s", self.peer, error)
        self.abort()
        return 0

    def is_stalled(self, now: float) -> bool:
        """Return whether the peer has taken nothing of what waits for it for too long."""
        return self.is_paused and now - self._stalled_at > self.server.limits.output_stall_s

    def abort(self) -> None:
        """Close at once."""
        if self.transport is not None:
            self.transport.abort()

    # -- asking the peer -------------------------------------------------------------------------

    def notify(self, code: int, ext: dict[str, str], body: bytes = b"") -> None:
        """Tell the peer something that it does not answer."""
        self.write(encode_request(self._request(code, ext, body, FLAG_ONEWAY)))

    async def call(self, code: int, ext: dict[str, str], body: bytes = b"", *, timeout_s: float) -> Response:
        """Ask the peer.

        Raises:
            NoAnswer: it did not answer in time, or the connection was lost.
        """
        request = self._request(code, ext, body, 0)
        return await self._wait_for_answer(request.opaque, encode_request(request), timeout_s)

    async def exchange(self, frame: Callable[[int], bytes], *, timeout_s: float) -> Response:
        """Ask the peer as ``call`` does, with a frame that is made for the number it gets."""
        opaque = self._next_opaque()
        return await self._wait_for_answer(opaque, frame(opaque), timeout_s)

    async def _wait_for_answer(self, opaque: int, frame: bytes, timeout_s: float) -> Response:
        if not self.is_open:
            raise NoAnswer(f"the connection of {self.peer} was lost")
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._calls[opaque] = future
        self.write(frame)
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            raise NoAnswer(f"{self.peer} did not answer within {timeout_s:g} s") from None
        finally:
            self._calls.pop(opaque, None)

    def _request(self, code: int, ext: dict[str, str], body: bytes, flag: int) -> Request:
        return Request(code, ext, body, opaque=self._next_opaque(), flag=flag, codec=self.codec)

    def _next_opaque(self) -> int:
        self._opaque = self._opaque + 1 if self._opaque < _LARGEST_OPAQUE else 1
        return self._opaque
