"""The checkpoint of a Structured Streaming query: files that say where its sources go on.

    metadata     {"id": "<query id>"}
    offsets/N    a line "v1", a line of JSON about the batch, then a line for each source: where batch N ends
    commits/N    batch N is done
    .NAME.crc    Hadoop's checksum of a file beside it; where there is none nothing is compared

The next batch starts where the last one ends, so a position is moved by writing the end of the last batch anew.  Spark
must not be running the query meanwhile: nothing in a checkpoint says whether it does.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from litemq.spark.errors import BadOption
from litemq.spark.offsets import VERSION

_FORMAT: Final = "v1"
_BACKUP: Final = "litemq-backup-"
_FIRST_COMMIT: Final = 'v1\n{"nextBatchWatermarkMs":0}'

Offset = dict[str, Any]
"""What a source of LiteMQ keeps: ``offsets`` says how it is built."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that was begun: the lines of its file."""

    number: int
    lines: tuple[str, ...]

    @property
    def sources(self) -> dict[int, Offset]:
        """Where LiteMQ's sources end, by their number among all sources of the query."""
        found = {}
        for number, line in enumerate(self.lines[2:]):
            offset = _offset_in(line)
            if offset is not None:
                found[number] = offset
        return found


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint says now."""

    folder: Path
    query_id: str
    last: Batch
    before: Batch | None
    """The batch before the last, where the last one starts; None when there is none."""
    is_done: bool
    """Whether the last batch is; else Spark does it again, from its start to its end."""
    has_state: bool
    """Whether the query remembers something from batch to batch: aggregates, joins, what was seen."""

    @property
    def next_batch(self) -> int:
        """The batch with which the query goes on."""
        return self.last.number + 1 if self.is_done else self.last.number

    def starts(self) -> dict[int, Offset]:
        """Return where LiteMQ's sources start in the next batch; what Spark has yet to ask them is left out."""
        batch = self.last if self.is_done else self.before
        return {} if batch is None else batch.sources

    @property
    def backups(self) -> list[Path]:
        """What ``move`` put aside, the oldest first."""
        return sorted(self.folder.glob(f"{_BACKUP}*"))


def read(folder: Path) -> Checkpoint:
    """Return what a checkpoint says.

    Raises:
        BadOption: the folder is no checkpoint, none that this can read, or no batch was begun yet.
    """
    try:
        query_id = str(json.loads((folder / "metadata").read_text())["id"])
        numbers = _numbers(folder / "offsets")
        done = _numbers(folder / "commits")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadOption(
            f"{folder} is no checkpoint of a Spark query on this machine ({type(error).__name__}: {error}); give the "
            "checkpointLocation of the query, a local directory"
        ) from error
    if not numbers:
        raise BadOption(f"the query of {folder} has not begun a batch yet: startingOffsets says where it starts")
    last = _batch(folder, numbers[-1])
    before = _batch(folder, numbers[-2]) if len(numbers) > 1 and numbers[-2] == last.number - 1 else None
    if not last.sources:
        raise BadOption(f"the query of {folder} reads nothing from LiteMQ; see {folder}/offsets/{last.number}")
    state = folder / "state"
    has_state = state.is_dir() and any(state.iterdir())
    return Checkpoint(folder, query_id, last, before, last.number in done, has_state)


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isascii() and path.name.isdigit())


def _batch(folder: Path, number: int) -> Batch:
    path = folder / "offsets" / str(number)
    lines = tuple(path.read_text().split("\n"))
    if lines[0] != _FORMAT or len(lines) < 3:
        raise BadOption(f"{path} is of format {lines[0]!r}; this LiteMQ reads {_FORMAT}, as Spark 4.2 and 4.3 write it")
    return Batch(number, lines)


def _offset_in(line: str) -> Offset | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    is_ours = (
        isinstance(found, dict) and found.get("v") == VERSION and isinstance(found.get("t"), dict) and "s" in found
    )
    return found if is_ours else None


def move(checkpoint: Checkpoint, moved: Mapping[int, Offset]) -> Path:
    """Let the next batch start elsewhere; return where that which was there is kept.

    A batch that was begun and is not done is given up: it counts as done, so that the next one has a number of its own
    and no sink takes it for the one that it has seen.
    """
    number = checkpoint.last.number
    lines = list(checkpoint.last.lines)
    for source, offset in moved.items():
        lines[source + 2] = json.dumps(offset)  # as Spark's worker writes it: offsets are compared as text
    backup = _back_up(checkpoint)
    if not checkpoint.is_done:
        # A crash behind this: the batch counts as done, and the next start leaves it out.  So the same move again.
        _replace(checkpoint.folder / "commits" / str(number), _commit_text(checkpoint))
    _replace(checkpoint.folder / "offsets" / str(number), "\n".join(lines))
    return backup


def _back_up(checkpoint: Checkpoint) -> Path:
    now = time.time_ns()
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now // 10**9)) + f".{now % 10**9 // 1000:06d}Z"
    backup = checkpoint.folder / f"{_BACKUP}{stamp}"
    for path in _files_of(checkpoint):
        target = backup / path.relative_to(checkpoint.folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    return backup


def _files_of(checkpoint: Checkpoint) -> Iterator[Path]:
    """Yield the files that a move may change."""
    for name in ("offsets", "commits"):
        path = checkpoint.folder / name / str(checkpoint.last.number)
        if path.exists():
            yield path


def _commit_text(checkpoint: Checkpoint) -> str:
    done = _numbers(checkpoint.folder / "commits")
    return (checkpoint.folder / "commits" / str(done[-1])).read_text() if done else _FIRST_COMMIT


def _replace(path: Path, text: str) -> None:
    """Replace a file, all of it or nothing; its checksum goes first, as it fits no longer."""
    path.parent.mkdir(exist_ok=True)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    beside = path.with_name(f".{path.name}.litemq")
    with beside.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def check_free(to: Path) -> None:
    """Refuse to write over something.

    Raises:
        BadOption: there is something at ``to``.
    """
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise BadOption(f"{to} is there already; give a directory that is not")


def fork(checkpoint: Checkpoint, to: Path) -> str:
    """Copy a checkpoint under a new query id, which is returned; the copy appears when it is whole.

    Raises:
        BadOption: there is something at ``to`` already.
    """
    check_free(to)
    to.parent.mkdir(parents=True, exist_ok=True)
    beside = to.with_name(f".{to.name}.{uuid.uuid4().hex}")
    query_id = str(uuid.uuid4())
    try:
        shutil.copytree(checkpoint.folder, beside, ignore=shutil.ignore_patterns(f"{_BACKUP}*"))
        _replace(beside / "metadata", json.dumps({"id": query_id}, separators=(",", ":")))
        if to.exists():
            to.rmdir()
        beside.rename(to)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return query_id
