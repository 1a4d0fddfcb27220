"""What groups hold by receipts, of all queues: in memory, as records of ``LITEMQ_SYS_POP``, and as a snapshot.

Each change is made in memory and recorded in the log before its answer goes out.  Start = ``config/pop.json`` plus the
records behind it: receipts survive ``kill -9``, and a power cut as far as the log was flushed.  A state that is lost
costs deliveries that come twice, no message: the group's progress never passes what is not done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

from litemq.broker.pop_holders import PopHolders
from litemq.errors import CorruptRecord
from litemq.features.pop import Held, PopQueue
from litemq.format import pop_records
from litemq.format.config_json import JsonObject, Value
from litemq.format.names import POP_TOPIC
from litemq.format.pop_records import Kind, PopEntry
from litemq.store.message_store import MessageStore

logger = logging.getLogger(__name__)

SNAPSHOT = "pop.json"
_SNAPSHOT_EVERY_MS = 10_000
_HELD_PER_STEP = 100_000
"""A snapshot of so many more held messages comes so much later again."""
_HELD_PER_RECORD = 10_000

Key = tuple[str, str, int]
"""Group, topic, queue id."""


class PopStates:
    """The ``PopQueue`` of every group and queue, and their way into the log and back."""

    def __init__(self, store: MessageStore, *, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._clock_ms = now_ms
        self._now = 0
        self.of: dict[tuple[str, str], dict[int, PopQueue]] = {}
        """(group, topic) → queue id → state."""
        self.holders = PopHolders(self.all)
        self.in_flight = 0
        """Messages held; exact after every ``count``."""
        self.records = 0
        self._waiting: list[PopEntry] = []
        """Acknowledgements that are not recorded yet: they are, before anything else is, and before their answers."""
        self._snapshot: JsonObject | None = None
        self._snapshot_position = 0
        self._snapshot_at = 0
        self._changed = False
        self._stated_at = store.start
        """Everything that holds was said at or behind this position."""
        self._load()
        self._snapshot_at = self.now() + _SNAPSHOT_EVERY_MS

    def now(self) -> int:
        """Return the time in milliseconds; it never runs back, across a restart neither."""
        self._now = max(self._now, self._clock_ms())
        return self._now

    # -- finding ---------------------------------------------------------------------------------

    def find(self, group: str, topic: str, queue_id: int) -> PopQueue | None:
        """Return what a group holds of a queue; None when it never got anything of it."""
        return self.of.get((group, topic), {}).get(queue_id)

    def begin(self, group: str, topic: str, queue_id: int, offset: int) -> PopQueue:
        """Let a group go on with ``offset``, and forget what it held of the queue."""
        queues = self.of.setdefault((group, topic), {})
        queue = queues.get(queue_id)
        if queue is None:
            queue = queues[queue_id] = PopQueue(offset)
        queue.reset(offset)
        queue.told = -1
        self.record([PopEntry(Kind.BEGUN, group, topic, queue_id, (offset,))])
        self.note_progress((group, topic, queue_id), queue)
        return queue

    def all(self) -> Iterator[tuple[Key, PopQueue]]:
        """Yield every state."""
        for (group, topic), queues in self.of.items():
            for queue_id, queue in queues.items():
                yield (group, topic, queue_id), queue

    def count(self) -> int:
        """Count what is held."""
        self.in_flight = sum(queue.count for _, queue in self.all())
        return self.in_flight

    def forget(self, *, group: str = "", topic: str = "") -> None:
        """Forget what a group holds, or what is held of a topic."""
        gone = [key for key in self.of if key[0] == group or key[1] == topic]
        for key in gone:
            del self.of[key]
        if gone:
            self.record([PopEntry(Kind.FORGOTTEN, group, topic, 0, ())])

    def note_progress(self, key: Key, queue: PopQueue) -> None:
        """Let the group's progress follow the lowest offset that is not done."""
        floor = queue.floor
        if floor != queue.told:
            queue.told = floor
            self._store.progress.commit(*key, floor)

    # -- the log ---------------------------------------------------------------------------------

    def record(self, entries: Iterable[PopEntry]) -> int:
        """Append a record of what has changed, behind what waits for one; return the log's end behind it."""
        entries = [*self._waiting, *entries]
        self._waiting.clear()
        if entries:
            self._store.append_state(POP_TOPIC, pop_records.encode(entries))
            self.records += 1
            self._changed = True
        return self._store.appended_end

    def record_later(self, entry: PopEntry) -> None:
        """Let the next record tell this, too."""
        self._waiting.append(entry)

    def carry(self, start: int) -> int:
        """Say again what holds, before the log's segments below ``start`` go."""
        if start > self._stated_at:
            self.record(())
            stated_at = self._store.appended_end
            for (group, topic, queue_id), queue in self.all():
                for number, share in enumerate(_shares(queue.held())):
                    kind = Kind.HELD if number == 0 else Kind.HELD_TOO
                    numbers = [queue.next, *(value for held in share for value in held[:4])]
                    self.record([PopEntry(kind, group, topic, queue_id, numbers)])
            self._stated_at = stated_at
        return start

    def _load(self) -> None:
        first = self._load_snapshot(self._store.load_table(SNAPSHOT))
        reader = self._store.reader
        end = reader.max_offset(POP_TOPIC, 0)
        for offset in range(max(first, reader.min_offset(POP_TOPIC, 0)), end):
            try:
                record = reader.message_at(POP_TOPIC, 0, offset)
            except CorruptRecord as error:
                logger.warning("a record of receipts is damaged: offset=%d reason=%s", offset, error)
                continue
            if record is not None:
                self._replay(record.body)
        for key, queue in self.all():
            self._meet_progress(key, queue)
        self.count()

    def _load_snapshot(self, table: JsonObject | None) -> int:
        """Take in a snapshot; return the offset of the first record that it does not cover."""
        queues = table.get("queues") if table is not None else None
        after = table.get("offset") if table is not None else None
        if not isinstance(queues, list) or not isinstance(after, int):
            return 0
        try:
            for told in queues:
                group, topic, queue_id, queue = _read_queue(told)
                self.of.setdefault((group, topic), {})[queue_id] = queue
                self._now = max(self._now, queue.newest)
        except ValueError as error:
            logger.warning("the snapshot of receipts cannot be read, its records are: reason=%s", error)
            self.of.clear()
            return 0
        return after

    def _replay(self, body: bytes) -> None:
        try:
            for entry in pop_records.decode(body):
                self._replay_entry(entry)
        except ValueError as error:
            logger.warning("a record of receipts cannot be read: reason=%s", error)

    def _replay_entry(self, entry: PopEntry) -> None:
        kind, group, topic, queue_id, numbers = entry
        if kind == Kind.FORGOTTEN:
            for key in [key for key in self.of if key[0] == group or key[1] == topic]:
                del self.of[key]
            return
        queues = self.of.setdefault((group, topic), {})
        queue = queues.get(queue_id)
        if queue is None:
            queue = queues[queue_id] = PopQueue(0)
        if kind in (Kind.HELD, Kind.HELD_TOO, Kind.BEGUN):
            newest = _restore(queue, kind, numbers)
        else:
            newest = _repeat(queue, kind, numbers)
        self._now = max(self._now, newest)

    def _meet_progress(self, key: Key, queue: PopQueue) -> None:
        """Bring a state and the group's progress together after a start.

        Progress is recorded later than what moves it, so that it is behind as a rule.  Where it is ahead, either
        messages were passed over that the group's filter does not want, or somebody set it.
        """
        offset = self._store.progress.offset(*key)
        if offset is not None and offset > queue.floor:
            queue.advance(offset)
        self.note_progress(key, queue)

    # -- snapshot --------------------------------------------------------------------------------

    def save(self, now_ms: int) -> None:
        """Write a snapshot now and then, as of a position that is flushed."""
        if self._snapshot is not None and self._store.flushed_end >= self._snapshot_position:
            self._store.save_table(SNAPSHOT, self._snapshot)
            self._snapshot = None
        if self._changed and self._snapshot is None and now_ms >= self._snapshot_at:
            self._snapshot = self.to_json()
            self._snapshot_position = self._store.appended_end
            self._snapshot_at = now_ms + _SNAPSHOT_EVERY_MS * (1 + self.in_flight // _HELD_PER_STEP)
            self._changed = False

    def to_json(self) -> JsonObject:
        """Return ``pop.json`` as of the log's end."""
        self.record(())
        queues: list[Value] = []
        for (group, topic, queue_id), queue in self.all():
            dumped: JsonObject = {"group": group, "topic": topic, "queue": queue_id}
            for name, value in queue.dump().items():
                dumped[name] = [*value] if isinstance(value, list) else value
            queues.append(dumped)
        return {
            "litemq": {"position": self._store.appended_end},
            "offset": self._store.queue(POP_TOPIC, 0).next_offset,
            "queues": queues,
        }

    def close(self) -> None:
        """Write the last snapshot; the log must be flushed."""
        if self.of or self._changed:
            self._store.save_table(SNAPSHOT, self.to_json())


def _shares(held: Iterable[Held]) -> Iterator[list[Held]]:
    """Yield what is held in shares that fit into a record; one share at least."""
    share: list[Held] = []
    is_first = True
    for one in held:
        share.append(one)
        if len(share) == _HELD_PER_RECORD:
            yield share
            share, is_first = [], False
    if share or is_first:
        yield share


def _read_queue(told: Value) -> tuple[str, str, int, PopQueue]:
    if not isinstance(told, dict):
        raise ValueError("a queue is no object")
    group, topic, queue_id = told.get("group"), told.get("topic"), told.get("queue")
    if not isinstance(group, str) or not isinstance(topic, str) or not isinstance(queue_id, int):
        raise ValueError("a queue has no name")
    return group, topic, queue_id, PopQueue.load(told)


def _restore(queue: PopQueue, kind: int, numbers: Sequence[int]) -> int:
    """Do what an entry says that tells a whole state; return the newest time in it."""
    if kind != Kind.HELD_TOO:
        queue.reset(numbers[0])
    for at in range(1, len(numbers), 4):
        queue.restore(Held(*numbers[at : at + 4]))
    return max(numbers[2::4], default=0)


def _repeat(queue: PopQueue, kind: int, numbers: Sequence[int]) -> int:
    """Do what an entry says that tells a change; return the newest time in it."""
    match kind:
        case Kind.HANDED_OUT:
            after, time_ms, until_ms, *offsets = numbers
            queue.hand_out(offsets, max(after, queue.next), time_ms, until_ms)
            return time_ms
        case Kind.ACKNOWLEDGED:
            for offset, generation in zip(numbers[::2], numbers[1::2], strict=True):
                queue.acknowledge(offset, generation)
        case Kind.CHANGED:
            offset, generation, changed, until_ms = numbers
            if queue.attempt(offset)[1] == generation:
                queue.set(offset, changed, until_ms)
            return changed
        case Kind.FINISHED:
            for offset in numbers:
                queue.finish(offset)
        case _:
            pass  # of a later version
    return 0
