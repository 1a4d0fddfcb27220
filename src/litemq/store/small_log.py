"""What the small writable logs of the older formats share: append, get by number, roll, reopen.

``blueprint_log`` and ``tmq_log`` are the logs; convert and export write them.  Appends wait in memory until there are
enough of them, or until ``get``, ``flush`` or ``close``.  Queue files are written behind the log and made anew when a
log is reopened, so a crash leaves at worst a torn last record, and opening refuses that: ``litemq store repair`` is
the one that cuts.  One thread at a time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from litemq.errors import BadStore, CorruptRecord, InvalidRequest, TopicUnusable, TornRecord
from litemq.format import _scan_cy, limits, rows
from litemq.format.record import Format, decode
from litemq.store.fs import FileSystem
from litemq.store.log_walk import Log
from litemq.types import Message, Record, TopicQueue

DEFAULT_SEGMENT_SIZE: Final = 1 << 30
DEFAULT_QUEUE_ENTRIES: Final = 300_000
MOST_WAITING: Final = 4 << 20
"""Bytes that wait in memory before they are written."""

ENTRY_COST: Final = 100
"""Bytes that a waiting queue entry counts for."""


def file_name(start: int) -> str:
    """Return the name of the segment or queue file whose first byte is at ``start``."""
    return f"{start:020d}"


@dataclass(slots=True)
class Tail:
    """The end of one log: the starts of its segments, the last one's fill, and bytes that are not written yet."""

    folder: Path
    starts: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    size: int = 0
    """Bytes of the last segment that are used, waiting ones included."""
    capacity: int = 0
    """Size of the last segment's file."""
    waiting: bytearray = field(default_factory=bytearray)

    @property
    def end(self) -> int:
        """Position behind the last record."""
        return self.starts[-1] + self.size if self.starts else 0

    def segment_of(self, position: int) -> int:
        """Return the number of the segment, from 0, that holds ``position``."""
        return bisect_right(self.starts, position) - 1

    def has_room_for(self, size: int) -> bool:
        return self.size + size <= self.capacity

    def add(self, record: bytes) -> None:
        self.waiting += record
        self.size += len(record)

    def roll(self, start: int, capacity: int) -> None:
        """Begin the segment at ``start``; what waited must be written."""
        self.starts.append(start)
        self.names.append(file_name(start))
        self.size = 0
        self.capacity = capacity

    def resume(self, log: Log) -> None:
        """Stand where a walk over the log ended."""
        if log.files.streams[0].is_ordinal:
            raise BadStore(f"{self.folder}: names of its segments count files; convert the log to write to it")
        reached = log.reached[0]
        self.starts = [segment.start for segment in reached]
        self.names = [segment.segment.path.name for segment in reached]
        if reached:
            self.size = reached[-1].end - reached[-1].start
            file = log.fs.open(reached[-1].segment.path)
            self.capacity = file.size()
            file.close()


class Files:
    """Reads and writes with one file open at a time, so that many queues cost no descriptors."""

    def __init__(self, fs: FileSystem, root: Path) -> None:
        self.fs = fs
        self.root = root

    def write(self, path: Path, data: bytes | bytearray, at: int, size: int = 0) -> None:
        """Write into a file, which is made with ``size`` zero bytes when there is none."""
        if self.fs.exists(path):
            file = self.fs.open(path, write=True)
        else:
            self.fs.make_dirs(path.parent)
            file = self.fs.create(path, size)
        try:
            file.write_at(data, at)
        finally:
            file.close()

    def write_tail(self, tail: Tail) -> None:
        """Write what waits for the last segment."""
        if tail.waiting:
            place = tail.size - len(tail.waiting)
            self.write(tail.folder / tail.names[-1], tail.waiting, place, tail.capacity)
            tail.waiting.clear()

    def read(self, path: Path, size: int, at: int) -> bytes:
        """Return up to ``size`` bytes; none when there is no such file."""
        if not self.fs.exists(path):
            return b""
        file = self.fs.open(path)
        try:
            return file.read_at(size, at)
        finally:
            file.close()

    def record(self, fmt: Format, tail: Tail, position: int, size: int, prefix: str = "") -> Record | None:
        """Return the record at ``position``, whose segment is shown as ``prefix`` and its name."""
        segment = tail.segment_of(position)
        name = tail.names[segment]
        data = self.read(tail.folder / name, size, position - tail.starts[segment])
        return decode(data, position, fmt, prefix + name)

    def sync(self) -> None:
        """Make all that was written, names too, survive a power cut."""
        if self.fs.is_dir(self.root):
            self.fs.sync_all(self.root)


class Row(NamedTuple):
    """What a queue file needs to know of a record."""

    queue: TopicQueue
    offset: int
    position: int
    size: int
    tag_hash: int
    status: int


def rows_of(log: Log) -> Iterator[Row]:
    """Walk over a whole log.

    Raises:
        TornRecord, CorruptRecord: there is damage in it, which an append would bury.
    """
    for batch in log.batches():
        for index in range(batch.first, batch.count):
            yield row_of(batch.view, batch.table[index * rows.WIDTH : (index + 1) * rows.WIDTH])
    for damage in log.damage.listed:
        kind = TornRecord if damage.kind == "torn" else CorruptRecord
        raise kind(position=damage.position, reason=f"{damage.reason}; repair the log before writing to it")


def row_of(view: memoryview, row: Sequence[int]) -> Row:
    """Return the part of a row that queue files need."""
    topic = str(view[row[rows.TOPIC_AT] : row[rows.TOPIC_AT] + row[rows.TOPIC_SIZE]], "utf-8")
    return Row(
        TopicQueue(topic, row[rows.QUEUE_ID]),
        row[rows.QUEUE_OFFSET],
        row[rows.POSITION],
        row[rows.SIZE],
        row[rows.TAG_HASH],
        row[rows.STATUS],
    )


def scanned(fmt: Format, record: bytes, position: int) -> Row:
    """Return the row of a record just encoded: what a later walk over the log will say of it."""
    table = rows.table(1)
    view = memoryview(record)
    count, _, why = _scan_cy.scan(fmt.code, view, 0, len(view), position, table)
    if count != 1:
        raise CorruptRecord(position=position, reason=f"{rows.REASONS.get(why, 'cut')} in a record just encoded")
    return row_of(view, table)


def queue_of(message: Message) -> TopicQueue:
    """Return the message's queue.

    Raises:
        TopicUnusable: the topic cannot be the name of a folder.
        InvalidRequest: the queue id is no unsigned 32-bit number.
    """
    reason = limits.is_folder_name(message.topic)
    if reason is not None:
        raise TopicUnusable(message.topic, reason)
    if not 0 <= message.queue_id <= 0xFFFFFFFF:
        raise InvalidRequest(f"queue id {message.queue_id} is out of range")
    return TopicQueue(message.topic, message.queue_id)
