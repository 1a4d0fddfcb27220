"""Columns of records: what the fields of many records are side by side, in buffers as Apache Arrow lays them out.

    Columns(code, names)             what is wanted, of one record format
    add(view, table, picked, …)      take rows that ``scan`` filled and ``pick`` chose
    finish()                         the buffers of each column, and empty again

``finish`` gives for each name a tuple of buffers; offsets are 32-bit, numbers are little-endian, a validity bitmap is
None where nothing is null:

    int, long, time   validity, values                time: µs since the epoch
    text, binary      validity, offsets, bytes
    texts             offsets, and of the texts: offsets, bytes
    map               offsets, of the keys: offsets, bytes, of the values: offsets, bytes

The compiled kernel makes no Python object for a row, but for the odd one, which goes by ``values_of`` as every row of
the plain twin does: a record that names a property twice, is compressed, or holds reserved properties.
"""

from __future__ import annotations

from typing import Final

from litemq.format._columns_py import buffers_of
from litemq.format.record import offset_in_queue
from litemq.types import Record

try:
    from litemq.format._columns_c import Columns, is_compiled, pick
except ImportError:
    from litemq.format._columns_py import Columns, is_compiled, pick

__all__ = ["KINDS", "Columns", "Value", "buffers_of", "is_compiled", "is_placed", "pick", "values_of"]

Value = str | bytes | int | None | tuple[str, ...] | dict[str, str]

KINDS: Final = {
    "topic": "text",
    "queue_id": "int",
    "queue_offset": "long",
    "physical_offset": "long",
    "message_id": "text",
    "keys": "text",
    "tags": "text",
    "body": "binary",
    "properties": "map",
    "born_timestamp": "time",
    "store_timestamp": "time",
    "deliver_timestamp": "time",
    "reconsume_times": "int",
    "sys_flag": "int",
    "size": "int",
    "body_crc": "int",
    "all_tags": "texts",
    "all_keys": "texts",
    "type": "text",
    "priority": "int",
    "reliability": "int",
    "transaction_id": "text",
    "status": "text",
    "sharding_key": "text",
    "flag": "int",
    "born_host": "text",
    "store_host": "text",
}
"""Name and kind of each column, in the order of ``values_of``."""

FIRST_TIME: Final = -62_135_596_800_000
LAST_TIME: Final = 253_402_300_799_999
"""Times outside of the years 1 to 9999, in ms, are null: nothing can show them."""


def values_of(record: Record) -> tuple[Value, ...]:
    """Return the values of all columns of one record."""
    return (
        record.topic,
        _int32(record.queue_id),
        record.queue_offset,
        record.position,
        record.message_id,
        record.keys[0] if record.keys else None,
        record.tags[0] if record.tags else None,
        record.body,
        record.properties,
        _time(record.born_time),
        _time(record.store_time),
        _time(record.delay_time or None),
        _int32(record.reconsume_times),
        record.sys_flag,
        _int32(record.size),
        _int32(record.body_crc),
        record.tags,
        record.keys,
        record.type,
        record.priority,
        record.reliability,
        record.transaction_id,
        record.status,
        record.sharding_key,
        record.flag,
        record.born_host,
        record.store_host,
    )


def is_placed(record: Record) -> bool:
    """Return whether a record is a message of its queue, neither half nor rolled back."""
    return offset_in_queue(record) is not None


def _int32(value: int | None) -> int | None:
    """Return the signed number of the same 32 bits: Spark has no unsigned one."""
    return None if value is None else (value + (1 << 31)) % (1 << 32) - (1 << 31)


def _time(ms: int | None) -> int | None:
    return ms * 1000 if ms is not None and FIRST_TIME <= ms <= LAST_TIME else None
