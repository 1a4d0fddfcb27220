"""The four record formats: the only place that knows them all.

    litemq     what a broker writes by default
    rocketmq   what a broker may write; a real RocketMQ reads it
    blueprint  older layout: read, converted, exported
    tmq        older layout, one log per queue: read, converted, exported

``_scan_cy.scan`` checks record bytes and fills rows; ``decode_row`` makes a ``Record`` of a row.  ``decode`` does both
for one record, and has three outcomes besides a value: None (the written part ends here), ``TornRecord`` (the bytes
end before the record does), ``CorruptRecord``.  That a damaged last record of a log counts as torn is the reader's
knowledge, not this module's.
"""

from __future__ import annotations

import base64
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from litemq.errors import CorruptRecord, TornRecord
from litemq.format import _scan_cy, blueprint, litemq, names, queue_entry, reserved, rocketmq, rows, tmq
from litemq.format.compression import DoesNotDecompress
from litemq.format.placement import Placement
from litemq.types import NO_HOST, LogPosition, Message, Record, Status

JsonValue = str | int | bool | None | list[str] | dict[str, str]


@dataclass(frozen=True, slots=True)
class Format:
    """One record format, as far as code that serves all of them must know it."""

    name: str
    code: int
    """Its number for ``scan``."""
    magics: tuple[int, ...]
    """Magics of records, and of a filler that may open a segment."""
    queue_entry_size: int
    """Bytes of one ConsumeQueue entry (``tmq``: of its index file)."""
    min_size: int
    """Bytes of the smallest record."""
    read: Callable[[memoryview, Sequence[int], str], Record]
    """Make a record of a row: ``decode_row`` without the translation of errors."""
    write: Callable[[Message, Placement], bytes]
    """Make the record of a message; InvalidRequest when it does not fit (``limits.check_fits``)."""

    @property
    def magic(self) -> int:
        """The magic that a writer uses."""
        return self.magics[0]


LITEMQ: Final = Format(
    name=litemq.NAME,
    code=_scan_cy.LITEMQ,
    magics=(litemq.MAGIC,),
    queue_entry_size=queue_entry.LITEMQ_ENTRY_SIZE,
    min_size=litemq.MIN_SIZE,
    read=litemq.decode_row,
    write=litemq.encode,
)
ROCKETMQ: Final = Format(
    name=rocketmq.NAME,
    code=_scan_cy.ROCKETMQ,
    magics=(rocketmq.MAGIC_V1, rocketmq.MAGIC_V2, rocketmq.FILLER_MAGIC),
    queue_entry_size=queue_entry.ROCKETMQ_ENTRY_SIZE,
    min_size=rocketmq.MIN_SIZE,
    read=rocketmq.decode_row,
    write=rocketmq.encode,
)
BLUEPRINT: Final = Format(
    name=blueprint.NAME,
    code=_scan_cy.BLUEPRINT,
    magics=(blueprint.MAGIC,),
    queue_entry_size=queue_entry.ROCKETMQ_ENTRY_SIZE,
    min_size=blueprint.MIN_SIZE,
    read=blueprint.decode_row,
    write=blueprint.encode,
)
TMQ: Final = Format(
    name=tmq.NAME,
    code=_scan_cy.TMQ,
    magics=(tmq.MAGIC,),
    queue_entry_size=queue_entry.TMQ_ENTRY_SIZE,
    min_size=tmq.MIN_SIZE,
    read=tmq.decode_row,
    write=tmq.encode,
)

FORMATS: Final = {known.name: known for known in (LITEMQ, ROCKETMQ, BLUEPRINT, TMQ)}
"""By name, in the order in which they are listed to people."""

_BY_MAGIC: Final = {magic: known for known in FORMATS.values() for magic in known.magics}


def detect(start: bytes | memoryview) -> Format | None:
    """Return the format whose first record begins with ``start`` (8 bytes are looked at), or None."""
    return _BY_MAGIC.get(int.from_bytes(start[4:8])) if len(start) >= 8 else None


def decode_row(fmt: Format, view: memoryview, table: array[int], row_index: int, segment: str) -> Record:
    """Return the record of one row that ``scan`` filled from ``view``.

    Raises:
        CorruptRecord: the body does not decompress.
    """
    start = row_index * rows.WIDTH
    row = table[start : start + rows.WIDTH]
    try:
        return fmt.read(view, row, segment)
    except DoesNotDecompress as error:
        raise CorruptRecord(position=row[rows.POSITION], reason=str(error)) from error


def decode(
    buf: bytes | bytearray | memoryview,
    position: int = 0,
    format: Format | str | None = None,  # noqa: A002 - the command line's word
    segment: str = "",
) -> Record | None:
    """Return the record at the start of ``buf``, whose place in its log is ``position``; None at the end of the log.

    Without a format the magic decides; ``tmq`` takes any magic when it is named.

    Raises:
        TornRecord: the bytes end before the record does.
        CorruptRecord: the record is whole and cannot be sound.
    """
    view = memoryview(buf)
    fmt = FORMATS[format] if isinstance(format, str) else format
    magic = tmq.MAGIC if fmt is None else tmq.ANY_MAGIC
    if fmt is None:
        if not any(view[:4]):
            return None
        if len(view) < 8:
            raise TornRecord(position=position, reason=f"{len(view)} bytes are there, too few to tell the format")
        fmt = detect(view)
        if fmt is None:
            raise CorruptRecord(position=position, reason=rows.REASONS[rows.WRONG_MAGIC])
    table = rows.table(1)
    count, _, status = _scan_cy.scan(fmt.code, view, 0, len(view), position, table, magic=magic)
    if count:
        return decode_row(fmt, view, table, 0, segment)
    if status in (rows.END, rows.FILLER):
        return None
    if status == rows.CUT:
        raise TornRecord(position=position, reason=f"the record needs more than the {len(view)} bytes that are there")
    raise CorruptRecord(position=position, reason=rows.REASONS[status])


def to_json(record: Record) -> dict[str, JsonValue]:
    """Return the record object that ``litemq store dump --json`` prints."""
    return {
        "format": record.format,
        "version": record.version,
        "segment": record.segment,
        "position": record.position,
        "size": record.size,
        "check": record.check,
        "topic": record.topic,
        "queue_id": record.queue_id,
        "queue_offset": record.queue_offset,
        "log_offset": record.log_offset,
        "message_id": record.message_id,
        "tags": list(record.tags),
        "keys": list(record.keys),
        "properties": record.properties,
        "body": base64.b64encode(record.body).decode("ascii"),
        "body_size": len(record.body),
        "stored_body_size": len(record.stored_body),
        "compression": record.compression,
        "body_crc": record.body_crc,
        "flag": record.flag,
        "sys_flag": record.sys_flag,
        "type": record.type,
        "priority": record.priority,
        "reliability": record.reliability,
        "delay_time": record.delay_time,
        "transaction_id": record.transaction_id,
        "status": record.status,
        "sharding_key": record.sharding_key,
        "broadcast": record.broadcast,
        "born_time": record.born_time,
        "born_host": record.born_host,
        "store_time": record.store_time,
        "store_host": record.store_host,
        "reconsume_times": record.reconsume_times,
        "prepared_offset": record.prepared_offset,
        "consume_start_time": record.consume_start_time,
        "consume_end_time": record.consume_end_time,
        "offset_id": record.offset_id,
    }


def offset_in_queue(record: Record) -> int | None:
    """Return the queue offset of a record; None when it is prepared or rolled back: then it has no place in its queue.

    In RocketMQ's format the sys flag decides, whatever status a property states beside it.
    """
    status = names.STATUS_NAMES.index(record.status or "normal")
    if record.format == rocketmq.NAME:
        status = (record.sys_flag or 0) >> names.FLAG_STATUS_SHIFT & 3
    return None if status in (Status.PREPARED, Status.ROLLED_BACK) else record.queue_offset


def to_message(record: Record, *, plain_body: bool = False) -> Message:
    """Return the message that a record holds; what its format lacks is 0, empty or ``0.0.0.0:0``.

    The body stays as stored, compression and all; with ``plain_body`` (for ``tmq``, which has no sys flag) it is the
    application's bytes.  The sys flag is None where status and hosts tell the same.  A time below 0, which only a
    signed field can hold, becomes the unsigned number of the same 64 bits.
    """
    status = names.STATUS_NAMES.index(record.status or "normal")
    born_host = NO_HOST if record.born_host is None else record.born_host
    sys_flag = record.sys_flag
    if sys_flag is not None and plain_body:
        sys_flag &= ~_COMPRESSION_BITS
    if sys_flag == reserved.derived_sys_flag(status, born_host, record.store_host or NO_HOST):
        sys_flag = None
    return Message(
        record.topic,
        record.body if plain_body else record.stored_body,
        queue_id=record.queue_id,
        message_id=record.message_id or "",
        tags=record.tags,
        keys=record.keys,
        properties=record.properties,
        type=names.TYPE_NAMES.index(record.type),
        priority=record.priority or 0,
        reliability=record.reliability or 0,
        delay_time=record.delay_time,
        transaction_id=record.transaction_id or "",
        status=status,
        sharding_key=record.sharding_key or "",
        broadcast=bool(record.broadcast),
        born_time=record.born_time & _UINT64,
        born_host=born_host,
        flag=record.flag or 0,
        sys_flag=sys_flag,
        reconsume_times=record.reconsume_times or 0,
        prepared_offset=record.prepared_offset or 0,
        consume_start_time=record.consume_start_time or 0,
        consume_end_time=record.consume_end_time or 0,
    )


def to_placement(record: Record, position: int) -> Placement:
    """Return the record's placement at a new position; a source without a store time gives its born time."""
    return Placement(
        LogPosition(position),
        record.queue_offset,
        reserved.signed64(record.born_time if record.store_time is None else record.store_time),
        NO_HOST if record.store_host is None else record.store_host,
    )


_COMPRESSION_BITS: Final = 0x701
_UINT64: Final = (1 << 64) - 1
