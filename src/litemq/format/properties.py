"""Properties as RocketMQ, blueprint and tmq store them: UTF-8 text of pairs.

    name 0x01 value 0x02 name 0x01 value 0x02 …

The writer ends every pair with ``0x02``.  The reader is lenient as RocketMQ's own: the last ``0x02`` may be missing,
a pair without ``0x01``, without a name or without a value is skipped, a value may hold ``0x01``, the last pair of a
name wins, and what is not UTF-8 is replaced (formats that do not allow that are checked by the scan).
"""

from __future__ import annotations

from collections.abc import Iterable

_SPLIT = "\x01"
_END = "\x02"


def parse(data: bytes | memoryview) -> dict[str, str]:
    """Return the pairs, in stored order."""
    found: dict[str, str] = {}
    if not data:
        return found
    for pair in str(data, "utf-8", "replace").split(_END):
        name, _, value = pair.partition(_SPLIT)
        if name and value:
            found[name] = value
    return found


def write(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Return the text of pairs that ``can_hold`` allows."""
    return "".join(f"{name}{_SPLIT}{value}{_END}" for name, value in pairs).encode()


def can_hold(name: str, value: str) -> bool:
    """Return whether the text can hold this pair: nothing empty, no byte 1 or 2."""
    return bool(name and value) and not (_SPLIT in name or _END in name or _SPLIT in value or _END in value)
