"""The ``tmq`` record, big-endian; one log per queue.

    u32  length of the whole record
    u32  magic: 0x544D5101 is written, any is read when the format is named
    u32  queue id
    i64  file offset: the record's position, written so and not checked
    i64  queue offset
    u32  size, and the message id
    i64  born time
    u32  size, and the body
    u32  size, and the topic
    u16  size, and the properties (``properties.py``)

There is no checksum and no sys flag: bodies are plain.  ``_scan_cy`` checks that the parts add up; here they are
read and written.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from litemq.errors import RecordTooLarge
from litemq.format import names, reserved, well_known
from litemq.format import properties as property_text
from litemq.format import rows as r
from litemq.format.placement import Placement
from litemq.types import LogPosition, Message, QueueOffset, Record

NAME: Final = "tmq"
MAGIC: Final = 0x544D5101
ANY_MAGIC: Final = -1
MIN_SIZE: Final = 50
MAX_PROPERTIES: Final = 0xFFFF

_HEAD = struct.Struct(">IIIqqI")  # length, magic, queue id, file offset, queue offset, size of the message id
_I64 = struct.Struct(">q")


def decode_row(view: memoryview, row: Sequence[int], segment: str) -> Record:
    """Return the record that ``row`` describes, whose bytes are in ``view``."""
    _, _, queue_id, file_offset, queue_offset, id_size = _HEAD.unpack_from(view, row[r.ID_AT] - _HEAD.size)
    message_id = str(view[row[r.ID_AT] : row[r.ID_AT] + id_size], "utf-8")
    (born_time,) = _I64.unpack_from(view, row[r.REST_AT])
    body = bytes(view[row[r.BODY_AT] : row[r.BODY_AT] + row[r.BODY_SIZE]])
    found = property_text.parse(view[row[r.PROPERTIES_AT] : row[r.PROPERTIES_AT] + row[r.PROPERTIES_SIZE]])
    shown = well_known.take(found)
    if shown.unique_id is not None and shown.unique_id != message_id:
        # The id has a field here, so no key shows this property: it stays one.
        found[names.UNIQ_KEY] = shown.unique_id
    return Record(
        format=NAME,
        version=None,
        segment=segment,
        position=LogPosition(row[r.POSITION]),
        size=row[r.SIZE],
        check="unchecked",
        topic=str(view[row[r.TOPIC_AT] : row[r.TOPIC_AT] + row[r.TOPIC_SIZE]], "utf-8"),
        queue_id=queue_id,
        queue_offset=QueueOffset(queue_offset),
        log_offset=file_offset,
        message_id=message_id,
        tags=shown.tags,
        keys=shown.keys,
        properties=found,
        body=body,
        stored_body=body,
        compression=None,
        body_crc=None,
        flag=None,
        sys_flag=None,
        type=shown.type,
        priority=None,
        reliability=None,
        delay_time=shown.delay_time,
        transaction_id=shown.transaction_id,
        status=None,
        sharding_key=shown.sharding_key,
        broadcast=None,
        born_time=born_time,
        born_host=None,
        store_time=None,
        store_host=None,
        reconsume_times=None,
        prepared_offset=None,
        consume_start_time=None,
        consume_end_time=None,
        offset_id=None,
    )


def encode(message: Message, place: Placement) -> bytes:
    """Return the record of ``message``, whose body must be plain; what the format has no room for is left out.

    Raises:
        RecordTooLarge: properties or body are over what their size fields can say.
    """
    topic = message.topic.encode()
    message_id = message.message_id.encode()
    properties = property_text.write(well_known.pairs_of(message, unique_id=False))
    total = _HEAD.size + len(message_id) + 8 + 4 + len(message.body) + 4 + len(topic) + 2 + len(properties)
    for what, size, limit in (("properties", len(properties), MAX_PROPERTIES), ("record", total, 0xFFFFFFFF)):
        if size > limit:
            raise RecordTooLarge(what=what, size=size, limit=limit)
    return b"".join(
        (
            _HEAD.pack(
                total, MAGIC, message.queue_id & 0xFFFFFFFF, place.position, place.queue_offset, len(message_id)
            ),
            message_id,
            _I64.pack(reserved.signed64(message.born_time)),
            len(message.body).to_bytes(4),
            message.body,
            len(topic).to_bytes(4),
            topic,
            len(properties).to_bytes(2),
            properties,
        )
    )
