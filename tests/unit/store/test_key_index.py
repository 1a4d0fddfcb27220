"""The key index: many small files, entries in memory and on disk, slots made anew after a crash."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from tests.support.faults import Fault, Faults
from tests.support.forgetful_fs import ForgetfulFileSystem
from tests.support.hooked_fs import HookedFileSystem
from tests.unit.store.live_support import FORMATS, bodies, open_store, small

from litemq.clock import ManualClock
from litemq.format import index_file
from litemq.format.index_file import IndexEntry, key_hash, key_text
from litemq.store.fs import FileSystem, OsFileSystem
from litemq.store.key_index import KeyIndex
from litemq.store.message_store import MessageStore
from litemq.store.rebuild import rebuild
from litemq.types import Message

NOW = 1_700_000_000_000
SLOTS = 7
ENTRIES = 10


def index_at(root: Path, *, fs: FileSystem | None = None, slots: int = SLOTS, entries: int = ENTRIES) -> KeyIndex:
    return KeyIndex(fs or OsFileSystem(), root, slots, entries)


def put(index: KeyIndex, key: str, position: int, *, time: int = NOW) -> None:
    """Add one key, rolling when the file is full."""
    hashed = key_hash(key_text("orders", key))
    if not index.tail.add_entry(hashed, position, time):
        index.roll(time)
        assert index.tail.add_entry(hashed, position, time)


def found(index: KeyIndex, key: str) -> list[int]:
    return list(index.positions("orders", key))


def any_entry(_entry: IndexEntry) -> bool:
    return True


# -- one index -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 8, 9, 10, 18, 19, 40])
@pytest.mark.parametrize("written", [False, True])
def test_keys_are_found_in_files_and_in_memory(tmp_path: Path, count: int, written: bool) -> None:
    index = index_at(tmp_path)
    for number in range(count):
        put(index, f"k{number % 4}", 100 * number)
        if written and number % 3 == 0:
            index.write_tail(NOW)
    for key in range(4):
        assert found(index, f"k{key}") == [100 * number for number in range(count) if number % 4 == key][::-1]
    assert found(index, "none") == []
    assert index.rolls == max(0, count - 1) // (ENTRIES - 1)
    index.close()


@pytest.mark.parametrize("count", [0, 1, 9, 10, 25])
def test_a_clean_stop_is_taken_over_as_it_is(tmp_path: Path, count: int) -> None:
    index = index_at(tmp_path)
    for number in range(count):
        put(index, f"k{number % 4}", 100 * number, time=NOW + number)
    index.write_slots(NOW)
    index.close()
    again = index_at(tmp_path)
    again.load()
    assert again.header() == index.header()
    for number in range(count, count + 15):
        put(again, f"k{number % 4}", 100 * number, time=NOW + number)
    for key in range(4):
        assert found(again, f"k{key}") == [100 * number for number in range(count + 15) if number % 4 == key][::-1]
    again.close()


@pytest.mark.parametrize("cut", range(26))
def test_an_unclean_stop_is_cut_at_any_entry(tmp_path: Path, cut: int) -> None:
    """Slots and header are of no age in particular then: entries alone count."""
    index = index_at(tmp_path)
    for number in range(25):
        put(index, f"k{number % 4}", 100 * number, time=NOW + 1000 * number)
    index.write_tail(NOW)
    index.close()
    again = index_at(tmp_path)
    again.cut_at(100 * cut, any_entry)
    for key in range(4):
        assert found(again, f"k{key}") == [100 * number for number in range(cut) if number % 4 == key][::-1]
    for number in range(cut, 30):
        put(again, f"k{number % 4}", 100 * number, time=NOW + 1000 * number)
    again.write_slots(NOW)
    again.close()
    once_more = index_at(tmp_path)
    once_more.load()
    for key in range(4):
        assert found(once_more, f"k{key}") == [100 * number for number in range(30) if number % 4 == key][::-1]
    once_more.close()


@pytest.mark.parametrize("slots", ["as told", "written later"])
@pytest.mark.parametrize("linked", [2, 5, 8])
@pytest.mark.parametrize("cut", [5, 8])
def test_slots_that_are_known_are_taken_as_they_are(tmp_path: Path, cut: int, linked: int, slots: str) -> None:
    """Slots that were written after the checkpoint may lead anywhere, so that none of them counts."""
    index = index_at(tmp_path)
    for number in range(linked - 1):
        put(index, f"k{number % 4}", 100 * number, time=NOW)
    index.write_slots(NOW)
    assert index.linked == linked
    for number in range(linked - 1, 8):
        put(index, f"k{number % 4}", 100 * number, time=NOW)
    if slots == "written later":
        index.write_slots(NOW)
    index.write_tail(NOW)
    index.close()
    again = index_at(tmp_path)
    again.cut_at(100 * cut, any_entry, linked=linked)
    used = {key_hash(key_text("orders", f"k{key}")) % SLOTS for key in range(4)}
    assert again.header().slots_used == len(used)
    for number in range(cut, 9):
        put(again, f"k{number % 4}", 100 * number, time=NOW)
    for key in range(4):
        assert found(again, f"k{key}") == [100 * number for number in range(9) if number % 4 == key][::-1]
    again.write_slots(NOW)
    again.close()
    once_more = index_at(tmp_path)
    once_more.load()
    for key in range(4):
        assert found(once_more, f"k{key}") == [100 * number for number in range(9) if number % 4 == key][::-1]
    once_more.close()


@pytest.mark.parametrize("torn", [(0, 0), (0, 13), (13, 0), (13, 13)])
@pytest.mark.parametrize("is_known", [False, True])
def test_torn_entries_behind_the_end_do_not_count(tmp_path: Path, is_known: bool, torn: tuple[int, int]) -> None:
    """They may point below the log's start, where no record can tell (crash run 555004469)."""
    index = index_at(tmp_path)
    for number in range(5):
        put(index, f"k{number}", 100 * (number + 1))
    index.write_slots(NOW)
    index.close()
    (path,) = tmp_path.iterdir()
    with path.open("r+b") as file:
        for number, previous in zip((6, 7), torn, strict=True):
            file.seek(index_file.entry_at(number, SLOTS))
            file.write(index_file.encode_entry(IndexEntry(0, 0, 0, previous)))
    again = index_at(tmp_path)
    again.cut_at(1000, any_entry, indexed=6 if is_known else 0)
    assert again.tail.count == 6
    again.close()


@pytest.mark.parametrize("indexed", [1, 2, 3, 7, 9, 10, 11])
def test_a_number_of_another_file_is_not_believed(tmp_path: Path, indexed: int) -> None:
    index = index_at(tmp_path)
    for number in range(5):
        put(index, f"k{number}", 100 * (number + 1))
    index.write_slots(NOW)
    index.close()
    again = index_at(tmp_path)
    again.cut_at(1000, any_entry, indexed=indexed)
    assert again.tail.count == 6
    again.close()


@pytest.mark.parametrize("header", ["kept", "lost"])
def test_a_torn_first_entry_that_points_below_the_log_is_no_entry(tmp_path: Path, header: str) -> None:
    """No record says that it is torn; believed, it would keep what the file before it holds behind the cut."""
    index = index_at(tmp_path)
    for number in range(1, 15):
        put(index, "k", 100 * number)
    index.write_tail(NOW)
    index.close()
    last = sorted(tmp_path.iterdir())[-1]
    data = bytearray(last.read_bytes())
    at = index_file.entry_at(1, SLOTS)
    data[at + 4 :] = bytes(len(data) - at - 4)
    if header == "lost":
        data[: index_file.HEADER_SIZE] = bytes(index_file.HEADER_SIZE)
    last.write_bytes(data)
    again = index_at(tmp_path)
    again.cut_at(500, any_entry)
    assert not last.exists()
    for number in range(5, 15):
        put(again, "k", 100 * number)
    assert found(again, "k") == [100 * number for number in range(1, 15)][::-1]
    again.close()


def test_entries_know_their_seconds_since_the_file_began(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    for number in range(5):
        put(index, "k", 100 * number, time=NOW + 1500 * number)
    index.write_slots(NOW)
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    header = index_file.decode_header(data)
    assert (header.begin_time, header.end_time) == (NOW, NOW + 6000)
    assert (header.begin_position, header.end_position, header.slots_used, header.next_number) == (0, 400, 1, 6)
    entries = [index_file.decode_entry(data, index_file.entry_at(number, SLOTS)) for number in range(1, 6)]
    assert [entry.seconds for entry in entries] == [0, 1, 3, 4, 6]
    assert [entry.previous for entry in entries] == [0, 1, 2, 3, 4]
    assert len(data) == index_file.file_size(SLOTS, ENTRIES)
    index.close()


def test_files_keep_their_order_when_the_clock_does_not(tmp_path: Path) -> None:
    """An hour back, as in autumn, or a year: the next file is named without a search through all milliseconds."""
    index = index_at(tmp_path)
    times = [NOW, NOW, NOW - 3_600_000, NOW - 365 * 86_400_000, NOW + 1000]
    for number in range(9 * len(times)):
        hashed = key_hash(key_text("orders", "k"))
        if not index.tail.add_entry(hashed, 100 * number, NOW):
            index.roll(times[index.rolls])
            index.tail.add_entry(hashed, 100 * number, NOW)
        index.write_tail(times[index.rolls])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == len(times)
    assert all(len(name) == 17 and name.isdigit() for name in names)
    positions = [index_file.decode_header((tmp_path / name).read_bytes()).begin_position for name in names]
    assert positions == sorted(positions)
    index.write_slots(NOW)
    index.close()
    again = index_at(tmp_path)
    again.load()
    assert found(again, "k") == [100 * number for number in range(9 * len(times))][::-1]
    again.close()


def test_old_files_go_and_their_keys_with_them(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    for number in range(40):
        put(index, f"k{number % 4}", 100 * number)
    index.write_slots(NOW)
    assert index.drop_below(900) == 1
    assert index.drop_below(1799) == 1
    assert index.drop_below(1799) == 0
    assert found(index, "k0") == [100 * number for number in range(20, 40, 4)][::-1]
    assert index.drop_below(1 << 40) == 2  # never the current one
    assert found(index, "k3") == [3900]
    index.close()


def test_a_file_that_cannot_be_sealed_is_still_read(tmp_path: Path) -> None:
    faults = Faults()
    index = index_at(tmp_path, fs=HookedFileSystem(OsFileSystem(), faults))
    for number in range(9):
        put(index, "k", 100 * number)
    faults.add(Fault(code=errno.EMFILE, kinds=frozenset({"open"})))
    with pytest.raises(OSError, match="Too many open files"):
        index.roll(NOW)
    assert found(index, "k") == [100 * number for number in range(9)][::-1]
    faults.cure()
    put(index, "k", 900)
    assert found(index, "k") == [100 * number for number in range(10)][::-1]
    index.close()


def test_slots_are_written_once_by_whoever_comes_first(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    put(index, "k", 100)
    first = index.copy_slots(NOW)
    put(index, "k", 200)
    index.write_slots(NOW)  # writes the older copy before its own
    first.run()
    index.close()
    again = index_at(tmp_path)
    again.load()
    assert found(again, "k") == [200, 100]
    again.close()


def test_strangers_in_the_directory_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("?")
    (tmp_path / "2023").write_text("?")
    index = index_at(tmp_path)
    index.load()
    put(index, "k", 100)
    index.write_slots(NOW)
    index.close()
    again = index_at(tmp_path)
    again.cut_at(1000, any_entry)
    assert found(again, "k") == [100]
    again.close()


# -- in a store ------------------------------------------------------------------------------------------------------


TINY = {"index_slots": 5, "index_entries": 4}


def check_keys(store: MessageStore, sent: Sequence[tuple[bytes, tuple[str, ...]]]) -> None:
    for body, keys in sent:
        for key in keys:
            assert body in [record.body for record in store.reader.by_key("orders", key, limit=1000)], key


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("end", ["close", "abandon", "power cut"])
def test_a_record_with_more_keys_than_a_file_holds(tmp_path: Path, fmt: str, end: str) -> None:
    disk = ForgetfulFileSystem()
    sent = [(b"%d" % n, tuple(f"m{n}k{k}" for k in range(n % 12))) for n in range(40)]
    store = open_store(tmp_path, small(format=fmt, **TINY), fs=disk)
    for number, (body, keys) in enumerate(sent):
        store.append(Message("orders", body, keys=keys, message_id=f"id{number}"))
    check_keys(store, sent)
    assert store.counters()["index_rolls"] > 50
    if end == "close":
        store.close()
        disk = disk.kill()
    elif end == "abandon":
        store.abandon()
        disk = disk.kill()
    else:
        store.flush()
        disk = disk.crash(Random(3))
    with open_store(tmp_path, small(format=fmt, **TINY), fs=disk) as store:
        check_keys(store, sent)
        for number, (body, _) in enumerate(sent):
            record = store.reader.by_id(f"id{number}")
            assert record is not None
            assert record.body == body
        assert bodies(store) == [body for body, _ in sent]


def test_a_batch_with_more_keys_than_many_files_hold(tmp_path: Path) -> None:
    sent = [(b"%d" % n, tuple(f"m{n}k{k}" for k in range(n % 5))) for n in range(60)]
    with open_store(tmp_path, small(**TINY)) as store:
        store.append_many([Message("orders", body, keys=keys) for body, keys in sent])
        check_keys(store, sent)
        assert bodies(store) == [body for body, _ in sent]


def test_checkpoints_leave_slots_behind_and_a_crash_makes_them_anew(tmp_path: Path) -> None:
    clock = ManualClock()
    sent = []
    store = open_store(tmp_path, small(index_entries=500), clock=clock, background=True)
    for number in range(200):
        clock.advance(1000)
        sent.append((b"%d" % number, (f"k{number}", "all")))
        store.append(Message("orders", sent[-1][0], keys=sent[-1][1]))
        store.tick()
        if store._checkpointer.job is not None:
            store._checkpointer.job.result()
    assert store.counters()["checkpoints"] >= 5
    store.abandon()
    with open_store(tmp_path, small(index_entries=500), clock=clock) as again:
        assert not again.was_clean
        check_keys(again, sent)
        assert len(again.reader.by_key("orders", "all", limit=1000)) == 200


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("lost", [0, 2])
def test_the_header_after_a_crash_is_that_of_a_rebuild(tmp_path: Path, fmt: str, lost: int) -> None:
    """Entries know full seconds only; the last one's record knows its time."""
    clock = ManualClock()
    store = open_store(tmp_path, small(format=fmt), clock=clock)
    for number in range(5):
        clock.advance(777)
        if number == 5 - lost:
            store.checkpoint()
        store.append(Message("orders", b"x", keys=(f"k{number}",)))
    if not lost:
        store.checkpoint()
    store.abandon()
    open_store(tmp_path, small(format=fmt), clock=clock).close()
    (path,) = (tmp_path / "store" / "index").iterdir()
    found = path.read_bytes()
    rebuild(tmp_path / "store", clock=clock)
    (path,) = (tmp_path / "store" / "index").iterdir()
    assert index_file.decode_header(found) == index_file.decode_header(path.read_bytes())
    assert found == path.read_bytes()


def test_keys_of_records_that_are_gone_are_not_followed(tmp_path: Path) -> None:
    clock = ManualClock()
    with open_store(tmp_path, small(retention_hours=1.0), clock=clock) as store:
        for number in range(300):
            store.append(Message("orders", b"%d" % number + b"." * 100, keys=("all",)))
        clock.advance(2 * 3_600_000)
        store.append(Message("orders", b"new", keys=("all",)))
        files = len(list((tmp_path / "store" / "index").iterdir()))
        store.retain()
        assert store.start > 0
        assert len(list((tmp_path / "store" / "index").iterdir())) < files
        left = store.reader.by_key("orders", "all", limit=1000)
        assert [record.body for record in left] == bodies(store)
        assert all(a.position < b.position for a, b in pairwise(left))
