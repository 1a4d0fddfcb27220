"""Appending: what is refused leaves nothing behind, what is taken goes to its place, whatever the segment's end."""

from __future__ import annotations

import errno
import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest
from tests.support.faults import Fault, Faults, broken_write, disk_full
from tests.support.hooked_fs import Call, HookedFileSystem, Kind
from tests.unit.store.live_support import FORMATS, SEGMENT, bodies, fill, open_store, small, topics

from litemq.clock import ManualClock
from litemq.config import StoreConfig, WritableFormat
from litemq.errors import (
    ConcurrentAppend,
    InvalidRequest,
    LiteMQError,
    RecordTooLarge,
    ReservedName,
    StoreFull,
    TopicUnusable,
    WriteFailed,
)
from litemq.store.fs import OsFileSystem
from litemq.store.message_store import MessageStore
from litemq.types import Message


class Name(str):
    """Something like a ``StrEnum``."""


HUGE = Message("orders", b"x" * SEGMENT)
REFUSED = {
    "too large": (HUGE, RecordTooLarge),
    "bad topic": (Message("a/b", b""), TopicUnusable),
    "no topic": (Message("", b""), TopicUnusable),
    "long topic": (Message("t" * 256, b""), TopicUnusable),
    "topic without UTF-8": (Message("\ud800", b""), InvalidRequest),
    "reserved topic": (Message("LITEMQ_SYS_CHANGES", b""), ReservedName),
    "queue below 0": (Message("orders", b"", queue_id=-1), InvalidRequest),
    "queue": (Message("orders", b"", queue_id=1 << 31), InvalidRequest),
    "queue over the bound": (Message("orders", b"", queue_id=1 << 20), InvalidRequest),
    "last queue of RocketMQ's numbers": (Message("other", b"", queue_id=(1 << 31) - 1), InvalidRequest),
    "queue of a new topic": (Message("other", b"", queue_id=(1 << 32) - 1), InvalidRequest),
    "message id without UTF-8": (Message("orders", b"", message_id="\ud800"), InvalidRequest),
    "key without UTF-8": (Message("orders", b"", keys=("\udfff",)), InvalidRequest),
    "tag without UTF-8": (Message("orders", b"", tags=("\udfff",)), InvalidRequest),
    "property without UTF-8": (Message("orders", b"", properties={"a": "\udfff"}), InvalidRequest),
    "host without UTF-8": (Message("orders", b"", born_host="\udfff"), InvalidRequest),
    "long message id": (Message("orders", b"", message_id="i" * 65536), RecordTooLarge),
    "long property": (Message("orders", b"", properties={"a": "i" * 65536}), RecordTooLarge),
}


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize(("message", "error"), REFUSED.values(), ids=REFUSED)
def test_a_refused_message_leaves_nothing_behind(
    tmp_path: Path, fmt: str, message: Message, error: type[LiteMQError]
) -> None:
    with open_store(tmp_path, small(format=fmt)) as store:
        store.append(Message("orders", b"one"))
        end, tables = store.appended_end, dict(store.tables.topics)
        with pytest.raises(error):
            store.append(message)
        with pytest.raises(error):
            store.append_many([Message("orders", b"a"), Message("new", b"b"), message, Message("orders", b"c")])
        assert store.appended_end == end
        assert store.tables.topics == tables
        assert topics(store) == {"orders"}
        assert store.append(Message("orders", b"two")).queue_offset == 1
        assert bodies(store) == [b"one", b"two"]
        assert store.counters()["messages"] == store.reader.max_offset("orders", 0) + 2  # the id, the topic


@pytest.mark.parametrize("topic", ["orders", "new"])
@pytest.mark.parametrize("odd", [None, "text", 5, Message], ids=repr)
def test_what_is_no_message_is_named(tmp_path: Path, odd: object, topic: str) -> None:
    """The compiled build once took None for a message and died of it."""
    kind = type(odd).__name__
    with open_store(tmp_path) as store:
        store.append(Message("orders", b"one"))
        end = store.appended_end
        with pytest.raises(TypeError, match=f"message 0 of the call must be a litemq.types.Message, not {kind}"):
            store.append(odd)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=f"message 1 of the call must be a litemq.types.Message, not {kind}"):
            store.append_many([Message(topic, b"a"), odd])  # type: ignore[list-item]
        assert store.appended_end == end
        assert topics(store) == {"orders"}


@pytest.mark.parametrize("topic", ["orders", "new"])
@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("odd", [5, 0, None, b"", b"text", [], ["a"], (), Name("text")], ids=repr)
def test_wrong_elements_of_a_message_are_named(tmp_path: Path, fmt: str, odd: object, topic: str) -> None:
    element = cast("str", odd)
    wrong = {
        "tags[1]": Message(topic, b"", tags=("a", element)),
        "keys[0]": Message(topic, b"", keys=(element, "a")),
        "properties['a']": Message(topic, b"", properties={"a": element}),
    }
    if not isinstance(odd, list):
        wrong["the name of a property"] = Message(topic, b"", properties={element: "a"})
    with open_store(tmp_path, small(format=fmt)) as store:
        store.append(Message("orders", b"one"))
        end = store.appended_end
        for place, message in wrong.items():
            text = re.escape(f"{place} must be str, not {type(odd).__name__}")
            with pytest.raises(TypeError, match=f"^{text}$"):
                store.append(message)
            with pytest.raises(TypeError, match=f"^message 1 of the call: {text}$"):
                store.append_many([Message("orders", b"a"), message])
        assert store.appended_end == end
        assert topics(store) == {"orders"}


@pytest.mark.parametrize(
    "odd", [(Message("orders", b""),), iter([]), None, "text", {}], ids=lambda odd: type(odd).__name__
)
def test_messages_come_as_a_list(tmp_path: Path, odd: object) -> None:
    with open_store(tmp_path) as store:
        end = store.appended_end
        with pytest.raises(TypeError, match=f"messages must be a list, not {type(odd).__name__}"):
            store.append_many(odd)  # type: ignore[arg-type]
        assert store.appended_end == end


@dataclass
class SecondCaller:
    """A second thread that appends in the middle of such a call to a file whose path has ``part``."""

    kind: Kind
    part: str
    store: MessageStore | None = None
    met: list[BaseException] = field(default_factory=list)

    def before(self, call: Call) -> bool:
        if self.store is not None and call.kind == self.kind and self.part in call.path.parts:
            with ThreadPoolExecutor(1) as other:
                error = other.submit(self.store.append, Message("orders", b"second")).exception()
            if error is not None:
                self.met.append(error)
        return True

    def after(self, call: Call) -> None:
        pass


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_second_thread_in_the_middle_of_an_append_is_refused(tmp_path: Path, fmt: str) -> None:
    second = SecondCaller("write", "commitlog.new")
    with open_store(tmp_path, small(format=fmt), fs=HookedFileSystem(OsFileSystem(), second)) as store:
        store.append(Message("orders", b"before"))
        second.store = store
        sent = [store.append(Message("orders", b"%d" % number + b"-" * 1000)) for number in range(40)]
        assert store.counters()["log_rolls"] > 1
        assert len(second.met) == 40 + store.counters()["log_rolls"]  # each record, and each segment's filler
        second.store = None
        assert {type(error) for error in second.met} == {ConcurrentAppend}
        assert "another thread is in the middle of an append" in str(second.met[0])
        assert [answer.queue_offset for answer in sent] == [*range(1, 41)]
        assert [body.rstrip(b"-") for body in bodies(store)] == [b"before", *(b"%d" % n for n in range(40))]
        assert store.append(Message("orders", b"after")).queue_offset == 41
        store.abandon()
    with open_store(tmp_path, small(format=fmt)) as store:
        assert (store.recovered.cut, store.recovered.damaged) == ([], [])
        assert len(bodies(store)) == 42


def test_a_second_thread_does_not_open_a_queue_that_is_being_opened(tmp_path: Path) -> None:
    """Each would get a tail of its own, and the messages the same offsets."""
    with open_store(tmp_path) as store:
        fill(store, 3)
    second = SecondCaller("open", "consumequeue")
    with open_store(tmp_path, fs=HookedFileSystem(OsFileSystem(), second)) as store:
        store._queues.public.clear()
        second.store = store
        assert store.append(Message("orders", b"first")).queue_offset == 3
        second.store = None
        assert [type(error) for error in second.met] == [ConcurrentAppend]
        assert store.append(Message("orders", b"next")).queue_offset == 4


def test_a_refused_message_that_is_the_first_makes_no_topic(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        with pytest.raises(RecordTooLarge):
            store.append(HUGE)
        assert store.tables.topics == {}
        assert topics(store) == set()


def test_properties_have_rocketmqs_limit_in_its_format_only(tmp_path: Path) -> None:
    message = Message("orders", b"", properties={"a": "x" * 40_000})
    sizes = {"segment_bytes": 1 << 17}
    with open_store(tmp_path / "r", small(format="rocketmq", **sizes)) as store:
        with pytest.raises(RecordTooLarge, match="properties with their checksum has 40023 bytes, at most 32767 fit"):
            store.append(message)
        assert topics(store) == set()
    with open_store(tmp_path / "l", small(format="litemq", **sizes)) as store:
        store.append(message)


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_body_has_its_limit_whatever_the_segment_holds(tmp_path: Path, fmt: str) -> None:
    with open_store(tmp_path, small(format=fmt, segment_bytes=1 << 20, max_body_bytes=1000)) as store:
        largest = Message("orders", b"x" * 1000, properties={"a": "x" * 30_000})
        too_large = Message("orders", b"x" * 1001)
        for message in (largest, Message("orders", b"")):  # with a queue to be made, and without
            with pytest.raises(RecordTooLarge, match="body has 1001 bytes, at most 1000 fit"):
                store.append_many([message, too_large])
            store.append(message)
        assert len(bodies(store)) == 2


@pytest.mark.parametrize("fmt", FORMATS)
def test_the_limit_of_bodies_is_none_for_our_own_records(tmp_path: Path, fmt: str) -> None:
    with open_store(tmp_path, small(format=fmt, max_body_bytes=1)) as store:
        store.append(Message("orders", b"x"))
        store.put_group("readers")
        store.progress.commit("readers", "orders", 0, 1)
    with open_store(tmp_path, small(format=fmt, max_body_bytes=1)) as store:
        assert store.progress.offset("readers", "orders", 0) == 1


def test_nothing_is_appended_by_an_empty_call(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        end = store.appended_end
        assert store.append_many([]) == []
        assert store.appended_end == end


# -- the end of a segment --------------------------------------------------------------------------------------------


def room(store: MessageStore) -> int:
    return SEGMENT - store.appended_end % SEGMENT


def fit(store: MessageStore, left: int) -> None:
    """Append a message behind which ``left`` bytes of the segment are left."""
    probe = store.append(Message("orders", b""))
    overhead = probe.end - probe.position
    while room(store) - left - overhead > SEGMENT // 4:
        store.append(Message("orders", b"-" * 1000))
    answer = store.append(Message("orders", b"f" * (room(store) - left - overhead)))
    assert answer.end % SEGMENT == (SEGMENT - left) % SEGMENT


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("left", range(13))
@pytest.mark.parametrize("fmt", FORMATS)
def test_a_log_rolls_with_any_bytes_left(tmp_path: Path, fmt: str, left: int, together: bool) -> None:
    left += 8 if fmt == "rocketmq" else 0  # its filler needs eight, so fewer are never left
    with open_store(tmp_path, small(format=fmt)) as store:
        fit(store, left)
        before = bodies(store)
        sent = [b"%d" % number for number in range(3)]
        if together:
            answers = store.append_many([Message("orders", body) for body in sent])
        else:
            answers = [store.append(Message("orders", body)) for body in sent]
        assert [answer.position // SEGMENT for answer in answers] == [1, 1, 1]
        assert answers[0].position == SEGMENT
        assert bodies(store) == before + sent
        store.abandon()
    with open_store(tmp_path, small(format=fmt)) as store:
        assert store.recovered.cut == []
        assert store.recovered.damaged == []
        assert bodies(store) == before + sent


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("left", [0, 1, 3, 4, 7, 8, 9])
def test_a_store_opens_with_any_bytes_left(tmp_path: Path, fmt: str, left: int, clean: bool) -> None:
    left += 8 if fmt == "rocketmq" else 0
    with open_store(tmp_path, small(format=fmt)) as store:
        fit(store, left)
        before = bodies(store)
        if not clean:
            store.abandon()
    with open_store(tmp_path, small(format=fmt)) as store:
        assert bodies(store) == before
        assert store.append(Message("orders", b"next")).queue_offset == len(before)
        assert bodies(store) == [*before, b"next"]


@pytest.mark.parametrize("fmt", FORMATS)
def test_one_call_crosses_several_segments(tmp_path: Path, fmt: str) -> None:
    sent = [b"%03d" % number + b"." * 900 for number in range(100)]
    with open_store(tmp_path, small(format=fmt)) as store:
        answers = store.append_many([Message("orders", body, queue_id=i % 3) for i, body in enumerate(sent)])
        assert store.counters()["log_rolls"] >= 5
        assert [answer.queue_offset for answer in answers] == [i // 3 for i in range(100)]
        assert all(a.end <= b.position for a, b in itertools.pairwise(answers))
        for queue_id in range(3):
            assert bodies(store, queue_id=queue_id) == sent[queue_id::3]
        assert store.counters()["log_writes"] == store.counters()["log_rolls"] + 3  # the id, the topic, one a segment


def test_the_largest_record_fills_a_segment(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        probe = store.append(Message("orders", b""))
        largest = SEGMENT - 8 - (probe.end - probe.position)
        with pytest.raises(RecordTooLarge):
            store.append(Message("orders", b"x" * (largest + 1)))
        for _ in range(3):
            assert store.append(Message("orders", b"x" * largest)).position % SEGMENT == 0
        assert len(bodies(store)) == 4


# -- what an answer says ---------------------------------------------------------------------------------------------


def test_an_answer_says_where_the_record_is(tmp_path: Path) -> None:
    clock = ManualClock()
    with open_store(tmp_path, clock=clock) as store:
        first = store.append(Message("orders", b"one", message_id="a"))
        clock.advance(5)
        second = store.append(Message("orders", b"two"))
    assert (first.queue_offset, second.queue_offset) == (0, 1)
    assert second.position == first.end
    assert second.store_time == first.store_time + 5
    with open_store(tmp_path, clock=clock) as store:
        record = store.reader.record_at(first.position)
        assert record is not None
        assert (record.message_id, record.queue_offset, record.store_time) == ("a", 0, first.store_time)
        assert record.size == first.end - first.position


def test_store_times_do_not_run_back_when_the_clock_does(tmp_path: Path) -> None:
    clock = ManualClock()
    with open_store(tmp_path, clock=clock) as store:
        first = store.append(Message("orders", b"one"))
        clock.set_wall(clock.now_ms() - 3_600_000)
        assert store.append(Message("orders", b"two")).store_time == first.store_time
    with open_store(tmp_path, clock=clock) as store:
        assert store.append(Message("orders", b"three")).store_time == first.store_time
        store.abandon()
    with open_store(tmp_path, clock=clock) as store:
        assert store.append(Message("orders", b"four")).store_time == first.store_time


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("fmt", FORMATS)
def test_prepared_and_rolled_back_messages_take_no_offset(tmp_path: Path, fmt: str, together: bool) -> None:
    messages = [Message("orders", b"%d" % n, status=status, keys=("k",)) for n, status in enumerate((0, 1, 2, 3, 0))]
    with open_store(tmp_path, small(format=fmt)) as store:
        answers = store.append_many(messages) if together else [store.append(message) for message in messages]
        assert [answer.queue_offset for answer in answers] == [0, 0, 1, 0, 2]
        assert bodies(store) == [b"0", b"2", b"4"]
        assert [record.body for record in store.reader.by_key("orders", "k")] == [b"0", b"1", b"2", b"4"]


@pytest.mark.parametrize("together", [False, True])
def test_a_sys_flag_decides_about_the_offset_in_rocketmqs_format(tmp_path: Path, together: bool) -> None:
    """A forwarded half message has the state in its flag alone."""
    prepared = Message("orders", b"half", sys_flag=1 << 2, keys=("k",))
    messages = [prepared, Message("orders", b"whole"), prepared, Message("orders", b"last")]
    with open_store(tmp_path, small(format="rocketmq")) as store:
        answers = store.append_many(messages) if together else [store.append(message) for message in messages]
        assert [answer.queue_offset for answer in answers] == [0, 0, 0, 1]
        assert bodies(store) == [b"whole", b"last"]
        store.abandon()
    with open_store(tmp_path, small(format="rocketmq")) as store:
        assert bodies(store) == [b"whole", b"last"]


def test_an_ipv6_store_host_stands_in_the_records(tmp_path: Path) -> None:
    for fmt in FORMATS:
        with open_store(tmp_path / fmt, small(format=fmt, store_host="[fe80::1]:10911")) as store:
            answer = store.append(Message("orders", b"one", born_host="[::1]:5"))
            record = store.reader.record_at(answer.position)
            assert record is not None
            assert (record.store_host, record.born_host) == ("[fe80::1]:10911", "[::1]:5")
            if fmt == "rocketmq":
                assert record.offset_id is not None
                assert len(record.offset_id) == 56
                assert store.reader.by_id(record.offset_id) == record


def test_a_store_host_that_is_no_address_stands_in_the_records_too(tmp_path: Path) -> None:
    for fmt in FORMATS:
        with open_store(tmp_path / fmt, small(format=fmt, store_host="broker-a:10911")) as store:
            answer = store.append(Message("orders", b"one"))
            record = store.reader.record_at(answer.position)
            assert record is not None
            assert record.store_host == "broker-a:10911"


# -- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [0.0, 0.5])
@pytest.mark.parametrize("fault", [disk_full, broken_write])
def test_a_failed_write_stops_writes_and_shows_nothing_of_it(tmp_path: Path, fault: object, part: float) -> None:
    faults = Faults()
    fs = HookedFileSystem(OsFileSystem(), faults)
    error = StoreFull if fault is disk_full else WriteFailed
    store = open_store(tmp_path, fs=fs)
    sent = fill(store, 5)
    assert callable(fault)
    faults.add(fault(path="*/commitlog*", part=part))
    with pytest.raises(error) as caught:
        store.append(Message("orders", b"lost"))
    assert caught.value.appended == ()
    faults.cure()
    with pytest.raises(error):
        store.append(Message("orders", b"not taken"))
    assert isinstance(store.failure, error)
    assert bodies(store) == sent
    store.close()
    with open_store(tmp_path) as store:
        assert bodies(store) == sent
        assert store.append(Message("orders", b"again")).queue_offset == 5


def test_an_error_behind_a_roll_lists_what_is_in_the_log(tmp_path: Path) -> None:
    faults = Faults()
    store = open_store(tmp_path, fs=HookedFileSystem(OsFileSystem(), faults))
    store.append(Message("orders", b"first"))
    faults.add(broken_write(path="*/commitlog*", skip=4))  # two segments with their fillers
    with pytest.raises(WriteFailed) as caught:
        store.append_many([Message("orders", b"." * 2000) for _ in range(30)])
    appended = caught.value.appended
    assert 10 < len(appended) < 20
    assert len(bodies(store)) == 1 + len(appended)
    store.close()


def test_a_full_disk_at_the_next_segment_lists_what_is_in_the_log(tmp_path: Path) -> None:
    faults = Faults()
    store = open_store(tmp_path, fs=HookedFileSystem(OsFileSystem(), faults))
    sent = [b"%02d" % number + b"." * 2000 for number in range(30)]
    store.append(Message("orders", b"first"))
    faults.add(Fault(code=errno.ENOSPC, kinds=frozenset({"create"}), path="*/commitlog.new"))
    with pytest.raises(StoreFull) as caught:
        store.append_many([Message("orders", body) for body in sent])
    kept = len(caught.value.appended)
    assert 0 < kept < 10
    assert bodies(store) == [b"first", *sent[:kept]]
    store.close()
    faults.cure()
    with open_store(tmp_path) as store:  # no step by hand
        assert bodies(store) == [b"first", *sent[:kept]]
        store.append_many([Message("orders", body) for body in sent[kept:]])
        assert bodies(store) == [b"first", *sent]


def test_a_full_disk_under_a_derived_file_loses_no_message_and_no_key(tmp_path: Path) -> None:
    faults = Faults()
    store = open_store(tmp_path, fs=HookedFileSystem(OsFileSystem(), faults))
    faults.add(disk_full(path="*/index/*"))
    sent: list[bytes] = []
    while store.failure is None:
        sent.append(b"%d" % len(sent))
        store.append(Message("orders", sent[-1], keys=(sent[-1].decode(),)))
    with pytest.raises(StoreFull):
        store.append(Message("orders", b"refused"))
    assert len(sent) > 30
    assert bodies(store) == sent
    store.close()
    faults.cure()
    with open_store(tmp_path) as store:
        assert bodies(store) == sent
        for body in sent:
            assert [record.body for record in store.reader.by_key("orders", body.decode())] == [body]
        store.append(Message("orders", b"again"))


def test_a_queue_that_cannot_be_looked_up_is_a_named_error(tmp_path: Path) -> None:
    faults = Faults()
    store = open_store(tmp_path)
    fill(store, 3)
    store.close()
    store = open_store(tmp_path, fs=HookedFileSystem(OsFileSystem(), faults))
    faults.add(Fault(code=errno.EIO, kinds=frozenset({"open"}), path="*/consumequeue/orders/*"))
    with pytest.raises(LiteMQError):
        store.append(Message("orders", b"x"))
    faults.cure()
    assert store.append(Message("orders", b"x")).queue_offset == 3
    store.close()


@pytest.mark.parametrize("fmt", FORMATS)
def test_what_belongs_together_stands_in_one_segment(tmp_path: Path, fmt: WritableFormat) -> None:
    config = StoreConfig(format=fmt, segment_bytes=16 << 10, max_body_bytes=12 << 10)
    with MessageStore.open(tmp_path, config, background=False) as store:
        for number in range(40):
            pair = [Message("T", bytes(900)), Message("U", b"%d" % number, queue_id=number % 3)]
            first, second = store.append_whole(pair)
            assert first.end == second.position
            assert first.position // (16 << 10) == second.position // (16 << 10)
        assert len(store.reader.entries("T", 0, 0, 100)) == 40
        # What no segment can hold together goes into two.
        first, second = store.append_whole([Message("T", bytes(9000)), Message("T", bytes(9000))])
        assert first.position // (16 << 10) < second.position // (16 << 10)
        assert (first.queue_offset, second.queue_offset) == (40, 41)
