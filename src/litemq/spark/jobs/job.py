"""What every job of the pipeline is: something that can say what it would do, do it, and report.

A job is made of plain values and knows no command line.  It leaves a state behind from which the same job goes on
after it was stopped, and doing it twice does nothing twice; how, each job's module says.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Cell = str | int | float | None
Status = Literal["done", "findings", "stopped"]


@dataclass(frozen=True, slots=True)
class Source:
    """Which messages a job reads: a store's files or running brokers, and options of ``format("litemq")``."""

    path: str = ""
    brokers: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    def read(self, spark: SparkSession, **more: str) -> DataFrame:
        """Return a new DataFrame over the source; ``more`` wins over its options, an empty text takes one away."""
        place = {"brokers": self.brokers} if self.brokers else {"path": self.path}
        given = {name: value for name, value in {**place, **self.options, **more}.items() if value}
        return spark.read.format("litemq").options(**given).load()

    @property
    def name(self) -> str:
        """Return what a person calls it."""
        return self.brokers or self.path


@dataclass(frozen=True, slots=True)
class Table:
    """Part of a report: what a person reads as a table, and a program as a list of objects."""

    title: str
    headers: tuple[str, ...]
    """Names in JSON; a person sees them in capitals."""
    rows: Sequence[Sequence[Cell]] = ()

    def to_json(self) -> list[dict[str, Cell]]:
        """Return the rows with the names of their columns."""
        return [dict(zip(self.headers, row, strict=True)) for row in self.rows]


@dataclass(slots=True)
class Report:
    """What a job did."""

    job: str
    status: Status = "done"
    inputs: dict[str, Cell] = field(default_factory=dict)
    figures: dict[str, Cell] = field(default_factory=dict)
    """What was counted: rows, bytes, findings …"""
    outputs: list[str] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)
    """By their name in JSON."""
    notes: list[str] = field(default_factory=list)
    """What a person should know, a sentence each."""
    started_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    took_s: float = 0.0

    def to_json(self) -> dict[str, object]:
        """Return the report as it is written into ``--report FILE`` and printed by ``--json``."""
        return {
            "job": self.job,
            "status": self.status,
            "started_ms": self.started_ms,
            "took_s": round(self.took_s, 3),
            "inputs": self.inputs,
            "figures": self.figures,
            "outputs": self.outputs,
            **{name: table.to_json() for name, table in self.tables.items()},
            "notes": self.notes,
        }

    def write(self, path: Path) -> None:
        """Write the report, all of it or nothing."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.tmp")
        beside.write_text(json.dumps(self.to_json(), ensure_ascii=False, indent=2) + "\n")
        beside.replace(path)


def _nobody(done: int, total: int) -> None:
    """Tell nobody."""


@dataclass(slots=True)
class Run:
    """One go of a job."""

    spark: SparkSession
    told: Callable[[int, int], None] = _nobody
    """Is told of progress: (done, total), in whatever the job counts.  Tasks of Spark show by themselves."""
    should_stop: Callable[[], bool] = lambda: False
    """Whether somebody asked it to stop: a long job looks now and then, ends at a good place, says ``stopped``."""


class Job(Protocol):
    """One kind of work."""

    @property
    def name(self) -> str:
        """Return its name on the command line."""

    def plan(self, spark: SparkSession) -> Table:
        """Return what would be read and written; changes nothing.

        Raises:
            LiteMQError: it cannot be done; the text says what to do.
        """

    def run(self, run: Run) -> Report:
        """Do it, or go on where an earlier go stopped.

        Raises:
            LiteMQError: it cannot be done; the text says what to do.
        """
