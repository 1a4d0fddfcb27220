"""The log of a plain Parquet table: one JSON file, replaced as a whole.

    _manifest.json   {"v": 1, "writers": {NAME: BATCH}, "files": [{"path", "size", "rows", "min_ms", "max_ms"}],
                      "removed": [{"path", "at_ms"}]}

A crash before the rename leaves the table as it was and a ``_manifest.json.tmp`` that the next commit writes anew.
``removed`` are files that a merge replaced: somebody may still read them, ``vacuum`` deletes them.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from litemq.spark.lake.table import BadLake, Change, DataFile, LakeDamaged, locked

VERSION: Final = 1


@dataclass(slots=True)
class _State:
    writers: dict[str, int] = field(default_factory=dict)
    files: dict[str, DataFile] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    """Path → when, in ms."""


class ParquetLog:
    """A table of Parquet files and nothing else."""

    kind = "parquet"

    def __init__(self, root: Path) -> None:
        self.root = root
        self._path = root / "_manifest.json"

    def create(self, schema_json: str, partition_by: tuple[str, ...]) -> None:
        """Make an empty table; the files themselves say their schema."""
        with locked(self.root, "log", wait=True):
            if not self._path.exists():
                self._write(_State())

    def files(self) -> list[DataFile]:
        """Return the files of the table."""
        return list(self._read().files.values())

    def last_batch(self, writer: str) -> int | None:
        """Return the last batch that a writer committed."""
        return self._read().writers.get(writer)

    def commit(self, change: Change) -> None:
        """Add and take away files.

        Raises:
            BadLake: a file that it takes away is not there any more, or its key is committed.
        """
        with locked(self.root, "log", wait=True):
            state = self._read()
            last = state.writers.get(change.writer)
            if last is not None and change.batch <= last:
                raise BadLake(f"{self.root}: batch {change.batch} of {change.writer} is committed already")
            now = time.time_ns() // 1_000_000
            for path in change.remove:
                if state.files.pop(path, None) is None:
                    raise BadLake(f"{self.root}: {path} is not part of the table any more; run the job again")
                state.removed[path] = now
            state.files |= {file.path: file for file in change.add}
            state.writers[change.writer] = change.batch
            self._write(state)

    def vacuum(self, older_than_s: float) -> int:
        """Delete files that were taken away so long ago."""
        with locked(self.root, "log", wait=True):
            state = self._read()
            before = time.time_ns() // 1_000_000 - older_than_s * 1000
            old = [path for path, at_ms in state.removed.items() if at_ms <= before]
            for path in old:
                (self.root / path).unlink(missing_ok=True)
                del state.removed[path]
            if old:
                self._write(state)
        return len(old)

    def _read(self) -> _State:
        try:
            found: dict[str, Any] = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return _State()
        except ValueError as error:
            raise LakeDamaged(f"{self._path} is no JSON: {error}; put back a copy of it") from error
        if found.get("v") != VERSION:
            raise LakeDamaged(
                f"{self._path} has version {found.get('v')!r}, this LiteMQ reads {VERSION}; use a later one"
            )
        files = [DataFile(**one) for one in found["files"]]
        removed = {one["path"]: one["at_ms"] for one in found["removed"]}
        return _State(found["writers"], {file.path: file for file in files}, removed)

    def _write(self, state: _State) -> None:
        found = {
            "v": VERSION,
            "writers": state.writers,
            "files": [asdict(file) for file in state.files.values()],
            "removed": [{"path": path, "at_ms": at_ms} for path, at_ms in state.removed.items()],
        }
        replace_durably(self._path, json.dumps(found, ensure_ascii=False).encode())


def replace_durably(path: Path, data: bytes) -> None:
    """Replace a file in one step; after a power cut there is the old or the new one."""
    beside = path.with_name(path.name + ".tmp")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Have a file or a directory survive a power cut."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
