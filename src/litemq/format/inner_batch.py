"""Inner batches: one ``rocketmq`` record whose body is several messages, as topics of type BatchCQ store them.

Both flags 0x040 (to be unwrapped) and 0x080 (inner batch) of the sys flag say so.  The body is one entry after another,
big-endian; the record's queue offset is that of the first:

    at  size   field
     0     4   size of the entry
     4     4   magic, not looked at
     8     4   body CRC, not looked at: clients leave it 0
    12     4   flag
    16   4+n   body
       2+n     properties (``properties.py``)
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Final

from litemq.format import properties, reserved, well_known
from litemq.types import QueueOffset, Record

FLAGS: Final = 0x0C0
"""Bits of the sys flag that an inner batch has, both of them."""

_HEAD: Final = struct.Struct(">i8xii")  # size, flag, body size
_PROPERTIES_SIZE: Final = struct.Struct(">h")


class DoesNotUnfold(ValueError):
    """A body that is not one whole message after another."""


def is_inner_batch(sys_flag: int | None) -> bool:
    """Return whether a record holds several messages."""
    return sys_flag is not None and sys_flag & FLAGS == FLAGS


def unfold(record: Record) -> list[Record]:
    """Return the messages of an inner batch, each as if it had been stored by itself at the batch's position.

    Raises:
        DoesNotUnfold: the body is something else; the text says where.
    """
    body = record.body
    found: list[Record] = []
    at = 0
    while at < len(body):
        start = at
        try:
            size, flag, body_size = _HEAD.unpack_from(body, at)
            body_at = at + _HEAD.size
            (text_size,) = _PROPERTIES_SIZE.unpack_from(body, body_at + max(0, body_size))
        except struct.error as error:
            raise DoesNotUnfold(f"inner batch: message {len(found)} at byte {start} of the body is cut") from error
        text_at = body_at + body_size + _PROPERTIES_SIZE.size
        at = text_at + text_size
        if body_size < 0 or text_size < 0 or at > len(body) or size != at - start:
            raise DoesNotUnfold(f"inner batch: message {len(found)} at byte {start} of the body does not add up")
        pairs = properties.parse(body[text_at:at])
        shown = well_known.take(pairs)
        extra = reserved.take(pairs)
        own = body[body_at : body_at + body_size]
        found.append(
            replace(
                record,
                size=size,
                queue_offset=QueueOffset(record.queue_offset + len(found)),
                message_id=shown.unique_id,
                tags=shown.tags if extra.tags is None else extra.tags,
                keys=shown.keys if extra.keys is None else extra.keys,
                properties=pairs,
                body=own,
                stored_body=own,
                body_crc=None,
                flag=flag,
                type=extra.type or shown.type,
                delay_time=shown.delay_time,
                transaction_id=shown.transaction_id,
                sharding_key=shown.sharding_key,
            )
        )
    return found
