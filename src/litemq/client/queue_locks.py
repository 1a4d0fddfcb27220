"""Locks of queues that are consumed in order: taken before a queue is read, held while it is, given back behind it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress

from litemq.client import consumer_requests as requests
from litemq.client.group_member import GroupMember
from litemq.client.routes import TopicQueue
from litemq.errors import LiteMQError

RENEW_S = 20.0
TRUST_S = 30.0
"""So long after it was granted a lock is trusted: half of what the broker grants."""
_AGAIN_S = 1.0


class QueueLocks:
    """Asks for the locks of ``wanted`` queues until it gets them, and keeps them.

    ``on_granted`` is called with a queue and the time up to which its lock is trusted, at first and each time it was
    renewed; ``on_refused`` when somebody else has a lock that was this client's.
    """

    def __init__(
        self,
        member: GroupMember,
        on_granted: Callable[[TopicQueue, float], None],
        on_refused: Callable[[TopicQueue], None],
    ) -> None:
        self._member = member
        self._on_granted = on_granted
        self._on_refused = on_refused
        self._wanted: set[TopicQueue] = set()
        self._held: dict[TopicQueue, float] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def want(self, queues: set[TopicQueue]) -> None:
        """Take the locks of these queues; those of others are held until ``release`` gives them back."""
        self._wanted = set(queues)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="litemq-locks")
        self._wake.set()

    def look(self) -> None:
        """Ask again now for what is not held."""
        self._wake.set()

    def lost(self, address: str) -> list[TopicQueue]:
        """Trust no lock of a broker any more whose connection was lost; return those that were held."""
        lost = []
        for queue in list(self._held):
            with suppress(LiteMQError):
                if self._member.address(queue) != address:
                    continue
            lost.append(queue)
            del self._held[queue]
        self._wake.set()
        return lost

    async def release(self, queue: TopicQueue) -> None:
        """Give a lock back."""
        if self._held.pop(queue, None) is None:
            return
        member = self._member
        with suppress(LiteMQError):
            await requests.unlock(member.net, member.address(queue), member.client_id, member.group, [queue])

    async def stop(self) -> None:
        """Ask for nothing any more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        while True:
            try:
                await self._ask()
            except LiteMQError as error:
                self._member.warn("locks", f"locks cannot be had, trying on: {error}")
            missing = self._wanted - self._held.keys()
            with suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_S if missing else RENEW_S / 4):
                    await self._wake.wait()
            self._wake.clear()

    async def _ask(self) -> None:
        now = self._member.net.now()
        due: dict[str, list[TopicQueue]] = defaultdict(list)
        for queue in self._wanted | self._held.keys():  # of one that is being given up a message may be in hand
            if now - self._held.get(queue, -RENEW_S) >= RENEW_S:
                with suppress(LiteMQError):
                    due[self._member.address(queue)].append(queue)
        asked = (self._ask_broker(address, queues, now) for address, queues in due.items())
        for result in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _ask_broker(self, address: str, queues: list[TopicQueue], now: float) -> None:
        member = self._member
        granted = await requests.lock(member.net, address, member.client_id, member.group, queues)
        for queue in queues:
            if queue in granted:
                self._held[queue] = now  # of the question: the broker's lease ends later
                self._on_granted(queue, now + TRUST_S)
            else:
                self._held.pop(queue, None)
                self._on_refused(queue)
