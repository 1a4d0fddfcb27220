"""Entries of ConsumeQueues, of tmq's index and of BatchConsumeQueues."""

from __future__ import annotations

import pytest
from tests.unit.format import fixtures

from litemq.format import queue_entry
from litemq.format.queue_entry import LAYOUTS, BatchEntry, QueueEntry, TmqEntry
from litemq.format.record import FORMATS

ROCKETMQ = bytes.fromhex("00000000000003e8 00000076 000000000027a807".replace(" ", ""))
NEGATIVE = bytes.fromhex("00000000000003e8 00000076 ffffffff80000000".replace(" ", ""))
LITEMQ = bytes.fromhex("00000000000003e8 00000076 80000000 0000018bcfe5687b".replace(" ", ""))
TMQ = bytes.fromhex("00000001 00000056 0000000000000225 00000079 00000000".replace(" ", ""))
BATCH = bytes.fromhex(
    "00000000000003e8 00000076 000000000027a807 0000018bcfe5687b 0000000000000009 0002 ffffffff 00000000".replace(
        " ", ""
    )
)


def test_rocketmq() -> None:
    for data, entry in ((ROCKETMQ, QueueEntry(1000, 118, 2598919)), (NEGATIVE, QueueEntry(1000, 118, -(1 << 31)))):
        assert queue_entry.encode_rocketmq(entry) == data
        assert queue_entry.decode_rocketmq(b"x" + data, 1) == entry
    assert queue_entry.ROCKETMQ_ENTRY_SIZE == 20


def test_litemq() -> None:
    entry = QueueEntry(1000, 118, 1 << 31, 1_700_000_000_123)
    assert queue_entry.encode_litemq(entry) == queue_entry.encode_litemq(entry._replace(tag_hash=-(1 << 31))) == LITEMQ
    assert queue_entry.decode_litemq(LITEMQ) == entry
    assert queue_entry.LITEMQ_ENTRY_SIZE == 24


def test_tmq() -> None:
    entry = TmqEntry(segment=1, place=86, end=549, size=121)
    assert queue_entry.encode_tmq(entry) == TMQ
    assert queue_entry.decode_tmq(TMQ) == entry
    assert queue_entry.TMQ_ENTRY_SIZE == 24


def test_batch() -> None:
    entry = BatchEntry(1000, 118, 2598919, 1_700_000_000_123, base_offset=9, messages=2)
    assert queue_entry.encode_batch(entry) == BATCH
    assert queue_entry.decode_batch(BATCH) == entry
    assert queue_entry.BATCH_ENTRY_SIZE == 46


@pytest.mark.parametrize(
    ("entry", "written", "before"),
    [
        (QueueEntry(0, 0, 0), False, False),
        (QueueEntry(0, 1, 0), True, False),
        (QueueEntry(-1, 5, 0), False, False),
        (QueueEntry(5, -1, 0), False, False),
        (QueueEntry(0, 0x7FFFFFFF, 0), True, True),
    ],
)
def test_what_an_entry_says_of_itself(entry: QueueEntry, written: bool, before: bool) -> None:
    assert entry.is_written == written
    assert entry.is_before_start == before


def test_layouts_go_with_the_formats() -> None:
    for name, layout in LAYOUTS.items():
        assert layout.size == FORMATS[name].queue_entry_size
        entry = QueueEntry(1, 2, 3, 4 if name == "litemq" else None)
        assert layout.decode(layout.encode(entry), 0) == entry
    assert FORMATS["tmq"].queue_entry_size == 24


def test_entries_of_a_real_rocketmq() -> None:
    store = fixtures.rocketmq("clean")
    records = {int(record.position): record for record in store.records()}
    seen = 0
    for path, data in store.below("consumequeue").items():
        if "SCHEDULE_TOPIC" in path:
            continue
        for at in range(0, len(data), 20):
            entry = queue_entry.decode_rocketmq(data, at)
            if entry.is_written:
                assert records[entry.position].size == entry.size
                assert queue_entry.encode_rocketmq(entry) == data[at : at + 20]
                seen += 1
    assert seen > 400


def test_batch_units_of_a_real_rocketmq() -> None:
    store = fixtures.rocketmq("clean")
    records = {int(record.position): record for record in store.records()}
    (data,) = store.below("batchconsumequeue").values()
    units = [queue_entry.decode_batch(data, at) for at in range(0, len(data) - 45, 46)]
    units = [unit for unit in units if unit.size > 0]
    assert units
    next_offset = 0
    for unit in units:
        record = records[unit.position]
        assert (unit.size, unit.store_time, unit.base_offset) == (record.size, record.store_time, next_offset)
        assert unit.compacted == -1
        next_offset += unit.messages
    assert next_offset == 19
