"""How long messages of a topic stay: by age, by size, until all groups have read them, or until somebody purges them.

What goes is only hidden: the first offset of a queue is raised, and the bytes go with their segments.  "Keep until
read" holds segments for groups that have an offset in a queue; it loses against a full disk, with a warning.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from litemq.broker import topic_attributes
from litemq.broker.slowest import slowest
from litemq.broker.topic_attributes import Kept
from litemq.broker.topic_sizes import TopicSizes
from litemq.broker.topics import Topics
from litemq.broker.turns import Turns
from litemq.clock import Clock
from litemq.errors import BadField, LiteMQError, NoPermission
from litemq.store.message_store import MessageStore
from litemq.types import Appended

logger = logging.getLogger(__name__)

_INTERVAL_S = 60.0
_HOLD_MS = 3 * 60_000
"""A hold lasts longer than the time to its renewal, and not for ever when nobody renews it."""


class TopicRetention:
    """Raises the first offsets of queues."""

    def __init__(self, store: MessageStore, topics: Topics, clock: Clock) -> None:
        self._store = store
        self._topics = topics
        self._clock = clock
        self._kept: dict[str, Kept] = {}
        """Topics that ask for something."""
        self._sizes: dict[str, TopicSizes] = {}
        self.purged = 0
        """Messages that went."""
        self.floors: list[Callable[[str], Mapping[int, int]]] = []
        """Who else needs messages of a topic: each tells from which offset on, by queue."""
        topics.on_change.append(self._note)
        self._note([topic.name for topic in topics.all()])

    def _note(self, names: list[str]) -> None:
        for name in names:
            topic = self._topics.find(name)
            kept = topic_attributes.kept(topic.attributes) if topic is not None else Kept()
            was = self._kept.pop(name, Kept())
            if kept.is_set:
                self._kept[name] = kept
            if was.bytes != kept.bytes:
                self._sizes.pop(name, None)
            if was.until_read and not kept.until_read:
                self._store.release(_hold_name(name))

    async def run(self) -> None:
        """Look at all topics at once, then every minute; until cancelled."""
        while True:
            await self.pass_()
            await asyncio.sleep(_INTERVAL_S)

    async def pass_(self) -> None:
        """Look at all topics once."""
        for name, kept in list(self._kept.items()):
            try:
                await self._retain(name, kept)
            except LiteMQError as error:
                logger.warning("retention of a topic failed: topic=%s reason=%s", name, error)
            except Exception:
                logger.exception("retention of a topic failed unexpectedly: topic=%s", name)

    async def hold_all(self) -> None:
        """Hold what groups have yet to read, before the first segment can go."""
        for name, kept in list(self._kept.items()):
            if kept.until_read:
                await self._hold(name, Turns())

    async def purge(
        self, topic: str, *, queue_id: int | None = None, before_offset: int | None = None, before_ms: int | None = None
    ) -> tuple[dict[int, int], Appended | None]:
        """Hide messages before an offset, or stored before a time; return where each queue begins then.

        Raises:
            BadField: neither or both are given, an offset without its queue, or a queue that does not exist.
            NoPermission: the topic is the broker's own.
            UnknownTopic: there is no such topic.
        """
        found = self._topics.known(topic)
        if self._topics.is_system(topic):
            raise NoPermission(f"topic {topic!r} is the broker's own and cannot be purged")
        if (before_offset is None) == (before_ms is None):
            raise BadField("a purge needs either beforeOffset or beforeTime")
        if before_offset is not None and queue_id is None:
            raise BadField("a purge by beforeOffset needs the queueId")
        reader = self._store.reader
        queue_ids = sorted({*reader.queue_ids(topic), *range(found.queue_count)})
        if queue_id is not None:
            if queue_id not in queue_ids:
                raise BadField(f"queue {queue_id} of topic {topic!r} does not exist")
            queue_ids = [queue_id]
        if before_offset is not None:
            firsts = dict.fromkeys(queue_ids, before_offset)
        else:
            assert before_ms is not None
            firsts = await self._too_old(topic, before_ms, Turns(), queue_ids)
        appended = self._raise(topic, firsts)
        return {queue_id: reader.min_offset(topic, queue_id) for queue_id in queue_ids}, appended

    # -- one topic -------------------------------------------------------------------------------

    async def _retain(self, topic: str, kept: Kept) -> None:
        turns = Turns()
        floors = await self._hold(topic, turns) if kept.until_read else {}
        for needed in self.floors:
            for queue_id, offset in needed(topic).items():
                floors[queue_id] = min(offset, floors.get(queue_id, offset))
        firsts: dict[int, int] = {}
        reader = self._store.reader
        if kept.ms is not None:
            firsts = await self._too_old(topic, self._clock.now_ms() - kept.ms, turns, reader.queue_ids(topic))
        if kept.bytes is not None:
            sizes = self._sizes.setdefault(topic, TopicSizes(topic, kept.bytes))
            for _ in sizes.look(reader):
                await turns.take()
            for queue_id, first in sizes.take_excess(floors).items():
                firsts[queue_id] = max(first, firsts.get(queue_id, 0))
        if self._kept.get(topic) == kept:  # it may have been altered or deleted meanwhile
            self._raise(
                topic, {queue_id: min(first, floors.get(queue_id, first)) for queue_id, first in firsts.items()}
            )

    async def _too_old(self, topic: str, before_ms: int, turns: Turns, queue_ids: list[int]) -> dict[int, int]:
        """Return the first offset of each queue that was not stored before a time, where there are such."""
        reader = self._store.reader
        found = {}
        for queue_id in queue_ids:
            earliest = reader.earliest_store_time(topic, queue_id)
            if 0 <= earliest < before_ms:
                found[queue_id] = reader.search_offset(topic, queue_id, before_ms)
            await turns.take()
        return found

    async def _hold(self, topic: str, turns: Turns) -> dict[int, int]:
        """Hold the segments that the slowest groups have yet to read; return where each queue must still begin."""
        floors: dict[int, int] = {}
        positions: list[int] = []
        reader = self._store.reader
        for queue_id in reader.queue_ids(topic):
            behind = slowest(self._store, topic, queue_id)
            if behind is not None:
                floors[queue_id] = behind.offset
                first = reader.span(topic, queue_id, max(behind.offset, reader.min_offset(topic, queue_id)), 1)
                if first.count:
                    positions.append(first.position)
            await turns.take()
        if not positions:
            self._store.release(_hold_name(topic))
        elif topic in self._kept:
            self._store.hold(_hold_name(topic), min(positions), until_ms=self._clock.now_ms() + _HOLD_MS)
        return floors

    def _raise(self, topic: str, firsts: dict[int, int]) -> Appended | None:
        """Let queues begin later; return the record that says so, None when none does."""
        reader = self._store.reader
        lows = {queue_id: reader.min_offset(topic, queue_id) for queue_id in firsts}
        raised = {queue_id: first for queue_id, first in firsts.items() if first > lows[queue_id]}
        if not raised:
            return None
        appended = self._store.purge(topic, raised)
        count = sum(reader.min_offset(topic, queue_id) - lows[queue_id] for queue_id in raised)
        self.purged += count
        logger.info("messages purged: topic=%s queues=%d messages=%d", topic, len(raised), count)
        return appended


def _hold_name(topic: str) -> str:
    return f"keep-until-read {topic}"
