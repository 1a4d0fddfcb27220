"""What a consumer wants: topics with filters, and where a group begins that has no position yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from litemq.client.names import check_name
from litemq.client.values import Sql, Tags
from litemq.errors import BadFilter, InvalidRequest
from litemq.features.filters import TagFilter, compile_filter
from litemq.features.filters.tag import tag_hash
from litemq.features.retry import RETRY_PREFIX

Start = Literal["first", "last"] | datetime | int
"""A queue's beginning or end, or a point in time: an aware ``datetime`` or milliseconds since 1970."""

Wanted = str | Tags | Sql
"""Which messages of a topic: a tag expression, ``Tags`` or ``Sql``."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One topic and which of its messages are wanted."""

    topic: str
    expression: str = "*"
    kind: str = "TAG"
    tags: tuple[str, ...] = ()

    @property
    def is_sql(self) -> bool:
        """Whether the broker has to look at properties."""
        return self.kind == "SQL92"

    @property
    def is_retry(self) -> bool:
        """Whether this is where a group's messages come back."""
        return self.topic.startswith(RETRY_PREFIX)

    def told(self, version: int) -> dict[str, object]:
        """Return it as heartbeats tell it."""
        return {
            "classFilterMode": False,
            "codeSet": [tag_hash(tag) for tag in self.tags],
            "expressionType": self.kind,
            "subString": self.expression,
            "subVersion": version,
            "tagsSet": list(self.tags),
            "topic": self.topic,
        }


def subscription(topic: str, wanted: Wanted = "*") -> Subscription:
    """Return what ``wanted`` says of a topic.

    Raises:
        BadFilter: the expression cannot be read; says where.
        InvalidRequest: something else is no topic or no filter.
    """
    check_name("topic", topic)
    if isinstance(wanted, str):
        wanted = Tags(wanted)
    if isinstance(wanted, Sql):
        compile_filter(wanted.expression, "SQL92")
        return Subscription(topic, wanted.expression, "SQL92")
    if not isinstance(wanted, Tags):
        raise InvalidRequest(f"the filter of {topic!r} must be a tag expression, Tags(…) or Sql(…), not {wanted!r}")
    compiled = compile_filter(wanted.expression)
    assert isinstance(compiled, TagFilter)
    for tag in compiled.tags or ():
        if any(mark in tag for mark in "|& "):
            column = wanted.expression.find(tag) + 1
            raise BadFilter(f"tags are joined by ||; {tag!r} is none", wanted.expression, column)
    return Subscription(topic, compiled.expression, "TAG", tuple(sorted(compiled.tags or ())))


def subscriptions(wanted: Mapping[str, Wanted]) -> list[Subscription]:
    """Return what a mapping from topics to filters says."""
    given: object = wanted
    if not isinstance(given, Mapping) or not given:
        raise InvalidRequest(f'subscriptions must name topics and filters: {{"orders": "*"}}, not {wanted!r}')
    return [subscription(topic, filtered) for topic, filtered in wanted.items()]


def start_at(start: Start) -> Literal["first", "last"] | int:
    """Return where to begin, points in time as milliseconds.

    Raises:
        InvalidRequest: it is no such thing.
    """
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise InvalidRequest(f"{start!r} has no time zone; say which one is meant: datetime(…, tzinfo=UTC)")
        return int(start.timestamp() * 1000)
    if start in ("first", "last") or (isinstance(start, int) and not isinstance(start, bool) and start >= 0):
        return start
    raise InvalidRequest(f'{start!r} must be "first", "last", an aware datetime, or milliseconds since 1970')
