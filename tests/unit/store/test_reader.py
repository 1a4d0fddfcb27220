"""Reading: slices of queues, records by position, id, key and time; damage is answered as such."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.faults import Faults, broken_read
from tests.support.forgetful_fs import ForgetfulFileSystem
from tests.support.hooked_fs import Call, HookedFileSystem
from tests.unit.store.live_support import FORMATS, SEGMENT, bodies, fill, fill_to, open_store, small

from litemq.clock import ManualClock
from litemq.errors import Closed, CorruptRecord, ReadFailed, StaleHandle
from litemq.format.record import FORMATS as RECORD_FORMATS
from litemq.format.record import decode
from litemq.store.fs import OsFileSystem
from litemq.store.log_walk import open_log
from litemq.store.message_store import MessageStore
from litemq.store.query import Wanted, query
from litemq.store.reader import ColdRead, Slice
from litemq.types import Appended, Message


def records_of(found: Slice, fmt: str, positions: list[int]) -> list[bytes]:
    """Return the bodies in a slice; each record must stand where its size says."""
    answer = []
    at = 0
    for size, position in zip([size for size in found.sizes if size], positions, strict=True):
        record = decode(found.data[at : at + size], position, RECORD_FORMATS[fmt])
        assert record is not None
        answer.append(record.body)
        at += size
    assert at == len(found.data)
    return answer


@pytest.fixture(params=FORMATS)
def fmt(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(tmp_path: Path, fmt: str) -> Iterator[MessageStore]:
    with open_store(tmp_path, small(format=fmt)) as opened:
        yield opened


# -- slices ----------------------------------------------------------------------------------------------------------


def test_a_slice_holds_messages_as_log_bytes(store: MessageStore, fmt: str) -> None:
    sent: dict[int, list[tuple[bytes, Appended]]] = {0: [], 1: [], 2: []}
    for number in range(90):  # several segments, three queues in turn
        body = b"%d " % number + b"." * (number * 7 % 900)
        sent[number % 3].append((body, store.append(Message("orders", body, queue_id=number % 3))))
    assert store.counters()["log_rolls"] >= 2
    for queue_id, messages in sent.items():
        at = 0
        while at < 30:
            found = store.read("orders", queue_id, at, max_count=7)
            assert (found.first_offset, found.next_offset) == (at, min(at + 7, 30))
            assert (found.min_offset, found.max_offset) == (0, 30)
            part = messages[at : found.next_offset]
            assert records_of(found, fmt, [answer.position for _, answer in part]) == [body for body, _ in part]
            at = found.next_offset


def test_a_slice_is_bounded_by_bytes_but_never_empty(store: MessageStore) -> None:
    sizes = [answer.end - answer.position for answer in (store.append(Message("orders", b"x" * 500)) for _ in range(5))]
    assert store.read("orders", 0, 0, max_bytes=sizes[0] * 2).sizes == tuple(sizes[:2])
    assert store.read("orders", 0, 0, max_bytes=sizes[0] * 3 - 1).sizes == tuple(sizes[:2])
    assert store.read("orders", 0, 0, max_bytes=1).sizes == tuple(sizes[:1])
    assert store.read("orders", 0, 3).sizes == tuple(sizes[3:])


@pytest.mark.parametrize("offset", [-5, -1, 5, 6, 1 << 40])
def test_an_offset_outside_says_where_the_queue_is(store: MessageStore, offset: int) -> None:
    fill(store, 5)
    found = store.read("orders", 0, offset)
    assert (found.data, found.sizes, found.min_offset, found.max_offset) == (b"", (), 0, 5)
    assert found.next_offset == min(max(offset, 0), 5)
    nowhere = store.read("nowhere", 0, 3)
    assert (nowhere.sizes, nowhere.next_offset, nowhere.min_offset, nowhere.max_offset) == ((), 0, 0, 0)
    assert store.records("orders", 0, offset) == (store.records("orders", 0, 0) if offset < 0 else [])


def test_one_read_serves_records_that_lie_near_each_other(tmp_path: Path) -> None:
    reads: list[Call] = []

    class Watch:
        def before(self, call: Call) -> bool:
            if call.kind == "read" and "commitlog" in str(call.path):
                reads.append(call)
            return True

        def after(self, call: Call) -> None: ...

    with open_store(tmp_path, small(segment_bytes=1 << 20), fs=HookedFileSystem(OsFileSystem(), Watch())) as store:
        for number in range(8):  # two of four: a span of two times the bytes
            store.append_many([Message("orders", b"%d" % number), Message("other", b"." * 20)])
        reads.clear()
        assert len(store.read("orders", 0, 0).sizes) == 8
        assert len(reads) == 1
        for number in range(3):  # far apart: a span of many times the bytes
            store.append_many([Message("far", b"%d" % number), Message("other", b"." * 2000)])
        reads.clear()
        assert len(store.read("far", 0, 0).sizes) == 3
        assert len(reads) == 3


def test_a_cold_read_is_finished_by_a_thread(tmp_path: Path) -> None:
    fs = ForgetfulFileSystem()
    with open_store(tmp_path, fs=fs) as store:
        fill(store, 5)
        warm = store.reader.read_warm("orders", 0, 1, max_count=3)
        assert isinstance(warm, Slice)
        assert warm == store.read("orders", 0, 1, max_count=3)
        fs.is_cold = True
        cold = store.reader.read_warm("orders", 0, 1, max_count=3)
        assert isinstance(cold, ColdRead)
        assert store.counters()["cold_reads"] == 1
        found: list[Slice] = []
        thread = threading.Thread(target=lambda: found.append(cold.finish()))
        thread.start()
        thread.join()
        assert found == [warm]
        assert isinstance(store.reader.read_warm("orders", 0, 9), Slice)  # nothing to read is in memory


def test_a_cold_read_outlives_the_segment(tmp_path: Path) -> None:
    """Retention by force may take a segment from under a reader; its answer is right all the same."""
    clock = ManualClock()
    with open_store(tmp_path, small(retention_hours=1.0), clock=clock) as store:
        fill(store, 200)
        cold = store.reader._look_up("orders", 0, 0, 5, 1 << 20)
        wanted = store.read("orders", 0, 0, max_count=5)
        clock.advance(2 * 3_600_000)
        store.append(Message("orders", b"new"))
        store.retain()
        assert store.start > 0
        assert cold.finish() == wanted
        assert store.read("orders", 0, 0).sizes == ()


# -- damage ----------------------------------------------------------------------------------------------------------


def damage(root: Path, answer: Appended) -> None:
    """Flip a bit in the middle of a record."""
    path = root / "store" / "commitlog" / f"{answer.position // SEGMENT * SEGMENT:020d}"
    with path.open("r+b") as file:
        file.seek((answer.position + answer.end) // 2 % SEGMENT)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))


def damaged_store(root: Path, fmt: str, count: int, damaged: set[int], clock: ManualClock) -> list[Appended]:
    """Make a store in which the messages of some offsets are damaged, and known to be; times are 1 s apart."""
    answers = []
    with open_store(root, small(format=fmt), clock=clock) as store:
        for number in range(count):
            clock.advance(1000)
            answers.append(store.append(Message("orders", b"%03d" % number + b"." * 100, keys=("k", str(number)))))
    for offset in damaged:
        damage(root, answers[offset])
    shutil.rmtree(root / "store" / "consumequeue")  # found out when the queues are made anew
    return answers


@pytest.mark.parametrize("damaged", [{4}, {5}, {0}, {3, 4, 5, 6}, {0, 1, 2}, {0, 2, 4, 6, 8}])
def test_a_damaged_message_keeps_its_offset(tmp_path: Path, fmt: str, damaged: set[int]) -> None:
    clock = ManualClock()
    answers = damaged_store(tmp_path, fmt, 10, damaged, clock)
    with open_store(tmp_path, small(format=fmt), clock=clock) as store:
        assert {position for position, _ in store.recovered.damaged} == {answers[at].position for at in damaged}
        low = next(at for at in range(10) if at not in damaged) if 0 in damaged else 0
        assert store.reader.max_offset("orders", 0) == 10
        assert store.reader.min_offset("orders", 0) <= low
        found = store.read("orders", 0, store.reader.min_offset("orders", 0))
        expected = [0 if at in damaged else answers[at].end - answers[at].position for at in range(10)]
        assert list(found.sizes) == expected[found.first_offset :]
        assert len(found.data) == sum(expected)
        for at in range(10):
            if at not in damaged:
                record = store.reader.message_at("orders", 0, at)
                assert record is not None
                assert record.body[:3] == b"%03d" % at
            elif at >= store.reader.min_offset("orders", 0):
                with pytest.raises(CorruptRecord):
                    store.reader.message_at("orders", 0, at)
        assert store.append(Message("orders", b"next")).queue_offset == 10
        assert store.counters()["damaged_records"] == len(damaged)


@pytest.mark.parametrize("damaged", [set(), {5}, {0}, {9}, {4, 5, 6}, {0, 1}, {8, 9}, {1, 3, 5, 7}])
def test_an_offset_is_found_by_time_past_damage(tmp_path: Path, fmt: str, damaged: set[int]) -> None:
    clock = ManualClock()
    answers = damaged_store(tmp_path, fmt, 10, damaged, clock)
    with open_store(tmp_path, small(format=fmt), clock=clock) as store:
        end = store.reader.max_offset("orders", 0)
        for number, answer in enumerate(answers):
            for time in (answer.store_time - 500, answer.store_time):
                wanted = next((at for at in range(number, 10) if at not in damaged), end)
                assert store.reader.offset_at_time("orders", 0, time) == wanted
        assert store.reader.offset_at_time("orders", 0, answers[-1].store_time + 1) == end


def test_a_walk_passes_over_damage(tmp_path: Path, fmt: str) -> None:
    clock = ManualClock()
    answers = damaged_store(tmp_path, fmt, 10, {3, 7}, clock)
    with open_store(tmp_path, small(format=fmt), clock=clock) as store:
        found = [record.body[:3] for record in store.reader.walk(store.start) if record.topic == "orders"]
        assert found == [b"%03d" % number for number in range(10) if number not in (3, 7)]
        assert len(store.reader.by_key("orders", "k")) == 8
        assert store.reader.by_key("orders", "3") == []
        with pytest.raises(CorruptRecord):
            store.reader.record_at(answers[3].position)


@pytest.mark.parametrize("into", range(5))
def test_a_walk_goes_on_where_a_window_ends_inside_the_next_frame(tmp_path: Path, fmt: str, into: int) -> None:
    window = 1 << 20
    with open_store(tmp_path, small(format=fmt, segment_bytes=4 * window)) as store:
        fill_to(store, window - into)
        sent = fill(store, 3)
        assert [record.body for record in store.reader.walk(store.start)][-3:] == sent
        assert [record.body for record in store.reader.by_time(None, None, topic="orders")][2:] == sent


def test_a_walk_sees_what_is_appended_meanwhile(store: MessageStore) -> None:
    sent = fill(store, 3)
    walk = (record.body for record in store.reader.walk(store.start) if record.topic == "orders")
    found = [next(walk)]
    sent += fill(store, 300)
    assert store.counters()["log_rolls"] >= 2
    assert found + list(walk) == sent


def test_a_body_that_does_not_decompress_is_passed_over(store: MessageStore) -> None:
    store.append(Message("orders", b"one"))
    bad = store.append(Message("orders", b"no zlib", sys_flag=0x1))
    store.append(Message("orders", b"three"))
    assert [record.body for record in store.reader.walk(store.start) if record.topic == "orders"] == [b"one", b"three"]
    with pytest.raises(CorruptRecord):
        store.reader.record_at(bad.position)
    assert len(store.read("orders", 0, 0).sizes) == 3  # bytes are bytes


# -- records ---------------------------------------------------------------------------------------------------------


def test_a_position_from_outside_is_checked(store: MessageStore) -> None:
    answer = store.append(Message("orders", b"x" * 200))
    record = store.reader.record_at(answer.position, store_time=answer.store_time)
    assert record is not None
    assert record.body == b"x" * 200
    with pytest.raises(StaleHandle):
        store.reader.record_at(answer.position, store_time=answer.store_time + 1)
    for position in (answer.position + 1, answer.end - 5):
        with pytest.raises(CorruptRecord):
            store.reader.record_at(position)
    for position in (-1, store.appended_end, 1 << 50):
        assert store.reader.record_at(position) is None


def test_a_position_inside_a_body_that_looks_like_a_record_is_none(store: MessageStore, fmt: str) -> None:
    decoy = RECORD_FORMATS[fmt].magic
    body = (1 << 20).to_bytes(4) + decoy.to_bytes(4) + b"." * 100
    answer = store.append(Message("orders", body))
    data = store.read("orders", 0, 0).data
    with pytest.raises(CorruptRecord):
        store.reader.record_at(answer.position + data.index(body))


def test_messages_are_found_by_id(store: MessageStore, fmt: str) -> None:
    store.append(Message("orders", b"one", message_id="same"))
    store.append(Message("orders", b"two", message_id="same"))
    store.append(Message("other", b"three", message_id="only"))
    found = store.reader.by_id("same")
    assert found is not None
    assert found.body == b"two"
    only = store.reader.by_id("only")
    assert only is not None
    assert only.topic == "other"
    assert store.reader.by_id("only", topic="orders") is None
    assert store.reader.by_id("only", topic="other") == only
    assert store.reader.by_id("nothing") is None
    if fmt == "rocketmq":
        assert only.offset_id is not None
        for spelling in (only.offset_id, only.offset_id.lower()):
            assert store.reader.by_id(spelling) == only
            assert store.reader.by_id(spelling, topic="other") == only
            assert store.reader.by_id(spelling, topic="orders") is None
        another = only.offset_id[:-16] + f"{1 << 40:016X}"
        assert store.reader.by_id(another) is None


def test_messages_are_found_by_key(store: MessageStore) -> None:
    for number in range(30):
        store.append(Message("orders", b"%d" % number, keys=("all", f"n{number % 3}"), message_id=f"id{number}"))
    store.append(Message("other", b"x", keys=("all",)))
    found = [int(record.body) for record in store.reader.by_key("orders", "n1")]
    assert found == list(range(1, 30, 3))
    assert [int(record.body) for record in store.reader.by_key("orders", "all", limit=4)] == [26, 27, 28, 29]
    assert [int(record.body) for record in store.reader.by_key("orders", "id7")] == [7]
    assert store.reader.by_key("orders", "none") == []
    assert [record.body for record in store.reader.by_key("other", "all")] == [b"x"]


def test_keys_with_a_blank_are_kept_and_in_our_format_found(tmp_path: Path, fmt: str) -> None:
    """An index of RocketMQ's has what stands between blanks, and a broker makes it anew from that."""
    keys = ("a b", "c", "")
    with open_store(tmp_path, small(format=fmt)) as store:
        store.append(Message("orders", b"1", keys=keys, message_id="i d"))
        found = {text: store.reader.by_key("orders", text) for text in (*keys, "i d", "a", "b")}
    assert {text for text, records in found.items() if records} == {"c", "i d"} | (
        set(keys) if fmt == "litemq" else set()
    )
    assert {record.keys for records in found.values() for record in records} == {keys}
    for text in keys:  # the command reads where the index does not know
        assert [record.body for record in query(open_log(tmp_path / "store"), Wanted(key=text))] == [b"1"], text


# -- time ------------------------------------------------------------------------------------------------------------


def test_offsets_are_found_by_time(tmp_path: Path, fmt: str) -> None:
    clock = ManualClock()
    times = []
    with open_store(tmp_path, small(format=fmt), clock=clock) as store:
        for number in range(60):
            if number % 3 == 0:  # three messages a time
                clock.advance(10)
            answer = store.append(Message("orders", b"." * 300))
            times.append(answer.store_time)
        for time in range(times[0] - 15, times[-1] + 15, 5):
            wanted = next((offset for offset, stored in enumerate(times) if stored >= time), 60)
            assert store.reader.offset_at_time("orders", 0, time) == wanted
        assert store.reader.offset_at_time("nowhere", 0, times[0]) == 0
        store.purge("orders", {0: 20})
        assert store.reader.offset_at_time("orders", 0, times[0]) == 20
        store.delete_topic("orders")
        assert store.reader.offset_at_time("orders", 0, times[0]) == 60


def test_messages_are_found_by_time(tmp_path: Path, fmt: str) -> None:
    clock = ManualClock()
    sent: list[tuple[int, bytes]] = []
    with open_store(tmp_path, small(format=fmt), clock=clock) as store:
        for number in range(100):
            clock.advance(10 if number % 2 else 0)
            body = b"%03d" % number + b"." * 500
            sent.append((store.append(Message("orders" if number % 5 else "other", body)).store_time, body))
        assert store.counters()["log_rolls"] >= 3
        first, last = sent[0][0], sent[-1][0]
        for begin, end in itertools.product((None, first - 1, first, first + 200, last, last + 1), repeat=2):
            wanted = [body for time, body in sent if (begin is None or time >= begin) and (end is None or time <= end)]
            found = [r.body for r in store.reader.by_time(begin, end) if not r.topic.startswith("LITEMQ_SYS_")]
            assert found == wanted
        others = [record.body for record in store.reader.by_time(first, last, topic="other")]
        assert others == [body for _, body in sent][::5]


def test_the_first_times_of_segments_are_read_once(tmp_path: Path) -> None:
    clock = ManualClock()
    with open_store(tmp_path, clock=clock) as store:
        for _ in range(100):
            clock.advance(1)
            store.append(Message("orders", b"." * 500))
        segments = list(store._log.segments)
        times = [store.reader.first_time(segment) for segment in segments]
        assert times == sorted(times, key=lambda time: time or 0)
        for segment in segments[:-1]:
            segment.file.close()  # whoever reads them now fails
        assert [store.reader.first_time(segment) for segment in segments] == times
        store.abandon()


# -- what readers see ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["group", "sync"])
def test_readers_see_only_what_is_flushed(tmp_path: Path, fmt: str, policy: str) -> None:
    with open_store(tmp_path, small(format=fmt, flush=policy)) as store:
        fill(store, 3)
        store.flush()
        answer = store.append(Message("orders", b"new", keys=("new",), message_id="id"))
        reader = store.reader
        assert store.readable_end == store.flushed_end < store.appended_end
        assert reader.max_offset("orders", 0) == 3
        assert store.read("orders", 0, 3).sizes == ()
        assert store.read("orders", 0, 0).max_offset == 3
        assert len(store.read("orders", 0, 0).sizes) == 3
        assert reader.message_at("orders", 0, 3) is None
        assert reader.record_at(answer.position) is None
        assert reader.by_key("orders", "new") == []
        assert reader.by_id("id") is None
        assert reader.offset_at_time("orders", 0, answer.store_time + 1) == 3
        assert b"new" not in [record.body for record in reader.walk(store.start)]
        store.purge("orders", {0: 4})
        assert reader.min_offset("orders", 0) <= reader.max_offset("orders", 0)
        store.wait_durable(answer.end)
        assert reader.max_offset("orders", 0) == 4
        assert [record.body for record in reader.by_key("orders", "new")] == []  # purged
        assert reader.record_at(answer.position) is not None


def test_readers_see_what_is_appended_without_a_wait(tmp_path: Path) -> None:
    with open_store(tmp_path, small(flush="async")) as store:
        answer = store.append(Message("orders", b"new"))
        assert store.flushed_end < answer.end == store.readable_end
        assert bodies(store) == [b"new"]
        store.wait_durable(answer.end)
        assert store.flushed_end < answer.end


# -- errors ----------------------------------------------------------------------------------------------------------


def questions(store: MessageStore) -> dict[str, object]:
    reader = store.reader
    return {
        "min_offset": lambda: reader.min_offset("orders", 0),
        "max_offset": lambda: reader.max_offset("orders", 0),
        "read": lambda: store.read("orders", 0, 0),
        "read_warm": lambda: reader.read_warm("orders", 0, 0),
        "records": lambda: store.records("orders", 0, 0),
        "message_at": lambda: reader.message_at("orders", 0, 0),
        "record_at": lambda: reader.record_at(0),
        "by_key": lambda: reader.by_key("orders", "1"),
        "by_id": lambda: reader.by_id("id"),
        "by_time": lambda: list(reader.by_time(1, None)),
        "walk": lambda: list(reader.walk(0)),
        "offset_at_time": lambda: reader.offset_at_time("orders", 0, 0),
    }


def test_a_disk_that_does_not_answer_is_a_named_error(tmp_path: Path) -> None:
    faults = Faults()
    fs = HookedFileSystem(OsFileSystem(), faults)
    with open_store(tmp_path, small(format="rocketmq")) as store:
        fill(store, 60)
    store = open_store(tmp_path, fs=fs)
    faults.add(broken_read())
    failed = set()
    for name, ask in questions(store).items():
        assert callable(ask)
        with pytest.raises(ReadFailed, match="failed"):
            ask()
        failed.add(name)
    assert failed == set(questions(store))
    faults.cure()
    assert store.failure is None
    assert len(bodies(store)) == 60
    store.close()


def test_a_closed_store_answers_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, 3)
    asked = questions(store)
    store.close()
    for ask in asked.values():
        assert callable(ask)
        with pytest.raises(Closed):
            ask()
