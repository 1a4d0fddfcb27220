"""Stores of all formats, however they are cut into partitions, give what a plain read gives."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from tests.support.spark_rows import Row, expected, options_of, planned, read
from tests.support.store_files import T0, StoreFiles
from tests.unit.store.walk_support import CASES, GoldenCase, unpack_rocketmq

from litemq.format.placement import Placement
from litemq.format.record import FORMATS
from litemq.spark.backend import Rows
from litemq.spark.errors import BadOption, CorruptInput
from litemq.spark.ranges import LogRange, QueueRange
from litemq.spark.reading import Task, read_ranges
from litemq.spark.schema import chosen_columns
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


def test_records_behind_a_hole(tmp_path: Path) -> None:
    """A walk takes zeros for the log's end; queue entries know better, however the log is cut."""
    store = StoreFiles(tmp_path, segment_size=1 << 16)
    for number in range(30):
        store.add(Message("orders", b"body %d" % number, queue_id=number % 2))
    first, behind = store.puts[10].position, store.puts[12].position
    store.segments[0][first:behind] = bytes(behind - first)
    store.write()
    there = [put.position for put in store.puts if not first <= put.position < behind]
    for size in (50, 400, 1 << 20):
        found = read(tmp_path, onCorrupt="skip", maxPartitionBytes=size)
        assert [row["physical_offset"] for row in found] == there
        with pytest.raises(CorruptInput, match=f"position {first} .*nothing is written here, and records are behind"):
            read(tmp_path, maxPartitionBytes=size)


@pytest.mark.parametrize("fmt", ["litemq", "blueprint"])
def test_a_time_is_found_beside_damage(fmt: str, tmp_path: Path) -> None:
    """The search for a time passes over what cannot say its own, and does not take it for older."""
    store = StoreFiles(tmp_path, fmt, segment_size=1 << 16)
    for number in range(40):
        store.add(Message("orders" if number % 4 == 0 else "others", bytes(40), born_host="10.0.0.1:5"))
    orders = [put for put in store.puts if put.message.topic == "orders"]
    wanted = {put.position for put in orders if put.store_time >= T0 + 12}
    middle = orders[5]
    store.segments[0][middle.position + len(middle.data) // 2] ^= 0xFF
    del store.queues["orders", 0][4]
    store.write()
    found = read(tmp_path, subscribe="orders", startingTimestamp=T0 + 12, onCorrupt="skip")
    assert {row["physical_offset"] for row in found} >= wanted - {orders[4].position, middle.position}


def test_offsets_count_where_no_queue_entries_are(tmp_path: Path) -> None:
    filled(tmp_path, "rocketmq", 4).write()
    every = expected(tmp_path, topics=["orders"])
    shutil.rmtree(tmp_path / "consumequeue")
    some = {"startingOffsets": '{"orders": {"0": 3, "1": 2, "2": 0}}', "endingOffsets": '{"orders": {"0": 9}}'}
    low, high = {0: 3, 1: 2, 2: 0}, {0: 9}
    assert read(tmp_path, subscribe="orders", **some) == [
        row for row in every if low[row["queue_id"]] <= row["queue_offset"] < high.get(row["queue_id"], 10**9)
    ]
    with pytest.raises(BadOption, match="startingOffsets=latest needs ConsumeQueues, which this log has not"):
        read(tmp_path, startingOffsets="latest")
    assert read(tmp_path, endingOffsets="earliest") == []


def test_a_compressed_body_counts_with_what_it_unfolds_to(tmp_path: Path) -> None:
    """Else a batch of ``batchBytes`` could come to any size."""
    store = StoreFiles(tmp_path, "rocketmq", segment_size=1 << 16)
    for number in range(20):
        store.add(Message("orders", zlib.compress(bytes([number]) * 100_000), sys_flag=1, born_host="10.0.0.1:5"))
    store.write()
    options = options_of(tmp_path, batchBytes="250k")
    backend, found = planned(tmp_path)
    task = Task(found.partitions[0], found.filter(options))
    sizes = [batch.num_rows for batch in read_ranges(backend, options, chosen_columns(options), task)]
    assert sizes == [3] * 6 + [2]


def test_no_pandas_is_imported_by_reading(tmp_path: Path) -> None:
    """It would take a part of the worker's memory for nothing."""
    filled(tmp_path, "litemq", 2).write()
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.support.spark_rows import planned, options_of\n"
        "from litemq.spark.reading import Task, read_ranges\n"
        "from litemq.spark.schema import chosen_columns\n"
        "for more in ({}, {'onCorrupt': 'keep'}, {'valueFormat': 'string'}, {'view': 'dlq'}):\n"
        "    options = options_of(Path(sys.argv[1]), **more)\n"
        "    backend, found = planned(Path(sys.argv[1]), **more)\n"
        "    task = Task(sum(found.partitions, ()), found.filter(options))\n"
        "    assert sum(b.num_rows for b in read_ranges(backend, options, chosen_columns(options), task))\n"
        "assert 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(tmp_path)], check=True)
