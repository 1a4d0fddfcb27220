"""How rows become part of a table: written aside by Spark, moved to their place, committed.

    1  Spark writes ``_stage/WORK/TOKEN/topic=…/dt=…/hour=…/part-….parquet``
    2  ``_stage/WORK/moves.json`` names the places to which the files go
    3  the files go there, each by a rename
    4  the log commits them under (writer, batch)
    5  ``_stage/WORK`` goes

A crash before 4 leaves files that no commit names; whoever does the same work next deletes them: all of
``_stage/WORK``, and what ``moves.json`` names unless its batch is committed.  A lock keeps a second process from the
same work.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from litemq.spark.lake.parquet_log import replace_durably, sync
from litemq.spark.lake.table import Change, DataFile, Log, locked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STAGE: Final = "_stage"
_MOVES: Final = "moves.json"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the rows of a table lie."""

    partition_by: tuple[str, ...]
    """Columns that are folders."""
    sort_by: tuple[str, ...]
    """Order within a file: what lies together is found by few reads."""


@dataclass(frozen=True, slots=True)
class Key:
    """What a commit is known by."""

    writer: str
    batch: int

    @property
    def name(self) -> str:
        """Return how the names of its files begin."""
        return f"{self.writer[:8]}-{self.batch:08d}-"


class Writer:
    """Adds to a table; there is one at a time for each kind of work."""

    def __init__(self, log: Log, layout: Layout, work: str) -> None:
        self.log = log
        self._layout = layout
        self._aside = log.root / STAGE / work

    def has(self, key: Key) -> bool:
        """Return whether a key is committed."""
        last = self.log.last_batch(key.writer)
        return last is not None and key.batch <= last

    def put(
        self,
        frame: DataFrame,
        key: Key,
        *,
        remove: Sequence[str] = (),
        is_rewrite: bool = False,
        max_rows_per_file: int = 0,
        look: Callable[[Path], None] = lambda staged: None,
    ) -> list[DataFile]:
        """Commit the rows of a DataFrame, in place of those in the files ``remove``; return the new files.

        ``look`` sees the files before anybody else does.
        """
        staged = self._write_aside(frame, max_rows_per_file)
        look(staged)
        self.log.create(frame.schema.json(), self._layout.partition_by)
        files = self._move(staged, key)
        self.log.commit(Change(key.writer, key.batch, tuple(files), tuple(remove), is_rewrite))
        shutil.rmtree(self._aside)
        return files

    def _write_aside(self, frame: DataFrame, max_rows_per_file: int) -> Path:
        staged = self._aside / uuid.uuid4().hex  # an executor of a driver that was killed may still write to the last
        frame.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        sorted_frame = frame.sortWithinPartitions(*self._layout.partition_by, *self._layout.sort_by)
        writer = sorted_frame.write.option("compression", "zstd").option("maxRecordsPerFile", max_rows_per_file)
        writer.partitionBy(*self._layout.partition_by).parquet(spark_path(staged))
        return staged

    def _move(self, staged: Path, key: Key) -> list[DataFile]:
        """Give the files their places; they count only when the log says so."""
        sources = [path for path in sorted(staged.rglob("*.parquet")) if not path.name.startswith((".", "_"))]
        files, moves = [], []
        for number, source in enumerate(sources):
            folder = source.parent.relative_to(staged).as_posix()
            found = _described(source, f"{folder}/{key.name}{number:04d}.zstd.parquet")
            if found.rows:
                files.append(found)
                moves.append((source, self.log.root / found.path))
        targets = {"writer": key.writer, "batch": key.batch, "targets": [file.path for file in files]}
        replace_durably(self._aside / _MOVES, json.dumps(targets).encode())
        for source, target in moves:
            sync(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)
        for place in {parent for file in files for parent in Path(file.path).parents}:
            sync(self.log.root / place)
        return files

    def clean(self) -> None:
        """Delete what an earlier go left when it was killed."""
        moves = self._aside / _MOVES
        if moves.exists():
            found: dict[str, Any] = json.loads(moves.read_bytes())
            if not self.has(Key(found["writer"], found["batch"])):
                for target in found["targets"]:
                    (self.log.root / target).unlink(missing_ok=True)
        shutil.rmtree(self._aside, ignore_errors=True)


@contextmanager
def writing(log: Log, layout: Layout, work: str) -> Iterator[Writer]:
    """Be the one who does a kind of work on a table; leftovers of a go that was killed are gone then.

    Raises:
        LakeBusy: another process does it.
    """
    with locked(log.root, work):
        writer = Writer(log, layout, work)
        writer.clean()
        yield writer


def spark_path(path: Path) -> str:
    """Return a path of this machine as Spark takes it, whatever its default file system is."""
    return f"file://{path.absolute()}"


def _described(source: Path, path: str) -> DataFile:
    """Return what the footer of a file says."""
    import pyarrow.parquet as pq

    found = pq.read_metadata(source)
    low, high = _times(found)
    return DataFile(path, source.stat().st_size, found.num_rows, low, high)


def _times(found: Any) -> tuple[int | None, int | None]:  # noqa: ANN401 - Arrow ships no types
    """Return the earliest and the latest ``store_timestamp`` in ms."""
    names = found.schema.names
    if "store_timestamp" not in names:
        return None, None
    column = names.index("store_timestamp")
    parts = [found.row_group(number).column(column).statistics for number in range(found.num_row_groups)]
    if not parts or any(part is None or not part.has_min_max for part in parts):
        return None, None
    low = min(part.min for part in parts).timestamp()
    high = max(part.max for part in parts).timestamp()
    return int(low * 1000 // 1), -int(-high * 1000 // 1)
