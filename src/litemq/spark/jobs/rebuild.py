"""``rebuild``: the queues and the key index of store files anew, part by part.

Everything is built below ``rebuild.tmp/`` and swapped in at the end, so that a job that was stopped or killed leaves
the store as it was, and the next one begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from litemq.spark.jobs.job import Cell, Report, Run, Table
from litemq.spark.jobs.spread import OnSpark, Stopped
from litemq.spark.jobs.verify import DAMAGE, PLAN, log_rows
from litemq.store.derived import INDEX, QUEUES
from litemq.store.fs import OsFileSystem
from litemq.store.offline import check_movable, open_store
from litemq.store.rebuild import Part, RebuildReport, rebuild
from litemq.store.rebuild_parts import InParts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Rebuilds what is derived from the log of the store at ``path``; sizes that are None stay as they are."""

    path: str
    only: Part | None = None
    queue_entries: int | None = None
    index_slots: int | None = None
    index_entries: int | None = None

    @property
    def name(self) -> str:
        return "rebuild"

    def plan(self, spark: SparkSession) -> Table:
        """Return what would be read and replaced."""
        log, store = open_store(self.path, OsFileSystem())
        parts = [self.only] if self.only else [QUEUES, INDEX]
        check_movable(log.fs, store, parts)
        rows = log_rows(log, OnSpark(Run(spark)).least)
        replaced = [[f"{part}/ replaced", _files_below(store / part), None] for part in parts]
        return Table(f"{self.path} would be rebuilt", PLAN, [*rows, *replaced])

    def run(self, run: Run) -> Report:
        """Rebuild; one that was stopped changed nothing."""
        inputs = {"path": self.path, "only": self.only}
        report = Report("rebuild", inputs={name: value for name, value in inputs.items() if value is not None})
        spread = OnSpark(run)
        try:
            found = rebuild(
                self.path,
                only=self.only,
                queue_entries=self.queue_entries,
                index_slots=self.index_slots,
                index_entries=self.index_entries,
                how=InParts(spread, spread.least),
            )
        except Stopped:
            report.status = "stopped"
            report.notes.append("The store is as it was.")
            return report
        tell(report, found)
        report.outputs = [str(Path(self.path, part)) for part in ([self.only] if self.only else [QUEUES, INDEX])]
        return report


def tell(report: Report, found: RebuildReport) -> None:
    """Put into a report what ``litemq store rebuild`` says."""
    report.status = "done" if found.is_ok else "findings"
    report.figures = {**found.to_json()}
    left_out: list[tuple[Cell, ...]] = [
        (one.kind, one.segment, one.position, one.reason) for one in found.damage.listed
    ]
    left_out += [("rejected", "", position, reason) for position, reason in found.rejected.listed]

    report.tables["left_out"] = Table("Records without entries", DAMAGE, left_out)


def _files_below(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))
