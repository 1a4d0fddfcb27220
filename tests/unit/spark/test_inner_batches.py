"""Topics of RocketMQ's type BatchCQ: one record holds several messages, and each of them is a row."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.support.spark_rows import Row, expected, read
from tests.support.store_files import StoreFiles
from tests.unit.store import walk_support

from litemq.format.inner_batch import DoesNotUnfold, unfold
from litemq.spark.errors import BadOption, CorruptInput
from litemq.store.log_walk import open_log
from litemq.types import Message

BATCH = 0xC0


def entry(body: bytes, properties: str = "", flag: int = 0) -> bytes:
    """Return a message as a client puts it into the body of a batch."""
    text = properties.encode()
    tail = struct.pack(">3i", 0, 0, flag) + struct.pack(">i", len(body)) + body + struct.pack(">h", len(text)) + text
    return struct.pack(">i", 4 + len(tail)) + tail


def batch(*bodies: bytes) -> Message:
    """Return an inner batch of messages with tags, keys and ids."""
    entries = [
        entry(body, f"TAGS\x01t{n}\x02KEYS\x01k{n} k\x02UNIQ_KEY\x01id{n}\x02a\x01b\x02", n)
        for n, body in enumerate(bodies)
    ]
    return Message("batches", b"".join(entries), sys_flag=BATCH, born_host="10.0.0.1:5")


@pytest.fixture
def store(tmp_path: Path) -> StoreFiles:
    """Three batches of three messages each in one queue, between others, and segments that are rolled."""
    found = StoreFiles(tmp_path, "rocketmq", segment_size=700)
    for number in range(3):
        found.add(Message("orders", b"plain %d" % number, born_host="10.0.0.1:5"))
        found.add(batch(b"%d a" % number, b"", b"%d c" % number), queue_offset=3 * number)
    found.queues.pop(("batches", 0))
    found.write()
    (tmp_path / "batchconsumequeue" / "batches" / "0").mkdir(parents=True)
    return found


def offsets(rows: list[Row]) -> list[int]:
    return [row["queue_offset"] for row in rows]


@pytest.mark.parametrize("size", [1, 300, 1 << 20])
def test_each_message_is_a_row(size: int, store: StoreFiles) -> None:
    rows = read(store.root, maxPartitionBytes=size)
    assert rows == expected(store.root)
    assert [row["body"] for row in rows][:4] == [b"plain 0", b"0 a", b"", b"0 c"]
    third = rows[3]
    assert (third["queue_offset"], third["tags"], third["all_keys"], third["message_id"]) == (
        2,
        "t2",
        ["k2", "k"],
        "id2",
    )
    assert (third["properties"], third["flag"], third["body_crc"]) == ([("a", "b")], 2, None)
    assert third["physical_offset"] == rows[1]["physical_offset"]
    assert third["size"] == len(entry(b"0 c", "TAGS\x01t2\x02KEYS\x01k2 k\x02UNIQ_KEY\x01id2\x02a\x01b\x02"))
    assert offsets(read(store.root, subscribe="batches", maxPartitionBytes=size, batchRows=2)) == list(range(9))


def test_choices_reach_into_batches(store: StoreFiles) -> None:
    some = {"startingOffsets": '{"batches": {"0": 2}}', "endingOffsets": '{"batches": {"0": 7}}'}
    assert offsets(read(store.root, subscribe="batches", **some)) == [2, 3, 4, 5, 6]
    assert offsets(read(store.root, keys="k1")) == [1, 4, 7]
    assert offsets(read(store.root, tags="t2,t0", subscribe="batches")) == [0, 2, 3, 5, 6, 8]
    time = store.puts[3].store_time
    assert offsets(read(store.root, subscribe="batches", startingTimestamp=time, endingTimestamp=time + 1)) == [3, 4, 5]
    assert offsets(read(store.root, assign='{"batches": [1]}')) == []
    with pytest.raises(BadOption, match="'batches', of RocketMQ's type BatchCQ"):
        read(store.root, subscribe="batches", startingOffsets="latest")


@pytest.mark.parametrize("body", [b"no entries", entry(b"x")[:-1], entry(b"x") + b"\0", b"\0\0\0\5" + entry(b"x")[4:]])
def test_a_batch_that_is_none_is_damage(body: bytes, tmp_path: Path) -> None:
    store = StoreFiles(tmp_path, "rocketmq")
    store.add(Message("batches", body, sys_flag=BATCH, born_host="10.0.0.1:5"))
    store.add(Message("orders", b"sound", born_host="10.0.0.1:5"))
    store.write()
    with pytest.raises(CorruptInput, match=r"position 0 .* inner batch: message .*onCorrupt"):
        read(tmp_path)
    assert [row["body"] for row in read(tmp_path, onCorrupt="skip")] == [b"sound"]
    assert read(tmp_path, onCorrupt="keep")[0]["physical_offset"] == 0
    assert list(read(tmp_path, onCorrupt="quarantine", quarantinePath=tmp_path / "aside"))
    assert (tmp_path / "aside" / f"{0:020d}").read_bytes() == store.puts[0].data
    [record, _] = open_log(tmp_path).records()
    with pytest.raises(DoesNotUnfold):
        unfold(record)


def test_one_flag_alone_makes_no_batch(tmp_path: Path) -> None:
    store = StoreFiles(tmp_path, "rocketmq")
    for flag in (0x40, 0x80):
        store.add(Message("orders", b"plain", sys_flag=flag, born_host="10.0.0.1:5"))
    store.write()
    assert [row["body"] for row in read(tmp_path)] == [b"plain", b"plain"]


def test_batches_of_a_real_rocketmq(tmp_path: Path) -> None:
    """As many rows as the broker says, with offsets that follow each other."""
    path = walk_support.unpack_rocketmq("clean", tmp_path)
    said = [one for one in walk_support.messages("clean") if one["topic"] == "Columnar"]
    wanted = []
    for one in said:
        pairs = one["properties"]
        assert isinstance(pairs, dict)
        first = int(pairs.get("INNER_BASE", str(one["queue_offset"])))
        wanted += [(one["queue_id"], first + n) for n in range(int(pairs.get("INNER_NUM", "1")))]
    rows = read(path, subscribe="Columnar", maxPartitionBytes=2000)
    assert [(row["queue_id"], row["queue_offset"]) for row in rows] == wanted
    assert len(wanted) > len(said)
    assert [row["body"] for row in rows[:5]] == [b"col 0/%d" % number for number in range(5)]
