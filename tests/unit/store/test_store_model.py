"""A store against a model: whatever is done to it, it answers as plain lists and dictionaries would.

The files are real, but never synced: the runs are many, and the machine stays on.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.hooked_fs import HookedFileSystem
from tests.support.power_switch import NoSync

from litemq.clock import ManualClock
from litemq.config import FlushPolicy, StoreConfig, WritableFormat
from litemq.errors import RecordTooLarge, UnknownTopic
from litemq.store.fs import OsFileSystem
from litemq.store.message_store import MessageStore
from litemq.store.verify import verify
from litemq.types import Appended, Message, Record, Status

pytestmark = pytest.mark.timeout(600)  # it takes seconds, but a failure is made small first

SEGMENT = 4096
QUEUES = 2
TOPICS = ("alpha", "beta", "%RETRY%g")
GROUPS = ("g", "h")
KEYS = ("red", "green", "blue")
IDS = ("id-1", "id-2", "id-3")
GIB = 1 << 30

Queue = tuple[str, int]
ProgressKey = tuple[str, str, int]

queues = st.tuples(st.sampled_from(TOPICS), st.integers(0, QUEUES - 1))
shares = st.floats(0, 1)


def message_of(queue: Queue, size: int, keys: tuple[str, ...], message_id: str, status: Status) -> Message:
    return Message(queue[0], b"x" * size, queue_id=queue[1], keys=keys, message_id=message_id, status=status)


messages = st.builds(
    message_of,
    queues,
    st.sampled_from((0, 10, 100, 400, 900)),
    st.lists(st.sampled_from(KEYS), max_size=2, unique=True).map(tuple),
    st.sampled_from(("", *IDS)),
    st.sampled_from((*[Status.NORMAL] * 6, Status.COMMITTED, Status.PREPARED, Status.ROLLED_BACK)),
)


class ScarceFileSystem(HookedFileSystem):
    """Real files without syncs, on a disk that is as full as a test says."""

    free_bytes = 900 * GIB

    def __init__(self) -> None:
        super().__init__(OsFileSystem(), NoSync())

    def disk(self, path: Path) -> tuple[int, int]:
        return 1000 * GIB, self.free_bytes


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that the store took."""

    message: Message
    answer: Appended

    @property
    def queue(self) -> Queue:
        return self.message.topic, self.message.queue_id

    @property
    def has_entry(self) -> bool:
        return self.message.status in (Status.NORMAL, Status.COMMITTED)

    @property
    def looks(self) -> tuple[object, ...]:
        """Return what a reader must find of it."""
        message, answer = self.message, self.answer
        name = (answer.position, answer.end, answer.queue_offset, answer.store_time)
        return (*name, message.topic, message.queue_id, message.body, message.keys, message.message_id)


def looks(record: Record) -> tuple[object, ...]:
    """Return what a reader found, in the shape of ``Sent.looks``."""
    name = (record.position, record.position + record.size, record.queue_offset, record.store_time)
    return (*name, record.topic, record.queue_id, record.body, record.keys, record.message_id or "")


class Model:
    """What a store holds."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.next_offsets: dict[Queue, int] = defaultdict(int)
        self.topics: dict[str, dict[str, object]] = {}
        self.groups: dict[str, dict[str, object]] = {}
        self.dead_below: dict[str, int] = {}
        self.purged: dict[Queue, int] = {}
        self.start = 0
        self.progress: dict[ProgressKey, int] = {}
        self.perhaps: dict[ProgressKey, set[int | None]] = {}
        """What each offset may be after a crash: as it was saved, or as it was committed since."""

    # -- changes ---------------------------------------------------------------------------------

    def append(self, message: Message, answer: Appended) -> None:
        sent = Sent(message, answer)
        if sent.has_entry:
            assert answer.queue_offset == self.next_offsets[sent.queue]
            self.next_offsets[sent.queue] += 1
        assert not self.sent or answer.position >= self.sent[-1].answer.end
        self.sent.append(sent)
        known = self.topics.get(message.topic)
        if known is None or message.queue_id >= int(str(known["writeQueueNums"])):
            self.put_topic(message.topic, message.queue_id + 1)

    def put_topic(self, topic: str, count: int) -> None:
        self.topics[topic] = {
            "attributes": {},
            "order": False,
            "perm": 6,
            "readQueueNums": count,
            "topicFilterType": "SINGLE_TAG",
            "topicName": topic,
            "topicSysFlag": 0,
            "writeQueueNums": count,
        }

    def delete_topic(self, topic: str, position: int) -> None:
        del self.topics[topic]
        self.dead_below[topic] = position
        self.purged = {queue: offset for queue, offset in self.purged.items() if queue[0] != topic}
        self.forget_progress(1, topic)

    def purge(self, queue: Queue, offset: int) -> None:
        self.purged[queue] = max(min(offset, self.next_offsets[queue]), self.purged.get(queue, 0))

    def commit(self, key: ProgressKey, offset: int) -> None:
        self.perhaps.setdefault(key, {self.progress.get(key)}).add(offset)
        self.progress[key] = offset

    def forget_progress(self, part: int, name: str) -> None:
        self.progress = {key: offset for key, offset in self.progress.items() if key[part] != name}
        self.perhaps = {key: offsets for key, offsets in self.perhaps.items() if key[part] != name}

    # -- answers ---------------------------------------------------------------------------------

    def is_hidden(self, sent: Sent) -> bool:
        answer = sent.answer
        deleted = answer.position < self.dead_below.get(sent.message.topic, 0)
        purged = sent.has_entry and answer.queue_offset < self.purged.get(sent.queue, 0)
        return deleted or purged or answer.position < self.start

    def readable(self, end: int) -> Iterator[Sent]:
        """Yield what readers may see while the log is readable up to ``end``."""
        return (sent for sent in self.sent if sent.answer.position < end and not self.is_hidden(sent))

    def in_queue(self, queue: Queue, end: int) -> list[Sent]:
        return [sent for sent in self.readable(end) if sent.has_entry and sent.queue == queue]

    def max_offset(self, queue: Queue, end: int) -> int:
        hidden = [sent for sent in self.sent if sent.has_entry and sent.queue == queue and sent.answer.position >= end]
        return self.next_offsets[queue] - len(hidden)


class StoreMachine(RuleBasedStateMachine):
    """Does the same to a store and to its model."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="litemq-model-"))
        self.clock = ManualClock()
        self.fs = ScarceFileSystem()
        self.model = Model()

    @initialize(fmt=st.sampled_from(("litemq", "rocketmq")), policy=st.sampled_from(("async", "group")))
    def begin(self, fmt: WritableFormat, policy: FlushPolicy) -> None:
        self.config = StoreConfig(
            format=fmt,
            flush=policy,
            segment_bytes=SEGMENT,
            max_body_bytes=1024,
            queue_entries=4,
            index_slots=5,
            index_entries=8,
            retention_hours=1000,
            delete_hour=None,
            checkpoint_bytes=6000,
            open_files=3,
        )
        self.open()

    def open(self) -> None:
        self.store = MessageStore.open(
            self.folder / "store", self.config, fs=self.fs, clock=self.clock, background=False
        )

    def teardown(self) -> None:
        try:
            if hasattr(self, "store"):
                self.store.close()
                found = verify(self.folder / "store")
                assert found.is_ok, found
        finally:
            shutil.rmtree(self.folder)

    # -- messages --------------------------------------------------------------------------------

    @rule(message=messages)
    def append(self, message: Message) -> None:
        self.model.append(message, self.store.append(message))

    @rule(several=st.lists(messages, max_size=8))
    def append_many(self, several: list[Message]) -> None:
        for message, answer in zip(several, self.store.append_many(several), strict=True):
            self.model.append(message, answer)

    @rule(several=st.lists(messages, max_size=2), queue=queues)
    def append_too_much(self, several: list[Message], queue: Queue) -> None:
        with pytest.raises(RecordTooLarge):
            self.store.append_many([*several, Message(queue[0], b"x" * SEGMENT, queue_id=queue[1])])

    @rule()
    def flush(self) -> None:
        assert self.store.flush() == self.store.appended_end == self.store.readable_end

    # -- tables ----------------------------------------------------------------------------------

    @rule(topic=st.sampled_from(TOPICS), count=st.integers(QUEUES, 8))
    def put_topic(self, topic: str, count: int) -> None:
        self.store.put_topic(topic, {"readQueueNums": count, "writeQueueNums": count})
        self.model.put_topic(topic, count)

    @rule(topic=st.sampled_from(TOPICS))
    def delete_topic(self, topic: str) -> None:
        if topic in self.model.topics:
            self.model.delete_topic(topic, self.store.delete_topic(topic).position)
        else:
            with pytest.raises(UnknownTopic):
                self.store.delete_topic(topic)

    @rule(queue=queues, share=shares, more=st.integers(0, 2))
    def purge(self, queue: Queue, share: float, more: int) -> None:
        offset = int(share * self.model.next_offsets[queue]) + more
        self.store.purge(queue[0], {queue[1]: offset})
        self.model.purge(queue, offset)

    @rule(group=st.sampled_from(GROUPS), retries=st.integers(0, 3))
    def put_group(self, group: str, retries: int) -> None:
        self.store.put_group(group, {"retryMaxTimes": retries})
        self.model.groups[group] = {"groupName": group, "retryMaxTimes": retries}

    @rule(group=st.sampled_from(GROUPS))
    def delete_group(self, group: str) -> None:
        self.store.delete_group(group)
        self.model.groups.pop(group, None)
        self.model.forget_progress(0, group)

    @rule(group=st.sampled_from(GROUPS), queue=queues, share=shares)
    def commit(self, group: str, queue: Queue, share: float) -> None:
        offset = round(share * self.model.max_offset(queue, self.store.readable_end))
        self.store.progress.commit(group, *queue, offset)
        self.model.commit((group, *queue), offset)

    # -- time, disk ------------------------------------------------------------------------------

    @rule(ms=st.sampled_from((1, 400, 1000, 11_000)))
    def tick(self, ms: int) -> None:
        self.clock.advance(ms)
        self.store.tick()
        if ms >= 1000:
            assert self.store.progress.unsaved == 0
        self.forget_what_was_before()

    def forget_what_was_before(self) -> None:
        """Expect after a crash what groups committed last, once it is saved."""
        if self.store.progress.unsaved == 0:
            self.model.perhaps.clear()

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()
        assert self.store.flushed_end == self.store.appended_end

    @precondition(lambda self: self.store.appended_end > SEGMENT)
    @rule()
    def squeeze(self) -> None:
        self.store.flush()
        has_more = self.store.appended_end > self.model.start + SEGMENT
        self.fs.free_bytes = 0  # of nearly nothing is left: the oldest segment goes, whatever its age
        self.store.retain()
        self.fs.free_bytes = 900 * GIB
        assert not self.store.retain().refuse
        if has_more:
            self.model.start += SEGMENT
            self.forget_what_was_before()
        assert self.store.start == self.model.start

    # -- ends ------------------------------------------------------------------------------------

    @rule(lost=st.sampled_from(("", "", "*", "topics.json*", "subscriptionGroup.json*", "consumerOffset.json*")))
    def close(self, lost: str) -> None:
        """Stop and start; without the snapshots of its tables the log says all of it."""
        self.store.close()
        for path in (self.folder / "store" / "config").glob(lost) if lost else ():
            path.unlink()
        self.open()
        assert self.store.was_clean
        self.model.perhaps.clear()

    @rule()
    def abandon(self) -> None:
        self.store.abandon()
        self.open()
        assert not self.store.was_clean
        for key, offsets in self.model.perhaps.items():
            found = self.store.progress.offset(*key)
            assert found in offsets
            self.model.progress.pop(key)
            if found is not None:
                self.model.progress[key] = found
        self.model.perhaps.clear()

    # -- what holds at any time ------------------------------------------------------------------

    @invariant()
    def queues_are_alike(self) -> None:
        reader, end = self.store.reader, self.store.readable_end
        for topic in TOPICS:
            for queue_id in range(QUEUES):
                queue = topic, queue_id
                wanted = self.model.in_queue(queue, end)
                high = self.model.max_offset(queue, end)
                low = wanted[0].answer.queue_offset if wanted else high
                assert (reader.min_offset(*queue), reader.max_offset(*queue)) == (low, high), queue
                found = self.store.records(*queue, low, max_count=1000)
                assert [looks(record) for record in found] == [sent.looks for sent in wanted]
                sizes = tuple(sent.answer.end - sent.answer.position for sent in wanted)
                assert self.store.read(*queue, low, max_count=1000).sizes == sizes

    @invariant()
    def times_lead_to_offsets(self) -> None:
        end = self.store.readable_end
        newest = self.clock.now_ms()
        for topic in TOPICS:
            queue = topic, 0
            wanted = self.model.in_queue(queue, end)
            for time in {0, newest, newest + 1, *(sent.answer.store_time for sent in wanted[::3])}:
                later = (sent.answer.queue_offset for sent in wanted if sent.answer.store_time >= time)
                offset = next(later, self.model.max_offset(queue, end))
                assert self.store.reader.offset_at_time(*queue, time) == offset, (queue, time)

    @invariant()
    def keys_and_ids_lead_to_messages(self) -> None:
        by_key: dict[tuple[str, str], list[tuple[object, ...]]] = defaultdict(list)
        for sent in self.model.readable(self.store.readable_end):
            if sent.message.status != Status.ROLLED_BACK:
                for key in (*sent.message.keys, sent.message.message_id):
                    by_key[sent.message.topic, key].append(sent.looks)
        for topic in TOPICS:
            for key in (*KEYS, *IDS, "none"):
                found = self.store.reader.by_key(topic, key, limit=1000)
                assert [looks(record) for record in found] == by_key[topic, key], (topic, key)
            for message_id in IDS:
                record = self.store.reader.by_id(message_id, topic=topic)
                newest = by_key[topic, message_id][-1:]
                assert ([] if record is None else [looks(record)]) == newest, (topic, message_id)

    @invariant()
    def tables_are_alike(self) -> None:
        assert self.store.tables.topics == self.model.topics
        assert self.store.tables.groups == self.model.groups
        found = {key: self.store.progress.offset(*key) for key in self.store.progress.all_keys()}
        assert found == self.model.progress
        assert {queue.topic for queue in self.store.queues()} <= {
            *self.model.topics,
            "LITEMQ_SYS_CHANGES",
            "LITEMQ_SYS_PROGRESS",
        }
        assert self.store.failure is None


TestStoreModel = StoreMachine.TestCase
TestStoreModel.settings = settings(max_examples=80, stateful_step_count=40, phases=set(Phase) - {Phase.explain})
