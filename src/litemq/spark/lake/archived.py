"""What an archive should hold and what it holds: queue by queue, ranges of offsets against rows that were counted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Queue = tuple[str, str, int]
"""Topic, broker (empty where files are read) and queue id."""


def query_id(checkpoint: Path) -> str:
    """Return the id of the stream whose checkpoint this is; empty before its first run."""
    try:
        return str(json.loads((checkpoint / "metadata").read_bytes())["id"])
    except FileNotFoundError:
        return ""


def last_commit(checkpoint: Path) -> int | None:
    """Return the last batch that a stream noted as done."""
    folder = checkpoint / "commits"
    done = [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
    return max(done, default=None)


def ends_of(checkpoint: Path, batch: int) -> dict[Queue, int] | None:
    """Return the offsets before which a batch ends; None where its note is gone, or never was."""
    try:
        text = (checkpoint / "offsets" / str(batch)).read_text()
    except FileNotFoundError:
        return None
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    ends = {}
    for topic, told in found["t"].items():
        for name, offset in told["q"].items():
            broker, _, queue_id = name.rpartition("/")
            ends[topic, broker, int(queue_id)] = int(offset)
    return ends


@dataclass(frozen=True, slots=True)
class Counted:
    """Rows of one queue in some files."""

    messages: int
    first: int
    last: int
    total: int
    """Sum of the offsets: of as many rows between the same ends, only those without a hole have the right one."""

    def is_all_of(self, start: int, end: int) -> bool:
        """Return whether these are the offsets from ``start`` on before ``end``, each once."""
        bounds = (self.messages, self.first, self.last)
        return bounds == (end - start, start, end - 1) and self.total * 2 == (start + end - 1) * self.messages


@dataclass(slots=True)
class Kept:
    """One queue over all batches of a run."""

    start: int
    end: int
    messages: int = 0
    missing: int = 0
    repeated: int = 0


@dataclass(slots=True)
class Book:
    """Says of each queue what was read and what was found of it."""

    queues: dict[Queue, Kept] = field(default_factory=dict)

    def add(
        self,
        starts: Mapping[Queue, int],
        ends: Mapping[Queue, int],
        counted: Mapping[Queue, Counted],
        distinct: Mapping[Queue, int],
    ) -> None:
        """Enter a batch; ``distinct`` says how many different offsets a queue has where they are not all there.

        A queue without a start is new in this batch: it begins with what was found of it.
        """
        for queue in sorted({*ends, *counted}):
            rows = counted.get(queue)
            end = ends.get(queue, rows.last + 1 if rows else 0)
            start = starts.get(queue, rows.first if rows else end)
            if start >= end and rows is None:
                continue
            kept = self.queues.setdefault(queue, Kept(start, end))
            kept.end = max(kept.end, end)
            if rows is None:
                kept.missing += end - start
                continue
            different = distinct.get(queue, rows.messages)
            kept.messages += rows.messages
            kept.repeated += rows.messages - different
            kept.missing += max(0, end - start - different)

    @property
    def messages(self) -> int:
        """How many were found."""
        return sum(kept.messages for kept in self.queues.values())

    @property
    def missing(self) -> int:
        """How many were read by offset, and are not there: damaged, or lost to retention."""
        return sum(kept.missing for kept in self.queues.values())

    @property
    def repeated(self) -> int:
        """How many are there more than once."""
        return sum(kept.repeated for kept in self.queues.values())


def odd(
    starts: Mapping[Queue, int], ends: Mapping[Queue, int], counted: Mapping[Queue, Counted]
) -> list[tuple[Queue, Counted]]:
    """Return the queues that need a closer look: not each offset from start to end once."""
    return [
        (queue, rows)
        for queue, rows in counted.items()
        if not rows.is_all_of(starts.get(queue, rows.first), ends.get(queue, rows.last + 1))
    ]


def counts(rows: DataFrame) -> dict[Queue, Counted]:
    """Count the rows of each queue."""
    from pyspark.sql import functions as f

    offset = f.col("queue_offset")
    found = rows.groupBy("topic", "broker", "queue_id").agg(
        f.count("*"), f.min(offset), f.max(offset), f.sum(offset.cast("decimal(38,0)"))
    )
    return {
        (topic, broker or "", queue_id): Counted(messages, first, last, int(total))
        for topic, broker, queue_id, messages, first, last, total in found.collect()
    }


def distinct_counts(rows: DataFrame, queues: Iterable[Queue]) -> dict[Queue, int]:
    """Count the different offsets of a few queues."""
    from pyspark.sql import functions as f

    wanted = [f"{topic}/{broker}/{queue_id}" for topic, broker, queue_id in queues]
    if not wanted:
        return {}
    broker = f.coalesce(f.col("broker"), f.lit(""))
    named = f.concat_ws("/", f.col("topic"), broker, f.col("queue_id").cast("string"))
    grouped = rows.where(named.isin(wanted)).groupBy("topic", "broker", "queue_id")
    found = grouped.agg(f.count_distinct("queue_offset")).collect()
    return {(topic, name or "", queue_id): count for topic, name, queue_id, count in found}
