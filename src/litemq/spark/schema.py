"""The columns of ``view=messages``: names, Spark types, and what of the records they are made of.

Every column is nullable: Spark compares the schema with what comes to the letter.  Names and types only; Arrow arrays
are made in ``codec``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from litemq.format.columns import KINDS
from litemq.spark.errors import SchemaMismatch
from litemq.spark.options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TYPES: Final = {
    "text": "string",
    "binary": "binary",
    "int": "int",
    "long": "bigint",
    "time": "timestamp",
    "texts": "array<string>",
    "map": "map<string,string>",
}
"""Spark's type of each kind of column."""

CORRUPT: Final = "_corrupt"


class Column(NamedTuple):
    """One column of a schema."""

    name: str
    type: str
    """As Spark writes it (``simpleString``)."""
    source: str
    """The column of records that it is made of; empty for what a record does not say."""


_ORDER: Final = (
    *("topic", "broker", "queue_id", "queue_offset", "physical_offset", "message_id", "keys", "tags", "body"),
    *("properties", "born_timestamp", "store_timestamp", "deliver_timestamp", "reconsume_times", "sys_flag", "size"),
    *("body_crc", "all_tags", "all_keys", "type", "priority", "reliability", "transaction_id", "status"),
    *("sharding_key", "flag", "born_host", "store_host", "format"),
)
CONSTANT: Final = frozenset({"broker", "format"})
"""The same for all records of one log."""

MESSAGES: Final = tuple(
    Column(name, "string" if name in CONSTANT else TYPES[KINDS[name]], "" if name in CONSTANT else name)
    for name in _ORDER
)

KAFKA: Final = (
    Column("key", "binary", "keys"),
    Column("value", "binary", "body"),
    Column("topic", "string", "topic"),
    Column("partition", "int", "queue_id"),
    Column("offset", "bigint", "queue_offset"),
    Column("timestamp", "timestamp", "store_timestamp"),
    Column("timestampType", "int", ""),
)
HEADERS: Final = Column("headers", "array<struct<key:string,value:binary>>", "properties")

DEAD_LETTERS: Final = tuple(
    Column(name, "string", "properties")
    for name in ("group", "reason", "error", "stack", "consumer_id", "origin_topic", "origin_message_id")
) + tuple(Column(name, "bigint", "properties") for name in ("origin_queue", "origin_offset", "retry_count", "died_ms"))
"""What ``view=dlq`` shows in front of the message: from its ``DLQ_…`` properties."""


def all_columns(options: ReadOptions) -> tuple[Column, ...]:
    """Return every column that a read with these options can give."""
    found: tuple[Column, ...]
    if options.is_kafka:
        found = (*KAFKA, HEADERS) if options.include_headers else KAFKA
    else:
        found = MESSAGES
        if options.view == "dlq":
            found = (*DEAD_LETTERS, *found)
    if options.value_format != "binary":
        kind = "string" if options.value_format == "string" else f"struct<{options.value_schema}>"
        found = tuple(column._replace(type=kind) if column.source == "body" else column for column in found)
    if options.on_corrupt == "keep" or options.value_format != "binary":
        found = (*found, Column(CORRUPT, "string", ""))
    return found


def chosen_columns(options: ReadOptions) -> tuple[Column, ...]:
    """Return the columns that ``columns`` names, in its order; all without it.

    Raises:
        SchemaMismatch: it names one that is not there.
    """
    every = all_columns(options)
    if not options.columns:
        return every
    return tuple(_named(name, every) for name in options.columns)


def to_ddl(columns: Sequence[Column]) -> str:
    """Return the schema as Spark reads it."""
    return ", ".join(f"`{column.name}` {column.type}" for column in columns)


def projected(schema: StructType, options: ReadOptions) -> tuple[Column, ...]:
    """Return the columns of the schema that Spark asks for: ours, or any choice of them that a user gave.

    Raises:
        SchemaMismatch: it has a column that is not there, or of another type.
    """
    every = all_columns(options)
    found = []
    for field in schema.fields:
        column = _named(field.name, every)
        given = field.dataType.simpleString()
        if column.source == "body" and options.value_format == "json":
            column = column._replace(type=field.dataType.json())  # a schema in words only the driver can read
        elif given != column.type:
            raise SchemaMismatch(
                f"column {field.name} is {column.type}, not {given}; leave the schema out, or cast afterwards"
            )
        found.append(column)
    return tuple(found)


def _named(name: str, every: Sequence[Column]) -> Column:
    for column in every:
        if column.name.lower() == name.lower():
            return column._replace(name=name)
    raise SchemaMismatch(f"there is no column {name!r}; there are: {', '.join(column.name for column in every)}")
