"""``convert``: store files in another format, part by part.

Everything is built beside the destination, which gets its name at the end, so that a job that was stopped or killed
leaves no destination, and the next one begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from litemq.spark.jobs.job import Report, Run, Table
from litemq.spark.jobs.spread import OnSpark, Stopped
from litemq.spark.jobs.verify import PLAN, log_rows
from litemq.store.convert import ConvertReport, sizes_of
from litemq.store.convert_parts import ConversionInParts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Convert:
    """Writes the records of the log at ``source`` as a store of format ``to``; sizes that are None are the usual."""

    source: str
    destination: str
    to: str
    from_format: str = "auto"
    segment_size: int | None = None
    queue_entries: int | None = None
    index_slots: int | None = None
    index_entries: int | None = None

    @property
    def name(self) -> str:
        return "convert"

    def plan(self, spark: SparkSession) -> Table:
        """Return what would be read and written."""
        rows = log_rows(self._conversion().log, OnSpark(Run(spark)).least)
        title = f"{self.source} would be converted to {self.to}"
        return Table(title, PLAN, [*rows, [f"{self.destination} made", 1, None]])

    def run(self, run: Run) -> Report:
        """Convert; one that was stopped leaves no destination."""
        inputs = {"source": self.source, "destination": self.destination, "from": self.from_format, "to": self.to}
        report = Report("convert", inputs={**inputs})
        spread = OnSpark(run)
        try:
            found = self._conversion().run_in_parts(spread, spread.least)
        except Stopped:
            report.status = "stopped"
            report.notes.append(f"There is no {self.destination}.")
            return report
        tell(report, found)
        report.outputs = [str(Path(self.destination))]
        return report

    def _conversion(self) -> ConversionInParts:
        sizes = sizes_of(self.segment_size, self.queue_entries, self.index_slots, self.index_entries)
        return ConversionInParts.of(self.source, self.destination, self.to, self.from_format, sizes)


def tell(report: Report, found: ConvertReport) -> None:
    """Put into a report what ``litemq store convert`` says."""
    report.status = "done" if found.is_ok else "findings"
    report.figures = {
        "from": found.from_format,
        "to": found.to_format,
        "records": found.records,
        "bytes": found.bytes,
        "segments": found.segments,
        "torn": found.torn,
        "corrupt": found.corrupt,
        "rejected": found.rejected_count,
    }
    report.tables["dropped"] = Table("Keys that lost something", ("key", "records"), [*found.dropped.items()])
    report.tables["rejected"] = Table("Records that were left out", ("position", "reason"), found.rejected)
