"""RocketMQ's property text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.format import strategies as make

from litemq.format import properties


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", {}),
        (b"KEYS\x01k1 k2\x02TAGS\x01TagA\x02", {"KEYS": "k1 k2", "TAGS": "TagA"}),
        (b"a\x01b", {"a": "b"}),
        (b"a\x011\x02a\x012\x02", {"a": "2"}),
        (b"a\x01b\x01c\x02", {"a": "b\x01c"}),
        (b"\x01b\x02a\x01\x02c\x02\x02\x01\x02d\x01e", {"d": "e"}),
        (b"\xc3\xbc\x01\xff\xe4\x02x\x01\xe4\x02", {"ü": "��", "x": "�"}),
    ],
)
def test_lenient_reading(data: bytes, found: dict[str, str]) -> None:
    assert properties.parse(data) == found
    assert properties.parse(memoryview(data)) == found


def test_every_pair_is_ended() -> None:
    assert properties.write([("KEYS", "k1 k2"), ("ü", "v")]) == b"KEYS\x01k1 k2\x02\xc3\xbc\x01v\x02"
    assert properties.write([]) == b""


@given(make.plain_properties)
def test_round_trip(pairs: dict[str, str]) -> None:
    assert all(properties.can_hold(name, value) for name, value in pairs.items())
    assert properties.parse(properties.write(pairs.items())) == pairs


@pytest.mark.parametrize("pair", [("", "v"), ("n", ""), ("\x01", "v"), ("n\x02", "v"), ("n", "\x01"), ("n", "a\x02")])
def test_what_the_text_cannot_hold(pair: tuple[str, str]) -> None:
    assert not properties.can_hold(*pair)


@given(st.binary(max_size=60))
def test_any_bytes_are_read(data: bytes) -> None:
    for name, value in properties.parse(data).items():
        assert name
        assert value
        assert "\x02" not in name + value
