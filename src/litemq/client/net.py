"""The network as the SDK's core sees it, and its two shells: sockets of the caller's thread, and an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable
from typing import Protocol

from litemq.client._sends_cy import plain_answer
from litemq.errors import BadFrame, Closed, NoAnswer, OutcomeUnknown
from litemq.wire.remoting.client import Client
from litemq.wire.remoting.codes import FLAG_ONEWAY, MAX_FRAME_SIZE
from litemq.wire.remoting.command import Request, Response, decode, encode_request
from litemq.wire.remoting.connection import Handlers

_CONNECT_S = 2.5
_NO_HANDLERS: Handlers = {}
_STALE_S = 1.0
"""A connection that was not used for so long is looked at before it is used: its server may have gone."""
_READ_SIZE = 1 << 18

_opaques = itertools.count(1)


def next_opaque() -> int:
    """Return a number that tells a request from the others in flight."""
    return next(_opaques) & 0x7FFFFFFF


MakeFrame = Callable[[int], bytes]
"""Returns the frame of a request with this opaque."""


class Net(Protocol):
    """Requests to servers, named by ``host:port``; times are seconds."""

    async def call(self, address: str, request: Request, timeout: float) -> Response:
        """Ask a server and return what it says, whatever it is.

        Raises:
            NoAnswer: it cannot be reached; nothing was sent.
            OutcomeUnknown: the request was sent, and no answer came.
        """
        ...

    async def tell(self, address: str, request: Request) -> None:
        """Tell a server something that it does not answer."""
        ...

    async def exchange(self, address: str, frame: MakeFrame, timeout: float) -> Response:
        """Ask as ``call`` does, with a frame that is made for the number it gets."""
        ...

    async def post(self, address: str, frame: MakeFrame) -> None:
        """Tell as ``tell`` does, with a frame that is made for the number it gets."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def now(self) -> float:
        """Return monotonic seconds."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


def host_and_port(address: str) -> tuple[str, int]:
    """Return the parts of ``host:port``."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


class Idle:
    """A connection, when it was used last, and how long its calls may wait."""

    __slots__ = ("_limit", "socket", "used")

    def __init__(self, connection: socket.socket, timeout: float) -> None:
        self.socket = connection
        self.used = 0.0
        self._limit = float("-inf")
        self.limit_to(timeout)

    def limit_to(self, timeout: float) -> None:
        """Let calls wait for so long; what is nearly that already is left alone."""
        if -0.01 <= timeout - self._limit <= 0.05:
            return
        self._limit = timeout = max(timeout, 0.001)
        packed = struct.pack("ll", int(timeout), int(timeout % 1 * 1_000_000))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, packed)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, packed)


class BlockingNet:
    """Sockets that the caller's thread writes and reads; as many for a server as threads ask it at once."""

    def __init__(self) -> None:
        self._idle: dict[str, list[Idle]] = {}
        self._pid = os.getpid()
        self._is_closed = False

    async def call(self, address: str, request: Request, timeout: float) -> Response:
        """Ask a server."""

        def frame(opaque: int) -> bytes:
            request.opaque = opaque
            return encode_request(request)

        return self._exchange(address, frame, timeout)

    async def tell(self, address: str, request: Request) -> None:
        """Tell a server something."""
        request.flag |= FLAG_ONEWAY
        self._send(address, encode_request(request), _CONNECT_S)

    async def exchange(self, address: str, frame: MakeFrame, timeout: float) -> Response:
        """Ask a server."""
        return self._exchange(address, frame, timeout)

    async def post(self, address: str, frame: MakeFrame) -> None:
        """Tell a server something."""
        self._send(address, frame(next_opaque()), _CONNECT_S)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def now(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    async def close(self) -> None:
        """Close the connections that nobody uses; the others close when their call is done."""
        self._is_closed = True
        self._drop_all()

    def _send(self, address: str, frame: bytes, timeout: float) -> None:
        """Write a frame that is not answered."""
        connection = self.take(address, timeout)
        try:
            connection.socket.sendall(frame)
        except BaseException as error:
            connection.socket.close()
            if isinstance(error, OSError):
                raise NoAnswer(f"{address} closed the connection: {error}") from error
            raise
        self.give_back(address, connection)

    def _exchange(self, address: str, frame: MakeFrame, timeout: float) -> Response:
        """Write a frame and return its answer; anything else that arrives meanwhile is dropped.

        Raises:
            NoAnswer: the server cannot be reached.
            OutcomeUnknown: it was sent, and no answer came.
        """
        deadline = time.monotonic() + timeout
        opaque = next_opaque()
        data = frame(opaque)
        connection = self.take(address, timeout)
        received = b""
        try:
            connection.socket.sendall(data)
            while True:
                more = connection.socket.recv(_READ_SIZE)
                if not more:
                    raise ConnectionResetError("the connection was closed")
                received = received + more if received else more
                while len(received) >= 4:
                    whole = int.from_bytes(received[:4], "big") + 4
                    if whole > MAX_FRAME_SIZE or whole < 8:
                        raise BadFrame(f"{address} sent a frame of {whole} bytes; is it a LiteMQ broker?")
                    if len(received) < whole:
                        break
                    answer = plain_answer(received, whole) or decode(received[:whole])
                    received = received[whole:]
                    if isinstance(answer, Response) and answer.opaque == opaque:
                        self.give_back(address, connection)
                        return answer
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                connection.limit_to(left)
        except BaseException as error:
            connection.socket.close()
            if isinstance(error, OSError):  # TimeoutError is one, and so is what a socket's own limit raises
                late = isinstance(error, TimeoutError | BlockingIOError)
                what = f"did not answer within {timeout:.3g} s" if late else str(error.strerror or error)
                raise OutcomeUnknown(f"{address}: {what}; what was asked may have been done") from error
            raise

    def take(self, address: str, timeout: float) -> Idle:
        """Return a connection that nobody uses, a new one if need be; waits of its calls end after ``timeout``."""
        if self._is_closed:
            raise Closed("it is closed; make a new one")
        if self._pid != os.getpid():
            self._forget_parents()
        idle = self._idle.get(address)
        while idle:
            one = idle.pop()
            if time.monotonic() - one.used > _STALE_S and not _is_alive(one.socket):
                one.socket.close()
                continue
            one.limit_to(timeout)
            return one
        began = time.monotonic()
        made = self._connect(address, timeout)
        return Idle(made, timeout - (time.monotonic() - began))

    def give_back(self, address: str, connection: Idle) -> None:
        """Keep a connection for the next who asks."""
        if self._is_closed:
            connection.socket.close()
            return
        connection.used = time.monotonic()
        idle = self._idle.get(address)
        if idle is None:
            idle = self._idle.setdefault(address, [])
        idle.append(connection)

    def _connect(self, address: str, timeout: float) -> socket.socket:
        try:
            connection = socket.create_connection(host_and_port(address), max(0.001, min(timeout, _CONNECT_S)))
        except OSError as error:
            raise NoAnswer(f"{address} cannot be reached: {error.strerror or error}") from error
        connection.setblocking(True)  # limits are the kernel's own from here on: one call less for each wait
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _forget_parents(self) -> None:
        """Forget connections made before a fork: they are the parent's."""
        self._pid = os.getpid()
        self._drop_all()

    def _drop_all(self) -> None:
        for idle in list(self._idle.values()):
            while idle:
                idle.pop().socket.close()


def _is_alive(connection: socket.socket) -> bool:
    """Return whether the other end is still there: nothing is to be read, and no end."""
    try:
        connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


class LoopNet:
    """Connections of the running event loop, one for each server; ``handlers`` answer what servers ask."""

    def __init__(self, handlers: Handlers = _NO_HANDLERS, on_lost: Callable[[str], None] | None = None) -> None:
        self._handlers = handlers
        self._on_lost = on_lost
        self._clients: dict[str, Client] = {}
        self._is_closed = False

    async def call(self, address: str, request: Request, timeout: float) -> Response:
        """Ask a server."""
        connection = await self._client(address).connected(timeout)
        try:
            return await connection.call(request.code, request.ext, request.body, timeout_s=timeout)
        except NoAnswer as error:
            raise OutcomeUnknown(f"{error}; what was asked may have been done") from error

    async def tell(self, address: str, request: Request) -> None:
        """Tell a server something."""
        connection = await self._client(address).connected(_CONNECT_S)
        connection.notify(request.code, request.ext, request.body)

    async def exchange(self, address: str, frame: MakeFrame, timeout: float) -> Response:
        """Ask a server."""
        connection = await self._client(address).connected(timeout)
        try:
            return await connection.exchange(frame, timeout_s=timeout)
        except NoAnswer as error:
            raise OutcomeUnknown(f"{error}; what was asked may have been done") from error

    async def post(self, address: str, frame: MakeFrame) -> None:
        """Tell a server something."""
        connection = await self._client(address).connected(_CONNECT_S)
        connection.write(frame(next_opaque()))

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    def now(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    async def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        await asyncio.sleep(0)  # they close in the loop's next round

    def _client(self, address: str) -> Client:
        if self._is_closed:
            raise Closed("it is closed; make a new one")
        client = self._clients.get(address)
        if client is None:
            told = self._on_lost
            on_lost = None if told is None else lambda: told(address)
            client = self._clients[address] = Client(address, self._handlers, on_lost=on_lost)
        return client


class LoopThread:
    """An event loop on a thread of its own, for the blocking face of what must work while nobody calls it."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()
        self._end = weakref.finalize(self, self.loop.call_soon_threadsafe, self.loop.stop)

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            with contextlib.suppress(Exception):
                self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    def stop(self) -> None:
        """End the loop and its thread."""
        if self._end.detach():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
