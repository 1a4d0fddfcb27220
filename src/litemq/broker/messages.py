"""From what a client sends to the message that is stored, and the properties that the broker adds or takes away."""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from litemq.errors import BadBody, NotSupported
from litemq.format import hosts, names, properties
from litemq.types import Message, MessageType

REGION = "DefaultRegion"
_DROPPED = names.INTERNAL | {"POP_CK"}
"""Properties that only the store or the broker writes: clients echo what they pulled, so what they send is dropped."""

_HOST_BITS = names.FLAG_BORN_IPV6 | names.FLAG_STORE_IPV6
_TIMERS = (names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS)
_ENTRY_HEAD = 20


@dataclass(slots=True)  # frozen, it would take three times as long to make, for every message
class Sending:
    """One message, or the common part of a batch, as the header of a send describes it; treat it as a value."""

    topic: str
    queue_id: int
    body: bytes
    properties: dict[str, str]
    born_time: int
    born_host: str
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0


def own_properties(cluster: str) -> tuple[tuple[str, str], ...]:
    """Return what every stored message gets."""
    return (("MSG_REGION", REGION), ("TRACE_ON", "true"), ("CLUSTER", cluster))


class MessageMaker:
    """Makes messages of what clients send."""

    def __init__(self, cluster: str, *, store_host: str) -> None:
        self._own = dict(own_properties(cluster))
        self._store_bit = names.FLAG_STORE_IPV6 if hosts.is_ipv6(store_host) else 0
        # As unique as the ids that clients make: this process, this start, a counter.
        self._id_head = f"{os.getpid() & 0xFFFF:04X}{secrets.token_hex(6).upper()}"
        self._ids = itertools.count()
        self.dropped = 0
        """Internal properties that clients sent."""

    def make(self, sending: Sending) -> Message:
        """Return the message to store.

        Raises:
            NotSupported: it is delayed.
        """
        left = dict(sending.properties)
        for name in _DROPPED & left.keys():
            del left[name]
            self.dropped += 1
        refuse_delayed(left)
        return self.plain(sending, left)

    def plain(self, sending: Sending, left: dict[str, str]) -> Message:
        """Return the message with these properties; nothing is refused."""
        message_id = left.pop(names.UNIQ_KEY, "") or self.new_id()
        tag = left.pop(names.TAGS, "")
        keys = left.pop(names.KEYS, "")
        sharding_key = left.pop(names.SHARDING_KEY, "")
        left.update(self._own)
        sys_flag = sending.sys_flag & ~_HOST_BITS | self._store_bit
        if hosts.is_ipv6(sending.born_host):
            sys_flag |= names.FLAG_BORN_IPV6
        return Message(
            sending.topic,
            sending.body,
            queue_id=sending.queue_id,
            message_id=message_id,
            tags=(tag,) if tag else (),
            keys=tuple(key for key in keys.split(" ") if key),
            properties=left,
            type=MessageType.ORDER if sharding_key else MessageType.NORMAL,
            sharding_key=sharding_key,
            born_time=max(sending.born_time, 0),
            born_host=sending.born_host,
            flag=sending.flag,
            sys_flag=sys_flag if sys_flag & ~_HOST_BITS else None,
            reconsume_times=max(sending.reconsume_times, 0),
        )

    def new_id(self) -> str:
        """Return an id for a message that came without one."""
        return f"{self._id_head}{next(self._ids) & 0xFFFF_FFFF_FFFF_FFFF:016X}"


def altered(message: Message, **changes: object) -> Message:
    """Return a copy of a message with some fields changed."""
    fields = {name: getattr(message, name) for name in Message.__slots__}
    return Message(**{**fields, **changes})


_LOOKED_AT = _DROPPED | {names.DELAY, *_TIMERS}


def needs_look(found: dict[str, str]) -> bool:
    """Return whether there are properties for which ``make`` does more than ``plain``."""
    return not _LOOKED_AT.isdisjoint(found)


def refuse_delayed(found: dict[str, str]) -> None:
    """Refuse what should be delivered later: it must not be stored as if it were due now."""
    level = found.get(names.DELAY)
    if level is not None and level.lstrip("0") and not level.startswith("-"):
        raise NotSupported("delayed messages are not supported yet (property DELAY)")
    for name in _TIMERS:
        if name in found:
            raise NotSupported(f"delayed messages are not supported yet (property {name})")


def batch_entries(body: bytes) -> Iterator[tuple[bytes, int, dict[str, str]]]:
    """Yield body, flag and properties of each message of a batch.

    Raises:
        BadBody: the bytes are no batch.
    """
    at = 0
    while at < len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        body_size = int.from_bytes(body[at + 16 : at + 20], "big")
        text_at = at + _ENTRY_HEAD + body_size
        text_size = int.from_bytes(body[text_at : text_at + 2], "big")
        end = text_at + 2 + text_size
        if end - at != size or end > len(body):
            raise BadBody(f"the batch has no whole message at byte {at} of {len(body)}")
        flag = int.from_bytes(body[at + 12 : at + 16], "big", signed=True)
        yield body[at + _ENTRY_HEAD : text_at], flag, properties.parse(body[text_at + 2 : end])
        at = end
