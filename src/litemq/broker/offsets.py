"""Offsets: how far groups have read, and where queues begin and end."""

from __future__ import annotations

from collections.abc import Callable

from litemq.broker.groups import Groups
from litemq.broker.topics import Topic, Topics
from litemq.errors import BadField
from litemq.store.message_store import MessageStore


class Offsets:
    """Answers and notes offsets of one broker."""

    def __init__(self, store: MessageStore, topics: Topics, groups: Groups) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self.resets: dict[tuple[str, str, int], int] = {}
        """(group, topic, queue) → offset that an operator set and the group's next pull is told of; until then commits
        are ignored."""
        self.on_reset: list[Callable[[str, str, int, int], None]] = []
        """Called with group, topic, queue and offset when an operator sets one."""

    def queue(self, name: str, queue_id: int) -> Topic:
        """Return the topic of a queue that exists."""
        topic = self._topics.known(name)
        if not 0 <= queue_id < topic.queue_count:
            raise BadField(f"queue {queue_id} of topic {name!r} does not exist: it has {topic.queue_count}")
        return topic

    def committed(self, group: str, topic: str, queue_id: int, *, zero_if_new: bool = True) -> int | None:
        """Return how far a group has read; None when it has not said so.

        A new group starts at 0 where the queue still does, whatever its own setting: as RocketMQ.
        """
        reset = self.resets.get((group, topic, queue_id))
        if reset is not None:
            return reset
        offset = self._store.progress.offset(group, topic, queue_id)
        if offset is None and zero_if_new and self._topics.find(topic) is not None:
            return 0 if self._store.reader.min_offset(topic, queue_id) <= 0 else None
        return offset

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note how far a group has read; it may go back."""
        if offset < 0:
            raise BadField(f"an offset cannot be {offset}")
        if (group, topic, queue_id) not in self.resets:
            self._store.progress.commit(group, topic, queue_id, offset)

    def commit_checked(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note how far a group has read in a queue that must exist."""
        self._groups.known(group)
        self.queue(topic, queue_id)
        self.commit(group, topic, queue_id, offset)

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set a group's offset; its consumers go there with their next pull."""
        self._store.progress.commit(group, topic, queue_id, offset)
        self.resets[(group, topic, queue_id)] = offset
        for told in self.on_reset:
            told(group, topic, queue_id, offset)

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the offset that a pull must be told of, once."""
        return self.resets.pop((group, topic, queue_id), None)

    def least(self, topic: str, queue_id: int) -> int:
        """Return the first offset of a queue that can be read."""
        self.queue(topic, queue_id)
        return self._store.reader.min_offset(topic, queue_id)

    def greatest(self, topic: str, queue_id: int) -> int:
        """Return the offset behind the last message of a queue."""
        self.queue(topic, queue_id)
        return self._store.reader.max_offset(topic, queue_id)
