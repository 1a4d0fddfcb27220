"""``litemq pipeline dlq``: dead letters by group, topic, reason, error and stack; some of them sent again or kept.

Sending is done as ``litemq dlq redrive`` does it, and with its marks: what either of them sent, neither sends again.
Spark only says which dead letters are meant, by their ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from litemq.client.admin import Admin
from litemq.errors import InvalidRequest
from litemq.features.dead_letter import DLQ_PREFIX
from litemq.format import hosts
from litemq.format.message_id import offset_id
from litemq.spark.jobs.export import Export
from litemq.spark.jobs.job import Cell, Report, Run, Source, Table
from litemq.spark.jobs.selection import chosen, columns_in
from litemq.spark.jobs.slices import until_stopped
from litemq.spark.jobs.stacks import error_key, stack_key

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

EXAMPLES: Final = 3
_MAX_REDRIVE: Final = 1_000_000
"""Dead letters whose ids the driver holds; more are sent in several runs."""
_KEY: Final = ("group", "origin_topic", "reason", "error", "stack")
_GROUP_DDL: Final = (
    "`group` string, origin_topic string, reason string, error string, stack string, "
    "count bigint, first_ms bigint, last_ms bigint, examples array<string>"
)
_LETTER: Final = ("topic", *_KEY, "origin_message_id", "properties", "message_id", "died_ms", "store_timestamp")


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters that died alike."""

    count: int
    first_ms: int
    last_ms: int
    examples: tuple[str, ...]
    """Message ids of some of them."""

    def with_others(self, other: Group) -> Group:
        """Return both together."""
        examples = tuple(sorted({*self.examples, *other.examples})[:EXAMPLES])
        first, last = min(self.first_ms, other.first_ms), max(self.last_ms, other.last_ms)
        return Group(self.count + other.count, first, last, examples)


Groups = dict[tuple[str, ...], Group]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterReport:
    """Groups dead letters; with ``redrive`` or ``archive`` does something with the selected ones."""

    source: Source
    brokers: str
    """Where redriven ones are sent."""
    group: str = ""
    topic: str = ""
    """Only those that were sent to it first."""
    reason: str = ""
    error_like: str = ""
    where: str = ""
    redrive: bool = False
    to: Literal["group", "origin"] = "group"
    rate: float | None = None
    again: bool = False
    archive: Path | None = None
    name: str = "dlq"

    def plan(self, spark: SparkSession) -> Table:
        """Return what would be sent or kept; without that, the groups."""
        groups = _grouped(self._frame(spark, _LETTER))
        if self.archive is not None:
            self._export().plan(spark)  # whether the place is free
        if not self.redrive:
            return _table(groups)
        outcomes: list[tuple[Cell, ...]] = []
        for group, ids in self._meant(spark).items():
            with Admin(self.brokers) as admin:
                outcome = admin.redrive(group, to=self.to, ids=ids, again=self.again, dry_run=True)
            outcomes.append((group, outcome.sent, len(ids) - outcome.sent))
        return Table("", ("group", "would_be_sent", "redriven_before"), outcomes)

    def run(self, run: Run) -> Report:
        """Count, then keep, then send."""
        inputs: dict[str, Cell] = {"source": self.source.name, "group": self.group, "topic": self.topic}
        inputs |= {"reason": self.reason, "error_like": self.error_like, "where": self.where}
        report = Report(self.name, inputs=inputs)
        groups = until_stopped(run, lambda: _grouped(self._frame(run.spark, _LETTER)))
        if groups is None:
            report.status = "stopped"
            return report
        report.tables["groups"] = _table(groups)
        report.figures = {"dead_letters": sum(one.count for one in groups.values()), "groups": len(groups)}
        if self.archive is not None:
            kept = self._export().run(run)
            report.status = kept.status
            report.figures["archived"] = kept.figures.get("rows")
            report.outputs += kept.outputs
            report.notes += kept.notes
        if self.redrive and report.status == "done":
            self._redrive(run, report)
        return report

    def _redrive(self, run: Run, report: Report) -> None:
        sent = before = 0
        meant = self._meant(run.spark)
        total = sum(len(ids) for ids in meant.values())
        done = 0
        for group, ids in meant.items():
            if run.should_stop():
                break
            try:
                with Admin(self.brokers) as admin:
                    outcome = admin.redrive(
                        group, to=self.to, ids=ids, rate=self.rate, again=self.again, on_progress=_stop_between(run)
                    )
            except _Stopped:
                continue  # what was sent of this group is found by the next run
            sent += outcome.sent
            before += len(ids) - outcome.sent
            done += len(ids)
            run.told(done, total)
        report.figures |= {"sent": sent, "redriven_before": before}
        if run.should_stop() and done < total:
            report.status = "stopped"
            report.notes.append(
                "It was stopped, and counts groups that it came through; the same command sends the rest, none twice."
            )
        if before:
            report.notes.append(f"{before} were redriven before; --again sends them, too.")

    def _meant(self, spark: SparkSession) -> dict[str, list[str]]:
        """Return the ids of the places of selected dead letters, by group."""
        rows = self._frame(spark, ("topic", "store_host", "physical_offset")).take(_MAX_REDRIVE + 1)
        if len(rows) > _MAX_REDRIVE:
            raise InvalidRequest(
                f"more than {_MAX_REDRIVE} dead letters are selected; choose fewer at a time: --group, --since, --where"
            )
        found: dict[str, list[str]] = {}
        for row in rows:
            host = hosts.to_bytes(row.store_host or "")
            if host is None:
                raise InvalidRequest(
                    f"a dead letter of {row.topic} does not say which broker stored it, so it cannot be redriven"
                )
            found.setdefault(row.topic.removeprefix(DLQ_PREFIX), []).append(offset_id(host, row.physical_offset))
        return dict(sorted(found.items()))

    def _export(self) -> Export:
        assert self.archive is not None
        return Export(source=self._source(), to=self.archive, where=self._condition(), form="parquet")

    def _source(self) -> Source:
        options = {**self.source.options, "view": "dlq"}
        if self.group:
            options["subscribe"] = DLQ_PREFIX + self.group
        return replace(self.source, options=options)

    def _condition(self) -> str:
        """Return the whole choice as SQL."""
        parts = [f"({self.where})"] if self.where else []
        if self.topic:
            parts.append(f"coalesce(origin_topic, properties['RETRY_TOPIC']) = {_quoted(self.topic)}")
        if self.reason:
            parts.append(f"coalesce(reason, 'unknown') = {_quoted(self.reason)}")
        if self.error_like:
            parts.append(f"error LIKE {_quoted(self.error_like)}")
        return " AND ".join(parts)

    def _frame(self, spark: SparkSession, names: tuple[str, ...]) -> DataFrame:
        every = self._source().read(spark)
        if self.where:
            chosen(every, self.where)  # what is wrong with it is said in the user's words
        more = columns_in(self._condition(), every.columns)
        frame = self._source().read(spark, columns=",".join(dict.fromkeys((*names, *more))))
        return chosen(frame, self._condition()).select(*[f"`{name}`" for name in names])


class _Stopped(Exception):
    """Somebody asked to stop."""


def _stop_between(run: Run) -> Any:  # noqa: ANN401 - what Admin tells progress to
    def told(_done: int, _total: int) -> None:
        if run.should_stop():
            raise _Stopped  # between two sends

    return told


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _grouped(frame: DataFrame) -> Groups:
    """Group where the rows are; each task hands over a row for each group."""
    found: Groups = {}
    for row in frame.mapInArrow(partial(_count), _GROUP_DDL).collect():
        key = tuple(row[name] for name in _KEY)
        group = Group(row["count"], row.first_ms, row.last_ms, tuple(row.examples))
        found[key] = found[key].with_others(group) if key in found else group
    return found


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    found: Groups = {}
    for batch in batches:
        for row in batch.to_pylist():
            key, one = key_of(row), group_of(row)
            found[key] = found[key].with_others(one) if key in found else one
    rows = [(*key, one.count, one.first_ms, one.last_ms, list(one.examples)) for key, one in found.items()]
    if rows:
        text, number = pa.string(), pa.int64()
        kinds = [*(text for _ in _KEY), number, number, number, pa.list_(text)]
        names = [*_KEY, "count", "first_ms", "last_ms", "examples"]
        arrays = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def key_of(row: dict[str, Any]) -> tuple[str, ...]:
    """Return what a dead letter has in common with those that died alike."""
    properties = dict(row["properties"] or ())
    return (
        row["group"] or row["topic"].removeprefix(DLQ_PREFIX),
        row["origin_topic"] or properties.get("RETRY_TOPIC", ""),
        row["reason"] or "unknown",
        error_key(row["error"] or ""),
        stack_key(row["stack"] or ""),
    )


def group_of(row: dict[str, Any]) -> Group:
    """Return the group of one dead letter alone."""
    stored = row["store_timestamp"]
    died = row["died_ms"] or (round(stored.timestamp() * 1000) if stored is not None else 0)
    return Group(1, died, died, (row["message_id"] or "",))


def _table(groups: Groups) -> Table:
    headers = ("count", *_KEY, "first_ms", "last_ms", "examples")
    order = sorted(groups.items(), key=lambda item: (-item[1].count, item[0]))
    rows: list[tuple[Cell, ...]] = [
        (one.count, *key, one.first_ms, one.last_ms, " ".join(one.examples)) for key, one in order
    ]
    return Table("", headers, rows)
