"""A remoting server: listeners, the connections that came in, and their limits."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import resource
import socket
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from litemq.errors import CannotListen
from litemq.wire.remoting._receiver_cy import READ_SIZE
from litemq.wire.remoting.connection import Connection, Handlers

logger = logging.getLogger(__name__)

_SWEEP_S = 1.0
_BACKLOG = 1024
_FILES_LEFT = 2 * _BACKLOG
"""Files that connections leave to others: a store that finds none free takes no more messages.  As many connections as
wait to be taken in may come at once, before the first of them is closed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """What connections may take; at a limit the newcomer, the slow or the idle one is closed."""

    connections: int = 10_000
    connections_per_address: int = 500
    """Not counted for loopback addresses."""
    requests_in_flight: int = 1_000
    """Of one connection, waiting for something else than the log; parked pulls do not count."""
    output_pause_bytes: int = 1 << 20
    """Unread output of a connection above which nothing more is read from it."""
    output_bytes: int = 16 << 20
    """… above which it is closed."""
    output_stall_s: float = 10.0
    """… or when nothing of it is taken for so long."""
    idle_s: float = 120.0


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound but takes no connection yet; port 0 chooses a free one.

    Raises:
        CannotListen: the address is taken, or not of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio switches Nagle's delay off on the connections that come in.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise CannotListen(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return bound


def _most_files() -> int:
    """Return the file number from which on no connection is taken."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if most == resource.RLIM_INFINITY else most - min(_FILES_LEFT, most // 2)


class Server:
    """Listens on any number of addresses; all connections share handlers, limits and the read buffer."""

    def __init__(
        self,
        handlers: Handlers,
        limits: ConnectionLimits | None = None,
        *,
        connection: Callable[[Server], Connection] = Connection,
    ) -> None:
        self.handlers = handlers
        self.limits = limits or ConnectionLimits()
        self.connections: set[Connection] = set()
        self.read_buffer = bytearray(READ_SIZE)
        self.read_view = memoryview(self.read_buffer)
        self.now = 0.0
        """Loop time of the last sweep: what idle and stalled connections are measured by."""
        self.refused = 0
        self.idle_closed = 0
        self.requests_refused = 0
        self.slow_readers = 0
        self._make = connection
        self._per_address: Counter[str] = Counter()
        self._listeners: list[asyncio.Server] = []
        self._sweeper: asyncio.Task[None] | None = None
        self._most_files = _most_files()
        self._is_choked = False
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    async def listen(self, host: str, port: int) -> int:
        """Listen on one more address; return the port (0 chooses a free one)."""
        return await self.serve(bind(host, port))

    async def serve(self, listening: socket.socket) -> int:
        """Take connections from a bound socket; return its port."""
        loop = asyncio.get_running_loop()
        self.now = loop.time()
        if self._sweeper is None:
            self._sweeper = loop.create_task(self._sweep(), name="litemq-connections")
        self._listeners.append(await loop.create_server(lambda: self._make(self), sock=listening, backlog=_BACKLOG))
        port: int = listening.getsockname()[1]
        return port

    def serve_rest(self) -> None:
        """Serve what connections left for later."""
        for connection in list(self.connections):
            while connection.is_behind:
                connection.go_on()

    async def close(self, *, grace_s: float = 1.0) -> None:
        """Take no more connections, let answers in hand go out, then close what is left."""
        for listener in self._listeners:
            listener.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self.connections):
            if connection.transport is not None:
                connection.transport.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._is_empty.wait()
        for connection in list(self.connections):
            connection.abort()
        for listener in self._listeners:
            await listener.wait_closed()
        self._listeners.clear()

    # -- connections -----------------------------------------------------------------------------

    def take_in(self, connection: Connection, address: str) -> bool:
        """Count a new connection; False: a limit is reached, it must go."""
        is_local = ipaddress.ip_address(address.partition("%")[0]).is_loopback
        if (
            len(self.connections) >= self.limits.connections
            or (not is_local and self._per_address[address] >= self.limits.connections_per_address)
            or not self._has_files(connection)
        ):
            self.refused += 1
            logger.warning("connection refused: peer=%s open=%d", connection.peer, len(self.connections))
            return False
        self.connections.add(connection)
        self._is_empty.clear()
        self._per_address[address] += 1
        if self._is_choked and connection.transport is not None:
            connection.transport.pause_reading()
        return True

    def _has_files(self, connection: Connection) -> bool:
        """Return whether enough files may still be opened: a new one gets the lowest number that is free."""
        opened = connection.transport.get_extra_info("socket") if connection.transport is not None else None
        return opened is None or bool(opened.fileno() < self._most_files)

    def forget(self, connection: Connection) -> None:
        """A connection is gone."""
        if connection not in self.connections:
            return
        self.connections.discard(connection)
        if not self.connections:
            self._is_empty.set()
        address = connection.peer.rpartition(":")[0].strip("[]")
        self._per_address[address] -= 1
        if self._per_address[address] <= 0:
            del self._per_address[address]

    def choke(self, is_choked: bool) -> None:
        """Stop reading from every connection, or read on: the log must be flushed before it takes more."""
        if is_choked == self._is_choked:
            return
        self._is_choked = is_choked
        for connection in self.connections:
            if is_choked and connection.is_open and connection.transport is not None:
                connection.transport.pause_reading()
            elif not is_choked:
                self.resume(connection)

    def resume(self, connection: Connection) -> None:
        """Read from a connection again, unless something else holds it."""
        if self._is_choked or connection.is_paused or connection.is_behind:
            return
        if connection.is_open and connection.transport is not None:
            connection.transport.resume_reading()

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_S)
            self.now = loop.time()
            for connection in list(self.connections):
                if connection.is_alive:
                    connection.is_alive = False
                    connection.active_at = self.now
                if connection.is_stalled(self.now):
                    logger.warning("slow reader closed: peer=%s", connection.peer)
                    self.slow_readers += 1
                    connection.abort()
                elif self.now - connection.active_at > self.limits.idle_s:
                    logger.info("idle connection closed: peer=%s", connection.peer)
                    self.idle_closed += 1
                    connection.abort()
