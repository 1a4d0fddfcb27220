"""Store files as a backend: a store directory, a directory of segments, or one segment, in any of the four formats.

Two ways lead to records.  A *log range* is walked from frame to frame, as ``store dump`` does, and rows of other topics
are passed over.  A *queue range* goes by the entries of a ConsumeQueue, so that a small topic costs what it holds.
Entries are believed only below the position up to which they are known to be complete; what lies behind it is walked.

Both give a record only after its whole frame was decoded at a place that is one: what looks like a record inside a body
is never looked at.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from litemq.format import compression, rows
from litemq.format._scan_cy import scan
from litemq.format.config_json import JsonObject
from litemq.format.names import CHANGES_TOPIC, ORIGIN
from litemq.format.queue_entry import LAYOUTS, EntryLayout, QueueEntry
from litemq.format.record import TMQ, Format, decode
from litemq.spark.backend import Bounds, Counters, Damaged, Rows
from litemq.spark.counted_file import CountedFile
from litemq.spark.queue_entries import CHUNK, QueueEntries
from litemq.spark.ranges import NO_END, LogRange, QueueRange, Range
from litemq.store import snapshot
from litemq.store.changes import Deletions
from litemq.store.changes import decode as decode_change
from litemq.store.deletions import has_changes, take_changes
from litemq.store.frames import HEAD_SIZE, Kind, read_head
from litemq.store.fs import File
from litemq.store.layout import Paths
from litemq.store.log_files import SegmentFile
from litemq.store.log_walk import Log, open_log, read_checkpoint
from litemq.store.queue_types import batch_topics, queue_folders
from litemq.store.segment_walk import Damage

_MAX_RUN: Final = 8 << 20
_HOP_WINDOW: Final = 1 << 20
_GAP: Final = 2
"""A run of reads may be so many times as long as the records that are wanted of it."""


class FileBackend:
    """Reads the store at ``path``; what it knows of it is found out anew after it was pickled."""

    def __init__(self, path: str, format: str = "auto") -> None:  # noqa: A002 - the option's word
        self.path = path
        self.format_name = format
        self.counters = Counters()
        self._forget()

    def __getstate__(self) -> tuple[str, str]:
        return self.path, self.format_name

    def __setstate__(self, state: tuple[str, str]) -> None:
        self.path, self.format_name = state
        self.counters = Counters()
        self._forget()

    def _forget(self) -> None:
        self._log: Log | None = None
        self._queues: dict[tuple[str, int], QueueEntries] | None = None
        self._trusted: int | None = None
        self._deletions: Deletions | None = None

    # -- what there is ---------------------------------------------------------------------------------------------

    @property
    def log(self) -> Log:
        """The log, opened when it is first asked for."""
        if self._log is None:
            self._log = open_log(self.path, self.format_name)
            self._log.open_file = self._open
        return self._log

    @property
    def format(self) -> Format | None:
        return self.log.format

    @property
    def is_live(self) -> bool:
        """Whether another process is writing."""
        return self.log.live is not None

    @property
    def identity(self) -> str:
        stated = self._stated().get("logId")
        if isinstance(stated, str) and stated:
            return stated
        for batch in self.log.batches(window=1 << 16):
            at = batch.table[batch.first * rows.WIDTH + rows.POSITION]
            size = batch.table[batch.first * rows.WIDTH + rows.SIZE]
            frame = bytes(batch.view[at - batch.base : at - batch.base + size])
            return sha256(frame).hexdigest()[:32]
        return ""

    def _stated(self) -> JsonObject:
        store = self.log.store
        table = snapshot.read(self.log.fs, Paths(store).topics) if store is not None else None
        ours = table.get("litemq") if table else None
        return ours if isinstance(ours, dict) else {}

    @property
    def trusted(self) -> int:
        """Position below which ConsumeQueues hold everything; 0 where they cannot be used."""
        if self._trusted is None:
            self._trusted = self._find_trusted()
        return self._trusted

    def _find_trusted(self) -> int:
        log = self.log
        if log.store is None or log.files.is_tree or log.format in (None, TMQ) or log.files.streams[0].is_ordinal:
            return 0
        if not log.fs.exists(Paths(log.store).queues):
            return 0
        if log.live is None and not log.fs.exists(Paths(log.store).abort):
            return NO_END
        found = read_checkpoint(log.store, log.fs)
        if found is None or found.derived is None or found.flushed is None:
            return 0
        return min(found.derived, found.flushed)

    def queues(self) -> dict[tuple[str, int], QueueEntries]:
        """Return the ConsumeQueues that can be used."""
        if self._queues is None:
            self._queues = {}
            log = self.log
            if self.trusted and log.store is not None:
                layout = self._layout()
                for topic, queue_id, folder in queue_folders(Paths(log.store).queues, log.fs):
                    self._queues[topic, queue_id] = QueueEntries(log.fs, folder, layout, self.counters)
        return self._queues

    def batch_topics(self) -> set[str]:
        """Return the topics of RocketMQ's type BatchCQ: no ConsumeQueue leads to their messages."""
        return batch_topics(self.log)

    def _layout(self) -> EntryLayout:
        assert self.format is not None
        return LAYOUTS[self.format.name]

    @property
    def first_position(self) -> int:
        """Where the log starts by the name of its first segment."""
        return self.log.files.streams[0].named_start if self.log.files.streams else 0

    def deletions(self) -> Deletions:
        """Return what was deleted or purged: only a store of a LiteMQ broker says so."""
        if self._deletions is None:
            self._deletions = Deletions()
            store = self.log.store
            if store is not None and has_changes(self.format) and self.log.fs.exists(Paths(store).store_json):
                self._find_deletions(self._deletions)
        return self._deletions

    def _find_deletions(self, into: Deletions) -> None:
        positions = []
        for (topic, _), entries in self.queues().items():
            if topic == CHANGES_TOPIC:
                data = entries.read(entries.first, entries.end - entries.first)
                size = self._layout().size
                positions += [int.from_bytes(data[at : at + 8], signed=True) for at in range(0, len(data), size)]
        for position in sorted(positions):
            record = self._record_at(position)
            change = decode_change(record.body) if record is not None else None
            if record is not None and change is not None and position < self.trusted:
                origin = record.properties.get(ORIGIN, "")
                into.apply(change, int(origin) if origin.isascii() and origin.isdigit() else position)
        if self.trusted < NO_END:
            for batch in self.log.batches(self.trusted or None, is_exact=bool(self.trusted)):
                take_changes(self.format, batch, into)

    def _record_at(self, position: int):  # type: ignore[no-untyped-def]  # noqa: ANN202
        data = self._read_frame(position)
        return decode(data, position, self.format) if data else None

    # -- bounds ----------------------------------------------------------------------------------------------------

    def bounds(self) -> list[Bounds]:
        incarnations = self._stated().get("incarnations")
        named = incarnations if isinstance(incarnations, dict) else {}
        found = []
        for (topic, queue_id), entries in sorted(self.queues().items()):
            low, high = self._ends(topic, queue_id, entries)
            name = named.get(topic, "")
            found.append(Bounds(topic, "", queue_id, low, high, name if isinstance(name, str) else ""))
        return found

    def _ends(self, topic: str, queue_id: int, entries: QueueEntries) -> tuple[int, int]:
        high = entries.end
        if self.trusted < NO_END:
            high = entries.first_at(self.trusted, entries.first, high)
        low = entries.first_at(self.first_position, entries.first, high)
        low = max(low, self.deletions().min_offsets.get(topic, {}).get(queue_id, 0))
        return min(low, high), high

    def offset_at(self, queue: Bounds, time_ms: int) -> int:
        entries = self.queues()[queue.topic, queue.queue_id]
        return entries.first_where(lambda entry: (self.stored_at(entry) or 0) >= time_ms, queue.low, queue.high)

    def stored_at(self, entry: QueueEntry) -> int | None:
        if entry.store_time is not None:
            return entry.store_time
        record = self._row_at(entry)
        return None if record is None else record[rows.STORE_TIME]

    def _row_at(self, entry: QueueEntry) -> array[int] | None:
        data = self._read_frame(entry.position)
        table = rows.table(1)
        if not data or self.format is None:
            return None
        return table if scan(self.format.code, data, 0, len(data), entry.position, table)[0] else None

    def bytes_of(self, queue: QueueRange) -> int:
        if queue.start >= queue.end:
            return 0
        entries = self.queues()[queue.topic, queue.queue_id]
        first = entries.read(queue.start, min(64, queue.end - queue.start))
        sizes = [max(0, self._layout().decode(first, at).size) for at in range(0, len(first), self._layout().size)]
        return (queue.end - queue.start) * sum(sizes) // max(1, len(sizes))

    def split(self, queue: QueueRange, max_bytes: int, max_records: int) -> list[QueueRange]:
        count = queue.end - queue.start
        each = max(1, queue.size // max(1, count))
        step = max(1, max_bytes // each)
        if max_records:
            step = min(step, max_records)
        starts = range(queue.start, queue.end, step)
        return [
            queue._replace(start=start, end=min(start + step, queue.end), size=each * min(step, queue.end - start))
            for start in starts
        ]

    # -- log ranges ------------------------------------------------------------------------------------------------

    def log_bytes(self) -> int:
        """Return the bytes of all segments; those that are not written yet count too."""
        return sum(self.size_of(segment) for stream in self.log.files.streams for segment in stream.segments)

    def known_bytes(self) -> int:
        """Return the bytes of the log up to the last record that a queue entry leads to."""
        end = self.first_position
        for entries in self.queues().values():
            if entries.first < entries.end:
                last = entries.entry(entries.end - 1)
                end = max(end, last.position + max(0, last.size))
        return end - self.first_position

    def size_of(self, segment: SegmentFile) -> int:
        file = self.log.fs.open(segment.path)
        try:
            ranges = file.data_ranges(0)
            return min(file.size(), ranges[-1][1]) if ranges else 0
        finally:
            file.close()

    def boundaries(self, stream: int, step: int) -> list[int]:
        """Return places about ``step`` bytes apart where records start, in one log."""
        found = self.log.files.streams[stream]
        if self.format is None or found.is_ordinal or self.log.files.kind == "file":
            return []
        limit = NO_END
        if self.log.live is not None and self.log.live.flushed is not None:
            limit = self.log.live.flushed
        places: list[int] = []
        for index, segment in enumerate(found.segments):
            start = segment.number or 0
            if index:
                places.append(start)
            end = min(start + self.size_of(segment), limit)
            if end - start > step:
                places += self._inside(segment, start, end, step)
        return [place for place in places if place < limit]

    def _inside(self, segment: SegmentFile, start: int, end: int, step: int) -> Iterator[int]:
        known = min(end, self.trusted) if self.queues() else start
        target = start + step
        while target < known:
            place = self.next_known(target, known)
            if place is None:
                break
            yield place
            target = max(target + step, place + 1)
        if known < end:
            yield from self._hops(segment, start, end, step, target)

    def next_known(self, position: int, end: int) -> int | None:
        """Return where the first record at or behind ``position`` starts, of those that queue entries lead to."""
        best: int | None = None
        for (topic, queue_id), entries in self.queues().items():
            offset = entries.first_at(position, entries.first, entries.end)
            if offset == entries.end:
                continue
            entry = entries.entry(offset)
            if entry.position < (end if best is None else best) and self._is_its_record(topic, queue_id, offset, entry):
                best = entry.position
        return best

    def _is_its_record(self, topic: str, queue_id: int, offset: int, entry: QueueEntry) -> bool:
        """Return whether a whole record stands where an entry says, and is the one of that queue and offset."""
        data = self._read_frame(entry.position)
        table = rows.table(1)
        if not data or self.format is None:
            return False
        if not scan(self.format.code, data, 0, len(data), entry.position, table)[0]:
            return False
        return _is_of(data, table, 0, topic, queue_id, offset)

    def _hops(self, segment: SegmentFile, start: int, end: int, step: int, target: int) -> Iterator[int]:
        """Yield boundaries found from the segment's start on, from size field to size field."""
        fmt = self.format
        assert fmt is not None
        file = self._open(segment.path)
        try:
            at, base, data = 0, 0, b""
            while start + at < end:
                if at + HEAD_SIZE > base + len(data):
                    base, data = at, file.read_at(_HOP_WINDOW, at)
                head = read_head(fmt, data[at - base : at - base + HEAD_SIZE])
                if head.kind is not Kind.RECORD or head.size < fmt.min_size:
                    return
                if start + at >= target:
                    yield start + at
                    target = max(target + step, start + at + 1)
                at += head.size
        finally:
            file.close()

    # -- reading ---------------------------------------------------------------------------------------------------

    def open(self, part: Range) -> Iterator[Rows | Damaged]:
        return self._open_log(part) if isinstance(part, LogRange) else self._open_queue(part)

    def _open_log(self, part: LogRange) -> Iterator[Rows | Damaged]:
        log = self.log
        damages: list[Damage] = []

        def report(damage: Damage) -> None:
            if part.start <= damage.position < part.end:
                damages.append(damage)

        exact = part.start >= 0
        runs = log.batches(
            part.start if exact else None,
            streams=range(part.stream, part.stream + 1),
            on_damage=report,
            is_exact=exact,
        )
        for batch in runs:
            while damages:
                yield from self._resumed(damages.pop(0), part)
            yield Rows(batch.view, batch.table, batch.first, batch.count, batch.base, part.end)
            last = (batch.count - 1) * rows.WIDTH
            if batch.table[last + rows.POSITION] + batch.table[last + rows.SIZE] >= part.end:
                return
        while damages:
            yield from self._resumed(damages.pop(0), part)

    def _resumed(self, damage: Damage, part: LogRange) -> Iterator[Rows | Damaged]:
        """Yield a damage, and what queue entries know behind it where the walk skipped the rest of a segment.

        So the same records are found however the log is split.
        """
        end = min(damage.position + damage.size, part.end)
        place = None
        if self.trusted and not part.stream:
            place = self.next_known(damage.position + 1, min(end, self.trusted))
        if place is None and damage.kind == "torn":
            return  # the log's unfinished end: nothing that was ever there is missing
        size = damage.size if place is None else place - damage.position
        yield Damaged(damage.position, size, damage.reason, damage.segment)
        if place is not None:
            # A log of its own: this one is in the middle of its walk.
            other = FileBackend(self.path, self.format_name)
            other.counters = self.counters
            yield from other.open(LogRange(part.stream, place, end, end - place))

    def _open_queue(self, part: QueueRange) -> Iterator[Rows | Damaged]:
        entries = self.queues()[part.topic, part.queue_id]
        layout = self._layout()
        for start in range(part.start, part.end, CHUNK):
            count = min(CHUNK, part.end - start)
            data = entries.read(start, count)
            places = [layout.decode(data, at) for at in range(0, count * layout.size, layout.size)]
            at = 0
            while at < count:
                stop = self._run(places, at)
                yield from self._read_run(part, start + at, places[at:stop])
                at = stop

    def _run(self, places: list[QueueEntry], at: int) -> int:
        """Return behind which entry one read ends: gaps are read over while that costs less than it saves."""
        first = places[at]
        if not first.is_written or first.is_before_start:
            return at + 1
        segment, wanted, end = self._segment_of(first.position), first.size, first.position + first.size
        stop = at + 1
        while stop < len(places):
            entry = places[stop]
            if not entry.is_written or entry.position < end or self._segment_of(entry.position) != segment:
                break
            span = entry.position + entry.size - first.position
            if span > _MAX_RUN or span > _GAP * (wanted + entry.size):
                break
            wanted += entry.size
            end = entry.position + entry.size
            stop += 1
        return stop

    def _segment_of(self, position: int) -> int:
        starts = [segment.number or 0 for segment in self.log.files.streams[0].segments]
        return bisect_right(starts, position) - 1

    def _read_run(self, part: QueueRange, offset: int, places: list[QueueEntry]) -> Iterator[Rows | Damaged]:
        fmt = self.format
        assert fmt is not None
        first = places[0]
        if first.is_before_start:
            return
        number = self._segment_of(first.position)
        size = places[-1].position + places[-1].size - first.position
        data = b""
        if first.is_written and number >= 0:
            segment = self.log.files.streams[0].segments[number]
            data = self._read(segment, first.position - (segment.number or 0), size)
        view = memoryview(data)
        table = rows.table(len(places))
        found = 0
        for index, entry in enumerate(places):
            at = entry.position - first.position
            row = memoryview(table)[found * rows.WIDTH :]
            checked = rows.NEVER if self.log.checked_from is None else self.log.checked_from
            end = min(at + max(entry.size, 0), len(data))
            count, _, why = scan(fmt.code, view, at, end, first.position, row, False, fmt.magic, checked)
            if count == 1 and _is_of(data, table, found, part.topic, part.queue_id, offset + index):
                reason = _folded(fmt, view, table, found)
            else:
                nobody = f"entry {offset + index} of queue {part.topic}/{part.queue_id} leads to no such record"
                reason = rows.REASONS.get(why, nobody)
            if reason:
                if found:
                    yield Rows(view, table, 0, found, first.position, NO_END)
                    table, found = rows.table(len(places)), 0
                yield Damaged(entry.position, entry.size, reason, f"queue {part.topic}/{part.queue_id}")
            else:
                found += 1
        if found:
            yield Rows(view, table, 0, found, first.position, NO_END)

    # -- files -----------------------------------------------------------------------------------------------------

    def _read_frame(self, position: int) -> bytes:
        """Return the frame that starts at ``position``, or nothing when none does."""
        number = self._segment_of(position)
        if number < 0 or self.format is None:
            return b""
        segment = self.log.files.streams[0].segments[number]
        place = position - (segment.number or 0)
        head = read_head(self.format, self._read(segment, place, HEAD_SIZE))
        if head.kind is not Kind.RECORD:
            return b""
        return self._read(segment, place, head.size)

    def _read(self, segment: SegmentFile, place: int, size: int) -> bytes:
        file = self._open(segment.path)
        try:
            return file.read_at(min(size, max(0, file.size() - place)), place)
        finally:
            file.close()

    def _open(self, path: Path) -> File:
        assert self._log is not None
        return CountedFile(self._log.fs.open(path), self.counters)


def _is_of(data: bytes, table: array[int], row: int, topic: str, queue_id: int, offset: int) -> bool:
    at = row * rows.WIDTH
    start = table[at + rows.TOPIC_AT]
    return (
        data[start : start + table[at + rows.TOPIC_SIZE]] == topic.encode("utf-8", "surrogateescape")
        and table[at + rows.QUEUE_ID] == queue_id
        and table[at + rows.QUEUE_OFFSET] == offset
    )


def _folded(fmt: Format, view: memoryview, table: array[int], row: int) -> str:
    """Return why a compressed body cannot be unfolded; nothing when it can, or is not compressed."""
    at = row * rows.WIDTH
    if fmt is TMQ or not table[at + rows.SYS_FLAG] & 1:
        return ""
    body = view[table[at + rows.BODY_AT] : table[at + rows.BODY_AT] + table[at + rows.BODY_SIZE]]
    try:
        compression.plain_body(bytes(body), table[at + rows.SYS_FLAG])
    except compression.DoesNotDecompress as error:
        return str(error)
    return ""
