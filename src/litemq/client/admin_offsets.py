"""How far groups have read, and setting where they go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from litemq.client.admin_cluster import ClusterCore, load_with_queues, moment, queue_pairs, time_ms
from litemq.client.admin_group_values import GroupLag, OffsetChange, QueueLag
from litemq.client.admin_topics import TopicAdmin
from litemq.client.routes import TopicQueue
from litemq.errors import InvalidRequest, UnknownGroup, UnknownTopic
from litemq.wire.remoting.codes import Ask, Code

FIRST: Final = "first"
LAST: Final = "last"
Goal = str | datetime | int | Mapping[TopicQueue, int] | Mapping[int, int]
"""``first``, ``last``, a time, or offsets by queue: ``TopicQueue``, or a number where one broker has the topic."""


class OffsetAdmin(TopicAdmin, ClusterCore):
    """The part of ``Admin`` that is about offsets of groups."""

    async def lag(self, group: str) -> GroupLag:
        """Return how many messages wait for a group, by topic and queue.

        A group that has members shows the topics that they subscribe to, others all in which they have offsets.

        >>> with litemq.Admin() as admin:
        ...     info = admin.create_group("farmers", exist_ok=True)
        ...     admin.lag("farmers").topics
        {}

        Raises:
            UnknownGroup: no broker has it.
        """
        masters = await self._masters()
        there = []
        for name, address in masters.items():
            told = await self._ask(address, Ask.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group})
            if told.code == Code.SUCCESS:
                there.append(name)
        if not there:
            raise UnknownGroup(f"there is no consumer group {group!r} on any broker; see: litemq group list")
        return await self._lag(masters, group, there, {})

    async def reset_offset(
        self, group: str, topic: str, to: Goal, *, queues: Iterable[int] | None = None, dry_run: bool = False
    ) -> list[OffsetChange]:
        """Set where a group goes on reading a topic; members that are online go there with their next pull.

        >>> with litemq.Admin() as admin:
        ...     change = admin.create_topic("grain", queues=1, exist_ok=True)
        ...     info = admin.create_group("millers", exist_ok=True)
        ...     [(one.queue_id, one.after) for one in admin.reset_offset("millers", "grain", "last")]
        [(0, 0)]

        Args:
            group: it must be there: ``create_group`` makes it.
            topic: the topic.
            to: ``"first"``, ``"last"``, a time (the first message stored then or later is read next), or an offset for
                each queue: ``{TopicQueue(…): 17}``; where one broker has the topic, ``{3: 17}`` for its queue 3.
            queues: only these queues, on every broker that has them.
            dry_run: tell what would be, and change nothing.

        Raises:
            UnknownTopic: no broker has it.
            UnknownGroup: a broker that has the topic does not have the group.
            InvalidRequest: a queue or offset does not exist; nothing was changed.
        """
        masters = await self._masters()
        spans = await self._spans(masters, group, topic)
        goals = await self._goals(masters, topic, spans, to, queues)
        changes = []
        for queue, after in sorted(goals.items(), key=lambda pair: (pair[0].broker, pair[0].queue_id)):
            ext = {"topic": topic, "queueId": str(queue.queue_id), "consumerGroup": group, "setZeroIfNotFound": "false"}
            told = await self._ask(masters[queue.broker], Ask.QUERY_CONSUMER_OFFSET, ext)
            before = int(told.ext["offset"]) if told.code == Code.SUCCESS else None
            changes.append(OffsetChange(group, topic, queue.broker, queue.queue_id, before, after))
        if not dry_run:
            for change in changes:
                ext = {"group": group, "topic": topic, "queueId": str(change.queue_id), "offset": str(change.after)}
                ext |= {"timestamp": "-1", "isForce": "true"}
                await self._have(masters[change.broker], Ask.INVOKE_BROKER_TO_RESET_OFFSET, ext)
        return changes

    # -- where things stand ----------------------------------------------------------------------

    async def _lag(
        self,
        masters: Mapping[str, str],
        group: str,
        brokers: Iterable[str],
        firsts: dict[tuple[str, str], dict[TopicQueue, int]],
    ) -> GroupLag:
        """Return how far a group has read on brokers; ``firsts`` keeps where queues begin, from group to group."""
        found: list[QueueLag] = []
        per_s = 0.0
        for broker in brokers:
            answer = await self._have(masters[broker], Ask.GET_CONSUME_STATS, {"consumerGroup": group})
            read = load_with_queues(answer)
            per_s += float(read.get("consumeTps") or 0)
            for queue, stats in queue_pairs(read.get("offsetTable")):
                key = (broker, queue.topic)
                if key not in firsts:
                    spans = await self._queue_spans(masters[broker], queue.topic)
                    firsts[key] = {one: first for one, (first, _) in spans.items()}
                found.append(_queue_lag(broker, queue, stats, firsts[key].get(queue, 0)))
        found.sort(key=lambda one: (one.topic, one.broker, one.queue_id))
        return GroupLag(group, tuple(found), per_s)

    async def _spans(self, masters: Mapping[str, str], group: str, topic: str) -> dict[TopicQueue, tuple[int, int]]:
        """Return first offset and end of every queue of a topic whose brokers have a group."""
        spans: dict[TopicQueue, tuple[int, int]] = {}
        for broker, address in masters.items():
            found = await self._queue_spans(address, topic)
            if not found:
                continue
            told = await self._ask(address, Ask.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group})
            if told.code == Code.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise UnknownGroup(
                    f"there is no consumer group {group!r} on {broker}; make it: litemq group create {group}"
                )
            spans |= {TopicQueue(topic, broker, queue.queue_id): span for queue, span in found.items()}
        if not spans:
            raise UnknownTopic(f"there is no topic {topic!r} on any broker; see: litemq topic list")
        return spans

    async def _goals(
        self,
        masters: Mapping[str, str],
        topic: str,
        spans: Mapping[TopicQueue, tuple[int, int]],
        to: Goal,
        queues: Iterable[int] | None,
    ) -> dict[TopicQueue, int]:
        """Return queue → offset to go to."""
        wanted = set(spans)
        if queues is not None:
            numbers = set(queues)
            wanted = {queue for queue in spans if queue.queue_id in numbers}
            if numbers - {queue.queue_id for queue in wanted}:
                there = sorted({queue.queue_id for queue in spans})
                raise InvalidRequest(f"topic {topic!r} has queues {there}, not all of {sorted(numbers)}")
        if isinstance(to, Mapping):
            if queues is not None:
                raise InvalidRequest("give queues either with their offsets in to=, or in queues=")
            return _listed(topic, spans, to)
        if to == FIRST:
            return {queue: spans[queue][0] for queue in wanted}
        if to == LAST:
            return {queue: spans[queue][1] for queue in wanted}
        if isinstance(to, str):
            raise InvalidRequest(f"to is {to!r}, it must be 'first', 'last', a time, or a mapping from queue to offset")
        ms = time_ms(to, "to")
        return {queue: await self._offset_at(masters[queue.broker], topic, queue.queue_id, ms) for queue in wanted}


def _queue_lag(broker: str, queue: TopicQueue, stats: Mapping[str, int], first: int) -> QueueLag:
    offset, end = int(stats["consumerOffset"]), int(stats["brokerOffset"])
    waiting = max(end - max(offset, first), 0)
    return QueueLag(
        queue.topic, broker, queue.queue_id, offset, end, waiting, moment(int(stats.get("lastTimestamp") or 0))
    )


def _listed(
    topic: str, spans: Mapping[TopicQueue, tuple[int, int]], to: Mapping[TopicQueue, int] | Mapping[int, int]
) -> dict[TopicQueue, int]:
    """Return the goals that a mapping names, each checked."""
    brokers = {queue.broker for queue in spans}
    found: dict[TopicQueue, int] = {}
    for named, offset in to.items():
        if isinstance(named, int):
            if len(brokers) > 1:
                raise InvalidRequest(
                    f"topic {topic!r} is on {', '.join(sorted(brokers))}: name the broker of queue {named}, too: "
                    "TopicQueue(topic, broker, queue), on the command line --broker"
                )
            queue = TopicQueue(topic, next(iter(brokers)), named)
        else:
            queue = TopicQueue(topic, named.broker, named.queue_id)
        if queue not in spans:
            raise InvalidRequest(f"topic {topic!r} has no queue {queue.queue_id} on {queue.broker}")
        low, high = spans[queue]
        if type(offset) is not int or not low <= offset <= high:
            raise InvalidRequest(
                f"queue {queue.queue_id} of topic {topic!r} on {queue.broker} has offsets {low} to {high}, "
                f"not {offset!r}"
            )
        found[queue] = offset
    return found
