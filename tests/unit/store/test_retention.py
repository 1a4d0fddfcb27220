"""Retention: what may go is decided without I/O; what goes takes nothing along that still holds."""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from tests.support.faults import Fault, Faults
from tests.support.forgetful_fs import ForgetfulFileSystem
from tests.support.hooked_fs import Call, HookedFileSystem
from tests.unit.store.live_support import FORMATS, SEGMENT, Later, bodies, fill, largest, open_store, small

from litemq.clock import ManualClock
from litemq.config import StoreConfig
from litemq.errors import LiteMQError, RecordTooLarge, StoreFull, WriteFailed
from litemq.format import names
from litemq.store.fs import OsFileSystem
from litemq.store.message_store import MessageStore
from litemq.store.retention import MAX_SEGMENTS_PER_PASS, Hold, Plan, SegmentFacts, plan
from litemq.store.verify import verify
from litemq.types import Message

HOUR = 3_600_000
NOW = int(datetime(2024, 5, 17, 12, 30).timestamp() * 1000)  # noqa: DTZ001 - the operator's own clock
GIB = 1 << 30
CONFIG = StoreConfig(retention_hours=72, delete_hour=12)


def segments(*ages_h: float) -> list[SegmentFacts]:
    """Return segments whose newest messages are so many hours old."""
    return [SegmentFacts(100 * n, 100 * n + 100, NOW - int(age * HOUR)) for n, age in enumerate(ages_h)]


def decide(
    facts: list[SegmentFacts],
    *holds: Hold,
    config: StoreConfig = CONFIG,
    used: float = 0.1,
    total: int = 50 * GIB,
    now_ms: int = NOW,
) -> Plan:
    return plan(facts, list(holds), config, now_ms=now_ms, total=total, free=int(total * (1 - used)))


# -- the decision ----------------------------------------------------------------------------------------------------


def test_segments_go_by_age() -> None:
    assert decide([]) == Plan()
    assert decide(segments(71.9, 1)) == Plan()
    assert decide(segments(72.1, 1)) == Plan(100)
    assert decide(segments(100, 90, 73, 71, 80)) == Plan(300)  # never one with a newer before it
    assert decide(segments(0.1), config=replace(CONFIG, retention_hours=0)) == Plan(100)


def test_segments_go_at_their_hour() -> None:
    old = segments(100, 100)
    for hour in range(24):
        wanted = Plan(200) if hour == 12 else Plan()
        assert decide(old, config=CONFIG, now_ms=NOW + (hour - 12) * HOUR) == wanted
    assert decide(old, config=replace(CONFIG, delete_hour=None), now_ms=NOW + 3 * HOUR) == Plan(200)


def test_few_segments_go_at_once() -> None:
    assert decide(segments(*[100] * 50)) == Plan(100 * MAX_SEGMENTS_PER_PASS)


def test_a_filling_disk_makes_every_hour_the_right_one() -> None:
    config = replace(CONFIG, delete_hour=3)
    old = segments(100, 100)
    assert decide(old, config=config, used=0.74) == Plan()
    assert decide(old, config=config, used=0.81) == Plan(200)
    assert decide(segments(10), config=config, used=0.81) == Plan()  # but not what is not expired


def test_a_full_disk_takes_what_is_not_expired_one_a_pass() -> None:
    assert decide(segments(10, 10, 10), used=0.86) == Plan(100, forced=True)
    assert decide(segments(100, 10, 10), used=0.86) == Plan(100)  # enough for this pass
    assert decide([], used=0.86) == Plan()
    assert decide(segments(10), used=0.91) == Plan(100, forced=True, refuse=True)
    assert decide([], used=0.91) == Plan(refuse=True)


def test_ratios_mean_nothing_while_there_is_room() -> None:
    for used in (0.8, 0.86, 0.95, 0.98):
        assert decide(segments(10), used=used, total=1000 * GIB) == Plan()
    assert decide(segments(10), used=0.995, total=1000 * GIB) == Plan(100, forced=True, refuse=True)
    assert decide(segments(10), used=0.0, total=0) == Plan()


def test_a_hold_keeps_what_a_reader_needs() -> None:
    old = segments(100, 100, 100)
    assert decide(old, Hold("spark", 150, NOW + 1)) == Plan(100)
    assert decide(old, Hold("spark", 0, NOW + 1)) == Plan()
    assert decide(old, Hold("spark", 100, NOW + 1)) == Plan(100)
    assert decide(old, Hold("spark", 0, NOW)) == Plan(300)  # it has ended
    assert decide(old, Hold("a", 250, NOW + 1), Hold("b", 120, NOW + 1)) == Plan(100)


def test_force_wins_over_holds_and_names_them() -> None:
    holds = [Hold("spark", 50, NOW + 1), Hold("later", 200, NOW + 1), Hold("ended", 0, NOW - 1)]
    assert decide(segments(100, 100), *holds, used=0.86) == Plan(100, forced=True, overruled=("spark",))


# -- a real pass -----------------------------------------------------------------------------------------------------


def old_store(root: Path, clock: ManualClock, **settings: object) -> MessageStore:
    """Return a store with four old segments, and live state in them."""
    store = open_store(root, small(retention_hours=1.0, **settings), clock=clock)
    store.put_topic("kept", {"perm": 4})
    store.put_group("readers", {"retryMaxTimes": 3})
    store.put_group("gone")
    fill(store, 10, topic="gone")
    store.delete_topic("gone")
    store.delete_group("gone")
    store.purge("purged", {0: 0})
    for number in range(300):
        store.append(Message("orders", b"%d" % number + b"." * 100, queue_id=number % 2, keys=(str(number),)))
    store.progress.commit("readers", "orders", 0, 150)
    clock.advance(2000)
    store.tick()
    clock.advance(2 * HOUR)
    return store


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("fmt", FORMATS)
def test_what_goes_takes_nothing_live_along(tmp_path: Path, fmt: str, background: bool) -> None:
    clock = ManualClock()
    store = old_store(tmp_path, clock, format=fmt)
    if background:
        store.close()
        config = small(format=fmt, retention_hours=1.0)
        store = open_store(tmp_path, config, clock=clock, background=True)
    fresh = [store.append(Message("orders", b"fresh %d" % n, queue_id=n % 2, keys=("fresh",))) for n in range(10)]
    log_id, topics = store.tables.log_id, dict(store.tables.topics)
    assert store.retain().start == fresh[0].position // SEGMENT * SEGMENT
    while store._housekeeper.removal is not None:  # later ticks, when the worker's checkpoint is there
        assert background
        assert store.start == 0
        if store._checkpointer.job is not None:
            store._checkpointer.job.result()
        store.tick()
    start = store.start
    assert 0 < start <= fresh[0].position
    assert store.counters()["segments_removed"] == start // SEGMENT
    assert sorted(path.name for path in (tmp_path / "store" / "commitlog").iterdir())[0] == f"{start:020d}"

    def check(store: MessageStore) -> None:
        assert store.tables.log_id == log_id
        assert store.tables.topics == topics
        assert store.tables.groups == {"readers": {"retryMaxTimes": 3, "groupName": "readers"}}
        assert store.progress.offset("readers", "orders", 0) == 150
        for queue_id in (0, 1):
            low = store.reader.min_offset("orders", queue_id)
            assert 0 < low <= 150
            assert bodies(store, queue_id=queue_id)[-5:] == [b"fresh %d" % n for n in range(queue_id, 10, 2)]
            assert store.reader.message_at("orders", queue_id, low - 1) is None
            assert store.read("orders", queue_id, 0).sizes == ()
        assert store.reader.by_key("orders", "0") == []
        assert len(store.reader.by_key("orders", "fresh")) == 10
        assert store.reader.record_at(0) is None
        assert all(record.position >= start for record in store.reader.by_time(None, None))
        assert store.reader.max_offset("gone", 0) == 10

    check(store)
    assert store.tables.deletions.dead_below == {}  # what was dead is gone
    store.close()
    with open_store(tmp_path, small(format=fmt), clock=clock) as store:
        check(store)
        assert store.append(Message("gone", b"again")).queue_offset == 10
        store.delete_topic("gone")
        assert store.append(Message("gone", b"again")).queue_offset == 11
    assert verify(tmp_path / "store").is_ok


@pytest.mark.parametrize("fmt", FORMATS)
def test_the_log_alone_says_what_was_carried(tmp_path: Path, fmt: str) -> None:
    clock = ManualClock()
    with old_store(tmp_path, clock, format=fmt) as store:
        store.append(Message("orders", b"fresh"))
        store.retain()
        assert store.start > 0
        before = (store.tables.log_id, store.tables.topics, store.tables.groups, store.tables.incarnations)
    for path in (tmp_path / "store" / "config").glob("*.json*"):
        if path.name != "store.json":
            path.unlink()
    with open_store(tmp_path, clock=clock) as store:
        assert (store.tables.log_id, store.tables.topics, store.tables.groups, store.tables.incarnations) == before
        assert store.progress.offset("readers", "orders", 0) == 150
        assert store.append(Message("gone", b"again")).queue_offset == 10


@pytest.mark.parametrize("restart", ["none", "clean", "crash", "log alone"])
@pytest.mark.parametrize("fmt", FORMATS)
def test_every_copy_names_the_first_position(tmp_path: Path, fmt: str, restart: str) -> None:
    clock = ManualClock()
    config = small(format=fmt, retention_hours=1.0)
    store = open_store(tmp_path, config, clock=clock)
    first = store.put_group("readers").position
    for _ in range(3):
        fill(store, 200)
        clock.advance(2 * HOUR)
        fill(store, 1)
        store.retain()
        records = [record for record in store.reader.walk(store.start) if b'"group":"readers"' in record.body]
        assert [record.properties[names.ORIGIN] for record in records] == [str(first)]
        if restart != "none":
            store.abandon() if restart == "crash" else store.close()
            for path in (tmp_path / "store/config").glob("*.json*") if restart == "log alone" else ():
                if path.name != "store.json":
                    path.unlink()
            store = open_store(tmp_path, config, clock=clock)
    store.close()


def test_a_backup_does_not_bring_back_what_was_deleted(tmp_path: Path) -> None:
    clock = ManualClock()
    store = old_store(tmp_path, clock)
    store.put_topic("short-lived")
    store.put_group("short-lived")
    store.progress.commit("short-lived", "orders", 0, 5)
    store.close()
    store = open_store(tmp_path, small(retention_hours=1.0), clock=clock)
    store.delete_topic("short-lived")
    store.delete_group("short-lived")
    fill(store, 200)
    clock.advance(2 * HOUR)
    fill(store, 3)
    store.retain()
    assert store.start > 0
    store.append(Message("orders", b"x"))
    store.close()
    for path in (tmp_path / "store" / "config").glob("*.json"):
        if path.name != "store.json":
            path.write_bytes(b"damaged")
    with open_store(tmp_path, clock=clock) as store:
        assert "short-lived" not in store.tables.topics
        assert "short-lived" not in store.tables.groups
        assert store.progress.offset("short-lived", "orders", 0) is None
        assert store.progress.offset("readers", "orders", 0) == 150


def test_files_of_queues_and_index_go_with_their_segments(tmp_path: Path) -> None:
    clock = ManualClock()
    with old_store(tmp_path, clock) as store:
        fill(store, 5, topic="fresh")
        store.checkpoint()
        queue = tmp_path / "store" / "consumequeue" / "orders" / "0"
        index = tmp_path / "store" / "index"
        before = len(list(queue.iterdir())), len(list(index.iterdir()))
        store.retain()
        after = len(list(queue.iterdir())), len(list(index.iterdir()))
        assert after[0] < before[0]
        assert after[1] < before[1]
        assert store.append(Message("orders", b"next")).queue_offset == 150


class SlowRemoval:
    """Hook: each queue file takes 9 ms to remove."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.removed = 0
        self.read = 0

    def before(self, call: Call) -> bool:
        if "consumequeue" in call.path.parts and call.kind == "remove":
            self._clock.advance(9)
            self.removed += 1
        self.read += "orders" in call.path.parts and call.kind in ("open", "read")
        return True

    def after(self, call: Call) -> None: ...


def test_queue_files_go_a_few_at_a_time(tmp_path: Path) -> None:
    clock = ManualClock()
    slow = SlowRemoval(clock)
    config = small(retention_hours=1.0)
    store = open_store(tmp_path, config, clock=clock, fs=HookedFileSystem(OsFileSystem(), slow))
    for number in range(600):
        store.append(Message("orders", b"." * 100, queue_id=number % 10))
    clock.advance(2 * HOUR)
    for number in range(10):
        store.append(Message("orders", b"fresh", queue_id=number))
    store.checkpoint()
    slow.removed = 0
    store.retain()
    assert store.start > 0
    steps = [slow.removed]

    def check() -> None:
        for queue_id in range(10):
            assert store.records("orders", queue_id, 60) != []
            low = store.reader.min_offset("orders", queue_id)
            assert store.reader.message_at("orders", queue_id, low - 1) is None
            assert bodies(store, queue_id=queue_id)[-1] == b"fresh"

    check()
    while store._housekeeper._round is not None:
        steps.append(-slow.removed)
        store.tick()
        steps[-1] += slow.removed
        check()
    assert len(steps) > 5
    assert max(steps) <= 3
    assert all(len(list((tmp_path / "store/consumequeue/orders" / str(n)).iterdir())) <= 2 for n in range(10))
    store.close()
    assert verify(tmp_path / "store").is_ok


def test_a_crash_before_the_queue_files_are_gone_does_no_harm(tmp_path: Path) -> None:
    clock = ManualClock()
    config = small(retention_hours=1.0)
    store = open_store(tmp_path, config, clock=clock, fs=HookedFileSystem(OsFileSystem(), SlowRemoval(clock)))
    for number in range(600):
        store.append(Message("orders", b"." * 100, queue_id=number % 10))
    clock.advance(2 * HOUR)
    fill(store, 1, queue_id=9)
    store.retain()
    assert store._housekeeper._round is not None
    found = [bodies(store, queue_id=queue_id) for queue_id in range(10)]
    store.abandon()
    with open_store(tmp_path, config, clock=clock) as store:
        assert [bodies(store, queue_id=queue_id) for queue_id in range(10)] == found
        fill(store, 200)
        clock.advance(2 * HOUR)
        fill(store, 1)
        store.retain()
        assert all(len(list((tmp_path / "store/consumequeue/orders" / str(n)).iterdir())) == 1 for n in range(1, 9))
    assert verify(tmp_path / "store").is_ok


def test_queues_with_one_file_are_not_read(tmp_path: Path) -> None:
    clock = ManualClock()
    watch = SlowRemoval(clock)
    with open_store(
        tmp_path, small(retention_hours=1.0), clock=clock, fs=HookedFileSystem(OsFileSystem(), watch)
    ) as store:
        for number in range(100):
            store.append(Message("orders", b"", queue_id=number))
        fill(store, 10, size=SEGMENT // 2)
        clock.advance(2 * HOUR)
        fill(store, 1)
        store.checkpoint()
        watch.read = 0
        store.retain()
        assert store.start > 0
        assert watch.read == 0


def test_holds_are_given_for_a_time(tmp_path: Path) -> None:
    clock = ManualClock()
    with old_store(tmp_path, clock) as store:
        fill(store, 5)
        store.hold("spark", 0, until_ms=clock.now_ms() + 60_000)
        assert store.counters()["holds"] == 1
        assert store.retain().start is None
        store.hold("spark", SEGMENT + 5, until_ms=clock.now_ms() + 60_000)  # moved
        assert store.retain().start == SEGMENT
        store.release("spark")
        store.release("spark")
        assert store.counters()["holds"] == 0
        start = store.retain().start
        assert start is not None
        assert start > SEGMENT


def test_holds_that_have_ended_are_forgotten(tmp_path: Path) -> None:
    clock = ManualClock()
    with open_store(tmp_path, clock=clock) as store:
        for number in range(100):
            store.hold(f"lease {number}", 0, until_ms=clock.now_ms() + number)
        clock.advance(50)
        store.retain()
        assert store.counters()["holds"] == 49
        clock.advance(11_000)
        store.tick()
        assert store.counters()["holds"] == 0


def test_a_hold_taken_before_the_segments_go_counts(tmp_path: Path) -> None:
    """They go when a checkpoint is there, and a reader may come meanwhile."""
    clock = ManualClock()
    store = old_store(tmp_path, clock)
    fill(store, 1)
    worker = Later(store)
    decided = store.retain().start
    assert decided is not None
    assert decided > SEGMENT
    store.hold("ended", 0, until_ms=clock.now_ms())
    store.hold("spark", SEGMENT + 5, until_ms=clock.now_ms() + 60_000)
    worker.work()
    store.tick()
    assert store.start == SEGMENT
    store.release("spark")
    store.retain()
    worker.work()
    store.tick()
    assert store.start == decided
    store.abandon()


def test_a_checkpoint_slower_than_passes_does_not_put_removals_off(tmp_path: Path) -> None:
    clock = ManualClock()
    store = old_store(tmp_path, clock)
    fill(store, 1)
    worker = Later(store)
    decided = store.retain().start
    for number in range(3):
        store.progress.commit("readers", "orders", 0, 151 + number)
        fill(store, 1)
        clock.advance(11_000)
        store.tick()
    assert store.start == 0
    worker.work()
    store.tick()
    assert store.start == decided
    store.abandon()


def test_the_latest_pass_decides_what_goes(tmp_path: Path) -> None:
    clock = ManualClock()
    disk = ForgetfulFileSystem()
    store = open_store(tmp_path, small(disk_free_floor=10 * GIB), clock=clock, fs=disk)
    fill(store, 200)
    worker = Later(store)
    disk.set_disk(total_bytes=50 * GIB, free_bytes=7 * GIB)
    store.retain()
    disk.set_disk(total_bytes=50 * GIB, free_bytes=30 * GIB)
    store.retain()  # there is room again
    worker.work()
    store.tick()
    assert store.start == 0
    store.abandon()


def test_force_wins_over_a_hold_that_came_late_and_names_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    disk = ForgetfulFileSystem()
    store = open_store(tmp_path, small(disk_free_floor=10 * GIB), clock=clock, fs=disk)
    fill(store, 200)
    worker = Later(store)
    disk.set_disk(total_bytes=50 * GIB, free_bytes=7 * GIB)
    store.retain()
    store.hold("spark", 0, until_ms=clock.now_ms() + 60_000)
    store.hold("later", SEGMENT, until_ms=clock.now_ms() + 60_000)
    worker.work()
    with caplog.at_level(logging.WARNING):
        store.tick()
    assert store.start == SEGMENT
    assert "holds lose: names=spark\n" in caplog.text
    store.abandon()


def test_a_full_disk_refuses_messages_and_takes_progress(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    disk = ForgetfulFileSystem()
    config = small(disk_free_floor=10 * GIB)
    with open_store(tmp_path, config, clock=clock, fs=disk) as store:
        fill(store, 200)
        segments_before = store.counters()["segments"]
        store.hold("spark", 0, until_ms=clock.now_ms() + HOUR)
        disk.set_disk(total_bytes=100 * GIB, free_bytes=5 * GIB)
        clock.advance(11_000)
        with caplog.at_level(logging.WARNING):
            store.tick()
        assert "holds lose: names=spark" in caplog.text
        assert "messages are refused" in caplog.text
        assert store.counters()["segments"] == segments_before - 1
        with pytest.raises(StoreFull, match="over 90 % full"):
            store.append(Message("orders", b"refused"))
        with pytest.raises(StoreFull):
            store.append_many([Message("orders", b"refused")])
        store.progress.commit("readers", "orders", 0, 199)
        store.put_topic("still possible")
        clock.advance(2000)
        store.tick()
        assert store.progress.unsaved == 0
        assert store.failure is None
        disk.set_disk(total_bytes=100 * GIB, free_bytes=50 * GIB)
        clock.advance(11_000)
        store.tick()
        assert "taken again" in caplog.text
        store.append(Message("orders", b"taken"))


def test_a_pass_reads_little(tmp_path: Path) -> None:
    """Every ten seconds on the owner's thread: not a megabyte of each segment."""
    reads: list[Call] = []

    class Watch:
        def before(self, call: Call) -> bool:
            if call.kind == "read":
                reads.append(call)
            return True

        def after(self, call: Call) -> None: ...

    with open_store(tmp_path, fs=HookedFileSystem(OsFileSystem(), Watch())) as store:
        fill(store, 1500)
        assert store.counters()["segments"] > MAX_SEGMENTS_PER_PASS + 3
        reads.clear()
        store.retain()
        assert len(reads) <= 2 * MAX_SEGMENTS_PER_PASS
        reads.clear()
        store.retain()
        assert reads == []


def test_carrying_that_frees_nothing_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    with open_store(tmp_path, small(retention_hours=1.0), clock=clock) as store:
        for number in range(200):
            store.put_group(f"group-{number}", {"text": "x" * 300})
        clock.advance(2 * HOUR)
        store.append(Message("orders", b"fresh"))
        with caplog.at_level(logging.WARNING):
            store.retain()
        assert "retention frees nothing" in caplog.text
        assert len(store.tables.groups) == 200


@pytest.mark.parametrize("fmt", FORMATS)
def test_what_is_taken_can_be_carried(tmp_path: Path, fmt: str) -> None:
    """A copy names its origin, and a deletion is carried together with all min offsets of its topic."""
    clock = ManualClock()
    store = open_store(tmp_path, small(format=fmt, retention_hours=1.0), clock=clock)
    size = largest(lambda size: store.put_group("readers", {"text": "x" * size}), SEGMENT)
    assert size > SEGMENT - 300
    purged = largest(lambda count: store.purge("purged", dict.fromkeys(range(10_000, 10_000 + count), 0)), SEGMENT)
    fill(store, 1, topic="purged", queue_id=50_000)
    end, groups = store.appended_end, dict(store.tables.groups)
    refused: list[Callable[[], object]] = [
        lambda: store.put_group("readers", {"text": "x" * (size + 1)}),
        lambda: store.put_group("writers", {"text": "x" * (size + 1)}),
        lambda: store.purge("purged", dict.fromkeys(range(10), 0)),
        lambda: store.delete_topic("purged"),
    ]
    for call in refused:
        with pytest.raises(RecordTooLarge, match="with what carrying it adds has"):
            call()
    assert (store.appended_end, store.tables.groups) == (end, groups)
    fill(store, 300)
    clock.advance(2 * HOUR)
    fill(store, 1)
    start = store.retain().start
    assert start is not None
    assert store.start == start > 0
    store.close()
    for path in (tmp_path / "store/config").glob("[ts]*.json*"):
        path.unlink() if path.name != "store.json" else None
    with open_store(tmp_path, clock=clock) as store:
        assert store.tables.groups == groups
        assert len(store.tables.deletions.min_offsets["purged"]) == purged


def test_a_lower_limit_for_messages_does_not_concern_tables(tmp_path: Path) -> None:
    clock = ManualClock()
    config = small(segment_bytes=1 << 18, retention_hours=1.0)
    with open_store(tmp_path, config, clock=clock) as store:
        store.put_group("readers", {"text": "x" * (200 << 10)})
    with open_store(tmp_path, replace(config, max_body_bytes=1000), clock=clock) as store:
        fill(store, 600, size=900)
        clock.advance(2 * HOUR)
        fill(store, 1)
        start = store.retain().start
        assert start is not None
        assert store.start == start > 0
        assert "readers" in store.tables.groups


def test_a_change_that_cannot_be_carried_keeps_its_segment_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    config = small(retention_hours=1.0)
    with open_store(tmp_path, config, clock=clock) as store:
        fill(store, 150)
        stuck = store.put_group("readers").position
        store.put_group("others")
        fill(store, 300)
        assert stuck > SEGMENT
    path = tmp_path / "store/config/subscriptionGroup.json"
    table = json.loads(path.read_bytes())
    table["subscriptionGroupTable"]["readers"]["text"] = "x" * SEGMENT  # by hand
    path.write_bytes(json.dumps(table).encode())
    clock.advance(2 * HOUR)
    with open_store(tmp_path, config, clock=clock) as store:
        fill(store, 1)
        for _ in range(3):
            clock.advance(11_000)
            store.tick()
            assert store.start == stuck // SEGMENT * SEGMENT
        alarms = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert len(alarms) == 1
        assert "op=group name=readers" in alarms[0]
        store.put_group("readers")
        clock.advance(11_000)
        store.tick()
        assert store.start > stuck
        assert set(store.tables.groups) == {"readers", "others"}


@pytest.mark.parametrize("kind", ["remove", "sync_dir", "sync_all", "write"])
def test_a_fault_in_a_pass_stops_writes_and_loses_nothing(tmp_path: Path, kind: str) -> None:
    for skip in range(6):
        root = tmp_path / str(skip)
        clock = ManualClock()
        old_store(root, clock).close()
        faults = Faults()
        config = small(retention_hours=1.0)
        store = open_store(root, config, clock=clock, fs=HookedFileSystem(OsFileSystem(), faults))
        store.append(Message("orders", b"fresh", queue_id=1))
        faults.add(Fault(code=errno.EIO, kinds=frozenset({kind}), skip=skip))  # type: ignore[arg-type]
        try:
            store.retain()
        except LiteMQError:
            with pytest.raises(LiteMQError):
                store.append(Message("orders", b"refused"))
        store.close() if store.failure is not None else store.abandon()
        with open_store(root, clock=clock) as store:
            assert store.progress.offset("readers", "orders", 0) == 150
            assert "kept" in store.tables.topics
            assert bodies(store, queue_id=1)[-1] == b"fresh"
            assert store.append(Message("gone", b"again")).queue_offset == 10


def test_a_disk_that_cannot_be_asked_is_a_named_error(tmp_path: Path) -> None:
    class Sick(OsFileSystem):
        def disk(self, path: Path) -> tuple[int, int]:
            raise OSError(errno.EIO, "Input/output error")

    with open_store(tmp_path, fs=Sick()) as store:
        with pytest.raises(LiteMQError, match="Input/output"):
            store.retain()
        store.append(Message("orders", b"still possible"))


def test_a_failed_store_keeps_everything(tmp_path: Path) -> None:
    faults = Faults()
    clock = ManualClock()
    old_store(tmp_path, clock).close()
    store = open_store(tmp_path, small(retention_hours=1.0), clock=clock, fs=HookedFileSystem(OsFileSystem(), faults))
    faults.add(Fault(code=errno.EIO, kinds=frozenset({"write"}), path="*/commitlog*"))
    with pytest.raises(WriteFailed):
        store.append(Message("orders", b"x"))
    with pytest.raises(WriteFailed):
        store.retain()
    assert store.start == 0
    store.close()
