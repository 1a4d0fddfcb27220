"""A small writable log in ``blueprint`` format.

    commitlog/{20 digits}                      segments of one size, zeros behind the last record
    consumequeue/{topic}/{queue}/{20 digits}   entry n at byte 20 × n; prepared and rolled-back records have none

A record larger than a segment gets one of its own size.  Rules of waiting and reopening: ``small_log``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from litemq.format import queue_entry
from litemq.format.placement import Placement
from litemq.format.queue_entry import ROCKETMQ_ENTRY_SIZE as WIDTH
from litemq.format.queue_entry import QueueEntry
from litemq.format.record import BLUEPRINT
from litemq.store import small_log
from litemq.store.fs import FileSystem
from litemq.store.log_walk import open_log
from litemq.types import NO_HOST, Appended, LogPosition, Message, QueueOffset, Record, Status, TopicQueue


class BlueprintLog:
    """A store directory in ``blueprint`` format: one log for all queues."""

    def __init__(
        self,
        fs: FileSystem,
        root: Path,
        *,
        segment_size: int = small_log.DEFAULT_SEGMENT_SIZE,
        queue_entries: int = small_log.DEFAULT_QUEUE_ENTRIES,
    ) -> None:
        """Open the log at ``root``, or begin one there.  Queue files that exist decide their own size.

        Raises:
            TornRecord, CorruptRecord: the log is damaged.
        """
        self._files = small_log.Files(fs, root)
        self._segment_size = segment_size
        self._queue_entries = queue_entries
        self._tail = small_log.Tail(root / "commitlog")
        self._next: dict[TopicQueue, int] = {}
        self._entries: dict[TopicQueue, dict[int, bytes]] = {}
        self._entry_count = 0
        if fs.names(self._tail.folder):
            self._reopen()

    def append(
        self, message: Message, *, queue_offset: int | None = None, store_time: int = 0, store_host: str = NO_HOST
    ) -> Appended:
        """Append ``message`` at ``queue_offset`` (None: behind its queue's last) and return where it went.

        Raises:
            TopicUnusable, RecordTooLarge: it does not fit; nothing was written.
        """
        queue = small_log.queue_of(message)
        offset = self._next.get(queue, 0) if queue_offset is None else queue_offset
        tail = self._tail
        place = Placement(LogPosition(tail.end), QueueOffset(offset), store_time, store_host)
        record = BLUEPRINT.write(message, place)
        if not tail.has_room_for(len(record)):
            self._files.write_tail(tail)
            start = tail.starts[-1] + tail.capacity if tail.starts else 0
            tail.roll(start, max(self._segment_size, len(record)))
            place = replace(place, position=LogPosition(start))
            record = BLUEPRINT.write(message, place)
        row = small_log.scanned(BLUEPRINT, record, place.position)
        tail.add(record)
        self._note(row)
        if len(tail.waiting) + self._entry_count * small_log.ENTRY_COST > small_log.MOST_WAITING:
            self._write_out()
        return Appended(place.position, LogPosition(tail.end), QueueOffset(offset), store_time)

    def get(self, topic: str, queue_id: int, queue_offset: int) -> Record | None:
        """Return the record with that offset in its queue, or None."""
        self._write_out()
        at = queue_offset * WIDTH
        size = self._queue_entries * WIDTH
        path = self._folder(TopicQueue(topic, queue_id)) / small_log.file_name(at - at % size)
        data = self._files.read(path, WIDTH, at % size)
        if len(data) < WIDTH:
            return None
        entry = queue_entry.decode_rocketmq(data)
        if not entry.is_written or entry.is_before_start:
            return None
        return self._files.record(BLUEPRINT, self._tail, entry.position, entry.size)

    def flush(self) -> None:
        """Make everything appended so far survive a power cut."""
        self._write_out()
        self._files.sync()

    def close(self) -> None:
        """Flush; no file stays open in between."""
        self.flush()

    def _note(self, row: small_log.Row) -> None:
        """Remember the queue entry of a record, if it has one."""
        if row.status in (Status.PREPARED, Status.ROLLED_BACK):
            return
        entry = QueueEntry(row.position, row.size, row.tag_hash)
        self._entries.setdefault(row.queue, {})[row.offset] = queue_entry.encode_rocketmq(entry)
        self._next[row.queue] = max(self._next.get(row.queue, 0), row.offset + 1)
        self._entry_count += 1

    def _write_out(self) -> None:
        self._files.write_tail(self._tail)
        for queue, entries in self._entries.items():
            self._write_entries(self._folder(queue), entries)
        self._entries.clear()
        self._entry_count = 0

    def _write_entries(self, folder: Path, entries: dict[int, bytes]) -> None:
        size = self._queue_entries * WIDTH
        is_new = not self._files.fs.is_dir(folder)
        for first, data in _runs(entries, self._queue_entries):
            at = first % self._queue_entries * WIDTH
            path = folder / small_log.file_name(first * WIDTH - at)
            if is_new:
                # Zeros would end the queue for a reader: RocketMQ fills the place before a first offset like this.
                before = queue_entry.encode_rocketmq(QueueEntry(0, queue_entry.BEFORE_START_SIZE, 0))
                data, at, is_new = before * (at // WIDTH) + data, 0, False
            self._files.write(path, data, at, size)

    def _folder(self, queue: TopicQueue) -> Path:
        return self._files.root / "consumequeue" / queue.topic / str(queue.queue_id)

    def _reopen(self) -> None:
        self._queue_entries = self._found_queue_entries() or self._queue_entries
        log = open_log(self._files.root, BLUEPRINT.name, self._files.fs, live=False)
        for row in small_log.rows_of(log):
            self._note(row)
            if self._entry_count * small_log.ENTRY_COST > small_log.MOST_WAITING:
                self._write_out()
        self._tail.resume(log)
        self._write_out()

    def _found_queue_entries(self) -> int:
        """Return how many entries a queue file of this store has; 0 when there is none."""
        fs = self._files.fs
        root = self._files.root / "consumequeue"
        for folder in (root / topic / queue for topic in fs.names(root) for queue in fs.names(root / topic)):
            for name in fs.names(folder):
                file = fs.open(folder / name)
                size = file.size()
                file.close()
                return size // WIDTH
        return 0


def _runs(entries: dict[int, bytes], per_file: int) -> Iterator[tuple[int, bytes]]:
    """Yield the first number and the bytes of each run of entries that follow each other in one file."""
    first = -1
    run = bytearray()
    for number in sorted(entries):
        if run and (number != first + len(run) // WIDTH or number % per_file == 0):
            yield first, bytes(run)
            run.clear()
        if not run:
            first = number
        run += entries[number]
    if run:
        yield first, bytes(run)
