"""Plain sends from a table of spans: the same log, queues and index as the messages would give."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support import frames
from tests.support.faults import Faults, broken_write
from tests.support.frames import BINARY, JSON, Send
from tests.support.hooked_fs import Call, HookedFileSystem
from tests.unit.store.live_support import FORMATS, SEGMENT, open_store, small

from litemq.errors import (
    Closed,
    ConcurrentAppend,
    FlushFailed,
    StoreFull,
    WriteFailed,
)
from litemq.format import names, plain_names, properties
from litemq.format import spans as columns
from litemq.format._spans_cy import Peer, Spans
from litemq.store._append_cy import DONE, NO_QUEUE
from litemq.store._rows_cy import NOT_PLAIN as NOT_PLAIN_ROW
from litemq.store._rows_cy import WANTS_LOOK, WRITE_FAILED
from litemq.store.fs import OsFileSystem
from litemq.store.message_store import MessageStore
from litemq.types import Message, MessageType
from litemq.wire.remoting._answers_cy import Outbox, sends
from litemq.wire.remoting._requests_cy import split

ADDED = (("MSG_REGION", "DefaultRegion"), ("TRACE_ON", "true"), ("CLUSTER", "a cluster"))
PEERS = ("10.0.0.5:50000", "[fe80::1]:50000")
HOSTS = ("127.0.0.1:10911", "[::1]:10911", "broker-a:10911")


def spans_of(data: bytes, peer: str = PEERS[0]) -> Spans:
    spans = Spans()
    spans.peer = Peer(peer)
    spans.data = bytearray(data)
    assert split(spans, 0, len(data)) == len(data)
    return spans


def ready(store: MessageStore, *topics: str, queues: int = 8) -> None:
    """Make topics plain."""
    for topic in topics or ("orders",):
        store.put_topic(topic)
        store.put_plain(topic, queues)
    store.set_own_properties(ADDED)


def append(store: MessageStore, spans: Spans, row: int) -> int:
    """Append the way a connection does: what is ordinary without the store, the rest through it."""
    rows = store.plain.rows
    done = rows.append_ordinary(spans, row)
    rows.settle()
    return int(done) if rows.why in (DONE, NOT_PLAIN_ROW) else store.append_rows(spans, done)


# ── the same as messages ──

WORD = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=8)
KEY = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02 "), min_size=1, max_size=8)
NAMES = WORD | st.sampled_from(["WAIT", "PGROUP", "a", "b", "zz", "INSTANCE_ID", "TRACE", "KEY", "_", "é", "中", "😀"])
TOPICS = ("orders", "数据", "t" * 200)


def is_other(name: str) -> bool:
    return not plain_names.is_special(name) and name not in plain_names.WELL_KNOWN


@dataclass
class Sent:
    """One message as its sender means it."""

    body: bytes
    unique_id: str
    tag: str | None
    keys: list[str]
    sharding_key: str | None
    others: dict[str, str]
    flag: int

    def pairs(self) -> list[tuple[str, str]]:
        """Return the properties in the order in which they are sent."""
        known = {names.UNIQ_KEY: self.unique_id, names.KEYS: " ".join(self.keys)}
        known |= {names.TAGS: self.tag or "", names.SHARDING_KEY: self.sharding_key or ""}
        pairs = [*((name, value) for name, value in known.items() if value), *self.others.items()]
        return sorted(pairs, key=lambda pair: (len(pair[0]) * (self.flag | 1)) % 7)

    def text(self) -> str:
        """Return RocketMQ's text, its last byte left out at times."""
        text = properties.write(self.pairs()).decode()
        return text[:-1] if self.flag % 2 else text


SENT = st.builds(
    Sent,
    body=st.binary(max_size=40),
    unique_id=WORD,
    tag=st.none() | WORD,
    keys=st.lists(KEY, max_size=3),
    sharding_key=st.none() | WORD,
    others=st.dictionaries(NAMES.filter(is_other), WORD, max_size=6),
    flag=st.integers(-(1 << 31), (1 << 31) - 1) | st.just(0),
)


@dataclass
class Asked:
    """A frame, and the messages of it, born in no place yet."""

    frame: bytes
    messages: list[Message]


@st.composite
def requests(draw: st.DrawFn) -> Asked:
    """Return a plain send or a batch of them."""
    is_batch = draw(st.booleans())
    topic = draw(st.sampled_from(TOPICS))
    queue_id = draw(st.integers(0, 7))
    flags = 0x32 if is_batch else draw(st.sampled_from([0, 1, 2, 0x301, 0x10, 0x33, 0x700]))
    born_time = draw(st.integers(0, 1 << 62))
    times = draw(st.integers(0, 1 << 30) | st.just(0))
    parts = draw(st.lists(SENT, min_size=1, max_size=4 if is_batch else 1))
    if flags & 1:
        parts[0].body = zlib.compress(parts[0].body)
    codec = draw(st.sampled_from([JSON, BINARY]))
    body = parts[0].body if not is_batch else b"".join(frames.entry(one.body, one.text(), one.flag) for one in parts)
    sent = Send(
        topic=topic,
        body=body,
        properties=draw(st.sampled_from(["", "x\x01y\x02"])) if is_batch else parts[0].text(),
        queue_id=queue_id,
        sys_flag=flags,
        born_time=born_time,
        flag=5 if is_batch else parts[0].flag,
        reconsume_times=times,
        batch=is_batch,
    )
    messages = [
        Message(
            topic,
            one.body,
            queue_id=queue_id,
            message_id=one.unique_id,
            tags=(one.tag,) if one.tag else (),
            keys=tuple(one.keys),
            sharding_key=one.sharding_key or "",
            type=MessageType.ORDER if one.sharding_key else MessageType.NORMAL,
            properties={name: value for name, value in one.pairs() if name in one.others} | dict(ADDED),
            flag=one.flag,
            sys_flag=flags & ~0x30 or None,
            born_time=born_time,
            reconsume_times=times,
        )
        for one in parts
    ]
    return Asked(frames.send(codec, 310, sent, opaque=draw(st.integers(-5, 5))), messages)


def as_born(message: Message, peer: str, store_host: str) -> Message:
    """Return the message with the peer's host, and the flags that its host and the store's give."""
    fields = {name: getattr(message, name) for name in Message.__slots__}
    if message.sys_flag is not None:
        hosts = (0x10 if peer.startswith("[") else 0) | (0x20 if store_host.startswith("[") else 0)
        fields["sys_flag"] = message.sys_flag | hosts
    return Message(**{**fields, "born_host": peer})


@dataclass
class Pair:
    """Two stores that get the same: one as rows, one as messages."""

    store: MessageStore
    twin: MessageStore


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], Pair]]:
    """Yield what gives the stores of a format and a host; they live on, as each costs more than many appends."""
    opened: dict[tuple[str, str], Pair] = {}

    def pair(fmt: str, host: str) -> Pair:
        if (fmt, host) not in opened:
            config = small(format=fmt, store_host=host)
            stores = [open_store(tmp_path_factory.mktemp("pair"), config) for _ in range(2)]
            for store in stores:
                ready(store, *TOPICS)
            opened[fmt, host] = Pair(*stores)
        return opened[fmt, host]

    yield pair
    for made in opened.values():
        made.store.close()
        made.twin.close()


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(requests(), min_size=1, max_size=5),
    st.sampled_from(PEERS),
    st.sampled_from(HOSTS),
    st.sampled_from(FORMATS),
)
def test_the_log_is_that_of_the_messages(
    pairs: Callable[[str, str], Pair], asked: list[Asked], peer: str, host: str, fmt: str
) -> None:
    """Byte for byte, whatever the codec, whatever segment ends between; queues, index and answers agree."""
    pair = pairs(fmt, host)
    store, twin = pair.store, pair.twin
    start = store.appended_end
    assert twin.appended_end == start
    messages = [as_born(m, peer, host) for one in asked for m in one.messages]
    spans = spans_of(b"".join(one.frame for one in asked), peer)
    out = Outbox()
    row = 0
    answered: list[int] = []
    while row < spans.count:
        done = append(store, spans, row)
        sends(spans, row, done, out)
        answered += range(row, done)
        if done < spans.count:  # only a batch at the end of a segment
            assert spans.kind(done) == columns.BATCH
            behind = spans.behind(done)
            store.append_many(messages[done:behind])
            done = behind
        row = done
    expected = twin.append_many(messages)
    assert log_of(store, start) == log_of(twin, start)
    for row in answered:
        cells, one = spans.row(row), expected[row]
        assert (cells["POSITION"], cells["STORED_SIZE"]) == (one.position, one.end - one.position)
        assert (cells["QUEUE_OFFSET"], cells["STORE_TIME"]) == (one.queue_offset, one.store_time)
        assert spans.words(row, columns.ID_AT) == messages[row].message_id.encode()
    for message, one in zip(messages, expected, strict=True):
        where = (message.topic, message.queue_id, one.queue_offset)
        found = store.reader.message_at(*where)
        assert found is not None
        assert found == twin.reader.message_at(*where)
        assert found.message_id == message.message_id
        for key in (message.message_id, *message.keys):
            places = [record.position for record in store.reader.by_key(message.topic, key)]
            assert places
            assert places == [record.position for record in twin.reader.by_key(message.topic, key)]
    check_answers(frames.answers(out.take()), spans, answered)


def check_answers(answers: list[frames.Answer], spans: Spans, rows: list[int]) -> None:
    """Every request has one answer, with the offset of its first message and the ids of all."""
    firsts = [row for row in rows if spans.kind(row) != columns.MORE]
    assert len(answers) == len(firsts)
    for (codec, code, opaque, ext), row in zip(answers, firsts, strict=True):
        cells = spans.row(row)
        assert (codec, code, opaque) == (cells["CODEC"], 0, cells["OPAQUE"])
        assert (ext["queueId"], ext["queueOffset"]) == (str(cells["QUEUE_ID"]), str(cells["QUEUE_OFFSET"]))
        positions = [int(text[-16:], 16) for text in ext["msgId"].split(",")]
        assert positions == [spans.row(each)["POSITION"] for each in range(row, spans.behind(row))]


def log_of(store: MessageStore, start: int) -> bytes:
    """Return the log from ``start`` on, over the ends of segments."""
    parts = []
    while start < store.appended_end:
        parts.append(store._log.read(start, store.appended_end - start))
        start += len(parts[-1])
    return b"".join(parts)


# ── what is not plain is left to the caller ──

BASE = "UNIQ_KEY\x01id\x02"
NOT_PLAIN = {
    "another topic": Send(topic="others"),
    "queue out of range": Send(queue_id=8),
    "queue of the broker's choice": Send(queue_id=-1),
    "prepared": Send(sys_flag=4),
    "committed": Send(sys_flag=8),
    "inner batch": Send(sys_flag=0x80),
    "no unique key": Send(properties="a\x01b\x02"),
    "no properties": Send(properties=""),
    "name twice": Send(properties=BASE + "a\x01b\x02a\x01b\x02"),
    "unique key twice": Send(properties=BASE * 2),
    "keys twice": Send(properties=BASE + "KEYS\x01a\x02" * 2),
    "tags twice": Send(properties=BASE + "TAGS\x01a\x02" * 2),
    "sharding key twice": Send(properties=BASE + "__SHARDINGKEY\x01a\x02" * 2),
    "empty name": Send(properties=BASE + "\x01b\x02"),
    "empty value": Send(properties=BASE + "a\x01\x02"),
    "no value": Send(properties=BASE + "a\x02"),
    "empty pair": Send(properties=BASE + "\x02a\x01b\x02"),
    "byte 1 in a value": Send(properties=BASE + "a\x01b\x01c\x02"),
    "key before a blank": Send(properties=BASE + "KEYS\x01a \x02"),
    "key behind a blank": Send(properties=BASE + "KEYS\x01 a\x02"),
    "keys with two blanks": Send(properties=BASE + "KEYS\x01a  b\x02"),
    "one blank as key": Send(properties=BASE + "KEYS\x01 \x02"),
    "too many properties": Send(properties=BASE + "".join(f"p{n}\x01v\x02" for n in range(49))),
    "properties too long": Send(properties=BASE + "a\x01" + "b" * 32_700),
    "body over the limit": Send(body=bytes(3001)),
    "half a batch": Send(batch=True, body=frames.entry(b"", BASE) + frames.entry(b"", "a\x01b\x02")),
}


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("sent", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_not_plain(tmp_path: Path, fmt: str, sent: Send) -> None:
    """Those before it are taken, those behind it with the next call; nothing of it is in the log."""
    good = frames.send(BINARY, 310, Send())
    with open_store(tmp_path, small(format=fmt, max_body_bytes=3000)) as store:
        ready(store)
        spans = spans_of(good * 2 + frames.send(JSON, 310, sent) + good)
        assert store.append_rows(spans, 0) == 2
        end = store.appended_end
        assert store.append_rows(spans, 2) == 2
        assert store.appended_end == end
        assert store.append_rows(spans, spans.behind(2)) == spans.count
        assert [record.queue_offset for record in store.records("orders", 0, 0)] == [0, 1, 2]
        assert spans.row(2)["STORED_SIZE"] == 0


@pytest.mark.parametrize("name", sorted({*plain_names.EXACT, *names.RESERVED_IN_LITEMQ, *names.RESERVED_IN_ROCKETMQ}))
def test_special_names_are_not_plain(tmp_path: Path, name: str) -> None:
    check_name(tmp_path, name, is_plain=False)


@pytest.mark.parametrize("prefix", [*plain_names.PREFIXES, "__RMQ.TRANSIENT.", names.CRC32C, names.CRC32, names.ORIGIN])
def test_special_beginnings_are_not_plain(tmp_path: Path, prefix: str) -> None:
    check_name(tmp_path, prefix + "X", is_plain=False)
    check_name(tmp_path / "whole", prefix, is_plain=False)


@pytest.mark.parametrize(
    "name", ["PGROUP", "WAIT", "INSTANCE_ID", "DELAYED", "TRACE_ONE", "CLUSTE", "_", "TIMER", "DLQ"]
)
def test_other_names_are_plain(tmp_path: Path, name: str) -> None:
    assert not plain_names.is_special(name)
    check_name(tmp_path, name, is_plain=True)


def check_name(folder: Path, name: str, *, is_plain: bool) -> None:
    assert plain_names.is_special(name) is not is_plain
    with open_store(folder) as store:
        ready(store)
        spans = spans_of(frames.send(BINARY, 310, Send(properties=f"{BASE}{name}\x01v\x02")))
        assert store.append_rows(spans, 0) == int(is_plain)


def test_a_peer_that_is_no_address_is_not_plain(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        ready(store)
        assert store.append_rows(spans_of(frames.send(BINARY, 310, Send()), "socket"), 0) == 0


def test_other_requests_stop_a_run(tmp_path: Path) -> None:
    good, other = frames.send(BINARY, 310, Send()), frames.request(BINARY, 34, {})
    with open_store(tmp_path) as store:
        ready(store)
        spans = spans_of(good + other + good)
        assert [store.append_rows(spans, row) for row in (0, 1, 2, 3)] == [1, 1, 3, 3]


def test_a_buffer_that_was_taken_away(tmp_path: Path) -> None:
    """The table's places may lie outside a buffer that is not the one it was made of."""
    with open_store(tmp_path) as store:
        ready(store)
        for name in ("data", "text"):
            spans = spans_of(frames.send(BINARY, 310, Send()))
            setattr(spans, name, bytearray(3))
            assert store.append_rows(spans, 0) == 0


# ── topics ──


def test_topics_come_and_go(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        spans = spans_of(frames.send(BINARY, 310, Send(queue_id=2)))
        store.put_topic("orders")
        assert store.append_rows(spans, 0) == 0
        store.put_plain("orders", 2)
        assert store.append_rows(spans, 0) == 0
        store.put_plain("orders", 3)
        assert store.append_rows(spans, 0) == 1
        store.drop_plain("orders")
        assert store.append_rows(spans, 0) == 0
        store.drop_plain("never there")


def test_a_deleted_topic_is_not_plain(tmp_path: Path) -> None:
    """Made again, its queues go on where they ended, in tails of their own."""
    with open_store(tmp_path) as store:
        ready(store)
        spans = spans_of(frames.send(BINARY, 310, Send()) * 3)
        assert store.append_rows(spans, 0) == 3
        store.delete_topic("orders")
        assert store.append_rows(spans, 0) == 0
        ready(store)
        assert store.append_rows(spans, 0) == 3
        assert [spans.row(row)["QUEUE_OFFSET"] for row in range(3)] == [3, 4, 5]
        assert store.append(Message("orders", b"")).queue_offset == 6


@pytest.mark.parametrize(
    ("topic", "queues"), [(names.CHANGES_TOPIC, 1), ("never there", 1), ("orders", 9), ("orders", -1)]
)
def test_what_cannot_be_plain(tmp_path: Path, topic: str, queues: int) -> None:
    """It stays the caller's, and no longer is what it was before."""
    with open_store(tmp_path) as store:
        ready(store)
        before = topic == "orders"
        spans = spans_of(frames.send(BINARY, 310, Send(topic=topic)))
        assert store.append_rows(spans, 0) == int(before)
        store.put_plain(topic, queues)
        assert store.append_rows(spans, 0) == 0


@pytest.mark.parametrize(
    "added", [(("DELAY", "1"),), (("CLUSTER", ""),), (("CLUSTER", "a\x02"),), (("CLUSTER", "a"),) * 2]
)
def test_properties_that_cannot_be_added(tmp_path: Path, added: tuple[tuple[str, str], ...]) -> None:
    with open_store(tmp_path) as store, pytest.raises(ValueError, match="property of every record"):
        store.set_own_properties(added)


# ── segments, errors, flushes ──


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_run_crosses_segments(tmp_path: Path, fmt: str) -> None:
    with open_store(tmp_path, small(format=fmt)) as store:
        ready(store)
        spans = spans_of(frames.send(BINARY, 310, Send(body=bytes(1000))) * 50)
        writes = store.counters()["log_writes"]
        assert store.append_rows(spans, 0) == 50
        assert store.counters()["log_rolls"] == 50 * 1200 // SEGMENT
        assert store.counters()["log_writes"] - writes == store.counters()["log_rolls"] + 1
        assert [record.queue_offset for record in store.records("orders", 0, 0, max_count=99)] == [*range(50)]
    with open_store(tmp_path, small(format=fmt)) as store:
        assert store.reader.max_offset("orders", 0) == 50


def test_one_write_for_many_queues(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        ready(store)
        spans = spans_of(b"".join(frames.send(n % 2, 310, Send(queue_id=n % 8)) for n in range(24)))
        assert store.append_rows(spans, 0) == 24  # opens the queues, one after the other
        writes, messages = store.counters()["log_writes"], store.counters()["messages"]
        assert store.append_rows(spans, 0) == 24
        assert store.counters()["log_writes"] == writes + 1
        assert store.counters()["messages"] == messages + 24


@pytest.mark.parametrize("fmt", FORMATS)
def test_readers_find_what_is_not_tidied_up(tmp_path: Path, fmt: str) -> None:
    """Full tails and full index files: what was fed is there, what is written out may wait."""
    with open_store(tmp_path, small(format=fmt)) as store:
        ready(store)
        spans = spans_of(frames.send(BINARY, 310, Send()))
        assert store.append_rows(spans, 0) == 1  # opens the queue
        rows = store.plain.rows
        waited = 0
        for number in range(1, 1000):
            writes = store.counters()["queue_writes"]
            done = rows.append_ordinary(spans, 0)
            if rows.why != DONE:
                rows.settle()
                done = store.append_rows(spans, done)
            rows.feed()
            rows.feed()  # is done already
            (found,) = store.records("orders", 0, number, max_count=9)
            assert found.queue_offset == number
            fed = store.counters()["queue_writes"]
            rows.tidy()
            waited += store.counters()["queue_writes"] > fed == writes
            assert done == 1
        assert waited >= 3
    with open_store(tmp_path, small(format=fmt)) as store:
        assert store.reader.max_offset("orders", 0) == 1000


def test_a_failed_write(tmp_path: Path) -> None:
    """What was taken before it is answered; the next call says what happened."""
    faults = Faults()
    with open_store(tmp_path, fs=HookedFileSystem(OsFileSystem(), faults)) as store:
        ready(store)
        spans = spans_of(frames.send(BINARY, 310, Send(body=bytes(1000))) * 50 + frames.request(BINARY, 34, {}))
        faults.add(broken_write(path="*/commitlog*", skip=2))  # the run's first part and the filler behind it
        done = store.append_rows(spans, 0)
        assert 0 < done < 50
        with pytest.raises(WriteFailed):
            store.append_rows(spans, done)
        assert store.append_rows(spans, 50) == 50, "what is no send is the caller's, whatever the log says"
        assert store.reader.max_offset("orders", 0) == done


def test_an_ordinary_append_leaves_to_the_store_what_it_looks_at(tmp_path: Path) -> None:
    faults = Faults()
    with open_store(tmp_path, small(flush_bytes=2000), fs=HookedFileSystem(OsFileSystem(), faults)) as store:
        ready(store)
        rows = store.plain.rows
        spans = spans_of(frames.send(BINARY, 310, Send(body=bytes(500))) + frames.request(BINARY, 34, {}))

        def ordinary() -> tuple[int, int]:
            done = rows.append_ordinary(spans, 0)
            rows.settle()
            return done, rows.why

        assert ordinary() == (0, NO_QUEUE)
        assert append(store, spans, 0) == 1
        taken = 1
        while ordinary() == (1, NOT_PLAIN_ROW):
            taken += 1
        assert rows.why == WANTS_LOOK
        assert 2 < taken < 10, "a flush is due after 2000 bytes"
        assert store.reader.max_offset("orders", 0) == taken
        assert append(store, spans, 0) == 1  # asks for the flush
        assert ordinary() == (1, NOT_PLAIN_ROW)

        store._set_refuses(True)
        assert ordinary() == (0, WANTS_LOOK)
        store._set_refuses(False)
        faults.add(broken_write(path="*/commitlog*"))
        assert ordinary() == (0, WRITE_FAILED)
        assert ordinary() == (0, WANTS_LOOK)
        with pytest.raises(WriteFailed):
            append(store, spans, 0)
        assert store.reader.max_offset("orders", 0) == taken + 2


def test_a_failed_flush_ends_ordinary_appends(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        ready(store)
        spans = spans_of(frames.send(BINARY, 310, Send()))
        assert append(store, spans, 0) == 1
        store._log.stop(FlushFailed("a flush failed"))  # what the flush thread does
        store._set_look()
        with pytest.raises(FlushFailed):
            append(store, spans, 0)


def test_a_full_disk_refuses_sends_only(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        ready(store)
        spans = spans_of(frames.send(BINARY, 310, Send()) + frames.request(BINARY, 34, {}))
        store._set_refuses(True)
        with pytest.raises(StoreFull):
            store.append_rows(spans, 0)
        assert store.append_rows(spans, 1) == 1


def test_a_closed_store(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        ready(store)
    with pytest.raises(Closed):
        store.append_rows(spans_of(frames.send(BINARY, 310, Send())), 0)


def test_a_second_thread_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        ready(store)
        spans = spans_of(frames.send(BINARY, 310, Send()))
        store._appender.batch.claim()
        with pytest.raises(ConcurrentAppend):
            store.append_rows(spans, 0)
        store._appender.batch.clear()
        assert store.append_rows(spans, 0) == 1


class SlowDisk:
    """Hook: once shut, no sync of the log ends before it is let through."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()

    def before(self, call: Call) -> bool:
        if call.kind == "sync" and "commitlog" in str(call.path):
            assert self.gate.wait(60)
        return True

    def after(self, call: Call) -> None:
        """Nothing to do."""


def test_rows_never_wait_for_a_flush(tmp_path: Path) -> None:
    """The store only says that it is choked, until it was flushed."""
    disk = SlowDisk()
    config = small(dirty_limit_bytes=4000, flush_bytes=2000, flush_interval_ms=60_000)
    fs = HookedFileSystem(OsFileSystem(), disk)
    with open_store(tmp_path, config, fs=fs, background=True) as store:
        ready(store)
        store.flush()
        disk.gate.clear()
        spans = spans_of(frames.send(BINARY, 310, Send()) * 10)
        assert not store.is_choked
        for _ in range(4):
            assert store.append_rows(spans, 0) == 10
        assert store.is_choked
        disk.gate.set()
        store.flush()
        assert not store.is_choked
