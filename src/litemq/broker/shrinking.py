"""Topics that get fewer queues: those that go take no more messages, and stay readable until groups have read them.

What is wanted stands in the topic's attribute ``read.queues.wanted`` until it is reached.  As for retention, a group
that has committed nothing in a queue does not hold it.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from litemq.broker.slowest import slowest
from litemq.broker.topics import Topic, Topics
from litemq.store.message_store import MessageStore

logger = logging.getLogger(__name__)

WANTED: Final = "read.queues.wanted"
_EVERY_MS: Final = 1_000


class Shrinking:
    """Watches topics that are to have fewer queues.  Called on the loop."""

    def __init__(self, store: MessageStore, topics: Topics) -> None:
        self._store = store
        self._topics = topics
        self._watched = {topic.name for topic in topics.all() if WANTED in topic.attributes}
        self._due_ms = 0
        topics.on_change.append(self._changed)

    def altered(self, known: Topic | None, wanted: Topic) -> Topic:
        """Return what a topic becomes now when it is wanted so; ``known`` is what it was."""
        attributes = {name: value for name, value in wanted.attributes.items() if name != WANTED}
        count = wanted.read_queues
        if known is not None and count < known.read_queues:
            count = self._needed(wanted.name, count, known.read_queues)
            if count > wanted.read_queues:
                attributes[WANTED] = str(wanted.read_queues)
        return replace(wanted, read_queues=count, attributes=attributes)

    def tick(self, now_ms: int) -> None:
        """Let queues go that have been read."""
        if not self._watched or now_ms < self._due_ms:
            return
        self._due_ms = now_ms + _EVERY_MS
        for name in sorted(self._watched):
            topic = self._topics.find(name)
            wanted = topic.attributes.get(WANTED, "") if topic is not None else ""
            if topic is None or not wanted.isascii() or not wanted.isdigit():
                self._watched.discard(name)
                continue
            smaller = self.altered(topic, replace(topic, read_queues=min(int(wanted), topic.read_queues)))
            if smaller.read_queues < topic.read_queues:
                self._topics.create(smaller)
                logger.info("queues have gone: topic=%s left=%d wanted=%s", name, smaller.read_queues, wanted)

    def _needed(self, topic: str, low: int, high: int) -> int:
        """Return how many queues must stay readable, ``low`` to ``high``."""
        for queue_id in range(high - 1, low - 1, -1):
            behind = slowest(self._store, topic, queue_id)
            if behind is not None and behind.offset < self._store.reader.max_offset(topic, queue_id):
                return queue_id + 1
        return low

    def _changed(self, names: list[str]) -> None:
        for name in names:
            topic = self._topics.find(name)
            if topic is not None and WANTED in topic.attributes:
                self._watched.add(name)
            else:
                self._watched.discard(name)
