"""Tag filters: ``*`` or nothing for all messages, ``A || B`` for messages with one of these tags.

A queue entry holds the tag's hash, so a pull drops most others without a look at the log; two tags may have one hash,
so the tag itself is compared afterwards.  A message without a tag passes ``*`` only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from litemq.errors import BadFilter
from litemq.format import names
from litemq.format._text_cy import java_hash

MAX_LENGTH: Final = 32_767
"""Characters of a tag filter; no tag of a message can be longer."""


class TagFilter:
    """A compiled tag filter; ``tags`` and ``hashes`` are None when everything passes."""

    def __init__(self, expression: str | None) -> None:
        self.expression = expression or "*"
        if len(self.expression) > MAX_LENGTH:
            raise BadFilter(
                f"{len(self.expression)} characters, at most {MAX_LENGTH} are taken", self.expression, MAX_LENGTH + 1
            )
        self.tags = _tags(self.expression)
        self.hashes: frozenset[int] | None = None if self.tags is None else frozenset(map(tag_hash, self.tags))
        """What ``tag_hash`` of a queue entry must be one of."""
        self.names = None if self.tags is None else frozenset(tag.encode("utf-8", "replace") for tag in self.tags)
        """The tags as they stand in records."""

    @property
    def is_all(self) -> bool:
        """Whether every message passes."""
        return self.tags is None

    def matches_tag(self, tag: str | None) -> bool:
        """Return whether a message with this tag passes."""
        return self.tags is None or tag in self.tags

    def evaluate(self, properties: Mapping[str, str]) -> bool:
        """Return whether a message with these properties passes."""
        return self.tags is None or properties.get(names.TAGS) in self.tags

    def __repr__(self) -> str:
        return f"TagFilter({self.expression!r})"


def tag_hash(tag: str) -> int:
    """Return the hash of a tag as a ConsumeQueue entry of RocketMQ has it: signed."""
    unsigned = java_hash(tag)
    return unsigned - (1 << 32) if unsigned >> 31 else unsigned


def _tags(expression: str) -> frozenset[str] | None:
    if expression.strip() in ("", "*"):
        return None
    tags = frozenset(part.strip() for part in expression.split("||")) - {""}
    if not tags:
        raise BadFilter("a tag expected beside ||", expression, 1)
    return tags
