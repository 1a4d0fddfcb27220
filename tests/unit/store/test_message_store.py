"""The face of the store: what each call answers and promises, and each error by its name."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.faults import Fault, Faults, broken_read, broken_write, disk_full, failed_sync
from tests.support.forgetful_fs import GIB, ForgetfulFileSystem
from tests.support.hooked_fs import Call, HookedFileSystem
from tests.unit.store.live_support import FORMATS, SEGMENT, bodies, fill, open_store, small, topics

from litemq.clock import ManualClock
from litemq.errors import (
    BadStore,
    Closed,
    FlushFailed,
    FlushTimeout,
    InvalidRequest,
    LiteMQError,
    ReadFailed,
    RecordTooLarge,
    ReservedName,
    StoreFull,
    StoreInUse,
    TopicUnusable,
    UnknownTopic,
    WriteFailed,
)
from litemq.format.config_json import JsonObject
from litemq.format.names import CHANGES_TOPIC, PROGRESS_TOPIC
from litemq.store.fs import OsFileSystem
from litemq.store.log_walk import open_log
from litemq.store.message_store import MessageStore
from litemq.store.query import Wanted, query
from litemq.store.verify import verify
from litemq.types import Appended, Message, Record, Status, TopicQueue

LOG = "*/commitlog*"
HOUR = 3_600_000


def faulty() -> tuple[HookedFileSystem, Faults]:
    """Return the machine's file system, and the faults that it has."""
    faults = Faults()
    return HookedFileSystem(OsFileSystem(), faults), faults


def is_marked(root: Path) -> bool:
    """Return whether the store at ``root`` says that it runs, or did not stop cleanly."""
    return (root / "store" / "abort").exists()


# -- append ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", FORMATS)
def test_answers_say_where_and_when(tmp_path: Path, fmt: str) -> None:
    clock = ManualClock()
    with open_store(tmp_path, small(format=fmt), clock=clock) as store:
        assert store.format == fmt
        store.put_topic("orders")
        at, next_offsets = store.appended_end, [0, 0, 0]
        for number in range(12):
            clock.advance(7)
            answer = store.append(Message("orders", b"%d" % number, queue_id=number % 3))
            assert answer == Appended(at, store.appended_end, next_offsets[number % 3], clock.now_ms())
            record = store.reader.record_at(answer.position)
            assert record is not None
            assert (record.body, record.size) == (b"%d" % number, answer.end - answer.position)
            at = answer.end
            next_offsets[number % 3] += 1


@pytest.mark.parametrize("fmt", FORMATS)
def test_one_call_answers_as_many_would(tmp_path: Path, fmt: str) -> None:
    messages = [Message("orders", b"." * (n * 37 % 900), queue_id=n % 2, keys=(f"k{n}",)) for n in range(60)]
    answers = []
    for together in (False, True):
        with open_store(tmp_path / str(together), small(format=fmt)) as store:
            store.put_topic("orders")
            answers.append(store.append_many(messages) if together else [store.append(m) for m in messages])
            assert store.counters()["log_rolls"] >= 1
            for queue_id in (0, 1):
                assert bodies(store, queue_id=queue_id) == [m.body for m in messages if m.queue_id == queue_id]
    assert answers[0] == answers[1]


def test_messages_of_one_call_are_one_write(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.put_topic("orders")
        writes = store.counters()["log_writes"]
        store.append_many([Message("orders", b"%d" % number, queue_id=number % 4) for number in range(20)])
        assert store.counters()["log_writes"] == writes + 1


def nested(depth: int) -> JsonObject:
    """Return objects inside each other."""
    return {"a": nested(depth - 1)} if depth else {}


REFUSED: dict[str, tuple[Callable[[MessageStore], object], type[LiteMQError]]] = {
    "body": (lambda store: store.append(Message("orders", b"x" * (SEGMENT + 1))), RecordTooLarge),
    "one of many": (
        lambda store: store.append_many([Message("orders", b"a"), Message("orders", b"x" * SEGMENT)]),
        RecordTooLarge,
    ),
    "name": (lambda store: store.append(Message("a/b", b"")), TopicUnusable),
    "name of a topic": (lambda store: store.put_topic(".."), TopicUnusable),
    "our name": (lambda store: store.append(Message(CHANGES_TOPIC, b"{}")), ReservedName),
    "our topic": (lambda store: store.delete_topic(PROGRESS_TOPIC), ReservedName),
    "queue": (lambda store: store.append(Message("orders", b"", queue_id=-1)), InvalidRequest),
    "too many queues": (lambda store: store.put_topic("new", {"writeQueueNums": 1 + (1 << 20)}), InvalidRequest),
    "no number of queues": (lambda store: store.put_topic("new", {"readQueueNums": "8"}), InvalidRequest),
    "purge below the first queue": (lambda store: store.purge("orders", {0: 1, -1: 0}), InvalidRequest),
    "no UTF-8": (lambda store: store.put_group("\ud800"), InvalidRequest),
    "no UTF-8 in a configuration": (lambda store: store.put_topic("new", {"a": "\ud800"}), InvalidRequest),
    "no JSON": (lambda store: store.put_group("new", {"a": float("nan")}), InvalidRequest),
    "too deep a configuration": (lambda store: store.put_group("new", {"a": nested(61)}), InvalidRequest),
    "progress of no UTF-8 group": (lambda store: store.progress.commit("\ud800", "orders", 0, 1), InvalidRequest),
    "progress of no UTF-8 topic": (lambda store: store.progress.commit("g", "\ud800", 0, 1), InvalidRequest),
    "progress of too long a name": (lambda store: store.progress.commit("é" * 128, "orders", 0, 1), InvalidRequest),
    "no topic": (lambda store: store.delete_topic("nowhere"), UnknownTopic),
}


@pytest.mark.parametrize(("call", "error"), REFUSED.values(), ids=REFUSED)
def test_a_refused_call_changes_nothing(
    tmp_path: Path, call: Callable[[MessageStore], object], error: type[LiteMQError]
) -> None:
    with open_store(tmp_path) as store:
        fill(store, 3)
        before = store.counters(), dict(store.tables.topics), store.queues()
        with pytest.raises(error) as raised:
            call(store)
        assert type(raised.value) is error
        assert (store.counters(), dict(store.tables.topics), store.queues()) == before
        assert store.failure is None
        assert store.append(Message("orders", b"next")).queue_offset == 3
    assert not is_marked(tmp_path)


# -- what goes wrong with the disk -----------------------------------------------------------------------------------


WRITES: dict[str, Callable[[MessageStore], object]] = {
    "append": lambda store: store.append(Message("orders", b"no")),
    "append_many": lambda store: store.append_many([Message("orders", b"no")]),
    "put_topic": lambda store: store.put_topic("new"),
    "delete_topic": lambda store: store.delete_topic("orders"),
    "purge": lambda store: store.purge("orders", {0: 1}),
    "put_group": lambda store: store.put_group("new"),
    "delete_group": lambda store: store.delete_group("readers"),
    "checkpoint": lambda store: store.checkpoint(),
    "retain": lambda store: store.retain(),
}


def _append_and_flush(store: MessageStore, body: bytes) -> None:
    store.append(Message("orders", body))
    store.flush()


@pytest.mark.parametrize(
    ("fault", "error"),
    [(broken_write(path=LOG), WriteFailed), (disk_full(path=LOG), StoreFull), (failed_sync(path=LOG), FlushFailed)],
    ids=["broken", "full", "no sync"],
)
def test_a_failure_stops_every_write_and_no_read(tmp_path: Path, fault: Fault, error: type[LiteMQError]) -> None:
    clock = ManualClock()
    fs, faults = faulty()
    store = open_store(tmp_path, small(progress_interval_ms=1), clock=clock, fs=fs)
    store.put_group("readers")
    sent = fill(store, 5)
    store.flush()
    faults.add(fault)
    with pytest.raises(error):
        _append_and_flush(store, b"sixth")
    faults.cure()
    assert type(store.failure) is error
    end = store.appended_end
    for call in WRITES.values():
        with pytest.raises(error):
            call(store)
    store.progress.commit("readers", "orders", 0, 3)
    clock.advance(HOUR)
    store.tick()  # says nothing, does nothing: the owner has the failure already
    assert store.progress.unsaved == 1
    assert store.appended_end == end
    assert bodies(store)[:5] == sent
    store.close()
    assert is_marked(tmp_path)
    with open_store(tmp_path) as store:
        assert not store.was_clean
        assert store.failure is None
        assert bodies(store)[:5] == sent
        assert {"orders"} == topics(store)
        assert list(store.tables.groups) == ["readers"]


def test_a_read_that_fails_is_named_and_stops_nothing(tmp_path: Path) -> None:
    fs, faults = faulty()
    with open_store(tmp_path, fs=fs) as store:
        sent = fill(store, 5)
        faults.add(broken_read(path=LOG))
        with pytest.raises(ReadFailed):
            store.records("orders", 0, 0)
        with pytest.raises(ReadFailed):
            store.read("orders", 0, 0)
        assert store.append(Message("orders", b"sixth")).queue_offset == 5
        faults.cure()
        assert bodies(store) == [*sent, b"sixth"]


def test_a_store_that_cannot_begin_lets_go_of_its_files(tmp_path: Path) -> None:
    fs, faults = faulty()
    faults.add(broken_write(path=LOG, count=1))  # of the id of the log
    with pytest.raises(WriteFailed):
        open_store(tmp_path, fs=fs)
    assert faults.struck == 1
    with open_store(tmp_path, fs=fs) as store:  # not: in use
        assert fill(store, 2) == bodies(store)


# -- what is visible, what is durable --------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["async", "group", "sync"])
def test_readers_see_what_the_policy_lets_them(tmp_path: Path, policy: str) -> None:
    with open_store(tmp_path, small(flush=policy)) as store:
        flushed = store.flushed_end
        answer = store.append(Message("orders", b"one"))
        assert store.flushed_end == flushed < answer.end == store.appended_end
        assert store.readable_end == (answer.end if policy == "async" else flushed)
        assert bodies(store) == ([b"one"] if policy == "async" else [])
        assert store.flush() == answer.end
        assert store.flushed_end == store.readable_end == answer.end
        assert bodies(store) == [b"one"]


@pytest.mark.parametrize(("policy", "flushes"), [("async", 0), ("group", 1), ("sync", 1)])
def test_a_wait_is_as_long_as_the_policy_asks(tmp_path: Path, policy: str, flushes: int) -> None:
    with open_store(tmp_path, small(flush=policy)) as store:
        first, last = (store.append(Message("orders", body)) for body in (b"one", b"two"))
        before = store.counters()["flushes"]
        store.wait_durable(first.end)
        assert store.counters()["flushes"] == before + flushes
        store.wait_durable(last.end)  # came with the first
        assert store.counters()["flushes"] == before + flushes
        assert (store.flushed_end >= last.end) is (policy != "async")


class Gate:
    """Hook that lets syncs of the log wait until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.opened.set()

    def before(self, call: Call) -> bool:
        if call.kind == "sync" and "commitlog" in str(call.path):
            assert self.opened.wait(60)
        return True

    def after(self, call: Call) -> None: ...


def test_a_wait_that_is_too_long_loses_nothing(tmp_path: Path) -> None:
    gate = Gate()
    config = small(flush="group", flush_timeout_ms=1)
    with open_store(tmp_path, config, fs=HookedFileSystem(OsFileSystem(), gate), background=True) as store:
        gate.opened.clear()
        answer = store.append(Message("orders", b"one"))
        with pytest.raises(FlushTimeout, match="not flushed within 1 ms"):
            store.wait_durable(answer.end)
        assert bodies(store) == []
        gate.opened.set()
        assert store.flush() == answer.end
        store.wait_durable(answer.end)
        assert bodies(store) == [b"one"]


# -- tick ------------------------------------------------------------------------------------------------------------


def test_a_tick_saves_progress_when_it_is_due(tmp_path: Path) -> None:
    clock = ManualClock()
    with open_store(tmp_path, small(progress_interval_ms=1000, progress_changes=3), clock=clock) as store:
        store.progress.commit("readers", "orders", 0, 0)
        clock.advance(999)
        store.tick()
        assert store.counters()["progress_unsaved"] == 1
        clock.advance(1)
        store.tick()
        assert store.counters()["progress_unsaved"] == 0
        assert store.reader.max_offset(PROGRESS_TOPIC, 0) == 1
        for queue_id in range(3):  # many do not wait
            store.progress.commit("readers", "orders", queue_id, 0)
            store.progress.commit("writers", "orders", queue_id, 0)
        store.tick()
        assert store.counters()["progress_unsaved"] == 0
        assert store.reader.max_offset(PROGRESS_TOPIC, 0) == 2


def test_a_tick_makes_a_checkpoint_when_it_is_due(tmp_path: Path) -> None:
    clock = ManualClock()
    config = small(checkpoint_interval_ms=10_000, checkpoint_bytes=5000)
    store = open_store(tmp_path, config, clock=clock)
    store.checkpoint()
    made = store.counters()["checkpoints"]

    def checkpoints() -> int:
        store.tick()
        return store.counters()["checkpoints"] - made

    clock.advance(60_000)
    assert checkpoints() == 0  # nothing was appended
    fill(store, 3)
    assert checkpoints() == 1  # … for a long time
    fill(store, 3)
    clock.advance(9999)
    assert checkpoints() == 1
    clock.advance(1)
    assert checkpoints() == 2
    store.append(Message("orders", b"." * 4000))
    assert checkpoints() == 2
    store.append(Message("orders", b"." * 1000))
    assert checkpoints() == 3  # enough bytes
    sent = bodies(store)
    store.append(Message("orders", b"since then"))
    store.abandon()
    with open_store(tmp_path, config, clock=clock) as again:
        assert again.counters()["recovered_records"] == 1
        assert bodies(again) == [*sent, b"since then"]


def test_a_tick_looks_for_old_segments_every_ten_seconds(tmp_path: Path) -> None:
    clock = ManualClock()
    with open_store(tmp_path, small(segment_bytes=4096, retention_hours=1), clock=clock) as store:
        fill(store, 300)
        segments = store.counters()["segments"]
        assert segments > 12
        clock.advance(2 * HOUR)
        last = store.append(Message("orders", b"new"))
        store.tick()
        assert store.counters()["segments_removed"] == 10  # few at once
        clock.advance(9999)
        store.tick()
        assert store.counters()["segments_removed"] == 10
        clock.advance(1)
        store.tick()
        assert store.start == last.position // 4096 * 4096
        assert store.counters()["segments"] == segments - store.counters()["segments_removed"]
        assert bodies(store)[-1] == b"new"


@pytest.mark.parametrize("end", ["release", "time"])
def test_a_hold_keeps_segments_until_it_ends(tmp_path: Path, end: str) -> None:
    clock = ManualClock()
    with open_store(tmp_path, small(retention_hours=1), clock=clock) as store:
        sent = fill(store, 300)
        clock.advance(2 * HOUR)
        store.append(Message("orders", b"new"))
        store.hold("spark", SEGMENT, until_ms=clock.now_ms() + 5000)
        assert store.retain().start == SEGMENT
        assert store.retain().start is None
        if end == "release":
            store.release("spark")
        else:
            clock.advance(5000)
        assert store.retain().start == store.start > SEGMENT
        left = bodies(store)
        assert left == [*sent, b"new"][-len(left) :]


def test_a_nearly_full_disk_refuses_messages_only(tmp_path: Path) -> None:
    disk = ForgetfulFileSystem()
    with open_store(tmp_path, small(disk_free_floor=10 * GIB), fs=disk) as store:
        fill(store, 2)
        disk.set_disk(total_bytes=100 * GIB, free_bytes=5 * GIB)
        assert store.retain().refuse
        for name in ("append", "append_many"):
            with pytest.raises(StoreFull, match="messages are refused"):
                WRITES[name](store)
        store.put_group("readers")
        assert store.failure is None
        disk.set_disk(total_bytes=100 * GIB, free_bytes=50 * GIB)
        assert not store.retain().refuse
        assert store.append(Message("orders", b"third")).queue_offset == 2


# -- topics, groups --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", ["close", "abandon"])
def test_a_topic_that_comes_back_goes_on_with_its_offsets(tmp_path: Path, stop: str) -> None:
    store = open_store(tmp_path)
    fill(store, 4)
    fill(store, 2, queue_id=1)
    store.progress.commit("readers", "orders", 0, 3)
    store.delete_topic("orders")
    assert topics(store) == set()
    assert store.progress.offset("readers", "orders", 0) is None
    with pytest.raises(UnknownTopic, match="no topic 'orders'"):
        store.delete_topic("orders")
    store.close() if stop == "close" else store.abandon()
    with open_store(tmp_path) as store:
        store.put_topic("orders")
        assert bodies(store) == []
        assert (store.reader.min_offset("orders", 0), store.reader.max_offset("orders", 0)) == (4, 4)
        answers = store.append_many([Message("orders", b"again", queue_id=queue_id) for queue_id in (0, 1, 2)])
        assert [answer.queue_offset for answer in answers] == [4, 2, 0]
        assert bodies(store) == [b"again"]


def test_a_purge_goes_no_further_than_the_end(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        sent = fill(store, 5)
        store.purge("orders", {0: 2})
        assert bodies(store) == sent[2:]
        store.purge("orders", {0: 99, 1: 99})
        assert (store.reader.min_offset("orders", 0), store.reader.max_offset("orders", 0)) == (5, 5)
        assert store.append(Message("orders", b"next")).queue_offset == 5
        assert store.append(Message("orders", b"first", queue_id=1)).queue_offset == 0
        assert (bodies(store), bodies(store, queue_id=1)) == ([b"next"], [b"first"])


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("status", [Status.PREPARED, Status.ROLLED_BACK])
def test_a_purge_takes_nothing_that_has_no_offset(tmp_path: Path, fmt: str, status: Status) -> None:
    """The 0 in the record of such a message is no offset; it goes with its topic only."""
    half = Message("orders", b"half", keys=("k",), message_id="half", status=status)
    with open_store(tmp_path, small(format=fmt)) as store:
        fill(store, 3)
        store.purge("orders", {0: 3})
        before = store.append(half)
        assert [record.position for record in found_of(store, "orders")] == [before.position]
        is_indexed = status is Status.PREPARED
        assert len(store.reader.by_key("orders", "k")) == is_indexed
        assert (store.reader.by_id("half") is not None) == is_indexed
        store.delete_topic("orders")
        after = store.append(half)
        assert [record.position for record in found_of(store, "orders")] == [after.position]
    assert verify(tmp_path / "store").is_ok


def test_a_purge_goes_by_the_sys_flag_of_rocketmq(tmp_path: Path) -> None:
    with open_store(tmp_path, small(format="rocketmq")) as store:
        store.append(Message("orders", b"full", status=Status.PREPARED, sys_flag=0))  # in the queue, all the same
        assert len(found_of(store, "orders")) == 1
        store.purge("orders", {0: 1})
        assert found_of(store, "orders") == []


def found_of(store: MessageStore, topic: str) -> list[Record]:
    """Return the messages of a topic that are not gone; the files say the same as the open store."""
    found = list(store.reader.by_time(None, None, topic=topic))
    store.checkpoint()
    assert query(open_log(store._parts.paths.root), Wanted(topic=topic)) == found
    return found


def test_the_deepest_configuration_that_is_taken_comes_back(tmp_path: Path) -> None:
    config: JsonObject = {"a": nested(60)}
    with open_store(tmp_path) as store:
        store.put_group("deep", config)
    for path in (tmp_path / "store" / "commitlog").iterdir():
        path.unlink()  # the snapshot alone must say it
    with open_store(tmp_path) as store:
        assert store.tables.groups["deep"] == {**config, "groupName": "deep"}


def test_groups_come_and_go_with_their_progress(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        fill(store, 5)
        store.put_group("readers", {"retryMaxTimes": 3})
        store.put_group("others")
        for group in ("readers", "others"):
            store.progress.commit(group, "orders", 0, 4)
        assert store.tables.groups == {
            "readers": {"groupName": "readers", "retryMaxTimes": 3},
            "others": {"groupName": "others"},
        }
        store.delete_group("readers")
    with open_store(tmp_path) as store:
        assert list(store.tables.groups) == ["others"]
        assert store.progress.offset("readers", "orders", 0) is None
        assert store.progress.offset("others", "orders", 0) == 4


def test_queues_are_listed_with_our_own(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.append_many([Message("orders", b"", queue_id=queue_id) for queue_id in (3, 0)])
        assert store.queues() == [TopicQueue(CHANGES_TOPIC, 0), TopicQueue("orders", 0), TopicQueue("orders", 3)]


def test_counters_count_what_happened(tmp_path: Path) -> None:
    clock = ManualClock()
    with open_store(tmp_path, clock=clock) as store:
        store.put_topic("orders")
        start = store.counters()
        fill(store, 200)  # each has one key
        store.progress.commit("readers", "orders", 0, 7)
        store.hold("spark", 0, until_ms=clock.now_ms() + 1)
        found = store.counters()
        assert found["messages"] == start["messages"] + 200
        assert found["log_writes"] == start["log_writes"] + 200
        assert (found["log_start"], found["log_end"]) == (store.start, store.appended_end)
        assert found["flushed_end"] == store.flushed_end
        assert found["segments"] == found["log_rolls"] + 1 == store.appended_end // SEGMENT + 1 > 1
        assert found["index_rolls"] * 39 + found["index_entries"] == 200
        assert (found["progress_unsaved"], found["holds"]) == (1, 1)
        assert (found["dirty_queues"], found["checkpoints"]) == (2, start["checkpoints"])
        assert found["offset_gaps"] == found["unplaced_records"] == found["damaged_records"] == 0
        store.checkpoint()
        found = store.counters()
        assert (found["dirty_queues"], found["checkpoints"]) == (0, start["checkpoints"] + 1)
        assert found["flushed_end"] == found["log_end"]
        assert found["flushes"] == start["flushes"] + 1


# -- opening and closing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("background", [False, True])
def test_a_store_is_open_once(tmp_path: Path, background: bool) -> None:
    store = open_store(tmp_path, background=background)
    with pytest.raises(StoreInUse, match="in use"):
        open_store(tmp_path)
    fill(store, 2)  # the first does not notice
    store.close()
    with open_store(tmp_path) as again:
        assert len(bodies(again)) == 2
        with pytest.raises(StoreInUse):
            open_store(tmp_path)


@pytest.mark.parametrize("background", [False, True])
def test_a_clean_stop_leaves_everything_on_disk(tmp_path: Path, background: bool) -> None:
    disk = ForgetfulFileSystem()
    with open_store(tmp_path, fs=disk, background=background) as store:
        sent = fill(store, 200)
        store.progress.commit("readers", "orders", 0, 150)
    store.close()  # once more is nothing
    with open_store(tmp_path, fs=disk.kill()) as again:
        assert again.was_clean
        assert again.counters()["recovered_records"] == 0
        assert bodies(again) == sent
        assert again.progress.offset("readers", "orders", 0) == 150


@pytest.mark.parametrize("background", [False, True])
def test_what_was_abandoned_is_found_again(tmp_path: Path, background: bool) -> None:
    store = open_store(tmp_path, background=background)
    sent = fill(store, 200)
    store.abandon()
    store.abandon()
    store.close()  # too late for a clean stop
    assert is_marked(tmp_path)
    with open_store(tmp_path) as again:
        assert not again.was_clean
        assert bodies(again) == sent
        assert again.counters()["recovered_records"] >= 200
        assert again.append(Message("orders", b"next")).queue_offset == 200
    assert not is_marked(tmp_path)


def test_a_closed_store_refuses_every_call(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, 2)
    end = store.appended_end
    store.close()
    refused: dict[str, Callable[[MessageStore], object]] = {
        **WRITES,
        "flush": lambda store: store.flush(),
        "wait_durable": lambda store: store.wait_durable(end),
        "queues": lambda store: store.queues(),
        "read": lambda store: store.read("orders", 0, 0),
        "records": lambda store: store.records("orders", 0, 0),
    }
    for call in refused.values():
        with pytest.raises(Closed, match="closed"):
            call(store)
    store.tick()
    assert isinstance(store.failure, Closed)


def test_a_configuration_that_disagrees_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path, small(format="rocketmq")) as store:
        sent = fill(store, 5)
    with pytest.raises(BadStore, match="format is rocketmq, not litemq"):
        open_store(tmp_path, small(format="litemq"))
    with pytest.raises(BadStore, match="segment"):
        open_store(tmp_path, small(segment_bytes=2 * SEGMENT))
    (tmp_path / "file").touch()
    with pytest.raises(BadStore, match="not a store directory"):
        MessageStore.open(tmp_path / "file")
    with open_store(tmp_path) as store:
        assert store.was_clean
        assert bodies(store) == sent


def test_what_may_take_long_is_told(tmp_path: Path) -> None:
    clock = ManualClock()
    told: list[str] = []

    @contextmanager
    def during(work: str) -> Iterator[None]:
        told.append(work)
        yield
        told.append(f"end of {work}")

    with open_store(tmp_path, clock=clock) as store:
        store.tell_of_work(during)
        fill(store, 1, size=SEGMENT // 2)
        assert not told
        fill(store, 1, size=SEGMENT // 2)
        assert told == ["roll", "end of roll"]
        told.clear()
        clock.advance(60_000)
        store.tick()
        assert told == ["checkpoint", "end of checkpoint", "retention", "end of retention"]


def test_who_holds_a_store_is_named(tmp_path: Path) -> None:
    code = (
        "import sys; from litemq import MessageStore\n"
        "with MessageStore.open(sys.argv[1]): print(flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "store")]
    with open_store(tmp_path):
        pass  # made small
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(StoreInUse, match=rf"is in use by process {other.pid} \(.*python.* -c .*\); stop it first"):
            open_store(tmp_path)
        assert other.stdin is not None
        other.stdin.close()
