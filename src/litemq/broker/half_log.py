"""What the log says of transactions: half messages by their offset, and how those ended that did."""

from __future__ import annotations

import logging
from collections import OrderedDict
from enum import IntEnum
from typing import Final

from litemq.broker import half_records as records
from litemq.broker.half_records import Half
from litemq.broker.system_topics import CHECK_LIMIT_TOPIC, HALF_TOPIC, dead_topic
from litemq.errors import CorruptRecord
from litemq.format import names
from litemq.store.message_store import MessageStore
from litemq.types import Record

logger = logging.getLogger(__name__)

_RECENT_HALVES: Final = 4_096
_RECENT_BYTES: Final = 8 << 20


class Decision(IntEnum):
    """How a transaction ended, or did not; the first three are the numbers of request 37."""

    UNKNOWN = 0
    COMMIT = 8
    ROLLBACK = 12
    GIVEN_UP = -1
    """It was asked about too often."""


class HalfLog:
    """Reads half messages, and keeps the newest: most are ended at once."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._newest: OrderedDict[int, Half] = OrderedDict()
        self._newest_bytes = 0

    def remember(self, half: Half) -> None:
        """Keep a half message that was just appended."""
        self._newest[half.offset] = half
        self._newest_bytes += len(half.message.body)
        while len(self._newest) > _RECENT_HALVES or self._newest_bytes > _RECENT_BYTES:
            _, oldest = self._newest.popitem(last=False)
            self._newest_bytes -= len(oldest.message.body)

    def drop(self, offset: int) -> None:
        """Keep a half message no longer: its transaction ended."""
        half = self._newest.pop(offset, None)
        if half is not None:
            self._newest_bytes -= len(half.message.body)

    def newest(self, offset: int) -> Half | None:
        """Return a half message that was just appended and did not end since; None: look for it with ``half``."""
        return self._newest.get(offset)

    def half(self, offset: int) -> Half | None:
        """Return a half message; None when it is gone, damaged or not readable yet."""
        found = self._newest.get(offset)
        if found is not None:
            return found
        record = self.record(HALF_TOPIC, offset)
        return records.half_of(record) if record is not None else None

    def record(self, topic: str, offset: int) -> Record | None:
        """Return a record of one of the two queues; None as for ``half``."""
        try:
            return self._store.reader.message_at(topic, 0, offset)
        except CorruptRecord as error:
            logger.warning("a record of a transaction is damaged: topic=%s offset=%d reason=%s", topic, offset, error)
            return None

    def at(self, position: int) -> Record | None:
        """Return the record at a position; None when it is gone or damaged."""
        try:
            return self._store.reader.record_at(position)
        except CorruptRecord:
            return None

    def with_id(self, unique_id: str) -> list[Half]:
        """Return the half messages of an id: the first, and copies of it."""
        return [records.half_of(record) for record in self._store.reader.by_key(HALF_TOPIC, unique_id)]

    def decision(self, half: Half) -> Decision:
        """Return how a transaction ended that did, as far as records tell: what is nowhere was rolled back."""
        if self._stands_in(half.topic, half):
            return Decision.COMMIT
        if self._stands_in(CHECK_LIMIT_TOPIC, half) or self._stands_in(dead_topic(half.group), half):
            return Decision.GIVEN_UP
        return Decision.ROLLBACK

    def _stands_in(self, topic: str, half: Half) -> bool:
        origin = str(half.origin)
        return any(
            record.prepared_offset == half.position or record.properties.get(names.ORIGIN) == origin
            for record in self._store.reader.by_key(topic, half.message.message_id)
        )
