"""Bytes in RocketMQ's order, and runs of bytes: the plain twins of ``_byte_order.h``.

A kernel takes these names from the header when it is compiled, and from here when it is not.  The caller sees to it
that places lie within their buffers; C would not notice.
"""

from __future__ import annotations

import re

Buffer = bytes | bytearray
_SPECIAL = re.compile(rb'[\x00-\x1f"\\]')


def put16(p: bytearray, at: int, value: int) -> None:
    """Write the low 16 bits of ``value``."""
    p[at : at + 2] = (value & 0xFFFF).to_bytes(2, "big")


def put32(p: bytearray, at: int, value: int) -> None:
    """Write the low 32 bits of ``value``."""
    p[at : at + 4] = (value & 0xFFFFFFFF).to_bytes(4, "big")


def put64(p: bytearray, at: int, value: int) -> None:
    """Write the low 64 bits of ``value``."""
    p[at : at + 8] = (value & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")


def u16(p: Buffer, at: int) -> int:
    """Return the number in two bytes."""
    return int.from_bytes(p[at : at + 2], "big")


def u32(p: Buffer, at: int) -> int:
    """Return the number in four bytes."""
    return int.from_bytes(p[at : at + 4], "big")


def i32(p: Buffer, at: int) -> int:
    """Return the signed number in four bytes."""
    return int.from_bytes(p[at : at + 4], "big", signed=True)


def i64(p: Buffer, at: int) -> int:
    """Return the signed number in eight bytes."""
    return int.from_bytes(p[at : at + 8], "big", signed=True)


def copy(p: bytearray, at: int, other: Buffer, start: int, size: int) -> None:
    """Copy ``size`` bytes from ``other[start]`` to ``p[at]``."""
    p[at : at + size] = other[start : start + size]


def move(p: bytearray, at: int, start: int, size: int) -> None:
    """Copy ``size`` bytes from ``p[start]`` to ``p[at]``; the places may overlap."""
    p[at : at + size] = p[start : start + size]


def same(p: Buffer, at: int, other: Buffer, start: int, size: int) -> bool:
    """Return whether ``size`` bytes are the same in both places."""
    return p[at : at + size] == other[start : start + size]


def is_before(p: Buffer, at: int, size: int, other: Buffer, start: int, more: int) -> bool:
    """Return whether the one text sorts before the other; UTF-8 sorts as its code points do."""
    return p[at : at + size] < other[start : start + more]


def find(p: Buffer, at: int, end: int, byte: int) -> int:
    """Return the first place of a byte, ``end`` without one."""
    place = p.find(byte, at, end)
    return place if place >= 0 else end


def find_special(p: Buffer, at: int, end: int) -> int:
    """Return the first place of what a JSON string cannot hold as it is, ``end`` without one."""
    found = _SPECIAL.search(p, at, end)
    return found.start() if found else end


def put_decimal(p: bytearray, at: int, value: int) -> int:
    """Write a number as digits; return the place behind them."""
    digits = b"%d" % value
    p[at : at + len(digits)] = digits
    return at + len(digits)


def put_hex(p: bytearray, at: int, other: Buffer, start: int, size: int) -> int:
    """Write bytes as upper-case hex digits; return the place behind them."""
    p[at : at + 2 * size] = other[start : start + size].hex().upper().encode()
    return at + 2 * size
