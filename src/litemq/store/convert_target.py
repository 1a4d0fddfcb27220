"""Where converted records go: a log with everything derived from it, or a ``tmq`` tree.

Each record is read back from the very bytes that are written, so that what a target could not hold is known exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from litemq.errors import CorruptRecord, InvalidRequest, RecordTooLarge, TopicUnusable
from litemq.format import litemq, rocketmq, rows
from litemq.format._scan_cy import scan
from litemq.format.limits import is_folder_name
from litemq.format.record import LITEMQ, ROCKETMQ, TMQ, Format, decode_row, to_message, to_placement
from litemq.store.convert_batch import BatchQueues
from litemq.store.derived import Derived, Sizes
from litemq.store.fs import File, FileSystem
from litemq.store.segments import name_of
from litemq.store.tmq_log import TmqLog
from litemq.types import Record

OnWritten = Callable[[Record, Record], None]
"""Told of each record as it was, and as it is read back."""

_STAGED_BYTES: Final = 256 << 10
_STAGED_RECORDS: Final = 512


class Begin(NamedTuple):
    """Where a log goes on."""

    start: int
    """Of the segment."""
    end: int
    """Where the next record goes."""


FIRST: Final = Begin(0, 0)


class Target(Protocol):
    """What a conversion writes to."""

    records: int
    bytes: int
    newest_time: int
    """Latest store time of a record."""

    @property
    def segments(self) -> int:
        """How many segment files there are."""

    def add(self, record: Record) -> int:
        """Append a record and return its position.

        Raises:
            InvalidRequest: the target cannot hold it at all; nothing was written.
        """

    def finish(self) -> None:
        """Write everything out; nothing is synced by this."""

    def close(self) -> None:
        """Let go of all files, after an error too."""


def reserve_of(fmt: Format) -> int:
    """Return how many bytes at the end of a segment no record gets."""
    return rocketmq.FILLER_SIZE if fmt is ROCKETMQ else 0


class LogTarget:
    """One log for all queues: ``litemq``, ``rocketmq``, ``blueprint``."""

    def __init__(
        self,
        fs: FileSystem,
        root: Path,
        fmt: Format,
        sizes: Sizes,
        derived: Derived | None,
        batch_queues: BatchQueues | None,
        on_written: OnWritten,
        begin: Begin = FIRST,
    ) -> None:
        self.records = 0
        self.bytes = 0
        self.segments = 0
        self.newest_time = 0
        self.end = begin.end
        """Position behind the last record."""
        self._fs = fs
        self._folder = root / "commitlog"
        self._fmt = fmt
        self._segment_bytes = sizes.segment_bytes
        self._reserve = reserve_of(fmt)
        self._derived = derived
        self._batch_queues = batch_queues
        self._on_written = on_written
        self._topics = Topics()
        self._out = bytearray()
        self._staged: list[Record] = []
        self._table = rows.table(_STAGED_RECORDS)
        fs.make_dirs(self._folder)
        self.start = begin.start
        """Position of the last segment."""
        self._room = sizes.segment_bytes
        self._file = self._make(self._room)

    def add(self, record: Record) -> int:
        self._topics.check(record)
        message = to_message(record)
        data = self._fmt.write(message, to_placement(record, self.end))
        if len(data) + self._reserve > self.start + self._room - self.end:
            self._roll(len(data))
            data = self._fmt.write(message, to_placement(record, self.end))
        position = self.end
        self._out += data
        self._staged.append(record)
        self.end += len(data)
        if len(self._out) >= _STAGED_BYTES or len(self._staged) == _STAGED_RECORDS:
            self._write()
        return position

    def finish(self) -> None:
        self._write()
        self._file.close()
        if self._derived is not None:
            self._derived.finish()
        if self._batch_queues is not None:
            self._batch_queues.finish()

    def close(self) -> None:
        self._file.close()
        if self._derived is not None:
            self._derived.close()

    def _make(self, size: int) -> File:
        self.segments += 1
        return self._fs.create(self._folder / name_of(self.start), size)

    def _roll(self, size: int) -> None:
        """Close the segment with a filler and begin one that has room for a record of ``size`` bytes."""
        room = self._segment_bytes
        if size + self._reserve > room:
            if self._fmt in (LITEMQ, ROCKETMQ):  # a broker wants all its segments to have one size
                raise RecordTooLarge(what="the record", size=size, limit=room - self._reserve)
            room = size
        self._write()
        filler = _filler(self._fmt, self.start + self._room - self.end)
        if filler:
            self._file.write_at(filler, self.end - self.start)
        self._file.close()
        if self.end == self.start:  # nothing in it yet: it only gets another size
            self._fs.remove(self._folder / name_of(self.start))
            self.segments -= 1
        else:
            self.start += self._room
        self._room = room
        self.end = self.start
        self._file = self._make(room)

    def _write(self) -> None:
        """Write what is staged, read it back, and feed what is derived from it."""
        if not self._staged:
            return
        view = memoryview(bytes(self._out))
        base = self.end - len(view)
        self._file.write_at(view, base - self.start)
        count, at, why = scan(self._fmt.code, view, 0, len(view), base, self._table)
        if count != len(self._staged):
            reason = f"{rows.REASONS.get(why, 'cut')} in a record just encoded"
            raise CorruptRecord(position=base + at, reason=reason)
        for row, before in enumerate(self._staged):
            after = decode_row(self._fmt, view, self._table, row, "")
            self._on_written(before, after)
            if self._batch_queues is not None:
                self._batch_queues.add(after, self._table, row)
        times = self._table[rows.STORE_TIME : count * rows.WIDTH : rows.WIDTH]
        self.newest_time = max(self.newest_time, *times)
        if self._derived is not None:
            self._derived.feed(view, self._table, count)
        if self._batch_queues is not None:
            self._batch_queues.write_out()
        self.records += count
        self.bytes += len(view)
        self._out.clear()
        self._staged.clear()


def _filler(fmt: Format, left: int) -> bytes:
    """Return what closes a segment that has ``left`` bytes left."""
    if fmt is LITEMQ:
        return litemq.FILLER.to_bytes(4) if left >= 4 else b""
    if fmt is ROCKETMQ:
        return left.to_bytes(4) + rocketmq.FILLER_MAGIC.to_bytes(4)
    return b""


class TmqTarget:
    """A tree with one log per queue."""

    def __init__(self, fs: FileSystem, root: Path, sizes: Sizes, on_written: OnWritten) -> None:
        self.records = 0
        self.bytes = 0
        self.newest_time = 0
        self._log = TmqLog(fs, root, segment_size=sizes.segment_bytes)
        self._on_written = on_written
        self._topics = Topics()
        self._table = rows.table(1)

    @property
    def segments(self) -> int:
        return self._log.segment_count

    def add(self, record: Record) -> int:
        self._topics.check(record)
        appended = self._log.append(to_message(record, plain_body=True), queue_offset=record.queue_offset)
        view = memoryview(self._log.newest)
        scan(TMQ.code, view, 0, len(view), appended.position, self._table)
        self._on_written(record, decode_row(TMQ, view, self._table, 0, ""))
        self.records += 1
        self.bytes += len(view)
        return appended.position

    def finish(self) -> None:
        self._log.close()

    def close(self) -> None:
        """Nothing stays open between two writes."""


class Topics:
    """Topics that were looked at: each becomes the name of a folder, and none may lead out of the destination."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def check(self, record: Record) -> None:
        """Refuse a record that no queue can have.

        Raises:
            InvalidRequest: its topic cannot be the name of a folder, or its queue id is below 0.
        """
        topic = record.topic
        if topic not in self._known:
            if len(self._known) >= _MOST_TOPICS:
                self._known.clear()
            self._known[topic] = is_folder_name(topic)
        reason = self._known[topic]
        if reason is not None:
            raise TopicUnusable(topic, reason)
        if record.queue_id < 0:
            raise InvalidRequest(f"queue id {record.queue_id} is below 0")


_MOST_TOPICS: Final = 1 << 14
