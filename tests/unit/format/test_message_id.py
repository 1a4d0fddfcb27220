"""Message ids."""

from __future__ import annotations

import pytest

from litemq.format import hosts, message_id


@pytest.mark.parametrize(
    ("text", "host", "position"),
    [
        ("0A00000500002A9F00000000000003E8", "10.0.0.5:10911", 1000),
        ("FE80000000000000000000000000000100002A9F00000000000003E8", "[fe80::1]:10911", 1000),
        ("7F000001000030390FFFFFFFFFFFFFFF", "127.0.0.1:12345", (1 << 60) - 1),
    ],
)
def test_offset_id(text: str, host: str, position: int) -> None:
    data = hosts.to_bytes(host)
    assert data is not None
    assert message_id.offset_id(data, position) == text
    assert message_id.parse_offset_id(text) == message_id.parse_offset_id(text.lower()) == (host, position)


@pytest.mark.parametrize(
    "text", ["", "0A", "0" * 31, "0" * 33, "0" * 34, "0" * 57, "G" * 32, " " * 32, "٠" * 32, "0x" * 16]
)
def test_what_is_no_offset_id(text: str) -> None:
    assert message_id.parse_offset_id(text) is None


def test_unique_id() -> None:
    made = message_id.unique_id(
        bytes([10, 0, 0, 1]), process_id=0x12345, loader_hash=0x14DAD5DC, month_ms=0x0102, counter=3
    )
    assert made == "0A000001234514DAD5DC000001020003"
    assert len(message_id.unique_id(bytes(16), process_id=1, loader_hash=-1, month_ms=1 << 40, counter=1 << 17)) == 56
    with pytest.raises(ValueError, match="4 or 16 bytes"):
        message_id.unique_id(b"", process_id=0, loader_hash=0, month_ms=0, counter=0)
