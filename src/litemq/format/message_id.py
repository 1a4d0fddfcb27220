"""Message ids: RocketMQ's offset id, and ids that LiteMQ's clients make.

    offset id   store host 8 or 20 bytes (``hosts``), i64 position      32 or 56 upper-case hex digits
    unique id   address 4 or 16, process id low 2, loader hash 4, ms since the start of the month 4, counter 2
                                                                        32 or 56 upper-case hex digits

A gRPC client's unique id has 34 digits; anything may stand in ``UNIQ_KEY``, so ids are compared, never trusted.
"""

from __future__ import annotations

import string
import struct

from litemq.format import hosts
from litemq.types import LogPosition

_I64 = struct.Struct(">q")
_UNIQUE = struct.Struct(">HIIH")  # process id, loader hash, ms since the start of the month, counter
_DIGITS = frozenset(string.hexdigits)
_SIZES = (hosts.IPV4_SIZE + _I64.size, hosts.IPV6_SIZE + _I64.size)


def offset_id(store_host: bytes, position: int) -> str:
    """Return the offset id of the record at ``position`` in the log of ``store_host`` (8 or 20 bytes)."""
    return (store_host + _I64.pack(position)).hex().upper()


def parse_offset_id(text: str) -> tuple[str, LogPosition] | None:
    """Return the host's text and the position, or None when ``text`` is no offset id.  Either case is read."""
    if len(text) // 2 not in _SIZES or len(text) % 2 or not _DIGITS.issuperset(text):
        return None
    data = bytes.fromhex(text)
    (position,) = _I64.unpack_from(data, len(data) - 8)
    return hosts.to_text(data[:-8]), LogPosition(position)


def unique_id(address: bytes, *, process_id: int, loader_hash: int, month_ms: int, counter: int) -> str:
    """Return an id as RocketMQ's remoting clients make them; numbers are cut to their width."""
    if len(address) not in (4, 16):
        raise ValueError(f"an address has 4 or 16 bytes, not {len(address)}")
    tail = _UNIQUE.pack(process_id & 0xFFFF, loader_hash & 0xFFFFFFFF, month_ms & 0xFFFFFFFF, counter & 0xFFFF)
    return (address + tail).hex().upper()
