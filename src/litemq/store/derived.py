"""Write the ConsumeQueues and the key index of a log anew: what convert, rebuild and repair share.

The live store's own parts write them, so that the bytes are those that a broker would have written.  But a log that
comes from elsewhere may hold what a broker never writes: queue offsets that go back, repeat or leap.  An entry then
stands where its record says, the newest record of an offset wins, and what lies between is filled as RocketMQ fills
the space before a queue's first offset; files that would hold nothing else are not made.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from litemq.errors import BadStore
from litemq.format import rows
from litemq.format.index_file import DEFAULT_ENTRIES, DEFAULT_SLOTS
from litemq.format.limits import is_folder_name
from litemq.format.queue_entry import QueueEntry
from litemq.format.record import Format
from litemq.store import changes
from litemq.store._tails_cy import QueueTail
from litemq.store.consume_queue import ConsumeQueues
from litemq.store.deletions import has_changes
from litemq.store.dispatcher import MAX_OFFSET, Dispatcher, keys_only
from litemq.store.fs import FileSystem
from litemq.store.key_index import KeyIndex
from litemq.store.layout import DEFAULT_QUEUE_ENTRIES, DEFAULT_SEGMENT_BYTES
from litemq.store.log_walk import MAX_LISTED
from litemq.store.tables import Tables

QUEUES: Final = "consumequeue"
INDEX: Final = "index"

_OPEN_FILES: Final = 256
_SMALL_GAP: Final = 4096
"""Missing offsets that are filled entry by entry, as a live store fills those of damaged records."""
_ROWS_BETWEEN_WRITES: Final = 1 << 20
"""Entries may wait in memory for so many records: with many queues, none of them gets its own write for long."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the files of a store."""

    segment_bytes: int = DEFAULT_SEGMENT_BYTES
    queue_entries: int = DEFAULT_QUEUE_ENTRIES
    index_slots: int = DEFAULT_SLOTS
    index_entries: int = DEFAULT_ENTRIES

    def check(self) -> None:
        """Refuse sizes with which no store can be written.

        Raises:
            BadStore: one of them is out of range.
        """
        for name, value, low in (
            ("segment size", self.segment_bytes, 128),
            ("queue entries", self.queue_entries, 1),
            ("index slots", self.index_slots, 1),
            ("index entries", self.index_entries, 2),  # number 0 is never used
        ):
            if not low <= value <= 0x7FFFFFFF:
                raise BadStore(f"{name} must be {low} to {0x7FFFFFFF}, not {value}")


@dataclass(slots=True)
class Rejected:
    """Records for which nothing can be derived."""

    listed: list[tuple[int, str]] = field(default_factory=list)
    """Position and reason of the first of them."""
    count: int = 0

    def add(self, position: int, reason: str) -> None:
        self.count += 1
        if len(self.listed) < MAX_LISTED:
            self.listed.append((position, reason))

    @classmethod
    def of(cls, parts: Iterable[Rejected]) -> Rejected:
        """Put together what was rejected in parts that follow each other."""
        found = cls()
        for part in parts:
            found.count += part.count
            found.listed += part.listed[: MAX_LISTED - len(found.listed)]
        return found


class Derived:
    """Fed with the rows of a whole log, in log order; then ``finish``."""

    def __init__(
        self,
        fs: FileSystem,
        root: Path,
        fmt: Format,
        sizes: Sizes,
        *,
        now_ms: Callable[[], int],
        batch_topics: Container[str] = frozenset(),
        wants_queue: Callable[[str, int], bool] = lambda _topic, _queue: True,
        with_index: bool = True,
    ) -> None:
        """Write below ``root``; queues that ``wants_queue`` refuses, and those of ``batch_topics``, get no files."""
        self.tables = Tables()
        """What the changes in the log add up to, by the positions of this log."""
        self.on_change: Callable[[changes.Change, int], None] = lambda _change, _position: None
        """Called with each change and its position, after it was applied."""
        self._fs = fs
        self._root = root
        self._now_ms = now_ms
        self._with_index = with_index
        self._queues = LooseQueues(fs, root / QUEUES, fmt.name, sizes.queue_entries, _OPEN_FILES)
        slots, entries = (sizes.index_slots, sizes.index_entries) if with_index else (1, 2)
        self._index = KeyIndex(fs, root / INDEX, slots, entries)
        self._per_index_file = entries - 1
        self._feeder = Feeder(
            self._queues,
            self._index,
            now_ms=now_ms,
            first_offset=self.tables.first_offset,
            has_batch_queues=lambda topic: topic in batch_topics,
            log_start=lambda: 0,
        )
        self._feeder.wants_queue = wants_queue
        self._feeder.rejected = Rejected()
        if has_changes(fmt):
            self._feeder.on_change = self.apply
        self._rows = 0

    def apply(self, body: bytes, position: int, origin: int | None) -> None:
        """Take in a change of the log; queues of a topic that it deletes go."""
        change = changes.decode(body)
        if change is None:
            return
        self.tables.apply(change, position, origin)
        if change.op == "topic-deleted":
            self._queues.drop_topic(change.name)
        self.on_change(change, position)

    def feed(self, view: memoryview, table: array[int], count: int, damage_position: int = -1) -> None:
        """Take in rows 0 to ``count``; ``damage_position`` is that of the latest damage before them, -1 without."""
        if not self._with_index:
            for column in (rows.ID_SIZE, rows.KEYS_SIZE):  # then there is no key to be indexed
                table[column : count * rows.WIDTH : rows.WIDTH] = array("q", bytes(8 * count))
        self._feeder.feed(view, table, count, damage_position)
        self._rows += count
        if self._rows >= _ROWS_BETWEEN_WRITES:
            self._rows = 0
            self._queues.write_out_all()

    def keep_offset(self, topic: str, queue_id: int, next_offset: int) -> None:
        """Let a queue without entries begin at ``next_offset``; after ``finish``."""
        if next_offset > 0 and self._queues.find(topic, queue_id) is None and not self._is_deleted(topic):
            self._queues.reserve(topic, queue_id, next_offset)

    def _is_deleted(self, topic: str) -> bool:
        return topic in self.tables.deletions.dead_below and topic not in self.tables.topics

    def finish(self) -> None:
        """Write everything out and close the files; nothing is synced by this."""
        try:
            self._fs.make_dirs(self._root / QUEUES)
            self._queues.write_out_all()
            if self._with_index:
                self._fs.make_dirs(self._root / INDEX)
                self._index.write_slots(self._now_ms())
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the files as they are; may be called twice."""
        self._queues.close()
        self._index.close()

    @property
    def rejected(self) -> Rejected:
        return self._feeder.rejected

    @property
    def index_files(self) -> int:
        return self._index.rolls + (self._index.tail.count > 1)

    @property
    def index_entries(self) -> int:
        return self._index.rolls * self._per_index_file + self._index.tail.count - 1


class LooseQueues(ConsumeQueues):
    """ConsumeQueues whose entries can be written in any order."""

    def put(self, tail: QueueTail, offset: int, entry: QueueEntry) -> None:
        """Set the entry of an offset that the queue has passed already."""
        self.write_out(tail)
        at = offset * self._stride
        start = at - at % self._file_bytes
        if start not in tail.files.starts:
            self._make(tail.files, start, start + self._file_bytes)
        self._file(tail.files, start).write_at(self._layout.encode(entry), at - start)

    def reserve(self, topic: str, queue_id: int, next_offset: int) -> None:
        """Make a queue that has no entries and goes on at ``next_offset``."""
        tail = self.open(topic, queue_id, next_offset)
        last = (next_offset - 1) * self._stride
        self._make(tail.files, last - last % self._file_bytes, next_offset * self._stride)

    def skip_to(self, tail: QueueTail, offset: int) -> None:
        """Let a queue that has entries go on at ``offset``."""
        self.write_out(tail)
        at = tail.next_offset * self._stride
        start = at - at % self._file_bytes
        end = min(start + self._file_bytes, offset * self._stride)
        if start in tail.files.starts:
            self._file(tail.files, start).write_at(self.filler * ((end - at) // self._stride), at - start)
        tail.next_offset = offset


class Feeder(Dispatcher):
    """A dispatcher for logs that no broker wrote in one go."""

    queues: LooseQueues
    wants_queue: Callable[[str, int], bool]
    rejected: Rejected

    def _open(self, topic: str, queue_id: int) -> QueueTail | None:
        if _unusable(topic, queue_id) is not None:
            return None  # its records are named one by one
        if not self.wants_queue(topic, queue_id):
            return keys_only(topic, queue_id)
        return super()._open(topic, queue_id)

    def _feed_run(
        self,
        view: memoryview,
        table: array[int],
        row: int,
        count: int,
        tails: list[QueueTail | None],
        damage_position: int,
    ) -> None:
        if None in tails[row:]:
            for number in range(row, count):
                if tails[number] is None:
                    self._reject(view, table, number * rows.WIDTH)
        super()._feed_run(view, table, row, count, tails, damage_position)

    def _reject(self, view: memoryview, table: array[int], o: int) -> None:
        at = table[o + rows.TOPIC_AT]
        topic = bytes(view[at : at + table[o + rows.TOPIC_SIZE]]).decode()
        reason = _unusable(topic, table[o + rows.QUEUE_ID])
        assert reason is not None
        self.rejected.add(table[o + rows.POSITION], reason)

    def _mend(self, tails: list[QueueTail | None], table: array[int], row: int, damage_position: int) -> None:
        tail = tails[row]
        assert tail is not None
        o = row * rows.WIDTH
        offset = table[o + rows.QUEUE_OFFSET]
        gap = offset - tail.next_offset
        if not 0 <= offset < MAX_OFFSET:
            self.rejected.add(table[o + rows.POSITION], f"queue offset {offset} is out of range")
            tails[row] = keys_only(tail.topic, tail.queue_id)
        elif not tail.files.starts and not tail.used:
            tail.next_offset = offset  # an empty queue starts where its first record says
        elif gap < 0:
            entry = QueueEntry(
                table[o + rows.POSITION], table[o + rows.SIZE], table[o + rows.TAG_HASH], table[o + rows.STORE_TIME]
            )
            self.queues.put(tail, offset, entry)
            tails[row] = keys_only(tail.topic, tail.queue_id)
        elif gap > _SMALL_GAP:
            self.gaps += gap
            self.queues.skip_to(tail, offset)
        else:
            super()._mend(tails, table, row, damage_position)


def _unusable(topic: str, queue_id: int) -> str | None:
    """Return why there can be no such queue; None when there can."""
    return f"queue id {queue_id} is below 0" if queue_id < 0 else is_folder_name(topic)
