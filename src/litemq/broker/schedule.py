"""Messages that are due later, by RocketMQ's delay levels: so far those of retry topics only.

A waiting message is a record of ``SCHEDULE_TOPIC_XXXX``, queue level - 1, that names its destination in ``REAL_TOPIC``
and ``REAL_QID``.  All messages of a level wait equally long, so that they are due in the order of their queue: of each
level only the next one is looked at.  A message that is released names the waiting record in ``__ORIGIN``; after a
crash the destination's queue tells which ones were released since the snapshot, so that none goes out twice.

``config/delayOffset.json`` is RocketMQ's: for each level the first offset that was not delivered.  Messages of other
topics, which a real RocketMQ left waiting, are passed over and keep that offset where it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from litemq.broker.messages import altered
from litemq.broker.system_topics import RETRY_PREFIX
from litemq.errors import CorruptRecord, LiteMQError
from litemq.format import names
from litemq.format._scan_cy import DELAY_LEVELS_MS
from litemq.format.config_json import JsonObject
from litemq.format.names import SCHEDULE_TOPIC
from litemq.format.record import to_message
from litemq.store.message_store import MessageStore
from litemq.store.snapshot import position_of
from litemq.store.tables import numbers
from litemq.types import Appended, Message, MessageType, Record

logger = logging.getLogger(__name__)

SNAPSHOT = "delayOffset.json"
REAL_TOPIC = "REAL_TOPIC"
REAL_QUEUE = "REAL_QID"
_PER_PASS = 1_000
"""Messages released in one pass: live traffic comes between."""
_SNAPSHOT_EVERY_MS = 10_000


@dataclass(slots=True)
class Level:
    """One delay level: ``next`` is looked at next, ``first`` is the oldest that was not delivered."""

    queue_id: int
    delay_ms: int
    next: int = 0
    first: int = 0
    due_ms: int = 0
    """When ``next`` is due; 0: not looked at yet."""
    has_waiting: bool = True
    """Whether anything may be waiting: a level without is not looked at ten times a second."""

    @property
    def number(self) -> int:
        """Return the level as clients count it."""
        return self.queue_id + 1


class Schedule:
    """Keeps messages until they are due.  Called by the store's owner."""

    def __init__(self, store: MessageStore, *, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._now_ms = now_ms
        self.levels = [Level(queue, delay) for queue, delay in enumerate(DELAY_LEVELS_MS)]
        self.left_alone = 0
        """Messages of other topics than retry topics that a real RocketMQ left waiting."""
        self.released = 0
        self._snapshot: JsonObject | None = None
        self._snapshot_position = 0
        self._snapshot_at = now_ms() + _SNAPSHOT_EVERY_MS
        self._changed = False
        self._load()

    def put(self, message: Message, level: int) -> Appended:
        """Keep ``message`` for the time of a level (1 to 18), then append it to its own topic."""
        level = min(max(level, 1), len(self.levels))
        waiting = altered(
            message,
            topic=SCHEDULE_TOPIC,
            queue_id=level - 1,
            properties={
                **message.properties,
                names.DELAY: str(level),
                REAL_TOPIC: message.topic,
                REAL_QUEUE: str(message.queue_id),
            },
            type=MessageType.DELAY,
        )
        appended = self._store.append(waiting)
        self.levels[level - 1].has_waiting = True
        return appended

    def pass_(self, now_ms: int) -> int:
        """Release what is due; return how many."""
        count = 0
        for level in self.levels:
            while count < _PER_PASS and self._is_due(level, now_ms):
                count += self._release(level)
        self.released += count
        if count:
            self._store.ask_flush()  # where only flushed messages are readable, nobody else may ask for it
        self._save(now_ms)
        return count

    # -- one level -------------------------------------------------------------------------------

    def _is_due(self, level: Level, now_ms: int) -> bool:
        if level.due_ms == 0 and level.has_waiting:
            if self._store.reader.max_offset(SCHEDULE_TOPIC, level.queue_id) > level.next:
                record = self._record(level)
                level.due_ms = 1 if record is None else (record.store_time or 0) + level.delay_ms
            else:  # what is appended but not readable yet would be missed
                level.has_waiting = self._store.readable_end < self._store.appended_end
        return 0 < level.due_ms <= now_ms

    def _record(self, level: Level) -> Record | None:
        """Return the record that is next; None when it is damaged or gone."""
        low = self._store.reader.min_offset(SCHEDULE_TOPIC, level.queue_id)
        if level.next < low:
            logger.warning("waiting messages are gone: level=%d count=%d", level.number, low - level.next)
            level.next, level.first = low, max(level.first, low)
        try:
            return self._store.reader.message_at(SCHEDULE_TOPIC, level.queue_id, level.next)
        except CorruptRecord as error:
            logger.warning("a waiting message is damaged: level=%d reason=%s", level.number, error)
            return None

    def _release(self, level: Level) -> int:
        """Append the next message to its topic and step behind it; return 1, or 0 when it is not ours."""
        record = self._record(level)
        is_ours = record is not None and record.properties.get(REAL_TOPIC, "").startswith(RETRY_PREFIX)
        if is_ours and record is not None:
            try:
                self._store.append(_released(record))
            except LiteMQError as error:
                logger.warning("a waiting message was not released: level=%d reason=%s", level.number, error)
                raise
        elif record is not None:
            self.left_alone += 1
        self._step(level, keeps_first=record is not None and not is_ours)
        return int(is_ours)

    def _step(self, level: Level, *, keeps_first: bool) -> None:
        if level.first == level.next and not keeps_first:
            level.first += 1
        level.next += 1
        level.due_ms = 0
        self._changed = True

    # -- start and snapshot ----------------------------------------------------------------------

    def _load(self) -> None:
        table = self._store.load_table(SNAPSHOT)
        firsts = numbers(table.get("offsetTable")) if table else {}
        ours = table.get("litemq") if table else None
        nexts = numbers(ours.get("next")) if isinstance(ours, dict) else {}
        since = ours.get("time") if isinstance(ours, dict) else None
        since_ms = since if isinstance(since, int) and position_of(table) is not None else 0
        origins: dict[tuple[str, int], set[int]] = {}
        for level in self.levels:
            end = self._store.reader.max_offset(SCHEDULE_TOPIC, level.queue_id)
            level.first = min(firsts.get(level.number, 0), end)
            level.next = min(max(nexts.get(level.number, 0), level.first), end)
            while level.next < end and self._was_released(level, since_ms, origins):
                self._step(level, keeps_first=False)

    def _was_released(self, level: Level, since_ms: int, origins: dict[tuple[str, int], set[int]]) -> bool:
        """Return whether the next message is in its topic already: it was released after the snapshot."""
        record = self._record(level)
        if record is None or (record.store_time or 0) + level.delay_ms > self._now_ms():
            return False
        topic, queue = record.properties.get(REAL_TOPIC, ""), record.properties.get(REAL_QUEUE, "")
        if not topic.startswith(RETRY_PREFIX) or not queue.isdigit():
            return False
        key = (topic, int(queue))
        if key not in origins:
            origins[key] = self._origins_in(*key, since_ms)
        return record.position in origins[key]

    def _origins_in(self, topic: str, queue_id: int, since_ms: int) -> set[int]:
        """Return what records of a queue name as their origin, of those stored since the snapshot."""
        reader = self._store.reader
        found = set()
        for offset in range(reader.max_offset(topic, queue_id) - 1, reader.min_offset(topic, queue_id) - 1, -1):
            try:
                record = reader.message_at(topic, queue_id, offset)
            except CorruptRecord:
                continue
            if record is None or (record.store_time or 0) < since_ms:
                break
            origin = record.properties.get(names.ORIGIN, "")
            if origin.isdigit():
                found.add(int(origin))
        return found

    def _save(self, now_ms: int) -> None:
        """Write a snapshot now and then, as of a position that is flushed."""
        if self._snapshot is not None and self._store.flushed_end >= self._snapshot_position:
            self._store.save_table(SNAPSHOT, self._snapshot)
            self._snapshot = None
        if self._changed and self._snapshot is None and now_ms >= self._snapshot_at:
            self._snapshot_position = self._store.appended_end
            self._snapshot = self.to_json(now_ms)
            self._snapshot_at = now_ms + _SNAPSHOT_EVERY_MS
            self._changed = False

    def to_json(self, now_ms: int) -> JsonObject:
        """Return ``delayOffset.json`` as of the log's end."""
        return {
            "offsetTable": {str(level.number): level.first for level in self.levels},
            "litemq": {
                "position": self._store.appended_end,
                "time": now_ms,
                "next": {str(level.number): level.next for level in self.levels},
            },
        }

    def close(self) -> None:
        """Write the last snapshot; the log must be flushed."""
        self._store.save_table(SNAPSHOT, self.to_json(self._now_ms()))


def _released(record: Record) -> Message:
    """Return the message that a waiting record stands for, bound for its own topic."""
    properties = {
        name: value
        for name, value in record.properties.items()
        if name not in (names.DELAY, names.TIMER_DELIVER_MS, names.TIMER_DELAY_SEC)
    }
    topic, queue = properties[REAL_TOPIC], properties.get(REAL_QUEUE, "0")
    properties[names.ORIGIN] = str(record.position)
    return altered(
        to_message(record),
        topic=topic,
        queue_id=int(queue) if queue.isdigit() else 0,
        properties=properties,
        type=MessageType.ORDER if record.sharding_key else MessageType.NORMAL,
    )
