"""What all commands of ``litemq pipeline`` share: where they read, on which Spark they run, how they report."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, TypeVar

import click

from litemq.cli import output
from litemq.cli.connecting import parse_pairs
from litemq.cli.counting import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from litemq.spark.jobs.job import Cell, Job, Report, Source, Table

FOUND: Final = 1
"""Exit status of a job that found something wrong, or was stopped."""

_Command = TypeVar("_Command", bound=Callable[..., object])


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What every job is told."""

    master: str
    conf: tuple[str, ...]
    report: Path | None
    dry_run: bool
    as_json: bool


def common_options(command: _Command) -> _Command:
    """Add the options of ``Common``; the command takes ``**common`` and gives it to ``carry_out``."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object."),
        click.option("--dry-run", is_flag=True, help="Tell what would be read and written, and change nothing."),
        click.option("--report", metavar="FILE", type=click.Path(path_type=Path), help="Keep the report as JSON."),
        click.option("--conf", metavar="NAME=VALUE", multiple=True, help="A setting of Spark; may come several times."),
        click.option(
            "--master",
            metavar="URL",
            default="",
            help="The Spark to run on: spark://HOST:7077, yarn, k8s://… [default: local[*], or spark-submit's].",
        ),
    ):
        command = option(command)
    return command


def source_options(command: _Command) -> _Command:
    """Add what ``source_of`` reads: a path or name servers, topics, and a time range."""
    for option in (
        click.option("--until", metavar="TIME", default="", help="Only what was stored before then."),
        click.option(
            "--since", metavar="TIME", default="", help="Only what was stored then or later; -1h: an hour ago."
        ),
    ):
        command = option(command)
    return place_options(command)


def place_options(command: _Command) -> _Command:
    """Add what ``source_of`` reads, without the time range: for jobs that go by offsets or whole hours."""
    for option in (
        click.option(
            "--topic", "topics", multiple=True, metavar="NAME", help="Only this topic; may come several times."
        ),
        click.option(
            "--nameserver",
            "--name-server",
            "nameservers",
            metavar="HOST:PORT;…",
            envvar=["LITEMQ_NAMESERVER", "NAMESRV_ADDR"],
            default="127.0.0.1:9876",
            show_default=True,
            help="Read from running brokers [variable LITEMQ_NAMESERVER or NAMESRV_ADDR].",
        ),
        click.option("--path", metavar="STORE", default="", help="Read store files instead of running brokers."),
    ):
        command = option(command)
    return command


def source_of(
    *, path: str, nameservers: str, topics: tuple[str, ...] = (), since: str = "", until: str = "", **more: str
) -> Source:
    """Return the source that options describe; ``more`` are options of ``format("litemq")``."""
    from litemq.spark.jobs.job import Source

    given = {"subscribe": ",".join(topics), "startingTimestamp": since, "endingTimestamp": until, **more}
    kept = {name: value for name, value in given.items() if value}
    return Source(path, "", kept) if path else Source("", nameservers, kept)


def carry_out(job: Job, common: Common) -> int:
    """Plan or run a job; print and keep its report; return the exit status."""
    with spark_of(common, f"litemq {job.name}") as spark:
        from litemq.spark.jobs.job import Run

        if common.dry_run:
            _show_plan(job.plan(spark), as_json=common.as_json)
            return 0
        began = time.monotonic()
        with _stopping() as should_stop, _watched(spark, job.name) as told:
            report = job.run(Run(spark, told, should_stop))
        report.took_s = time.monotonic() - began
    if common.report is not None:
        report.write(common.report)
    write_report(report, as_json=common.as_json)
    return 0 if report.status == "done" else FOUND


@contextmanager
def spark_of(common: Common, name: str) -> Iterator[SparkSession]:
    """Yield the session to work with, quiet; what Spark says of an error of ours becomes that error."""
    from litemq.spark.session import job_session

    spark = job_session(name, common.master, parse_pairs(common.conf, "--conf"))
    try:
        with said_plainly():
            yield spark
    finally:
        spark.stop()


@contextmanager
def said_plainly() -> Iterator[None]:
    """Raise errors of Spark as what LiteMQ said within them, without the stacks around it."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from litemq.spark.errors import JobFailed, message_of

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise JobFailed(message_of(error)) from error


@contextmanager
def _stopping() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C and SIGTERM ask a job to stop at a good place; the second time they end it."""
    asked = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        output.warn("stopping at the next good place; once more stops at once, the next run goes on all the same")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _watched(spark: SparkSession, label: str) -> Iterator[Callable[[int, int], None]]:
    """Draw a bar: what the job tells, else the tasks of the stages that run."""
    with counted(label) as bar:
        if bar is None:
            yield lambda done, total: None
            return
        tells, ended = threading.Event(), threading.Event()
        tracker = spark.sparkContext.statusTracker()

        def watch() -> None:
            while not ended.wait(0.3):
                stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
                there = [one for one in stages if one is not None]
                if there and not tells.is_set():
                    bar(sum(one.numCompletedTasks for one in there), sum(one.numTasks for one in there))

        def told(done: int, total: int) -> None:
            tells.set()
            bar(done, total)

        thread = threading.Thread(target=watch, name="litemq-progress", daemon=True)
        thread.start()
        try:
            yield told
        finally:
            ended.set()
            thread.join()


def _show_plan(plan: Table, *, as_json: bool) -> None:
    if as_json:
        output.write_json({"plan": plan.to_json()})
        return
    write_plain_table(plan)


def write_report(report: Report, *, as_json: bool) -> None:
    """Print a report: JSON, or what a person reads."""
    if as_json:
        output.write_json(report.to_json())
        return
    for table in report.tables.values():
        if table.rows:
            write_plain_table(table)
            output.write_line()
    fields: list[tuple[str, object]] = [
        (name.replace("_", " "), _cell(value)) for name, value in report.figures.items()
    ]
    fields += [("output", one) for one in report.outputs]
    output.write_fields([*fields, ("status", report.status), ("took", f"{report.took_s:.1f} s")])
    for note in report.notes:
        output.write_line(note)


def write_plain_table(table: Table) -> None:
    """Print a table under its title."""
    if table.title:
        output.write_line(table.title)
    headers = [name.replace("_", " ").upper() for name in table.headers]
    output.write_table(headers, [[_cell(cell) for cell in row] for row in table.rows])


def _cell(value: Cell) -> str | int:
    if value is None:
        return "-"
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
