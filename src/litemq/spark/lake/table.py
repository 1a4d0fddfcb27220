"""A table of the lake: Parquet files below a directory, and a log that says which of them count.

    messages/topic=orders/dt=2026-05-01/hour=07/1c9a04e2-00000003-0000.zstd.parquet

What no commit names is not part of the table, whoever wrote it.  Names that begin with ``_`` are ours, and readers of
Parquet directories pass over them: ``_stage``, ``_lock-…``, and the log itself.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Protocol
from urllib.parse import unquote

from litemq.errors import InvalidRequest, StorageError, Unavailable

KINDS: Final = ("parquet", "delta")


class BadLake(InvalidRequest):
    """A directory that cannot be the lake that is asked for."""


class LakeBusy(Unavailable):
    """Another process does this very work on the table."""


class LakeDamaged(StorageError):
    """The log of a table cannot be read."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file of a table."""

    path: str
    """Below the table's directory."""
    size: int
    rows: int
    min_ms: int | None = None
    """Earliest ``store_timestamp``; None in tables without one."""
    max_ms: int | None = None

    @property
    def partition(self) -> dict[str, str]:
        """Return the values that its path states, by column."""
        pairs = (part.partition("=") for part in PurePosixPath(self.path).parts[:-1])
        return {name: unquote(value) for name, _, value in pairs}


@dataclass(frozen=True, slots=True)
class Change:
    """What one commit adds and takes away, under a key: a key that is committed is never committed again."""

    writer: str
    batch: int
    """Larger than all before it of this writer."""
    add: tuple[DataFile, ...] = ()
    remove: tuple[str, ...] = ()
    is_rewrite: bool = False
    """Whether the rows are those of before, in other files."""


class Log(Protocol):
    """Says which files are a table."""

    root: Path
    kind: str

    def create(self, schema_json: str, partition_by: tuple[str, ...]) -> None:
        """Make an empty table; nothing where it is there."""

    def files(self) -> list[DataFile]:
        """Return the files of the table as of now."""

    def last_batch(self, writer: str) -> int | None:
        """Return the last batch that a writer committed; None before its first."""

    def commit(self, change: Change) -> None:
        """Make a change, all of it or nothing; durable when this returns.

        Raises:
            BadLake: a file that it takes away is not there any more, or its key is committed.
        """

    def vacuum(self, older_than_s: float) -> int:
        """Delete files that were taken away so long ago; return how many."""


def log_of(root: Path, kind: str = "") -> Log:
    """Return the log of the table in a directory: of the kind that is there, or else of ``kind``.

    Raises:
        BadLake: the table is of another kind, or Delta is asked for and not installed.
    """
    there = kind_of(root)
    if there and kind and there != kind:
        raise BadLake(
            f"{root} is a table of the kind {there}, not {kind}; leave --format out, or give another directory"
        )
    wanted = there or kind or new_kind()
    if wanted == "delta":
        from litemq.spark.lake.delta_log import DeltaLog

        return DeltaLog(root)
    from litemq.spark.lake.parquet_log import ParquetLog

    return ParquetLog(root)


def kind_of(root: Path) -> str:
    """Return the kind of the table in a directory; empty where there is none."""
    if any(sign in str(root) for sign in "*?[]{}"):
        raise BadLake(f"{root}: Spark takes the signs *?[]{{}} of a path for a pattern; choose another directory")
    if (root / "_delta_log").is_dir():
        return "delta"
    return "parquet" if (root / "_manifest.json").is_file() else ""


def new_kind() -> str:
    """Return the kind of a new table: Delta where it is installed."""
    from importlib.util import find_spec

    return "delta" if find_spec("deltalake") is not None else "parquet"


@contextmanager
def locked(root: Path, work: str, *, wait: bool = False) -> Iterator[None]:
    """Be the only one that does this work on a table; the lock of a process that is killed goes with it.

    Raises:
        LakeBusy: somebody else does it.
    """
    root.mkdir(parents=True, exist_ok=True)
    with (root / f"_lock-{work}").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LakeBusy(f"another process runs {work} on {root}; wait for it, or stop it") from error
        yield
