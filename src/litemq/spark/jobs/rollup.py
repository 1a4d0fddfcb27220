"""Statistics by the hour: of topics from the headers of their messages, of groups from what the store knows of them.

Hours are computed and replaced as a whole, so a second run changes nothing.  From the lake, an hour is computed again
when it holds another number of messages than its statistics say; from a store or brokers, every hour since the last run
and the one before it.  An hour of a topic of which less is left than was counted once keeps its statistics: retention
takes messages, not what is known of them.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from litemq.spark.jobs.job import Report, Run, Source, Table
from litemq.spark.jobs.queue_bounds import queue_bounds
from litemq.spark.lake import statistics
from litemq.spark.lake.messages import SCHEMA, messages_log, with_hour
from litemq.spark.lake.reading import chosen, read_files
from litemq.spark.lake.table import BadLake, DataFile, Log, kind_of, log_of
from litemq.spark.lake.writing import Key, writing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOUR_MS: Final = 3_600_000
_KEEP_REPLACED_S: Final = 86_400.0
"""Files that a run replaced stay so long for those who read them."""
_SHOWN: Final = 50
"""Rows of a table of the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollup:
    """The job."""

    lake: Path
    source: Source | None = None
    """None: the messages of the lake."""
    topics: tuple[str, ...] = ()
    from_ms: int | None = None
    to_ms: int | None = None
    kind: str = ""

    @property
    def name(self) -> str:
        """Return its name on the command line."""
        return "rollup"

    # -- what is read ------------------------------------------------------------------------------------------------

    def plan(self, spark: SparkSession) -> Table:
        """Return which hours would be computed."""
        found: dict[str, tuple[int | None, int]] = {}
        if self.source is None:
            for (topic, _, _), files in sorted(changed_hours(self._lake_files(), self._counted(spark)).items()):
                hours, messages = found.get(topic, (0, 0))
                found[topic] = ((hours or 0) + 1, messages + sum(file.rows for file in files))
            title = "hours that changed"
        else:
            for (topic, _, _), (low, high) in sorted(queue_bounds(self._options()).items()):
                found[topic] = (None, found.get(topic, (None, 0))[1] + high - low)
            start, end = self._start_ms(), whole_hours(None, self.to_ms)[1]
            begin = "the first message" if start is None else hour_text(start)
            title = f"hours from {begin} until {'now' if end is None else hour_text(end)}, of what is there"
        rows = [(topic, *row) for topic, row in found.items()]
        return Table(f"{title}, to {self.lake / statistics.FOLDER}:", ("topic", "hours", "messages"), rows)

    def _start_ms(self) -> int | None:
        """Return where a read of a store begins; None: at its first message."""
        if self.from_ms is not None:
            return whole_hours(self.from_ms, None)[0]
        last = self._log(statistics.TOPICS).last_batch(self._writer)
        return None if last is None else last // HOUR_MS * HOUR_MS - HOUR_MS

    @property
    def _writer(self) -> str:
        """Return under which name runs over this very source commit: the batch is the time of the run."""
        source = self.source
        place = "lake" if source is None else source.brokers or str(Path(source.path).resolve())
        told = json.dumps([place, sorted(self.topics), source.options.get("format", "") if source else ""])
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def _log(self, name: str) -> Log:
        root = self.lake / statistics.FOLDER / name
        return log_of(root, self.kind or kind_of(root) or kind_of(self.lake / "messages"))

    def _lake_files(self) -> list[DataFile]:
        files = messages_log(self.lake).files()
        there = {file.partition["topic"] for file in files}
        missing = sorted(set(self.topics) - there)
        if missing:
            known = ", ".join(sorted(there)[:20]) or "none"
            raise BadLake(f"there is no topic {missing[0]!r} in {self.lake}; topics are: {known}")
        start, end = whole_hours(self.from_ms, self.to_ms)
        return chosen(files, self.topics, start, end)

    def _counted(self, spark: SparkSession) -> dict[Hour, int]:
        """Return how many messages the statistics of each hour were made of."""
        log = self._log(statistics.TOPICS)
        rows = read_files(spark, log.root, log.files(), statistics.TOPICS_SCHEMA).select(
            "topic", "dt", "hour", "messages"
        )
        return {(row.topic, row.dt, row.hour): row.messages for row in rows.collect()}

    def _headers(self, spark: SparkSession) -> DataFrame:
        """Return the columns that statistics are made of; no body is read."""
        if self.source is None:
            hours = changed_hours(self._lake_files(), self._counted(spark))
            files = [file for some in hours.values() for file in some]
            found = read_files(spark, self.lake / "messages", files, SCHEMA)
            return found.select(*statistics.HEADERS, "dt", "hour")
        start, end = self._start_ms(), whole_hours(None, self.to_ms)[1]
        given = self._options() | {
            "columns": ",".join(statistics.HEADERS),
            "startingTimestamp": "" if start is None else str(start),
            "endingTimestamp": "" if end is None else str(end),
        }
        return with_hour(Source(self.source.path, self.source.brokers, given).read(spark))

    def _options(self) -> dict[str, str]:
        assert self.source is not None
        place = {"brokers": self.source.brokers} if self.source.brokers else {"path": self.source.path}
        return {**place, **self.source.options, "subscribe": ",".join(self.topics)}

    # -- doing it ----------------------------------------------------------------------------------------------------

    def run(self, run: Run) -> Report:
        """Compute what changed, and replace it."""
        spark, now_ms = run.spark, time.time_ns() // 1_000_000
        report = Report(self.name)
        report.inputs = {"source": self.source.name if self.source else str(self.lake), "topics": ",".join(self.topics)}
        topics_log, groups_log = self._log(statistics.TOPICS), self._log(statistics.GROUPS)
        layout = statistics.LAYOUT
        with writing(topics_log, layout, "rollup") as topics, writing(groups_log, layout, "rollup") as groups:
            # What is kept has as many partitions as its last shuffle: 200 tasks for a few rows, again and again.
            few = spark.sparkContext.defaultParallelism
            hours = statistics.topic_hours(self._headers(spark)).coalesce(few).persist()
            try:
                places = self._places(spark, now_ms)
                stands = statistics.group_hours(hours, spark.createDataFrame(places, statistics.PROGRESS_SCHEMA))
                _tell(report, hours, stands)
                if run.should_stop():
                    report.status = "stopped"
                    return report
                statistics.replace(groups, stands, self._key(groups_log, now_ms))
                # Last: its batch says up to when everything is done.
                statistics.replace(topics, hours, self._key(topics_log, now_ms))
                for log in (topics_log, groups_log):
                    log.vacuum(_KEEP_REPLACED_S)
            finally:
                hours.unpersist()
        report.outputs = [f"{log.root} ({log.kind})" for log in (topics_log, groups_log)]
        return report

    def _key(self, log: Log, now_ms: int) -> Key:
        last = log.last_batch(self._writer)
        return Key(self._writer, now_ms if last is None else max(now_ms, last + 1))

    def _places(self, spark: SparkSession, now_ms: int) -> list[tuple[str, str, int, int, int | None, int | None]]:
        """Return where groups stand now, as far as the source says: a lake does not."""
        if self.source is None:
            return []
        found = _asked(self.source.brokers) if self.source.brokers else _noted(self.source, spark)
        return [
            (group, topic, now_ms, *place)
            for (group, topic), place in sorted(found.items())
            if not self.topics or topic in self.topics
        ]


Hour = tuple[str, str, str]
"""Topic, date and hour."""

_Places = dict[tuple[str, str], tuple[int, int | None, int | None]]
"""By group and topic: committed offsets, ends of queues and lag, each summed over the queues."""


def _asked(brokers: str) -> _Places:
    from litemq.client.admin import Admin

    found: _Places = {}
    with Admin(brokers) as admin:
        for info in admin.groups():
            for queue in admin.lag(info.group).queues:
                offset, end, lag = found.get((info.group, queue.topic), (0, 0, 0))
                found[info.group, queue.topic] = (offset + queue.offset, (end or 0) + queue.end, (lag or 0) + queue.lag)
    return found


def _noted(source: Source, spark: SparkSession) -> _Places:
    rows = Source(source.path).read(spark, view="groups").groupBy("group", "topic").sum("offset", "max_offset", "lag")
    return {(group, topic): (offset, end, lag) for group, topic, offset, end, lag in rows.collect()}


def changed_hours(files: Sequence[DataFile], counted: Mapping[Hour, int]) -> dict[Hour, list[DataFile]]:
    """Return the hours that hold more messages than their statistics were made of, and their files."""
    hours: dict[Hour, list[DataFile]] = {}
    for file in files:
        place = file.partition
        hours.setdefault((place["topic"], place["dt"], place["hour"]), []).append(file)
    return {hour: some for hour, some in hours.items() if sum(file.rows for file in some) > counted.get(hour, 0)}


def whole_hours(from_ms: int | None, to_ms: int | None) -> tuple[int | None, int | None]:
    """Return a time range widened to whole hours."""
    start = None if from_ms is None else from_ms // HOUR_MS * HOUR_MS
    return start, None if to_ms is None else -(-to_ms // HOUR_MS) * HOUR_MS


def hour_text(ms: int) -> str:
    """Return the hour in which a time lies, as people read it."""
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%dT%H:00Z}"


def _tell(report: Report, hours: DataFrame, stands: DataFrame) -> None:
    """Enter what was computed into the report."""
    from pyspark.sql import functions as f

    found = (
        hours.groupBy("topic")
        .agg(
            f.count("*").alias("hours"),
            *(f.sum(name).alias(name) for name in ("messages", "bytes")),
            *(f.max(name).alias(name) for name in ("latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "producers")),
        )
        .orderBy(f.desc("messages"), "topic")
        .collect()
    )
    report.figures = {
        "topics": len(found),
        "hours": sum(row.hours for row in found),
        "messages": sum(row.messages for row in found),
        "bytes": sum(row.bytes or 0 for row in found),
    }
    report.tables["topics"] = Table(
        "topics: the slowest hour's latency from born to stored, the busiest hour's producers",
        ("topic", "hours", "messages", "bytes", "p50_ms", "p95_ms", "p99_ms", "producers"),
        [tuple(row) for row in found[:_SHOWN]],
    )
    groups = (
        stands.groupBy("group", "topic")
        .agg(*(f.max(name) for name in ("committed", "lag")), *(f.sum(name) for name in ("dead_letters", "retries")))
        .orderBy(f.desc("max(lag)"), "group", "topic")
        .collect()
    )
    report.figures["groups"] = len({row.group for row in groups})
    report.figures["lag"] = sum(row["max(lag)"] or 0 for row in groups)
    report.figures["dead_letters"] = sum(row["sum(dead_letters)"] or 0 for row in groups)
    report.tables["groups"] = Table(
        "groups: where they stand now, dead letters and retries of the hours above",
        ("group", "topic", "committed", "lag", "dead_letters", "retries"),
        [tuple(row) for row in groups[:_SHOWN]],
    )
    for name, many in (("topics", found), ("groups", groups)):
        if len(many) > _SHOWN:
            report.notes.append(f"{name}: the first {_SHOWN} of {len(many)} rows; all are in the tables")
