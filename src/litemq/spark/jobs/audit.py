"""``litemq pipeline audit``: whether what was sent is stored, and what is stored is consumed, pending or dead.

It writes nothing but its report.  Brokers may be at work meanwhile: everything is compared as of one cut, see
``audit_ground``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from litemq.format.names import CHANGES_TOPIC, PROGRESS_TOPIC, STATS_TOPIC
from litemq.spark.jobs import audit_findings as sums
from litemq.spark.jobs import audit_frames as frames
from litemq.spark.jobs import audit_groups as groups
from litemq.spark.jobs.audit_findings import Ends, Finding, Known, Place, Standing
from litemq.spark.jobs.audit_ground import Ground, ground_of
from litemq.spark.jobs.job import Cell, Report, Run, Source, Table
from litemq.spark.options import read_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STEPS: Final = 5
_SHUFFLED: Final = "spark.sql.shuffle.partitions"
_SPARKS_OWN: Final = "200"
_MOST_ROWS: Final = 1_000
"""Rows of one table of the report: findings come first, and all of them are counted."""

Rows = list[tuple[Cell, ...]]


@dataclass(slots=True)
class Audit:
    """One audit of store files or brokers.

    ``messages`` gives the messages from elsewhere, as ``audit_frames.messages`` does from the source.
    """

    source: Source
    topics: tuple[str, ...] = ()
    messages: Callable[[SparkSession], DataFrame] | None = None
    name: str = field(default="audit", init=False)

    def plan(self, spark: SparkSession) -> Table:
        """Return the topics that would be read."""
        ground = ground_of(self.source, self.topics)
        rows: Rows = []
        for topic in ground.topics:
            ends = [ends for place, ends in ground.queues.items() if place[1] == topic]
            count = sum((one.high or 0) - (one.low or 0) for one in ends)
            groups = len({one.group for one in ground.standings if one.place[1] == topic})
            rows.append((topic, len(ends), count, groups))
        return Table(f"would be read of {self.source.name}", ("topic", "queues", "messages", "groups"), rows)

    def run(self, run: Run) -> Report:
        """Audit."""
        with _partitions(run.spark):
            return _Go(self, run).report()


class _Go:
    """One run: what it has read, and the report that it fills."""

    def __init__(self, audit: Audit, run: Run) -> None:
        self._audit = audit
        self._run = run
        self._spark = run.spark
        self._report = Report("audit")
        self._findings: list[Finding] = []
        place = {"brokers": audit.source.brokers} if audit.source.brokers else {"path": audit.source.path}
        options = read_options({**place, **audit.source.options})
        self._since = options.from_ms or 0
        self._until = options.to_ms if options.to_ms is not None else sums.FOREVER
        self._is_all = options.from_ms is None and options.to_ms is None

    def report(self) -> Report:
        audit, report = self._audit, self._report
        report.inputs = {"source": audit.source.name, "topics": ",".join(audit.topics) or None}
        # In this order: how far sends are counted, where groups stand, where queues end.
        ground = ground_of(audit.source, audit.topics)
        report.notes += ground.notes
        own = frames.told(self._spark, audit.source, ground)
        own = own.persist() if own is not None else None
        read = audit.messages or (lambda spark: frames.messages(spark, audit.source, audit.topics and ground.topics))
        found = read(self._spark).persist()
        try:
            there = {topic for _, topic, _ in ground.told}
            told = {topic: own.where(own.topic == topic) for topic in there} if own is not None else {}
            self._compare(ground, told, found)
        finally:
            found.unpersist()
            if own is not None:
                own.unpersist()
        return self._finished()

    def _compare(self, ground: Ground, told: dict[str, DataFrame], found: DataFrame) -> None:
        standings = self._standings(ground, told.get(PROGRESS_TOPIC))
        if ground.look_again is not None:
            found.count()  # now: what goes from here on was read
        before, ground.queues = ground.queues, _trimmed(ground)
        self._swept = {
            place[:2]: sums.FOREVER
            for place, ends in ground.queues.items()
            if ends != before[place] and (ends.low or 0) >= (ends.high or 0)
        }
        found = frames.cut(self._spark, found, ground.queues, ground)
        works: tuple[Callable[[], None], ...] = (
            lambda: self._queues(ground, found),
            lambda: self._hours(ground, told, found),
            lambda: self._doubles(found),
            lambda: self._groups(ground, standings),
            lambda: self._latency(ground, told.get(PROGRESS_TOPIC), found),
        )
        for number, work in enumerate(works):
            self._run.told(number, _STEPS)
            if self._run.should_stop():
                self._report.status = "stopped"
                return
            work()

    def _standings(self, ground: Ground, progress: DataFrame | None) -> list[Standing]:
        """Return where groups stand; what is newer than the store's snapshot of it wins."""
        if progress is None or ground.snapshot_position is None:
            return ground.standings
        every = {(one.group, one.place): one for one in ground.standings}
        for one in groups.newest(groups.steps(progress), ground.snapshot_position):
            every[one.group, one.place] = one
        ground.standings = list(every.values())
        return ground.standings

    # -- the parts -------------------------------------------------------------------------------

    def _queues(self, ground: Ground, found: DataFrame) -> None:
        self._stored, self._firsts, uneven = frames.stored(found)
        self._report.figures["messages"] = sum(one.messages for one in self._stored.values())
        self._report.figures["queues"] = len(self._stored)
        if self._is_all and self._audit.messages is None:
            for place in sorted({*ground.queues, *self._stored}):
                ends = ground.queues.get(place, Ends(None, None))
                self._findings += sums.edges(place, ends, self._stored.get(place))
        self._findings += frames.unevenness(self._spark, found, uneven)
        if ground.lost_from is not None:
            said = f"the log ends at position {ground.lost_from}, its checkpoint says that {ground.lost_to} was on disk"
            self._findings.append(Finding(kind="tail", count=ground.lost_to - ground.lost_from, detail=said))

    def _hours(self, ground: Ground, told: dict[str, DataFrame], found: DataFrame) -> None:
        stats = told.get(STATS_TOPIC)
        counted_to = frames.last_positions(stats) if stats is not None else {}
        if stats is None or not counted_to:
            self._report.notes.append("Nothing counts sends here: what was sent is not compared with what is stored.")
            return
        counts = frames.counted(stats).persist()
        changes = told.get(CHANGES_TOPIC)
        taken = frames.changes(changes) if changes is not None else []
        earliest: dict[str, int] = {}
        for place, time in self._firsts.items():
            earliest[place[0]] = min(time, earliest.get(place[0], time))
        known = Known(
            counting=frozenset(counted_to),
            marks=tuple(frames.marks(stats)),
            whole_from=sums.whole_from(ground.queues, self._firsts, earliest, taken) | self._swept,
            since=self._since,
            until=self._until,
        )
        there = {place[:2] for place in (*ground.queues, *self._stored)}
        rows: Rows = []
        for one in frames.hours(found, counts, counted_to):
            if (one.broker, one.topic) not in there or not known.holds(one):
                continue  # it was deleted, or was not asked for
            state = known.state(one)
            wrong = sums.judged(one, state)
            if wrong is not None:
                self._findings.append(wrong)
            hour = sums.hour_text(one.hour)
            rows.append(
                (one.topic, one.broker or None, hour, one.sent, one.stored, state if wrong is None else wrong.kind)
            )
        self._table("hours", "sent and stored", ("topic", "broker", "hour", "sent", "stored", "state"), rows)
        self._report.figures["sent"] = sum(int(row[3] or 0) for row in rows)
        self._report.figures["stored"] = sum(int(row[4] or 0) for row in rows)
        self._report.figures["incomplete_hours"] = len({row[1:3] for row in rows if row[5] == "incomplete"})
        producers = frames.by_producer(counts, {topic for _, topic in there})
        self._table("producers", "sent by producer groups", ("topic", "producer_group", "sent"), producers)
        counts.unpersist()

    def _doubles(self, found: DataFrame) -> None:
        self._findings += frames.doubles(found)

    def _groups(self, ground: Ground, standings: list[Standing]) -> None:
        if not self._is_all:
            self._report.notes.append("A time range was asked for: what groups consumed is not compared.")
            return
        dead = groups.dead_letters(self._spark, self._audit.source, ground, self._stored)
        found, wrong = sums.balances(standings, ground.queues, self._stored, dead)
        self._findings += wrong
        rows: Rows = [
            (one.group, one.topic, one.stored, one.consumed, one.pending, one.dead, one.difference) for one in found
        ]
        headers = ("group", "topic", "stored", "consumed", "pending", "dead", "difference")
        self._table("groups", "stored = consumed + pending + dead", headers, rows)

    def _latency(self, ground: Ground, progress: DataFrame | None, found: DataFrame) -> None:
        if progress is None:
            return
        places = [place for place in self._stored if not (ground.queues.get(place, Ends(0, 0)).low or 0)]
        rows: Rows = []
        for one in groups.latency(found, groups.steps(progress), places):
            rows.append((one.group, one.topic, sums.hour_text(one.hour), *one[3:]))
        headers = ("group", "topic", "hour", "messages", "p50_ms", "p95_ms", "p99_ms", "max_ms")
        self._table("latency", "from stored to confirmed, to the second", headers, rows)

    # -- the report ------------------------------------------------------------------------------

    def _table(self, name: str, title: str, headers: tuple[str, ...], rows: Rows) -> None:
        if len(rows) > _MOST_ROWS:
            self._report.notes.append(f"{name}: the first {_MOST_ROWS} of {len(rows)} rows are shown.")
        self._report.tables[name] = Table(title, headers, rows[:_MOST_ROWS])

    def _finished(self) -> Report:
        report, findings = self._report, self._findings
        findings.sort(key=lambda one: (one.kind, one.topic, one.broker, one.queue_id or 0, one.group, one.hour or 0))
        report.figures["findings"] = len(findings)
        self._table("findings", "what does not add up", sums.COLUMNS, [one.row() for one in findings])
        if findings and report.status == "done":
            report.status = "findings"
        return report


@contextmanager
def _partitions(spark: SparkSession) -> Iterator[None]:
    """Part what is shuffled as the machines suggest, unless somebody chose: 200 small tasks take long."""
    before = spark.conf.get(_SHUFFLED)
    if before == _SPARKS_OWN:
        spark.conf.set(_SHUFFLED, str(4 * spark.sparkContext.defaultParallelism))
    try:
        yield
    finally:
        spark.conf.set(_SHUFFLED, before)


def _trimmed(ground: Ground) -> dict[Place, Ends]:
    """Return where queues begin and end, now that the messages were read: what went meanwhile was not lost."""
    if ground.look_again is None:
        return ground.queues
    now = ground.look_again()
    return {
        place: Ends(max(ends.low or 0, now[place].low or 0), ends.high)
        for place, ends in ground.queues.items()
        if place in now
    }
