"""Dead letters: the last copy of a message, with what is known of its death.

    DLQ_ORIGIN_TOPIC  DLQ_ORIGIN_MESSAGE_ID  DLQ_ORIGIN_QUEUE  DLQ_ORIGIN_OFFSET    where it was first
    DLQ_REASON        max_retry, consume_error, ttl_expired, queue_full or filtered_out
    DLQ_ERROR         what the consumer says, at most 1 KiB
    DLQ_STACK         its stack, at most 8 KiB: head and tail
    DLQ_GROUP  DLQ_CONSUMER_ID  DLQ_RETRY_COUNT  DLQ_TIME (ms)

A message that dies again gets all of them anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

DLQ_PREFIX: Final = "%DLQ%"
MAX_ERROR: Final = 1 << 10
MAX_STACK: Final = 8 << 10
"""Bytes of UTF-8."""

MAX_PROPERTIES: Final = 32_767
"""Bytes of all properties as RocketMQ's text."""

Reason = Literal["max_retry", "consume_error", "ttl_expired", "queue_full", "filtered_out"]

_NAMES: Final = (
    *("DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_QUEUE", "DLQ_ORIGIN_OFFSET", "DLQ_REASON"),
    *("DLQ_ERROR", "DLQ_STACK", "DLQ_GROUP", "DLQ_CONSUMER_ID", "DLQ_RETRY_COUNT", "DLQ_TIME"),
)
_GAP: Final = "\n…\n"
_SEPARATORS: Final = {1: " ", 2: " "}  # what a property cannot hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """What is known when a message dies; the origin is its first record."""

    reason: Reason
    group: str
    origin_topic: str
    origin_message_id: str
    origin_queue: int
    origin_offset: int
    retry_count: int
    time_ms: int
    consumer_id: str = ""
    error: str = ""
    stack: str = ""


def dead_letter_topic(group: str) -> str:
    """Return the topic of a group's dead letters."""
    return DLQ_PREFIX + group


def dead_letter_properties(
    properties: Mapping[str, str], death: Death, max_size: int = MAX_PROPERTIES
) -> dict[str, str]:
    """Return the properties of a dead letter.

    When they do not fit, the stack is cut further, then the error.
    """
    added = {
        "DLQ_ORIGIN_TOPIC": death.origin_topic,
        "DLQ_ORIGIN_MESSAGE_ID": death.origin_message_id,
        "DLQ_ORIGIN_QUEUE": str(death.origin_queue),
        "DLQ_ORIGIN_OFFSET": str(death.origin_offset),
        "DLQ_REASON": death.reason,
        "DLQ_GROUP": death.group,
        "DLQ_CONSUMER_ID": _storable(death.consumer_id),
        "DLQ_RETRY_COUNT": str(death.retry_count),
        "DLQ_TIME": str(death.time_ms),
    }
    kept = {name: value for name, value in properties.items() if name not in _NAMES}
    kept |= {name: value for name, value in added.items() if value}
    room = max_size - sum(_size(name, value) for name, value in kept.items())
    error = head(_storable(death.error), min(MAX_ERROR, room - _size("DLQ_ERROR", "")))
    if error:
        kept["DLQ_ERROR"] = error
        room -= _size("DLQ_ERROR", error)
    stack = head_and_tail(_storable(death.stack), min(MAX_STACK, room - _size("DLQ_STACK", "")))
    if stack:
        kept["DLQ_STACK"] = stack
    return kept


def head(text: str, max_size: int) -> str:
    """Return as much of the beginning of ``text`` as fits into ``max_size`` bytes of UTF-8."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= max_size else data[: max(0, max_size)].decode("utf-8", "ignore")


def head_and_tail(text: str, max_size: int) -> str:
    """Return the beginning and the end of ``text``, as much as fits into ``max_size`` bytes of UTF-8."""
    data = text.encode("utf-8", "replace")
    if len(data) <= max_size:
        return text
    half = (max_size - len(_GAP.encode())) // 2
    if half <= 0:
        return ""
    # Half a character at the cut is left out.
    return data[:half].decode("utf-8", "ignore") + _GAP + data[-half:].decode("utf-8", "ignore")


def _storable(text: str) -> str:
    """Return ``text`` without what a property cannot hold: separators, and halves of surrogate pairs."""
    return text.translate(_SEPARATORS).encode("utf-8", "replace").decode()


def _size(name: str, value: str) -> int:
    """Return the bytes of a pair with its two separators."""
    return len(name.encode("utf-8", "replace")) + len(value.encode("utf-8", "replace")) + 2
