"""Values that every floor speaks of: messages, records, positions, offsets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NewType

from litemq._message_cy import NO_HOST, Appended, Message

__all__ = [
    "NO_HOST",
    "Appended",
    "LogPosition",
    "Message",
    "MessageType",
    "QueueOffset",
    "Record",
    "Status",
    "TopicQueue",
]

LogPosition = NewType("LogPosition", int)
"""A byte of the commit log."""

QueueOffset = NewType("QueueOffset", int)
"""The n-th message of one queue."""


class MessageType(IntEnum):
    """Kind of a message, as the ``litemq`` format stores it."""

    NORMAL = 0
    DELAY = 1
    TRANSACTION = 2
    BROADCAST = 3
    ORDER = 4


class Status(IntEnum):
    """Where a transactional message stands; ``PREPARED`` and ``ROLLED_BACK`` have no queue entry."""

    NORMAL = 0
    PREPARED = 1
    COMMITTED = 2
    ROLLED_BACK = 3


@dataclass(frozen=True, slots=True, order=True)
class TopicQueue:
    """One queue of one topic."""

    topic: str
    queue_id: int


@dataclass(slots=True)
class Record:
    """A decoded record: the object that ``litemq store dump --json`` prints, before base64; treat it as a value.

    None where the format has no such field and no reserved property holds it.  Not frozen: making one would take
    5.4 µs instead of 2.2, more than all the rest of decoding some records.
    """

    format: str
    version: int | None
    segment: str
    position: LogPosition
    size: int
    check: str
    topic: str
    queue_id: int
    queue_offset: QueueOffset
    log_offset: int
    message_id: str | None
    tags: tuple[str, ...]
    keys: tuple[str, ...]
    properties: dict[str, str]
    body: bytes
    stored_body: bytes
    compression: str | None
    body_crc: int | None
    flag: int | None
    sys_flag: int | None
    type: str
    priority: int | None
    reliability: int | None
    delay_time: int
    transaction_id: str | None
    status: str | None
    sharding_key: str | None
    broadcast: bool | None
    born_time: int
    born_host: str | None
    store_time: int | None
    store_host: str | None
    reconsume_times: int | None
    prepared_offset: int | None
    consume_start_time: int | None
    consume_end_time: int | None
    offset_id: str | None
