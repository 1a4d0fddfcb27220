"""The ``blueprint`` record, big-endian, a fixed header of 56 bytes and three variable parts.

      at  size  field
       0     4  total size
       4     4  magic 0xAABBCCDD
       8     4  body CRC: all 32 bits of the CRC-32 of the stored body
      12     4  queue id
      16     4  flag
      20     8  queue offset
      28     8  physical offset = position
      36     4  sys flag
      40     8  born time
      48     8  store time
      56   1+n  topic
           4+n  body
           2+n  properties (``properties.py``)

Zeros end a segment.  ``_scan_cy`` checks all that; here it is read and written.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Final

from litemq.errors import RecordTooLarge
from litemq.format import compression, names, reserved, well_known
from litemq.format import properties as property_text
from litemq.format import rows as r
from litemq.format.placement import Placement
from litemq.types import LogPosition, Message, QueueOffset, Record

NAME: Final = "blueprint"
MAGIC: Final = 0xAABBCCDD
MIN_SIZE: Final = 63
MAX_TOPIC: Final = 0xFF
MAX_PROPERTIES: Final = 0xFFFF

_HEAD = struct.Struct(
    ">II"  # total size, magic
    "II"  # body crc, queue id
    "i"  # flag
    "qq"  # queue offset, log offset
    "i"  # sys flag
    "qq"  # born time, store time
)


def decode_row(view: memoryview, row: Sequence[int], segment: str) -> Record:
    """Return the record that ``row`` describes, whose bytes are in ``view``.

    Raises:
        compression.DoesNotDecompress: the one fault that the scan does not find.
    """
    head = _HEAD.unpack_from(view, row[r.TOPIC_AT] - 1 - _HEAD.size)
    _, _, body_crc, queue_id, flag, queue_offset, log_offset, sys_flag, born_time, store_time = head
    stored = bytes(view[row[r.BODY_AT] : row[r.BODY_AT] + row[r.BODY_SIZE]])
    found = property_text.parse(view[row[r.PROPERTIES_AT] : row[r.PROPERTIES_AT] + row[r.PROPERTIES_SIZE]])
    shown = well_known.take(found)
    return Record(
        format=NAME,
        version=None,
        segment=segment,
        position=LogPosition(row[r.POSITION]),
        size=row[r.SIZE],
        check="ok",
        topic=str(view[row[r.TOPIC_AT] : row[r.TOPIC_AT] + row[r.TOPIC_SIZE]], "utf-8"),
        queue_id=queue_id,
        queue_offset=QueueOffset(queue_offset),
        log_offset=log_offset,
        message_id=shown.unique_id,
        tags=shown.tags,
        keys=shown.keys,
        properties=found,
        body=compression.plain_body(stored, sys_flag),
        stored_body=stored,
        compression=compression.name_of(sys_flag),
        body_crc=body_crc,
        flag=flag,
        sys_flag=sys_flag,
        type=shown.type,
        priority=None,
        reliability=None,
        delay_time=shown.delay_time,
        transaction_id=shown.transaction_id,
        status=names.STATUS_NAMES[sys_flag >> names.FLAG_STATUS_SHIFT & 3],
        sharding_key=shown.sharding_key,
        broadcast=None,
        born_time=born_time,
        born_host=None,
        store_time=store_time,
        store_host=None,
        reconsume_times=None,
        prepared_offset=None,
        consume_start_time=None,
        consume_end_time=None,
        offset_id=None,
    )


def encode(message: Message, place: Placement) -> bytes:
    """Return the record of ``message``; what the format has no room for is left out.

    Raises:
        RecordTooLarge: topic, properties or body are over what their size fields can say.
    """
    topic = message.topic.encode()
    properties = property_text.write(well_known.pairs_of(message, unique_id=True))
    total = _HEAD.size + 1 + len(topic) + 4 + len(message.body) + 2 + len(properties)
    for what, size, limit in (
        ("topic", len(topic), MAX_TOPIC),
        ("properties", len(properties), MAX_PROPERTIES),
        ("record", total, 0xFFFFFFFF),
    ):
        if size > limit:
            raise RecordTooLarge(what=what, size=size, limit=limit)
    sys_flag = message.sys_flag
    if sys_flag is None:
        sys_flag = reserved.derived_sys_flag(message.status, message.born_host, place.store_host)
    head = _HEAD.pack(
        total,
        MAGIC,
        zlib.crc32(message.body),
        message.queue_id & 0xFFFFFFFF,
        message.flag,
        place.queue_offset,
        place.position,
        sys_flag,
        reserved.signed64(message.born_time),
        reserved.signed64(place.store_time),
    )
    return b"".join(
        (
            head,
            len(topic).to_bytes(1),
            topic,
            len(message.body).to_bytes(4),
            message.body,
            len(properties).to_bytes(2),
            properties,
        )
    )
