"""Values of reserved and well-known properties: read only when they can be read, else they stay plain properties.

Which names are reserved in which format: ``names``.  Numbers are decimal and in range, types and statuses go by
name, broadcast is ``0`` or ``1``, lists are JSON lists of texts.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

from litemq.format import hosts, names

_NUMBER: Final = re.compile(r"-?[0-9]+", re.ASCII)

INT32: Final = (-(1 << 31), (1 << 31) - 1)
INT64: Final = (-(1 << 63), (1 << 63) - 1)
UINT64: Final = (0, (1 << 64) - 1)
BOUNDS_IN_LITEMQ: Final = {names.FLAG: INT32, names.SYS_FLAG: INT32, names.PREPARED_OFFSET: INT64}


def number(text: str | None, bounds: tuple[int, int]) -> int | None:
    """Return a decimal number within ``bounds``, or None.

    More digits than the largest number needs (18 at least, as in the scan kernel) are not read, zeros or not.
    """
    low, high = bounds
    if text is None or len(text) > max(18, len(str(high))) + text.startswith("-") or not _NUMBER.fullmatch(text):
        return None
    value = int(text)
    return value if low <= value <= high else None


def name(text: str | None, allowed: tuple[str, ...]) -> str | None:
    """Return ``text`` when it is one of ``allowed``."""
    return text if text in allowed else None


def texts(text: str | None) -> tuple[str, ...] | None:
    """Return a JSON list of texts, or None."""
    if text is None or not text.startswith("["):
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):  # a deep nest of lists is no list of texts
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) and is_text(item) for item in value):
        return None
    return tuple(value)


def is_text(text: str) -> bool:
    """Return whether ``text`` has a UTF-8 form: JSON can spell half a surrogate pair, which has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Reserved(NamedTuple):
    """What the reserved properties of one ``rocketmq`` record say; None where there is none that can be read."""

    type: str | None = None
    priority: int | None = None
    reliability: int | None = None
    status: str | None = None
    broadcast: bool | None = None
    consume_start_time: int | None = None
    consume_end_time: int | None = None
    born_host: str | None = None
    store_host: str | None = None
    tags: tuple[str, ...] | None = None
    keys: tuple[str, ...] | None = None


_NOTHING = Reserved()
_FIELDS: Final = (
    names.TYPE,
    names.PRIORITY,
    names.RELIABILITY,
    names.STATUS,
    names.BROADCAST,
    names.CONSUME_START_TIME,
    names.CONSUME_END_TIME,
    names.BORN_HOST,
    names.STORE_HOST,
    names.ALL_TAGS,
    names.ALL_KEYS,
)
"""Their names, in the order of ``Reserved``."""


def take(found: dict[str, str]) -> Reserved:
    """Take the reserved properties of ``rocketmq`` out of ``found``; those that cannot be read stay."""
    if names.RESERVED_IN_ROCKETMQ.isdisjoint(found):
        return _NOTHING
    broadcast = number(found.get(names.BROADCAST), (0, 1))
    read = Reserved(
        type=name(found.get(names.TYPE), names.TYPE_NAMES),
        priority=number(found.get(names.PRIORITY), (0, 255)),
        reliability=number(found.get(names.RELIABILITY), (0, 3)),
        status=name(found.get(names.STATUS), names.STATUS_NAMES),
        broadcast=None if broadcast is None else bool(broadcast),
        consume_start_time=number(found.get(names.CONSUME_START_TIME), UINT64),
        consume_end_time=number(found.get(names.CONSUME_END_TIME), UINT64),
        born_host=found.get(names.BORN_HOST),
        store_host=found.get(names.STORE_HOST),
        tags=texts(found.get(names.ALL_TAGS)),
        keys=texts(found.get(names.ALL_KEYS)),
    )
    for key, value in zip(_FIELDS, read, strict=True):
        if value is not None:
            del found[key]
    return read


def is_read_in_litemq(key: str, value: str) -> bool:
    """Return whether a ``litemq`` reader takes this property for a reserved one."""
    return key in names.RESERVED_IN_LITEMQ and number(value, BOUNDS_IN_LITEMQ[key]) is not None


def is_read_in_rocketmq(key: str, value: str) -> bool:
    """Return whether a ``rocketmq`` reader takes this property for a reserved one."""
    found = {key: value}
    take(found)
    return not found


def derived_sys_flag(status: int, born_host: str, store_host: str) -> int:
    """Return RocketMQ's sys flag as far as status and hosts tell it."""
    flag = status << names.FLAG_STATUS_SHIFT
    if hosts.is_ipv6(born_host):
        flag |= names.FLAG_BORN_IPV6
    if hosts.is_ipv6(store_host):
        flag |= names.FLAG_STORE_IPV6
    return flag


def signed64(value: int) -> int:
    """Return the signed number with the same 64 bits: ``litemq`` holds times without a sign, the others with one."""
    value &= 0xFFFFFFFFFFFFFFFF
    return value - (1 << 64) if value >= 1 << 63 else value
