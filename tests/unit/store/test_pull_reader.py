"""Pulls against a model that reads message by message; records, keys and times as remoting clients ask for them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.faults import Faults, broken_read
from tests.support.forgetful_fs import ForgetfulFileSystem
from tests.support.hooked_fs import Call, HookedFileSystem
from tests.unit.store.live_support import FORMATS, fill, open_store, small
from tests.unit.store.test_reader import damage, damaged_store

from litemq import _plain
from litemq.clock import ManualClock
from litemq.errors import Closed, ReadFailed
from litemq.format import litemq
from litemq.format._text_cy import java_hash
from litemq.format.placement import Placement
from litemq.format.queue_entry import LAYOUTS
from litemq.format.record import FORMATS as RECORD_FORMATS
from litemq.format.record import ROCKETMQ, decode
from litemq.format.transcode import odd_to_rocketmq, to_rocketmq
from litemq.store import _slice_cy, pull_reader
from litemq.store._slice_cy import Pulled
from litemq.store._tail_pull_cy import PullStatus
from litemq.store.fs import OsFileSystem
from litemq.store.message_store import MessageStore
from litemq.store.pull_reader import ColdPull
from litemq.types import Appended, LogPosition, Message, QueueOffset

TWIN = _plain.load_plain("litemq.store._slice_cy")
QUICK_TWIN = _plain.load_plain("litemq.store._tail_pull_cy")
TAGS = ("", "a", "b", "polygenelubricants")  # the last one's hash is negative in Java
ROOT = Path("/store-of-a-fake")


@pytest.fixture(params=FORMATS)
def fmt(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(tmp_path: Path, fmt: str) -> Iterator[MessageStore]:
    with open_store(tmp_path, small(format=fmt)) as opened:
        yield opened


def pull(store: MessageStore, offset: int, **limits: object) -> Pulled:
    """Pull from the usual queue; everything must be in memory."""
    answer = store.reader.pull("orders", 0, offset, **limits)  # type: ignore[arg-type] # as the test says
    assert isinstance(answer, Pulled)
    return answer


def facts(pulled: Pulled) -> tuple[object, ...]:
    """Return all that a pull says; the buffer must be as long as it says."""
    assert len(pulled.buffer) == pulled.start + pulled.size
    assert sum(size for _, size in pulled.places()) == pulled.size
    assert len(pulled.places()) == pulled.count
    ends = (pulled.next_offset, pulled.min_offset, pulled.max_offset)
    return pulled.status, pulled.data, pulled.count, *ends


def bodies_of(pulled: Pulled) -> list[bytes]:
    """Return the bodies of records in RocketMQ's format."""
    answer = []
    for place, size in pulled.places():
        data = bytes(pulled.buffer[place : place + size])
        record = decode(data, int.from_bytes(data[28:36]), ROCKETMQ)
        assert record is not None
        answer.append(record.body)
    return answer


# -- against a model -------------------------------------------------------------------------------------------------


def expected(
    store: MessageStore,
    offset: int,
    *,
    max_count: int,
    max_bytes: int,
    tag_hashes: frozenset[int] | None,
    max_scan: int,
    as_rocketmq: bool,
) -> tuple[object, ...]:
    """Return the facts of a pull that is inside the queue, message by message."""
    code = RECORD_FORMATS[store.format].code
    low, high = store.reader.min_offset("orders", 0), store.reader.max_offset("orders", 0)
    data = b""
    count = 0
    at = offset
    while at < min(high, offset + max(max_scan, max_count)) and count < max_count:
        found = store.read("orders", 0, at, max_count=1)
        record = store.reader.message_at("orders", 0, at)
        assert record is not None
        tag = java_hash(record.tags[0]) if record.tags else 0
        if tag_hashes is None or tag in {value & 0xFFFFFFFF for value in tag_hashes}:
            part = to_rocketmq(code, found.data, record.position) if as_rocketmq else found.data
            assert part is not None
            if count and len(data) + len(part) > max_bytes:
                break
            data += part
            count += 1
        at += 1
    return PullStatus.FOUND if count else PullStatus.NO_MATCH, data, count, at, low, high


sent = st.lists(
    st.tuples(
        st.sampled_from(["orders", "orders", "other", "write out"]),
        st.integers(0, 700),
        st.sampled_from(TAGS),
        st.dictionaries(st.sampled_from(["__ORIGIN", "a", "WAIT"]), st.sampled_from(["1", "true"]), max_size=2),
    ),
    min_size=1,
    max_size=60,
)
hashes = st.none() | st.frozensets(st.sampled_from([java_hash(tag) for tag in TAGS] + [java_hash("a") - (1 << 32), 7]))


@settings(max_examples=60, deadline=None)
@given(messages=sent, data=st.data())
@pytest.mark.parametrize("name", FORMATS)
def test_a_pull_gives_what_reading_message_by_message_gives(
    name: str, messages: list[tuple[str, int, str, dict[str, str]]], data: st.DataObject
) -> None:
    fs = ForgetfulFileSystem()
    with open_store(ROOT, small(format=name, segment_bytes=4096), fs=fs) as store:
        for topic, size, tag, properties in messages:
            if topic == "write out":
                store._queues.write_out_all()
            else:
                tags = (tag,) if tag else ()
                store.append(Message(topic, b"x" * size, tags=tags, properties=properties, message_id=f"{size}"))
        high = store.reader.max_offset("orders", 0)
        if high == 0:
            assert pull(store, 0).status is PullStatus.EMPTY
            return
        for _ in range(5):
            offset = data.draw(st.integers(0, high - 1))
            max_count = data.draw(st.integers(1, 40))
            max_bytes = data.draw(st.integers(0, 8000))
            tag_hashes = data.draw(hashes)
            max_scan = data.draw(st.integers(1, 60))
            as_rocketmq = data.draw(st.booleans())
            limits = {"max_count": max_count, "max_bytes": max_bytes, "tag_hashes": tag_hashes}
            limits |= {"max_scan": max_scan, "as_rocketmq": as_rocketmq}
            wanted = expected(
                store,
                offset,
                max_count=max_count,
                max_bytes=max_bytes,
                tag_hashes=tag_hashes,
                max_scan=max_scan,
                as_rocketmq=as_rocketmq,
            )
            head_room = data.draw(st.integers(0, 300))
            found = pull(store, offset, head_room=head_room, **limits)
            assert facts(found) == wanted
            assert found.start == head_room
            fs.is_cold = True
            cold = store.reader.pull("orders", 0, offset, head_room=head_room, **limits)  # type: ignore[arg-type] # ditto
            fs.is_cold = False
            assert facts(cold.finish() if isinstance(cold, ColdPull) else cold) == wanted
            usual = store.reader.quick
            slicer = TWIN.Slicer(name == "litemq", usual_stride(name), odd_to_rocketmq)
            parts = (store._log, store._queues, store.tables, lambda: store.readable_end, True, slicer)
            store.reader.quick = QUICK_TWIN.TailPuller(*parts)
            found = store.reader.pull("orders", 0, offset, **limits)  # type: ignore[arg-type, assignment] # its own class
            store.reader.quick = usual
            assert found.status.name == wanted[0].name  # type: ignore[attr-defined] # the twin has its own statuses
            assert (found.data, found.count, found.next_offset) == wanted[1:4]


def usual_stride(name: str) -> int:
    return RECORD_FORMATS[name].queue_entry_size


# -- offsets ---------------------------------------------------------------------------------------------------------


def test_an_offset_outside_says_where_the_queue_is(store: MessageStore) -> None:
    nowhere = store.reader.pull("nowhere", 0, 3, head_room=9)
    assert isinstance(nowhere, Pulled)
    assert (facts(nowhere), nowhere.start) == ((PullStatus.EMPTY, b"", 0, 0, 0, 0), 9)
    fill(store, 5)
    assert facts(pull(store, 5)) == (PullStatus.AT_END, b"", 0, 5, 0, 5)
    assert facts(pull(store, 6)) == (PullStatus.TOO_LARGE, b"", 0, 5, 0, 5)
    assert facts(pull(store, -1)) == (PullStatus.TOO_SMALL, b"", 0, 0, 0, 5)
    store.purge("orders", {0: 2})
    assert facts(pull(store, 1)) == (PullStatus.TOO_SMALL, b"", 0, 2, 2, 5)
    assert pull(store, 2).count == 3
    store.delete_topic("orders")
    assert facts(pull(store, 5)) == (PullStatus.AT_END, b"", 0, 5, 5, 5)
    assert facts(pull(store, 4)) == (PullStatus.TOO_SMALL, b"", 0, 5, 5, 5)
    assert facts(pull(store, 6)) == (PullStatus.TOO_LARGE, b"", 0, 5, 5, 5)


def test_what_is_not_flushed_is_waited_for(tmp_path: Path, fmt: str) -> None:
    with open_store(tmp_path, small(format=fmt, flush="group")) as store:
        fill(store, 3)
        assert facts(pull(store, 0)) == (PullStatus.AT_END, b"", 0, 0, 0, 0)
        assert facts(pull(store, 3)) == (PullStatus.AT_END, b"", 0, 3, 0, 0)
        assert pull(store, 4).status is PullStatus.TOO_LARGE
        store.flush()
        assert (pull(store, 1).count, pull(store, 1).max_offset) == (2, 3)
        for number in range(60):  # the end is found again and again, in files and in memory
            fill(store, 1 + number % 7)
            if number % 11 == 3:
                store._queues.write_out_all()
            if number % 5 == 0:
                store.flush()
            end = store.readable_end
            wanted = sum(store.records("orders", 0, at)[0].position < end for at in range(pull(store, 0).max_offset))
            assert pull(store, 0).max_offset == wanted
            appended = store._queues.find("orders", 0)
            assert appended is not None
            for offset in range(wanted, appended.next_offset + 1):
                assert facts(pull(store, offset)) == (PullStatus.AT_END, b"", 0, offset, 0, wanted)


class Watch:
    """Counts reads of files."""

    def __init__(self) -> None:
        self.reads: list[str] = []

    def before(self, call: Call) -> bool:
        if call.kind == "read":
            self.reads.append(str(call.path))
        return True

    def after(self, call: Call) -> None: ...


def test_the_ends_of_a_hot_queue_are_known_without_a_read(tmp_path: Path, fmt: str) -> None:
    watch = Watch()
    config = small(format=fmt, flush="group", segment_bytes=1 << 20, queue_entries=5000)
    with open_store(tmp_path, config, fs=HookedFileSystem(OsFileSystem(), watch)) as store:
        fill(store, 300)
        store.flush()
        fill(store, 20)
        pull(store, 319)
        watch.reads.clear()
        for _ in range(3):
            assert pull(store, 319).status is PullStatus.AT_END
            assert watch.reads == []
        pull(store, 299)
        assert len(watch.reads) <= 2  # an entry that may be in its file, and the record


def test_one_read_serves_records_that_lie_near_each_other(tmp_path: Path, fmt: str) -> None:
    watch = Watch()
    config = small(format=fmt, segment_bytes=1 << 20)
    with open_store(tmp_path, config, fs=HookedFileSystem(OsFileSystem(), watch)) as store:
        for number in range(8):  # two of four: a span of two times the bytes
            store.append_many([Message("orders", b"%d" % number), Message("other", b"." * 20)])
        watch.reads.clear()
        assert bodies_of(pull(store, 0)) == [b"%d" % number for number in range(8)]
        assert len(watch.reads) == 1
        for number in range(3):  # a span of many times the bytes, but no gap is worth a call
            store.append_many([Message("orders", b"%d" % number), Message("other", b"." * 2000)])
        watch.reads.clear()
        assert bodies_of(pull(store, 8)) == [b"0", b"1", b"2"]
        assert len(watch.reads) == 1
        for number in range(3):  # far apart
            store.append_many([Message("orders", b"%d" % number), Message("other", b"." * 17_000)])
        watch.reads.clear()
        assert bodies_of(pull(store, 11)) == [b"0", b"1", b"2"]
        assert len(watch.reads) == 3


def reads_of_log(watch: Watch) -> int:
    return len([path for path in watch.reads if "consumequeue" not in path])


def test_small_gaps_make_no_read_of_any_length(tmp_path: Path, fmt: str) -> None:
    watch = Watch()
    config = small(format=fmt, segment_bytes=1 << 20)
    with open_store(tmp_path, config, fs=HookedFileSystem(OsFileSystem(), watch)) as store:
        for number in range(200):
            store.append_many([Message("orders", b"%d" % number), Message("other", b"." * 3500)])
        watch.reads.clear()
        found = pull(store, 0, max_count=200)
        assert bodies_of(found) == [b"%d" % number for number in range(200)]
        assert 3 <= reads_of_log(watch) <= 14  # 740 KB: five whole blocks, what crosses them, and the rest


def test_queues_that_lie_among_each_other_share_reads(tmp_path: Path, fmt: str) -> None:
    watch = Watch()
    config = small(format=fmt, segment_bytes=4 << 20, queue_entries=5000)
    with open_store(tmp_path, config, fs=HookedFileSystem(OsFileSystem(), watch)) as store:
        bodies = {queue: [b"%d.%d." % (number, queue) + bytes(900) for number in range(96)] for queue in range(16)}
        for number in range(96):
            store.append_many([Message("orders", bodies[queue][number], queue_id=queue) for queue in range(16)])
        watch.reads.clear()
        for offset in (0, 32, 64):
            for queue in range(16):
                found = store.reader.pull("orders", queue, offset)
                assert isinstance(found, Pulled)
                assert bodies_of(found) == bodies[queue][offset : offset + 32]
        blocks = store.appended_end // (128 << 10)
        assert blocks >= 11
        # Each block once, a record where two of them meet, and for each queue what lies behind the last whole one.
        assert reads_of_log(watch) <= 2 * blocks + 16 < 48


@pytest.mark.parametrize("seed", range(4))
def test_pulls_of_many_queues_at_any_place_give_what_is_stored(tmp_path: Path, fmt: str, seed: int) -> None:
    dice = random.Random(seed)
    bodies: dict[int, list[bytes]] = {queue: [] for queue in range(5)}
    with open_store(tmp_path, small(format=fmt, segment_bytes=300_000, queue_entries=50)) as store:
        for _ in range(600):
            queue = dice.randrange(5)
            body = dice.randbytes(dice.choice([0, 10, 300, 3_000, 20_000]))
            store.append(Message("orders", body, queue_id=queue))
            bodies[queue].append(body)
            if dice.random() < 0.3:
                queue = dice.randrange(5)
                low = store.reader.min_offset("orders", queue)
                offset = dice.randrange(low, len(bodies[queue]) + 1) if len(bodies[queue]) >= low else low
                found = store.reader.pull("orders", queue, offset, max_count=dice.choice([1, 7, 32, 300]))
                assert isinstance(found, Pulled)
                assert bodies_of(found) == bodies[queue][offset : offset + found.count]
                assert found.count > 0 or offset == len(bodies[queue])


def test_a_pull_that_finds_nothing_goes_on_behind_what_it_looked_at(store: MessageStore) -> None:
    fill(store, 900)
    wanted = frozenset({java_hash("a")})
    assert facts(pull(store, 0, tag_hashes=wanted))[:4] == (PullStatus.NO_MATCH, b"", 0, 800)
    assert facts(pull(store, 800, tag_hashes=wanted))[:4] == (PullStatus.NO_MATCH, b"", 0, 900)
    store.append(Message("orders", b"a", tags=("a",)))
    assert facts(pull(store, 800, tag_hashes=wanted))[2:4] == (1, 901)
    assert pull(store, 0, max_count=850).count == 850
    assert pull(store, 0, max_count=1 << 40, max_scan=1 << 40, max_bytes=1 << 40).count == 901


@pytest.mark.parametrize("seed", range(6))
def test_entries_of_any_bytes_harm_nobody(tmp_path: Path, fmt: str, seed: int) -> None:
    dice = random.Random(seed)
    layout = LAYOUTS[fmt]
    with open_store(tmp_path, small(format=fmt, segment_bytes=1 << 20, queue_entries=5000)) as store:
        fill(store, 300)
        store.checkpoint()
        sound = store.reader.pull("orders", 0, 0, max_count=300)
        assert isinstance(sound, Pulled)
    files = sorted((tmp_path / "store" / "consumequeue" / "orders" / "0").iterdir())
    whole = bytearray(files[0].read_bytes())
    odd = [0, 1, 60, 1 << 31, (1 << 62) - 1, 1 << 62, (1 << 63) - 60, (1 << 63) - 1, (1 << 64) - 1]
    for _ in range(60):
        at = dice.randrange(299) * layout.size
        position = dice.choice([*odd, dice.randrange(1 << 20), dice.randrange(1 << 64)])
        size = dice.choice([0, 1, 90, 200, 5000, (1 << 27) - 1, 1 << 27, (1 << 31) - 2, dice.randrange(1 << 32)])
        whole[at : at + 8] = position.to_bytes(8, "big")
        whole[at + 8 : at + 12] = size.to_bytes(4, "big")
    files[0].write_bytes(whole)
    with open_store(tmp_path, small(format=fmt, segment_bytes=1 << 20, queue_entries=5000)) as store:
        for _ in range(100):
            offset = dice.randrange(300)
            found = store.reader.pull(
                "orders", 0, offset, max_count=dice.choice([1, 32, 300]), as_rocketmq=dice.random() < 0.7
            )
            if isinstance(found, ColdPull):
                found = found.finish()
            assert len(found.buffer) == found.size + found.start
            assert len(found.places()) == found.count


# -- what is not in memory -------------------------------------------------------------------------------------------


def test_a_cold_pull_is_finished_by_a_thread(fmt: str) -> None:
    fs = ForgetfulFileSystem()
    with open_store(ROOT, small(format=fmt), fs=fs) as store:
        fill(store, 45)  # two files of entries, and some in memory
        for offset in (0, 15, 30, 44):
            warm = facts(pull(store, offset))
            fs.is_cold = True
            store.reader.quick.slicer = store.reader._new_slicer()  # the old one remembers what it read
            before = store.counters()["cold_reads"]
            cold = store.reader.pull("orders", 0, offset)
            assert isinstance(cold, ColdPull)
            assert store.counters()["cold_reads"] == before + 1
            fill(store, 3, topic="other")  # the store goes on meanwhile
            assert pull(store, 45).status is PullStatus.AT_END
            with ThreadPoolExecutor(1) as thread:
                assert facts(thread.submit(cold.finish).result()) == warm
            fs.is_cold = False


def test_a_cold_pull_outlives_the_segment(tmp_path: Path, fmt: str) -> None:
    clock = ManualClock()
    fs = ForgetfulFileSystem()
    with open_store(ROOT, small(format=fmt, retention_hours=1.0), clock=clock, fs=fs) as store:
        fill(store, 200)
        wanted = facts(pull(store, 0, max_count=5))
        fs.is_cold = True
        cold = store.reader.pull("orders", 0, 0, max_count=5)
        assert isinstance(cold, ColdPull)
        clock.advance(2 * 3_600_000)
        store.append(Message("orders", b"new"))
        store.retain()
        assert store.start > 0
        assert facts(cold.finish()) == wanted
        assert pull(store, 0).status is PullStatus.TOO_SMALL


def test_what_is_in_memory_is_not_kept_waiting(fmt: str) -> None:
    """A pull that meets cold bytes behind warm ones gives the warm ones."""

    fs = ForgetfulFileSystem()
    with open_store(ROOT, small(format=fmt, segment_bytes=4096), fs=fs) as store:
        fill(store, 40)
        whole = pull(store, 0, max_count=40)
        assert whole.count == 40
        first = store._log.segments.first
        segment = store._log.segments.find(first.end)
        assert segment is not None
        inner = segment.file

        class Cold:
            def read_into(self, buffer: memoryview, position: int, *, nowait: bool = False) -> int:
                return -1 if nowait else inner.read_into(buffer, position)

        segment._file = Cold()  # type: ignore[assignment] # only reads are asked of it
        part = pull(store, 0, max_count=40)
        segment._file = None
        assert 0 < part.count < 40
        assert part.status is PullStatus.FOUND
        assert whole.data.startswith(part.data)
        assert part.data + pull(store, part.next_offset, max_count=40).data == whole.data


@pytest.mark.parametrize("max_count", [-(1 << 40), 0, 1, 1 << 40])
@pytest.mark.parametrize("max_scan", [-(1 << 40), 0, 1, 1 << 40])
def test_any_limits_end_a_pull(fmt: str, max_count: int, max_scan: int) -> None:
    fs = ForgetfulFileSystem()
    with open_store(ROOT, small(format=fmt), fs=fs) as store:
        fill(store, 45)
        found = pull(store, 0, max_count=max_count, max_scan=max_scan, max_bytes=1 << 40)
        assert found.count == (45 if max_count == 1 << 40 else 1)
        fs.is_cold = True
        store.reader.quick.slicer = store.reader._new_slicer()  # the old one remembers what it read
        cold = store.reader.pull("orders", 0, 0, max_count=max_count, max_scan=max_scan, max_bytes=1 << 40)
        assert isinstance(cold, ColdPull)
        assert facts(cold.finish()) == facts(found)


# -- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damaged", [{4}, {0}, {3, 4, 5, 6}, {0, 2, 4, 6, 8}])
def test_a_damaged_message_has_its_offset_but_no_bytes(tmp_path: Path, fmt: str, damaged: set[int]) -> None:
    clock = ManualClock()
    damaged_store(tmp_path, fmt, 10, damaged, clock)
    with open_store(tmp_path, small(format=fmt), clock=clock) as store:
        low = store.reader.min_offset("orders", 0)
        found = pull(store, low)
        assert [int(body[:3]) for body in bodies_of(found)] == [at for at in range(10) if at not in damaged]
        assert (found.next_offset, found.max_offset) == (10, 10)


def test_damage_that_came_while_the_store_is_open_is_left_out(tmp_path: Path, fmt: str) -> None:
    with open_store(tmp_path, small(format=fmt)) as store:
        answers = [store.append(Message("orders", b"%d" % number + b"." * 100)) for number in range(5)]
        if fmt == "litemq":
            damage(tmp_path, answers[2])  # a flipped bit, seen by the checksum
        else:
            flip_size(tmp_path, answers[2])
        assert [body[:1] for body in bodies_of(pull(store, 0))] == [b"0", b"1", b"3", b"4"]
        assert facts(pull(store, 2, max_count=1))[2:4] == (1, 4)
        assert store.reader.record_bytes(answers[2].position) is None


def flip_size(root: Path, answer: Appended) -> None:
    path = root / "store" / "commitlog" / f"{0:020d}"
    with path.open("r+b") as file:
        file.seek(answer.position + 3)
        file.write(b"\xff")


def test_entries_that_are_gone_are_passed_over(tmp_path: Path, fmt: str) -> None:
    fs = ForgetfulFileSystem()
    with open_store(ROOT, small(format=fmt), fs=fs) as store:
        fill(store, 70)
        store._queues.write_out_all()
        tail = store._queues.find("orders", 0)
        assert tail is not None
        stride = tail.entry_size
        tail.files.starts.remove(20 * stride)
        found = pull(store, 15, max_count=30)
        assert [int(body.split()[0]) for body in bodies_of(found)] == [*range(15, 20), *range(40, 65)]
        fs.is_cold = True
        cold = store.reader.pull("orders", 0, 15, max_count=30)
        assert isinstance(cold, ColdPull)
        assert facts(cold.finish()) == facts(found)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("name", FORMATS)
def test_garbage_in_a_queue_file_is_passed_over(name: str, data: st.DataObject) -> None:
    fs = ForgetfulFileSystem()
    with open_store(ROOT, small(format=name), fs=fs) as store:
        fill(store, 25)
        store._queues.write_out_all()
        assert store.reader.min_offset("orders", 0) == 0  # a search by halves would believe what it meets
        tail = store._queues.find("orders", 0)
        assert tail is not None
        stride = tail.entry_size
        file = fs.open(tail.files.path(0), write=True)
        low_numbers = st.integers(0, 9000).map(lambda number: number.to_bytes(8) + b"\0\0\1\0" + bytes(stride - 12))
        garbage = {}
        for number in data.draw(st.sets(st.integers(1, 19), min_size=1)):
            garbage[number] = data.draw(st.binary(min_size=stride, max_size=stride) | low_numbers)
            file.write_at(garbage[number], number * stride)
        wanted = [number for number in range(25) if number not in garbage]
        for cold in (False, True):
            fs.is_cold = cold
            found = store.reader.pull("orders", 0, 0, max_count=25)
            fs.is_cold = False
            if isinstance(found, ColdPull):
                found = found.finish()
            assert found.next_offset == 25
            assert [int(body.split()[0]) for body in bodies_of(found)] == wanted


def test_a_disk_that_does_not_answer_is_named(tmp_path: Path, fmt: str) -> None:
    faults = Faults()
    with open_store(tmp_path, small(format=fmt), fs=HookedFileSystem(OsFileSystem(), faults)) as store:
        fill(store, 3)
        faults.add(broken_read(path="*commitlog*"))
        with pytest.raises(ReadFailed):
            pull(store, 0)


def test_a_closed_store_gives_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, 3)
    store.close()
    with pytest.raises(Closed):
        pull(store, 0)


# -- filters that ask for properties -----------------------------------------------------------------------------------


@pytest.mark.parametrize("as_rocketmq", [True, False])
def test_properties_of_a_pull_and_what_is_kept_of_it(store: MessageStore, as_rocketmq: bool) -> None:
    for number in range(6):
        message = Message("orders", b"%d" % number, tags=("t",), properties={"n": str(number), "__ORIGIN": "5"})
        store.append(message)
    found = pull(store, 0, head_room=11, as_rocketmq=as_rocketmq)
    seen = list(store.reader.properties(found))
    assert [one["n"] for one in seen] == list("012345")
    assert {one["TAGS"] for one in seen} == {"t"}
    if as_rocketmq:
        assert not any("__ORIGIN" in one for one in seen)
    store.reader.keep(found, [one["n"] in "135" for one in seen])
    assert [one["n"] for one in store.reader.properties(found)] == list("135")
    assert facts(found)[2:4] == (3, 6)
    assert found.start == 11
    with pytest.raises(ValueError, match="2 answers about 3 records"):
        store.reader.keep(found, [True, False])
    store.reader.keep(found, [False] * 3)
    assert facts(found)[:4] == (PullStatus.NO_MATCH, b"", 0, 6)


@pytest.mark.parametrize("as_rocketmq", [True, False])
def test_tags_with_the_same_hash_are_told_apart(store: MessageStore, as_rocketmq: bool) -> None:
    assert java_hash("Aa") == java_hash("BB")
    tags = ("Aa", "BB", "", "Aa", "Aa\u00e9", "BB")
    for number, tag in enumerate(tags):
        message = Message("orders", b"%d" % number, tags=(tag,) if tag else (), properties={"A": "TAGS", "TAG": "Aa"})
        store.append(message)
    hashes = frozenset({java_hash("Aa")})
    for wanted in (frozenset({b"Aa"}), frozenset({b"Aa", b"BB"}), frozenset({b"no"})):
        found = pull(store, 0, head_room=5, tag_hashes=hashes, as_rocketmq=as_rocketmq)
        assert found.count == 4
        twin = TWIN.Pulled(bytearray(found.buffer), 5, 4, 6, 0, 6, found.status, found.is_rocketmq)
        store.reader.keep_tags(found, wanted)
        seen = [one["TAGS"] for one in store.reader.properties(found)]
        assert seen == [tag for tag in ("Aa", "BB", "Aa", "BB") if tag.encode() in wanted]
        assert facts(found)[2:4] == (len(seen), 6)
        assert found.status is (PullStatus.FOUND if seen else PullStatus.NO_MATCH)
        store.reader.keep_tags(twin, wanted)
        assert (twin.data, twin.count, twin.status) == (found.data, found.count, found.status)
    everything = pull(store, 0, as_rocketmq=as_rocketmq)
    store.reader.keep_tags(everything, frozenset({"Aa\u00e9".encode(), b""}))
    assert everything.count == 2


@given(cut=st.integers(0, 200), value=st.binary(min_size=1, max_size=4), tags=st.booleans())
def test_the_tag_of_a_record_with_damage_inside_is_looked_for_in_it_only(cut: int, value: bytes, tags: bool) -> None:
    """A record of the log passes with its frame only checked when it is asked for as it is."""
    place = Placement(LogPosition(0), QueueOffset(0), 0, "")
    message = Message("t", b"." * 20, message_id="id", tags=("Aa", "b") if tags else ())
    record = bytearray(litemq.encode(message, place))
    at = 8 + cut % (len(record) - 12)
    record[at : at + len(value)] = value
    outcomes = []
    for module in (_slice_cy, TWIN):
        pulled = module.Pulled(bytearray(record), 0, 1, 1, 0, 1, PullStatus.FOUND, False)
        pulled.keep_tags(frozenset({b"Aa"}))
        outcomes.append(pulled.count)
    assert outcomes in ([0, 0], [1, 1])


# -- times -------------------------------------------------------------------------------------------------------------


def test_offsets_by_time(tmp_path: Path, fmt: str) -> None:
    clock = ManualClock(1_000_000)
    with open_store(tmp_path, small(format=fmt), clock=clock) as store:
        assert store.reader.earliest_store_time("orders", 0) == -1
        assert store.reader.search_offset("orders", 0, 5, upper=True) == 0
        times = []
        for number in range(30):
            if number % 3 == 0:
                clock.advance(1000)
            times.append(store.append(Message("orders", b"%d" % number)).store_time)
        assert store.reader.earliest_store_time("orders", 0) == times[0]
        for time in (0, *times, *(time + 1 for time in times), *(time - 1 for time in times), 1 << 60):
            at_or_after = [at for at in range(30) if times[at] >= time]
            at_or_before = [at for at in range(30) if times[at] <= time]
            assert store.reader.search_offset("orders", 0, time) == (at_or_after[0] if at_or_after else 30)
            assert store.reader.search_offset("orders", 0, time, upper=True) == (
                at_or_before[-1] if at_or_before else 0
            )
        store.purge("orders", {0: 9})
        assert store.reader.earliest_store_time("orders", 0) == times[9]
        assert store.reader.search_offset("orders", 0, times[0], upper=True) == 9


# -- single records ----------------------------------------------------------------------------------------------------


def test_a_record_by_its_position(store: MessageStore, fmt: str) -> None:
    answer = store.append(Message("orders", b"x" * 200, message_id="id", properties={"__ORIGIN": "7"}))
    data = store.reader.record_bytes(answer.position)
    assert data == pull(store, 0).data
    assert store.reader.record_bytes(answer.position, as_rocketmq=False) == store.read("orders", 0, 0).data
    for position in (-1, answer.position + 1, answer.end - 5, store.appended_end, 1 << 50):
        assert store.reader.record_bytes(position) is None


def test_a_popular_key_takes_no_longer_than_one_question_may(
    tmp_path: Path, fmt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_reader, "_MAX_READS", 5)
    clock = ManualClock(1_000_000)
    with open_store(tmp_path, small(format=fmt), clock=clock) as store:
        for number in range(20):
            clock.advance(10_000)
            store.append(Message("orders", b"%d" % number, keys=("popular",), queue_id=number % 2))
        assert len(store.reader.query("orders", "popular")) == 5
        # What is outside of the time asked for is passed over without a look at the record.
        (first,) = store.reader.query("orders", "popular", end_ms=1_010_000)
        assert first[88:89] == b"0"
        monkeypatch.setattr(pull_reader, "_MAX_STEPS", 3)
        assert store.reader.query("orders", "popular", end_ms=1_010_000) == []


def test_messages_by_key(tmp_path: Path, fmt: str) -> None:
    clock = ManualClock(1_000_000)
    with open_store(tmp_path, small(format=fmt), clock=clock) as store:
        answers = []
        for number in range(30):
            clock.advance(1000)
            keys = ("all", f"n{number % 3}", "id4")
            answers.append(store.append(Message("orders", b"%d" % number, keys=keys, message_id=f"id{number % 10}")))
        store.append(Message("other", b"x", keys=("all",)))

        def found(key: str, **limits: object) -> list[int]:
            records = store.reader.query("orders", key, **limits)  # type: ignore[arg-type] # as the test says
            decoded = [decode(data, int.from_bytes(data[28:36]), ROCKETMQ) for data in records]
            return [int(record.body) for record in decoded if record is not None]

        assert found("n1") == list(range(28, 0, -3))
        assert found("all", limit=4) == [29, 28, 27, 26]
        assert found("id3", unique=True) == [23, 13, 3]
        assert found("id3") == []
        assert found("id4", unique=True) == [24, 14, 4]
        assert found("all", unique=True) == []
        times = [answer.store_time for answer in answers]
        assert found("all", begin_ms=times[3], end_ms=times[6]) == [6, 5, 4, 3]
        assert found("all", end_ms=(1 << 63) - 1, limit=100) == list(range(29, -1, -1))
        assert found("all", begin_ms=times[29] + 1) == []
        assert found("all", end_ms=times[0] - 1) == []
        store.purge("orders", {0: 28})
        assert found("all") == [29, 28]
