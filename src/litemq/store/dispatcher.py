"""The dispatcher: follows the log and feeds everything that is derived from it.

The same code serves new messages (rows come from staging), recovery and later replicas (rows come from a scan).
It knows nothing of why a record was written; it only keeps ConsumeQueues and key index in step with the log.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable
from pathlib import Path

from litemq.format import rows
from litemq.format.limits import is_folder_name
from litemq.format.names import CHANGES_TOPIC
from litemq.format.queue_entry import BEFORE_START_SIZE
from litemq.store._append_cy import Batch, dispatch_rows, resolve
from litemq.store._tails_cy import INDEX_TAIL_LIMIT, IndexTail, QueueTail
from litemq.store.consume_queue import ConsumeQueues
from litemq.store.key_index import KeyIndex
from litemq.store.queue_files import QueueFiles

logger = logging.getLogger(__name__)

_CHANGES = (CHANGES_TOPIC.encode(), 0)
MAX_OFFSET = (1 << 62) // 24
"""No queue gets so far."""
_SMALL_GAP = 4096
"""Missing offsets that are filled without a question."""
_SMALLEST_RECORD = 50
"""No record of any format is smaller."""
_WRITE_AT = 1 << 16
"""Bytes of filled offsets that are worth a write."""


class Dispatcher:
    """Feeds ``queues`` and ``index`` with the records of the log, in log order."""

    def __init__(
        self,
        queues: ConsumeQueues,
        index: KeyIndex,
        *,
        now_ms: Callable[[], int],
        first_offset: Callable[[str, int], int],
        has_batch_queues: Callable[[str], bool],
        log_start: Callable[[], int],
    ) -> None:
        self.queues = queues
        self.index = index
        self.gaps = 0
        """Offsets that were filled because their records are damaged or gone."""
        self.unplaced = 0
        """Records whose topic cannot be a folder name, or whose offsets make no sense."""
        self._now_ms = now_ms
        self._first_offset = first_offset
        self._has_batch_queues = has_batch_queues
        self._log_start = log_start
        self.on_error: Callable[[OSError], None] = lambda _error: None
        """Called when a derived file cannot be written: the log must take no more."""
        self.on_change: Callable[[bytes, int, int | None], None] = lambda _body, _position, _origin: None
        """Called with body, position and first position, if it was carried, of each change that a scan finds."""
        self._resolved: dict[tuple[bytes, int], QueueTail | None] = {}
        self._changes: QueueTail | None = None

    def finish(self, batch: Batch) -> None:
        """Do for an appended batch what the kernel leaves: roll the index, write tails out."""
        try:
            while batch.fed < batch.count:
                self.index.roll(self._now_ms())
                batch.fed = batch.dispatch(self.index.tail, batch.fed)
            self._write_out(batch.dirty, batch.full)
        except OSError as error:
            # The records are in the log, so the append succeeded; what is derived lags until the next start.
            self.on_error(error)
            batch.dispatch(IndexTail(1, 1 << 31), batch.fed)
            self.queues.note_dirty(batch.dirty)
            batch.full.clear()

    def _write_out(self, dirty: list[QueueTail], full: list[QueueTail]) -> None:
        self.queues.note_dirty(dirty)
        for tail in full:
            self.queues.write_out(tail)
        full.clear()
        self.queues.write_out_most()
        if self.index.tail.used >= INDEX_TAIL_LIMIT:
            self.index.write_tail(self._now_ms())

    def forget_queues(self) -> None:
        """Look every queue up anew: some went away."""
        self._resolved.clear()

    def feed(self, view: memoryview, table: array[int], count: int, damage_position: int = -1) -> None:
        """Feed scanned rows.  Entries that exist from the first row on are replaced by what the rows say."""
        first = 0
        while first < count:
            tails: list[QueueTail | None] = [None] * first
            while resolve(view, table, count, self._resolved, tails, self._changes) < count:
                if len(tails) > first and tails[-1] is self._changes is not None:
                    break  # it may take queues away: what follows is fed after it was applied
                self._resolve_one(view, table, len(tails))
            self._feed_run(view, table, first, len(tails), tails, damage_position)
            first = len(tails)
            if tails[-1] is self._changes is not None:
                self._apply_change(view, table, first - 1)

    def _apply_change(self, view: memoryview, table: array[int], row: int) -> None:
        o = row * rows.WIDTH
        at = table[o + rows.BODY_AT]
        body = bytes(view[at : at + table[o + rows.BODY_SIZE]])
        origin = table[o + rows.ORIGIN]
        self.on_change(body, table[o + rows.POSITION], origin if origin >= 0 else None)
        self.forget_queues()

    def _feed_run(
        self,
        view: memoryview,
        table: array[int],
        row: int,
        count: int,
        tails: list[QueueTail | None],
        damage_position: int,
    ) -> None:
        dirty: list[QueueTail] = []
        full: list[QueueTail] = []
        while True:
            row = dispatch_rows(view, table, row, count, tails, self.index.tail, dirty, full)
            self._write_out(dirty, full)
            if row == count:
                return
            if self.index.tail.count >= self.index.tail.entry_limit:
                self.index.roll(self._now_ms())
            else:
                self._mend(tails, table, row, damage_position)

    def _resolve_one(self, view: memoryview, table: array[int], row: int) -> None:
        o = row * rows.WIDTH
        at = table[o + rows.TOPIC_AT]
        key = (bytes(view[at : at + table[o + rows.TOPIC_SIZE]]), table[o + rows.QUEUE_ID])
        self._resolved[key] = tail = self._open(key[0].decode(), key[1])
        if key == _CHANGES:
            self._changes = tail

    def _open(self, topic: str, queue_id: int) -> QueueTail | None:
        reason = is_folder_name(topic)
        if reason is not None or queue_id < 0:
            self.unplaced += 1
            logger.warning("record without a queue: topic=%r queue_id=%d reason=%s", topic, queue_id, reason)
            return None
        if self._has_batch_queues(topic):  # RocketMQ keeps these in batchconsumequeue/, which is left alone
            return keys_only(topic, queue_id)
        return self.queues.open(topic, queue_id, self._first_offset(topic, queue_id))

    def _mend(self, tails: list[QueueTail | None], table: array[int], row: int, damage_position: int) -> None:
        """Bring a queue to the offset that the record in the log states: the log is the truth."""
        tail = tails[row]
        assert tail is not None
        o = row * rows.WIDTH
        offset = table[o + rows.QUEUE_OFFSET]
        if 0 <= offset < MAX_OFFSET and self.queues.is_empty(tail):
            self.queues.start_at(tail, offset)  # an empty queue starts where its first record says
        elif not self._is_possible(tail, offset, table[o + rows.POSITION]):
            self.unplaced += 1
            logger.warning("record with an impossible queue offset: topic=%r offset=%d", tail.topic, offset)
            tails[row] = keys_only(tail.topic, tail.queue_id)
        elif offset < tail.next_offset:
            self.queues.truncate(tail, offset)
        else:
            self._fill(tail, offset, max(tail.last_position, damage_position, 1), table[o + rows.STORE_TIME])

    def _is_possible(self, tail: QueueTail, offset: int, position: int) -> bool:
        """Return whether a queue that has entries may go on at ``offset``: not every field of a record is checked."""
        if offset > tail.next_offset:
            # What is missing stood between the queue's last record and this one.
            missing = offset - tail.next_offset
            return missing <= _SMALL_GAP or missing <= (position - tail.last_position) // _SMALLEST_RECORD
        if offset <= 0:
            return offset == 0  # a real RocketMQ starts a topic anew that was deleted
        if tail.last_position < self._log_start():
            return True  # no record can vouch for the entries: after a power cut they may be what is left of others
        entry = self.queues.entry(tail, offset)
        return entry is None or entry.position >= position

    def _fill(self, tail: QueueTail, offset: int, position: int, time: int) -> None:
        """Give damaged messages their entries: all offsets before ``offset``."""
        self.gaps += offset - tail.next_offset
        while tail.next_offset < offset:
            tail.add_entry(position, BEFORE_START_SIZE, 0, time)  # position 0 would mean: before the queue's start
            if tail.used >= _WRITE_AT:
                self.queues.write_out(tail)
        self.queues.note_dirty([tail])


def keys_only(topic: str, queue_id: int) -> QueueTail:
    """Return the tail of a queue whose records have keys but no entries."""
    return QueueTail(topic, queue_id, 20, -1, QueueFiles(Path(), []))
