"""RocketMQ's well-known properties: what formats without a field of their own keep in them, and how it is read.

    TAGS  KEYS  UNIQ_KEY  __SHARDINGKEY  __transactionId__  TIMER_DELIVER_MS

A value is taken out of the properties when a key of the record object shows it; a ``TIMER_DELIVER_MS`` that is no
time stays where it is.  The type is never stored: it follows from the properties that are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from litemq.format import names, properties, reserved
from litemq.types import Message


class WellKnown(NamedTuple):
    """What the properties of one record say."""

    type: str = "normal"
    unique_id: str | None = None
    tags: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    sharding_key: str | None = None
    transaction_id: str | None = None
    delay_time: int = 0


_NOTHING = WellKnown()
_DELAYS = frozenset(names.DELAY_PROPERTIES)


def take(found: dict[str, str]) -> WellKnown:
    """Take the well-known properties, and checksums, out of ``found``."""
    if not found:
        return _NOTHING
    kind = derived_type(found)
    tag = found.pop(names.TAGS, None)
    delay_time = reserved.number(found.get(names.TIMER_DELIVER_MS), reserved.UINT64)
    if delay_time is not None:
        del found[names.TIMER_DELIVER_MS]
    found.pop(names.CRC32, None)
    found.pop(names.CRC32C, None)
    return WellKnown(
        type=kind,
        unique_id=found.pop(names.UNIQ_KEY, None),
        tags=() if tag is None else (tag,),
        keys=split_keys(found.pop(names.KEYS, "")),
        sharding_key=found.pop(names.SHARDING_KEY, None),
        transaction_id=found.pop(names.TRANSACTION_ID, None),
        delay_time=delay_time or 0,
    )


def pairs_of(message: Message, *, unique_id: bool) -> Iterator[tuple[str, str]]:
    """Yield the pairs that hold ``message`` in a format without reserved properties.

    What the text cannot hold is left out.  So is a plain property whose name a key of the record object shows
    (a ``litemq`` record may have one): it would come back as a tag or key that the message never had.
    """
    own = {
        names.TAGS: message.tags[0] if message.tags else "",
        names.KEYS: " ".join(message.keys),
        names.UNIQ_KEY: message.message_id if unique_id else "",
        names.SHARDING_KEY: message.sharding_key,
        names.TRANSACTION_ID: message.transaction_id,
        names.TIMER_DELIVER_MS: str(message.delay_time) if message.delay_time else "",
    }
    yield from ((name, value) for name, value in own.items() if properties.can_hold(name, value))
    for name, value in sorted(message.properties.items()):
        if properties.can_hold(name, value) and not is_shown(name, value) and name not in names.CHECKSUMS:
            yield name, value


def is_read_in_rocketmq(name: str, value: str) -> bool:
    """Return whether a ``rocketmq`` reader takes this property for anything else than a plain one."""
    return is_shown(name, value) or reserved.is_read_in_rocketmq(name, value)


def is_shown(name: str, value: str) -> bool:
    """Return whether a key of the record object shows this property, outside ``litemq``."""
    if name == names.TIMER_DELIVER_MS:
        return reserved.number(value, reserved.UINT64) is not None
    return name in names.SHOWN_BY_A_KEY


def derived_type(found: dict[str, str]) -> str:
    """Return the type that the properties tell, in RocketMQ's order of precedence."""
    if found.get(names.TRAN_MSG) == "true":
        return "transaction"
    if not _DELAYS.isdisjoint(found):
        return "delay"
    return "order" if names.SHARDING_KEY in found else "normal"


def split_keys(text: str) -> tuple[str, ...]:
    """Return the keys in a ``KEYS`` value: what stands between blanks."""
    return tuple(key for key in text.split(" ") if key)
