"""Attributes of topics that the broker itself acts on; all others are kept and mean nothing here.

queue.backlog               messages of a queue that its slowest group may not have read, instead of the limit
                            ``limits.queue_backlog``; 0: no limit
overflow                    what happens to a message beyond that: ``refuse`` or ``dead-letter``
retention.ms                messages older than this go
retention.bytes             the oldest messages go while all of the topic's on this broker have more bytes
retention.keep-until-read   ``true``: messages that a group has yet to read stay
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from litemq.errors import BadField

BACKLOG: Final = "queue.backlog"
OVERFLOW: Final = "overflow"
RETENTION_MS: Final = "retention.ms"
RETENTION_BYTES: Final = "retention.bytes"
KEEP_UNTIL_READ: Final = "retention.keep-until-read"

_NUMBERS: Final = {BACKLOG: 0, RETENTION_MS: 1, RETENTION_BYTES: 1}
"""Name → least value."""

_WORDS: Final = {OVERFLOW: ("refuse", "dead-letter"), KEEP_UNTIL_READ: ("false", "true")}
_MAX_DIGITS: Final = 18


@dataclass(frozen=True, slots=True)
class Kept:
    """How long messages of a topic stay; None: as long as the log has them."""

    ms: int | None = None
    bytes: int | None = None
    until_read: bool = False

    @property
    def is_set(self) -> bool:
        """Return whether the topic asks for anything."""
        return self.until_read or self.ms is not None or self.bytes is not None


def check(attributes: Mapping[str, str]) -> None:
    """Refuse a value that one of our attributes cannot have.

    Raises:
        BadField: names the attribute and what it takes.
    """
    for name, least in _NUMBERS.items():
        if name in attributes and _number(attributes, name) is None:
            raise BadField(f"the attribute {name} is {attributes[name][:80]!r}, it must be a number from {least} on")
    for name, words in _WORDS.items():
        if attributes.get(name, words[0]) not in words:
            raise BadField(f"the attribute {name} is {attributes[name][:80]!r}, it must be {' or '.join(words)}")


def backlog(attributes: Mapping[str, str], default: int) -> int:
    """Return how many messages of a queue may be unread; 0: no limit."""
    found = _number(attributes, BACKLOG)
    return default if found is None else found


def overflows_to_dead_letters(attributes: Mapping[str, str]) -> bool:
    """Return whether messages that a queue has no room for become dead letters."""
    return attributes.get(OVERFLOW) == "dead-letter"


def kept(attributes: Mapping[str, str]) -> Kept:
    """Return how long messages stay; a value that cannot be (in a store that others wrote) counts for nothing."""
    return Kept(
        _number(attributes, RETENTION_MS),
        _number(attributes, RETENTION_BYTES),
        attributes.get(KEEP_UNTIL_READ) == "true",
    )


def _number(attributes: Mapping[str, str], name: str) -> int | None:
    text = attributes.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        return None
    number = int(text)
    return number if number >= _NUMBERS[name] else None
