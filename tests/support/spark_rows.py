"""Read a store as a Spark task would, without Spark; and say what a plain read of the store makes of it."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterable
from copy import copy
from pathlib import Path
from typing import Any

from litemq.format import columns
from litemq.spark.files import FileBackend
from litemq.spark.options import ReadOptions, read_options
from litemq.spark.planning import Plan, is_reserved, plan
from litemq.spark.reading import Task, read_ranges
from litemq.spark.schema import all_columns, chosen_columns
from litemq.store.log_walk import open_log
from litemq.types import QueueOffset, Record

Row = dict[str, Any]


def options_of(path: Path, **options: object) -> ReadOptions:
    """Return checked options; names as Spark has them, lower-case."""
    return read_options({"path": str(path), **{name: str(value) for name, value in options.items()}})


def planned(path: Path, **options: object) -> tuple[FileBackend, Plan]:
    """Plan a batch."""
    wanted = options_of(path, **options)
    backend = FileBackend(wanted.path, wanted.format)
    return backend, plan(backend, wanted)


def read(path: Path, **options: object) -> list[Row]:
    """Return all rows of all partitions, in order; each partition by a backend of its own, as on an executor."""
    wanted = options_of(path, **options)
    backend, found = planned(path, **options)
    rows: list[Row] = []
    for parts in found.partitions:
        task = pickle.loads(pickle.dumps(Task(parts, found.filter(wanted))))
        there = pickle.loads(pickle.dumps(backend))
        for batch in read_ranges(there, wanted, chosen_columns(wanted), task):
            assert batch.num_rows > 0
            batch.validate(full=True)
            rows += batch.to_pylist()
    return rows


def expected(
    path: Path,
    format_name: str = "auto",
    *,
    topics: Iterable[str] = (),
    is_committed_only: bool = True,
) -> list[Row]:
    """Return the rows that a plain read of the store gives."""
    wanted = set(topics)
    found = []
    names = [column.name for column in all_columns(options_of(path))]
    for record in open_log(path, format_name).records():
        if (record.topic not in wanted) if wanted else is_reserved(record.topic):
            continue
        if is_committed_only and not columns.is_placed(record):
            continue
        for one in messages_in(record):
            row = dict(zip(columns.KINDS, columns.values_of(one), strict=True), broker=None, format=record.format)
            found.append({name: shown(name, row[name]) for name in names})
    return found


def messages_in(record: Record) -> list[Record]:
    """Return the messages that a record holds: several when it is an inner batch, read here by the page of the format.

    Properties beside tags, keys and ids are not taken apart: what the stores of the tests have, they leave as they are.
    """
    if record.format != "rocketmq" or (record.sys_flag or 0) & 0xC0 != 0xC0:
        return [record]
    found: list[Record] = []
    left = record.body
    while left:
        size, _, _, flag, body_size = struct.unpack_from(">5i", left)
        body, text = left[20 : 20 + body_size], left[22 + body_size : size].decode()
        pairs = dict(pair.split("\x01", 1) for pair in text.split("\x02") if pair)
        one = copy(record)
        one.queue_offset = QueueOffset(record.queue_offset + len(found))
        one.size, one.flag, one.body, one.body_crc = size, flag, body, None
        one.message_id = pairs.pop("UNIQ_KEY", None)
        one.tags = (pairs.pop("TAGS"),) if "TAGS" in pairs else ()
        one.keys = tuple(pairs.pop("KEYS", "").split())
        one.properties = pairs
        found.append(one)
        left = left[size:]
    return found


def shown(name: str, value: Any) -> Any:  # noqa: ANN401 - of any column
    """Return a value as Arrow gives it back."""
    from datetime import UTC, datetime, timedelta

    if name.endswith("_timestamp") and value is not None:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
    if isinstance(value, tuple):
        return list(value)
    return list(value.items()) if isinstance(value, dict) else value
