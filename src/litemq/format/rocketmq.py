"""The ``rocketmq`` record, byte for byte as Apache RocketMQ writes it, big-endian.

      at  size    field                                 (places for two IPv4 hosts)
       0     4    total size
       4     4    magic: 0xDAA320A7 version 1, 0xDAA320AB version 2, 0xCBD43194 filler to the end of the segment
       8     4    body CRC: CRC-32 of the stored body & 0x7FFFFFFF, 0 for an empty body
      12     4    queue id
      16     4    flag
      20     8    queue offset
      28     8    physical offset = position
      36     4    sys flag
      40     8    born time
      48     8|20 born host      (sys flag 0x10: IPv6)
      56     8    store time
      64     8|20 store host     (sys flag 0x20: IPv6)
      72     4    reconsume times
      76     8    prepared offset
      84     4+n  body
             1+n  topic, version 2: 2+n; both sizes signed
             2+n  properties (``properties.py``), size signed

The last 20 bytes may be a checksum of the whole record, ``__CRC32#``; a store gives one to each record that it appends.
``_scan_cy`` checks all that; here it is read, and ``_encode_cy`` writes it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from litemq.format import _encode_cy, _scan_cy, compression, hosts, message_id, names, reserved, well_known
from litemq.format import properties as property_text
from litemq.format import rows as r
from litemq.format.placement import Placement
from litemq.types import LogPosition, Message, QueueOffset, Record

NAME: Final = "rocketmq"
MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
FILLER_MAGIC: Final = 0xCBD43194
FILLER_SIZE: Final = 8
"""A record fits a segment only with room for a filler behind it."""

MIN_SIZE: Final = 91
MAX_PROPERTIES: Final = 32767

_HEAD = struct.Struct(">8xIiiqqiq")  # body crc, queue id, flag, queue offset, log offset, sys flag, born time
_I64 = struct.Struct(">q")
_RETRY = struct.Struct(">iq")  # reconsume times, prepared offset
_host_text = lru_cache(maxsize=1024)(hosts.to_text)  # few hosts write a log


def decode_row(view: memoryview, row: Sequence[int], segment: str) -> Record:
    """Return the record that ``row`` describes, whose bytes are in ``view``.

    Raises:
        compression.DoesNotDecompress: the one fault that the scan does not find.
    """
    sys_flag = row[r.SYS_FLAG]
    born_size = hosts.IPV6_SIZE if sys_flag & names.FLAG_BORN_IPV6 else hosts.IPV4_SIZE
    store_size = hosts.IPV6_SIZE if sys_flag & names.FLAG_STORE_IPV6 else hosts.IPV4_SIZE
    retry_at = row[r.REST_AT] - _RETRY.size
    store_host_at = retry_at - store_size
    store_time_at = store_host_at - 8
    born_host_at = store_time_at - born_size
    body_crc, queue_id, flag, queue_offset, log_offset, _, born_time = _HEAD.unpack_from(
        view, born_host_at - _HEAD.size
    )
    (store_time,) = _I64.unpack_from(view, store_time_at)
    reconsume_times, prepared_offset = _RETRY.unpack_from(view, retry_at)
    born_host = bytes(view[born_host_at:store_time_at])
    store_host = bytes(view[store_host_at:retry_at])
    stored = bytes(view[row[r.BODY_AT] : row[r.BODY_AT] + row[r.BODY_SIZE]])
    found = property_text.parse(view[row[r.PROPERTIES_AT] : row[r.PROPERTIES_AT] + row[r.PROPERTIES_SIZE]])
    shown = well_known.take(found)
    extra = reserved.take(found)
    return Record(
        format=NAME,
        version=row[r.VERSION],
        segment=segment,
        position=LogPosition(row[r.POSITION]),
        size=row[r.SIZE],
        check="ok",
        topic=str(view[row[r.TOPIC_AT] : row[r.TOPIC_AT] + row[r.TOPIC_SIZE]], "utf-8"),
        queue_id=queue_id,
        queue_offset=QueueOffset(queue_offset),
        log_offset=log_offset,
        message_id=shown.unique_id,
        tags=shown.tags if extra.tags is None else extra.tags,
        keys=shown.keys if extra.keys is None else extra.keys,
        properties=found,
        body=compression.plain_body(stored, sys_flag),
        stored_body=stored,
        compression=compression.name_of(sys_flag),
        body_crc=body_crc,
        flag=flag,
        sys_flag=sys_flag,
        type=extra.type or shown.type,
        priority=extra.priority,
        reliability=extra.reliability,
        delay_time=shown.delay_time,
        transaction_id=shown.transaction_id,
        status=extra.status or names.STATUS_NAMES[sys_flag >> names.FLAG_STATUS_SHIFT & 3],
        sharding_key=shown.sharding_key,
        broadcast=extra.broadcast,
        born_time=born_time,
        born_host=extra.born_host or _host_text(born_host),
        store_time=store_time,
        store_host=extra.store_host or _host_text(store_host),
        reconsume_times=reconsume_times,
        prepared_offset=prepared_offset,
        consume_start_time=extra.consume_start_time,
        consume_end_time=extra.consume_end_time,
        offset_id=message_id.offset_id(store_host, log_offset),
    )


def encode(message: Message, place: Placement) -> bytes:
    """Return the record of ``message``, for converters and tests; a store encodes batches in place.

    Raises:
        InvalidRequest: something is over what its field can say.
    """
    data: bytes = _encode_cy.encode(
        _scan_cy.ROCKETMQ,
        message,
        position=place.position,
        queue_offset=place.queue_offset,
        store_time=place.store_time,
        store_host=place.store_host,
    )
    return data
