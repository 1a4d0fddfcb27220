"""Bytes of records about receipts."""

from __future__ import annotations

import pytest

from litemq.format.pop_records import Kind, PopEntry, decode, encode

ACK = bytes.fromhex(
    "01"  # version
    "02"  # acknowledged
    "0001 67"  # g
    "0003 e4b8bb"  # 主
    "00000004"  # queue
    "00000002"  # two numbers
    "0000000000000007 0000018bcfe56800"
)
ENTRY = PopEntry(Kind.ACKNOWLEDGED, "g", "主", 4, (7, 1_700_000_000_000))


def test_golden_bytes() -> None:
    assert encode([ENTRY]) == ACK
    assert list(decode(ACK)) == [ENTRY]


def test_entries_come_back() -> None:
    entries = [PopEntry(kind, "g" * kind, "t", 3, tuple(range(kind))) for kind in Kind]
    assert list(decode(encode(entries))) == entries


def test_another_version_says_nothing() -> None:
    assert list(decode(b"")) == []
    assert list(decode(b"\x02" + ACK[1:])) == []


def test_every_prefix_is_noticed() -> None:
    for size in range(2, len(ACK)):
        with pytest.raises(ValueError, match=r"does not end|decode"):
            list(decode(ACK[:size]))
