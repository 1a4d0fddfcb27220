"""A small client: one connection to a remoting server, for brokers that register and for tools.

It reconnects when asked to call after the connection was lost; it answers the server's own requests by ``handlers``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from litemq.errors import NoAnswer
from litemq.wire.remoting.command import Response
from litemq.wire.remoting.connection import Connection, Handlers
from litemq.wire.remoting.server import ConnectionLimits, Server

_CONNECT_S = 3.0
_NO_HANDLERS: Handlers = {}


class Client:
    """Calls one server; ``address`` is ``host:port``, ``on_lost`` is called whenever the connection is gone."""

    def __init__(
        self, address: str, handlers: Handlers = _NO_HANDLERS, *, on_lost: Callable[[], None] | None = None
    ) -> None:
        self.address = address
        self._on_lost = on_lost
        self._end = Server(handlers, ConnectionLimits(idle_s=float("inf")))
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()

    async def call(self, code: int, ext: dict[str, str], body: bytes = b"", *, timeout_s: float = 3.0) -> Response:
        """Ask the server; connects first when needed.

        Raises:
            NoAnswer: it cannot be reached, did not answer in time, or went away.
        """
        connection = await self.connected()
        return await connection.call(code, ext, body, timeout_s=timeout_s)

    async def connected(self, timeout_s: float = _CONNECT_S) -> Connection:
        """Return the connection, a new one when there is none.

        Raises:
            NoAnswer: the server cannot be reached.
        """
        async with self._connecting:
            if self._connection is not None and self._connection.is_open:
                return self._connection
            host, _, port = self.address.rpartition(":")
            loop = asyncio.get_running_loop()
            try:
                async with asyncio.timeout(min(timeout_s, _CONNECT_S)):
                    _, self._connection = await loop.create_connection(
                        lambda: Connection(self._end), host.strip("[]"), int(port)
                    )
            except (OSError, TimeoutError) as error:
                raise NoAnswer(f"{self.address} cannot be reached: {error}") from error
            if self._on_lost is not None:
                told = self._on_lost
                self._connection.on_lost.append(lambda _: told())
            return self._connection

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None and self._connection.transport is not None:
            self._connection.transport.close()
