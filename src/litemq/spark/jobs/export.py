"""``litemq pipeline export``: messages, or a view of a store, as Parquet, JSON Lines or CSV.

Tasks write their rows into files of their own; when all are written the driver gives them their names and writes the
manifest.  Of a task that ran twice the attempt counts that Spark chose.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from litemq.spark.errors import BadOption
from litemq.spark.jobs.export_place import Part, Place, place_of
from litemq.spark.jobs.export_rows import Body, Form, HashedFile, rows_into
from litemq.spark.jobs.job import Cell, Report, Run, Source, Table
from litemq.spark.jobs.selection import chosen, columns_in
from litemq.spark.jobs.slices import until_stopped

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_WRITTEN = "name string, rows bigint, bytes bigint, sha256 string, number int"


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """Writes a selection into files."""

    source: Source
    to: Path
    where: str = ""
    columns: tuple[str, ...] = ()
    form: Form | None = None
    body: Body = "base64"
    name: str = "export"

    def plan(self, spark: SparkSession) -> Table:
        """Return what would be written, and whether it is there."""
        place, form = place_of(self.to, self.form)
        is_there = place.finished(self._claim(form)) is not None
        frame = self._frame(spark)
        rows = [
            ("from", self.source.name),
            ("to", str(self.to)),
            ("format", form),
            ("columns", ", ".join(frame.columns)),
            ("rows", frame.count()),
            ("is there already", "yes" if is_there else "no"),
        ]
        return Table("", ("what", "value"), rows)

    def run(self, run: Run) -> Report:
        """Write it; nothing when it is there."""
        place, form = place_of(self.to, self.form)
        claim = self._claim(form)
        report = Report(self.name, inputs={"source": self.source.name, "where": self.where, "format": form})
        manifest = place.finished(claim)
        if manifest is not None:
            report.notes.append("It was finished before, and nothing was written; a newer one needs a new name.")
        else:
            frame = self._frame(run.spark)
            place.begin(claim)
            manifest = until_stopped(run, partial(_write, frame, place, form, self.body, claim))
            if manifest is None:
                report.status = "stopped"
                report.notes.append("It was stopped; the same command begins it anew.")
                return report
        report.figures = {name: manifest[name] for name in ("rows", "bytes")} | {"files": len(manifest["files"])}
        report.outputs = [str(place.path), str(place.manifest)]
        return report

    def _claim(self, form: Form) -> dict[str, Any]:
        """Return what makes this export another one than any other."""
        return {
            "source": self.source.name,
            "options": dict(sorted(self.source.options.items())),
            "where": self.where,
            "columns": list(self.columns),
            "format": form,
            "body": None if form == "parquet" else self.body,
        }

    def _frame(self, spark: SparkSession) -> DataFrame:
        every = self.source.read(spark)
        known = {column.lower(): column for column in every.columns}
        for column in self.columns:
            if column.lower() not in known:
                raise BadOption(f"there is no column {column!r}; there are: {', '.join(every.columns)}")
        wanted = [known[column.lower()] for column in self.columns]
        if not wanted:
            return chosen(every, self.where)
        more = [name for name in columns_in(self.where, every.columns) if name not in wanted]
        if self.source.options.get("view", "messages") in ("messages", "dlq"):
            every = self.source.read(spark, columns=",".join([*wanted, *more]))
        return chosen(every, self.where).select(*[f"`{name}`" for name in wanted])


def _write(frame: DataFrame, place: Place, form: Form, body: Body, claim: dict[str, Any]) -> dict[str, Any]:
    """Write the parts, then the manifest."""
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(frame.schema, timezone="UTC")
    columns = [{"name": field.name, "type": field.dataType.simpleString()} for field in frame.schema.fields]
    folder = str(place.writing.absolute())
    if place.is_file:
        frame = frame.coalesce(1)
    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]] = partial(
        _write_part, folder=folder, form=form, body=body, schema=schema
    )
    found = frame.mapInArrow(task, _WRITTEN).collect()
    parts = [Part(one.name, one.rows, one.bytes, one.sha256) for one in sorted(found, key=lambda one: one.number)]
    if place.is_file and not parts:
        parts = [_part(iter(()), folder, 0, form, body, schema)]
    figures: dict[str, Cell] = {"rows": sum(one.rows for one in parts), "bytes": sum(one.bytes for one in parts)}
    return place.end(parts, {"plan": claim, "columns": columns, **figures}, form)


def _write_part(
    batches: Iterator[pa.RecordBatch], *, folder: str, form: Form, body: Body, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Write the rows of one task, and say what was written; nothing without rows."""
    import pyarrow as pa
    from pyspark import TaskContext

    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return
    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    part = _part(_behind(first, batches), folder, number, form, body, schema)
    row = {"name": [part.name], "rows": [part.rows], "bytes": [part.bytes], "sha256": [part.sha256]}
    kinds = [("name", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64()), ("sha256", pa.string())]
    yield pa.RecordBatch.from_pydict({**row, "number": [number]}, pa.schema([*kinds, ("number", pa.int32())]))


def _behind(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others


def _part(
    batches: Iterator[pa.RecordBatch], folder: str, number: int, form: Form, body: Body, schema: pa.Schema
) -> Part:
    """Write one file, under a name that no other attempt uses."""
    import os

    name = f"{number:05d}-{random.getrandbits(64):016x}.{form}"
    rows = 0
    with (Path(folder) / name).open("xb") as file:
        hashed = HashedFile(file)
        out = rows_into(hashed, form, schema, body)
        for batch in batches:
            out.write(batch.cast(schema) if batch.schema != schema else batch)
            rows += batch.num_rows
        out.close()
        file.flush()
        os.fsync(file.fileno())
    return Part(name, rows, hashed.size, hashed.sha256)
