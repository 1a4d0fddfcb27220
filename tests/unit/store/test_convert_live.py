"""Convert stores with live state: tables, progress, deletions, carried changes; then open what came out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.store.convert_support import LAZY, SMALL, contents, is_sound, records, tree
from tests.unit.store.walk_support import unpack_rocketmq

from litemq.clock import ManualClock
from litemq.config import StoreConfig, WritableFormat
from litemq.format import config_json, names
from litemq.store.convert import convert
from litemq.store.message_store import MessageStore
from litemq.types import Message, Record

CONFIG = StoreConfig(segment_bytes=8192, queue_entries=16, index_slots=64, index_entries=200)
FORMATS: tuple[WritableFormat, ...] = ("litemq", "rocketmq")
OTHER = {"litemq": "rocketmq", "rocketmq": "litemq"}


def open_store(path: Path, clock: ManualClock | None = None, fmt: WritableFormat | None = None) -> MessageStore:
    config = StoreConfig() if fmt is None else replace(CONFIG, format=fmt)
    return MessageStore.open(path, config, fs=LAZY, clock=clock, background=False)


def make_store(path: Path, fmt: WritableFormat, *, rounds: int = 40) -> None:
    """Write a store with topics, groups, progress, a deleted and a re-created topic, and a purged queue."""
    with open_store(path, ManualClock(), fmt) as store:
        store.put_topic("kept", {"readQueueNums": 2, "writeQueueNums": 2})
        store.put_group("readers", {"retryMaxTimes": 3})
        store.put_group("gone", {})
        for number in range(rounds):
            for topic in ("kept", "dead", "again"):
                store.append(Message(topic, b"%d" % number, queue_id=number % 2, keys=(f"k{number}",), tags=("A",)))
        store.progress.commit("readers", "kept", 0, 7)
        store.progress.commit("readers", "dead", 0, 3)
        store.progress.commit("gone", "kept", 0, 1)
        store.checkpoint()
        store.delete_topic("dead")
        store.delete_topic("again")
        store.delete_group("gone")
        store.purge("kept", {0: 5})
        store.append(Message("again", b"new", queue_id=0, keys=("new",)))
        store.progress.commit("readers", "kept", 1, 4)


def state_of(store: MessageStore) -> dict[str, object]:
    """Return what a user of the store sees of its tables."""
    tables = store.tables
    return {
        "log_id": tables.log_id,
        "topics": tables.topics,
        "groups": tables.groups,
        "incarnations": tables.incarnations,
        "next_offsets": tables.deletions.next_offsets,
        "min_offsets": tables.deletions.min_offsets,
        "readers": store.progress.of_group("readers"),
        "gone": store.progress.of_group("gone"),
        "queues": {queue: store.reader.max_offset(queue.topic, queue.queue_id) for queue in store.queues()},
        "mins": {queue: store.reader.min_offset(queue.topic, queue.queue_id) for queue in store.queues()},
    }


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("fmt", FORMATS)
def test_a_store_with_state_opens_as_it_was(fmt: WritableFormat, to: str, tmp_path: Path) -> None:
    make_store(tmp_path / "source", fmt)
    report = convert(tmp_path / "source", tmp_path / "target", to=to, **SMALL)
    assert (report.dropped, report.is_ok) == ({}, True)
    assert is_sound(tmp_path / "target")
    with open_store(tmp_path / "target") as target, open_store(tmp_path / "source") as source:
        assert target.was_clean
        assert target.recovered.records == 0, "nothing was scanned: the checkpoint is trusted"
        assert state_of(target) == state_of(source)
        assert [record.body for record in target.records("again", 0, 20)] == [b"new"]
        assert target.records("dead", 0, 0) == []
        appended = target.append(Message("again", b"more", queue_id=0))
        assert appended.queue_offset == 21
        assert target.append(Message("dead", b"x", queue_id=1)).queue_offset == 20, "goes on where it was deleted"
    assert is_sound(tmp_path / "target")


@pytest.mark.parametrize("fmt", FORMATS)
def test_snapshots_name_positions_of_the_new_log(fmt: WritableFormat, tmp_path: Path) -> None:
    make_store(tmp_path / "source", fmt)
    convert(tmp_path / "source", tmp_path / "target", to=OTHER[fmt], **SMALL)
    ours = config_json.read((tmp_path / "target" / "config" / "topics.json").read_bytes())["litemq"]
    assert isinstance(ours, dict)
    found: dict[int, Record] = {record.position: record for record in records(tmp_path / "target")}
    positions, dead = ours["positions"], ours["deadBelow"]
    assert isinstance(positions, dict)
    assert isinstance(dead, dict)
    assert {found[int(str(at))].topic for at in positions.values()} == {names.CHANGES_TOPIC}
    for topic, at in dead.items():
        body = found[int(str(at))].body
        assert b'"topic-deleted"' in body
        assert topic.encode() in body
    assert ours["position"] == max(record.position + record.size for record in found.values())


@pytest.mark.parametrize("fmt", FORMATS)
def test_an_unclean_store_is_brought_up_to_its_end(fmt: WritableFormat, tmp_path: Path) -> None:
    """Snapshots lag behind a log whose broker was killed; what came after them is in the log."""
    store = open_store(tmp_path / "source", ManualClock(), fmt)
    store.append(Message("early", b""))
    store.checkpoint()
    store.put_topic("late", {"readQueueNums": 3, "writeQueueNums": 3})
    store.append(Message("late", b"", queue_id=2))
    store.put_group("readers")
    store.delete_topic("early")
    store.abandon()
    convert(tmp_path / "source", tmp_path / "target", to=OTHER[fmt], **SMALL)
    with open_store(tmp_path / "target") as target:
        assert set(target.tables.topics) == {"late"}
        assert set(target.tables.groups) == {"readers"}
        assert target.recovered.records == 0


def test_the_log_alone_is_enough(tmp_path: Path) -> None:
    """Without ``config/`` the tables come from the changes in the log."""
    make_store(tmp_path / "source", "litemq")
    convert(tmp_path / "source" / "commitlog", tmp_path / "target", to="rocketmq", **SMALL)
    with open_store(tmp_path / "target") as target, open_store(tmp_path / "source") as source:
        assert state_of(target) == state_of(source)


def test_carried_changes_lose_the_positions_that_are_gone(tmp_path: Path) -> None:
    """Retention appended live changes again; their first homes went with the oldest segments (G-1)."""
    clock = ManualClock()
    config = StoreConfig(segment_bytes=4096, queue_entries=16, delete_hour=None, retention_hours=1)
    with MessageStore.open(tmp_path / "source", config, clock=clock, background=False) as store:
        store.put_group("readers", {"retryMaxTimes": 5})
        for number in range(60):
            store.append(Message("t", b"x" * 100, queue_id=0, message_id=f"m{number}"))
        store.progress.commit("readers", "t", 0, 44)
        clock.advance(10 * 3_600_000)
        store.append(Message("t", b"late", queue_id=0))
        for _ in range(9):
            store.retain()
        assert store.start > 0
        store.append(Message("t", b"last", queue_id=0))
        before = state_of(store)
    old = [record for record in records(tmp_path / "source") if names.ORIGIN in record.properties]
    assert old, "something was carried"
    first = records(tmp_path / "source")[0].position
    assert all(int(record.properties[names.ORIGIN]) < first for record in old)
    report = convert(tmp_path / "source", tmp_path / "target", to="rocketmq", **SMALL)
    assert report.dropped == {}, "a position that was translated is not lost"
    assert [record for record in records(tmp_path / "target") if names.ORIGIN in record.properties] == []
    with open_store(tmp_path / "target") as target:
        after = state_of(target)
        assert target.start == 0
        assert {**after, "mins": None} == {**before, "mins": None}
        assert target.progress.offset("readers", "t", 0) == 44
        assert [record.body for record in target.records("t", 0, 60)] == [b"late", b"last"]
    assert is_sound(tmp_path / "target")


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("name", ["clean", "killed"])
def test_a_real_rocketmq_store_opens_after_conversion(name: str, to: str, tmp_path: Path) -> None:
    source = unpack_rocketmq(name, tmp_path)
    convert(source, tmp_path / "target", to=to, **SMALL)
    for path, digest in tree(source, "config").items():
        if path.endswith(".json"):
            assert tree(tmp_path / "target", "config")[path] == digest
    count = len(contents(tmp_path / "target"))
    with open_store(tmp_path / "target") as target:
        assert target.was_clean
        assert target.progress.offset("shop-fulfil", "Orders", 1) == 52
        assert "Workflow" in target.tables.topics
        assert [record.queue_offset for record in target.records("Workflow", 1, 0)] == [*range(16)]
        appended = target.append(Message("Workflow", b"more", queue_id=1))
        assert appended.queue_offset == 16
    assert len(contents(tmp_path / "target")) > count
    assert is_sound(tmp_path / "target")


def test_changes_that_passed_through_another_format_still_count(tmp_path: Path) -> None:
    make_store(tmp_path / "source", "litemq")
    convert(tmp_path / "source", tmp_path / "there", to="blueprint", **SMALL)
    assert is_sound(tmp_path / "there")
    convert(tmp_path / "there", tmp_path / "back", to="litemq", **SMALL)
    assert is_sound(tmp_path / "back")
    with open_store(tmp_path / "back") as back, open_store(tmp_path / "source") as source:
        assert state_of(back)["topics"] == state_of(source)["topics"]
        assert state_of(back)["queues"] == state_of(source)["queues"]


@pytest.mark.parametrize("to", FORMATS)
def test_an_empty_store_opens_after_conversion(to: str, tmp_path: Path) -> None:
    (tmp_path / "source" / "commitlog").mkdir(parents=True)
    report = convert(tmp_path / "source", tmp_path / "target", to=to, **SMALL)
    assert (report.from_format, report.records, report.is_ok) == (None, 0, True)
    with open_store(tmp_path / "target") as target:
        assert target.format == to
        assert target.append(Message("t", b"first")).queue_offset == 0
    assert is_sound(tmp_path / "target")


def test_a_running_store_is_converted_up_to_its_flushed_end(tmp_path: Path) -> None:
    with open_store(tmp_path / "source", ManualClock(), "litemq") as source:
        source.append(Message("t", b"flushed"))
        source.checkpoint()
        source.append(Message("t", b"not yet"))
        report = convert(tmp_path / "source", tmp_path / "target", to="rocketmq", **SMALL)
    assert report.is_ok
    assert [record.body for record in records(tmp_path / "target") if record.topic == "t"] == [b"flushed"]
    with open_store(tmp_path / "target") as target:
        assert target.was_clean
        assert target.reader.max_offset("t", 0) == 1
    assert is_sound(tmp_path / "target")
