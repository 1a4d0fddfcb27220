"""The ``litemq`` record: a frame of ``u32 size`` (bytes that follow) and this, big-endian, texts UTF-8.

    u32   magic 0x4C4D5101
    text  message id                                    text = u16 size + bytes
    text  topic
    list  tags, then keys                               list = u32 count + texts
    map   properties                                    map  = u32 count + pairs of texts, written sorted
    u32   body size, and the body
    u8    type   u8 priority   u8 reliability   u64 delay time
    text  transaction id
    u8    status
    text  sharding key
    u8    broadcast   u64 born time
    text  born host
    text  store host
    u32   queue id   i64 queue offset   i64 log offset   u32 store size (of the frame)
    u64   store time   u64 consume start time   u64 consume end time   u32 consume count

The reserved property ``__CRC32C`` holds the checksum of the whole frame with its own eight digits as ``0``.
A size field of 0 or 0xFFFFFFFF ends the written part of a segment.  ``_scan_cy`` checks all that; here it is read, and
``_encode_cy`` writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from litemq.format import _encode_cy, _scan_cy, compression, names, reserved
from litemq.format import rows as r
from litemq.format._fields_cy import litemq_fields
from litemq.format.placement import Placement
from litemq.types import LogPosition, Message, QueueOffset, Record

NAME: Final = "litemq"
MAGIC: Final = 0x4C4D5101
FILLER: Final = 0xFFFFFFFF
"""Size field that says: the rest of the segment is empty."""

MAX_TEXT: Final = 0xFFFF
MIN_SIZE: Final = 109


def decode_row(view: memoryview, row: Sequence[int], segment: str) -> Record:
    """Return the record that ``row`` describes, whose bytes are in ``view``.

    Raises:
        compression.DoesNotDecompress: the one fault that the scan does not find.
    """
    lists, codes, texts, numbers = litemq_fields(
        view, row[r.ID_AT], row[r.TOPIC_AT], row[r.KEYS_AT], row[r.PROPERTIES_AT], row[r.REST_AT]
    )
    tags, keys, properties = lists
    kind, priority, reliability, status, broadcast = codes
    message_id, topic, transaction_id, sharding_key, born_host, store_host = texts
    queue_id, queue_offset, log_offset, store_time, consume_start, consume_end, count, delay_time, born_time = numbers
    stored = bytes(view[row[r.BODY_AT] : row[r.BODY_AT] + row[r.BODY_SIZE]])
    properties.pop(names.CRC32C, None)
    properties.pop(names.CRC32, None)
    flag = prepared_offset = sys_flag = None
    if not names.RESERVED_IN_LITEMQ.isdisjoint(properties):
        flag = _take(properties, names.FLAG)
        prepared_offset = _take(properties, names.PREPARED_OFFSET)
        sys_flag = _take(properties, names.SYS_FLAG)
    if sys_flag is None:
        sys_flag = reserved.derived_sys_flag(status, born_host, store_host)
    return Record(
        format=NAME,
        version=1,
        segment=segment,
        position=LogPosition(row[r.POSITION]),
        size=row[r.SIZE],
        check="ok" if row[r.CHECKED] else "unchecked",
        topic=topic,
        queue_id=queue_id,
        queue_offset=QueueOffset(queue_offset),
        log_offset=log_offset,
        message_id=message_id,
        tags=tags,
        keys=keys,
        properties=properties,
        body=compression.plain_body(stored, sys_flag),
        stored_body=stored,
        compression=compression.name_of(sys_flag),
        body_crc=None,
        flag=flag or 0,
        sys_flag=sys_flag,
        type=names.TYPE_NAMES[kind],
        priority=priority,
        reliability=reliability,
        delay_time=delay_time,
        transaction_id=transaction_id,
        status=names.STATUS_NAMES[status],
        sharding_key=sharding_key,
        broadcast=broadcast,
        born_time=born_time,
        born_host=born_host,
        store_time=store_time,
        store_host=store_host,
        reconsume_times=count,
        prepared_offset=prepared_offset or 0,
        consume_start_time=consume_start,
        consume_end_time=consume_end,
        offset_id=None,
    )


def encode(message: Message, place: Placement) -> bytes:
    """Return the record of ``message``, for converters and tests; a store encodes batches in place.

    Raises:
        InvalidRequest: something is over what its field can say.
    """
    data: bytes = _encode_cy.encode(
        _scan_cy.LITEMQ,
        message,
        position=place.position,
        queue_offset=place.queue_offset,
        store_time=place.store_time,
        store_host=place.store_host,
    )
    return data


def _take(properties: dict[str, str], name: str) -> int | None:
    """Take a reserved number out of the properties; one that cannot be read stays."""
    value = reserved.number(properties.get(name), reserved.BOUNDS_IN_LITEMQ[name])
    if value is not None:
        del properties[name]
    return value
