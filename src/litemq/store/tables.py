"""Topics and consumer groups: tables in memory, true to the changes in the log.

A table changes only by a ``Change`` that is a record of the log; ``config/topics.json`` and
``config/subscriptionGroup.json`` are snapshots of the tables with a log position, in RocketMQ's shape.
Configurations are kept as the JSON objects that RocketMQ uses; their meaning is the broker's business.
"""

from __future__ import annotations

from typing import NamedTuple

from litemq.format.config_json import JsonObject, Value
from litemq.format.record import ROCKETMQ, Format
from litemq.store.changes import Change, Deletions
from litemq.store.snapshot import position_of

BATCH_QUEUE_TYPE = "BatchCQ"


class Live(NamedTuple):
    """A change that still holds: the record that says so stands at ``position``, the first one stood at ``origin``."""

    change: Change
    position: int
    origin: int


class Tables:
    """What the changes add up to.  ``positions`` remembers which record says it, for retention.

    A change keeps its identity, the position of its first record, however often it is carried.
    ``fmt`` is the record format of the store that the tables are for.
    """

    def __init__(self, fmt: Format = ROCKETMQ) -> None:
        self._format = fmt
        self.log_id = ""
        self.topics: dict[str, JsonObject] = {}
        self.groups: dict[str, JsonObject] = {}
        self.incarnations: dict[str, str] = {}
        self.slots: dict[str, JsonObject] = {}
        """By cluster: which broker has which slot of producers."""
        self.deletions = Deletions()
        self._forbidden: Value = {}
        self.changed = False
        """Whether the snapshots are behind."""
        self._positions: dict[tuple[str, str], int] = {}
        self._origins: dict[tuple[str, str], int] = {}
        """Of changes that were carried: their first positions."""
        self._version = 0
        self.topics_from: int | None = 0
        """Position from which on changes of topics are not in their snapshot; None: a real RocketMQ wrote it last."""
        self.groups_from: int | None = 0
        """… and of groups."""

    def apply(self, change: Change, position: int, origin: int | None = None) -> None:
        """Take in a change whose record stands at ``position``; a carried one stood at ``origin`` first."""
        match change.op:
            case "identity":
                self.log_id = self.log_id or change.name
            case "topic":
                self.topics[change.name] = change.config
                self.incarnations[change.name] = change.incarnation
            case "topic-deleted":
                self.topics.pop(change.name, None)
                self.incarnations.pop(change.name, None)
                self._forget("topic", change.name)
                self._forget("min-offsets", change.name)
            case "group":
                self.groups[change.name] = change.config
            case "slots":
                self.slots.setdefault(change.name, change.config)  # written once
            case "group-deleted":
                self.groups.pop(change.name, None)
                self._forget("group", change.name)
            case "min-offsets" if self._says_next_offsets(change):
                # A deletion that retention carried stands in this form: what it deleted is gone with its segment.
                self._forget("topic-deleted", change.name)
        self.deletions.apply(change, position)
        if change.op != "group-deleted":
            self._note(change, position, origin)
        self._version += 1
        self.changed = True

    def _note(self, change: Change, position: int, origin: int | None) -> None:
        """Remember where a change stands and where it stood first."""
        self._forget(change.op, change.name)
        self._positions[(change.op, change.name)] = position
        if origin is not None and origin < position:
            self._origins[(change.op, change.name)] = origin

    def _forget(self, op: str, name: str) -> None:
        self._positions.pop((op, name), None)
        self._origins.pop((op, name), None)

    def _says_next_offsets(self, change: Change) -> bool:
        """Return whether the offsets of a change are no lower than those with which a deleted topic goes on."""
        known = self.deletions.next_offsets.get(change.name, {})
        return all(change.offsets.get(queue, 0) >= offset for queue, offset in known.items())

    @property
    def is_foreign(self) -> bool:
        """Return whether a real RocketMQ wrote a snapshot last, so that it is the truth and nothing older counts."""
        return self.topics_from is None or self.groups_from is None

    @property
    def replay_from(self) -> int:
        """Return the position from which on changes must be replayed over the snapshots."""
        if self.topics_from is None:
            return 0
        return self.topics_from if self.groups_from is None else min(self.topics_from, self.groups_from)

    def replay(self, change: Change, position: int, origin: int | None = None) -> None:
        """Take in a change found in the log, as ``apply`` does, unless both snapshots hold it.

        When a real RocketMQ wrote the topics later, only this stays true: who the log is, and what is dead.  Not min
        offsets: it may have started the queue anew at 0.
        """
        known = self.groups_from if change.op in ("group", "group-deleted") else self.topics_from
        if known is not None:
            # From the older snapshot on: the one of topics also says where the changes of groups stand.
            if position >= self.replay_from:
                self.apply(change, position, origin)
        elif change.op == "identity":
            self.log_id = self.log_id or change.name
            self._note(change, position, origin)
        elif change.op == "slots":
            self.apply(change, position, origin)
        elif change.op == "topic-deleted":
            self.deletions.apply(change, position)

    def live_below(self, position: int) -> list[Live]:
        """Return changes that are still true and whose records lie below ``position``, in log order."""
        live = [
            (self._change(*key), at, self._origins.get(key, at))
            for key, at in sorted(self._positions.items(), key=lambda item: item[1])
            if at < position
        ]
        return [Live(change, at, origin) for change, at, origin in live if change is not None]

    def _change(self, op: str, name: str) -> Change | None:
        """Return what holds of one thing; None when a damaged snapshot speaks of what is not there."""
        match op:
            case "identity":
                return Change("identity", name)
            case "topic" if name in self.topics:
                return Change("topic", name, self.topics[name], self.incarnations.get(name, ""))
            case "slots" if name in self.slots:
                return Change("slots", name, self.slots[name])
            case "group" if name in self.groups:
                return Change("group", name, self.groups[name])
            case "topic-deleted" | "min-offsets":
                return self.as_carried(Change("min-offsets", name))
        return None

    def as_carried(self, change: Change) -> Change:
        """Return what is appended in place of a change when it is carried, which is never less."""
        if change.op not in ("topic-deleted", "min-offsets"):
            return change
        # A deletion is not repeated at a new place: it would take what was sent after it.
        known = self.deletions
        lowest = dict(change.offsets)
        for offsets in (known.next_offsets.get(change.name, {}), known.min_offsets.get(change.name, {})):
            for queue, offset in offsets.items():
                lowest[queue] = max(offset, lowest.get(queue, 0))
        return Change("min-offsets", change.name, offsets=lowest)

    def has_batch_queues(self, topic: str) -> bool:
        """Return whether RocketMQ keeps this topic's queues in ``batchconsumequeue/``; no other format has them."""
        if self._format is not ROCKETMQ:
            return False
        attributes = self.topics.get(topic, {}).get("attributes")
        return isinstance(attributes, dict) and attributes.get("queue.type") == BATCH_QUEUE_TYPE

    def first_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset with which a queue starts that has no entries."""
        return max(
            self.deletions.next_offsets.get(topic, {}).get(queue_id, 0),
            self.deletions.min_offsets.get(topic, {}).get(queue_id, 0),
        )

    # -- snapshots -------------------------------------------------------------------------------

    def to_topics(self, position: int, now_ms: int) -> JsonObject:
        """Return ``topics.json`` as of ``position``."""
        gone = self.deletions
        return {
            "dataVersion": self._data_version(now_ms),
            "topicConfigTable": {**self.topics},
            "litemq": {
                "position": position,
                "logId": self.log_id,
                "incarnations": {**self.incarnations},
                "deadBelow": {**gone.dead_below},
                "nextOffsets": {topic: _texts(offsets) for topic, offsets in gone.next_offsets.items()},
                "minOffsets": {topic: _texts(offsets) for topic, offsets in gone.min_offsets.items()},
                "positions": _named(self._positions),
                "origins": _named(self._origins),
                "slots": {**self.slots},
            },
        }

    def to_groups(self, position: int, now_ms: int) -> JsonObject:
        """Return ``subscriptionGroup.json`` as of ``position``."""
        return {
            "dataVersion": self._data_version(now_ms),
            "forbiddenTable": self._forbidden,
            "subscriptionGroupTable": {**self.groups},
            "litemq": {"position": position},
        }

    def _data_version(self, now_ms: int) -> JsonObject:
        return {"counter": self._version, "stateVersion": 0, "timestamp": now_ms}

    def load(self, topics: JsonObject | None, groups: JsonObject | None) -> None:
        """Take in both snapshots; changes behind them follow by ``replay``."""
        self.topics = _objects(topics, "topicConfigTable")
        self.groups = _objects(groups, "subscriptionGroupTable")
        self._forbidden = groups.get("forbiddenTable", {}) if groups else {}
        if topics is not None:
            self._load_ours(topics.get("litemq"))
        # A crash may leave one snapshot without the other: what is missing is replayed from the start.
        self.topics_from = 0 if topics is None else position_of(topics)
        self.groups_from = 0 if groups is None else position_of(groups)

    def _load_ours(self, ours: Value) -> None:
        if not isinstance(ours, dict):
            return
        log_id = ours.get("logId")
        self.log_id = log_id if isinstance(log_id, str) else ""
        self.incarnations = {name: value for name, value in _items(ours, "incarnations") if isinstance(value, str)}
        gone = self.deletions
        gone.dead_below = {name: value for name, value in _items(ours, "deadBelow") if isinstance(value, int)}
        gone.next_offsets = {name: numbers(value) for name, value in _items(ours, "nextOffsets")}
        gone.min_offsets = {name: numbers(value) for name, value in _items(ours, "minOffsets")}
        self.slots = {name: value for name, value in _items(ours, "slots") if isinstance(value, dict)}
        self._positions.update(_keyed(ours, "positions"))
        self._origins.update(_keyed(ours, "origins"))


def _items(ours: JsonObject, key: str) -> list[tuple[str, Value]]:
    found = ours.get(key)
    return list(found.items()) if isinstance(found, dict) else []


def _named(positions: dict[tuple[str, str], int]) -> JsonObject:
    return {f"{op} {name}": at for (op, name), at in positions.items()}


def _keyed(ours: JsonObject, key: str) -> dict[tuple[str, str], int]:
    named = ((name.partition(" "), value) for name, value in _items(ours, key))
    return {(op, rest): value for (op, _, rest), value in named if isinstance(value, int)}


def _objects(table: JsonObject | None, key: str) -> dict[str, JsonObject]:
    found = table.get(key) if table else None
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, dict)}


def _texts(offsets: dict[int, int]) -> JsonObject:
    return {str(queue): offset for queue, offset in offsets.items()}


def numbers(found: Value) -> dict[int, int]:
    """Return queue id → offset of a JSON object; what is no number is left out."""
    if not isinstance(found, dict):
        return {}
    return {
        int(queue): offset
        for queue, offset in found.items()
        if queue.isascii() and queue.isdigit() and isinstance(offset, int) and not isinstance(offset, bool)
    }
