"""Which group is furthest behind in a queue."""

from __future__ import annotations

from typing import Final, NamedTuple

from litemq.store.message_store import MessageStore

OWN_MARK: Final = "@"
"""In the names under which the broker keeps progress of its own; no group of a client can have it."""


class Slowest(NamedTuple):
    """A group and the offset that it reads next."""

    group: str
    offset: int


def slowest(store: MessageStore, topic: str, queue_id: int) -> Slowest | None:
    """Return the group with the lowest offset in a queue, of those that have one; None when none has."""
    progress = store.progress
    found: Slowest | None = None
    for group in progress.groups_of(topic):
        offset = progress.offset(group, topic, queue_id)
        if offset is not None and (found is None or offset < found.offset) and OWN_MARK not in group:
            found = Slowest(group, offset)
    return found
