"""Reading ranges: record batches out of a backend, and what becomes of damage.  Imports nothing of Spark."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from litemq.spark.backend import Damaged, Rows, Unfolded
from litemq.spark.codec import Decoder, Filter
from litemq.spark.errors import BadOption, CorruptInput, readable
from litemq.spark.files import FileBackend
from litemq.spark.inner_batches import unfolded
from litemq.spark.options import ReadOptions
from litemq.spark.quarantine import put_aside
from litemq.spark.ranges import Range
from litemq.spark.schema import Column

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Task:
    """What one partition reads."""

    parts: tuple[Range, ...]
    only: Filter


def read_ranges(
    backend: FileBackend, options: ReadOptions, columns: Sequence[Column], task: Task
) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of some ranges; damage is dealt with as ``onCorrupt`` says.

    Raises:
        CorruptInput: there is damage, and ``onCorrupt`` is ``fail``.
    """
    decoder = Decoder(backend.format, columns, options, None)

    def runs() -> Iterator[Rows | Unfolded | Damaged]:
        for part in task.parts:
            for found in backend.open(part):
                for run in unfolded(backend.format, found) if isinstance(found, Rows) else (found,):
                    if not isinstance(run, Damaged) or deals_with(backend, options, run):
                        yield run

    with readable(options.path):
        yield from decoder.batches(runs(), task.only)
    if options.counters_path:
        leave_counters(backend, options.counters_path)


def deals_with(backend: FileBackend, options: ReadOptions, damage: Damaged) -> bool:
    """Return whether damage becomes a row.

    Raises:
        CorruptInput: ``onCorrupt`` is ``fail``.
    """
    match options.on_corrupt:
        case "keep":
            return True
        case "skip":
            return False
        case "quarantine":
            try:
                put_aside(backend.log, damage, Path(options.quarantine_path))
            except OSError as error:
                raise BadOption(
                    f"quarantinePath {options.quarantine_path} cannot be written: {error.strerror or error}; "
                    "choose a folder that every machine of Spark can write"
                ) from error
            return False
    raise CorruptInput(
        f"damaged record at position {damage.position} of {backend.path} ({damage.segment}): {damage.reason}; "
        "set onCorrupt to skip, keep or quarantine to read what is sound, or mend the store: litemq store repair"
    )


def leave_counters(backend: FileBackend, folder: str) -> None:
    """Leave what was read by this plan or task in a file of its own, for benchmarks and tests."""
    counted = backend.counters
    Path(folder).mkdir(parents=True, exist_ok=True)
    Path(folder, f"{uuid.uuid4().hex}.json").write_text(
        json.dumps({"record_bytes": counted.record_bytes, "index_bytes": counted.index_bytes, "reads": counted.reads})
    )
