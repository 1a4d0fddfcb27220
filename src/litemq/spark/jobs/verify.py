"""``verify``: store files against themselves, part by part; it reads only, and may be stopped at any time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from litemq.spark.jobs.job import Cell, Report, Run, Table
from litemq.spark.jobs.spread import OnSpark, Stopped
from litemq.store.log_parts import can_be_cut, cut, step_of
from litemq.store.log_walk import open_log
from litemq.store.verify import VerifyReport
from litemq.store.verify_parts import verify_in_parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from litemq.store.log_walk import Log

PLAN = ("part", "count", "bytes")
DAMAGE = ("kind", "segment", "position", "reason")


@dataclass(frozen=True, slots=True)
class Verify:
    """Checks the store at ``path``."""

    path: str
    format_name: str = "auto"

    @property
    def name(self) -> str:
        return "verify"

    def plan(self, spark: SparkSession) -> Table:
        """Return what would be read."""
        log = open_log(self.path, self.format_name)
        tasks = OnSpark(Run(spark)).least
        return Table(f"{self.path} would be checked", PLAN, [*log_rows(log, tasks)])

    def run(self, run: Run) -> Report:
        """Check; a stopped check found nothing that could be told."""
        report = Report("verify", inputs={"path": self.path, "format": self.format_name})
        log = open_log(self.path, self.format_name)
        spread = OnSpark(run)
        try:
            found = verify_in_parts(log, spread, spread.least)
        except Stopped:
            report.status = "stopped"
            return report
        tell(report, found)
        return report


def log_rows(log: Log, tasks: int) -> list[list[Cell]]:
    """Return the rows of a plan that say what is read of a log."""
    if can_be_cut(log):
        parts = cut(log, step_of(log, tasks))
        return [
            ["segments", log.segment_count, sum(part.size for part in parts)],
            ["parts read at the same time", len(parts), max((part.size for part in parts), default=0)],
        ]
    return [["segments", log.segment_count, None]]


def tell(report: Report, found: VerifyReport) -> None:
    """Put into a report what ``litemq store verify`` says."""
    report.status = "done" if found.is_ok else "findings"
    damage = found.damage
    report.figures = {
        "format": found.format,
        "segments": found.segments,
        "records": found.records,
        "bytes": found.bytes,
        "unchecked": found.unchecked,
        "torn": damage.torn,
        "corrupt": damage.corrupt,
        "skipped_bytes": damage.skipped_bytes,
    }
    if found.consume_queue is not None:
        queues = found.consume_queue
        report.figures |= {
            "queues": queues.queues,
            "queue_entries": queues.entries,
            "queue_entries_missing": queues.missing,
            "queue_entries_wrong": queues.wrong,
            "queue_entries_dangling": queues.dangling,
        }
    if found.index is not None:
        index = found.index
        report.figures |= {
            "index_files": index.files,
            "index_entries": index.entries,
            "index_entries_missing": index.missing,
            "index_entries_wrong": index.wrong,
        }
    rows = [(one.kind, one.segment, one.position, one.reason) for one in damage.listed]
    report.tables["damage"] = Table("Damage in the log", DAMAGE, rows)
    if not found.is_ok:
        report.notes.append("The store is not sound; see: litemq store repair --help")
