"""Stores of all formats, however they are cut into partitions, give what a plain read gives."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from tests.support.spark_rows import Row, expected, planned, read
from tests.support.store_files import StoreFiles
from tests.unit.store.walk_support import CASES, GoldenCase, unpack_rocketmq

from litemq.format.placement import Placement
from litemq.format.record import FORMATS
from litemq.spark.backend import Rows
from litemq.spark.errors import BadOption, CorruptInput
from litemq.spark.ranges import LogRange, QueueRange
from litemq.types import LogPosition, Message, QueueOffset

STORED = ["litemq", "rocketmq", "blueprint"]


def position_of(row: dict[str, object]) -> tuple[object, object, object]:
    return row["topic"], row["queue_id"], row["physical_offset"]


def filled(root: Path, fmt: str, seed: int, count: int = 120) -> StoreFiles:
    """Write a store with every kind of thing that may surprise a reader."""
    chance = random.Random(seed)
    store = StoreFiles(root, fmt, segment_size=chance.choice([4096, 9000, 20_000]))
    for number in range(count):
        body = chance.randbytes(chance.randrange(120))
        if store.puts and chance.random() < 0.3:
            body += decoy(store, chance)
        store.add(
            Message(
                chance.choice(["orders", "orders", "bills", "%DLQ%g", "LITEMQ_SYS_POP", "é"]),
                body,
                queue_id=chance.randrange(3),
                message_id=f"id{number}",
                tags=("A",) if chance.random() < 0.5 else (),
                keys=tuple(f"k{n}" for n in range(chance.randrange(3))),
                properties={"p": "1"} if chance.random() < 0.5 else {},
                status=chance.choice([0, 0, 0, 0, 1, 2, 3]),
                born_time=1_700_000_000_000,
                born_host="10.0.0.1:5",
                delay_time=1_800_000_000_000 if chance.random() < 0.1 else 0,
            )
        )
    return store


def decoy(store: StoreFiles, chance: random.Random) -> bytes:
    """Return a whole valid record for a body, sometimes one that states the very place where it will stand."""
    if chance.random() < 0.5:
        return chance.choice(store.puts).data
    place = store.end + chance.randrange(60, 220)
    message = Message("orders", b"decoy", born_host="10.0.0.1:5")
    return FORMATS[store.format].write(message, Placement(LogPosition(place), QueueOffset(0), 1, "1.2.3.4:5"))


def torn(store: StoreFiles) -> None:
    """Cut the last record, as a crash leaves it."""
    last = store.puts.pop()
    start = max(store.segments)
    del store.segments[start][last.position - start + len(last.data) // 2 :]
    if last.has_entry:
        del store.queues[last.queue][last.queue_offset]
        if not store.queues[last.queue]:
            del store.queues[last.queue]


@pytest.mark.parametrize("fmt", STORED)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("queues", [True, False], ids=["queues", "no-queues"])
def test_any_split_gives_what_a_plain_read_gives(fmt: str, seed: int, queues: bool, tmp_path: Path) -> None:
    store = filled(tmp_path, fmt, seed)
    if seed % 2:
        torn(store)
    store.write()
    if not queues:
        shutil.rmtree(tmp_path / "consumequeue")
    for size in (1, 1000, 1 << 20):
        assert read(tmp_path, maxPartitionBytes=size) == expected(tmp_path)
    assert read(tmp_path, minPartitions=7, isolation="uncommitted") == expected(tmp_path, is_committed_only=False)
    for topics in (["bills"], ["%DLQ%g", "é"], ["LITEMQ_SYS_POP"]):
        want = sorted(expected(tmp_path, topics=topics), key=position_of)
        for size in (1, 700, 1 << 20):
            found = read(tmp_path, subscribe=",".join(topics), maxPartitionBytes=size)
            assert sorted(found, key=position_of) == want


def test_stated_starts_hold_where_nobody_knows_the_queues(tmp_path: Path) -> None:
    store = StoreFiles(tmp_path)
    for number in range(12):
        store.add(Message("orders", b"x", queue_id=number % 2))
    store.write()
    shutil.rmtree(tmp_path / "consumequeue")
    found = read(tmp_path, startingOffsets='{"orders": {"0": 4, "1": -2}}')
    assert sorted((row["queue_id"], row["queue_offset"]) for row in found) == [
        *((0, offset) for offset in (4, 5)),
        *((1, offset) for offset in range(6)),
    ]
    with pytest.raises(BadOption, match="litemq store rebuild"):
        read(tmp_path, startingOffsets='{"orders": {"0": -1}}')


def test_small_topics_are_read_by_their_queues(tmp_path: Path) -> None:
    store = StoreFiles(tmp_path, segment_size=1 << 20)
    for number in range(2000):
        store.add(Message("rare" if number % 100 == 0 else "orders", bytes(200), queue_id=number % 2))
    store.write()
    total = sum(len(put.data) for put in store.puts)
    backend, found = planned(tmp_path, subscribe="rare")
    assert all(isinstance(part, QueueRange) for parts in found.partitions for part in parts)
    rows = [run for parts in found.partitions for part in parts for run in backend.open(part)]
    assert sum(run.count - run.first for run in rows if isinstance(run, Rows)) == 20
    assert backend.counters.record_bytes < 0.05 * total
    assert read(tmp_path, subscribe="rare") == expected(tmp_path, topics=["rare"])
    _, found = planned(tmp_path, subscribe="orders")
    assert all(isinstance(part, LogRange) for parts in found.partitions for part in parts)


@pytest.mark.parametrize("fmt", STORED)
def test_times_offsets_keys_and_tags(fmt: str, tmp_path: Path) -> None:
    store = filled(tmp_path, fmt, 99)
    store.write()
    every = expected(tmp_path, topics=["orders"])
    times = sorted({put.store_time for put in store.puts})
    low, high = times[40], times[60]

    def between(row: Row) -> bool:
        return bool(low <= row["store_timestamp"].timestamp() * 1000 < high)

    def by_place(rows: list[Row]) -> list[Row]:
        return sorted(rows, key=position_of)

    found = read(tmp_path, subscribe="orders", startingTimestamp=low, endingTimestamp=high)
    assert by_place(found) == by_place([row for row in every if between(row)])
    found = read(tmp_path, assign='{"orders": [1]}', startingOffsets='{"orders": {"1": 3}}')
    assert by_place(found) == by_place([row for row in every if row["queue_id"] == 1 and row["queue_offset"] >= 3])
    found = read(tmp_path, subscribe="orders", keys="k1", tags="A")
    assert by_place(found) == by_place([row for row in every if "k1" in row["all_keys"] and "A" in row["all_tags"]])
    assert read(tmp_path, subscribe="orders", startingOffsets="latest") == []
    assert by_place(read(tmp_path, subscribePattern="ord.*")) == by_place(every)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden_cases(case: GoldenCase) -> None:
    for size in (100, 1 << 20):
        found = read(case.path, format=case.format, maxPartitionBytes=size, onCorrupt="skip", isolation="uncommitted")
        assert found == expected(case.path, case.format, is_committed_only=False)


@pytest.mark.parametrize("name", ["clean", "killed"])
def test_what_a_real_rocketmq_wrote(name: str, tmp_path: Path) -> None:
    store = unpack_rocketmq(name, tmp_path)
    for size in (10_000, 1 << 30):
        assert read(store, maxPartitionBytes=size) == expected(store)
    topics = sorted({row["topic"] for row in expected(store)})
    for topic in topics[:6]:
        found = read(store, subscribe=topic, maxPartitionBytes=5000)
        assert sorted(found, key=position_of) == sorted(expected(store, topics=[topic]), key=position_of)


class TestDamage:
    def store(self, root: Path) -> tuple[StoreFiles, int]:
        store = StoreFiles(root, segment_size=1 << 16)
        for number in range(50):
            store.add(Message("orders", b"body %d" % number, queue_id=number % 2))
        place = store.puts[20].position
        store.segments[0][place + 60] ^= 0xFF
        store.write()
        return store, place

    def test_fail_names_place_and_options(self, tmp_path: Path) -> None:
        _, place = self.store(tmp_path)
        with pytest.raises(CorruptInput, match=f"position {place} .*onCorrupt"):
            read(tmp_path)
        one = '{"orders": {"0": 11, "1": 0}}'
        with pytest.raises(CorruptInput, match=f"position {place} "):
            read(
                tmp_path,
                subscribe="orders",
                startingOffsets='{"orders": {"0": 10}}',
                endingOffsets=one,
            )

    @pytest.mark.parametrize("size", [100, 1 << 20])
    def test_skip(self, size: int, tmp_path: Path) -> None:
        store, place = self.store(tmp_path)
        found = read(tmp_path, onCorrupt="skip", maxPartitionBytes=size)
        assert [row["physical_offset"] for row in found] == [p.position for p in store.puts if p.position != place]

    def test_keep(self, tmp_path: Path) -> None:
        store, place = self.store(tmp_path)
        found = read(tmp_path, onCorrupt="keep")
        assert [row["physical_offset"] for row in found] == [put.position for put in store.puts]
        (bad,) = [row for row in found if row["_corrupt"] is not None]
        assert (bad["physical_offset"], bad["topic"], bad["size"]) == (place, None, len(store.puts[20].data))

    def test_quarantine(self, tmp_path: Path) -> None:
        store, place = self.store(tmp_path / "store")
        aside = tmp_path / "aside"
        for _ in range(2):
            assert len(read(tmp_path / "store", onCorrupt="quarantine", quarantinePath=aside)) == 49
        kept = (aside / f"{place:020d}").read_bytes()
        assert len(kept) == len(store.puts[20].data)
        assert kept != store.puts[20].data

    @pytest.mark.parametrize("size", [50, 400, 1 << 20])
    def test_behind_a_lost_frame_queues_lead_on(self, size: int, tmp_path: Path) -> None:
        """A size field that leads nowhere ends a walk; what queue entries know is read however the log is cut."""
        store, _ = self.store(tmp_path)
        place = store.puts[30].position
        store.segments[0][place + 1] = 0x7F
        store.write()
        found = read(tmp_path, onCorrupt="skip", maxPartitionBytes=size)
        bad = {store.puts[20].position, place}
        assert [row["physical_offset"] for row in found] == [p.position for p in store.puts if p.position not in bad]


def test_an_unknown_topic_is_named(tmp_path: Path) -> None:
    filled(tmp_path, "litemq", 1).write()
    with pytest.raises(BadOption, match=r"no topic 'order' .* bills, orders"):
        read(tmp_path, subscribe="order")
