"""Hosts: ``ip:port`` text and the bytes that RocketMQ stores.

    IPv4   8 bytes   4 address, i32 port      10.0.0.5:10911
    IPv6  20 bytes  16 address, i32 port      [fe80::1]:10911

The text of an address is one for each value (RFC 5952, never the mixed notation, whatever the Python version does),
so ``to_text`` and ``to_bytes`` are inverse; text in any other shape is no host to ``to_bytes``.
"""

from __future__ import annotations

import struct
from typing import Final

_PORT = struct.Struct(">i")
_GROUPS = struct.Struct(">8H")
IPV4_SIZE: Final = 8
IPV6_SIZE: Final = 20


def to_text(data: bytes | memoryview) -> str:
    """Return the text of a stored host of 8 or 20 bytes.  The port is shown as stored, out of range or not."""
    (port,) = _PORT.unpack_from(data, len(data) - 4)
    if len(data) == IPV4_SIZE:
        return f"{data[0]}.{data[1]}.{data[2]}.{data[3]}:{port}"
    return f"[{_ipv6_text(_GROUPS.unpack_from(data))}]:{port}"


def to_bytes(text: str) -> bytes | None:
    """Return the 8 or 20 bytes of ``ip:port``; None when ``text`` is not what ``to_text`` would write."""
    host, separator, digits = text.rpartition(":")
    port = _port(digits)
    if not separator or port is None:
        return None
    address = _ipv6_bytes(host[1:-1]) if host.startswith("[") and host.endswith("]") else _ipv4_bytes(host)
    return None if address is None else address + _PORT.pack(port)


def is_ipv6(text: str) -> bool:
    """Return whether ``text`` is a host with an IPv6 address: what the sys flag's host bits say."""
    return text.startswith("[") and to_bytes(text) is not None


def _port(digits: str) -> int | None:
    if not digits.isascii() or not digits.removeprefix("-").isdigit() or len(digits) > 11:
        return None
    port = int(digits)
    return port if str(port) == digits and -0x80000000 <= port <= 0x7FFFFFFF else None


def _ipv4_bytes(text: str) -> bytes | None:
    parts = text.split(".")
    if len(parts) != 4 or not all(part.isascii() and part.isdigit() and len(part) <= 3 for part in parts):
        return None
    values = [int(part) for part in parts]
    if max(values) > 255 or ".".join(map(str, values)) != text:
        return None
    return bytes(values)


def _ipv6_text(groups: tuple[int, ...]) -> str:
    """Write lower-case groups; the first longest run of two or more zero groups becomes ``::``."""
    best, best_size = 0, 1
    start = 0
    for i, group in enumerate((*groups, 1)):
        if group != 0:
            if i - start > best_size:
                best, best_size = start, i - start
            start = i + 1
    if best_size < 2:
        return ":".join(f"{group:x}" for group in groups)
    head = ":".join(f"{group:x}" for group in groups[:best])
    tail = ":".join(f"{group:x}" for group in groups[best + best_size :])
    return f"{head}::{tail}"


def _ipv6_bytes(text: str) -> bytes | None:
    if len(text) > 39:
        return None
    head, gap, tail = text.partition("::")
    left = head.split(":") if head else []
    right = tail.split(":") if tail else []
    missing = 8 - len(left) - len(right)
    if missing < 0 or (missing > 0) != bool(gap):
        return None
    parts = [*left, *["0"] * missing, *right]
    if not all(part.isascii() and part.isalnum() and len(part) <= 4 for part in parts):
        return None
    try:
        groups = tuple(int(part, 16) for part in parts)
    except ValueError:
        return None
    return _GROUPS.pack(*groups) if _ipv6_text(groups) == text else None
