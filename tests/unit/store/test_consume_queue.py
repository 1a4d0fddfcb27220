"""ConsumeQueues: entries in files and in tails, searches over both, cuts at any place, few open files."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.support.faults import Fault, Faults, disk_full
from tests.support.hooked_fs import Call, HookedFileSystem

from litemq.errors import TopicUnusable
from litemq.format.queue_entry import BEFORE_START_SIZE, LAYOUTS, QueueEntry
from litemq.store import consume_queue
from litemq.store._tails_cy import QueueTail
from litemq.store.consume_queue import ConsumeQueues
from litemq.store.fs import FileSystem, OsFileSystem
from litemq.types import TopicQueue

PER_FILE = 8


def queues_at(
    root: Path, *, fmt: str = "litemq", open_files: int = 4, fs: FileSystem | None = None, per_file: int = PER_FILE
) -> ConsumeQueues:
    return ConsumeQueues(fs or OsFileSystem(), root, fmt, per_file, open_files)


def add(queues: ConsumeQueues, tail: QueueTail, count: int, *, step: int = 100) -> None:
    """Add entries whose positions are ``step`` times their offsets."""
    for offset in range(tail.next_offset, tail.next_offset + count):
        tail.add_entry(step * offset + 1, 50, offset, 1000 + offset)
    queues.note_dirty([tail])


def positions(queues: ConsumeQueues, tail: QueueTail) -> list[int]:
    return [entry.position for _, entry in queues.walk(tail, queues.first_offset(tail))]


# -- entries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])
@pytest.mark.parametrize("written", [0, 1, 7, 8, 9, 16, 20])
def test_entries_are_the_same_in_files_and_in_the_tail(tmp_path: Path, fmt: str, written: int) -> None:
    queues = queues_at(tmp_path, fmt=fmt)
    tail = queues.open("orders", 3)
    add(queues, tail, written)
    queues.write_out(tail)
    add(queues, tail, 20 - written)
    assert positions(queues, tail) == [100 * offset + 1 for offset in range(20)]
    entry = queues.entry(tail, 13)
    assert entry is not None
    assert entry[:3] == (1301, 50, 13)
    assert entry.store_time == (1013 if fmt == "litemq" else None)
    assert queues.entry(tail, 20) is None
    assert queues.entry(tail, -1) is None
    queues.close()


def test_a_read_of_entries_ends_at_a_file_and_at_the_tail(tmp_path: Path) -> None:
    queues = queues_at(tmp_path)
    tail = queues.open("orders", 0)
    add(queues, tail, 20)
    queues.write_out(tail)
    add(queues, tail, 5)
    stride = LAYOUTS["litemq"].size
    assert len(queues.entries(tail, 0, 100)) == 8 * stride
    assert len(queues.entries(tail, 6, 100)) == 2 * stride
    assert len(queues.entries(tail, 16, 100)) == 4 * stride
    assert len(queues.entries(tail, 20, 100)) == 5 * stride
    assert len(queues.entries(tail, 22, 2)) == 2 * stride
    assert queues.entries(tail, 25, 1) == b""
    queues.close()


@pytest.mark.parametrize("count", [1, 7, 8, 9, 16, 17])
def test_a_queue_is_found_again(tmp_path: Path, count: int) -> None:
    queues = queues_at(tmp_path)
    add(queues, queues.open("orders", 0), count)
    queues.write_out_all()
    queues.close()
    again = queues_at(tmp_path)
    tail = again.find("orders", 0)
    assert tail is not None
    assert (tail.next_offset, tail.last_position) == (count, 100 * (count - 1) + 1)
    assert positions(again, tail) == [100 * offset + 1 for offset in range(count)]
    assert again.all() == [TopicQueue("orders", 0)]
    again.close()


def test_a_queue_without_files_is_none(tmp_path: Path) -> None:
    queues = queues_at(tmp_path)
    assert queues.find("orders", 0) is None
    assert queues.find("a/b", 0) is None
    with pytest.raises(TopicUnusable):
        queues.open("a/b", 0)
    assert queues.all() == []
    assert queues.queues_of("orders") == []


@pytest.mark.parametrize("first", [1, 5, 8, 13, 30])
def test_a_queue_may_start_at_any_offset(tmp_path: Path, first: int) -> None:
    queues = queues_at(tmp_path)
    tail = queues.open("orders", 0, first)
    assert tail.next_offset == first
    assert queues.first_offset(tail) == first
    add(queues, tail, 4)
    queues.write_out_all()
    assert queues.min_offset(tail, 0) == first
    queues.close()
    again = queues_at(tmp_path)
    found = again.find("orders", 0)
    assert found is not None
    assert found.next_offset == first + 4
    assert again.min_offset(found, 0) == first
    assert again.entry(found, first) == queues.entry(tail, first)
    again.close()


# -- searching -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [0, 5, 20])
def test_offsets_are_found_by_position(tmp_path: Path, written: int) -> None:
    queues = queues_at(tmp_path)
    tail = queues.open("orders", 0)
    add(queues, tail, written)
    queues.write_out_all()
    add(queues, tail, 20 - written)
    for position in range(0, 2200, 50):
        wanted = next((offset for offset in range(20) if 100 * offset + 1 >= position), 20)
        assert queues.min_offset(tail, position) == wanted
        assert queues.end_offset(tail, position) == wanted
        assert queues.offset_at(tail, lambda entry, at=position: entry.position >= at) == wanted  # type: ignore[misc]
    queues.close()


@pytest.mark.parametrize("log_start", [0, 300])
@pytest.mark.parametrize("gap", range(20))
def test_the_first_offset_is_found_past_a_damaged_message(tmp_path: Path, gap: int, log_start: int) -> None:
    """Halving may meet the entry of a damaged message first: it is no sign that what lies before it is gone."""
    queues = queues_at(tmp_path)
    tail = queues.open("orders", 0)
    add(queues, tail, gap)
    tail.add_entry(max(tail.last_position, 1), BEFORE_START_SIZE, 0, 0)
    add(queues, tail, 19 - gap)
    wanted = next(offset for offset, entry in queues.walk(tail, 0) if entry.position >= log_start)
    assert queues.min_offset(tail, log_start) == wanted
    queues.close()


# -- faults ----------------------------------------------------------------------------------------------------------


def test_entries_that_cannot_be_written_stay_readable(tmp_path: Path) -> None:
    faults = Faults()
    queues = queues_at(tmp_path, fs=HookedFileSystem(OsFileSystem(), faults))
    tail = queues.open("orders", 0)
    add(queues, tail, 12)
    faults.add(disk_full(skip=3, path="*/orders/0/*"))  # the second file
    with pytest.raises(OSError, match="No space left"):
        queues.write_out_all()
    assert positions(queues, tail) == [100 * offset + 1 for offset in range(12)]
    faults.cure()
    queues.write_out_all()
    assert positions(queues, tail) == [100 * offset + 1 for offset in range(12)]
    assert not queues.dirty
    queues.close()


def test_an_unreadable_file_is_an_error_and_nothing_else(tmp_path: Path) -> None:
    queues = queues_at(tmp_path)
    add(queues, queues.open("orders", 0), 12)
    queues.write_out_all()
    queues.close()
    faults = Faults()
    again = queues_at(tmp_path, fs=HookedFileSystem(OsFileSystem(), faults))
    faults.add(Fault(code=errno.EIO, kinds=frozenset({"read"})))
    with pytest.raises(OSError, match="Input/output"):
        again.find("orders", 0)
    faults.cure()
    tail = again.find("orders", 0)
    assert tail is not None
    assert tail.next_offset == 12
    again.close()


# -- cutting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [0, 10, 20])
@pytest.mark.parametrize("keep", range(21))
def test_a_queue_is_cut_at_any_offset(tmp_path: Path, written: int, keep: int) -> None:
    queues = queues_at(tmp_path)
    tail = queues.open("orders", 0)
    add(queues, tail, written)
    queues.write_out_all()
    add(queues, tail, 20 - written)
    queues.truncate(tail, keep)
    assert tail.next_offset == keep
    assert tail.last_position == (100 * (keep - 1) + 1 if keep else -1)
    assert positions(queues, tail) == [100 * offset + 1 for offset in range(keep)]
    add(queues, tail, 3, step=1000)  # nothing of the past comes back behind them
    queues.write_out_all()
    queues.close()
    again = queues_at(tmp_path)
    found = again.find("orders", 0)
    assert found is not None
    assert found.next_offset == keep + 3
    assert positions(again, found)[keep:] == [1000 * offset + 1 for offset in range(keep, keep + 3)]
    again.close()


def entry_at(root: Path, offset: int, entry: QueueEntry | None) -> None:
    """Put an entry, or zeros, into the queue's files."""
    layout = LAYOUTS["litemq"]
    path = root / "orders" / "0" / f"{offset // PER_FILE * PER_FILE * layout.size:020d}"
    with path.open("r+b") as file:
        file.seek(offset % PER_FILE * layout.size)
        file.write(layout.encode(entry) if entry is not None else bytes(layout.size))


@pytest.mark.parametrize(
    ("name", "behind"),
    [
        ("nothing", {}),
        ("entries of lost records", {12: 5000, 13: 5100}),
        ("a hole, then entries", {13: 5100, 14: 5200}),
        ("a stale entry of the past", {12: 200}),
        ("a hole, then a stale entry", {13: 200}),
        ("stale entries behind lost ones", {12: 5000, 13: 100, 14: 200, 15: 5100}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_unclean_end_is_cut_behind_the_last_sound_entry(tmp_path: Path, name: str, behind: dict[int, int]) -> None:
    queues = queues_at(tmp_path)
    add(queues, queues.open("orders", 0), 12)
    queues.write_out_all()
    queues.close()
    for offset, position in behind.items():
        entry_at(tmp_path, offset, QueueEntry(position, 50, 0, 0))
    again = queues_at(tmp_path)
    again.cut_at(2000, lambda _queue, offset, entry: entry.position == 100 * offset + 1)
    tail = again.find("orders", 0)
    assert tail is not None
    assert positions(again, tail) == [100 * offset + 1 for offset in range(12)]
    again.close()
    once_more = queues_at(tmp_path)
    found = once_more.find("orders", 0)
    assert found is not None
    assert found.next_offset == 12
    once_more.close()


@pytest.mark.parametrize("count", [1, 12])
@pytest.mark.parametrize("size", [0, 100, 8 * 24 - 1])
def test_a_file_that_is_too_short_gets_its_length_back(tmp_path: Path, count: int, size: int) -> None:
    """A real RocketMQ refuses a file of any other length."""
    queues = queues_at(tmp_path)
    add(queues, queues.open("orders", 0), count)
    queues.write_out_all()
    queues.close()
    last = max((tmp_path / "orders" / "0").iterdir())
    kept = size // 24 + (count - 1) // PER_FILE * PER_FILE
    with last.open("r+b") as file:
        file.truncate(size)
    again = queues_at(tmp_path)
    again.cut_at(1 << 40, lambda _queue, _offset, _entry: True)
    assert positions(again, again.open("orders", 0)) == [100 * offset + 1 for offset in range(min(kept, count))]
    again.close()
    assert not last.exists() or last.stat().st_size == PER_FILE * 24


@pytest.mark.parametrize("keep", [1, 11_999])
def test_no_cut_leaves_a_file_too_short(tmp_path: Path, keep: int) -> None:
    """Nor does any moment of it (what is cut off is more than is worth a look)."""

    class Watch:
        def before(self, call: Call) -> bool:
            return True

        def after(self, call: Call) -> None:
            if call.file is not None and call.is_mutating:
                sizes.add(call.file.size())

    sizes: set[int] = set()
    queues = queues_at(tmp_path, per_file=12_000)
    add(queues, queues.open("orders", 0), 12_000)
    queues.write_out_all()
    queues.close()
    again = queues_at(tmp_path, per_file=12_000, fs=HookedFileSystem(OsFileSystem(), Watch()))
    again.cut_at(100 * keep, lambda _queue, _offset, _entry: True)
    again.close()
    assert sizes == {12_000 * 24}
    (path,) = (tmp_path / "orders" / "0").iterdir()
    assert path.read_bytes()[keep * 24 :] == bytes((12_000 - keep) * 24)
    assert path.read_bytes()[(keep - 1) * 24 : keep * 24] != bytes(24)


@pytest.mark.parametrize("hole", range(8, 13))
def test_a_queue_without_messages_is_kept_as_far_as_it_has_no_hole(tmp_path: Path, hole: int) -> None:
    """A power cut may leave any part of what fills the space before the first entry."""
    queues = queues_at(tmp_path)
    add(queues, queues.open("orders", 0, 12), 2)
    queues.write_out_all()
    queues.close()
    if hole < 12:
        entry_at(tmp_path, hole, None)
    again = queues_at(tmp_path)
    again.cut_at(1000, lambda _queue, _offset, _entry: True)
    tail = again.find("orders", 0)
    if tail is not None:
        assert tail.next_offset in (hole, 12)
        assert again.is_empty(tail)
        stored = again.entries(tail, 8, 100)
        assert stored == LAYOUTS["litemq"].encode(QueueEntry(0, BEFORE_START_SIZE, 0, 0)) * (tail.next_offset - 8)
    assert tail is not None or hole < 12
    again.close()


@pytest.mark.parametrize("position", [0, 1, 500, 1101, 1102])
def test_a_cut_takes_every_entry_at_or_behind_a_position(tmp_path: Path, position: int) -> None:
    queues = queues_at(tmp_path)
    add(queues, queues.open("orders", 0), 12)
    add(queues, queues.open("orders", 1), 12, step=1)
    queues.write_out_all()
    queues.close()
    again = queues_at(tmp_path)
    again.cut_at(position, lambda _queue, _offset, _entry: True)
    tail = again.open("orders", 0)
    assert positions(again, tail) == [at for at in range(1, 1200, 100) if at < position]
    assert tail.next_offset == len(positions(again, tail))
    again.close()


# -- removing --------------------------------------------------------------------------------------------------------


def test_files_below_an_offset_go_but_the_last_one(tmp_path: Path) -> None:
    queues = queues_at(tmp_path)
    tail = queues.open("orders", 0)
    add(queues, tail, 30)
    queues.write_out_all()
    files = tmp_path / "orders" / "0"
    assert not queues.drop_oldest(tail, 7)
    assert [queues.drop_oldest(tail, 17) for _ in range(3)] == [True, True, False]
    assert len(list(files.iterdir())) == 2
    assert queues.min_offset(tail, 0) == 16
    assert positions(queues, tail)[0] == 1601
    assert [queues.drop_oldest(tail, 30) for _ in range(2)] == [True, False]
    assert len(list(files.iterdir())) == 1
    assert tail.next_offset == 30
    assert queues.entries(tail, 3, 1) == b""
    queues.close()


def test_trimming_loads_only_queues_with_several_files(tmp_path: Path) -> None:
    queues = queues_at(tmp_path)
    add(queues, queues.open("orders", 0), 30)
    add(queues, queues.open("orders", 1), 5)
    queues.write_out_all()
    queues.close()
    again = queues_at(tmp_path)
    assert len(list(again.trim(lambda: 1700))) == 4  # two queues, two files
    assert list(again.public["orders"]) == [0]
    assert len(list((tmp_path / "orders" / "0").iterdir())) == 2
    again.close()


def test_queues_may_come_and_go_between_the_steps_of_trimming(tmp_path: Path) -> None:
    queues = queues_at(tmp_path)
    for topic in ("a", "b", "c"):
        add(queues, queues.open(topic, 0), 30)
    queues.write_out_all()
    log_start = 900
    steps = queues.trim(lambda: log_start)
    next(steps)
    next(steps)
    assert len(list((tmp_path / "a" / "0").iterdir())) == 3
    queues.drop_topic("a")
    queues.drop_topic("b")
    add(queues, queues.open("b", 0, 30), 5)
    log_start = 5000
    assert len(list(steps)) == 4  # b, c, two files
    assert positions(queues, queues.open("b", 0)) != []
    queues.close()


def test_a_topic_goes_with_its_files(tmp_path: Path) -> None:
    queues = queues_at(tmp_path)
    for queue_id in range(3):
        add(queues, queues.open("orders", queue_id), 12)
    add(queues, queues.open("other", 0), 3)
    queues.write_out_all()
    add(queues, queues.open("orders", 0), 1)
    queues.drop_topic("orders")
    queues.drop_topic("never there")
    assert queues.all() == [TopicQueue("other", 0)]
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
    assert queues.open("orders", 0).next_offset == 0
    queues.write_out_all()
    queues.close()


def test_a_strangers_files_do_no_harm(tmp_path: Path) -> None:
    queues = queues_at(tmp_path)
    add(queues, queues.open("orders", 0), 3)
    queues.write_out_all()
    for stranger in (".DS_Store", "orders/notes.txt", "orders/0/core", "orders/7"):
        (tmp_path / stranger).write_bytes(b"?")
    queues.close()
    again = queues_at(tmp_path)
    assert again.queues_of(".DS_Store") == []
    assert TopicQueue("orders", 0) in again.all()
    assert again.find("orders", 7) is None
    again.cut_at(1 << 40, lambda _queue, _offset, _entry: True)
    tail = again.find("orders", 0)
    assert tail is not None
    assert tail.next_offset == 3
    again.drop_topic("orders")
    assert sorted(path.name for path in (tmp_path / "orders").rglob("*")) == ["0", "7", "core", "notes.txt"]
    again.close()


# -- bounds ----------------------------------------------------------------------------------------------------------


def test_many_queues_need_few_open_files(tmp_path: Path) -> None:
    queues = queues_at(tmp_path, open_files=3)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for turn in range(2):
        for queue_id in range(1000):
            add(queues, queues.open("orders", queue_id), 5)
        queues.write_out_all()
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 3, turn
    for queue_id in range(0, 1000, 7):
        assert positions(queues, queues.open("orders", queue_id)) == [100 * offset + 1 for offset in range(10)]
    queues.close()


def test_few_tails_wait_with_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume_queue, "MAX_DIRTY", 10)
    queues = queues_at(tmp_path)
    for queue_id in range(25):
        add(queues, queues.open("orders", queue_id), 1)
        queues.write_out_most()
    assert [tail.queue_id for tail in queues.dirty] == list(range(15, 25))
    assert [bool(queues.open("orders", queue_id).used) for queue_id in (0, 14, 15, 24)] == [False, False, True, True]
    queues.write_out_all()
    assert not queues.dirty
    queues.close()
