"""Keeps a client known to brokers by heartbeats, so that they can ask it something."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final

from litemq.client.answers import check
from litemq.client.net import Net
from litemq.errors import InvalidRequest, LiteMQError
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Request

logger = logging.getLogger(__name__)

BEAT_S: Final = 20.0
_AGAIN_S: Final = 1.0
"""So long a broker that did not answer is left alone."""
_ASK_S: Final = 3.0
_WARN_S: Final = 30.0


class Presence:
    """Tells brokers every ``BEAT_S`` seconds who is there, at once one whose connection was lost.

    ``find`` returns the addresses of the brokers, ``make_body`` a heartbeat.  Lives on an event loop.
    """

    def __init__(
        self, net: Net, name: str, find: Callable[[], Awaitable[Iterable[str]]], make_body: Callable[[], bytes]
    ) -> None:
        self._net = net
        self._name = name
        self._find = find
        self._make_body = make_body
        self._beaten: dict[str, float] = {}
        self._is_behind = False
        self._warned: dict[str, float] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def known_to(self) -> frozenset[str]:
        """The brokers that know of this client."""
        return frozenset(self._beaten)

    def start(self) -> None:
        """Begin to tell, in the background."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"litemq-presence-{self._name}")

    async def stop(self) -> None:
        """Tell nobody any more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def hurry(self) -> None:
        """Look for brokers soon: there may be another one."""
        self._wake.set()

    def on_lost(self, address: str) -> None:
        """Tell a broker anew: it forgets whose connection ends."""
        self._beaten.pop(address, None)
        self._wake.set()

    async def turn(self, *, is_first: bool = False) -> None:
        """Look for brokers, and tell those that must be told.

        Raises:
            LiteMQError: brokers cannot be looked for.
            InvalidRequest: the first time, when a broker refuses.
        """
        self._is_behind = True
        addresses = set(await self._find())
        for address in self._beaten.keys() - addresses:
            del self._beaten[address]
        now = self._net.now()
        due = [address for address in addresses if now - self._beaten.get(address, -BEAT_S) >= BEAT_S]
        told = (self._tell(address) for address in due)
        for address, failed in zip(due, await asyncio.gather(*told), strict=True):
            if failed is None:
                self._beaten[address] = now
                continue
            self._beaten.pop(address, None)
            if is_first and isinstance(failed, InvalidRequest):
                raise failed
            self.warn(address, f"heartbeat failed, trying on: {failed}")
        self._is_behind = len(self._beaten) < len(addresses) or not addresses

    async def _tell(self, address: str) -> LiteMQError | None:
        try:
            check(await self._net.call(address, Request(Ask.HEART_BEAT, {}, self._make_body()), _ASK_S), address)
        except LiteMQError as error:
            return error
        return None

    async def _run(self) -> None:
        while True:
            try:
                await self.turn()
            except LiteMQError as error:
                self.warn("names", str(error))
            except Exception:
                logger.exception("presence of %s: an error that nobody foresaw", self._name)
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_S if self._is_behind else BEAT_S):
                    await self._wake.wait()
            await asyncio.sleep(0.02)  # a broker whose connections end may end them one after the other

    def warn(self, subject: str, text: str) -> None:
        """Say what is wrong, not more often than it helps."""
        now = self._net.now()
        if now - self._warned.get(subject, -_WARN_S) >= _WARN_S:
            self._warned[subject] = now
            logger.warning("%s: %s", self._name, text)
