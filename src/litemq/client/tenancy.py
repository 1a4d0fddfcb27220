"""The queues of a push consumer: taken up when they become its share, given up when they are somebody else's.

In order: a queue is read while its lock is held, and the lock is given back when its last message is done.  Else who
gives a queue up tells how far it came before the one who takes it over asks, as far as a moment's wait can do that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress

from litemq.client.chores import Chores
from litemq.client.group_member import GroupMember
from litemq.client.handling import Handling
from litemq.client.offset_keeping import OffsetKeeping
from litemq.client.queue_locks import QueueLocks
from litemq.client.queue_reader import QueueReader, shares
from litemq.client.routes import TopicQueue
from litemq.client.tenure import Tenure
from litemq.errors import LiteMQError

logger = logging.getLogger(__name__)

_COMMIT_S = 5.0
_LEAVE_S = 0.3
"""Who gives a queue up has so long to finish what is in hand, and then tells how far it came."""
_HANDOVER_S = 0.5
"""… and who takes it over waits so long before it asks: what was finished need not come again."""


class Tenancy:
    """Has a ``Tenure`` of each queue; ``prefetch`` bounds messages and bytes of all of them together."""

    def __init__(
        self,
        member: GroupMember,
        handling: Handling,
        keeping: OffsetKeeping,
        chores: Chores,
        *,
        prefetch: tuple[int, int],
        takes_locks: bool,
        is_broadcast: bool,
    ) -> None:
        self.tenures: dict[TopicQueue, Tenure] = {}
        self._member = member
        self._handling = handling
        self._keeping = keeping
        self._chores = chores
        self._prefetch = prefetch
        self._is_shared = not takes_locks and not is_broadcast
        self._locks = QueueLocks(member, self._granted, self._refused) if takes_locks else None
        self._leaving: set[TopicQueue] = set()
        self._is_ending = False
        self._keeper: asyncio.Task[None] | None = None

    # -- what the group decides ----------------------------------------------------------------------

    def share(self, share: set[TopicQueue]) -> None:
        """Have these queues from now on, and no others."""
        if self._is_ending:
            return
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep(), name=f"litemq-offsets-{self._member.group}")
        for queue in [queue for queue in self.tenures if queue not in share]:
            self._give_up(queue)
        if self._locks is not None:
            self._locks.want(share - self._leaving)
        else:
            for queue in sorted(share - self.tenures.keys(), key=str):
                self._take_up(queue)
        self._limit()

    def _take_up(self, queue: TopicQueue) -> Tenure:
        member = self._member
        tenure = self.tenures[queue] = Tenure(queue, self._handling.ready, self._placed)

        async def find() -> int:
            if self._is_shared and member.has_others:
                await asyncio.sleep(_HANDOVER_S)
            return await self._keeping.find(queue)

        tenure.reader = QueueReader(member, queue, member.subscriptions[queue.topic], tenure, find)
        self._limit()
        tenure.reader.start()
        logger.info("queue taken up: group=%s queue=%s", member.group, queue)
        return tenure

    def _limit(self) -> None:
        limit = shares(*self._prefetch, len(self.tenures))
        for tenure in self.tenures.values():
            if tenure.reader is not None:
                tenure.reader.limit(*limit)

    def _give_up(self, queue: TopicQueue, *, is_lost: bool = False) -> None:
        """Give a queue up; with ``is_lost`` somebody else has it already."""
        tenure = self.tenures.pop(queue)
        tenure.is_revoked = True
        tenure.end()
        logger.info("queue given up: group=%s queue=%s", self._member.group, queue)
        self._leaving.add(queue)
        self._chores.do(self._leave(tenure, is_lost=is_lost))

    async def _leave(self, tenure: Tenure, *, is_lost: bool) -> None:
        try:
            if self._locks is not None:
                await tenure.left.wait()
            elif not is_lost:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LEAVE_S):
                        await tenure.left.wait()
            if not is_lost:
                await self._keeping.keep([tenure])
                if self._locks is not None:
                    await self._locks.release(tenure.queue)
        finally:
            self._leaving.discard(tenure.queue)
            if self._locks is not None and not self._is_ending:
                self._member.rebalance()  # it may be this member's again

    # -- locks ---------------------------------------------------------------------------------------

    def _granted(self, queue: TopicQueue, until: float) -> None:
        if self._is_ending or queue in self._leaving:
            return
        tenure = self.tenures.get(queue)
        if tenure is None:
            self._take_up(queue).locked_until = until
        elif tenure.locked_until:
            tenure.locked_until = until
        else:
            self._chores.do(self._take_up_again(tenure, until))

    async def _take_up_again(self, tenure: Tenure, until: float) -> None:
        """Go on with a queue whose lock was away: somebody else may have had it meanwhile."""
        try:
            known = await self._keeping.known(tenure.queue)
        except LiteMQError:
            if self.tenures.get(tenure.queue) is tenure:
                self._give_up(tenure.queue, is_lost=True)
            return
        if known is not None and tenure.offset is not None and known > tenure.offset:
            tenure.go(known)
        tenure.locked_until = until
        self._handling.ready(tenure)

    def _refused(self, queue: TopicQueue) -> None:
        if queue in self.tenures and not self._is_ending:
            self._give_up(queue, is_lost=True)

    # -- what brokers do -----------------------------------------------------------------------------

    def lost(self, address: str) -> None:
        """Trust nothing that a broker knew before it went: neither its locks nor what it was told last."""
        if self._locks is not None:
            for queue in self._locks.lost(address):
                tenure = self.tenures.get(queue)
                if tenure is not None:
                    tenure.locked_until = 0.0
        for tenure in self.tenures.values():
            tenure.committed = None

    def back(self) -> None:
        """Tell a broker that came back how far queues are worked off, before they are dealt anew."""
        self._chores.do(self._keeping.keep(list(self.tenures.values())))

    def reset(self, offsets: Mapping[TopicQueue, int]) -> None:
        """Go on at offsets that an operator set."""
        for queue, offset in offsets.items():
            if queue in self.tenures:
                self.tenures[queue].go(offset)

    # -- offsets -------------------------------------------------------------------------------------

    def _placed(self, tenure: Tenure) -> None:
        """Put down at once where a queue is read from: it is the group's place from now on, whatever is sent."""
        self._chores.do(self._keeping.keep([tenure]))

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(_COMMIT_S)
            await self._keeping.keep(list(self.tenures.values()))

    # -- the end -------------------------------------------------------------------------------------

    def end(self) -> None:
        """Read no more; locks are held on, as handlers are still at work."""
        self._is_ending = True
        if self._keeper is not None:
            self._keeper.cancel()
        if self._locks is not None:
            self._locks.want(set(self.tenures))
        for tenure in self.tenures.values():
            tenure.end()

    async def leave(self) -> None:
        """Put down how far queues are worked off, and give their locks back."""
        await self._keeping.keep(self.tenures.values())
        if self._locks is not None:
            await self._locks.stop()
            for tenure in self.tenures.values():
                if not tenure.running:
                    await self._locks.release(tenure.queue)

    async def close(self) -> None:
        """Forget everything."""
        self.end()
        if self._locks is not None:
            await self._locks.stop()
        self.tenures.clear()
