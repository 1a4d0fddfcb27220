"""The dispatcher: what a log says becomes queues and index, also when the log says odd things."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.support.faults import Faults, disk_full
from tests.support.hooked_fs import HookedFileSystem
from tests.unit.store.live_support import FORMATS

from litemq.format import rows
from litemq.format._scan_cy import scan
from litemq.format.names import CHANGES_TOPIC
from litemq.format.placement import Placement
from litemq.format.queue_entry import BEFORE_START_SIZE
from litemq.format.record import FORMATS as RECORD_FORMATS
from litemq.store import consume_queue
from litemq.store.changes import Change, decode, encode
from litemq.store.consume_queue import ConsumeQueues
from litemq.store.dispatcher import Dispatcher
from litemq.store.fs import FileSystem, OsFileSystem
from litemq.store.key_index import KeyIndex
from litemq.types import LogPosition, Message, QueueOffset, TopicQueue

NOW = 1_700_000_000_000


class Bench:
    """A dispatcher over empty files, and a log to feed it with."""

    def __init__(self, root: Path, fmt: str = "litemq", *, fs: FileSystem | None = None, entries: int = 1000) -> None:
        fs = fs or OsFileSystem()
        self.format = RECORD_FORMATS[fmt]
        self.queues = ConsumeQueues(fs, root / "consumequeue", fmt, 16, 4)
        self.index = KeyIndex(fs, root / "index", 11, entries)
        self.first_offsets: dict[tuple[str, int], int] = {}
        self.batch_topics: set[str] = set()
        self.dispatcher = Dispatcher(
            self.queues,
            self.index,
            now_ms=lambda: NOW,
            first_offset=lambda topic, queue: self.first_offsets.get((topic, queue), 0),
            has_batch_queues=lambda topic: topic in self.batch_topics,
            log_start=lambda: 0,
        )
        self.end = 0
        self.positions: dict[bytes, int] = {}

    def feed(self, messages: Iterable[tuple[Message, int]], *, damage: int = -1, skip: int = 0) -> None:
        """Feed messages with their queue offsets, ``skip`` bytes behind what was fed before."""
        self.end += skip
        base = self.end
        data = b""
        for message, offset in messages:
            place = Placement(LogPosition(self.end), QueueOffset(offset), NOW + self.end, "127.0.0.1:1")
            self.positions[message.body] = self.end
            data += self.format.write(message, place)
            self.end = base + len(data)
        table: array[int] = rows.table(1024)
        count, _, _ = scan(self.format.code, data, 0, len(data), base, table)
        assert count * rows.WIDTH < len(table)
        self.dispatcher.feed(memoryview(data), table, count, damage)

    def entries(self, topic: str = "orders", queue_id: int = 0) -> list[tuple[int, int]]:
        """Return (offset, position) of a queue's entries; -1 stands for a damaged one."""
        tail = self.queues.find(topic, queue_id)
        if tail is None:
            return []
        return [
            (offset, -1 if entry.size == BEFORE_START_SIZE else entry.position)
            for offset, entry in self.queues.walk(tail, self.queues.first_offset(tail))
        ]

    def at(self, *bodies: bytes) -> list[int]:
        return [self.positions[body] for body in bodies]

    def keys(self, key: str, topic: str = "orders") -> list[int]:
        return list(self.index.positions(topic, key))[::-1]


def orders(*offsets: int, first: int = 0, key: str = "k") -> list[tuple[Message, int]]:
    return [(Message("orders", b"%d" % (first + n), keys=(key,)), offset) for n, offset in enumerate(offsets)]


@pytest.mark.parametrize("fmt", FORMATS)
def test_records_get_entries_and_keys(tmp_path: Path, fmt: str) -> None:
    bench = Bench(tmp_path, fmt)
    bench.feed(orders(0, 1, 2))
    bench.feed([(Message("orders", b"other", queue_id=3, message_id="id"), 0)])
    assert bench.entries() == list(enumerate(bench.at(b"0", b"1", b"2")))
    assert bench.entries(queue_id=3) == [(0, bench.positions[b"other"])]
    assert bench.keys("k") == bench.at(b"0", b"1", b"2")
    assert bench.keys("id") == bench.at(b"other")


@pytest.mark.parametrize("fmt", FORMATS)
def test_prepared_and_rolled_back_records_have_no_entry(tmp_path: Path, fmt: str) -> None:
    bench = Bench(tmp_path, fmt)
    bench.feed([(Message("orders", b"%d" % n, status=n, keys=("k",)), {2: 1}.get(n, 0)) for n in range(4)])
    assert bench.entries() == list(enumerate(bench.at(b"0", b"2")))
    assert bench.keys("k") == bench.at(b"0", b"1", b"2")


@pytest.mark.parametrize("damage", [-1, 100, 1 << 30])
@pytest.mark.parametrize("missing", [1, 2, 15, 16, 17, 100, 5000])
def test_missing_offsets_are_filled(tmp_path: Path, missing: int, damage: int) -> None:
    bench = Bench(tmp_path)
    bench.feed(orders(0, 1))
    bench.feed(orders(2 + missing, first=2), damage=damage, skip=60 * missing)
    first, second, third = bench.at(b"0", b"1", b"2")
    gap = [(offset, -1) for offset in range(2, 2 + missing)]
    assert bench.entries() == [(0, first), (1, second), *gap, (2 + missing, third)]
    assert bench.dispatcher.gaps == missing
    tail = bench.queues.find("orders", 0)
    assert tail is not None
    filled = bench.queues.entry(tail, 2)
    assert filled is not None
    assert filled.position == max(second, damage)
    assert tail.used < 1 << 17  # however long the gap


@pytest.mark.parametrize("offset", [1 << 31, 1 << 40, (1 << 62) // 24, (1 << 63) - 1, -1, -(1 << 62)])
def test_an_impossible_offset_costs_neither_memory_nor_the_queue(tmp_path: Path, offset: int) -> None:
    bench = Bench(tmp_path, "rocketmq")
    bench.feed(orders(0, 1))
    bench.feed(orders(offset, 2, first=2))
    assert bench.entries() == list(enumerate(bench.at(b"0", b"1", b"3")))
    assert bench.dispatcher.unplaced == 1
    assert bench.keys("k") == bench.at(b"0", b"1", b"2", b"3")  # by its key it is found


@pytest.mark.parametrize("offset", [-1, (1 << 62) // 24])
def test_an_impossible_first_offset_is_left_out(tmp_path: Path, offset: int) -> None:
    bench = Bench(tmp_path, "rocketmq")
    bench.feed(orders(offset, 7))
    assert bench.entries() == [(7, bench.positions[b"1"])]
    assert bench.dispatcher.unplaced == 1


def test_an_offset_that_is_taken_is_left_out(tmp_path: Path) -> None:
    """A flipped bit in one record must not cost the whole queue."""
    bench = Bench(tmp_path, "rocketmq")
    bench.feed(orders(0, 1, 2, 3, 1, 4))
    assert bench.entries() == list(enumerate(bench.at(b"0", b"1", b"2", b"3", b"5")))
    assert bench.dispatcher.unplaced == 1
    assert bench.keys("k") == bench.at(b"0", b"1", b"2", b"3", b"4", b"5")


def test_a_topic_that_a_real_rocketmq_deleted_starts_anew(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "rocketmq")
    bench.feed(orders(0, 1, 2, 3, 0, 1))
    assert bench.entries() == list(enumerate(bench.at(b"4", b"5")))


def test_entries_behind_the_record_are_stale(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    tail = bench.queues.open("orders", 0)
    for offset in range(5):
        tail.add_entry(10_000 + offset, 50, 0, 0)
    bench.feed(orders(2))
    assert [position for _, position in bench.entries()][2:] == bench.at(b"0")


@pytest.mark.parametrize("first", [0, 5, 40, 1 << 33])
def test_an_empty_queue_starts_where_its_first_record_says(tmp_path: Path, first: int) -> None:
    bench = Bench(tmp_path)
    bench.first_offsets["orders", 0] = 9
    bench.feed(orders(first, first + 1))
    assert bench.entries() == [(first, bench.positions[b"0"]), (first + 1, bench.positions[b"1"])]
    assert bench.dispatcher.gaps == 0


def test_a_topic_that_cannot_be_a_folder_is_counted(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "rocketmq")
    bench.feed([(Message("a/b", b"x"), 0), (Message("..", b"y"), 0), (Message("orders", b"z"), 0)])
    assert bench.entries() == [(0, bench.positions[b"z"])]
    assert bench.dispatcher.unplaced == 2
    assert [queue.topic for queue in bench.queues.all()] == ["orders"]


def test_batch_queues_are_left_alone_and_their_keys_are_not(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "rocketmq")
    bench.batch_topics.add("orders")
    bench.feed(orders(0, 1))
    assert bench.queues.all() == []
    assert bench.keys("k") == bench.at(b"0", b"1")


def test_changes_are_applied_between_the_records_around_them(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    seen: list[tuple[str, list[tuple[int, int]]]] = []

    def on_change(body: bytes, position: int, _origin: int | None) -> None:
        change = decode(body)
        assert change is not None
        seen.append((change.op, bench.entries()))
        assert position == bench.positions[body]
        if change.op == "topic-deleted":
            bench.queues.drop_topic(change.name)

    bench.dispatcher.on_change = on_change
    created = encode(Change("topic", "orders"))
    deleted = encode(Change("topic-deleted", "orders", offsets={0: 2}))
    bench.feed(
        [
            (Message(CHANGES_TOPIC, created), 0),
            *orders(0, 1),
            (Message(CHANGES_TOPIC, deleted), 1),
            *orders(2, 3, first=2),
        ]
    )
    assert seen == [("topic", []), ("topic-deleted", list(enumerate(bench.at(b"0", b"1"))))]
    assert bench.entries() == [(2, bench.positions[b"2"]), (3, bench.positions[b"3"])]
    assert len(bench.entries(CHANGES_TOPIC)) == 2


def test_a_full_index_rolls_in_the_middle_of_a_record(tmp_path: Path) -> None:
    bench = Bench(tmp_path, entries=4)
    messages = [(Message("orders", b"%d" % n, keys=tuple(f"{n}-{k}" for k in range(5))), n) for n in range(10)]
    bench.feed(messages)
    for message, _ in messages:
        for key in message.keys:
            assert bench.keys(key) == bench.at(message.body)
    assert bench.entries() == list(enumerate(bench.at(*(message.body for message, _ in messages))))


def test_many_queues_wait_with_few_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume_queue, "MAX_DIRTY", 5)
    bench = Bench(tmp_path)
    for turn in range(3):
        bench.feed([(Message("orders", b"%d-%d" % (turn, q), queue_id=q), turn) for q in range(40)])
        assert len(bench.queues.dirty) <= 5
    assert bench.queues.all() == [TopicQueue("orders", q) for q in range(40)]
    for q in range(40):
        assert bench.entries(queue_id=q) == list(enumerate(bench.at(*(b"%d-%d" % (turn, q) for turn in range(3)))))


def test_a_full_disk_under_a_scan_is_the_callers_error(tmp_path: Path) -> None:
    faults = Faults()
    bench = Bench(tmp_path, fs=HookedFileSystem(OsFileSystem(), faults))
    faults.add(disk_full())
    with pytest.raises(OSError, match="No space left"):
        bench.feed(orders(*range(300)))
