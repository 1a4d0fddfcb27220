"""A small writable log in ``tmq`` format: a tree with one log per queue.

    {topic}/{queue}/{20 digits}   each segment starts where the written part before it ends
    {topic}/{queue}/index         entry i is the i-th record of the queue, whatever its queue offset says

Bodies must be plain (``to_message(record, plain_body=True)``).  Rules of waiting and reopening: ``small_log``.
"""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Final

from litemq.format import queue_entry
from litemq.format.placement import Placement
from litemq.format.queue_entry import TMQ_ENTRY_SIZE as WIDTH
from litemq.format.queue_entry import TmqEntry
from litemq.format.record import TMQ
from litemq.format.reserved import signed64
from litemq.store import small_log
from litemq.store.fs import FileSystem
from litemq.store.log_walk import open_log
from litemq.types import Appended, LogPosition, Message, QueueOffset, Record, TopicQueue

INDEX: Final = "index"
MAX_SEGMENT_SIZE: Final = 0xFFFFFFFF
"""An index entry says the place in a segment with 32 bits."""


class TmqLog:
    """A tree of queues below ``root``; a queue is opened when it is first used."""

    def __init__(self, fs: FileSystem, root: Path, *, segment_size: int = small_log.DEFAULT_SEGMENT_SIZE) -> None:
        self._files = small_log.Files(fs, root)
        self._segment_size = min(segment_size, MAX_SEGMENT_SIZE)
        self._queues: dict[TopicQueue, _Queue] = {}
        self._dirty: dict[TopicQueue, _Queue] = {}
        self._waiting = 0
        self.newest = b""
        """Bytes of the record that was appended last."""

    def append(self, message: Message, *, queue_offset: int | None = None) -> Appended:
        """Append ``message`` at ``queue_offset`` (None: behind its queue's last) and return where it went.

        Raises:
            TopicUnusable, RecordTooLarge: it does not fit; nothing was written.
            TornRecord, CorruptRecord: the queue was there and is damaged.
        """
        queue = self._queue(small_log.queue_of(message))
        offset = queue.next_offset if queue_offset is None else queue_offset
        position = queue.tail.end
        record = TMQ.write(message, Placement(LogPosition(position), QueueOffset(offset)))
        if not queue.tail.has_room_for(len(record)):
            self._files.write_tail(queue.tail)
            queue.tail.roll(position, max(self._segment_size, len(record)))
        queue.add(record, offset)
        self.newest = record
        self._dirty[queue.name] = queue
        self._waiting += len(record) + WIDTH
        if self._waiting > small_log.MOST_WAITING:
            self._write_out()
        return Appended(
            LogPosition(position), LogPosition(queue.tail.end), QueueOffset(offset), signed64(message.born_time)
        )

    def get(self, topic: str, queue_id: int, number: int) -> Record | None:
        """Return the ``number``-th record of a queue, counted from 0, or None."""
        self._write_out()
        queue = self._queue(TopicQueue(topic, queue_id))
        if not 0 <= number < queue.count:
            return None
        entry = queue_entry.decode_tmq(self._files.read(queue.tail.folder / INDEX, WIDTH, number * WIDTH))
        position = queue.tail.starts[entry.segment] + entry.place
        return self._files.record(TMQ, queue.tail, position, entry.size, f"{topic}/{queue_id}/")

    @property
    def segment_count(self) -> int:
        """Return how many segments the queues have that were used."""
        return sum(len(queue.tail.starts) for queue in self._queues.values())

    def flush(self) -> None:
        """Make everything appended so far survive a power cut."""
        self._write_out()
        self._files.sync()

    def close(self) -> None:
        """Flush; no file stays open in between."""
        self.flush()

    def _write_out(self) -> None:
        for queue in self._dirty.values():
            self._files.write_tail(queue.tail)
            self._write_entries(queue)
        self._dirty.clear()
        self._waiting = 0

    def _write_entries(self, queue: _Queue) -> None:
        if queue.entries:
            at = queue.count * WIDTH - len(queue.entries)
            self._files.write(queue.tail.folder / INDEX, queue.entries, at)
            queue.entries.clear()

    def _queue(self, name: TopicQueue) -> _Queue:
        queue = self._queues.get(name)
        if queue is None:
            folder = self._files.root / name.topic / str(name.queue_id)
            queue = _Queue(name, small_log.Tail(folder))
            if self._files.fs.names(folder):
                self._reopen(queue)
            self._queues[name] = queue
        return queue

    def _reopen(self, queue: _Queue) -> None:
        """Walk over the queue's log and write its index file anew: it may lag behind, or run ahead of, the log."""
        folder = queue.tail.folder
        log = open_log(folder, TMQ.name, self._files.fs, live=False)
        found = array("q")
        for row in small_log.rows_of(log):
            found.extend((row.position, row.size, row.offset))
        queue.tail.resume(log)
        for i in range(0, len(found), 3):
            queue.note(found[i], found[i + 1], found[i + 2])
        if self._files.fs.exists(folder / INDEX):
            index = self._files.fs.open(folder / INDEX, write=True)
            index.truncate(len(queue.entries))
            index.close()
        self._write_entries(queue)


class _Queue:
    """One queue: the end of its log, and index entries that are not written yet."""

    def __init__(self, name: TopicQueue, tail: small_log.Tail) -> None:
        self.name = name
        self.tail = tail
        self.count = 0
        self.next_offset = 0
        self.entries = bytearray()

    def add(self, record: bytes, offset: int) -> None:
        position = self.tail.end
        self.tail.add(record)
        self.note(position, len(record), offset)

    def note(self, position: int, size: int, offset: int) -> None:
        """Add the index entry of a record."""
        segment = self.tail.segment_of(position)
        place = position - self.tail.starts[segment]
        self.entries += queue_entry.encode_tmq(TmqEntry(segment, place, position + size, size))
        self.count += 1
        self.next_offset = max(self.next_offset, offset + 1)
