"""Receipts: what names one delivery of a message, as RocketMQ writes it.

    receipt         start offset, pop time, invisible time, revive queue, mark, broker, queue, offset; blanks between
    startOffsetInfo mark queue offset; …             where the delivery of each queue began
    orderCountInfo  mark queue count; …              how often a queue's messages, or one (``qo<queue>%<offset>``),
                                                     were delivered before
    mark            0: the topic itself; 1, 2: the group's retry topic of it, in its two spellings

A message carries its receipt as the property ``POP_CK``, which is not among the application's.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from litemq.client._message_cy import Message, decode_messages
from litemq.errors import BadBody
from litemq.features.retry import RETRY_PREFIX

POP_CK: Final = "POP_CK"
_PARTS: Final = 8
_SIGNS: Final = {"1": "_", "2": "+"}
"""By mark: what stands between group and topic in the name of a retry topic."""
_MOST_APART: Final = 4096
"""Offsets that the bits of one entry span at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """What receipts of messages have in common that were taken from one queue at once."""

    topic: str
    group: str
    broker: str
    queue_id: int
    start: int
    pop_ms: int
    invisible_ms: int
    revive_queue: int
    mark: str
    head: str = ""
    """The text of the receipts, without the offset."""

    def __post_init__(self) -> None:
        parts = (self.start, self.pop_ms, self.invisible_ms, self.revive_queue, self.mark, self.broker, self.queue_id)
        object.__setattr__(self, "head", " ".join(map(str, parts)))

    @property
    def stored_topic(self) -> str:
        """Where the messages were taken from."""
        sign = _SIGNS.get(self.mark)
        return f"{RETRY_PREFIX}{self.group}{sign}{self.topic}" if sign else self.topic


class Receipt(str):
    """One delivery of one message: the text that its broker knows it by, and what it says."""

    __slots__ = ("delivery", "is_plain", "offset")

    delivery: Delivery
    offset: int
    is_plain: bool
    """Whether the eight parts say all: then it may travel as a bit."""


def receipt_of(delivery: Delivery, offset: int) -> Receipt:
    """Return the receipt of one message of a delivery."""
    made = Receipt(f"{delivery.head} {offset}")
    made.delivery = delivery
    made.offset = offset
    made.is_plain = 0 <= offset - delivery.start < _MOST_APART
    return made


def parse_receipt(text: str, topic: str, group: str) -> Receipt | None:
    """Return what a receipt says; None when it is none."""
    parts = text.split(" ")
    if len(parts) < _PARTS:
        return None
    try:
        start, popped, invisible, revive = (int(part) for part in parts[:4])
        queue_id, offset = int(parts[6]), int(parts[7])
    except ValueError:
        return None
    made = Receipt(text)
    made.delivery = Delivery(topic, group, parts[5], queue_id, start, popped, invisible, revive, parts[4])
    made.offset = offset
    made.is_plain = len(parts) == _PARTS and 0 <= offset - start < _MOST_APART
    return made


def popped_messages(body: bytes, ext: Mapping[str, str], *, topic: str, group: str, broker: str) -> list[Message]:
    """Return the messages of the answer to a pop, each with its receipt.

    Raises:
        BadBody: the answer cannot be read.
    """
    try:
        popped, invisible, revive = int(ext["popTime"]), int(ext["invisibleTime"]), int(ext["reviveQid"])
        starts = {(mark, int(queue)): int(start) for mark, queue, start in _entries(ext.get("startOffsetInfo"))}
        counts = {(mark, place): int(count) for mark, place, count in _entries(ext.get("orderCountInfo"))}
    except (KeyError, ValueError) as error:
        raise BadBody(f"the answer to a pop has fields that cannot be read: {error!r}") from error
    if counts:
        body = with_counts(body, counts)
    messages = decode_messages(body, broker=broker, group=group, topic=topic)
    deliveries: dict[int, Delivery] = {}
    for message in messages:
        if POP_CK in message.raw_properties:
            continue
        queue_id, offset = message.queue_id, message.queue_offset
        delivery = deliveries.get(queue_id)
        if delivery is None:
            mark = next((mark for mark in ("0", "1", "2") if (mark, queue_id) in starts), "0")
            start = starts.get((mark, queue_id), offset)
            delivery = Delivery(topic, group, broker, queue_id, start, popped, invisible, revive, mark)
            deliveries[queue_id] = delivery
        assert message.pairs is not None
        # Nobody has seen the message yet: this is still a part of making it.
        message.pairs[POP_CK] = receipt_of(delivery, offset)
    return messages


def _entries(text: str | None) -> Iterable[list[str]]:
    return [entry.split(" ") for entry in text.split(";") if entry] if text else []


def number(data: bytes | bytearray, at: int, size: int = 4) -> int:
    """Return a number without a sign."""
    return int.from_bytes(data[at : at + size], "big")


def with_counts(body: bytes, counts: Mapping[tuple[str, str], int]) -> bytes:
    """Return records that say how often they were delivered before, where the broker tells that beside them."""
    data = bytearray(body)
    at = 0
    while at + 64 <= len(data):
        queue_id, offset = number(data, at + 12), number(data, at + 20, 8)
        places = (f"qo{queue_id}%{offset}", str(queue_id))
        count = next((counts[mark, place] for place in places for mark in "012" if (mark, place) in counts), 0)
        if count > 0:
            flags = number(data, at + 36)
            there = at + 64 + (12 if flags & 0x10 else 0) + (20 if flags & 0x20 else 8)
            data[there : there + 4] = count.to_bytes(4, "big")
        at += max(number(data, at), 1)
    return bytes(data)


def acks(receipts: Iterable[Receipt]) -> list[dict[str, Any]]:
    """Return the entries of a batch of acknowledgements: one for each delivery of a queue, a bit for each message."""
    bits: dict[Delivery, int] = {}
    for one in receipts:
        delivery = one.delivery
        bits[delivery] = bits.get(delivery, 0) | 1 << (one.offset - delivery.start)
    return [
        {
            "b": base64.b64encode(value.to_bytes((value.bit_length() + 7) // 8, "little")).decode(),
            "c": one.group,
            "it": one.invisible_ms,
            "pt": one.pop_ms,
            "q": one.queue_id,
            "r": one.mark,
            "rq": one.revive_queue,
            "so": one.start,
            "t": one.topic,
        }
        for one, value in bits.items()
    ]
