"""Store files as a backend: a store directory, a directory of segments, or one segment, in any of the four formats.

What there is and how it is planned is found here; ``log_cuts`` cuts a log, ``file_ranges`` reads the parts.  Queue
entries are believed only below the position up to which they are known to be complete; what lies behind it is walked.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from litemq.errors import BadStore, CorruptRecord, TornRecord, UnknownFormat
from litemq.format import rows
from litemq.format._scan_cy import scan
from litemq.format.config_json import JsonObject
from litemq.format.names import CHANGES_TOPIC, ORIGIN
from litemq.format.queue_entry import LAYOUTS, EntryLayout, QueueEntry
from litemq.format.record import FORMATS, TMQ, Format, decode
from litemq.spark.backend import Bounds, Counters, Damaged, Rows
from litemq.spark.counted_file import CountedFile
from litemq.spark.errors import Unreadable
from litemq.spark.file_ranges import log_rows, queue_rows
from litemq.spark.queue_entries import QueueEntries
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
from litemq.types import Record

_NAME_SIZE: Final = 20
"""Digits in the name of a segment."""


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
            self._log = _opened(self.path, self.format_name)
            self._log.open_file = self.open_segment
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
                layout = self.layout
                for topic, queue_id, folder in queue_folders(Paths(log.store).queues, log.fs):
                    self._queues[topic, queue_id] = QueueEntries(log.fs, folder, layout, self.counters)
        return self._queues

    def batch_topics(self) -> set[str]:
        """Return the topics of RocketMQ's type BatchCQ: no ConsumeQueue leads to their messages."""
        return batch_topics(self.log)

    @property
    def layout(self) -> EntryLayout:
        """How queue entries look."""
        assert self.format is not None
        return LAYOUTS[self.format.name]

    @property
    def first_position(self) -> int:
        """Where the log starts by the name of its first segment."""
        return self.log.files.streams[0].named_start if self.log.files.streams else 0

    @property
    def end(self) -> int:
        """Position at which the log ended when this backend first looked, where another process says so."""
        live = self.log.live
        return NO_END if live is None or live.flushed is None else live.flushed

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
                size = self.layout.size
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

    def _record_at(self, position: int) -> Record | None:
        data = self.read_frame(position)
        try:
            return decode(data, position, self.format) if data else None
        except (CorruptRecord, TornRecord):
            return None  # whoever reads it says so

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

        def reached(entry: QueueEntry) -> bool | None:
            time = self.stored_at(entry)
            return None if time is None else time >= time_ms

        return entries.first_where(reached, queue.low, queue.high)

    def stored_at(self, entry: QueueEntry) -> int | None:
        """Return when a message was stored; None where no sound record says so."""
        if not entry.is_written or entry.is_before_start:
            return None
        if entry.store_time is not None:
            return entry.store_time
        record = self._row_at(entry)
        return None if record is None else record[rows.STORE_TIME]

    def _row_at(self, entry: QueueEntry) -> array[int] | None:
        data = self.read_frame(entry.position)
        table = rows.table(1)
        if not data or self.format is None:
            return None
        return table if scan(self.format.code, data, 0, len(data), entry.position, table)[0] else None

    def bytes_of(self, queue: QueueRange) -> int:
        if queue.start >= queue.end:
            return 0
        entries = self.queues()[queue.topic, queue.queue_id]
        first = entries.read(queue.start, min(64, queue.end - queue.start))
        sizes = [max(0, self.layout.decode(first, at).size) for at in range(0, len(first), self.layout.size)]
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

    # -- reading ---------------------------------------------------------------------------------------------------

    def open(self, part: Range) -> Iterator[Rows | Damaged]:
        return log_rows(self, part) if isinstance(part, LogRange) else queue_rows(self, part)

    def segment_of(self, position: int) -> int:
        """Return the number of the segment that a position of the first log lies in; -1 before all of them."""
        starts = [segment.number or 0 for segment in self.log.files.streams[0].segments]
        return bisect_right(starts, position) - 1

    def read_at(self, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes of the first log from a position on, of one segment."""
        number = self.segment_of(position)
        if number < 0:
            return b""
        segment = self.log.files.streams[0].segments[number]
        return self.read_segment(segment, position - (segment.number or 0), size)

    def read_frame(self, position: int) -> bytes:
        """Return the frame that starts at ``position``, or nothing when none does."""
        if self.format is None:
            return b""
        head = read_head(self.format, self.read_at(position, HEAD_SIZE))
        return self.read_at(position, head.size) if head.kind is Kind.RECORD else b""

    def read_segment(self, segment: SegmentFile, place: int, size: int) -> bytes:
        """Return up to ``size`` bytes of a segment."""
        file = self.open_segment(segment.path)
        try:
            return file.read_at(min(size, max(0, file.size() - place)), place)
        finally:
            file.close()

    def open_segment(self, path: Path) -> File:
        """Open a segment so that what is read of it counts."""
        assert self._log is not None
        return CountedFile(self._log.fs.open(path), self.counters)


def _is_segment_name(name: str) -> bool:
    return len(name) == _NAME_SIZE and name.isascii() and name.isdigit()


def _opened(path: str, format_name: str) -> Log:
    """Open a log.

    Raises:
        BadStore: it is none that can be read; the text names the option to change.
        Unreadable: a folder stands where a segment should.
    """
    try:
        log = open_log(path, format_name)
    except UnknownFormat as error:
        names = ", ".join(FORMATS)
        raise BadStore(f"{error}; if it is a log, name its format: .option('format', …), one of {names}") from error
    for stream in log.files.streams:
        if stream.folder is None or log.files.is_tree:
            continue
        for segment in (stream.folder / name for name in log.fs.names(stream.folder) if _is_segment_name(name)):
            if log.fs.is_dir(segment):
                raise Unreadable(f"cannot read {segment}: a folder is where a segment should be; move it away")
    return log
