"""``litemq pipeline import``: Parquet, JSON Lines or CSV into a topic, each row once.

All files are looked through before the first row is sent: their names, every row, their checksums.  What is sent is
known by the checksums and the topic, so a second import of the same files to the same topic sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from litemq.errors import InvalidRequest
from litemq.spark.errors import SchemaMismatch
from litemq.spark.jobs import slices
from litemq.spark.jobs.export_place import MANIFEST, PLAN, WRITING, check_files, manifest_of, read_manifest
from litemq.spark.jobs.export_rows import SUFFIXES, Form
from litemq.spark.jobs.import_files import MESSAGE_DDL, PIECE_ROWS, Piece, Survey, Wish, batches_of, parts_in, survey
from litemq.spark.jobs.import_rows import MAX_BODY, Columns, Extra
from litemq.spark.jobs.job import Cell, Report, Run, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

OnBad = Literal["fail", "skip", "quarantine"]
_SHOWN: Final = 3

Reader = tuple[Piece, Columns]


@dataclass(frozen=True, slots=True)
class Input:
    """The files of an import."""

    files: tuple[str, ...]
    form: Form
    checksums: tuple[str, ...] = ()
    """As the manifest has them; empty: there is none."""


def input_of(path: Path, form: Form | None) -> Input:
    """Return the files at a path: one file, an export, or a directory of files of one form.

    Raises:
        InvalidRequest: there is nothing, an export that is not finished, or files of several forms.
    """
    if path.is_dir():
        manifest, is_open = path / MANIFEST, (path / WRITING / PLAN).exists()
    elif path.is_file():
        manifest, is_open = manifest_of(path), False
    else:
        raise InvalidRequest(f"{path} is not there")
    found = read_manifest(manifest)
    if found is not None:
        check_files(manifest, found)
        files = tuple(str((manifest.parent / part["name"]).absolute()) for part in found["files"])
        return Input(files, found["plan"]["format"], tuple(part["sha256"] for part in found["files"]))
    if is_open:
        raise InvalidRequest(f"{path} is an export that is not finished; give its command again first")
    return _foreign(path, form)


def _foreign(path: Path, form: Form | None) -> Input:
    every = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    hidden = (".", "_")
    files = [one for one in every if not any(part.startswith(hidden) for part in one.relative_to(path).parts)]
    if form is None:
        forms = {SUFFIXES.get(one.suffix.lower()) for one in files} - {None}
        if len(forms) != 1:
            what = "files of several forms" if forms else "no file that ends in .parquet, .jsonl or .csv"
            raise InvalidRequest(f"{path} holds {what}; say which form it is: --format")
        (form,) = forms
        assert form is not None
        files = [one for one in files if SUFFIXES.get(one.suffix.lower()) == form]
    elif path.is_dir():
        files = [one for one in files if SUFFIXES.get(one.suffix.lower(), form) == form]
    return Input(tuple(str(one.absolute()) for one in files), form)


def in_slices(pieces: Sequence[Reader], max_rows: int) -> list[list[Reader]]:
    """Return pieces as slices; bad rows count like good ones, so that cuts do not depend on what becomes of them."""
    found: list[list[Reader]] = []
    rows = size = 0
    for piece, columns in pieces:
        if not found or rows + piece.rows > max_rows or size + piece.size > slices.SLICE_BYTES:
            found.append([])
            rows = size = 0
        found[-1].append((piece, columns))
        rows += piece.rows
        size += piece.size
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """Writes files into a topic of running brokers."""

    path: Path
    topic: str
    brokers: str
    form: Form | None = None
    renames: tuple[tuple[str, str], ...] = ()
    extra: Extra = "error"
    on_bad: OnBad = "fail"
    quarantine: Path | None = None
    creates_topic: bool = False
    queues: int | None = None
    max_body: int = MAX_BODY
    slice_rows: int = slices.SLICE_ROWS
    run_id: str = ""
    """Empty: it follows from the files and the topic."""
    state: Path | None = None
    name: str = "import"

    def plan(self, spark: SparkSession) -> Table:
        """Look through the files and return what would be written."""
        given = input_of(self.path, self.form)
        is_there = slices.check_topic(self.brokers, self.topic, creates=self.creates_topic, dry_run=True)
        found = _surveyed(spark, given, self._wish(given.form, keeps=False))
        self._check(found)
        rows: list[tuple[Cell, ...]] = [
            ("id", self._id(found)),
            ("from", f"{self.path}: {len(given.files)} {given.form}"),
            ("to", f"{self.topic} of {self.brokers}" + ("" if is_there else ", which would be made")),
            ("rows", sum(one.rows for one in found)),
            ("bad rows", sum(one.bad for one in found)),
            ("slices", len(in_slices(_pieces(found), self.slice_rows))),
            *((part, f"{column} ({kind})") for part, column, kind in (found[0].columns.taken if found else ())),
        ]
        return Table("", ("what", "value"), rows)

    def run(self, run: Run) -> Report:
        """Write the rows that are not written yet."""
        given = input_of(self.path, self.form)
        slices.check_topic(self.brokers, self.topic, creates=self.creates_topic, dry_run=True)
        wish = self._wish(given.form, keeps=True)
        report = Report(self.name, inputs={"path": str(self.path), "format": given.form, "files": len(given.files)})
        report.outputs = [f"{self.topic} of {self.brokers}"]
        found = slices.until_stopped(run, lambda: _surveyed(run.spark, given, wish))
        if found is None:
            report.status = "stopped"
            report.notes = ["It was stopped before the first row was written; the same command begins anew."]
            return report
        self._check(found)
        slices.check_topic(self.brokers, self.topic, creates=self.creates_topic, queues=self.queues)
        run_id = self._id(found)
        parts = in_slices(_pieces(found), self.slice_rows)
        counts = [sum(piece.rows - piece.bad for piece, _ in one) for one in parts]
        state = slices.state_of(slices.id_of(run_id, {"brokers": self.brokers}), self.state)
        target = slices.Target(self.brokers, self.topic, f"import:{run_id}")
        with state.held():
            self._claim(state, run_id)
            pace = slices.Pace(None)
            sent = slices.send(run, target, state, counts, lambda number: _frame(run.spark, parts[number], wish), pace)
        report.status = "stopped" if sent.is_stopped else "done"
        report.inputs["id"] = run_id
        report.figures = {
            "rows": sum(one.rows for one in found),
            "written": sent.rows,
            "written_before": sent.before,
            "bad": sum(one.bad for one in found),
            "slices": len(parts),
        }
        report.notes = self._notes(sent, sum(counts), found)
        return report

    def _wish(self, form: Form, *, keeps: bool) -> Wish:
        folder = ""
        if self.on_bad == "quarantine":
            if self.quarantine is None:
                raise InvalidRequest("--on-bad quarantine needs --quarantine DIR: a directory for rows that are bad")
            folder = str(self.quarantine.absolute()) if keeps else ""
            if keeps:
                self.quarantine.mkdir(parents=True, exist_ok=True)
        piece_rows = min(PIECE_ROWS, self.slice_rows)
        return Wish(form, self.renames, self.extra, self.max_body, piece_rows, folder)

    def _check(self, found: Sequence[Survey]) -> None:
        """Refuse what cannot be imported whole, before the first row is sent."""
        problems = [one.problem for one in found if one.problem]
        if problems:
            more = f" (and {len(problems) - _SHOWN} other files)" if len(problems) > _SHOWN else ""
            raise SchemaMismatch("; ".join(problems[:_SHOWN]) + more)
        bad = [one for one in found if one.bad]
        if bad and self.on_bad == "fail":
            raise InvalidRequest(
                f"{sum(one.bad for one in bad)} rows cannot be messages, and nothing was written; the first: "
                f"{bad[0].first_bad}; mend them, or go on without them: --on-bad skip, or quarantine"
            )

    def _id(self, found: Sequence[Survey]) -> str:
        if self.run_id:
            return slices.checked_id(self.run_id)
        facts = {
            "cut": 1,  # another number when the same files are cut in another way
            "topic": self.topic,
            "renames": sorted(self.renames),
            "extra": self.extra,
            "slice_rows": self.slice_rows,
            "files": [one.sha256 for one in found],
        }
        return slices.id_of(f"{self.path.name}-to-{self.topic}", facts)

    def _claim(self, state: slices.State, run_id: str) -> None:
        """Refuse a state directory that is another import's."""
        kept = state.plan()
        mine: dict[str, Any] = {"job": self.name, "id": run_id, "topic": self.topic, "brokers": self.brokers}
        if kept is None:
            state.keep_plan(mine)
        elif kept != mine:
            raise InvalidRequest(f"{state.folder} is the state of another run: {kept}; give another --state or --id")

    def _notes(self, sent: slices.Sent, total: int, found: Sequence[Survey]) -> list[str]:
        notes = []
        if sent.is_stopped:
            notes.append(
                f"It was stopped with {total - sent.rows - sent.before} rows to write; the same command goes on."
            )
        elif sent.before and not sent.rows:
            notes.append("All rows were written before; nothing was written twice. Another --id writes them once more.")
        elif sent.before:
            notes.append("It went on where an earlier run had stopped.")
        notes += [f"Bad: {one.first_bad}" for one in found if one.bad][:_SHOWN]
        if self.on_bad == "quarantine" and any(one.bad for one in found):
            notes.append(f"Bad rows are in {self.quarantine}.")
        return notes


def _surveyed(spark: SparkSession, given: Input, wish: Wish) -> list[Survey]:
    """Look through all files, each in a task of its own.

    Raises:
        InvalidRequest: a file is not the one that its manifest tells of.
    """
    if not given.files:
        return []
    files = spark.sparkContext.parallelize(given.files, len(given.files))
    found: list[Survey] = files.map(partial(survey, wish=wish)).collect()
    for one, checksum in zip(found, given.checksums, strict=False):
        if not one.problem and one.sha256 != checksum:
            raise InvalidRequest(f"{one.path} is not the file of its manifest: the checksum differs; export anew")
    return found


def _pieces(found: Sequence[Survey]) -> list[Reader]:
    return [(piece, one.columns) for one in found for piece in one.pieces]


def _frame(spark: SparkSession, parts: list[Reader], wish: Wish) -> DataFrame:
    """Return the messages of a slice: a task for each piece."""
    numbers = spark.range(0, len(parts), 1, len(parts))
    return numbers.mapInArrow(partial(_read, parts=parts, wish=replace(wish, quarantine="")), MESSAGE_DDL)


def _read(batches: Iterator[pa.RecordBatch], *, parts: list[Reader], wish: Wish) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            piece, columns = parts[number]
            yield from batches_of(parts_in(piece, columns, wish))
