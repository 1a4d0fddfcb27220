"""How far groups have read: asked for, set, and copied."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

from litemq.broker.groups import Groups
from litemq.broker.members import Clients
from litemq.broker.offsets import Offsets
from litemq.broker.pull import Puller
from litemq.broker.slowest import OWN_MARK
from litemq.broker.system_topics import RETRY_PREFIX
from litemq.broker.topics import Topics
from litemq.clock import Clock
from litemq.errors import BadField, CorruptRecord
from litemq.store.message_store import MessageStore

AT_END = -1
"""As a time to go to: the end of the queue."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a group stands in one queue; ``time_ms`` is the store time of the last message that it has read."""

    topic: str
    queue_id: int
    offset: int
    end: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """The store times of a queue's first, of its last, and of a group's last message; ``behind_ms``: its delay."""

    queue_id: int
    first_ms: int
    last_ms: int
    read_ms: int
    behind_ms: int


class Consumption:
    """Answers for groups of one broker.  What goes over many queues gives way to others between topics."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        offsets: Offsets,
        clients: Clients,
        puller: Puller,
        clock: Clock,
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients
        self._puller = puller
        self._clock = clock

    # -- asking ----------------------------------------------------------------------------------

    def topics_of(self, group: str) -> list[str]:
        """Return the topics in which a group has offsets."""
        return sorted({topic for topic, _ in self._store.progress.of_group(group)})

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have offsets in a topic or subscribe to it."""
        with_offsets = {group for group in self._store.progress.groups_of(topic) if OWN_MARK not in group}
        return sorted(with_offsets.union(self._clients.membership.groups_of(topic)))

    async def places(self, group: str, wanted: Collection[str] = ()) -> list[Place]:
        """Return where a group stands; without ``wanted`` topics in all in which it has offsets.

        A group that has members shows only topics that they subscribe to.
        """
        members = self._clients.membership.consumer_group(group)
        found: list[Place] = []
        for name in wanted or self.topics_of(group):
            topic = self._topics.find(name)
            if topic is None or (members is not None and members.subscriptions and name not in members.subscriptions):
                continue
            found += [self._place(group, name, queue_id) for queue_id in range(topic.read_queues)]
            await asyncio.sleep(0)
        return found

    def _place(self, group: str, topic: str, queue_id: int) -> Place:
        end = self._store.reader.max_offset(topic, queue_id)
        offset = max(self._offsets.committed(group, topic, queue_id, zero_if_new=False) or 0, 0)
        return Place(topic, queue_id, offset, end, self.store_time(topic, queue_id, offset - 1) if offset else 0)

    async def time_spans(self, group: str, topic_name: str) -> list[TimeSpan]:
        """Return how old the messages of a topic are, and those that a group read last."""
        topic = self._topics.known(topic_name)
        now_ms = self._clock.now_ms()
        found = []
        for queue_id in range(topic.write_queues):
            place = self._place(group, topic_name, queue_id)
            first = self._store.reader.earliest_store_time(topic_name, queue_id)
            last = self.store_time(topic_name, queue_id, place.end - 1)
            read = place.time_ms or first
            waiting = self.store_time(topic_name, queue_id, place.offset) if place.offset < place.end else 0
            found.append(TimeSpan(queue_id, first, last, read, now_ms - waiting if waiting else 0))
            await asyncio.sleep(0)
        return found

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """Return when a message was stored; 0 when it is not there."""
        try:
            record = self._store.reader.message_at(topic, queue_id, offset) if offset >= 0 else None
        except CorruptRecord:
            return 0
        return (record.store_time or 0) if record is not None else 0

    # -- setting ---------------------------------------------------------------------------------

    def reset(
        self, group: str, topic_name: str, *, time_ms: int, queue_id: int = -1, offset: int = -1
    ) -> dict[int, int]:
        """Set a group's offsets, in one queue or all; return them.  Consumers go there with their next pull.

        Args:
            group: must be there, online or not.
            topic_name: must be there.
            time_ms: the first message stored then or later is read next; below 0: none of those that are there.
            queue_id: below 0: all.
            offset: of that one queue, instead of a time; below 0: none.

        Raises:
            BadField: the queue or offset does not exist; nothing changed.
        """
        topic = self._topics.known(topic_name)
        self._groups.known(group)
        if queue_id >= 0:
            self._offsets.queue(topic_name, queue_id)
            wanted = {queue_id: self._checked(topic_name, queue_id, offset) if offset >= 0 else -1}
        else:
            wanted = dict.fromkeys(range(topic.read_queues), -1)
        for queue, goal in wanted.items():
            wanted[queue] = goal if goal >= 0 else self._at_time(topic_name, queue, time_ms)
        for queue, goal in wanted.items():
            self._offsets.reset(group, topic_name, queue, goal)
            self._puller.tell_resets(topic_name, queue)
        return wanted

    def _at_time(self, topic: str, queue_id: int, time_ms: int) -> int:
        reader = self._store.reader
        if time_ms < 0:
            return reader.max_offset(topic, queue_id)
        return reader.search_offset(topic, queue_id, time_ms)

    def _checked(self, topic: str, queue_id: int, offset: int) -> int:
        low, high = self._store.reader.min_offset(topic, queue_id), self._store.reader.max_offset(topic, queue_id)
        if not low <= offset <= high:
            raise BadField(f"queue {queue_id} of topic {topic!r} has offsets {low} to {high}, not {offset}")
        return offset

    def clone(self, source: str, target: str, topic: str = "") -> int:
        """Give a group the offsets of another, in one topic or all but retry topics; return how many.

        Raises:
            UnknownTopic: the topic is not there.
            UnknownGroup: the target is not there.
        """
        self._groups.known(target)
        if topic:
            self._topics.known(topic)
        offsets = {
            queue: offset
            for queue, offset in self._store.progress.of_group(source).items()
            if (queue[0] == topic if topic else not queue[0].startswith(RETRY_PREFIX)) and self._topics.find(queue[0])
        }
        for (name, queue_id), offset in offsets.items():
            self._offsets.commit(target, name, queue_id, offset)
        return len(offsets)
