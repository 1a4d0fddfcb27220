"""The queues that somebody is given messages of: in which order, where each begins, and what is left in them."""

from __future__ import annotations

from collections.abc import Sequence

from litemq.broker.groups import Group
from litemq.broker.offsets import Offsets
from litemq.broker.pop_answers import Popping
from litemq.broker.pop_state import PopStates
from litemq.broker.topics import Topics
from litemq.features.pop import PopQueue
from litemq.store.message_store import MessageStore


class PopQueues:
    """Finds the state of queues, brought in line with what others did to a group's progress."""

    def __init__(self, store: MessageStore, topics: Topics, offsets: Offsets, states: PopStates) -> None:
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._states = states
        self._turns: dict[tuple[str, str], int] = {}

    def ids(self, popping: Popping, *, turns: bool = True) -> Sequence[int]:
        """Return the queues that are asked, each time beginning with another one."""
        count = self._topics.known(popping.topic).read_queues
        if popping.queue_id >= 0:
            return (popping.queue_id,) if popping.queue_id < count else ()
        if not turns:
            return range(count)
        name = (popping.group, popping.topic)
        first = self._turns.get(name, 0) % max(count, 1)
        self._turns[name] = first + 1
        return [*range(first, count), *range(first)]

    def open(self, popping: Popping, queue_id: int) -> PopQueue:
        """Return the state of a queue, brought in line with what others did to the group's progress."""
        key = (popping.group, popping.topic, queue_id)
        reset = self._offsets.resets.pop(key, None) if self._offsets.resets else None
        queue = self._states.find(*key)
        committed = self._store.progress.offset(*key)
        if reset is not None:
            return self._states.begin(*key, reset)
        if queue is None:
            reader = self._store.reader
            if committed is None:
                low, high = reader.min_offset(*key[1:]), reader.max_offset(*key[1:])
                committed = high if popping.begins_at_end else low
            return self._states.begin(*key, committed)
        if committed is not None and committed != queue.told:
            if committed < queue.floor:
                return self._states.begin(*key, committed)
            queue.advance(committed)
            self._states.note_progress(key, queue)
        return queue

    def has_any(self, popping: Popping, queue_id: int, group: Group) -> bool:
        """Return whether a queue has something for somebody."""
        queue = self.open(popping, queue_id)
        queue.expire(self._states.now(), max(group.max_retries, 0) + 1)
        if is_ordered(popping, group) and queue.is_blocked:
            return False
        return (
            queue.ready_count > len(queue.dead) or self._store.reader.max_offset(popping.topic, queue_id) > queue.next
        )

    def rest(self, popping: Popping) -> int:
        """Return how many messages could be handed out beside what is held."""
        total = 0
        queues = self._states.of.get((popping.group, popping.topic), {})
        for queue_id in self.ids(popping, turns=False):
            queue, tail = queues.get(queue_id), self._store.reader.queue(popping.topic, queue_id)
            if queue is not None and tail is not None:
                total += max(tail.next_offset - queue.next, 0) + queue.ready_count
        return total


def is_ordered(popping: Popping, group: Group) -> bool:
    """Return whether somebody gets one message of a queue at a time."""
    return popping.is_ordered or group.config.get("consumeMessageOrderly") is True
