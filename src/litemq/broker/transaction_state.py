"""What is pending, across a restart: a snapshot, and the records of both queues behind it.

``config/litemqTransactions.json`` is a snapshot of what is pending, with the offsets from which both queues are to be
replayed.  Without one, or in a store that a real RocketMQ wrote last, what is pending may be in its topic all the
same; it is looked for by its id before it is committed or asked about.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from litemq.broker import half_records as records
from litemq.broker.system_topics import HALF_OP_TOPIC, HALF_TOPIC
from litemq.broker.transaction_ends import TransactionEnds
from litemq.format.config_json import JsonObject
from litemq.store.message_store import MessageStore
from litemq.store.snapshot import position_of
from litemq.types import Record

logger = logging.getLogger(__name__)

SNAPSHOT: Final = "litemqTransactions.json"
_ROCKETMQ_GROUP: Final = "CID_RMQ_SYS_TRANS"
"""Its offsets say how far a real RocketMQ has dealt with both queues."""

_QUEUES: Final = (("half", HALF_TOPIC), ("op", HALF_OP_TOPIC))
_SNAPSHOT_EVERY_MS: Final = 10_000
_PENDING_PER_MS: Final = 50
"""A snapshot of so many pending takes its millisecond: many make it come less often."""

_CARRIED_BYTES: Final = 16 << 20
"""Half messages that one pass of retention appends again."""


class TransactionState:
    """Loads what is pending, saves it, and carries it past segments that go."""

    def __init__(self, store: MessageStore, ends: TransactionEnds, *, first_check_ms: int) -> None:
        self._store = store
        self._ends = ends
        self._first_check_ms = first_check_ms
        self._snapshot: JsonObject | None = None
        self._snapshot_position = 0
        self._snapshot_at = 0  # at once: a start without one cannot be sure of anything
        self._load()

    def _load(self) -> None:
        reader = self._store.reader
        half_end = reader.max_offset(HALF_TOPIC, 0)
        table = self._store.load_table(SNAPSHOT)
        found = self._from_snapshot(table)
        if found is None:
            self._ends.unsure_end = half_end
            half_from, op_from = self._from_rocketmq(reader.min_offset(HALF_TOPIC, 0))
        else:
            half_from, op_from, self._ends.unsure_end = found
        if self._store.was_foreign:
            self._ends.unsure_end = half_end
            passed, _ = self._from_rocketmq(0)
            half_from = max(half_from, passed)
            while (entry := self._ends.pending.first_from(0)) is not None and entry.offset < passed:
                self._ends.pending.end(entry.offset)
        self._replay(half_from, half_end, op_from)
        self._ends.is_changed = True
        self._mend()
        if self._ends.pending:
            logger.info("transactions pending: count=%d", len(self._ends.pending))

    def _from_snapshot(self, table: JsonObject | None) -> tuple[int, int, int] | None:
        """Take a snapshot in; return from where to replay both queues, and up to which half message nothing is sure."""
        position = position_of(table)
        if table is None or position is None or position > self._store.appended_end:
            return None
        places = [table.get(name) for name in ("half", "op", "unsure")]
        groups, blocks = table.get("groups"), table.get("blocks")
        if not isinstance(groups, list) or not isinstance(blocks, dict):
            return None
        texts = {number: text for number, text in blocks.items() if isinstance(text, str)}
        known = [name for name in groups if isinstance(name, str)]
        numbers = [place for place in places if isinstance(place, int)]
        if len(numbers) != len(places) or not self._ends.pending.load(known, texts):
            return None
        return numbers[0], numbers[1], numbers[2]

    def _from_rocketmq(self, first: int) -> tuple[int, int]:
        """Return up to where a real RocketMQ has dealt with both queues."""
        progress = self._store.progress
        halves = progress.offset(_ROCKETMQ_GROUP, HALF_TOPIC, 0) or 0
        ops = progress.offset(_ROCKETMQ_GROUP, HALF_OP_TOPIC, 0) or 0
        return max(first, halves), ops

    def _replay(self, half_from: int, half_end: int, op_from: int) -> None:
        """Go through what came since: first what ended, so that most half messages need not be read."""
        ended: set[int] = set()
        for record in self._records(HALF_OP_TOPIC, op_from, self._store.reader.max_offset(HALF_OP_TOPIC, 0)):
            for offset in records.ended_offsets(record.body):
                if not self._ends.pending.end(offset):
                    ended.add(offset)
        for record in self._records(HALF_TOPIC, half_from, half_end, without=ended):
            half = records.half_of(record)
            earlier = half.earlier_offset
            if earlier >= 0 and not half.is_carried and earlier in ended:
                continue  # a copy of RocketMQ's; ours is pending although what it was before has ended
            self._ends.pending.end(earlier)
            self._ends.note(half, self._first_check_ms)

    def _records(
        self, topic: str, first: int, end: int, *, without: set[int] | frozenset[int] = frozenset()
    ) -> Iterator[Record]:
        for offset in range(max(first, self._store.reader.min_offset(topic, 0)), end):
            if offset not in without:
                record = self._ends.log.record(topic, offset)
                if record is not None:
                    yield record

    def _mend(self) -> None:
        """End what the last append before a crash ended, although its op record did not get into the log."""
        for position in self._store.recovered.newest:
            record = self._ends.log.at(position)
            half = self._ends.log.at(record.prepared_offset or -1) if record is not None else None
            if half is not None and half.topic == HALF_TOPIC and self._ends.pending.is_pending(half.queue_offset):
                logger.info("transaction ended before a crash: offset=%d", half.queue_offset)
                self._ends.finish([], half.queue_offset, self._ends.log.decision(records.half_of(half)))

    def save(self, now_ms: int) -> None:
        """Write a snapshot now and then, as of a position that is flushed."""
        if self._snapshot is not None and self._store.flushed_end >= self._snapshot_position:
            self._store.save_table(SNAPSHOT, self._snapshot)
            self._snapshot = None
        if self._ends.is_changed and self._snapshot is None and now_ms >= self._snapshot_at:
            self._snapshot_position = self._store.appended_end
            self._snapshot = self.to_json()
            self._snapshot_at = now_ms + _SNAPSHOT_EVERY_MS + len(self._ends.pending) // _PENDING_PER_MS
            self._ends.is_changed = False

    def to_json(self) -> JsonObject:
        """Return the snapshot as of the log's end."""
        groups, blocks = self._ends.pending.export()
        queues = {name: self._store.queue(topic, 0).next_offset for name, topic in _QUEUES}
        return {
            "litemq": {"position": self._store.appended_end},
            **queues,
            "unsure": self._ends.unsure_end,
            "groups": list(groups),
            "blocks": dict(blocks),
        }

    def close(self) -> None:
        """Write the last snapshot; the log must be flushed."""
        self._store.save_table(SNAPSHOT, self.to_json())

    # -- retention -------------------------------------------------------------------------------

    def carry_below(self, start: int) -> int:
        """Append pending half messages below ``start`` again; return below which position none is left."""
        room = _CARRIED_BYTES
        entry = self._ends.pending.first_from(0)
        while entry is not None:
            record = self._ends.log.record(HALF_TOPIC, entry.offset)
            if record is not None:
                if record.position >= start:
                    return start
                if room <= 0:
                    return record.position  # the rest with the next pass
                room -= record.size
                self._ends.carry(records.half_of(record), entry.due_ms, entry.checks)
            entry = self._ends.pending.first_from(entry.offset + 1)
        return start
