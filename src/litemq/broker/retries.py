"""Messages that consumers send back: again later, or to the dead letters.

Two ways lead here: request 36 names a stored record; a client that could not send it sends a copy to its group's retry
topic itself.  ``features/retry.py`` decides, this module does it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from litemq.broker import system_topics
from litemq.broker.groups import Group, Groups
from litemq.broker.messages import MessageMaker, Sending, altered
from litemq.broker.schedule import REAL_QUEUE, REAL_TOPIC, Schedule
from litemq.broker.topics import Topic, Topics
from litemq.errors import CorruptRecord, NoPermission, UnknownMessage
from litemq.features import retry
from litemq.features.dead_letter import Death, Reason, dead_letter_properties
from litemq.features.delay_levels import clamp
from litemq.features.ordering import QueueLocks
from litemq.format import message_id, names
from litemq.format.record import to_message
from litemq.store.message_store import MessageStore
from litemq.types import Appended, Message, MessageType, Record

_OWN = names.INTERNAL | {names.DELAY, REAL_TOPIC, REAL_QUEUE}
_MAX_RECONSUME = "MAX_RECONSUME_TIMES"
_RECONSUME = "RECONSUME_TIME"


@dataclass(frozen=True, slots=True)
class SentBack:
    """What a consumer says of a message that it could not handle."""

    group: str
    position: int
    delay_level: int = 0
    max_times: int | None = None
    consumer_id: str = ""
    error: str = ""
    stack: str = ""


class Retries:
    """Stores what is to be tried again, and what died."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        schedule: Schedule,
        locks: QueueLocks,
        maker: MessageMaker,
        store_host: bytes,
        *,
        now_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._schedule = schedule
        self._locks = locks
        self._maker = maker
        self._store_host = store_host
        self._now_ms = now_ms
        self._monotonic_ms = monotonic_ms
        self._random = random.Random()
        self.sent_back: Counter[tuple[str, str]] = Counter()
        """(group, topic) → messages sent back."""
        self.died: Counter[tuple[str, str]] = Counter()
        """(group, reason) → dead letters."""

    def send_back(self, back: SentBack) -> Appended | None:
        """Take a message back; None when its group wants no retries.

        Raises:
            UnknownGroup: there is no such group.
            UnknownMessage: nothing readable is at the position.
            NoPermission: the retry topic takes no messages.
        """
        group = self._groups.known(back.group)
        if group.retry_queues <= 0:
            return None
        record = self._record(back.position)
        most = back.max_times if back.max_times is not None else group.max_retries
        origin_id = message_id.offset_id(self._store_host, record.position)
        topic, first_id = retry.origin_of(record.properties, topic=record.topic, message_id=origin_id)
        self.sent_back[(back.group, topic)] += 1
        decision = retry.after_failure(record.reconsume_times or 0, back.delay_level, most)
        kept = {name: value for name, value in record.properties.items() if name not in _OWN}
        if isinstance(decision, retry.DeadLetter):
            return self._bury(to_message(record), kept, decision.reason, back, topic, first_id)
        retry_topic = self._retry_topic(group)
        message = _copy(
            to_message(record),
            topic=retry_topic.name,
            # Of the topic, not of the group's setting: that may have grown meanwhile, and nobody reads the others.
            queue_id=self._random.randrange(max(retry_topic.write_queues, 1)),
            properties=retry.retry_properties(kept, topic=record.topic, message_id=origin_id),
            reconsume_times=decision.reconsume_times,
        )
        return self._schedule.put(message, decision.level)

    def resend(self, sending: Sending, group_name: str, max_times: int | None) -> tuple[Message, Appended]:
        """Store a retry that a client sent itself, with the delay that it asks for."""
        group = self._groups.known(group_name)
        left = {name: value for name, value in sending.properties.items() if name not in _OWN}
        most = max_times if max_times is not None else group.max_retries
        is_ordered = self._locks.has_live_locks(group_name, self._monotonic_ms())
        dead = retry.after_resend(sending.reconsume_times, most, is_ordered=is_ordered)
        for name in (_RECONSUME, _MAX_RECONSUME):
            left.pop(name, None)
        message = self._maker.plain(sending, dict(left))
        if dead is not None:
            topic, first_id = retry.origin_of(left, topic=sending.topic, message_id="")
            back = SentBack(group_name, -1)
            return message, self._bury(message, dict(message.properties), dead.reason, back, topic, first_id)
        level = clamp(_number(sending.properties.get(names.DELAY, "0")))
        return message, self._schedule.put(message, level) if level else self._store.append(message)

    def _retry_topic(self, group: Group) -> Topic:
        topic = self._topics.for_group(group.name, max(group.retry_queues, 1))
        if not topic.is_writable:
            raise NoPermission(f"topic {topic.name!r} takes no messages: its permission is {topic.perm}")
        return topic

    def _bury(
        self, message: Message, kept: dict[str, str], reason: Reason, back: SentBack, topic: str, first_id: str
    ) -> Appended:
        """Append a dead letter."""
        queue_id, offset = self._origin_place(first_id, message, back.position)
        death = Death(
            reason=reason,
            group=back.group,
            origin_topic=topic,
            origin_message_id=first_id,
            origin_queue=queue_id,
            origin_offset=offset,
            retry_count=message.reconsume_times,
            time_ms=self._now_ms(),
            consumer_id=back.consumer_id,
            error=back.error,
            stack=back.stack,
        )
        return self._store.append(self._dead_letter(message, kept, death))

    def _dead_letter(self, message: Message, kept: dict[str, str], death: Death) -> Message:
        self.died[(death.group, death.reason)] += 1
        properties = retry.retry_properties(kept, topic=death.origin_topic, message_id=death.origin_message_id)
        return _copy(
            message,
            topic=self._topics.for_dead_letters(death.group).name,
            queue_id=0,
            properties=dead_letter_properties(properties, death),
            reconsume_times=message.reconsume_times,
        )

    def overflowed(self, message: Message, group: str) -> Message:
        """Return the dead letter of a message that never got into its queue: ``group`` has too much to read there.

        Its origin has the id that its producer gave it, and no offset.
        """
        death = Death(
            reason="queue_full",
            group=group,
            origin_topic=message.topic,
            origin_message_id=message.message_id,
            origin_queue=message.queue_id,
            origin_offset=-1,
            retry_count=message.reconsume_times,
            time_ms=self._now_ms(),
        )
        return self._dead_letter(message, dict(message.properties), death)

    def never_ended(self, message: Message, topic: str, queue_id: int, group: str, checks: int) -> Message:
        """Return the dead letter of a transactional message: ``checks`` questions to its producers led to no end."""
        death = Death(
            reason="max_retry",
            group=group,
            origin_topic=topic,
            origin_message_id=message.message_id,
            origin_queue=queue_id,
            origin_offset=-1,
            retry_count=checks,
            time_ms=self._now_ms(),
        )
        gone = _OWN | {names.TRAN_MSG}  # sent again, it must not wait for another end
        own = {name: value for name, value in message.properties.items() if name not in gone}
        dead = self._dead_letter(message, own, death)
        # What tells after a crash which half message it stands for.
        return altered(dead, properties={**dead.properties, names.ORIGIN: message.properties[names.ORIGIN]})

    def unmatched(self, record: Record, group: str) -> Message:
        """Return the dead letter of a message that a group's filter did not let pass."""
        return self._letter_of(record, group, "filtered_out", record.reconsume_times or 0)

    def exhausted(self, record: Record, group: str, attempts: int) -> Message:
        """Return the dead letter of a message that a group got so often by receipts and never acknowledged."""
        return self._letter_of(record, group, "max_retry", (record.reconsume_times or 0) + attempts - 1)

    def _letter_of(self, record: Record, group: str, reason: Reason, retry_count: int) -> Message:
        origin_id = message_id.offset_id(self._store_host, record.position)
        topic, first_id = retry.origin_of(record.properties, topic=record.topic, message_id=origin_id)
        death = Death(
            reason=reason,
            group=group,
            origin_topic=topic,
            origin_message_id=first_id,
            origin_queue=record.queue_id,
            origin_offset=record.queue_offset,
            retry_count=retry_count,
            time_ms=self._now_ms(),
        )
        kept = {name: value for name, value in record.properties.items() if name not in _OWN}
        return self._dead_letter(to_message(record), kept, death)

    def _origin_place(self, first_id: str, message: Message, position: int) -> tuple[int, int]:
        """Return queue and offset of a message's first record; those of this one when that is gone."""
        place = message_id.parse_offset_id(first_id)
        for at in (place[1] if place is not None else -1, position):
            record = self._find(at) if at >= 0 else None
            if record is not None:
                return record.queue_id, record.queue_offset
        return message.queue_id, -1

    def _record(self, position: int) -> Record:
        record = self._find(position)
        if record is None:
            raise UnknownMessage(f"no message is at position {position} any more")
        return record

    def _find(self, position: int) -> Record | None:
        try:
            return self._store.reader.record_at(position)
        except CorruptRecord:
            return None


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 0


def _copy(message: Message, *, topic: str, queue_id: int, properties: dict[str, str], reconsume_times: int) -> Message:
    """Return what is stored in place of a message; it waits for nothing by itself."""
    return altered(
        message,
        topic=topic,
        queue_id=queue_id,
        properties=properties,
        reconsume_times=reconsume_times,
        type=MessageType.ORDER if message.sharding_key else MessageType.NORMAL,
        delay_time=0,
    )


def group_of(topic: str) -> str:
    """Return the group whose retry topic this is."""
    return topic.removeprefix(system_topics.RETRY_PREFIX)
