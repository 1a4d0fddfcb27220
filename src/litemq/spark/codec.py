"""Record batches out of log bytes: wraps the kernels of ``format.columns``, which fill the buffers.

Imports Arrow and nothing of Spark.  Buffers go from the kernel to Arrow without a copy.
"""

from __future__ import annotations

import json
import warnings
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from litemq.format import columns as record_columns
from litemq.format import rows
from litemq.format.columns import Columns, Value, buffers_of, pick
from litemq.format.record import Format, decode_row, offset_in_queue
from litemq.spark.backend import Chosen, Damaged, Rows, Unfolded
from litemq.spark.options import ReadOptions
from litemq.spark.schema import CORRUPT, HEADERS, Column
from litemq.types import Record

Chooser = Callable[[bytes, int], Chosen | None]

NO_END = (1 << 63) - 1
_FIRST = -(1 << 63)
_TEXT = pa.string()
_STAMP = pa.timestamp("us", tz="UTC")
SIMPLE_TYPES = {"string": _TEXT, "binary": pa.binary(), "int": pa.int32(), "bigint": pa.int64(), "timestamp": _STAMP}
_KINDS = {"string": "text", "binary": "binary", "int": "int", "bigint": "long", "timestamp": "time"}
_ARROW = {kind: SIMPLE_TYPES[name] for name, kind in _KINDS.items()}
_DLQ = {
    "group": "DLQ_GROUP",
    "reason": "DLQ_REASON",
    "error": "DLQ_ERROR",
    "stack": "DLQ_STACK",
    "consumer_id": "DLQ_CONSUMER_ID",
    "origin_topic": "DLQ_ORIGIN_TOPIC",
    "origin_message_id": "DLQ_ORIGIN_MESSAGE_ID",
    "origin_queue": "DLQ_ORIGIN_QUEUE",
    "origin_offset": "DLQ_ORIGIN_OFFSET",
    "retry_count": "DLQ_RETRY_COUNT",
    "died_ms": "DLQ_TIME",
}


@dataclass(slots=True)
class Filter:
    """Which rows are wanted, beside what a range holds."""

    choose: Chooser | None = None
    is_placed_only: bool = True
    from_ms: int = _FIRST
    to_ms: int = NO_END
    keys: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()

    def wants(self, record: Record) -> bool:
        """Return whether a decoded record is wanted, as ``pick`` and a look at its words say of a row."""
        offset = offset_in_queue(record)
        if (offset is None and self.is_placed_only) or not self.from_ms <= (record.store_time or 0) < self.to_ms:
            return False
        if self.choose is not None:
            chosen = self.choose(record.topic.encode("utf-8", "surrogateescape"), record.queue_id)
            if chosen is None or record.position < chosen.from_position:
                return False
            if offset is not None and not chosen.low <= offset < chosen.high:
                return False
        return self.has_words(record)

    def has_words(self, record: Record) -> bool:
        """Return whether a record has one of the keys and one of the tags."""
        return not (
            (self.keys and self.keys.isdisjoint(record.keys)) or (self.tags and self.tags.isdisjoint(record.tags))
        )


class Decoder:
    """Turns runs of rows into record batches of at most ``batchRows`` rows and about ``batchBytes`` bytes."""

    def __init__(self, fmt: Format | None, wanted: Sequence[Column], options: ReadOptions, broker: str | None) -> None:
        _warn_of_plain_build()
        self._format = fmt
        self._wanted = wanted
        self._options = options
        self._broker = broker
        self._schema = pa.schema([pa.field(column.name, arrow_type(column, options)) for column in wanted])
        sources = [column.source for column in wanted if column.source]
        self._columns = Columns(fmt.code, [name for name in record_columns.KINDS if name in sources]) if fmt else None
        self._picked = array("q")
        self._known: dict[tuple[bytes, int], tuple[int, int, int] | None] = {}

    @property
    def odd(self) -> int:
        """Rows that took the longer way through a ``Record``."""
        return self._columns.odd if self._columns is not None else 0

    def batches(self, runs: Iterator[Rows | Unfolded | Damaged], only: Filter) -> Iterator[pa.RecordBatch]:
        """Yield what the filter leaves of the rows, damage as rows of its own where the schema has ``_corrupt``."""
        columns = self._columns
        if columns is None:
            return
        for run in runs:
            if isinstance(run, Damaged):
                if columns.rows:
                    yield self._batch(columns.rows, columns.finish())
                yield self._damaged(run)
            elif isinstance(run, Unfolded):
                yield from self._add_records(columns, run.records, only)
            else:
                yield from self._add_rows(columns, run, only)
        if columns.rows:
            yield self._batch(columns.rows, columns.finish())

    def _add_rows(self, columns: Columns, run: Rows, only: Filter) -> Iterator[pa.RecordBatch]:
        options = self._options
        count = self._pick(run, only)
        at = 0
        while at < count:
            at = columns.add(run.view, run.table, self._picked, at, count, options.batch_rows, options.batch_bytes)
            if at < count or self._is_full(columns):
                yield self._batch(columns.rows, columns.finish())

    def _add_records(self, columns: Columns, records: Sequence[Record], only: Filter) -> Iterator[pa.RecordBatch]:
        for record in filter(only.wants, records):
            columns.add_record(record)
            if self._is_full(columns):
                yield self._batch(columns.rows, columns.finish())

    def _is_full(self, columns: Columns) -> bool:
        return columns.rows >= self._options.batch_rows or columns.bytes >= self._options.batch_bytes

    def _pick(self, run: Rows, only: Filter) -> int:
        if len(self._picked) < run.count:
            self._picked = array("q", bytes(8 * max(run.count, 1024)))
        count = pick(
            run.view,
            run.table,
            run.first,
            run.count,
            run.end,
            only.choose,
            self._known,
            only.is_placed_only,
            only.from_ms,
            only.to_ms,
            self._picked,
        )
        if only.keys or only.tags:
            count = self._with_words(run, count, only)
        return count

    def _with_words(self, run: Rows, count: int, only: Filter) -> int:
        """Keep rows with one of the keys and one of the tags; the hash or the bytes say first which cannot have."""
        assert self._format is not None
        keys = [key.encode() for key in only.keys]
        tags = [tag.encode() for tag in only.tags]
        found = 0
        for row in self._picked[:count]:
            at = row * rows.WIDTH
            start = run.table[at + rows.POSITION] - run.base
            frame = bytes(run.view[start : start + run.table[at + rows.SIZE]])
            if keys and not any(key in frame for key in keys):
                continue
            if tags and not any(tag in frame for tag in tags):
                continue
            record = decode_row(self._format, run.view, run.table, row, "")
            if only.has_words(record):
                self._picked[found] = row
                found += 1
        return found

    def _batch(self, count: int, made: Mapping[str, tuple[object, ...]]) -> pa.RecordBatch:
        bad: list[str | None] = [None] * count if self._options.value_format != "binary" else []
        arrays = [self._array(column, count, made, bad) for column in self._wanted]
        for place, column in enumerate(self._wanted):
            if column.name == CORRUPT and bad:
                arrays[place] = _made("text", bad)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(
        self, column: Column, count: int, made: Mapping[str, tuple[object, ...]], bad: list[str | None]
    ) -> pa.Array:
        kind = record_columns.KINDS.get(column.source)
        if column.source == "body" and self._options.value_format != "binary":
            return self._value(column, _wrap(pa.binary(), count, made["body"]), bad)
        if column.name in _DLQ and column.source == "properties" and self._options.view == "dlq":
            return _property(column, count, made["properties"])
        if kind is None:
            return self._constant(column, count)
        parts = made[column.source]
        if kind == "texts":
            return _list(pa.list_(_TEXT), count, parts[0], _wrap(_TEXT, _ends(parts[0]), (None, *parts[1:])))
        if kind == "map":
            return _map(column, count, parts)
        return _wrap(SIMPLE_TYPES[column.type], count, parts)

    def _constant(self, column: Column, count: int) -> pa.Array:
        value: str | int | None = None
        if column.name.lower() == "format" and self._format is not None:
            value = self._format.name
        elif column.name.lower() == "broker":
            value = self._broker
        elif column.type == "int":
            value = 1  # Kafka's timestampType: the time is the log's
        return _made(_KINDS[column.type], [value] * count)

    def _value(self, column: Column, bodies: pa.Array, bad: list[str | None]) -> pa.Array:
        """Return bodies as text or as JSON; what is neither is null, and ``_corrupt`` says why."""
        is_text = self._options.value_format == "string"
        kind = arrow_type(column, self._options)
        values: list[Any] = []
        for row, body in enumerate(bodies.to_pylist()):
            try:
                text = body.decode()
                values.append(text if is_text else _fitting(json.loads(text), kind))
            except (ValueError, RecursionError, pa.ArrowException) as error:
                values.append(None)
                bad[row] = f"body is no {'UTF-8' if isinstance(error, UnicodeDecodeError) else 'JSON'}: {error}"[:1000]
        return _made("text", values) if is_text else pa.array(values, kind)

    def _damaged(self, damage: Damaged) -> pa.RecordBatch:
        values: dict[str, Value] = {
            "physical_offset": damage.position,
            "size": min(damage.size, 0x7FFFFFFF),
            CORRUPT: damage.reason,
        }
        arrays = [
            self._constant(column, 1)
            if column.name == "format"
            else _made(_KINDS[column.type], [values[column.name]])
            if column.name in values
            else pa.nulls(1, self._schema.field(place).type)
            for place, column in enumerate(self._wanted)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def arrow_type(column: Column, options: ReadOptions) -> pa.DataType:
    """Return the type that Spark wants the column to have."""
    if column.type in SIMPLE_TYPES:
        return SIMPLE_TYPES[column.type]
    if column.type == "array<string>":
        return pa.list_(_TEXT)
    if column.type == "map<string,string>":
        return pa.map_(_TEXT, _TEXT)
    if column.name == HEADERS.name and column.source == "properties":
        return pa.list_(pa.struct([("key", _TEXT), ("value", pa.binary())]))
    from pyspark.sql.pandas.types import to_arrow_type  # a JSON body: only Spark knows all of its types
    from pyspark.sql.types import _parse_datatype_json_string

    return to_arrow_type(_parse_datatype_json_string(column.type), timezone="UTC")


def _fitting(value: object, kind: pa.DataType) -> object:
    """Return a JSON value that the type can hold."""
    return pa.array([value], kind)[0].as_py()


def _made(kind: str, values: Sequence[Value]) -> pa.Array:
    """Return an array of values without ``pa.array``, which imports pandas: 60 MB of address space in each worker."""
    return _wrap(_ARROW[kind], len(values), buffers_of(kind, values))


def _wrap(kind: pa.DataType, count: int, parts: Sequence[object]) -> pa.Array:
    buffers = [None if part is None else pa.py_buffer(part) for part in parts]
    return pa.Array.from_buffers(kind, count, buffers)


def _ends(offsets: object) -> int:
    """Return the last offset: how many items all lists have together."""
    return int.from_bytes(bytes(memoryview(offsets)[-4:]), "little")  # type: ignore[arg-type]


def _list(kind: pa.DataType, count: int, offsets: object, items: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(offsets)], children=[items])


def _map(column: Column, count: int, parts: Sequence[object]) -> pa.Array:
    """Return properties as a map, or as Kafka's headers."""
    total = _ends(parts[0])
    keys = _wrap(_TEXT, total, (None, parts[1], parts[2]))
    if column.type.startswith("map"):
        items = _wrap(_TEXT, total, (None, parts[3], parts[4]))
        entries = pa.StructArray.from_arrays(
            [keys, items], fields=[pa.field("key", _TEXT, nullable=False), pa.field("value", _TEXT)]
        )
        return _list(pa.map_(_TEXT, _TEXT), count, parts[0], entries)
    values = _wrap(pa.binary(), total, (None, parts[3], parts[4]))
    entries = pa.StructArray.from_arrays([keys, values], ["key", "value"])
    return _list(pa.list_(pa.struct([("key", _TEXT), ("value", pa.binary())])), count, parts[0], entries)


def _property(column: Column, count: int, parts: Sequence[object]) -> pa.Array:
    """Return one property of each record; a number that cannot be read is null."""
    name = _DLQ[column.name]
    maps = _map(Column("", "map", ""), count, parts).to_pylist()
    found = [dict(one).get(name) for one in maps]
    if column.type == "bigint":
        numbers = [int(text) if text and text.lstrip("-").isdigit() and len(text) < 19 else None for text in found]
        return _made("long", numbers)
    return _made("text", found)


def _warn_of_plain_build() -> None:
    if not record_columns.is_compiled():
        warnings.warn(
            "LiteMQ's kernels are not compiled here: reading is about fifty times slower; install a C compiler "
            "and LiteMQ anew on this machine",
            RuntimeWarning,
            stacklevel=3,
        )
