"""``litemq pipeline replay``: history into a topic again, chosen by time or SQL, at a rate.

The selection is counted once, queue by queue, and cut into slices of offsets: that is the plan.  It is kept, so a run
that was stopped goes on with the same messages however the topic has grown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from litemq.errors import InvalidRequest
from litemq.spark.errors import BadOption
from litemq.spark.jobs import slices
from litemq.spark.jobs.job import Cell, Report, Run, Source, Table
from litemq.spark.jobs.selection import chosen, columns_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORIGIN: Final = "REPLAY_ORIGIN"
"""Property of a replayed message: ``topic/broker/queue/offset`` of the message that it was; ``-`` for no broker."""
_VERSION: Final = 1
_PLACE: Final = ("topic", "broker", "queue_id", "queue_offset")
_SENT: Final = ("body", "all_keys", "tags", "properties", "sharding_key")


class Part(NamedTuple):
    """Some messages of one queue that are selected, and those between them."""

    broker: str
    queue_id: int
    start: int
    end: int
    rows: int
    size: int
    first_us: int
    """When its first message was stored."""


class Slice(NamedTuple):
    """What is sent in one transaction."""

    ranges: tuple[tuple[str, int, int, int], ...]
    """Broker, queue, first offset, offset behind the last; a queue once."""
    rows: int


def cut(parts: Iterable[Part], max_rows: int, max_size: int) -> list[Slice]:
    """Return parts as slices, in about the order in which they were stored; parts of a queue stay in their order."""
    latest: dict[tuple[str, int], int] = {}
    timed = []
    for part in sorted(parts, key=lambda one: (one.broker, one.queue_id, one.start)):
        queue = part.broker, part.queue_id
        latest[queue] = max(part.first_us, latest.get(queue, part.first_us))  # clocks may have gone back
        timed.append((latest[queue], part))
    found: list[list[Part]] = []
    rows = size = 0
    for _, part in sorted(timed, key=lambda one: one[0]):  # stable: a queue's parts follow each other
        if not found or rows + part.rows > max_rows or size + part.size > max_size:
            found.append([])
            rows = size = 0
        found[-1].append(part)
        rows += part.rows
        size += part.size
    return [_joined(group) for group in found]


def _joined(group: list[Part]) -> Slice:
    ranges: dict[tuple[str, int], tuple[int, int]] = {}
    for part in group:
        start, _ = ranges.get((part.broker, part.queue_id), (part.start, 0))
        ranges[part.broker, part.queue_id] = start, part.end
    found = tuple((broker, queue, *ends) for (broker, queue), ends in sorted(ranges.items()))
    return Slice(found, sum(part.rows for part in group))


def offsets_of(topic: str, one: Slice) -> dict[str, str]:
    """Return the options of a read of just the queues and offsets of a slice."""
    starts: dict[str, int] = {}
    ends: dict[str, int] = {}
    for broker, queue, start, end in one.ranges:
        if broker:  # the same queue of other brokers is not read: it begins at its end
            starts.setdefault(str(queue), -1)
            ends.setdefault(str(queue), -1)
        name = f"{broker}/{queue}" if broker else str(queue)
        starts[name], ends[name] = start, end
    return {
        "subscribe": "",
        "assign": json.dumps({topic: sorted({queue for _, queue, _, _ in one.ranges})}),
        "startingOffsets": json.dumps({topic: starts}),
        "endingOffsets": json.dumps({topic: ends}),
        "startingTimestamp": "",
        "endingTimestamp": "",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Sends messages of a topic's history to a topic."""

    source: Source
    """With exactly one topic to read."""
    topic: str
    to: str
    to_brokers: str
    where: str = ""
    rate: float | None = None
    run_id: str = ""
    """Empty: it follows from the selection."""
    state: Path | None = None
    into_itself: bool = False
    """Whether it may send to the topic that it reads."""
    name: str = "replay"

    def plan(self, spark: SparkSession) -> Table:
        """Return how much would be sent."""
        self._check()
        slices.check_topic(self.to_brokers, self.to, creates=False)
        run_id = self._id()
        state = slices.state_of(run_id, self.state)
        kept = self._kept(state)
        found = self._planned(spark) if kept is None else _slices_in(kept)
        done = state.done if kept is not None else 0
        rows: list[tuple[Cell, ...]] = [
            ("id", run_id),
            ("from", f"{self.topic} of {self.source.name}"),
            ("to", f"{self.to} of {self.to_brokers}"),
            ("messages", sum(one.rows for one in found)),
            ("slices", len(found)),
            ("slices sent before", done),
            ("seconds at least", None if self.rate is None else int(sum(one.rows for one in found[done:]) / self.rate)),
            ("state", str(state.folder)),
        ]
        return Table("", ("what", "value"), rows)

    def run(self, run: Run) -> Report:
        """Send what is not sent yet."""
        self._check()
        slices.check_topic(self.to_brokers, self.to, creates=False)
        run_id = self._id()
        state = slices.state_of(run_id, self.state)
        report = Report(self.name, inputs={**self._aim(), "id": run_id})
        with state.held():
            found = self._settled(run, state, run_id)
            if found is None:
                report.status = "stopped"
                return report
            target = slices.Target(self.to_brokers, self.to, _producer(run_id))
            counts = [one.rows for one in found]
            pace = slices.Pace(self.rate)
            sent = slices.send(run, target, state, counts, lambda number: self._frame(run.spark, found[number]), pace)
        report.status = "stopped" if sent.is_stopped else "done"
        report.figures = {
            "messages": sum(counts),
            "sent": sent.rows,
            "sent_before": sent.before,
            "slices": len(found),
        }
        report.outputs = [f"{self.to} of {self.to_brokers}"]
        report.notes = [*_notes(sent, sum(counts)), f"The plan is in {state.folder}; its id is {run_id}."]
        return report

    def _check(self) -> None:
        if self.topic == self.to and not self.into_itself:
            raise InvalidRequest(
                f"{self.topic} would be replayed into itself, and its consumers get everything again; "
                "choose another topic, or add --same-topic"
            )
        times = [self.source.options.get(name, "") for name in ("startingTimestamp", "endingTimestamp")]
        if not self.run_id and any(text.startswith("-") for text in times):
            raise BadOption(
                "a time ago is another time with every run, so a run that was stopped could not go on: give --since "
                "and --until as points in time, or --id NAME under which the run goes on"
            )

    def _aim(self) -> dict[str, Cell]:
        """Return what is chosen and where it goes: two runs with the same aim are one."""
        options = self.source.options
        return {
            "source": self.source.name,
            "topic": self.topic,
            "since": options.get("startingTimestamp", ""),
            "until": options.get("endingTimestamp", ""),
            "where": self.where,
            "to": self.to,
            "to_brokers": self.to_brokers,
        }

    def _id(self) -> str:
        if self.run_id:
            return slices.checked_id(self.run_id)
        return slices.id_of(f"{self.topic}-to-{self.to}", self._aim())

    def _kept(self, state: slices.State) -> dict[str, Any] | None:
        kept = state.plan()
        mine = self._aim()
        if kept is not None and (kept.get("version"), kept.get("selection")) != (_VERSION, mine):
            raise InvalidRequest(
                f"{state.folder} holds the plan of another selection: {kept.get('selection')}; "
                "give another --id or --state"
            )
        return kept

    def _settled(self, run: Run, state: slices.State, run_id: str) -> list[Slice] | None:
        """Return the plan: the kept one, or one that is made and kept now; None when somebody asks to stop."""
        kept = self._kept(state)
        if kept is not None:
            return _slices_in(kept)
        last, _ = slices.last_epoch(slices.Target(self.to_brokers, self.to, _producer(run_id)))
        if last is not None:
            raise InvalidRequest(
                f"a replay {run_id} was begun, and its plan is not in {state.folder}: it would choose anew what was "
                "partly sent; give the --state that it had, or another --id to send all of it again"
            )
        found = slices.until_stopped(run, lambda: self._planned(run.spark))
        if found is not None:
            plan = {"version": _VERSION, "selection": self._aim()}
            state.keep_plan({**plan, "slices": [one._asdict() for one in found]})
        return found

    def _planned(self, spark: SparkSession) -> list[Slice]:
        """Count the selection where it is; only the cuts come here."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        max_rows = slices.slice_rows(self.rate)
        at_once = max(1, spark.sparkContext.defaultParallelism)
        rows, size = max(1, max_rows // at_once), slices.SLICE_BYTES // at_once
        names = self._names(spark, (*_PLACE, "store_timestamp", "size"))
        frame = chosen(self.source.read(spark, columns=",".join(names)), self.where)
        queue = [f.coalesce(f.col("broker"), f.lit("")).alias("broker"), f.col("queue_id")]
        frame = frame.select(*queue, "queue_offset", "store_timestamp", f.col("size").cast("bigint").alias("size"))
        by = Window.partitionBy("broker", "queue_id").orderBy("queue_offset")
        before = f.sum("size").over(by.rowsBetween(Window.unboundedPreceding, Window.currentRow)) - f.col("size")
        number = f.row_number().over(by) - 1
        bucket = f.floor(number / rows) + f.floor(before / size)
        found = (
            frame.withColumn("bucket", bucket)
            .groupBy("broker", "queue_id", "bucket")
            .agg(
                f.min("queue_offset").alias("start"),
                (f.max("queue_offset") + 1).alias("end"),
                f.count("*").alias("rows"),
                f.sum("size").alias("bytes"),
                f.unix_micros(f.min("store_timestamp")).alias("first"),
            )
            .collect()
        )
        parts = [
            Part(one.broker, one.queue_id, one.start, one.end, one.rows, one.bytes, one["first"] or 0) for one in found
        ]
        return cut(parts, max_rows, slices.SLICE_BYTES)

    def _frame(self, spark: SparkSession, one: Slice) -> DataFrame:
        names = self._names(spark, (*_PLACE, *_SENT))
        read = self.source.read(spark, columns=",".join(names), **offsets_of(self.topic, one))
        others = f"map_filter(coalesce(properties, cast(map() AS map<string,string>)), (k, v) -> k <> '{ORIGIN}')"
        origin = "concat_ws('/', topic, coalesce(broker, '-'), queue_id, queue_offset)"
        return chosen(read, self.where).selectExpr(
            "body",
            "array_join(all_keys, ' ') AS keys",
            "tags",
            f"map_concat({others}, map('{ORIGIN}', {origin})) AS properties",
            "nullif(sharding_key, '') AS sharding_key",
        )

    def _names(self, spark: SparkSession, needed: Iterable[str]) -> list[str]:
        every = self.source.read(spark).columns if self.where else []
        return list(dict.fromkeys((*needed, *columns_in(self.where, every))))


def _producer(run_id: str) -> str:
    return f"replay:{run_id}"


def _slices_in(kept: Mapping[str, Any]) -> list[Slice]:
    return [Slice(tuple((b, q, s, e) for b, q, s, e in one["ranges"]), one["rows"]) for one in kept["slices"]]


def _notes(sent: slices.Sent, total: int) -> list[str]:
    if sent.is_stopped:
        return [f"It was stopped with {total - sent.rows - sent.before} messages to send; the same command goes on."]
    if sent.before and not sent.rows:
        return ["All of it was sent before; nothing was sent twice. Give another --id to send it once more."]
    return ["It went on where an earlier run had stopped."] if sent.before else []
