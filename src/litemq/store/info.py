"""Say what a log or store holds, from one walk over it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from litemq.format import rows
from litemq.format.queue_entry import BATCH_ENTRY_SIZE, LAYOUTS, decode_batch
from litemq.format.record import TMQ
from litemq.store._find_cy import add_queue, key_of, note_offsets
from litemq.store.changes import Deletions
from litemq.store.deletions import has_changes, take_changes
from litemq.store.fs import File, FileSystem
from litemq.store.log_files import PathKind
from litemq.store.log_walk import Log, open_log, read_checkpoint
from litemq.store.queue_types import queue_folders
from litemq.store.segment_walk import Batch
from litemq.types import TopicQueue

_CHUNK: Final = 1 << 20
_NONE_YET: Final = (1 << 63) - 1
_BLOCK: Final = 512
"""Unit of a file's block count, whatever the file system's own block is."""

JsonValue = str | int | bool | None | list[dict[str, str | int]] | dict[str, int]


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """The offsets that a queue has: from ``min_offset`` to below ``max_offset``."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What ``litemq store info`` prints."""

    path: str
    kind: PathKind
    format: str | None
    segments: int
    first_position: int
    end_position: int
    first_time: int | None
    last_time: int | None
    topics: tuple[QueueBounds, ...]
    clean: bool
    checkpoint: dict[str, int] | None
    disk_bytes: int

    def to_json(self) -> dict[str, JsonValue]:
        """Return the object that the CLI prints."""
        return {
            "path": self.path,
            "kind": self.kind,
            "format": self.format,
            "segments": self.segments,
            "first_position": self.first_position,
            "end_position": self.end_position,
            "first_time": self.first_time,
            "last_time": self.last_time,
            "topics": [
                {
                    "topic": queue.topic,
                    "queue_id": queue.queue_id,
                    "min_offset": queue.min_offset,
                    "max_offset": queue.max_offset,
                }
                for queue in self.topics
            ],
            "clean": self.clean,
            "checkpoint": self.checkpoint,
            "disk_bytes": self.disk_bytes,
        }


def info(
    path: Path | str,
    format: str | None = None,  # noqa: A002 - the CLI's word
    fs: FileSystem | None = None,
    *,
    on_batch: Callable[[Log, Batch], None] | None = None,
) -> StoreInfo:
    """Look at the log at ``path``.

    Raises:
        BadStore: there is no log.
    """
    log = open_log(path, format, fs)
    queues = _Queues()
    times = _Times(is_ordered=log.format is not TMQ)
    deletions = Deletions()
    for batch in log.batches():
        queues.add(batch)
        times.add(batch)
        if has_changes(log.format):
            take_changes(log.format, batch, deletions)
        if on_batch is not None:
            on_batch(log, batch)
    store = log.store
    found = read_checkpoint(store, log.fs)
    return StoreInfo(
        path=str(log.path),
        kind=log.files.kind,
        format=None if log.format is None else log.format.name,
        segments=log.segment_count,
        first_position=log.first_position,
        end_position=max((log.end_of(stream) for stream in range(len(log.reached))), default=0),
        first_time=times.first,
        last_time=times.last,
        topics=_bounds(log, queues, deletions),
        clean=store is None or not log.fs.exists(store / "abort"),
        checkpoint=None
        if found is None
        else {"log": found.log_time, "queues": found.queue_time, "index": found.index_time},
        disk_bytes=disk_bytes(log.path.resolve()),
    )


class _Times:
    """Time of the first and the last record; without an order, the earliest and the latest."""

    def __init__(self, *, is_ordered: bool) -> None:
        self.first: int | None = None
        self.last: int | None = None
        self._is_ordered = is_ordered

    def add(self, batch: Batch) -> None:
        ends = (batch.first, batch.count - 1) if self._is_ordered else range(batch.first, batch.count)
        for row in ends:
            time = batch.table[row * rows.WIDTH + rows.STORE_TIME]
            if self.first is None or (not self._is_ordered and time < self.first):
                self.first = time
            if self.last is None or self._is_ordered or time > self.last:
                self.last = time


class _Queues:
    """Lowest and next offset of each queue in the log."""

    def __init__(self) -> None:
        self.names: list[TopicQueue] = []
        self.bounds = array("q")
        self._slots = array("q", bytes(16 * 1024))

    def add(self, batch: Batch) -> None:
        row = batch.first
        while True:
            row = note_offsets(batch.view, batch.table, row, batch.count, self._slots, self.bounds)
            if row == batch.count:
                return
            self._meet(batch, row * rows.WIDTH)

    def _meet(self, batch: Batch, at: int) -> None:
        table = batch.table
        start = table[at + rows.TOPIC_AT]
        topic = str(batch.view[start : start + table[at + rows.TOPIC_SIZE]], "utf-8")
        self.names.append(TopicQueue(topic, table[at + rows.QUEUE_ID]))
        self.bounds.extend((_NONE_YET, 0))
        if 4 * len(self.names) > len(self._slots):
            self._slots = array("q", bytes(8 * 4 * len(self._slots)))
            for number, queue in enumerate(self.names):
                add_queue(self._slots, key_of(queue.topic.encode(), queue.queue_id), number)
        else:
            add_queue(self._slots, key_of(topic.encode(), table[at + rows.QUEUE_ID]), len(self.names) - 1)


def _bounds(log: Log, queues: _Queues, deletions: Deletions) -> tuple[QueueBounds, ...]:
    found = {queue: (queues.bounds[2 * i], queues.bounds[2 * i + 1]) for i, queue in enumerate(queues.names)}
    for queue, end in _queues_without_records(log, set(found)):
        found[queue] = (end, end)
    answer = []
    for queue in sorted(found):
        low, end = found[queue]
        dead = deletions.next_offsets.get(queue.topic, {}).get(queue.queue_id, 0)
        if dead and end <= dead:
            continue  # deleted with its topic, and nothing came since
        low = min(max(low, dead, deletions.min_offsets.get(queue.topic, {}).get(queue.queue_id, 0)), end)
        answer.append(QueueBounds(queue.topic, queue.queue_id, low, end))
    return tuple(answer)


def _queues_without_records(log: Log, known: set[TopicQueue]) -> Iterator[tuple[TopicQueue, int]]:
    """Yield the other queues that have files, with the offset behind their last entry: retention took their records."""
    if log.store is None or log.files.is_tree:
        for stream in log.files.streams if log.files.is_tree else ():
            queue = TopicQueue(stream.topic, stream.queue_id)
            if queue not in known:
                yield queue, 0
        return
    layout = LAYOUTS.get(log.format.name) if log.format is not None else None
    for folder, size in (("consumequeue", layout.size if layout else 0), ("batchconsumequeue", BATCH_ENTRY_SIZE)):
        for topic, queue_id, path in queue_folders(log.store / folder, log.fs):
            queue = TopicQueue(topic, queue_id)
            if queue not in known:
                yield queue, next_offset(log.fs, path, size)


def next_offset(fs: FileSystem, folder: Path, size: int) -> int:
    """Return the offset behind the last entry in a queue's files."""
    for name in reversed([name for name in fs.names(folder) if name.isascii() and name.isdigit()]):
        file = fs.open(folder / name)
        try:
            end = _end_of_data(file) if size else 0
            if not end:
                continue
            count = -(-end // size)
            if size == BATCH_ENTRY_SIZE:
                last = decode_batch(file.read_at(size, (count - 1) * size).ljust(size, b"\0"))
                return last.base_offset + last.messages
            return int(name) // size + count
        finally:
            file.close()
    return 0


def _end_of_data(file: File) -> int:
    """Return the place behind the last byte that is not zero."""
    for start, stop in reversed(file.data_ranges(0)):
        end = stop
        while end > start:
            at = max(start, end - _CHUNK)
            data = file.read_at(end - at, at).rstrip(b"\0")
            if data:
                return at + len(data)
            end = at
    return 0


def disk_bytes(path: Path) -> int:
    """Return the bytes that the files at ``path`` take on the disk; holes take none.

    ``fs`` knows no such question, and nothing but this number hangs on the answer.
    """
    if path.is_dir() and not path.is_symlink():
        return sum(disk_bytes(inner) for inner in path.iterdir())
    return path.lstat().st_blocks * _BLOCK if not path.is_symlink() else 0
