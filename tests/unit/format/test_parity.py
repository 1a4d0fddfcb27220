"""Compiled kernels and their plain twins give the same answers and the same bytes, on sound and on hostile input."""

from __future__ import annotations

import random
from array import array
from functools import partial
from types import ModuleType

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.format import golden, hostile
from tests.unit.format import strategies as make

from litemq import _plain
from litemq.format import _encode_cy, _scan_cy, _text_cy, rows
from litemq.format.placement import Placement
from litemq.types import Message

TEXT = _plain.load_plain("litemq.format._text_cy")
SCAN = _plain.load_plain("litemq.format._scan_cy")
ENCODE = _plain.load_plain("litemq.format._encode_cy")
PLAIN_MESSAGE = _plain.load_plain("litemq._message_cy")


def test_the_twins_are_plain() -> None:
    for twin in (TEXT, SCAN, ENCODE):
        assert not twin.is_compiled()
        assert str(twin.__file__).endswith(".py")


def java_hash(text: str) -> int:
    """Return Java's hash the slow way, from UTF-16 units."""
    value = 0
    units = text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        value = (value * 31 + int.from_bytes(units[at : at + 2])) & 0xFFFFFFFF
    return value


@given(st.text())
def test_java_hash(text: str) -> None:
    assert _text_cy.java_hash(text) == TEXT.java_hash(text) == java_hash(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("TagA", 2598919), ("T#k1", 2539445), ("T#中", 101822), ("😀", 1772899), ("polygenelubricants", 1 << 31), ("", 0)],
)
def test_java_hash_of_golden_texts(text: str, value: int) -> None:
    assert _text_cy.java_hash(text) == TEXT.java_hash(text) == value


@given(st.binary(max_size=300), st.integers(0, (1 << 32) - 1))
def test_crc32c(data: bytes, start: int) -> None:
    assert _text_cy.crc32c(data) == TEXT.crc32c(data) == google_crc32c.value(data)
    assert _text_cy.crc32c(data, start) == TEXT.crc32c(data, start)
    assert _text_cy.crc32c(data[7:], _text_cy.crc32c(data[:7])) == _text_cy.crc32c(data)


def test_crc32c_of_long_and_crooked_buffers() -> None:
    data = random.Random(1).randbytes(100_003)
    for start in range(9):
        for end in (start, start + 1, start + 255, start + 4099, len(data)):
            assert _text_cy.crc32c(data[start:end]) == google_crc32c.value(data[start:end])


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(st.binary(max_size=12) | st.text().map(str.encode))
def test_utf8(data: bytes) -> None:
    assert _text_cy.is_valid_utf8(data) == TEXT.is_valid_utf8(data) == is_utf8(data)


def test_utf8_of_every_start() -> None:
    """All pairs of first bytes, with every kind of byte behind them, cut at every length."""
    tails = [b"", b"\x80", b"\xbf", b"\x7f", b"\xc0", b"\x80\x80", b"\x80\x7f", b"\xbf\xbf"]
    for first in range(0x70, 0x100):
        for second in (0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF):
            for tail in tails:
                data = bytes((first, second)) + tail
                assert _text_cy.is_valid_utf8(data) == is_utf8(data), data.hex()


def scan(
    module: ModuleType, code: int, data: bytes, *, base: int, count: int, magic: int, checked_from: int
) -> tuple[object, array[int]]:
    table = rows.table(count)
    answer = module.scan(code, memoryview(data), 0, len(data), base, table, False, magic, checked_from)
    # Rows behind the last whole one are scratch space.
    return answer, table[: answer[0] * rows.WIDTH]


def assert_same_scan(code: int, data: bytes, *, base: int = 1000, count: int = 3, magic: int = -1) -> None:
    for checked_from in (rows.NEVER, base + 1, 0):
        of = partial(scan, code=code, data=data, base=base, count=count, magic=magic, checked_from=checked_from)
        assert of(_scan_cy) == of(SCAN), data.hex()


@pytest.mark.parametrize("code", range(4))
def test_scan_of_golden_records_and_prefixes(code: int) -> None:
    for record in golden.ALL:
        for size in range(len(record.data) + 1):
            assert_same_scan(code, record.data[:size])
        assert_same_scan(code, record.data * 3 + bytes(3))


def test_scan_of_mutated_records() -> None:
    rnd = random.Random(20261118)
    for code, data in hostile.cases(rnd, 6000):
        assert_same_scan(code, data, magic=rnd.choice((-1, 0x544D5101)))


@given(st.integers(0, 3), st.binary(max_size=200))
def test_scan_of_random_bytes(code: int, data: bytes) -> None:
    assert_same_scan(code, data)


@given(make.messages(texts=make.any_text), make.placements, st.sampled_from([0, 1]), st.booleans())
def test_encode(message: Message, place: Placement, code: int, checked: bool) -> None:
    plain = PLAIN_MESSAGE.Message(**{name: getattr(message, name) for name in Message.__slots__})

    def encoded(module: ModuleType, of: object) -> object:
        return module.encode(
            code,
            of,
            position=place.position,
            queue_offset=place.queue_offset,
            store_time=place.store_time,
            store_host=place.store_host,
            checked=checked,
        )

    assert encoded(_encode_cy, message) == encoded(ENCODE, plain)
