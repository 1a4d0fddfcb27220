"""Reading an open store: queue slices, records by position, key, id and time.

Everything stops at ``readable_end``: what lies behind it is not promised yet.  All of it belongs to the store's
owner but ``ColdRead.finish``, which may run in a thread of its own.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from itertools import islice
from typing import Concatenate, ParamSpec, TypeVar

from litemq.errors import Closed, CorruptRecord, StaleHandle
from litemq.format import message_id, rows
from litemq.format._scan_cy import scan
from litemq.format.queue_entry import BEFORE_START_SIZE, QueueEntry, total_size
from litemq.format.record import Format, decode_row, offset_in_queue
from litemq.store._tails_cy import QueueTail
from litemq.store.arguments import check_number, check_text
from litemq.store.commit_log import CommitLog, read_error
from litemq.store.consume_queue import ConsumeQueues
from litemq.store.frames import Kind, is_undecided, read_head
from litemq.store.fs import WOULD_BLOCK
from litemq.store.key_index import KeyIndex
from litemq.store.queue_files import read_parts
from litemq.store.segments import Segment
from litemq.store.tables import Tables
from litemq.types import Record

_SPAN_FACTOR = 4
"""Records of a queue are read in one call while the span they lie in is at most so many times their bytes."""

_WALK_BYTES = 1 << 20
_FIRST_BYTES = 4096

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Reader")
_Place = tuple[Segment | None, int, int]
"""Segment, place in it, size."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Consecutive messages of one queue as log bytes, one record behind the other."""

    data: bytes
    sizes: tuple[int, ...]
    """Size of each record in ``data``; 0 stands for a damaged one, which has its offset but no bytes."""
    first_offset: int
    next_offset: int
    """Where the next read goes on."""
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive messages of one queue together."""

    count: int
    bytes: int
    """Of their records; damaged ones count nothing."""
    position: int
    """Of the first one's record."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Records that are read in one call: (place in the segment, size) of each."""

    segment: Segment
    records: list[tuple[int, int]]

    def read(self, *, nowait: bool) -> bytes | None:
        """Return the records behind each other; None when ``nowait`` and they are not in memory."""
        start = self.records[0][0]
        buffer = bytearray(self.records[-1][0] + self.records[-1][1] - start)
        if self.segment.file.read_into(memoryview(buffer), start, nowait=nowait) == WOULD_BLOCK:
            return None
        if len(self.records) == 1:
            return bytes(buffer)
        return b"".join([buffer[place - start : place - start + size] for place, size in self.records])


@dataclass(frozen=True, slots=True)
class ColdRead:
    """A read that was looked up and has to wait for the disk.

    ``finish`` touches nothing but segments, which can be read while it holds them: any thread may call it.
    """

    found: Slice
    runs: list[_Run]

    def finish(self) -> Slice:
        """Read, waiting for the disk.

        Raises:
            ReadFailed: the disk did not give the bytes.
        """
        try:
            data = self.read(nowait=False)
        except OSError as error:
            raise read_error(error) from error
        assert data is not None  # only a read that must not wait gives None
        return data

    def read(self, *, nowait: bool) -> Slice | None:
        """Return the slice with its bytes; None when ``nowait`` and they are not in memory."""
        parts = []
        for run in self.runs:
            part = run.read(nowait=nowait)
            if part is None:
                return None
            parts.append(part)
        found = self.found
        return Slice(
            b"".join(parts), found.sizes, found.first_offset, found.next_offset, found.min_offset, found.max_offset
        )


def asked(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Name the errors of a question: a closed store, a disk that does not answer."""

    @wraps(method)
    def checked(reader: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        reader.check_open()
        try:
            return method(reader, *args, **kwargs)
        except OSError as error:
            raise read_error(error) from error

    return checked


class Reader:
    """Looks into log, queues and index of one store."""

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        index: KeyIndex,
        tables: Tables,
        readable_end: Callable[[], int],
    ) -> None:
        self._log = log
        self._queues = queues
        self._index = index
        self._tables = tables
        self._readable_end = readable_end
        self.cold_reads = 0
        """Reads that would have waited for the disk and were left to a thread."""
        self._is_open = True

    def close(self) -> None:
        """Refuse every question from now on."""
        self._is_open = False

    def check_open(self) -> None:
        """Raise ``Closed`` when the store was closed."""
        if not self._is_open:
            raise Closed("the store is closed")

    # -- queues ----------------------------------------------------------------------------------

    @asked
    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the first offset of a queue that can be read."""
        tail = self._queues.find(topic, queue_id)
        if tail is None:
            return self._tables.first_offset(topic, queue_id)
        purged = self._tables.deletions.min_offsets.get(topic, {}).get(queue_id, 0)
        return min(max(self._queues.min_offset(tail, self._log.start), purged), self.max_offset(topic, queue_id))

    @asked
    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset behind the last message of a queue that can be read."""
        tail = self._queues.find(topic, queue_id)
        if tail is None:
            return self._tables.first_offset(topic, queue_id)
        return self._queues.end_offset(tail, self._readable_end())

    @asked
    def queue_ids(self, topic: str) -> list[int]:
        """Return the queues of a topic that have or had messages, those included that the topic no longer counts."""
        return self._queues.queues_of(topic)

    @asked
    def span(self, topic: str, queue_id: int, offset: int, max_count: int) -> Span:
        """Return what the messages of a queue from ``offset`` on are together, at most ``max_count``; none outside."""
        check_number("offset", offset)
        check_number("max_count", max_count)
        tail = self._queues.find(topic, queue_id)
        low, high = self.min_offset(topic, queue_id), self.max_offset(topic, queue_id)
        if tail is None or not max_count or not low <= offset < high:
            return Span(0, 0, -1)
        parts = self._queues.parts(tail, offset, min(max_count, high - offset))
        entries = read_parts(parts, self._queues.filler, nowait=False)
        assert entries is not None  # only a read that must not wait gives None
        position = int.from_bytes(entries[:8], "big", signed=True)
        return Span(len(entries) // tail.entry_size, total_size(entries, tail.entry_size), position)

    @asked
    def read(self, topic: str, queue_id: int, offset: int, *, max_count: int = 32, max_bytes: int = 1 << 20) -> Slice:
        """Return messages of a queue from ``offset`` on; at least one when there is one, whatever its size.

        An offset outside the queue gives an empty slice whose ``min_offset`` and ``max_offset`` say where it is.
        """
        return self._look_up(topic, queue_id, offset, max_count, max_bytes).finish()

    @asked
    def read_warm(
        self, topic: str, queue_id: int, offset: int, *, max_count: int = 32, max_bytes: int = 1 << 20
    ) -> Slice | ColdRead:
        """Do as ``read`` when all of it is in memory; else return what a thread has to ``finish``."""
        looked_up = self._look_up(topic, queue_id, offset, max_count, max_bytes)
        found = looked_up.read(nowait=True)
        if found is not None:
            return found
        self.cold_reads += 1
        return looked_up

    def _look_up(self, topic: str, queue_id: int, offset: int, max_count: int, max_bytes: int) -> ColdRead:
        for name, value in (("offset", offset), ("max_count", max_count), ("max_bytes", max_bytes)):
            check_number(name, value)
        low, high = self.min_offset(topic, queue_id), self.max_offset(topic, queue_id)
        tail = self._queues.find(topic, queue_id)
        if tail is None or not low <= offset < high:
            return ColdRead(Slice(b"", (), offset, min(max(offset, low), high), low, high), [])
        wanted = self._wanted(tail, offset, min(max_count, high - offset), max_bytes)
        sizes = tuple(size for _, _, size in wanted)
        return ColdRead(Slice(b"", sizes, offset, offset + len(sizes), low, high), _runs(wanted))

    def _wanted(self, tail: QueueTail, offset: int, count: int, max_bytes: int) -> list[_Place]:
        """Return where the records are that one answer holds."""
        wanted: list[_Place] = []
        total = 0
        for _, entry in self._queues.walk(tail, offset):
            place = self._place(entry)
            total += place[2]
            if len(wanted) == count or (wanted and total > max_bytes):
                break
            wanted.append(place)
        return wanted

    def _place(self, entry: QueueEntry) -> _Place:
        """Return where an entry's record is; its size is 0 when it cannot be anywhere."""
        segment = self._log.segments.find(entry.position)
        if segment is None or entry.position + entry.size > segment.end:
            return None, 0, 0
        return segment, entry.position - segment.start, entry.size

    @asked
    def entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[QueueEntry]:
        """Return entries of a queue from ``offset`` on, at most ``count``; none outside of it."""
        low, high = self.min_offset(topic, queue_id), self.max_offset(topic, queue_id)
        tail = self._queues.find(topic, queue_id)
        if tail is None or not low <= offset < high:
            return []
        walk = self._queues.walk(tail, offset)
        return [entry for _, entry in islice(walk, min(count, high - offset))]

    @asked
    def offset_at_time(self, topic: str, queue_id: int, time_ms: int) -> int:
        """Return the first offset whose message was stored at or after ``time_ms``; the max offset without one."""
        low, high = self.min_offset(topic, queue_id), self.max_offset(topic, queue_id)
        tail = self._queues.find(topic, queue_id)
        answer = high
        while tail is not None and low < high:
            middle = (low + high) // 2
            offset, stored = self._next_sound(tail, middle, high)
            if stored >= time_ms:
                high = middle
                answer = offset
            elif offset < high:
                low = offset + 1
            else:  # nothing but damage up to the end
                high = middle
        return answer

    def _next_sound(self, tail: QueueTail, offset: int, end: int) -> tuple[int, int]:
        """Return offset and store time of the first message from ``offset`` on that is not damaged; else (end, -1)."""
        for at, entry in self._queues.walk(tail, offset):
            if at >= end:
                break
            stored = self._stored_at(entry)
            if stored is not None:
                return at, stored
        return end, -1

    def _stored_at(self, entry: QueueEntry) -> int | None:
        if entry.size == BEFORE_START_SIZE:
            return None
        if entry.store_time is not None:
            return entry.store_time
        row = self._row(entry.position, entry.size)
        return row[1][rows.STORE_TIME] if row else None

    # -- records ---------------------------------------------------------------------------------

    def _row(self, position: int, size: int) -> tuple[bytes, array[int]] | None:
        data = self._log.read(position, size)
        table = rows.table(1)
        count, _, _ = scan(self._log.format.code, data, 0, len(data), position, table)
        return (data, table) if count else None

    @asked
    def record_at(self, position: int, *, store_time: int | None = None) -> Record | None:
        """Return the record that starts at ``position``; None where there is none (any more, or yet).

        Raises:
            CorruptRecord: there is one, and it is damaged.
            StaleHandle: ``store_time`` is given and the record has another.
        """
        segment = self._log.segments.find(position)
        if segment is None or not self._log.start <= position < self._readable_end():
            return None
        head = read_head(self._log.format, self._log.read(position, 8))
        # A position from outside may point anywhere: only a frame with the right magic is worth reading.
        row = self._row(position, head.size) if head.kind is Kind.RECORD else None
        if row is None:
            raise CorruptRecord(position=position, reason="no sound record starts here")
        data, table = row
        if store_time is not None and table[rows.STORE_TIME] != store_time:
            raise StaleHandle(f"the record at position {position} is another one by now")
        return decode_row(self._log.format, memoryview(data), table, 0, segment.path.name)

    @asked
    def message_at(self, topic: str, queue_id: int, offset: int) -> Record | None:
        """Return one message of a queue; None outside of it."""
        check_number("offset", offset)
        tail = self._queues.find(topic, queue_id)
        if tail is None or not self.min_offset(topic, queue_id) <= offset < self.max_offset(topic, queue_id):
            return None
        entry = self._queues.entry(tail, offset)
        if entry is None:
            return None
        if entry.size == BEFORE_START_SIZE:
            raise CorruptRecord(position=entry.position, reason=f"the record of offset {offset} is damaged")
        return self.record_at(entry.position)

    @asked
    def by_key(self, topic: str, key: str, *, limit: int = 64) -> list[Record]:
        """Return the newest messages of a topic with this key or message id, oldest first.

        In RocketMQ's format a key with a blank is kept but in no index, which has what stands between blanks: such a
        key, and an empty one, is found by ``litemq store query`` only.
        """
        check_text("topic", topic)
        check_text("key", key)
        found: dict[int, Record] = {}
        for position in self._index.positions(topic, key):
            if len(found) >= limit or position < self._log.start:  # newest first: what follows is gone, too
                break
            record = self._candidate(position)
            if (
                record is not None
                and record.topic == topic
                and (key in record.keys or key == record.message_id)
                and not self._is_dead(record)
            ):
                found[position] = record
        return [found[position] for position in sorted(found)]

    def _candidate(self, position: int) -> Record | None:
        try:
            return self.record_at(position)
        except CorruptRecord:
            return None

    def _is_dead(self, record: Record) -> bool:
        offset = offset_in_queue(record)
        return self._tables.deletions.is_dead(record.topic, record.queue_id, offset, record.position)

    @asked
    def by_id(self, wanted: str, *, topic: str | None = None) -> Record | None:
        """Return the newest message with this message id or offset id."""
        check_text("wanted", wanted)
        place = message_id.parse_offset_id(wanted)
        if place is not None:
            record = self._candidate(place[1])
            if record is not None and record.offset_id == wanted.upper():
                return record if topic in (None, record.topic) and not self._is_dead(record) else None
        topics = [topic] if topic is not None else sorted({queue.topic for queue in self._queues.all()})
        for name in topics:
            for record in reversed(self.by_key(name, wanted)):
                if record.message_id == wanted:
                    return record
        return None

    def by_time(self, begin_ms: int | None, end_ms: int | None, *, topic: str | None = None) -> Iterator[Record]:
        """Yield the messages stored from ``begin_ms`` to ``end_ms`` (both included), in log order."""
        for record in self.walk(self._position_at_time(begin_ms) if begin_ms is not None else self._log.start):
            stored = record.store_time or 0
            if end_ms is not None and stored > end_ms:
                return
            if (begin_ms is None or stored >= begin_ms) and topic in (None, record.topic) and not self._is_dead(record):
                yield record

    @asked
    def _position_at_time(self, time_ms: int) -> int:
        """Return a position at or before the first record stored at ``time_ms``: the start of its segment."""
        start = self._log.start
        for segment in self._log.segments:
            first = self.first_time(segment)
            if first is None or first >= time_ms:
                break
            start = segment.start
        return start

    @asked
    def first_time(self, segment: Segment) -> int | None:
        """Return the store time of the first sound record from a segment's start on; None without one."""
        if segment.first_time is None:
            first = next(self._walk(segment.start, _FIRST_BYTES), None)
            segment.first_time = first.store_time if first is not None else None
        return segment.first_time

    def walk(self, position: int) -> Iterator[Record]:
        """Yield sound records from ``position`` (a record's place) to the readable end; damage is passed over."""
        self.check_open()
        try:
            yield from self._walk(position, _WALK_BYTES)
        except OSError as error:
            raise read_error(error) from error

    def _walk(self, position: int, step: int) -> Iterator[Record]:
        fmt: Format = self._log.format
        table = rows.table(1024)
        while position < self._readable_end():
            segment = self._log.segments.find(position)
            if segment is None:
                return
            room = min(segment.end, self._readable_end()) - position
            head = read_head(fmt, self._log.read(position, 8))
            data = self._log.read(position, min(max(step, head.size), room))
            count, at, why = scan(fmt.code, data, 0, len(data), position, table)
            for row in range(count):
                with suppress(CorruptRecord):  # its body does not decompress
                    yield decode_row(fmt, memoryview(data), table, row, segment.path.name)
            if count and (why in (rows.ROOM, rows.CUT) or is_undecided(why, len(data) - at)):
                position += at
            elif why in (rows.END, rows.FILLER) or head.size == 0 or head.size > room:
                position = segment.end
            else:
                position += at + (read_head(fmt, data[at : at + 8]).size or room)


def _runs(wanted: list[_Place]) -> list[_Run]:
    """Put records together that are worth one read: near enough to each other, and in one segment."""
    runs: list[_Run] = []
    bytes_wanted = 0
    for segment, place, size in wanted:
        if segment is None:
            continue
        last = runs[-1] if runs and runs[-1].segment is segment else None
        bytes_wanted += size
        if last is not None and place + size - last.records[0][0] <= _SPAN_FACTOR * bytes_wanted:
            last.records.append((place, size))
        else:
            runs.append(_Run(segment, [(place, size)]))
            bytes_wanted = size
    return runs
