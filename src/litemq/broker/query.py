"""Finding single messages: by their place in the log, by key or id, and entries of a queue."""

from __future__ import annotations

from dataclasses import dataclass

from litemq.broker.offsets import Offsets
from litemq.errors import BadField, CorruptRecord, UnknownMessage
from litemq.format import message_id
from litemq.format.names import RESERVED_TOPIC_PREFIX
from litemq.format.queue_entry import QueueEntry
from litemq.format.record import offset_in_queue
from litemq.store.message_store import MessageStore
from litemq.types import Record

MAX_FOUND = 64
MIN_FOUND_BY_ID = 32
"""Copies of a message that was sent more than once have the same id: all of them are wanted."""

MAX_ANSWER_BYTES = 8 << 20
MAX_ENTRIES = 1_000


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of a queue from ``first`` on, and where the queue begins and ends."""

    first: int
    entries: list[QueueEntry]
    min_offset: int
    max_offset: int


class Queries:
    """Looks for messages of one broker; LiteMQ's own records are not shown."""

    def __init__(self, store: MessageStore, offsets: Offsets) -> None:
        self._store = store
        self._offsets = offsets

    def at(self, position: int, topic: str = "") -> bytes:
        """Return the record at a position as clients read it.

        Raises:
            UnknownMessage: there is none, or it is of another topic than the one that is named.
        """
        record = self._find(position)
        if record is None or topic not in ("", record.topic):
            raise UnknownMessage(f"no message {f'of topic {topic!r} ' if topic else ''}is at position {position}")
        data = self._store.reader.record_bytes(position)
        if data is None:
            raise UnknownMessage(f"the message at position {position} cannot be read")
        return data

    def by_id(self, text: str, topic: str = "") -> bytes:
        """Return a message by its offset id or the id that its producer gave it."""
        place = message_id.parse_offset_id(text)
        if place is not None and self._find(place[1]) is not None:
            return self.at(place[1])
        found = self.by_key(topic, text, is_id=True, limit=1) if topic else []
        if not found:
            raise UnknownMessage(f"there is no message {text!r}")
        return found[0]

    def by_key(
        self, topic: str, key: str, *, is_id: bool, begin_ms: int = 0, end_ms: int = (1 << 63) - 1, limit: int
    ) -> list[bytes]:
        """Return the newest messages of a topic with a key or an id."""
        if topic.startswith(RESERVED_TOPIC_PREFIX):
            return []
        limit = max(limit, MIN_FOUND_BY_ID) if is_id else limit
        return self._store.reader.query(
            topic,
            key,
            unique=is_id,
            begin_ms=begin_ms,
            end_ms=end_ms,
            limit=min(max(limit, 1), MAX_FOUND),
            max_bytes=MAX_ANSWER_BYTES,
        )

    def entries(self, topic: str, queue_id: int, first: int, count: int) -> Entries:
        """Return entries of a queue; ``first`` below its begin stands for the begin."""
        self._offsets.queue(topic, queue_id)
        if count <= 0:
            raise BadField(f"the field count is {count}, it must be 1 or more")
        reader = self._store.reader
        low, high = reader.min_offset(topic, queue_id), reader.max_offset(topic, queue_id)
        first = max(first, low)
        return Entries(first, reader.entries(topic, queue_id, first, min(count, MAX_ENTRIES)), low, high)

    def _find(self, position: int) -> Record | None:
        """Return the record at a position that clients may see."""
        try:
            record = self._store.reader.record_at(position)
        except CorruptRecord:
            return None
        if record is None or record.topic.startswith(RESERVED_TOPIC_PREFIX):
            return None
        gone = self._store.tables.deletions
        is_dead = gone.is_dead(record.topic, record.queue_id, offset_in_queue(record), record.position)
        return None if is_dead else record
