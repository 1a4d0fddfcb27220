"""Torn, corrupt, unchecked and the end of a log stay four different things, and nothing damaged is ever *ok*."""

from __future__ import annotations

import zlib

import pytest
from tests.unit.format import golden
from tests.unit.format.golden import Golden

from litemq.errors import CorruptRecord, TornRecord
from litemq.format import _scan_cy, rows
from litemq.format.placement import Placement
from litemq.format.record import FORMATS, ROCKETMQ, decode
from litemq.types import LogPosition, Message, QueueOffset, Record

EACH = pytest.mark.parametrize("record", golden.ALL, ids=lambda record: f"{record.format}-{len(record.data)}")


def outcome(data: bytes, record: Golden, name: str | None = None) -> str:
    """Say what decoding comes to: end, torn, corrupt, or the record's check."""
    try:
        found = decode(data, record.place.position, name)
    except TornRecord:
        return "torn"
    except CorruptRecord:
        return "corrupt"
    return "end" if found is None else found.check


@EACH
@pytest.mark.parametrize("named", [True, False])
def test_every_proper_prefix_is_torn(record: Golden, named: bool) -> None:
    name = record.format if named else None
    for size in range(len(record.data)):
        # One to three zero bytes cannot be told from unwritten space.
        expected = "torn" if size > 3 or any(record.data[:size]) else "end"
        assert outcome(record.data[:size], record, name) == expected, size


@EACH
def test_zeros_behind_a_prefix_are_never_ok(record: Golden) -> None:
    """A page that never reached the disk; what has no checksum over it (all of tmq) may go unnoticed."""
    for size in range(4, len(record.data)):
        data = record.data[:size].ljust(len(record.data), b"\0")
        if data == record.data or record.format == "tmq" or (record.format != "litemq" and size > body_end(record)):
            continue
        assert outcome(data, record) in ("torn", "corrupt"), size


def body_end(record: Golden) -> int:
    return record.data.index(b"hello") + 5


@pytest.mark.parametrize("record", [golden.LITEMQ, golden.LITEMQ_SMALLEST], ids=["full", "smallest"])
def test_every_flipped_bit_of_a_litemq_record_is_caught(record: Golden) -> None:
    name_at = record.data.index(b"__CRC32C")
    for bit in range(8 * len(record.data)):
        data = bytearray(record.data)
        data[bit // 8] ^= 1 << bit % 8
        allowed = {"torn", "corrupt"}
        if name_at - 2 <= bit // 8 < name_at + 18:
            allowed.add("unchecked")  # the name itself was hit: then it is an older writer's record
        assert outcome(bytes(data), record, "litemq") in allowed, bit


@pytest.mark.parametrize(
    "record", [golden.ROCKETMQ, golden.ROCKETMQ_IPV6, golden.BLUEPRINT], ids=["v1", "v6", "blueprint"]
)
def test_every_flipped_bit_of_a_checked_body_is_caught(record: Golden) -> None:
    start = record.data.index(b"hello")
    for bit in range(8 * start, 8 * (start + 5)):
        data = bytearray(record.data)
        data[bit // 8] ^= 1 << bit % 8
        assert outcome(bytes(data), record, record.format) == "corrupt", bit


def test_every_flipped_bit_of_a_rocketmq_record_with_checksum_is_caught() -> None:
    record = golden.ROCKETMQ_CHECKED
    for bit in range(8 * len(record)):
        data = bytearray(record)
        data[bit // 8] ^= 1 << bit % 8
        found = outcome(bytes(data), golden.ROCKETMQ, "rocketmq")
        if bit // 8 >= len(record) - 20 and found == "ok":
            assert (bit // 8 - len(record)) not in range(-11, -1), "a digit"
        elif found == "ok":
            raise AssertionError(bit)


# ── where every record has a checksum ──


def found_where_all_are_checked(code: int, data: bytes) -> int:
    """Say what the scan comes to where a record must have a checksum of the whole of it: 0, or why it stopped."""
    count, _, why = _scan_cy.scan(code, data, 0, len(data), 1000, rows.table(2), checked_from=1000)
    return 0 if count else why


CHECKED = pytest.mark.parametrize(
    ("code", "record"),
    [(_scan_cy.LITEMQ, golden.LITEMQ.data), (_scan_cy.ROCKETMQ, golden.ROCKETMQ_CHECKED)],
    ids=["litemq", "rocketmq"],
)


@CHECKED
def test_a_record_with_its_checksum_is_sound(code: int, record: bytes) -> None:
    assert found_where_all_are_checked(code, record) == 0


@CHECKED
def test_every_flipped_bit_of_it_is_caught(code: int, record: bytes) -> None:
    for bit in range(8 * len(record)):
        data = bytearray(record)
        data[bit // 8] ^= 1 << bit % 8
        assert found_where_all_are_checked(code, bytes(data)), bit


@CHECKED
def test_zeros_in_any_part_of_it_are_caught(code: int, record: bytes) -> None:
    """Pages that never reached the disk, whichever they are: also those with the checksum itself."""
    for start in range(len(record)):
        for end in range(start + 1, len(record) + 1):
            data = record[:start] + bytes(end - start) + record[end:]
            assert data == record or found_where_all_are_checked(code, data), (start, end)


def test_a_record_without_a_checksum_counts_only_before_that() -> None:
    for code, data in (
        (_scan_cy.LITEMQ, unchecked(golden.LITEMQ.data)),
        (_scan_cy.ROCKETMQ, golden.ROCKETMQ.data),
        (_scan_cy.ROCKETMQ, golden.ROCKETMQ_V2.data),
    ):
        assert found_where_all_are_checked(code, data) == rows.NO_CHECKSUM
        assert _scan_cy.scan(code, data, 0, len(data), 1000, rows.table(1), checked_from=1001)[0] == 1
        assert _scan_cy.scan(code, data, 0, len(data), 1000, rows.table(1))[0] == 1


@pytest.mark.parametrize("position", [(1 << 62) - 1, 1 << 62, (1 << 63) - 1])
def test_no_position_is_too_far_for_a_record_without_a_checksum(position: int) -> None:
    for name in ("litemq", "rocketmq"):
        data = FORMATS[name].write(Message("t", b"x"), Placement(LogPosition(position), QueueOffset(0)))
        data = unchecked(data) if name == "litemq" else data
        assert decode(data, position) is not None


# ── each reason, by one byte ──


def changed(record: Golden, old: str, new: str) -> bytes:
    """Return the record with one hex pattern replaced by another of the same length."""
    before, after = bytes.fromhex(old), bytes.fromhex(new)
    assert record.data.count(before) == 1, old
    return record.data.replace(before, after)


def unchecked(data: bytes) -> bytes:
    return data.replace(b"__CRC32C", b"__CRC32D")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (changed(golden.LITEMQ, "4c4d5101", "4c4d5102"), "wrong magic"),
        (bytes.fromhex("00000010") + golden.LITEMQ.data[4:], "too small"),
        (changed(golden.LITEMQ, "000354c3a9", "000354c328"), "not UTF-8"),
        (changed(golden.LITEMQ, "68656c6c6f", "68656c6c6e"), "wrong checksum"),
        (unchecked(changed(golden.LITEMQ, "0000000568656c6c6f", "ff00000568656c6c6f")), "do not add up"),
        (unchecked(changed(golden.LITEMQ, "68656c6c6f040702", "68656c6c6f050702")), "out of range"),
        (unchecked(changed(golden.LITEMQ, "68656c6c6f040702", "68656c6c6f040704")), "out of range"),
        (unchecked(changed(golden.LITEMQ, "0002747802", "0002747804")), "out of range"),
        (unchecked(changed(golden.LITEMQ, "000173010000", "000173020000")), "out of range"),
        (unchecked(changed(golden.LITEMQ, "000003e8000000f5", "000003e8000000f6")), "do not add up"),
        (unchecked(changed(golden.LITEMQ, "00000000000003e8", "00000000000003e9")), "log offset"),
        (golden.LITEMQ.data.replace(b"7281c26b", b"7281C26B"), "eight lower-case hex digits"),
        (changed(golden.LITEMQ, "4333324300083732383163323662", "4333324300073732383163323662"), "hex digits"),
    ],
)
def test_reasons_of_litemq(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptRecord, match=reason) as caught:
        decode(data, 1000)
    assert caught.value.position == 1000


def test_a_litemq_record_without_checksum_is_unchecked() -> None:
    found = decode(unchecked(golden.LITEMQ.data), 1000)
    assert isinstance(found, Record)
    assert found.check == "unchecked"
    assert found.properties["__CRC32D"] == "7281c26b"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (changed(golden.ROCKETMQ, "3610a686", "3610a687"), "wrong checksum"),
        (changed(golden.ROCKETMQ, "3610a686", "b610a686"), "wrong checksum"),
        (changed(golden.ROCKETMQ, "0000000568656c6c6f", "0000000668656c6c6f"), "do not add up"),
        (changed(golden.ROCKETMQ, "6f015400154b", "6f80540015 4b"), "do not add up"),
        (changed(golden.ROCKETMQ, "6f015400154b", "6f01ff00154b"), "not UTF-8"),
        (changed(golden.ROCKETMQ, "00000000000003e8", "00000000000003e7"), "log offset"),
        (changed(golden.ROCKETMQ, "03e80000000000", "03e80000001000"), "do not add up"),
        (changed(golden.BLUEPRINT, "0354c3a9", "0354c328"), "not UTF-8"),
        (changed(golden.BLUEPRINT, "7a01c3bc02", "7a01c37c02"), "not UTF-8"),
        (changed(golden.BLUEPRINT, "002b5441", "002a5441"), "do not add up"),
        (changed(golden.BLUEPRINT, "00000000000003e8", "00000000000003e9"), "log offset"),
        (changed(golden.TMQ, "00026d31", "ff026d31"), "do not add up"),
        (changed(golden.TMQ, "6d31", "ff31"), "not UTF-8"),
        (changed(golden.TMQ, "0000000354c3a9", "0000000354c328"), "not UTF-8"),
    ],
)
def test_reasons_of_the_others(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptRecord, match=reason):
        decode(data, 1000)


def test_wrong_utf8_in_rocketmq_properties_is_replaced() -> None:
    found = decode(golden.ROCKETMQ.data.replace(b"TagA", b"Ta\xffA"), 1000)
    assert found is not None
    assert found.tags == ("Ta�A",)


# ── ends ──


@pytest.mark.parametrize("name", [None, *FORMATS])
def test_zeros_and_nothing_are_the_end(name: str | None) -> None:
    for data in (b"", b"\0", b"\0\0\0", bytes(4), bytes(100), b"\0\0\0\0rest"):
        assert decode(data, 0, name) is None


def test_fillers_are_the_end() -> None:
    assert decode(b"\xff\xff\xff\xff" + bytes(50), 0, "litemq") is None
    blank = bytes.fromhex("00000064cbd43194")
    assert decode(blank + bytes(92), 0, "rocketmq") is None
    assert decode(blank, 0) is None, "a filler tells the format too"
    assert ROCKETMQ.magic == 0xDAA320A7


def test_an_unknown_magic_without_a_format_is_corrupt() -> None:
    with pytest.raises(CorruptRecord, match="wrong magic"):
        decode(b"\0\0\0\x08nope", 0)


# ── bodies ──


def compressed(sys_flag: int, body: bytes) -> bytes:
    """Return the blueprint record of ``golden`` with another sys flag and body."""
    data = golden.BLUEPRINT.data.replace(bytes.fromhex("3610a686"), zlib.crc32(body).to_bytes(4))
    data = data.replace(bytes.fromhex("03e800000008"), bytes.fromhex("03e8") + sys_flag.to_bytes(4))
    data = data.replace(b"\0\0\0\x05hello", len(body).to_bytes(4) + body)
    return len(data).to_bytes(4) + data[4:]


def test_a_body_that_does_not_decompress_is_corrupt() -> None:
    sound = decode(compressed(0x301, zlib.compress(b"hello")), 1000)
    assert sound is not None
    assert (sound.body, sound.compression, len(sound.stored_body)) == (b"hello", "zlib", 13)
    for flag, body in ((0x301, b"hello"), (0x301, zlib.compress(b"hello") + b"x"), (0x401, b"hello")):
        with pytest.raises(CorruptRecord, match="does not decompress") as caught:
            decode(compressed(flag, body), 1000)
        assert caught.value.position == 1000


def test_the_scan_stops_where_a_body_is_compressed() -> None:
    data = golden.ROCKETMQ.data
    view = memoryview(compressed(0x301, zlib.compress(b"hello")) + data)
    table = rows.table(4)
    count, at, why = _scan_cy.scan(_scan_cy.BLUEPRINT, view, 0, len(view), 1000, table, True)
    assert (count, at, why) == (1, len(view) - len(data), rows.COMPRESSED)
