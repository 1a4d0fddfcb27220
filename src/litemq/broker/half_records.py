"""Records of transactions, as RocketMQ writes them.

    half     RMQ_SYS_TRANS_HALF_TOPIC, queue 0: the message, with REAL_TOPIC, REAL_QID, TRAN_MSG=true and PGROUP
    op       RMQ_SYS_TRANS_OP_HALF_TOPIC, queue 0: tag ``d``, the body names offsets of ended half messages
    commit   the real topic: sys flag 8, prepared offset = position of the half message
    copy     TRANS_CHECK_MAX_TIME_TOPIC or a dead letter: what nobody ended; the prepared offset as in a commit

A record that takes a half message's place names the half message's first position in ``__ORIGIN``, and its op record
stands directly behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from litemq.broker.messages import altered
from litemq.broker.system_topics import CHECK_LIMIT_TOPIC, HALF_OP_TOPIC, HALF_TOPIC
from litemq.format import hosts, names, rocketmq
from litemq.format.placement import Placement
from litemq.format.record import to_message
from litemq.types import NO_HOST, LogPosition, Message, MessageType, QueueOffset, Record, Status

REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE: Final = "REAL_QID"
GROUP: Final = "PGROUP"
CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
IMMUNITY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
EARLIER_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"

_STATUS_BITS: Final = 0xC
_COMMIT: Final = 0x8
_OP_TAG: Final = "d"
_MAX_DIGITS: Final = 9
_ECHOED: Final = frozenset({names.TRANSACTION_ID, CHECK_TIMES, EARLIER_OFFSET})
"""What a check told a client, which may send it back."""

_NOT_VISIBLE: Final = frozenset({names.TRAN_MSG, REAL_TOPIC, REAL_QUEUE, CHECK_TIMES, EARLIER_OFFSET})
# Plain numbers: the members of an IntEnum are slow to look up and to check.
_NORMAL: Final = int(Status.NORMAL)
_COMMITTED: Final = int(Status.COMMITTED)
_TRANSACTION: Final = int(MessageType.TRANSACTION)


@dataclass(slots=True)  # frozen, it would take three times as long to make, for every message
class Half:
    """A half message as it stands in the half queue; treat it as a value."""

    offset: int
    position: int
    store_time: int
    message: Message

    @property
    def group(self) -> str:
        """Return the group of the producers that know how its transaction ended."""
        return self.message.properties.get(GROUP, "")

    @property
    def topic(self) -> str:
        """Return the topic that it is for."""
        return self.message.properties.get(REAL_TOPIC, "")

    @property
    def queue_id(self) -> int:
        """Return the queue that it is for."""
        return number(self.message.properties.get(REAL_QUEUE, ""), 0)

    @property
    def origin(self) -> int:
        """Return the position of its first record."""
        return number(self.message.properties.get(names.ORIGIN, ""), self.position, max_digits=18)

    @property
    def is_carried(self) -> bool:
        """Return whether it is a copy of a half message whose segment had to go."""
        return names.ORIGIN in self.message.properties

    @property
    def earlier_offset(self) -> int:
        """Return the offset of the half message that it is a copy of; -1: it is none."""
        return number(self.message.properties.get(EARLIER_OFFSET, ""), -1, max_digits=18)

    @property
    def checks(self) -> int:
        """Return how often it had been asked about when it was stored."""
        return number(self.message.properties.get(CHECK_TIMES, ""), 0)

    def first_due(self, first_check_ms: int) -> int:
        """Return when to ask about it for the first time."""
        seconds = number(self.message.properties.get(IMMUNITY, ""), -1)
        return self.store_time + (first_check_ms if seconds < 0 else seconds * 1000)


def number(text: str, default: int, *, max_digits: int = _MAX_DIGITS) -> int:
    """Return a number that a property holds, ``default`` when it holds none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= max_digits else default


def is_half(found: dict[str, str], sys_flag: int) -> bool:
    """Return whether what a client sends is to be seen after a commit only."""
    return found.get(names.TRAN_MSG, "").lower() == "true" or sys_flag & _STATUS_BITS == Status.PREPARED << 2


def half_message(message: Message, group: str) -> Message:
    """Return the half message that stands for a message until its transaction has ended."""
    properties = message.properties.copy()
    if not _ECHOED.isdisjoint(properties):
        for name in _ECHOED:
            properties.pop(name, None)
    properties[GROUP] = properties.get(GROUP) or group
    properties[names.TRAN_MSG] = "true"
    properties[REAL_TOPIC] = message.topic
    properties[REAL_QUEUE] = str(message.queue_id)
    return _copy(
        message,
        topic=HALF_TOPIC,
        queue_id=0,
        properties=properties,
        transaction_id=message.message_id,
        type_=_TRANSACTION,
        status=_NORMAL,
        sys_flag=_with_status(message.sys_flag, 0),
    )


def _copy(
    message: Message,
    *,
    topic: str,
    queue_id: int,
    properties: dict[str, str],
    transaction_id: str,
    type_: int,
    status: int,
    sys_flag: int | None,
    prepared_offset: int = 0,
) -> Message:
    """Do what ``altered`` does, for every message of a transaction: several times as fast.

    What else a message can hold cannot be said in a send, nor in a half message.
    """
    return Message(
        topic,
        message.body,
        queue_id=queue_id,
        message_id=message.message_id,
        tags=message.tags,
        keys=message.keys,
        properties=properties,
        type=type_,
        transaction_id=transaction_id,
        status=status,
        sharding_key=message.sharding_key,
        born_time=message.born_time,
        born_host=message.born_host,
        flag=message.flag,
        sys_flag=sys_flag,
        reconsume_times=message.reconsume_times,
        prepared_offset=prepared_offset,
    )


def half_of(record: Record) -> Half:
    """Return the half message that a record holds."""
    return Half(record.queue_offset, record.position, record.store_time or 0, to_message(record))


def committed(half: Half, queue_id: int) -> Message:
    """Return the message that becomes visible."""
    message = half.message
    properties = {name: value for name, value in message.properties.items() if name not in _NOT_VISIBLE}
    properties[names.ORIGIN] = str(half.origin)
    return _copy(
        message,
        topic=half.topic,
        queue_id=queue_id,
        properties=properties,
        transaction_id=message.transaction_id,
        type_=message.type,
        status=_COMMITTED,
        sys_flag=_with_status(message.sys_flag, _COMMIT),
        prepared_offset=half.position,
    )


def op_message(offset: int, *, born_time: int, born_host: str) -> Message:
    """Return what says that a half message is ended."""
    return Message(HALF_OP_TOPIC, b"%d" % offset, tags=(_OP_TAG,), born_time=born_time, born_host=born_host)


def ended_offsets(body: bytes) -> list[int]:
    """Return the offsets that an op record names; RocketMQ writes several into one."""
    texts = body.decode("ascii", "replace").split(",")
    return [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) <= 18]


def carried(half: Half, checks: int) -> Message:
    """Return the copy of a half message whose segment has to go."""
    properties = {
        **half.message.properties,
        names.ORIGIN: str(half.origin),
        EARLIER_OFFSET: str(half.offset),
        CHECK_TIMES: str(checks),
    }
    return altered(half.message, properties=properties, prepared_offset=half.position)


def given_up(half: Half, checks: int) -> Message:
    """Return the copy of a half message that nobody ended, for an operator to look at."""
    properties = {**half.message.properties, names.ORIGIN: str(half.origin), CHECK_TIMES: str(checks)}
    return altered(
        half.message, topic=CHECK_LIMIT_TOPIC, queue_id=0, properties=properties, prepared_offset=half.position
    )


def checked_record(half: Half, checks: int, store_host: str) -> bytes:
    """Return a half message as a producer is asked about it: with its real topic and queue, in RocketMQ's bytes."""
    properties = {name: value for name, value in half.message.properties.items() if name not in names.INTERNAL}
    message = altered(
        half.message,
        topic=half.topic,
        queue_id=half.queue_id,
        properties={**properties, CHECK_TIMES: str(checks)},
    )
    # A host name that is no number would stand in a property that no client may see.
    host = store_host if hosts.to_bytes(store_host) is not None else NO_HOST
    place = Placement(LogPosition(half.position), QueueOffset(half.offset), half.store_time, host)
    return rocketmq.encode(message, place)


def _with_status(sys_flag: int | None, bits: int) -> int | None:
    return None if sys_flag is None else sys_flag & ~_STATUS_BITS | bits
