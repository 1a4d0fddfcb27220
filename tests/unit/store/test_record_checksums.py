"""Records of a live store end with a checksum; who has none wrote before LiteMQ, or is torn."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.store.live_support import SEGMENT, bodies, fill, open_store, small
from tests.unit.store.test_rocketmq_store import Fixture

from litemq.clock import ManualClock
from litemq.format import rocketmq
from litemq.format.checkpoint import Checkpoint
from litemq.format.placement import Placement
from litemq.format.record import to_json
from litemq.store import checkpoint
from litemq.store.fs import OsFileSystem
from litemq.store.log_walk import open_log
from litemq.store.message_store import MessageStore
from litemq.store.repair import repair
from litemq.store.segments import name_of
from litemq.store.verify import verify
from litemq.types import Appended, LogPosition, Message, QueueOffset

CONFIG = small(format="rocketmq", store_host="10.0.0.5:10911")


def put(store: Path, position: int, data: bytes, segment: int = SEGMENT) -> None:
    """Put bytes into the log."""
    with (store / "commitlog" / name_of(position // segment * segment)).open("r+b") as file:
        file.seek(position % segment)
        file.write(data)


def get(store: Path, answer: Appended) -> bytes:
    with (store / "commitlog" / name_of(answer.position // SEGMENT * SEGMENT)).open("rb") as file:
        file.seek(answer.position % SEGMENT)
        return file.read(answer.end - answer.position)


def get_checkpoint(store: Path) -> Checkpoint:
    found = checkpoint.read(OsFileSystem(), store / "checkpoint")
    assert found is not None
    return found


def unchecked(position: int, queue_offset: int, body: bytes) -> bytes:
    """Return a record as a broker with RocketMQ's default settings writes it."""
    place = Placement(LogPosition(position), QueueOffset(queue_offset), 1_700_000_000_123, "10.0.0.5:10911")
    return rocketmq.encode(Message("orders", body, keys=("k",)), place)


def test_the_bytes_of_an_appended_record(tmp_path: Path) -> None:
    with open_store(tmp_path, CONFIG, clock=ManualClock(1_700_000_000_123)) as store:
        answer = store.append(
            Message(
                "T",
                b"hello",
                queue_id=3,
                tags=("TagA",),
                keys=("k1", "k2"),
                properties={"__CRC32#": "4333568641"},
                born_time=1_700_000_000_000,
                born_host="127.0.0.1:54321",
            )
        )
        record = store.records("T", 3, 0)[0]
    expected = bytes.fromhex(
        "0000008a daa320a7 3610a686 00000003 00000000 0000000000000000"
        + struct.pack(">q", answer.position).hex()
        + "00000000 0000018bcfe56800 7f0000010000d431 0000018bcfe5687b 0a00000500002a9f 00000000 0000000000000000"
        "00000005 68656c6c6f 01 54 0029 4b455953016b31206b3202 54414753015461674102"
    )
    digits = f"{zlib.crc32(expected) & 0x7FFFFFFF:010d}"[::-1]
    expected += b"__CRC32#\x01" + digits.encode() + b"\x02"
    assert get(tmp_path / "store", answer).hex(" ") == expected.hex(" ")
    assert (record.properties, record.size) == ({}, 138)
    assert "__CRC32#" not in str(to_json(record))


# -- torn records ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 11, 12, 19, 20, 21, 40])
@pytest.mark.parametrize("back", [0, 5, 20])
def test_a_record_that_lost_a_part_of_its_end_is_cut(tmp_path: Path, size: int, back: int) -> None:
    store = open_store(tmp_path, CONFIG)
    sent = fill(store, 5)
    store.checkpoint()
    last = store.append(Message("orders", b"torn", keys=("torn",), properties={"a": "b" * 30}))
    store.abandon()
    put(tmp_path / "store", last.end - back - size, bytes(size))
    torn = get(tmp_path / "store", last)
    with open_store(tmp_path, CONFIG) as store:
        assert bodies(store) == sent
        assert store.appended_end == last.position
        assert store.recovered.cut == [(last.position, len(torn.rstrip(b"\0")))]


def test_a_torn_record_behind_those_of_a_broker_is_cut(tmp_path: Path) -> None:
    fixture = Fixture("rocketmq-5.4.0-killed", tmp_path)
    segment = 131_072
    store = MessageStore.open(fixture.path, background=False)
    queue = next(queue for queue in store.queues() if queue.topic not in fixture.meta["batch_topics"])
    end = store.reader.max_offset(queue.topic, queue.queue_id)
    answer = store.append(Message(queue.topic, b"torn", queue_id=queue.queue_id))
    store.abandon()
    put(fixture.path, answer.end - 20, bytes(20), segment)
    with MessageStore.open(fixture.path, background=False) as store:
        assert store.recovered.end == answer.position
        assert store.reader.max_offset(queue.topic, queue.queue_id) == end


# -- records of others -----------------------------------------------------------------------------------------------


def crashed_with_a_record_of_another(tmp_path: Path) -> tuple[Path, list[bytes], int]:
    """Return a store that crashed after somebody else had appended, what it holds, and where it ends."""
    store = open_store(tmp_path, CONFIG)
    sent = fill(store, 5)
    store.checkpoint()
    end = store.appended_end
    store.abandon()
    path = tmp_path / "store"
    for number in range(3):
        data = unchecked(end, 5 + number, b"theirs %d" % number)
        put(path, end, data)
        sent.append(b"theirs %d" % number)
        end += len(data)
    return path, sent, end


def check_goes_on(tmp_path: Path, sent: list[bytes], end: int) -> None:
    """Check that all is kept, and that a torn record of LiteMQ is cut behind it."""
    store = open_store(tmp_path, CONFIG)
    assert store.recovered.cut == []
    assert store.recovered.damaged == []
    assert bodies(store) == sent
    assert store.appended_end == end
    torn = store.append(Message("orders", b"ours"))
    store.abandon()
    put(tmp_path / "store", torn.end - 20, bytes(20))
    with open_store(tmp_path, CONFIG) as store:
        assert bodies(store) == sent
        assert store.appended_end == end
        store.append(Message("orders", b"ours"))
    assert verify(tmp_path / "store").is_ok
    with open_store(tmp_path, CONFIG) as store:
        assert bodies(store) == [*sent, b"ours"]


def test_records_of_an_older_litemq_are_kept(tmp_path: Path) -> None:
    path, sent, end = crashed_with_a_record_of_another(tmp_path)
    checkpoint.write(OsFileSystem(), path / "checkpoint", replace(get_checkpoint(path), checked=False))
    check_goes_on(tmp_path, sent, end)


def test_records_of_a_broker_that_died_before_its_first_checkpoint_are_kept(tmp_path: Path) -> None:
    path, sent, end = crashed_with_a_record_of_another(tmp_path)
    (path / "abort.bak").touch()
    (path / "abort").write_text("4711")
    assert get_checkpoint(path).checked
    check_goes_on(tmp_path, sent, end)
    assert not (path / "abort.bak").exists()


def test_records_of_a_broker_that_rewrote_the_checkpoint_are_kept(tmp_path: Path) -> None:
    path, sent, end = crashed_with_a_record_of_another(tmp_path)
    data = bytearray((path / "checkpoint").read_bytes())
    data[:8] = (1_700_000_000_123).to_bytes(8)
    (path / "checkpoint").write_bytes(data)
    assert not get_checkpoint(path).is_ours
    check_goes_on(tmp_path, sent, end)


def test_without_a_trace_of_others_they_are_torn(tmp_path: Path) -> None:
    path, sent, end = crashed_with_a_record_of_another(tmp_path)
    with open_store(tmp_path, CONFIG) as store:
        assert bodies(store) == sent[:5]
        assert store.recovered.cut != []
    assert len(list((path / "repair").iterdir())) == 1
    assert end > 0


# -- tools -----------------------------------------------------------------------------------------------------------


def test_verify_and_repair_see_what_an_opening_would_cut(tmp_path: Path) -> None:
    store = open_store(tmp_path, CONFIG)
    sent = fill(store, 5)
    store.checkpoint()
    last = store.append(Message("orders", b"torn"))
    store.abandon()
    put(tmp_path / "store", last.end - 20, bytes(20))
    assert verify(tmp_path / "store").damage.torn == 1
    assert [cut.position for cut in repair(tmp_path / "store").cut] == [last.position]
    with open_store(tmp_path, CONFIG) as store:
        assert bodies(store) == sent


def test_a_checked_log_is_read_by_tools_as_ever(tmp_path: Path) -> None:
    with open_store(tmp_path, CONFIG) as store:
        sent = fill(store, 5)
    found = [record.body for record in open_log(tmp_path / "store").records(topic="orders")]
    assert found == sent
    assert verify(tmp_path / "store").is_ok
