"""Which names topics and groups may have: RocketMQ's rules, so that every client can use what one of them made."""

from __future__ import annotations

import re

from litemq.broker.system_topics import DEAD_PREFIX, RETRY_PREFIX
from litemq.errors import BadField, ReservedName
from litemq.format.names import RESERVED_TOPIC_PREFIX

_ALLOWED = re.compile(r"[%|a-zA-Z0-9_\-]+", re.ASCII)
MAX_TOPIC = 127
MAX_GROUP_TOPIC = 255
"""Of retry and dead-letter topics, which have a group's name in theirs."""
MAX_GROUP = 120


def check_topic(topic: str) -> None:
    """Refuse a topic that no client may use."""
    if topic.startswith(RESERVED_TOPIC_PREFIX):
        raise ReservedName(f"topic {topic!r} is LiteMQ's own; choose another name")
    limit = MAX_GROUP_TOPIC if topic.startswith((RETRY_PREFIX, DEAD_PREFIX)) else MAX_TOPIC
    _check("topic", topic, limit)


def check_group(group: str) -> None:
    """Refuse a group's name that no client may use."""
    _check("group", group, MAX_GROUP)


def _check(what: str, name: str, limit: int) -> None:
    if not name:
        raise BadField(f"the {what} has no name")
    if len(name) > limit:
        raise BadField(f"the name of the {what} has {len(name)} characters, at most {limit} fit")
    if not _ALLOWED.fullmatch(name):
        wrong = next(letter for letter in name if not _ALLOWED.fullmatch(letter))
        raise BadField(f"the {what} {name!r} has the character {wrong!r}; letters, digits and % | _ - are allowed")
