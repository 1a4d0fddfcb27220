"""State that lives in the log: topics, consumer groups and their progress.

Each change is first a record of a reserved topic, then a change of the table in memory: every recovery, and later
every copy of the log, comes to the same tables.
"""

from __future__ import annotations

import logging

from litemq.clock import Clock
from litemq.errors import InvalidRequest, RecordTooLarge, ReservedName, TopicUnusable, UnknownTopic
from litemq.format import config_json
from litemq.format.config_json import JsonObject
from litemq.format.limits import MAX_QUEUES, is_folder_name
from litemq.format.names import CHANGES_TOPIC, ORIGIN, PROGRESS_TOPIC, RESERVED_TOPIC_PREFIX
from litemq.store import changes
from litemq.store._tails_cy import QueueTail
from litemq.store.appender import Appender
from litemq.store.arguments import check_text
from litemq.store.changes import Change
from litemq.store.commit_log import reading_files
from litemq.store.flush import Flusher
from litemq.store.opening import Parts, new_log_id
from litemq.store.tables import Live
from litemq.types import Appended, Message

logger = logging.getLogger(__name__)

_EVERYTHING = 1 << 62
"""No position gets so far."""

_QUEUE_COUNTS = ("readQueueNums", "writeQueueNums")


class StateWriter:
    """Changes tables and saves progress; called by the store's owner."""

    def __init__(self, parts: Parts, appender: Appender, flusher: Flusher, clock: Clock) -> None:
        self._parts = parts
        self._log = parts.log
        self._queues = parts.queues
        self._tables = parts.tables
        self._progress = parts.progress
        self._appender = appender
        self._flusher = flusher
        self._clock = clock
        self._alarmed: Live | None = None

    # -- topics and groups -----------------------------------------------------------------------

    def apply(self, change: Change, *, origin: int | None = None) -> Appended:
        """Change a table; ``origin`` is where a change that is carried stood first.

        Raises:
            InvalidRequest: a snapshot could not give back what the change holds; nothing changed.
            RecordTooLarge: it could not be carried; nothing changed.
        """
        try:
            config_json.read(config_json.write({"table": {"name": change.config}}))
        except UnicodeEncodeError as error:
            raise _no_utf8(error) from error
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidRequest(f"the configuration cannot be kept as JSON: {error}") from error
        self._check_can_be_carried(change)
        return self._apply(change, origin)

    def _apply(self, change: Change, origin: int | None = None) -> Appended:
        appended = self.append(self._message_of(change, origin))
        if change.op == "topic-deleted":
            # Files go below, so the change must not be lost: flushed first, it is met again by every recovery.
            self._flusher.flush()
        self._tables.apply(change, appended.position, origin)
        if change.op == "topic-deleted":
            with self._log.changing_files():
                self._queues.drop_topic(change.name)
            self._parts.dispatcher.forget_queues()
            self._progress.forget(topic=change.name)
        elif change.op == "group-deleted":
            self._progress.forget(group=change.name)
        return appended

    def _message_of(self, change: Change, origin: int | None) -> Message:
        try:
            body = changes.encode(change)
        except UnicodeEncodeError as error:
            raise _no_utf8(error) from error
        properties = {} if origin is None else {ORIGIN: str(origin)}
        return Message(CHANGES_TOPIC, body, properties=properties, born_time=self._clock.now_ms())

    def _check_can_be_carried(self, change: Change) -> None:
        """Refuse a change that would fit into a record, but not with the origin that its copies name."""
        message = self._message_of(self._tables.as_carried(change), _EVERYTHING)
        try:
            self._appender.check([message], is_state=True)
        except RecordTooLarge as error:
            what = f"the change {change.op} with what carrying it adds"
            raise RecordTooLarge(what=what, size=error.size, limit=error.limit) from error

    def put_topic(self, topic: str, config: JsonObject | None) -> Appended:
        """Create or alter a topic; what ``config`` leaves out gets a default."""
        _check_name(topic)
        full: JsonObject = {
            "attributes": {},
            "order": False,
            "perm": 6,
            "readQueueNums": 8,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "writeQueueNums": 8,
            **(config or {}),
            "topicName": topic,
        }
        for name in _QUEUE_COUNTS:
            count = full[name]
            if not isinstance(count, int) or not 0 <= count <= MAX_QUEUES:
                raise InvalidRequest(f"{name} of topic {topic!r} is {count!r}, it must be 0 to {MAX_QUEUES}")
        return self.apply(self._topic(topic, full))

    def _topic(self, topic: str, config: JsonObject) -> Change:
        return Change("topic", topic, config, self._tables.incarnations.get(topic) or new_log_id())

    def delete_topic(self, topic: str) -> Appended:
        """Delete a topic; the change says with which offsets its queues go on."""
        self._log.check_writable()
        _check_name(topic)
        known = topic in self._tables.topics
        with reading_files():
            queue_ids = self._queues.queues_of(topic)
            # Queues that are gone since an earlier deletion, too: once carried, that one does not outlive this one.
            deletions = self._tables.deletions
            gone = {*deletions.next_offsets.get(topic, ()), *deletions.min_offsets.get(topic, ())}
            next_offsets = {queue: self._next_offset(topic, queue) for queue in sorted({*queue_ids, *gone})}
        if not known and not queue_ids:
            raise UnknownTopic(f"there is no topic {topic!r}")
        return self.apply(Change("topic-deleted", topic, offsets=next_offsets))

    def purge(self, topic: str, min_offsets: dict[int, int]) -> Appended:
        """Raise min offsets, up to each queue's end."""
        self._log.check_writable()
        _check_name(topic)
        for queue in min_offsets:
            self._check_queue(topic, queue)
        with reading_files():
            ends = {queue: self._next_offset(topic, queue) for queue in min_offsets}
        offsets = {queue: min(max(offset, 0), ends[queue]) for queue, offset in min_offsets.items()}
        return self.apply(Change("min-offsets", topic, offsets=offsets))

    def _next_offset(self, topic: str, queue_id: int) -> int:
        tail = self._queues.find(topic, queue_id)
        return tail.next_offset if tail is not None else self._tables.first_offset(topic, queue_id)

    def _check_queue(self, topic: str, queue_id: int) -> None:
        """Refuse a queue that the topic neither has nor may get."""
        count = max(_count(self._tables.topics.get(topic, {}), "writeQueueNums"), MAX_QUEUES)
        if not 0 <= queue_id < count:
            raise InvalidRequest(f"queue id {queue_id} of topic {topic!r} is out of range: it must be 0 to {count - 1}")

    def open_queues(self, wanted: set[tuple[str, int]]) -> None:
        """Make queues known; topics and queues that are not in the table are added to it."""
        for topic in {topic for topic, _ in wanted}:
            _check_name(topic)
            if self._tables.has_batch_queues(topic):
                raise UnknownTopic(f"topic {topic!r} has batch queues, which only a RocketMQ broker writes")
        for topic, queue_id in wanted:
            self._check_queue(topic, queue_id)
        for topic, queue_id in sorted(wanted, reverse=True):  # the highest number first: one change a topic
            known = self._tables.topics.get(topic, {})
            if queue_id >= _count(known, "writeQueueNums"):
                counts = {name: max(queue_id + 1, _count(known, name)) for name in _QUEUE_COUNTS}
                self.put_topic(topic, {**known, **counts})  # first: it may be refused
            self.find_queue(topic, queue_id)

    # -- progress --------------------------------------------------------------------------------

    def save_progress(self) -> None:
        """Append what groups committed since the last time."""
        for body, keys in self._progress.take_changes(self._appender.max_record // 2):
            appended = self.append(Message(PROGRESS_TOPIC, body, born_time=self._clock.now_ms()))
            self._progress.saved(keys, appended.position)

    # -- both ------------------------------------------------------------------------------------

    def adopt(self) -> None:
        """Give the log what it lacks: an id, and records of tables that only a foreign snapshot holds."""
        parts, tables = self._parts, self._tables
        if not tables.log_id or parts.is_ahead:
            self._apply(Change("identity", tables.log_id or new_log_id()))
        if parts.is_foreign:
            for topic, config in sorted(tables.topics.items()):
                self._apply(self._topic(topic, config))
            for group, config in sorted(tables.groups.items()):
                self._apply(Change("group", group, config))
        if parts.is_foreign or parts.has_foreign_progress:
            self._progress.carry_below(_EVERYTHING)
            self.save_progress()

    def carry_below(self, start: int) -> int:
        """Append again what is live and stands only below ``start``; return below which position all of it was.

        That is ``start``, or where a change stands that fits into no record: none is taken, but a table may have been
        written by an earlier version or by hand.
        """
        for live in self._tables.live_below(start):
            try:
                self._apply(live.change, live.origin)
            except InvalidRequest as error:
                self._alarm(live, error)
                if live.position >= self._log.start:  # else its record is gone, and only the snapshot says it
                    start = live.position
                    break
        self._progress.carry_below(start)
        self.save_progress()
        return start

    def _alarm(self, live: Live, error: InvalidRequest) -> None:
        """Say that a change cannot be carried, but not with every pass."""
        if live != self._alarmed:
            self._alarmed = live
            logger.error(
                "retention keeps a segment for a change that cannot be carried, alter or delete it: "
                "op=%s name=%s position=%d reason=%s",
                *(live.change.op, live.change.name, live.position, error),
            )

    def append(self, message: Message) -> Appended:
        """Append a record of a reserved topic."""
        return self._appender.append([message], self._queues.reserved, self._open_reserved, is_state=True)[0]

    def _open_reserved(self, wanted: set[tuple[str, int]]) -> None:
        for topic, queue_id in wanted:
            self.find_queue(topic, queue_id)

    def find_queue(self, topic: str, queue_id: int) -> QueueTail:
        with reading_files():
            return self._queues.open(topic, queue_id, self._tables.first_offset(topic, queue_id))


def _check_name(topic: str) -> None:
    check_text("topic", topic)
    reason = is_folder_name(topic)
    if reason is not None:
        raise TopicUnusable(topic, reason)
    if topic.startswith(RESERVED_TOPIC_PREFIX):
        raise ReservedName(f"topic {topic!r} is LiteMQ's own; choose another name")


def _no_utf8(error: UnicodeEncodeError) -> InvalidRequest:
    return InvalidRequest(f"a text of the change has no UTF-8 form: {error.reason}")


def _count(config: JsonObject, name: str) -> int:
    count = config.get(name)
    return count if isinstance(count, int) else 0
