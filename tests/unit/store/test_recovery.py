"""Opening after any kind of stop: torn tails are cut and kept, damage is stepped over, derived files are made anew."""

from __future__ import annotations

import itertools
import shutil
import struct
import tracemalloc
from pathlib import Path
from random import Random

import pytest
from tests.support.faults import Faults, broken_read, disk_full, read_only
from tests.support.forgetful_fs import ForgetfulFileSystem
from tests.support.hooked_fs import HookedFileSystem
from tests.support.page_cache import PARTIAL, Fate
from tests.unit.store.live_support import FORMATS, SEGMENT, SMALL, bodies, fill, fill_to, open_store, small

from litemq.clock import ManualClock
from litemq.errors import BadStore, StoreFull
from litemq.format import checkpoint as checkpoint_format
from litemq.format.checkpoint import Checkpoint
from litemq.format.names import CHANGES_TOPIC
from litemq.store import checkpoint
from litemq.store.fs import OsFileSystem
from litemq.store.rebuild import rebuild
from litemq.store.recovery import WINDOW_BYTES
from litemq.store.segments import name_of
from litemq.store.verify import verify
from litemq.types import Appended, Message


def segment_file(root: Path, position: int) -> Path:
    return root / "store" / "commitlog" / name_of(position // SEGMENT * SEGMENT)


def overwrite(root: Path, position: int, data: bytes) -> None:
    """Put bytes into the log."""
    with segment_file(root, position).open("r+b") as file:
        file.seek(position % SEGMENT)
        file.write(data)


def log_bytes(root: Path, position: int, size: int) -> bytes:
    with segment_file(root, position).open("rb") as file:
        file.seek(position % SEGMENT)
        return file.read(size)


def flip(root: Path, answer: Appended, *, at: int | None = None) -> None:
    """Flip a bit in a record: of its body, or at a place."""
    position = answer.end - 60 if at is None else answer.position + at
    overwrite(root, position, bytes([log_bytes(root, position, 1)[0] ^ 1]))


def set_checkpoint(root: Path, found: Checkpoint) -> None:
    checkpoint.write(OsFileSystem(), root / "store" / "checkpoint", found)


def get_checkpoint(root: Path) -> Checkpoint:
    found = checkpoint.read(OsFileSystem(), root / "store" / "checkpoint")
    assert found is not None
    return found


# -- torn tails ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("kept", [1, 3, 4, 5, 8, 50, 90, 99])
def test_a_torn_record_is_saved_and_cut(tmp_path: Path, fmt: str, kept: int) -> None:
    store = open_store(tmp_path, small(format=fmt))
    sent = fill(store, 5, size=10)
    store.checkpoint()
    last = store.append(Message("orders", b"torn" * 5, keys=("torn",)))
    store.abandon()
    torn = log_bytes(tmp_path, last.position, kept)
    overwrite(tmp_path, last.position + kept, bytes(last.end - last.position - kept))
    with open_store(tmp_path, small(format=fmt)) as store:
        assert not store.was_clean
        assert store.appended_end == last.position
        assert bodies(store) == sent
        assert store.reader.by_key("orders", "torn") == []
        saved = torn.rstrip(b"\0")
        assert store.recovered.cut == ([(last.position, len(saved))] if saved else [])
        if saved:
            assert (tmp_path / "store" / "repair" / f"{last.position:020d}").read_bytes() == saved
        assert not any(log_bytes(tmp_path, last.position, SEGMENT))
        assert store.append(Message("orders", b"next")).queue_offset == 5
    assert verify(tmp_path / "store").is_ok


@pytest.mark.parametrize("fmt", FORMATS)
def test_sound_records_behind_a_hole_are_cut_with_it(tmp_path: Path, fmt: str) -> None:
    store = open_store(tmp_path, small(format=fmt))
    sent = fill(store, 3)
    store.checkpoint()
    lost = [store.append(Message("orders", b"lost %d" % n + b"." * 1000)) for n in range(30)]  # into the next segments
    store.abandon()
    behind = log_bytes(tmp_path, lost[1].position, lost[1].end - lost[1].position)
    overwrite(tmp_path, lost[0].position, bytes(lost[0].end - lost[0].position))
    with open_store(tmp_path, small(format=fmt)) as store:
        assert store.appended_end == lost[0].position
        assert bodies(store) == sent
        assert len(list((tmp_path / "store" / "commitlog").iterdir())) == 1
        saved = sorted((tmp_path / "store" / "repair").iterdir())
        assert [int(path.name) for path in saved] == sorted(position for position, _ in store.recovered.cut)
        assert saved[0].name == f"{lost[0].position:020d}"
        assert behind in saved[0].read_bytes()
        assert len(saved) >= 2
        for number in range(30):  # over the same places, with other sizes: nothing of the past comes back
            store.append(Message("orders", b"new %d" % number + b"," * 700))
        store.abandon()
    with open_store(tmp_path, small(format=fmt)) as store:
        assert store.recovered.cut == []
        assert bodies(store)[3:] == [b"new %d" % number + b"," * 700 for number in range(30)]


def test_a_stop_again_and_again_changes_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    sent = fill(store, 150)
    store.delete_topic("orders")
    sent = fill(store, 120)
    store.abandon()
    for _ in range(3):
        store = open_store(tmp_path)
        assert not store.was_clean
        assert store.recovered.cut == []
        assert store.recovered.damaged == []
        assert bodies(store) == sent
        end = store.appended_end
        store.abandon()
    with open_store(tmp_path) as store:
        assert store.appended_end == end
        assert store.append(Message("orders", b"next")).queue_offset == 150 + 120
    with open_store(tmp_path) as store:
        assert store.was_clean
        assert store.recovered.records == 0


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("into", range(5))
@pytest.mark.parametrize("rolls", [False, True])
def test_a_window_that_ends_inside_a_frame_is_no_end(tmp_path: Path, fmt: str, into: int, rolls: bool) -> None:
    config = small(format=fmt, segment_bytes=WINDOW_BYTES + 1000)
    store = open_store(tmp_path, config)
    fill_to(store, WINDOW_BYTES - into)
    store.append(Message("orders", b"." * 2000 if rolls else b"next"))  # behind a filler, or in the same segment
    assert store.counters()["log_rolls"] == rolls
    end = store.appended_end
    store.abandon()
    with open_store(tmp_path, config) as store:
        assert (store.appended_end, store.recovered.damaged, store.recovered.cut) == (end, [], [])


def test_a_torn_size_field_costs_no_memory(tmp_path: Path) -> None:
    config = small(segment_bytes=64 << 20)
    for fmt in FORMATS:
        root = tmp_path / fmt
        store = open_store(root, small(format=fmt, segment_bytes=64 << 20))
        sent = fill(store, 3)
        store.checkpoint()
        last = store.append(Message("orders", b"torn"))
        store.abandon()
        path = root / "store" / "commitlog" / name_of(0)
        with path.open("r+b") as file:
            file.seek(last.position)
            file.write((40 << 20).to_bytes(4))
        tracemalloc.start()
        try:
            store = open_store(root, config)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 16 << 20
        assert bodies(store) == sent
        store.close()


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_torn_entry_that_points_below_the_log_costs_no_message(tmp_path: Path, fmt: str) -> None:
    """Half of an entry arrived; what it says cannot be checked, because no record is there any more."""
    clock = ManualClock()
    store = open_store(tmp_path, small(format=fmt, retention_hours=1), clock=clock)
    store.append(Message("idle", b"old"))
    fill(store, 2 * SEGMENT // 300)
    clock.advance(2 * 3_600_000)
    fill(store, SEGMENT // 300)
    store.retain()
    store.checkpoint()
    assert store.start > 0
    assert store.append(Message("idle", b"flushed")).queue_offset == 1
    store.flush()
    store.abandon()
    stride = 24 if fmt == "litemq" else 20
    with (tmp_path / "store" / "consumequeue" / "idle" / "0" / name_of(0)).open("r+b") as file:
        file.seek(stride)
        file.write(struct.pack(">qi", 300, 200))
    with open_store(tmp_path, clock=clock) as store:
        assert bodies(store, "idle") == [b"flushed"]
        assert store.append(Message("idle", b"next")).queue_offset == 2
    assert verify(tmp_path / "store").is_ok


# -- damage before the flushed position ------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("kind", ["bit", "zeros", "size field", "size field to the end", "magic"])
def test_damage_before_the_flushed_position_is_stepped_over(tmp_path: Path, fmt: str, kind: str) -> None:
    with open_store(tmp_path, small(format=fmt)) as store:
        answers = [store.append(Message("orders", b"%03d" % n + b"." * 500, keys=(str(n),))) for n in range(100)]
    hit = answers[10]
    size = hit.end - hit.position
    match kind:
        case "bit":
            flip(tmp_path, hit)
        case "zeros":
            overwrite(tmp_path, hit.position, bytes(size))
        case "size field":
            overwrite(tmp_path, hit.position, (size + 1000).to_bytes(4))
        case "size field to the end":
            overwrite(tmp_path, hit.position, (SEGMENT - hit.position % SEGMENT - 4).to_bytes(4))
        case "magic":
            flip(tmp_path, hit, at=4)
    shutil.rmtree(tmp_path / "store" / "consumequeue")
    with open_store(tmp_path, small(format=fmt)) as store:
        assert hit.position in [position for position, _ in store.recovered.damaged]
        assert store.recovered.cut == []
        assert store.appended_end == answers[-1].end
        assert store.reader.max_offset("orders", 0) == 100
        found = store.read("orders", 0, 0, max_count=100)
        assert found.sizes[10] == 0
        sound = {offset for offset, size in enumerate(found.sizes) if size}
        # Behind a frame whose size is a lie the rest of the segment is skipped.
        assert sound >= {n for n, answer in enumerate(answers) if n < 10 or answer.position >= SEGMENT}
        if kind == "bit":
            assert sound == set(range(100)) - {10}
        assert store.append(Message("orders", b"next")).queue_offset == 100
        for offset in sound:
            record = store.reader.message_at("orders", 0, offset)
            assert record is not None
            assert record.body[:3] == b"%03d" % offset
    with open_store(tmp_path, small(format=fmt)) as store:  # and stays so
        assert store.reader.max_offset("orders", 0) == 101


def test_damage_in_the_flushed_end_does_not_lead_beyond_it(tmp_path: Path) -> None:
    """A size field that was hit may point behind the log's end, where zeros look like an end."""
    with open_store(tmp_path) as store:
        answers = [store.append(Message("orders", b"%d" % n)) for n in range(10)]
    end = answers[-1].end
    overwrite(tmp_path, answers[3].position, (end + 500 - answers[3].position - 4).to_bytes(4))
    shutil.rmtree(tmp_path / "store" / "consumequeue")
    with open_store(tmp_path) as store:
        assert store.recovered.end == end
        assert store.recovered.cut == []
        assert store.append(Message("orders", b"next")).position == SEGMENT


@pytest.mark.parametrize("fmt", FORMATS)
def test_what_is_appended_behind_damage_is_found_by_every_later_scan(tmp_path: Path, fmt: str) -> None:
    """A frame whose size is a lie hides the rest of its segment: a rebuild would not find what is written there."""
    with open_store(tmp_path, small(format=fmt, flush="group")) as store:
        answers = [store.append(Message("orders", b"%d" % n)) for n in range(20)]
    overwrite(tmp_path, answers[3].position, b"\0\1\2\3")
    shutil.rmtree(tmp_path / "store" / "consumequeue")
    sent = [b"new 0", b"new 1", b"new 2"]
    for body in sent:
        store = open_store(tmp_path, small(format=fmt, flush="group"))
        store.wait_durable(store.append(Message("orders", body)).end)
        store.abandon()
    rebuild(tmp_path / "store")
    with open_store(tmp_path) as store:
        assert bodies(store)[-3:] == sent
        assert [record.body for record in store.reader.by_time(None, None, topic="orders")][-3:] == sent


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_missing_segment_is_stepped_over(tmp_path: Path, fmt: str) -> None:
    with open_store(tmp_path, small(format=fmt)) as store:
        sent = fill(store, 300)
        answers = [record.position for record in store.records("orders", 0, 0, max_count=300)]
        end = store.appended_end
    assert end > 3 * SEGMENT
    segment_file(tmp_path, SEGMENT).unlink()
    shutil.rmtree(tmp_path / "store" / "consumequeue")
    with open_store(tmp_path, small(format=fmt)) as store:
        assert store.appended_end == end
        assert [position for position, _ in store.recovered.damaged] == [SEGMENT]
        found = store.read("orders", 0, 0, max_count=300)
        there = [not SEGMENT <= position < 2 * SEGMENT for position in answers]
        assert [bool(size) for size in found.sizes] == there
        kept = [body for body, is_there in zip(sent, there, strict=True) if is_there]
        walked = [record.body for record in store.reader.walk(0) if record.topic == "orders"]
        assert walked == [body for body, at in zip(sent, answers, strict=True) if at < SEGMENT]  # up to the hole
        assert [record.body for record in store.reader.walk(2 * SEGMENT) if record.topic == "orders"] == kept[
            len(walked) :
        ]
        assert store.append(Message("orders", b"next")).queue_offset == 300


def test_a_log_that_lost_its_flushed_end_goes_on_safely(tmp_path: Path) -> None:
    """Whatever checkpoint and snapshots say of the lost part: what is written over it counts."""
    clock = ManualClock()
    with open_store(tmp_path, clock=clock) as store:
        fill(store, 300)
        while store.appended_end % SEGMENT < SEGMENT // 2:
            store.append(Message("orders", b"more"))
        store.put_group("readers")
        store.progress.commit("readers", "orders", 0, 300)
        log_id, end = store.tables.log_id, store.appended_end
    last = segment_file(tmp_path, end)
    assert last.name != name_of(0)
    last.unlink()
    store = open_store(tmp_path, clock=clock)
    assert store.recovered.end <= int(last.name) < end
    assert store.flushed_end <= store.appended_end
    count = store.reader.max_offset("orders", 0)
    assert 0 < count < 300
    assert store.tables.log_id == log_id
    assert "readers" in store.tables.groups
    assert store.progress.offset("readers", "orders", 0) == count
    found = get_checkpoint(tmp_path)
    assert found.flushed is not None
    assert found.flushed <= store.appended_end
    answer = store.append(Message("orders", b"over the lost part"))
    assert answer.end < end
    assert store.flushed_end < answer.end  # not yet, whatever the old checkpoint said
    store.put_topic("late", {"writeQueueNums": 3})
    store.progress.commit("readers", "orders", 0, count + 1)
    store.flush()
    clock.advance(2000)
    store.tick()
    store.abandon()
    with open_store(tmp_path, clock=clock) as store:
        assert bodies(store)[-1] == b"over the lost part"
        assert store.tables.topics["late"]["writeQueueNums"] == 3
        assert store.progress.offset("readers", "orders", 0) == count + 1


def test_a_log_that_was_deleted_starts_anew(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        fill(store, 100)
    shutil.rmtree(tmp_path / "store" / "commitlog")
    (tmp_path / "store" / "commitlog").mkdir()
    with open_store(tmp_path) as store:
        assert bodies(store) == []
        assert store.append(Message("orders", b"new")).queue_offset == 0
        store.put_topic("late")
        store.flush()
        store.abandon()
    with open_store(tmp_path) as store:
        assert bodies(store) == [b"new"]
        assert "late" in store.tables.topics
        assert "orders" in store.tables.topics


# -- derived files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize(
    "gone",
    [gone for n in range(1, 4) for gone in itertools.combinations(("consumequeue", "index", "checkpoint"), n)],
    ids="+".join,
)
def test_derived_files_are_made_anew(tmp_path: Path, fmt: str, gone: tuple[str, ...], clean: bool) -> None:
    clock = ManualClock()
    store = open_store(tmp_path, small(format=fmt, retention_hours=1.0), clock=clock)
    fill(store, 200, topic="old")
    clock.advance(2 * 3_600_000)
    sent = fill(store, 300)
    store.retain()
    assert store.start > 0
    store.delete_topic("orders")
    again = fill(store, 50)
    store.put_group("readers")
    store.progress.commit("readers", "orders", 0, 320)
    clock.advance(2000)
    store.tick()
    if clean:
        store.close()
    else:
        store.checkpoint()
        store.abandon()
    for name in gone:
        path = tmp_path / "store" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with open_store(tmp_path, small(format=fmt), clock=clock) as store:
        assert bodies(store) == again
        assert store.reader.min_offset("orders", 0) == len(sent)
        assert [record.body for record in store.reader.by_key("orders", "7")] == [again[7]]
        assert store.reader.by_key("orders", "70") == []
        assert store.progress.offset("readers", "orders", 0) == 320
        assert store.append(Message("orders", b"next")).queue_offset == 350
        assert store.append(Message("old", b"next")).queue_offset == 200
    assert verify(tmp_path / "store").is_ok


def test_an_empty_folder_of_queues_is_as_good_as_none(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        sent = fill(store, 50)
    for path in (tmp_path / "store" / "consumequeue").iterdir():
        shutil.rmtree(path)
    with open_store(tmp_path) as store:
        assert bodies(store) == sent


# -- foreign checkpoints ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("torn", [False, True])
def test_a_checkpoint_of_a_real_rocketmq_is_believed_as_far_as_it_goes(tmp_path: Path, torn: bool, clean: bool) -> None:
    clock = ManualClock()
    store = open_store(tmp_path, small(format="rocketmq"), clock=clock)
    answers = []
    for number in range(200):
        clock.advance(1000)
        answers.append(store.append(Message("orders", b"%03d" % number + b"." * 300)))
    store.close()
    times = answers[150].store_time
    path = tmp_path / "store" / "checkpoint"
    data = bytearray(path.read_bytes())
    data[:40] = checkpoint_format.encode(Checkpoint(times, times, times))[:40]  # what RocketMQ rewrites
    path.write_bytes(data)
    assert not get_checkpoint(tmp_path).is_ours
    if not clean:
        (tmp_path / "store" / "abort").touch()
    if torn:
        overwrite(tmp_path, answers[-1].end - 5, bytes(5))
    with open_store(tmp_path, clock=clock) as store:
        assert 0 < store.recovered.records < 200
        assert len(bodies(store)) == (199 if torn else 200)
        assert store.append(Message("orders", b"next")).queue_offset == (199 if torn else 200)
    assert get_checkpoint(tmp_path).is_ours


def test_damage_without_our_checkpoint_is_no_end_when_a_sound_record_follows(tmp_path: Path) -> None:
    with open_store(tmp_path, small(format="rocketmq")) as store:
        answers = [store.append(Message("orders", b"%03d" % n + b"." * 100)) for n in range(20)]
    (tmp_path / "store" / "checkpoint").unlink()
    (tmp_path / "store" / "abort").touch()
    flip(tmp_path, answers[10], at=(answers[10].end - answers[10].position) // 2)
    with open_store(tmp_path) as store:
        assert [position for position, _ in store.recovered.damaged] == [answers[10].position]
        found = store.read("orders", 0, 0)
        assert [bool(size) for size in found.sizes] == [n != 10 for n in range(20)]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("kind", ["two records", "size field", "zeros"])
def test_larger_damage_without_our_checkpoint_is_no_end_either(
    tmp_path: Path, fmt: str, kind: str, clean: bool
) -> None:
    with open_store(tmp_path, small(format=fmt)) as store:
        answers = [store.append(Message("orders", b"%03d" % n + b"." * 100)) for n in range(20)]
    (tmp_path / "store" / "checkpoint").unlink()
    if not clean:
        (tmp_path / "store" / "abort").touch()
    hit = answers[10]
    match kind:
        case "two records":
            for answer in answers[10:12]:
                flip(tmp_path, answer, at=(answer.end - answer.position) // 2)
        case "size field":
            overwrite(tmp_path, hit.position, b"\x7f\1\2\3")
        case "zeros":
            overwrite(tmp_path, hit.position, bytes(hit.end - hit.position))
    before = log_bytes(tmp_path, 0, SEGMENT)
    for life in range(2):
        with open_store(tmp_path) as store:
            assert bool(store.recovered.damaged) == (life == 0)
            assert store.recovered.cut == []
            found = [bool(size) for size in store.read("orders", 0, 0).sizes][: 20 if kind == "two records" else 10]
            assert found == [kind != "two records" or n not in (10, 11) for n in range(len(found))]
            assert log_bytes(tmp_path, 0, answers[-1].end) == before[: answers[-1].end]
            # In a segment that damage hides nothing is written any more.
            assert (store.append(Message("orders", b"next")).position >= SEGMENT) == (kind != "two records")
    rebuild(tmp_path / "store")
    with open_store(tmp_path) as store:
        last = store.reader.max_offset("orders", 0) - 2
        assert [record.body for record in store.records("orders", 0, last)] == [b"next"] * 2


@pytest.mark.parametrize("clean", [True, False])
def test_what_lies_behind_the_end_of_a_foreign_log_is_saved_and_cut(tmp_path: Path, clean: bool) -> None:
    with open_store(tmp_path, small(format="rocketmq")) as store:
        sent = fill(store, 5)
        end = store.appended_end
    (tmp_path / "store" / "checkpoint").unlink()
    if not clean:
        (tmp_path / "store" / "abort").touch()
    overwrite(tmp_path, end + 100, b"old bytes")
    with open_store(tmp_path) as store:
        assert store.recovered.cut == [(end, 109)]
        assert bodies(store) == sent
    assert (tmp_path / "store" / "repair" / f"{end:020d}").read_bytes() == bytes(100) + b"old bytes"


def test_damage_at_the_end_without_our_checkpoint_is_a_torn_tail(tmp_path: Path) -> None:
    with open_store(tmp_path, small(format="rocketmq")) as store:
        answers = [store.append(Message("orders", b"%03d" % n + b"." * 100)) for n in range(20)]
    (tmp_path / "store" / "checkpoint").unlink()
    (tmp_path / "store" / "abort").touch()
    flip(tmp_path, answers[19], at=(answers[19].end - answers[19].position) // 2)
    with open_store(tmp_path) as store:
        assert [position for position, _ in store.recovered.cut] == [answers[19].position]
        assert len(bodies(store)) == 19


@pytest.mark.parametrize("clean", [True, False])
def test_a_hole_of_zeros_without_our_checkpoint_costs_no_later_segment(tmp_path: Path, clean: bool) -> None:
    with open_store(tmp_path, small(format="rocketmq")) as store:
        answers = [store.append(Message("orders", b"%03d" % n + b"." * 300)) for n in range(100)]
        assert store.appended_end > 2 * SEGMENT
    (tmp_path / "store" / "checkpoint").unlink()
    shutil.rmtree(tmp_path / "store" / "consumequeue")
    if not clean:
        (tmp_path / "store" / "abort").touch()
    hole = next(answer for answer in answers if answer.position > SEGMENT + 1000)
    overwrite(tmp_path, hole.position, bytes(hole.end - hole.position))
    with open_store(tmp_path) as store:
        assert [position for position, _ in store.recovered.damaged] == [hole.position]
        assert store.recovered.cut == []
        # In its segment nothing behind the zeros is written: so says the format, and so does `verify`.
        there = [not hole.position <= answer.position < 2 * SEGMENT for answer in answers]
        found = store.read("orders", 0, 0, max_count=100)
        assert [bool(size) for size in found.sizes] == there
        assert store.append(Message("orders", b"next")).queue_offset == 100


@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_that_was_made_ahead_of_time_is_no_sign_of_a_hole(tmp_path: Path, clean: bool) -> None:
    with open_store(tmp_path, small(format="rocketmq")) as store:
        sent = fill(store, 5)
        end = store.appended_end
    (tmp_path / "store" / "checkpoint").unlink()
    if not clean:
        (tmp_path / "store" / "abort").touch()
    segment_file(tmp_path, SEGMENT).write_bytes(bytes(SEGMENT))
    with open_store(tmp_path) as store:
        assert store.recovered.end == end
        assert not store.recovered.damaged
        assert not store.recovered.cut
        assert bodies(store) == sent


# -- files at odd places ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("fate", PARTIAL)
@pytest.mark.parametrize("seed", range(30))
def test_what_fills_the_space_before_a_queue_may_be_lost_in_part(
    tmp_path: Path, seed: int, fate: Fate, flushed: bool
) -> None:
    """A topic that was made again goes on with its next offset, whatever a power cut left of its new file."""
    fs = ForgetfulFileSystem()
    store = open_store(tmp_path, small(queue_entries=100), fs=fs)
    fill(store, 70)
    store.delete_topic("orders")
    store.checkpoint()
    assert store.append(Message("orders", b"new")).queue_offset == 70
    if flushed:
        store.flush()
    store._queues.write_out_all()
    with open_store(tmp_path, small(queue_entries=100), fs=fs.crash(Random(seed), fate=fate)) as store:
        expected = [b"new"] if store.reader.max_offset("orders", 0) > 70 else []
        assert expected or not flushed
        assert bodies(store) == expected
        assert store.reader.min_offset("orders", 0) == 70
        assert store.append(Message("orders", b"newer")).queue_offset == 70 + len(expected)
        assert bodies(store) == [*expected, b"newer"]


def test_an_empty_segment_file_goes(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        sent = fill(store, 5)
    segment_file(tmp_path, SEGMENT).touch()
    with open_store(tmp_path) as store:
        assert bodies(store) == sent
        fill(store, 200)
        assert store.counters()["segments"] > 1


def test_a_strangers_record_in_a_queue_of_changes_is_no_change(tmp_path: Path) -> None:
    """Entries of damaged messages lead nowhere in particular, and must not be followed."""
    evil = b'{"op":"topic-deleted","topic":"orders","next_offsets":{}}'
    with open_store(tmp_path) as store:
        first = store.append(Message("orders", evil))
        changes = store.put_topic("late")
    path = tmp_path / "store" / "consumequeue" / CHANGES_TOPIC / "0" / f"{0:020d}"
    entry = bytearray(path.read_bytes())
    at = 24 * changes.queue_offset
    entry[at : at + 8] = first.position.to_bytes(8)
    path.write_bytes(entry)
    for name in ("topics.json", "topics.json.bak"):
        (tmp_path / "store" / "config" / name).unlink(missing_ok=True)
    with open_store(tmp_path) as store:
        assert "orders" in store.tables.topics


# -- errors ----------------------------------------------------------------------------------------------------------


def test_a_full_disk_at_the_start_is_cured_without_a_step_by_hand(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    sent = fill(store, 100)
    store.abandon()
    for skip in range(12):
        faults = Faults()
        faults.add(disk_full(skip=skip))
        try:
            with open_store(tmp_path, fs=HookedFileSystem(OsFileSystem(), faults)):
                pass
        except StoreFull:
            assert faults.struck
    with open_store(tmp_path) as store:
        assert bodies(store) == sent


def test_a_disk_that_cannot_be_read_or_written_is_a_named_error(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        sent = fill(store, 30)
    for fault in (broken_read(), read_only(), broken_read(path="*/config/*")):
        faults = Faults()
        faults.add(fault)
        with pytest.raises(BadStore, match=r"cannot be opened: .*(Input/output error|Read-only file system)"):
            open_store(tmp_path, fs=HookedFileSystem(OsFileSystem(), faults))
    with open_store(tmp_path) as store:  # the lock was given back each time
        assert bodies(store) == sent


def test_the_mark_of_a_running_store(tmp_path: Path) -> None:
    mark = tmp_path / "store" / "abort"
    store = open_store(tmp_path)
    assert mark.exists()
    assert store.was_clean
    store.close()
    assert not mark.exists()
    store = open_store(tmp_path)
    assert store.was_clean
    store.abandon()
    assert mark.exists()
    store = open_store(tmp_path)
    assert not store.was_clean
    store.close()
    assert not mark.exists()


def test_sizes_of_the_small_configuration_hold(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        fill(store, 50)
    assert {path.stat().st_size for path in (tmp_path / "store" / "commitlog").iterdir()} == {SMALL.segment_bytes}
