"""Check a log and what is derived from it: nothing is changed, everything is counted.

The log is walked once; once more when deletions in it tell that records were taken away, and partly again where
queues or index disagree with it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from litemq.format.record import TMQ
from litemq.store._queue_check_cy import tally
from litemq.store.changes import Deletions
from litemq.store.deletions import as_table, has_changes, is_empty, take_changes
from litemq.store.fs import FileSystem
from litemq.store.log_walk import Damages, Log, open_log
from litemq.store.segment_walk import Batch
from litemq.store.verify_index import IndexCheck, IndexReport
from litemq.store.verify_index_files import has_index
from litemq.store.verify_queues import NO_DEAD, QueueCheck, QueueReport

JsonValue = str | int | bool | None | list[dict[str, str | int]] | dict[str, int]


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What ``litemq store verify`` prints."""

    path: str
    format: str | None
    segments: int
    records: int
    bytes: int
    unchecked: int
    damage: Damages
    consume_queue: QueueReport | None
    index: IndexReport | None

    @property
    def is_ok(self) -> bool:
        return (
            not self.damage.torn
            and not self.damage.corrupt
            and (self.consume_queue is None or self.consume_queue.is_ok)
            and (self.index is None or self.index.is_ok)
        )

    def to_json(self) -> dict[str, JsonValue]:
        """Return the object that the CLI prints."""
        return {
            "path": self.path,
            "format": self.format,
            "segments": self.segments,
            "records": self.records,
            "bytes": self.bytes,
            "unchecked": self.unchecked,
            "torn": self.damage.torn,
            "corrupt": self.damage.corrupt,
            "damage": [
                {"kind": found.kind, "segment": found.segment, "position": found.position, "reason": found.reason}
                for found in self.damage.listed
            ],
            "skipped_bytes": self.damage.skipped_bytes,
            "consume_queue": None if self.consume_queue is None else asdict(self.consume_queue),
            "index": None if self.index is None else asdict(self.index),
            "ok": self.is_ok,
        }


def verify(
    path: Path | str,
    format: str | None = None,  # noqa: A002 - the CLI's word
    fs: FileSystem | None = None,
    *,
    on_batch: Callable[[Log, Batch], None] | None = None,
) -> VerifyReport:
    """Check the log at ``path``; of a store directory its queues and index too.

    Raises:
        BadStore: there is nothing that could be checked.
    """
    log = open_log(path, format, fs)
    return verify_log(log, on_batch=on_batch)


def verify_log(log: Log, *, on_batch: Callable[[Log, Batch], None] | None = None) -> VerifyReport:
    """Check an open log."""
    deletions = Deletions()
    passed = _Pass(log, NO_DEAD)
    passed.walk(deletions, on_batch)
    if not is_empty(deletions) and log.store is not None:
        passed = _Pass(log, as_table(deletions))
        passed.walk(None, on_batch)
    damage = log.damage  # further walks bring their own
    queues, index = passed.finish()
    return VerifyReport(
        path=str(log.path),
        format=None if log.format is None else log.format.name,
        segments=log.segment_count,
        records=passed.records,
        bytes=passed.bytes,
        unchecked=passed.records - passed.checked,
        damage=damage,
        consume_queue=queues,
        index=index,
    )


class _Pass:
    """One walk over the whole log."""

    def __init__(self, log: Log, dead: array[int]) -> None:
        self.records = 0
        self.bytes = 0
        self.checked = 0
        self._log = log
        is_store = log.store is not None
        self._queues = QueueCheck(log, dead) if is_store else None
        has = is_store and log.format is not TMQ and has_index(log.fs, log.store)
        self._index = IndexCheck(log, dead) if has else None

    def walk(self, deletions: Deletions | None, on_batch: Callable[[Log, Batch], None] | None) -> None:
        log = self._log
        if not has_changes(log.format):
            deletions = None
        for batch in log.batches():
            size, checked = tally(batch.table, batch.first, batch.count)
            self.records += batch.count - batch.first
            self.bytes += size
            self.checked += checked
            if self._queues is not None:
                self._queues.add(batch)
            if self._index is not None:
                self._index.add(batch)
            if deletions is not None:
                take_changes(log.format, batch, deletions)
            if on_batch is not None:
                on_batch(log, batch)

    def finish(self) -> tuple[QueueReport | None, IndexReport | None]:
        log = self._log
        # Both ask the log where it began and ended; a further walk by the first must not change that for the second.
        reached, firsts = log.reached, list(log.first_positions)
        queues = None if self._queues is None else self._queues.finish()
        log.reached, log.first_positions = reached, firsts
        index = None if self._index is None else self._index.finish()
        return queues, index
