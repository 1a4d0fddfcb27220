"""Rebuild: derived files from the log alone, byte for byte what the broker wrote."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.hooked_fs import HookedFileSystem
from tests.support.killer_fs import killer_fs
from tests.support.power_switch import CallLog
from tests.support.store_files import StoreFiles
from tests.unit.store.convert_support import FIXTURES, LAZY, copy_store, is_sound, records, tree
from tests.unit.store.test_convert_live import FORMATS, make_store, open_store, state_of
from tests.unit.store.walk_support import unpack_rocketmq

from litemq.clock import ManualClock
from litemq.config import StoreConfig, WritableFormat
from litemq.errors import BadStore, CorruptRecord, StoreInUse
from litemq.format import checkpoint
from litemq.format.checkpoint import Checkpoint
from litemq.store.fs import OsFileSystem
from litemq.store.message_store import MessageStore
from litemq.store.rebuild import Part, rebuild
from litemq.store.verify import verify
from litemq.types import Message

STORES = [fixture for fixture in FIXTURES if fixture.name in ("store", "spaces", "clean")]


def store_of(name: str, folder: Path) -> Path:
    fixture = next(fixture for fixture in STORES if str(fixture) == name)
    return copy_store(fixture.open(folder / "unpacked"), folder / "copy")


@pytest.mark.parametrize("name", [str(fixture) for fixture in STORES])
def test_queues_are_byte_for_byte_what_was_there(name: str, tmp_path: Path) -> None:
    """The real RocketMQ's too: delay queues hold delivery times, batch queues are left alone."""
    store = store_of(name, tmp_path)
    before = tree(store)
    found = verify(store)
    report = rebuild(store)
    changed = {path for path in before.keys() | tree(store).keys() if before.get(path) != tree(store).get(path)}
    assert {path.partition("/")[0] for path in changed} <= {"index"}
    assert (report.records, report.is_ok) == (found.records, True)
    assert is_sound(store)
    if found.consume_queue is not None and name != "rocketmq-clean":
        assert (report.queues, report.queue_entries) == (found.consume_queue.queues, found.consume_queue.entries)
    if found.index is not None:
        after = verify(store).index
        assert after is not None
        assert (report.index_files, report.index_entries) == (after.files, after.entries)


def checkpoint_of(store: Path) -> Checkpoint:
    found = checkpoint.decode((store / "checkpoint").read_bytes())
    assert found is not None
    return found


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("only", [None, "consumequeue", "index"])
def test_derived_files_come_back(fmt: WritableFormat, only: Part | None, tmp_path: Path) -> None:
    store = tmp_path / "store"
    make_store(store, fmt)
    with open_store(store) as opened:
        state = state_of(opened)
    before, told = tree(store), checkpoint_of(store)
    for part in [only] if only else ["consumequeue", "index"]:
        shutil.rmtree(store / part)
    rebuild(store, only=only)
    after = tree(store)
    assert {path: after[path] for path in after if path != "checkpoint" and "index" not in path} == {
        path: before[path] for path in before if path != "checkpoint" and "index" not in path
    }
    assert replace(checkpoint_of(store), linked=0, indexed=0) == replace(told, linked=0, indexed=0)
    assert is_sound(store)
    with open_store(store) as opened:
        assert opened.was_clean
        assert opened.recovered.records == 0
        assert state_of(opened) == state


def test_the_index_is_the_same_too(tmp_path: Path) -> None:
    """But for its name, and for how far slots were written."""
    make_store(tmp_path / "store", "litemq")
    before = next((tmp_path / "store" / "index").iterdir()).read_bytes()
    rebuild(tmp_path / "store", only="index")
    assert next((tmp_path / "store" / "index").iterdir()).read_bytes() == before


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    steps=st.lists(st.tuples(st.sampled_from("aabbcdp"), st.integers(0, 2)), max_size=40), fmt=st.sampled_from(FORMATS)
)
def test_any_history_is_rebuilt_as_it_was_written(
    steps: list[tuple[str, int]], fmt: WritableFormat, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    shutil.rmtree(store, ignore_errors=True)
    with MessageStore.open(
        store,
        StoreConfig(format=fmt, segment_bytes=4096, queue_entries=4, index_slots=8, index_entries=20),
        fs=LAZY,
        clock=ManualClock(),
        background=False,
    ) as opened:
        for number, (step, queue) in enumerate(steps):
            known = opened.reader.max_offset("a", queue) if "a" in opened.tables.topics else 0
            match step:
                case "d" if "a" in opened.tables.topics:
                    opened.delete_topic("a")
                case "p" if known:
                    opened.purge("a", {queue: known - 1})
                case "c":
                    opened.checkpoint()
                case _:
                    topic = step if step in "ab" else "b"
                    opened.append(Message(topic, b"", queue_id=queue, keys=(f"{number}",), status=number % 5 // 4))
    before = tree(store, "consumequeue")
    assert is_sound(store)
    rebuild(store, fs=LAZY)
    assert tree(store, "consumequeue") == before
    assert is_sound(store)


def test_sizes_follow_the_files_or_are_set(tmp_path: Path) -> None:
    make_store(tmp_path / "store", "litemq")
    rebuild(tmp_path / "store", queue_entries=5, index_slots=7, index_entries=11)
    queue = tmp_path / "store" / "consumequeue" / "kept" / "0"
    assert {path.stat().st_size for path in queue.iterdir()} == {5 * 24}
    assert {path.stat().st_size for path in (tmp_path / "store" / "index").iterdir()} == {40 + 4 * 7 + 20 * 11}
    assert is_sound(tmp_path / "store")
    with open_store(tmp_path / "store") as store:
        store.append(Message("kept", b"", keys=("more",)))
    assert is_sound(tmp_path / "store")
    shutil.rmtree(tmp_path / "store" / "consumequeue")
    rebuild(tmp_path / "store")
    assert {path.stat().st_size for path in queue.iterdir()} == {5 * 24}, "as store.json states"


def test_what_is_not_rebuilt_keeps_its_sizes(tmp_path: Path) -> None:
    make_store(tmp_path / "store", "litemq")
    rebuild(tmp_path / "store", only="consumequeue", queue_entries=5, index_slots=7, index_entries=11)
    rebuild(tmp_path / "store", only="index", queue_entries=9, index_slots=6, index_entries=12)
    with open_store(tmp_path / "store") as store:
        store.append(Message("kept", b"", keys=("more",)))
    assert is_sound(tmp_path / "store")
    assert {path.stat().st_size for path in (tmp_path / "store" / "index").iterdir()} == {40 + 4 * 6 + 20 * 12}
    assert {path.stat().st_size for path in (tmp_path / "store").glob("consumequeue/*/*/*")} == {5 * 24}


@pytest.mark.parametrize("wrong", [{"queue_entries": 0}, {"index_slots": 0}, {"index_entries": 1}], ids=str)
def test_wrong_sizes_change_nothing(wrong: dict[str, int], tmp_path: Path) -> None:
    make_store(tmp_path / "store", "litemq")
    before = tree(tmp_path / "store")
    with pytest.raises(BadStore):
        rebuild(tmp_path / "store", **wrong)  # type: ignore[arg-type]
    assert tree(tmp_path / "store") == before


def test_a_store_in_use_is_refused(tmp_path: Path) -> None:
    make_store(tmp_path / "store", "litemq")
    with open_store(tmp_path / "store"), pytest.raises(StoreInUse):
        rebuild(tmp_path / "store")


def test_only_a_store_directory_is_rebuilt(tmp_path: Path) -> None:
    make_store(tmp_path / "store", "litemq")
    log = tmp_path / "store" / "commitlog"
    for path in (log, log / "00000000000000000000", tmp_path / "nowhere", tmp_path):
        with pytest.raises(BadStore):
            rebuild(path)


def test_no_topic_leads_out_of_the_store(tmp_path: Path) -> None:
    files = StoreFiles(tmp_path / "in" / "store")
    for topic in ("a", "..", "../out", "/tmp/litemq-out", "b"):
        files.add(Message(topic, b"", keys=("k",)))
    files.queues = {queue: entries for queue, entries in files.queues.items() if queue[0] in "ab"}
    files.write()
    rebuild(files.root)
    assert sorted(path.name for path in (files.root / "consumequeue").iterdir()) == ["a", "b"]
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["store"]
    assert not Path("/tmp/litemq-out").exists()


@pytest.mark.parametrize("crashes", [False, True])
def test_a_queue_without_records_keeps_its_next_offset(tmp_path: Path, crashes: bool) -> None:
    """Retention took its records; consumers stand on its offsets."""
    clock = ManualClock()
    config = StoreConfig(segment_bytes=4096, queue_entries=16, delete_hour=None, retention_hours=1)
    with MessageStore.open(tmp_path / "store", config, clock=clock, background=False) as store:
        for _ in range(21):
            store.append(Message("old", b"x" * 50))
        for _ in range(40):
            store.append(Message("new", b"x" * 100))
        clock.advance(10 * 3_600_000)
        store.append(Message("new", b"late"))
        for _ in range(9):
            store.retain()
        assert store.start > 0
        state = state_of(store)
    rebuild(tmp_path / "store")
    assert is_sound(tmp_path / "store")
    if crashes:
        open_store(tmp_path / "store").abandon()
    with open_store(tmp_path / "store") as store:
        assert store.was_clean is not crashes
        assert state_of(store)["queues"] == state["queues"]
        assert store.append(Message("old", b"")).queue_offset == 21


def test_damage_leaves_a_gap_as_a_broker_leaves_one(tmp_path: Path) -> None:
    make_store(tmp_path / "store", "litemq")
    target = next(
        record for record in records(tmp_path / "store") if record.topic == "kept" and record.queue_offset == 9
    )
    log = tmp_path / "store" / "commitlog" / target.segment
    data = bytearray(log.read_bytes())
    data[target.position - int(target.segment) + 60] ^= 1
    log.write_bytes(data)
    rebuild(tmp_path / "store")
    found = verify(tmp_path / "store")
    assert found.damage.corrupt == 1
    assert found.consume_queue is not None
    assert found.consume_queue.is_ok
    with open_store(tmp_path / "store") as store:
        assert store.reader.max_offset("kept", target.queue_id) == 20
        with pytest.raises(CorruptRecord):
            store.reader.message_at("kept", target.queue_id, 9)
        assert store.reader.message_at("kept", target.queue_id, 10) is not None


# -- checkpoint and crashes ----------------------------------------------------------------------


def test_a_torn_tail_is_not_claimed(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", ManualClock(), "litemq")
    for number in range(10):
        store.append(Message("t", b"%d" % number))
    store.flush()
    store.abandon()
    last = records(tmp_path / "store")[-1]
    log = tmp_path / "store" / "commitlog" / last.segment
    data = bytearray(log.read_bytes())
    data[last.position + 40 : last.position + last.size] = bytes(last.size - 40)
    log.write_bytes(data)
    rebuild(tmp_path / "store")
    assert (tmp_path / "store" / "abort").exists(), "the next start must still look at the tail"
    found = checkpoint.decode((tmp_path / "store" / "checkpoint").read_bytes())
    assert found is not None
    assert (found.flushed, found.derived) == (last.position, last.position)
    with open_store(tmp_path / "store") as store:
        assert store.reader.max_offset("t", 0) == 9
        assert store.recovered.cut == [(last.position, 40)]
    assert is_sound(tmp_path / "store")


def test_a_foreign_checkpoint_stays_as_it_is(tmp_path: Path) -> None:
    store = unpack_rocketmq("killed", tmp_path)
    before = (store / "checkpoint").read_bytes()
    rebuild(store)
    assert (store / "checkpoint").read_bytes() == before
    assert (store / "abort").exists()


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(("fmt", "only"), [("litemq", None), ("rocketmq", None), ("litemq", "consumequeue")])
def test_a_kill_anywhere_leaves_a_store_that_opens(fmt: WritableFormat, only: Part | None, tmp_path: Path) -> None:
    source = tmp_path / "source"
    make_store(source, fmt, rounds=16)
    with open_store(source) as opened:
        state = state_of(opened)
    log = CallLog()
    rebuild(copy_store(source, tmp_path / "counted"), only=only, fs=HookedFileSystem(OsFileSystem(), log))
    total = len(log.sites)
    expected = tree(tmp_path / "counted", "consumequeue")
    for number in sorted({*range(0, total, 11), *range(total - 12, total)}):
        store = copy_store(source, tmp_path / f"{number}")
        child = os.fork()
        if child == 0:
            try:
                rebuild(store, only=only, fs=killer_fs(number, "after"))
            finally:
                os._exit(0)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
        with open_store(store) as opened:
            assert state_of(opened) == state, log.sites[number]
        assert is_sound(store), log.sites[number]
        assert tree(store, "consumequeue").keys() == expected.keys()
        shutil.rmtree(store)
