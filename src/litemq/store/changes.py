"""Changes of the store's tables: what a record of ``LITEMQ_SYS_CHANGES`` says.

A body is one JSON object with ``op`` and what the operation needs:

    identity        log_id                              the log's own id, written once
    topic           topic, config, incarnation          created or altered
    topic-deleted   topic, next_offsets                 its records before this one are dead
    min-offsets     topic, min_offsets                  purge and per-topic retention: older offsets are gone
    group           group, config                       created or altered
    group-deleted   group
    slots           cluster, config                     which broker decides about whose transactions; written once

Unknown operations are kept and passed over: a newer writer may have been here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final, Literal

from litemq.format.config_json import JsonObject

Op = Literal["identity", "topic", "topic-deleted", "min-offsets", "group", "group-deleted", "slots"]
OPS: Final = frozenset({"identity", "topic", "topic-deleted", "min-offsets", "group", "group-deleted", "slots"})


@dataclass(frozen=True, slots=True)
class Change:
    """One change; ``name`` is the topic, the group, the log id or the cluster."""

    op: Op
    name: str
    config: JsonObject = field(default_factory=dict)
    incarnation: str = ""
    offsets: dict[int, int] = field(default_factory=dict)
    """By queue id: next offsets of a deleted topic, or new min offsets."""


_NAME_KEYS: Final[dict[str, str]] = {
    "identity": "log_id",
    "topic": "topic",
    "topic-deleted": "topic",
    "min-offsets": "topic",
    "group": "group",
    "group-deleted": "group",
    "slots": "cluster",
}
_OFFSET_KEYS: Final[dict[str, str]] = {"topic-deleted": "next_offsets", "min-offsets": "min_offsets"}


def encode(change: Change) -> bytes:
    """Return the record's body."""
    body: JsonObject = {"op": change.op, _NAME_KEYS[change.op]: change.name}
    if change.op in ("topic", "group", "slots"):
        body["config"] = change.config
    if change.op == "topic":
        body["incarnation"] = change.incarnation
    if change.op in _OFFSET_KEYS:
        body[_OFFSET_KEYS[change.op]] = {str(queue): offset for queue, offset in sorted(change.offsets.items())}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def decode(body: bytes) -> Change | None:
    """Return the change; None when this version does not know it."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    op: Op | None = found.get("op") if isinstance(found, dict) else None
    if not isinstance(op, str) or op not in OPS:
        return None
    name = found.get(_NAME_KEYS[op])
    config = found.get("config", {})
    incarnation = found.get("incarnation", "")
    offsets = _offsets(found.get(_OFFSET_KEYS.get(op, ""), {}))
    if not isinstance(name, str) or not isinstance(config, dict) or not isinstance(incarnation, str) or offsets is None:
        return None
    return Change(op, name, config, incarnation, offsets)


def _offsets(found: object) -> dict[int, int] | None:
    if not isinstance(found, dict):
        return None
    answer: dict[int, int] = {}
    for queue, offset in found.items():
        if not (isinstance(queue, str) and queue.isascii() and queue.isdigit() and isinstance(offset, int)):
            return None
        answer[int(queue)] = offset
    return answer


class Deletions:
    """What changes took away: fold them in log order, then ask about records."""

    def __init__(self) -> None:
        self.dead_below: dict[str, int] = {}
        """Topic → position below which its records are dead."""
        self.next_offsets: dict[str, dict[int, int]] = {}
        """Deleted topic → the offset with which each queue goes on when it is created again."""
        self.min_offsets: dict[str, dict[int, int]] = {}

    def apply(self, change: Change, position: int) -> None:
        """Take in one change that stands at ``position``."""
        if change.op == "topic-deleted":
            self.dead_below[change.name] = max(position, self.dead_below.get(change.name, 0))
            known = self.next_offsets.setdefault(change.name, {})
            for queue, offset in change.offsets.items():
                known[queue] = max(offset, known.get(queue, 0))
            self.min_offsets.pop(change.name, None)
        elif change.op == "min-offsets":
            known = self.min_offsets.setdefault(change.name, {})
            for queue, offset in change.offsets.items():
                known[queue] = max(offset, known.get(queue, 0))

    def forget_below(self, position: int) -> None:
        """Drop what speaks only of records before ``position``: they are gone."""
        self.dead_below = {topic: at for topic, at in self.dead_below.items() if at > position}

    def is_dead(self, topic: str, queue_id: int, queue_offset: int | None, position: int) -> bool:
        """Return whether a record was deleted with its topic or purged from its queue.

        ``queue_offset`` is None for one that has no place in its queue (prepared or rolled back): no purge takes it.
        """
        if position < self.dead_below.get(topic, 0):
            return True
        return queue_offset is not None and queue_offset < self.min_offsets.get(topic, {}).get(queue_id, 0)
