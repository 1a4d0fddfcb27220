"""Entries of the files that lead from a queue offset to a record, big-endian.

ConsumeQueue of ``rocketmq`` and ``blueprint``, 20 bytes; entry n stands at byte 20 × n:

      at  size  field
       0     8  position    of the record's first byte in the log
       8     4  size        of the whole record
      12     8  tag hash    Java's hash of the tag, sign-extended; delay queues of RocketMQ: delivery time in ms

ConsumeQueue of ``litemq``, 24 bytes; entry n stands at byte 24 × n:

       0     8  position
       8     4  size
      12     4  tag hash    the same 32 bits, without a sign
      16     8  store time  in ms

Index file of a ``tmq`` queue, 24 bytes:

       0     4  segment     number of the segment, from 0
       4     4  place       of the record in its segment
       8     8  end         absolute position behind the record; never used to find it
      16     4  size
      20     4  zero

BatchConsumeQueue of RocketMQ (topics of type BatchCQ), 46 bytes:

       0     8  position
       8     4  size
      12     8  tag hash
      20     8  store time
      28     8  base offset  queue offset of the first message in the unit
      36     2  messages     how many in the unit
      38     4  compacted    -1
      42     4  zero

A size of 0 or below, or a position below 0, ends the written part.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

_ROCKETMQ = struct.Struct(">qiq")
_LITEMQ = struct.Struct(">qiIq")
_TMQ = struct.Struct(">IIqI4x")
_BATCH = struct.Struct(">qiqqqhi4x")

ROCKETMQ_ENTRY_SIZE: Final = _ROCKETMQ.size
LITEMQ_ENTRY_SIZE: Final = _LITEMQ.size
TMQ_ENTRY_SIZE: Final = _TMQ.size
BATCH_ENTRY_SIZE: Final = _BATCH.size
BEFORE_START_SIZE: Final = 0x7FFFFFFF
"""Size in the entries with which RocketMQ fills the space before the first offset of a queue."""

Buffer = bytes | bytearray | memoryview


class QueueEntry(NamedTuple):
    """One ConsumeQueue entry.  ``tag_hash`` is signed as RocketMQ stores it; ``store_time`` is None in 20 bytes."""

    position: int
    size: int
    tag_hash: int
    store_time: int | None = None

    @property
    def is_written(self) -> bool:
        """Whether this is an entry, and not the empty space behind the last one."""
        return self.size > 0 and self.position >= 0

    @property
    def is_before_start(self) -> bool:
        """Whether this only fills the space before the queue's first offset."""
        return self.position == 0 and self.size == BEFORE_START_SIZE


def total_size(entries: Buffer, stride: int) -> int:
    """Return the bytes of all records that ConsumeQueue entries of ``stride`` bytes each lead to.

    Those of messages that are not there count nothing.
    """
    first, second, third, fourth = (bytes(entries[at::stride]) for at in range(8, 12))  # of the size, big-endian
    total = (sum(first) << 24) + (sum(second) << 16) + (sum(third) << 8) + sum(fourth)
    return total - first.count(BEFORE_START_SIZE >> 24) * BEFORE_START_SIZE  # no record is nearly as large


class TmqEntry(NamedTuple):
    """One entry of a ``tmq`` queue's index file."""

    segment: int
    place: int
    end: int
    size: int


class BatchEntry(NamedTuple):
    """One unit of a BatchConsumeQueue."""

    position: int
    size: int
    tag_hash: int
    store_time: int
    base_offset: int
    messages: int
    compacted: int = -1


def encode_rocketmq(entry: QueueEntry) -> bytes:
    """Return the 20 bytes."""
    return _ROCKETMQ.pack(entry.position, entry.size, entry.tag_hash)


def decode_rocketmq(buf: Buffer, at: int = 0) -> QueueEntry:
    """Return the entry in the 20 bytes at ``at``."""
    return QueueEntry(*_ROCKETMQ.unpack_from(buf, at))


def encode_litemq(entry: QueueEntry) -> bytes:
    """Return the 24 bytes."""
    return _LITEMQ.pack(entry.position, entry.size, entry.tag_hash & 0xFFFFFFFF, entry.store_time or 0)


def decode_litemq(buf: Buffer, at: int = 0) -> QueueEntry:
    """Return the entry in the 24 bytes at ``at``; the hash is unsigned, as in a ``litemq`` row."""
    return QueueEntry(*_LITEMQ.unpack_from(buf, at))


def encode_tmq(entry: TmqEntry) -> bytes:
    """Return the 24 bytes."""
    return _TMQ.pack(*entry)


def decode_tmq(buf: Buffer, at: int = 0) -> TmqEntry:
    """Return the entry in the 24 bytes at ``at``."""
    return TmqEntry(*_TMQ.unpack_from(buf, at))


def encode_batch(entry: BatchEntry) -> bytes:
    """Return the 46 bytes."""
    return _BATCH.pack(*entry)


def decode_batch(buf: Buffer, at: int = 0) -> BatchEntry:
    """Return the unit in the 46 bytes at ``at``."""
    return BatchEntry(*_BATCH.unpack_from(buf, at))


@dataclass(frozen=True, slots=True)
class EntryLayout:
    """The ConsumeQueue entry of one record format."""

    size: int
    encode: Callable[[QueueEntry], bytes]
    decode: Callable[[Buffer, int], QueueEntry]


LAYOUTS: Final = {
    "litemq": EntryLayout(LITEMQ_ENTRY_SIZE, encode_litemq, decode_litemq),
    "rocketmq": EntryLayout(ROCKETMQ_ENTRY_SIZE, encode_rocketmq, decode_rocketmq),
    "blueprint": EntryLayout(ROCKETMQ_ENTRY_SIZE, encode_rocketmq, decode_rocketmq),
}
"""By format; ``tmq`` has no ConsumeQueue but its own index file."""
