"""The options of writing with ``format("litemq")``, and what columns a DataFrame that is written may have."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from litemq.spark.errors import BadOption, SchemaMismatch

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

KNOWN: Final = (
    *("brokers", "litemq.bootstrap.servers", "path", "topic", "producerId", "writeId", "epoch", "delivery"),
    *("extraColumns", "timeout", "checkpointLocation", "queryName"),
)
_SPARKS: Final = ("checkpointlocation", "queryname")
"""Spark hands over its own options of a stream, too."""

_ALIASES: Final = {"value": "body", "key": "keys", "partition": "queue_id", "headers": "properties"}
_TEXT: Final = ("string",)
_BYTES: Final = ("binary", "string")
_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "body": _BYTES,
    "value": _BYTES,
    "topic": _TEXT,
    "keys": ("string", "array<string>", "binary"),
    "key": ("string", "array<string>", "binary"),
    "tags": _TEXT,
    "queue_id": ("int", "bigint", "smallint", "tinyint"),
    "partition": ("int", "bigint", "smallint", "tinyint"),
    "properties": ("map<string,string>",),
    "headers": ("array<struct<key:string,value:binary>>", "map<string,string>"),
    "sharding_key": _TEXT,
}
COLUMNS: Final = tuple(_TYPES)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a write was asked for; picklable."""

    brokers: str
    topic: str
    producer_id: str
    """Empty: a stream's query id, a batch write's ``write_id``."""
    write_id: str
    epoch: int
    """Of a batch write: which transaction of ``write_id`` it is."""
    is_exactly_once: bool
    keeps_extra: bool
    timeout_s: float


def write_options(given: Mapping[str, str], *, is_stream: bool) -> WriteOptions:
    """Check and read the options of a write.

    Raises:
        BadOption: one is unknown, missing or wrong; the text says which and what to write instead.
    """
    known = {name.lower(): name for name in KNOWN}
    found = {name.lower(): str(value).strip() for name, value in given.items()}
    for name in found:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.5)
            advice = f"did you mean {known[near[0]]}?" if near else f"writing knows: {', '.join(sorted(KNOWN))}"
            raise BadOption(f"unknown option {name!r}; {advice}")
    if found.get("path"):
        raise BadOption("path is for reading only: a running broker owns its store; give brokers instead")
    brokers = found.get("brokers") or found.get("litemq.bootstrap.servers", "")
    if not brokers:
        raise BadOption("brokers is missing: give the name servers, .option('brokers', '127.0.0.1:9876')")
    if is_stream and found.get("writeid"):
        raise BadOption("writeId is for batch writes; a stream is known by producerId, and by its query id without one")
    if found.get("writeid") and found.get("producerid"):
        raise BadOption("writeId and producerId mean the same for a batch write; give writeId")
    if found.get("epoch") and not found.get("writeid"):
        raise BadOption("epoch goes with writeId: it says which of its batch transactions a write is")
    return WriteOptions(
        brokers=brokers.replace(",", ";"),
        topic=found.get("topic", ""),
        producer_id=found.get("producerid", ""),
        write_id=found.get("writeid") or found.get("producerid") or uuid.uuid4().hex,
        epoch=_epoch(found.get("epoch", "")),
        is_exactly_once=_choice(found, "delivery", ("exactly-once", "at-least-once")) == "exactly-once",
        keeps_extra=_choice(found, "extraColumns", ("error", "properties")) == "properties",
        timeout_s=_seconds(found.get("timeout", "")),
    )


def _choice(found: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    value = found.get(name.lower(), "").lower() or allowed[0]
    if value not in allowed:
        raise BadOption(f"{name} is {value!r}; it must be one of: {', '.join(allowed)}")
    return value


def _epoch(text: str) -> int:
    if text and (not text.isascii() or not text.isdigit() or int(text) >= 1 << 63):
        raise BadOption(f"epoch is {text!r}; it must be a whole number, higher with each write under its writeId")
    return int(text or 0)


def _seconds(text: str) -> float:
    try:
        value = float(text.removesuffix("s")) if text else 60.0
    except ValueError:
        value = 0.0
    if not 0 < value < 86_400:
        raise BadOption(
            f"timeout is {text!r}; it must be seconds for which a broker that is away is asked again, as 60"
        )
    return value


def check_schema(schema: StructType, options: WriteOptions) -> None:
    """Refuse a DataFrame whose columns cannot become messages.

    Raises:
        SchemaMismatch: the text names the column and what to do.
    """
    names = [field.name for field in schema.fields]
    twice = {_ALIASES.get(name, name) for name in names}
    for alias, name in _ALIASES.items():
        if alias in names and name in names:
            raise SchemaMismatch(f"the columns {alias} and {name} mean the same; drop one of them")
    if "deliver_timestamp" in names:
        raise SchemaMismatch(
            "the column deliver_timestamp is refused: nothing can be scheduled yet; drop it, and send when it is due"
        )
    if "body" not in twice:
        raise SchemaMismatch(
            f"a column body (or value), binary or string, is missing among: {', '.join(names)}; "
            "make one: .selectExpr('to_json(struct(*)) AS body')"
        )
    if "topic" not in names and not options.topic:
        raise SchemaMismatch("nothing says where messages go: add a column topic, or .option('topic', 'orders')")
    for field in schema.fields:
        _check_column(field.name, field.dataType, options)


def _check_column(name: str, kind: DataType, options: WriteOptions) -> None:
    found = kind.simpleString()
    if name not in _TYPES:
        if options.keeps_extra:
            if found.startswith(("array", "map", "struct", "binary")):
                raise SchemaMismatch(f"the column {name} is {found}, which no property can hold; drop or cast it")
            return
        near = difflib.get_close_matches(name, COLUMNS, 1, 0.6)
        advice = f"did you mean {near[0]}? " if near else ""
        raise SchemaMismatch(
            f"unknown column {name}; {advice}messages have: {', '.join(COLUMNS)}; "
            "drop it, or .option('extraColumns', 'properties') to have it as a property"
        )
    if found not in _TYPES[name]:
        raise SchemaMismatch(f"the column {name} is {found}, it must be {' or '.join(_TYPES[name])}; cast it")
