"""Dead letters: read, counted and purged.  ``redrive`` sends them once more."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, replace

from litemq.client._message_cy import Message
from litemq.client.answers import check, json_object
from litemq.client.lookups import Lookups, Place, or_latest
from litemq.errors import UnknownGroup
from litemq.features.dead_letter import DLQ_PREFIX, dead_letter_topic
from litemq.features.retry import ORIGIN_MESSAGE_ID, RETRY_TOPIC
from litemq.wire.remoting.codes import Ask, Code

Progress = Callable[[int, int], None]
"""Told how many dead letters were looked at, of how many."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that its group could not handle, and what is known of its death.

    >>> dead = DeadLetter(litemq.Message("%DLQ%billing", b"{}", properties={"DLQ_REASON": "max_retry"}))
    >>> dead.group, dead.reason
    ('billing', 'max_retry')
    """

    message: Message
    """As it lies in the group's topic of dead letters."""

    def _told(self, name: str, default: str = "") -> str:
        return self.message.raw_properties.get(name, default)

    @property
    def group(self) -> str:
        """The group that could not handle it."""
        return self._told("DLQ_GROUP") or self.message.topic.removeprefix(DLQ_PREFIX)

    @property
    def reason(self) -> str:
        """``max_retry``, ``consume_error``, ``ttl_expired``, ``queue_full`` or ``filtered_out``.

        ``unknown`` when RocketMQ's broker wrote it.
        """
        return self._told("DLQ_REASON", "unknown")

    @property
    def error(self) -> str:
        """What the consumer said last."""
        return self._told("DLQ_ERROR")

    @property
    def stack(self) -> str:
        """The consumer's stack, shortened in the middle when it is long."""
        return self._told("DLQ_STACK")

    @property
    def consumer_id(self) -> str:
        """The consumer that had it last."""
        return self._told("DLQ_CONSUMER_ID")

    @property
    def origin_topic(self) -> str:
        """The topic it was sent to."""
        return self._told("DLQ_ORIGIN_TOPIC") or self._told(RETRY_TOPIC)

    @property
    def origin_message_id(self) -> str:
        """The offset id of its first record."""
        return self._told("DLQ_ORIGIN_MESSAGE_ID") or self._told(ORIGIN_MESSAGE_ID)

    @property
    def origin_queue(self) -> int:
        """The queue that it was in first; -1: unknown."""
        return _number(self._told("DLQ_ORIGIN_QUEUE"), -1)

    @property
    def origin_offset(self) -> int:
        """Its offset in that queue; -1: unknown."""
        return _number(self._told("DLQ_ORIGIN_OFFSET"), -1)

    @property
    def retry_count(self) -> int:
        """How often it was tried again."""
        return _number(self._told("DLQ_RETRY_COUNT"), self.message.reconsume_times)

    @property
    def died_ms(self) -> int:
        """When it died, in milliseconds since the epoch."""
        return _number(self._told("DLQ_TIME"), self.message.stored_ms)


@dataclass(slots=True)
class DeadLetterCount:
    """How many dead letters of a group have the same topic and reason, and when the first and the last died.

    >>> DeadLetterCount("billing", "orders", "max_retry", 3).count
    3
    """

    group: str
    origin_topic: str
    reason: str
    count: int = 0
    first_ms: int = 0
    last_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which dead letters are meant; with nothing set all of them."""

    origin_topic: str | None = None
    reason: str | None = None
    ids: Collection[str] = ()
    begin_ms: int | None = None
    end_ms: int | None = None
    where: Callable[[DeadLetter], bool] | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return not self.ids and all(
            one is None for one in (self.origin_topic, self.reason, self.begin_ms, self.end_ms, self.where)
        )

    def fits(self, dead: DeadLetter) -> bool:
        """Return whether a dead letter is one of those."""
        message = dead.message
        if self.origin_topic is not None and dead.origin_topic != self.origin_topic:
            return False
        if self.reason is not None and dead.reason != self.reason:
            return False
        if self.ids and not {message.message_id, message.offset_id, dead.origin_message_id}.intersection(self.ids):
            return False
        return self.where is None or self.where(dead)


class DeadLetters:
    """Works on the dead letters of one cluster."""

    def __init__(self, lookups: Lookups) -> None:
        self._lookups = lookups

    async def of(self, group: str | None) -> list[str]:
        """Return the one group that is meant, or all that have a topic of dead letters."""
        if group is not None:
            return [group]
        topics = await self._lookups.topics()
        return [topic.removeprefix(DLQ_PREFIX) for topic in topics if topic.startswith(DLQ_PREFIX)]

    async def walk(
        self, groups: Collection[str], wanted: Wanted, on_progress: Progress | None = None
    ) -> AsyncIterator[DeadLetter]:
        """Yield the dead letters of groups, in the order in which they died in each queue."""
        places = [place for group in groups for place in await self.places(group, wanted)]
        total = sum(place.end - place.begin for place in places)
        done = 0
        for place in places:
            async for message in self._lookups.walk(place, end_ms=or_latest(wanted.end_ms)):
                dead = DeadLetter(message)
                if wanted.fits(dead):
                    yield dead
                done += 1
                if on_progress is not None:
                    on_progress(done, total)
        if on_progress is not None:
            on_progress(total, total)

    async def counts(
        self, groups: Collection[str], wanted: Wanted, on_progress: Progress | None = None
    ) -> list[DeadLetterCount]:
        """Return how many dead letters there are by group, topic and reason."""
        found: dict[tuple[str, str, str], DeadLetterCount] = {}
        async for dead in self.walk(groups, wanted, on_progress):
            key = dead.group, dead.origin_topic, dead.reason
            one = found.setdefault(key, DeadLetterCount(*key, first_ms=dead.died_ms))
            one.count += 1
            one.first_ms = min(one.first_ms, dead.died_ms)
            one.last_ms = max(one.last_ms, dead.died_ms)
        return [found[key] for key in sorted(found)]

    async def purge(self, group: str, before_ms: int | None = None) -> int:
        """Remove the dead letters that are there now; return how many."""
        topic = dead_letter_topic(group)
        count = 0
        for place in await self._known_places(group):
            end = place.end if before_ms is None else await self._lookups.first_since(place, before_ms)
            if end <= place.begin:
                continue
            ext = {"topic": topic, "queueId": str(place.queue_id), "beforeOffset": str(end)}
            answer = check(await self._lookups.call(place.address, Ask.LITEMQ_PURGE_TOPIC, ext), place.address)
            first = int(json_object(answer)["minOffsets"][str(place.queue_id)])
            count += first - place.begin
        return count

    async def _known_places(self, group: str) -> list[Place]:
        places = await self._lookups.places_of_known(dead_letter_topic(group))
        if not places:
            await self._check_group(group)
        return places

    async def places(self, group: str, wanted: Wanted) -> list[Place]:
        """Return where the dead letters of a group are that can be meant, as far as times tell."""
        places = await self._known_places(group)
        if wanted.begin_ms is None:
            return places
        return [
            replace(place, begin=max(place.begin, await self._lookups.first_since(place, wanted.begin_ms)))
            for place in places
        ]

    async def _check_group(self, group: str) -> None:
        """Refuse a group that no broker knows: its name is misspelt, not free of dead letters."""
        for address in (await self._lookups.brokers()).values():
            answer = await self._lookups.call(address, Ask.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group})
            if answer.code == Code.SUCCESS:
                return
        raise UnknownGroup(f"no broker knows the consumer group {group!r}; see: litemq group list")


def _number(text: str, default: int) -> int:
    try:
        return int(text)
    except ValueError:
        return default
