"""The key index file: golden bytes, hashes, chains, and how many slots a file has."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.format import fixtures

from litemq.format import index_file
from litemq.format.index_file import IndexEntry, IndexHeader, Read

T0 = 1_700_000_000_123

GOLDEN = bytes.fromhex(
    """
    0000018bcfe5687b0000018bcfe5874000000000
    000003e800000000000004d40000000200000005
    0000000000000000000000000000000400000000
    0000000300000000000000000000000000000000
    0000000000000000000000000000000000000000
    0026bd0b00000000000003e80000000000000000
    0026bfb500000000000003e80000000000000000
    0026bfb5000000000000045e0000000700000002
    609a4b7100000000000004d40000000700000001
    """
).ljust(480, b"\0")
"""10 slots, 20 entries; from RocketMQ's own index class."""


def reader(data: bytes) -> Read:
    return lambda size, at: data[at : at + size]


class Model:
    """An index file built step by step as the format page says."""

    def __init__(self, slots: int, entries: int) -> None:
        self.data = bytearray(index_file.file_size(slots, entries))
        self.header = IndexHeader()
        self.slots = slots

    def put(self, text: str, position: int, store_time: int) -> None:
        header = self.header
        found = index_file.key_hash(text)
        at = index_file.slot_at(found % self.slots)
        previous = index_file.decode_slot(self.data, at)
        if header.next_number == 1:
            header = header._replace(begin_time=store_time, begin_position=position)
        seconds = (store_time - header.begin_time) // 1000
        entry = index_file.encode_entry(IndexEntry(found, position, seconds, previous))
        place = index_file.entry_at(header.next_number, self.slots)
        self.data[place : place + len(entry)] = entry
        self.data[at : at + 4] = index_file.encode_slot(header.next_number)
        self.header = header._replace(
            end_time=store_time,
            end_position=position,
            slots_used=header.slots_used + (previous == 0),
            next_number=header.next_number + 1,
        )
        self.data[:40] = index_file.encode_header(self.header)


def test_golden_bytes() -> None:
    model = Model(10, 20)
    model.put("T#U1", 1000, T0)
    model.put("T#k1", 1000, T0)
    model.put("T#k1", 1118, T0 + 7876)
    model.put("T#polygenelubricants", 1236, T0 + 7877)
    assert bytes(model.data).hex() == GOLDEN.hex()
    assert index_file.decode_header(GOLDEN) == IndexHeader(T0, T0 + 7877, 1000, 1236, 2, 5)
    assert index_file.decode_entry(GOLDEN, index_file.entry_at(3, 10)) == IndexEntry(2539445, 1118, 7, 2)
    assert index_file.slot_count(480, index_file.decode_header(GOLDEN), reader(GOLDEN)) == 10


def test_sizes() -> None:
    assert index_file.file_size(index_file.DEFAULT_SLOTS, index_file.DEFAULT_ENTRIES) == 420_000_040
    assert index_file.entry_count(480, 10) == 20
    assert index_file.entry_count(0, 10) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [("T#k1", 2539445), ("T#中", 101822), ("😀", 1772899), ("polygenelubricants", 0), ("", 0), ("TagA", 2598919)],
)
def test_hashes(text: str, expected: int) -> None:
    assert index_file.key_hash(text) == expected


def test_hash_is_made_positive() -> None:
    assert index_file.key_text("T", "k#1") == "T#k#1"
    assert index_file.key_hash("T#polygenelubricants") == 0x609A4B71
    assert all(0 <= index_file.key_hash(f"topic#{n}") < 1 << 31 for n in range(1000))


def test_a_count_below_one_reads_as_one() -> None:
    assert index_file.decode_header(bytes(40)).next_number == 1
    assert index_file.decode_header(bytes(36) + b"\xff\xff\xff\xff").next_number == 1


def found(data: bytes, slots: int, text: str) -> list[int]:
    wanted = index_file.key_hash(text)
    chain = index_file.chain(reader(data), index_file.decode_header(data), slots, wanted)
    return [entry.position for _, entry in chain if entry.hash == wanted]


def test_chain_goes_from_new_to_old() -> None:
    assert found(GOLDEN, 10, "T#k1") == [1118, 1000]
    assert found(GOLDEN, 10, "T#U1") == [1000]
    assert found(GOLDEN, 10, "T#other") == []


def test_a_chain_that_goes_round_ends() -> None:
    data = bytearray(GOLDEN)
    place = index_file.entry_at(2, 10) + 16
    for previous in (2, 3, 4, 1 << 30, -5):
        data[place : place + 4] = index_file.encode_slot(previous)
        assert found(bytes(data), 10, "T#k1") == [1118, 1000]


def test_a_cut_file_ends_its_chains() -> None:
    for size in range(40, 180, 7):
        assert len(found(GOLDEN[:size], 10, "T#k1")) <= 2


# ── how many slots ──


@given(st.integers(1, 60), st.integers(2, 80), st.integers(0, 2**32), st.data())
def test_slot_count_is_found(slots: int, entries: int, seed: int, data: st.DataObject) -> None:
    model = Model(slots, entries)
    rnd = random.Random(seed)
    for number in range(data.draw(st.integers(1, entries - 1))):
        model.put(f"topic{rnd.randrange(3)}#key{rnd.randrange(1000)}", number * 100, T0 + number * 1500)
    assert index_file.slot_count(len(model.data), model.header, reader(bytes(model.data))) == slots


def test_an_entry_of_zeros_is_believed_when_nothing_else_fits() -> None:
    model = Model(10, 20)
    model.put("polygenelubricants", 0, T0)
    slots = index_file.slot_count(480, model.header, reader(bytes(model.data)))
    assert slots, "any number leads to the same zeros"
    assert found(bytes(model.data), slots, "polygenelubricants") == [0]


def test_slot_count_of_real_files() -> None:
    for name in ("clean", "killed"):
        store = fixtures.rocketmq(name)
        for data in store.below("index").values():
            header = index_file.decode_header(data)
            assert index_file.slot_count(len(data), header, reader(data)) == store.meta["index_slots"]
    for name in ("litemq", "blueprint"):
        (path,) = (fixtures.ROOT / name / "store" / "index").iterdir()
        data = path.read_bytes()
        assert index_file.slot_count(len(data), index_file.decode_header(data), reader(data)) == 20


def test_keys_of_a_real_index_lead_to_their_records() -> None:
    store = fixtures.rocketmq("clean")
    files = list(store.below("index").values())
    positions = store.meta["index"]
    assert isinstance(positions, dict)
    for text, expected in positions.items():
        hits = [position for data in reversed(files) for position in found(data, 500, text)]
        assert set(expected) <= set(hits)


def test_slot_count_where_there_is_none() -> None:
    header = index_file.decode_header(GOLDEN)
    assert index_file.slot_count(index_file.file_size(5_000_000, 20_000_000), header, reader(b"")) == 5_000_000
    assert index_file.slot_count(480, IndexHeader(), reader(GOLDEN)) == 0
    for size in (0, 39, 40, 41, 43, 60):
        assert index_file.slot_count(size, header, reader(GOLDEN)) is None
    assert index_file.slot_count(480, header, reader(bytes(480))) is None, "no slot is used"
    data = bytearray(GOLDEN)
    data[index_file.entry_at(4, 10)] ^= 0x40
    data[index_file.entry_at(3, 10)] ^= 0x40
    assert index_file.slot_count(480, header, reader(bytes(data))) is None
    assert index_file.slot_count(480, header, reader(GOLDEN[:90])) is None


def test_slot_count_of_a_large_sparse_file_is_quick() -> None:
    """Zeros are passed over in windows, and only numbers of slots that the size allows are tried."""
    model = Model(200_000, 300_000)
    for number in range(50):
        model.put(f"t#{number}", number, T0)
    assert index_file.slot_count(len(model.data), model.header, reader(bytes(model.data))) == 200_000


@given(st.binary(min_size=40, max_size=400))
def test_any_bytes_are_answered(data: bytes) -> None:
    header = index_file.decode_header(data)
    answer = index_file.slot_count(len(data), header, reader(data))
    assert answer is None or answer >= 0
    for slots in (1, 3, answer or 1):
        assert len(list(index_file.chain(reader(data), header, slots, 7))) <= len(data)
