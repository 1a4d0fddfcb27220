"""Repair: what is torn is saved and cut, what disagrees is rebuilt, and nothing else is touched."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.hooked_fs import HookedFileSystem
from tests.support.killer_fs import killer_fs
from tests.support.power_switch import CallLog
from tests.support.store_files import StoreFiles
from tests.unit.store.convert_support import FIXTURES, LAZY, Fixture, contents, copy_store, is_sound, records, tree
from tests.unit.store.test_convert_live import FORMATS, make_store, open_store, state_of
from tests.unit.store.walk_support import meta, unpack_rocketmq

from litemq.clock import ManualClock
from litemq.config import WritableFormat
from litemq.errors import BadStore, StoreInUse
from litemq.format import checkpoint
from litemq.format.placement import Placement
from litemq.format.record import FORMATS as RECORD_FORMATS
from litemq.store.convert import convert
from litemq.store.fs import OsFileSystem
from litemq.store.rebuild import rebuild
from litemq.store.repair import repair
from litemq.store.verify import verify
from litemq.types import LogPosition, Message, QueueOffset

SOUND = [fixture for fixture in FIXTURES if fixture.name in ("store", "spaces", "clean")]


@pytest.mark.parametrize("fixture", SOUND, ids=str)
def test_a_sound_store_is_not_touched(fixture: Fixture, tmp_path: Path) -> None:
    store = copy_store(fixture.open(tmp_path), tmp_path / "copy")
    before = tree(store)
    for dry_run in (True, False):
        report = repair(store, dry_run=dry_run)
        assert report.to_json() == {"cut": [], "corrupt": 0, "queues_rebuilt": 0, "index_rebuilt": False, "ok": True}
        assert tree(store) == before


def test_only_the_mark_goes_when_nothing_is_wrong(tmp_path: Path) -> None:
    store = copy_store(SOUND[0].open(tmp_path), tmp_path / "copy")
    before = tree(store)
    (store / "abort").write_text("123")
    assert repair(store, dry_run=True).is_ok
    assert (store / "abort").exists()
    assert repair(store).is_ok
    assert tree(store) == before


def test_the_killed_rocketmq_store(tmp_path: Path) -> None:
    store = unpack_rocketmq("killed", tmp_path)
    torn = meta("killed")["torn"]
    log = store / "commitlog" / "00000000000000524288"
    place = int(str(torn["position"])) - 524_288
    tail = log.read_bytes()[place : place + int(str(torn["size"]))]
    before = tree(store)
    planned = repair(store, dry_run=True)
    assert tree(store) == before
    report = repair(store)
    assert planned.to_json() == report.to_json()
    assert report.to_json() == {
        "cut": [{"position": torn["position"], "bytes": torn["size"]}],
        "corrupt": 0,
        "queues_rebuilt": 2,
        "index_rebuilt": True,
        "ok": True,
    }
    assert (store / "repair" / f"{torn['position']:020}").read_bytes() == tail
    assert not any(log.read_bytes()[place:])
    assert not (store / "abort").exists()
    assert is_sound(store)
    changed = {path for path in tree(store).keys() | before.keys() if tree(store).get(path) != before.get(path)}
    assert {path.partition("/")[0] for path in changed} == {"abort", "commitlog", "consumequeue", "index", "repair"}
    assert (store / "checkpoint").read_bytes() == (
        unpack_rocketmq("killed", tmp_path / "x") / "checkpoint"
    ).read_bytes()
    with open_store(store) as opened:
        found = {
            f"{queue.topic}/{queue.queue_id}": [0, opened.reader.max_offset(queue.topic, queue.queue_id)]
            for queue in opened.queues()
            if not queue.topic.startswith("LITEMQ_SYS")
        }
    assert found == {queue: ends for queue, ends in meta("killed")["queues"].items() if "Columnar" not in queue}


def torn_store(path: Path, fmt: WritableFormat, *, is_flushed: bool = True) -> tuple[int, int]:
    """Make a store whose last record is half there; return its position and size.

    Flushed, with its queue entry, it was once whole; else it never was.
    """
    keep = 40
    store = open_store(path, ManualClock(), fmt)
    for number in range(10):
        if number == 9 and not is_flushed:
            store.checkpoint()
        store.append(Message("t", b"%d" % number * 60, keys=("k",)))
    if is_flushed:
        store.checkpoint()
    store.abandon()
    last = records(path)[-1]
    log = path / "commitlog" / last.segment
    data = bytearray(log.read_bytes())
    data[last.position + keep : last.position + last.size] = bytes(last.size - keep)
    log.write_bytes(data)
    return last.position, last.size


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_torn_tail_is_saved_and_cut(fmt: WritableFormat, tmp_path: Path) -> None:
    store = tmp_path / "store"
    position, size = torn_store(store, fmt)
    report = repair(store)
    assert [(cut.position, cut.size) for cut in report.cut] == [(position, size)]
    assert (report.queues_rebuilt, report.index_rebuilt, report.is_ok) == (1, True, True)
    assert len((store / "repair" / f"{position:020d}").read_bytes()) == size
    found = checkpoint.decode((store / "checkpoint").read_bytes())
    assert found is not None
    assert (found.flushed, found.derived) == (position, position), "no more than is true"
    with open_store(store) as opened:
        assert opened.was_clean
        assert opened.recovered.cut == []
        assert opened.append(Message("t", b"again")).queue_offset == 9
    assert is_sound(store)


def test_an_older_copy_stays(tmp_path: Path) -> None:
    position, _ = torn_store(tmp_path / "store", "litemq")
    saved = tmp_path / "store" / "repair" / f"{position:020d}"
    saved.parent.mkdir()
    saved.write_bytes(b"what a first run saved")
    assert repair(tmp_path / "store").is_ok
    assert saved.read_bytes() == b"what a first run saved"
    assert sorted(path.name for path in saved.parent.iterdir()) == [saved.name, f"{saved.name}.1"]


def test_bytes_behind_a_hole_do_not_come_back(tmp_path: Path) -> None:
    """A power cut kept a later record and lost the one before: a growing log would meet it again."""
    store = tmp_path / "store"
    opened = open_store(store, ManualClock(), "litemq")
    for number in range(10):
        opened.append(Message("t", b"%d" % number * 60))
    opened.abandon()
    lost, stale = records(store)[-2:]
    log = store / "commitlog" / lost.segment
    data = bytearray(log.read_bytes())
    data[lost.position : lost.position + lost.size] = bytes(lost.size)
    log.write_bytes(data)
    report = repair(store)
    (cut,) = report.cut
    assert cut.position == lost.position
    assert lost.size < cut.size <= lost.size + stale.size, "zeros at the end of a record cannot be told from space"
    assert not any(log.read_bytes()[lost.position :])
    with open_store(store) as opened:
        opened.append(Message("t", b"8" * 60))
        assert opened.reader.max_offset("t", 0) == 9
    assert is_sound(store)


def test_without_an_unclean_stop_the_space_behind_the_end_is_nobody_s_business(tmp_path: Path) -> None:
    make_store(tmp_path / "store", "litemq")
    last = records(tmp_path / "store")[-1]
    log = tmp_path / "store" / "commitlog" / last.segment
    data = bytearray(log.read_bytes())
    data[-10:] = b"0123456789"
    log.write_bytes(data)
    assert repair(tmp_path / "store").cut == []
    assert log.read_bytes() == data


def test_corrupt_records_stay(tmp_path: Path) -> None:
    make_store(tmp_path / "store", "litemq")
    target = records(tmp_path / "store")[30]
    log = tmp_path / "store" / "commitlog" / target.segment
    data = bytearray(log.read_bytes())
    data[target.position - int(target.segment) + 50] ^= 1
    log.write_bytes(data)
    planned = repair(tmp_path / "store", dry_run=True)
    report = repair(tmp_path / "store")
    assert (report.corrupt, report.is_ok, planned.is_ok) == (1, False, False)
    assert log.read_bytes() == data
    found = verify(tmp_path / "store")
    assert found.consume_queue is not None
    assert found.index is not None
    assert found.consume_queue.is_ok
    assert found.index.is_ok


def test_a_corrupt_record_before_a_torn_tail_stays(tmp_path: Path) -> None:
    make_store(tmp_path / "store", "litemq")
    last = records(tmp_path / "store")[-1]
    with open_store(tmp_path / "store") as store:
        for _ in range(2):
            store.append(Message("kept", b"some words"))
    corrupt, torn = (record for record in records(tmp_path / "store") if record.position > last.position)
    assert corrupt.segment == torn.segment
    log = tmp_path / "store" / "commitlog" / torn.segment
    data = log.read_bytes().replace(b"some words", b"some sword")
    log.write_bytes(data)
    planned = repair(tmp_path / "store", dry_run=True)
    report = repair(tmp_path / "store")
    for found in (planned, report):
        assert [(cut.position, cut.size) for cut in found.cut] == [(torn.position, torn.size)]
        assert (found.corrupt, found.is_ok) == (1, False)
    kept = slice(0, torn.position - int(torn.segment))
    assert log.read_bytes()[kept] == data[kept]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    fmt=st.sampled_from(["litemq", "rocketmq", "blueprint"]),
    hits=st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.integers(0, 9), st.integers(0, 19)), max_size=4
    ),
)
def test_exactly_the_queues_that_disagree_are_rebuilt(
    fmt: str, hits: list[tuple[str, int, int, int]], tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "store", ignore_errors=True)
    files = StoreFiles(tmp_path / "store", format=fmt)
    for number in range(40):
        files.add(Message("ab"[number % 2], b"%d" % number, queue_id=number // 2 % 2, tags=("A",), keys=(f"{number}",)))
    files.write()
    sound = tree(files.root, "consumequeue")
    for topic, queue, entry, byte in hits:
        path = files.root / "consumequeue" / topic / str(queue) / f"{0:020d}"
        data = bytearray(path.read_bytes())
        data[entry * files.entry_size + byte] ^= 0x55
        path.write_bytes(data)
    hurt = {path for path, digest in tree(files.root, "consumequeue").items() if sound[path] != digest}
    planned = repair(files.root, dry_run=True)
    report = repair(files.root, fs=LAZY)
    assert report.queues_rebuilt == planned.queues_rebuilt == len(hurt)
    assert tree(files.root, "consumequeue") == sound
    assert report.is_ok
    assert is_sound(files.root)


def test_missing_and_foreign_queues(tmp_path: Path) -> None:
    make_store(tmp_path / "store", "rocketmq")
    queues = tmp_path / "store" / "consumequeue"
    before = tree(tmp_path / "store", "consumequeue")
    shutil.copytree(queues / "kept" / "0", queues / "unknown" / "7")
    shutil.rmtree(queues / "kept" / "1")
    report = repair(tmp_path / "store")
    assert (report.queues_rebuilt, report.is_ok) == (2, True)
    assert tree(tmp_path / "store", "consumequeue") == before
    assert not (queues / "unknown").exists()


@pytest.mark.parametrize("fmt", ["litemq", "rocketmq", "blueprint"])
def test_an_entry_below_position_0_dangles(fmt: str, tmp_path: Path) -> None:
    files = StoreFiles(tmp_path / "store", format=fmt)
    files.add(Message("t", b"0"))
    files.write()
    sound = tree(files.root, "consumequeue")
    path = files.root / "consumequeue" / "t" / "0" / f"{0:020d}"
    entry = struct.pack(">qi", -5, 100).ljust(files.entry_size, b"\0")
    data = path.read_bytes()
    path.write_bytes(data[: files.entry_size] + entry + data[2 * files.entry_size :])
    stranger = files.root / "consumequeue" / "none" / "3" / path.name
    stranger.parent.mkdir(parents=True)
    stranger.write_bytes(entry.ljust(len(data), b"\0"))
    planned = repair(files.root, dry_run=True)
    report = repair(files.root)
    assert planned.to_json() == report.to_json()
    assert (report.queues_rebuilt, report.is_ok) == (2, True)
    assert tree(files.root, "consumequeue") == sound


@pytest.mark.parametrize("fmt", ["litemq", "rocketmq", "blueprint"])
@pytest.mark.parametrize("is_index_gone", [False, True])
@pytest.mark.parametrize(
    ("offsets", "rebuilt", "is_mended"),
    [
        ([-1], 0, False),
        ([0, -1], 1, False),
        ([1 << 62], 0, False),
        ([0, 1, 0], 1, False),  # two records, one place
        ([2, 0, 1], 1, True),
    ],
    ids=str,
)
def test_what_is_foretold_comes_and_is_what_verify_says(
    fmt: str, is_index_gone: bool, offsets: list[int], rebuilt: int, is_mended: bool, tmp_path: Path
) -> None:
    files = StoreFiles(tmp_path / "store", format=fmt)
    for offset in offsets:
        files.add(Message("t", b"x", keys=("k",)), queue_offset=offset)
    files.queues.clear()
    files.write()
    if is_index_gone:
        (files.root / "index" / files.index_name).write_bytes(b"")
    planned = repair(files.root, dry_run=True)
    report = repair(files.root)
    assert planned.to_json() == report.to_json()
    assert (report.queues_rebuilt, report.index_rebuilt, report.is_ok) == (rebuilt, is_index_gone, is_mended)
    assert verify(files.root).is_ok == is_mended


@pytest.mark.parametrize("is_index_gone", [False, True])
@pytest.mark.parametrize("is_queue_gone", [False, True])
@pytest.mark.parametrize("damage", ["none", "zeroed", "dangling", "simple queue"])
def test_batch_queues_are_judged_and_left_alone(
    damage: str, is_queue_gone: bool, is_index_gone: bool, tmp_path: Path
) -> None:
    files = StoreFiles(tmp_path / "source")
    for number in range(4):
        files.add(Message("batch" if number % 2 else "t", b"%d" % number, keys=("k",)))
    config = files.write() / "config" / "topics.json"
    config.parent.mkdir()
    config.write_text('{"topicConfigTable": {"batch": {"attributes": {"queue.type": "BatchCQ"}}}}')
    store = tmp_path / "store"
    convert(files.root, store, to="rocketmq", queue_entries=10, index_slots=10, index_entries=100)
    (path,) = (store / "batchconsumequeue" / "batch" / "0").iterdir()
    simple = store / "consumequeue" / "t" / "0"
    if damage == "zeroed":
        path.write_bytes(bytes(path.stat().st_size))
    elif damage == "dangling":
        data = path.read_bytes()
        path.write_bytes(data[:92] + struct.pack(">qi", 1 << 40, 100) + data[104:])
    elif damage == "simple queue":
        shutil.copytree(simple, store / "consumequeue" / "batch" / "0")
    if is_queue_gone:
        shutil.rmtree(simple)
    if is_index_gone:
        next((store / "index").iterdir()).write_bytes(b"")
    before = tree(store, "batchconsumequeue")
    planned = repair(store, dry_run=True)
    report = repair(store)
    assert planned.to_json() == report.to_json()
    assert (report.queues_rebuilt, report.index_rebuilt) == (is_queue_gone, is_index_gone)
    assert report.is_ok == verify(store).is_ok == (damage == "none")
    assert tree(store, "batchconsumequeue") == before


@pytest.mark.parametrize("broken", ["0", "00"])
def test_a_second_folder_of_a_broken_queue_goes(broken: str, tmp_path: Path) -> None:
    files = StoreFiles(tmp_path / "store")
    files.add(Message("t", b"0"))
    queue = files.write() / "consumequeue" / "t" / "0"
    sound = tree(files.root, "consumequeue")
    shutil.copytree(queue, queue.parent / "00")
    path = queue.parent / broken / f"{0:020d}"
    path.write_bytes(struct.pack(">qi", 1 << 40, 100).ljust(path.stat().st_size, b"\0"))
    planned = repair(files.root, dry_run=True)
    report = repair(files.root)
    assert planned.to_json() == report.to_json()
    assert (report.queues_rebuilt, report.is_ok) == (1, True)
    assert tree(files.root, "consumequeue") == sound


def test_a_batch_folder_whose_name_is_not_utf8_does_no_harm(tmp_path: Path) -> None:
    files = StoreFiles(tmp_path / "store", format="rocketmq")
    files.add(Message("t", b"0"))
    files.write()
    (files.root / "batchconsumequeue" / os.fsdecode(b"\xff") / "0").mkdir(parents=True)
    assert verify(files.root).is_ok
    shutil.rmtree(files.root / "consumequeue")
    assert repair(files.root, dry_run=True).is_ok
    assert repair(files.root).is_ok


def test_a_broken_index_is_rebuilt(tmp_path: Path) -> None:
    make_store(tmp_path / "store", "litemq")
    index = next((tmp_path / "store" / "index").iterdir())
    data = bytearray(index.read_bytes())
    data[40:296] = bytes(256)
    index.write_bytes(data)
    report = repair(tmp_path / "store")
    assert (report.index_rebuilt, report.queues_rebuilt, report.is_ok) == (True, 0, True)
    with open_store(tmp_path / "store") as store:
        assert store.recovered.records == 0
        assert [record.body for record in store.reader.by_key("again", "new")] == [b"new"]


# -- tmq -----------------------------------------------------------------------------------------


def test_a_tmq_tree_without_records(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(bytes(1000))
    convert(tmp_path / "log", tmp_path / "none", to="tmq")
    (tmp_path / "unwritten" / "t" / "0").mkdir(parents=True)
    (tmp_path / "unwritten" / "t" / "0" / f"{0:020d}").write_bytes(bytes(1000))
    for store in (tmp_path / "none", tmp_path / "unwritten"):
        before = sorted(store.rglob("*"))
        assert verify(store).is_ok
        assert repair(store).is_ok
        assert sorted(store.rglob("*")) == before
        assert rebuild(store).records == 0
        assert sorted(path for path in store.rglob("*") if path.name != "index") == before


def test_a_tmq_tree(tmp_path: Path) -> None:
    """Each queue has its own torn tail, saved beside it: two of them may stand at one position."""
    for queue in ("0", "1"):
        folder = tmp_path / "tree" / "news" / queue
        folder.mkdir(parents=True)
        data = b""
        for number in range(3):
            message = Message("news", b"%d" % number, queue_id=int(queue))
            data += RECORD_FORMATS["tmq"].write(message, Placement(LogPosition(len(data)), QueueOffset(number)))
        (folder / f"{0:020d}").write_bytes(data[:-5])
    size = len(data) // 3
    planned = repair(tmp_path / "tree", dry_run=True)
    report = repair(tmp_path / "tree")
    assert planned.to_json() == report.to_json()
    assert [(cut.position, cut.size) for cut in report.cut] == [(2 * size, size - 5)] * 2
    assert (report.queues_rebuilt, report.is_ok) == (2, True)
    for queue in ("0", "1"):
        folder = tmp_path / "tree" / "news" / queue
        assert (folder / "repair" / f"{2 * size:020d}").stat().st_size == size - 5
        assert (folder / "index").stat().st_size == 48
    assert is_sound(tmp_path / "tree")
    assert len(contents(tmp_path / "tree")) == 4


@pytest.mark.parametrize("damage", ["torn", "corrupt", "index gone", "none"])
def test_the_mark_of_a_tmq_tree_goes_always(damage: str, tmp_path: Path) -> None:
    files = StoreFiles(tmp_path / "source")
    for number in range(3):
        files.add(Message("t", b"%d" % number))
    store = tmp_path / "store"
    convert(files.write(), store, to="tmq", segment_size=4096)
    log = store / "t" / "0" / f"{0:020d}"
    data = log.read_bytes().rstrip(b"\0")
    if damage == "torn":
        log.write_bytes(data[:-3])
    elif damage == "corrupt":
        log.write_bytes(data[:31] + b"\xff" + data[32:])
    elif damage == "index gone":
        (log.parent / "index").unlink()
    (store / "abort").touch()
    report = repair(store)
    assert report.has_work == (damage != "none")
    assert report.is_ok == verify(store).is_ok == (damage != "corrupt")
    assert not (store / "abort").exists()


# -- refused -------------------------------------------------------------------------------------


def test_a_store_in_use_is_refused(tmp_path: Path) -> None:
    make_store(tmp_path / "store", "litemq")
    for dry_run in (True, False):
        with open_store(tmp_path / "store"), pytest.raises(StoreInUse):
            repair(tmp_path / "store", dry_run=dry_run)


def test_only_a_store_directory_is_repaired(tmp_path: Path) -> None:
    make_store(tmp_path / "store", "litemq")
    log = tmp_path / "store" / "commitlog"
    for path in (log, log / "00000000000000000000", tmp_path / "nowhere", tmp_path):
        with pytest.raises(BadStore):
            repair(path)


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("fmt", FORMATS)
def test_a_kill_anywhere_loses_nothing(fmt: WritableFormat, tmp_path: Path) -> None:
    source = tmp_path / "source"
    position, _ = torn_store(source, fmt, is_flushed=False)
    log = CallLog()
    counted = copy_store(source, tmp_path / "counted")
    repair(counted, fs=HookedFileSystem(OsFileSystem(), log))
    saved = (counted / "repair" / f"{position:020d}").read_bytes()
    with open_store(counted) as opened:
        state = state_of(opened)
    total = len(log.sites)
    for number in sorted({*range(0, total, 5), *range(total - 6, total)}):
        store = copy_store(source, tmp_path / f"{number}")
        child = os.fork()
        if child == 0:
            try:
                repair(store, fs=killer_fs(number, "after"))
            finally:
                os._exit(0)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
        if number % 2:
            assert repair(store).is_ok
        with open_store(store) as opened:
            assert state_of(opened)["queues"] == state["queues"], log.sites[number]
        assert is_sound(store), log.sites[number]
        assert (store / "repair" / f"{position:020d}").read_bytes().rstrip(b"\0") == saved.rstrip(b"\0")
        shutil.rmtree(store)


def test_a_lagging_checkpoint_without_the_mark_does_no_harm(tmp_path: Path) -> None:
    """Everything reached the disk but the checkpoint; repair only takes the mark away, so the next start is clean."""
    path = tmp_path / "store"
    with open_store(path, ManualClock(), "litemq") as store:
        for number in range(30):
            store.append(Message("t", b"%d" % number, keys=(f"k{number}",)))
        store.checkpoint()
        lagging = (path / "checkpoint").read_bytes()
        for number in range(30, 60):
            store.append(Message("t", b"%d" % number, keys=(f"k{number}",)))
    (path / "checkpoint").write_bytes(lagging)
    (path / "abort").touch()
    report = repair(path)
    assert (report.cut, report.queues_rebuilt, report.index_rebuilt, report.is_ok) == ([], 0, False, True)
    assert (path / "checkpoint").read_bytes() == lagging
    with open_store(path) as store:
        assert store.was_clean
        assert [record.body for record in store.reader.by_key("t", "k45")] == [b"45"]
        assert store.reader.max_offset("t", 0) == 60
        assert store.append(Message("t", b"60")).queue_offset == 60
    assert is_sound(path)
