"""A running name server: the core behind a listener, and the timer that looks for expired brokers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from litemq.clock import Clock, SystemClock
from litemq.config import NameserverConfig
from litemq.nameserver.kv import KeyValues
from litemq.nameserver.routes import Routes
from litemq.nameserver.service import Service
from litemq.store.fs import FileSystem
from litemq.wire.remoting.connection import Connection
from litemq.wire.remoting.server import ConnectionLimits, Server


class NameServer:
    """Starts, serves, stops; made within the event loop that serves it."""

    def __init__(
        self,
        config: NameserverConfig | None = None,
        *,
        clock: Clock | None = None,
        fs: FileSystem | None = None,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self.config = config or NameserverConfig()
        self.port = self.config.port
        """Where it listens, once it is started."""
        self._clock = clock or SystemClock()
        self._kv = KeyValues(self.config.data, fs)
        self._service = Service(self.config, self._kv, self._clock)
        self._server = Server(self._service.handlers(), limits)
        self._scanner: asyncio.Task[None] | None = None

    @property
    def routes(self) -> Routes:
        """Return the core, to look at."""
        return self._service.routes

    async def start(self) -> None:
        """Read the key/value config and listen.

        Raises:
            BadStore: the key/value config cannot be read.
            CannotListen: the address is in use, or not of this machine.
        """
        self._kv.load()
        self.port = await self._server.listen(self.config.listen, self.config.port)
        self._service.config = replace(self._service.config, port=self.port)
        self._scanner = asyncio.get_running_loop().create_task(self._scan(), name="litemq-nameserver-scan")

    async def close(self) -> None:
        """Stop listening and close all connections."""
        if self._scanner is not None:
            self._scanner.cancel()
            with suppress(asyncio.CancelledError):
                await self._scanner
            self._scanner = None
        await self._server.close()
        await self._kv.close()

    def expire(self) -> None:
        """Remove brokers that gave no sign of life for too long, and close their connections."""
        for owner in self.routes.expire(self._clock.monotonic_ms()):
            if isinstance(owner, Connection):
                owner.abort()

    async def _scan(self) -> None:
        changed = self._service.config_changed
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._service.config.scan_interval_ms / 1000):
                    await changed.wait()
            changed.clear()
            self.expire()
