"""Group progress: the next offset that each group reads, per topic and queue.

In memory; what changed becomes one record of ``LITEMQ_SYS_PROGRESS`` about once a second, and
``config/consumerOffset.json`` is a snapshot with its log position.  Start = snapshot + records behind it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection

from litemq.errors import InvalidRequest
from litemq.format.config_json import JsonObject, Value
from litemq.format.limits import MAX_FOLDER_NAME
from litemq.store.snapshot import position_of
from litemq.store.tables import numbers

Key = tuple[str, str, int]
"""Group, topic, queue id."""

_AT = "@"
"""Between topic and group in RocketMQ's table, whose own names have none; names of ours that do stand beside it."""


class Progress:
    """Offsets by (group, topic, queue).  ``positions`` remembers which record says it, for retention."""

    def __init__(self) -> None:
        self._offsets: dict[Key, int] = {}
        self._changed: dict[Key, int | None] = {}
        """What is in no record yet, with the offset that the last one says; None: none did."""
        self._moves: dict[tuple[str, str], tuple[int, int]] = {}
        """Group and topic → how far offsets moved on in records, and the sum of the offsets that were the first."""
        self._positions: dict[Key, int] = {}
        self._readers: dict[str, Counter[str]] = {}
        """Topic → group → queues in which it has an offset."""
        self._version = 0
        self.changed = False
        """Whether the snapshot is behind."""

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def unsaved(self) -> int:
        """Return how many offsets are in no record yet."""
        return len(self._changed)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set where ``group`` goes on.

        Raises:
            InvalidRequest: a name cannot be recorded; nothing changed.
        """
        key = (group, topic, queue_id)
        known = self._offsets.get(key)
        if known != offset:
            if known is None:
                # At once: the record is written later, and with what many groups committed.
                _check_name("group", group)
                _check_name("topic", topic)
                self._note_reader(group, topic)
            self._offsets[key] = offset
            self._changed.setdefault(key, known)

    def offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return where ``group`` goes on; None when it never committed."""
        return self._offsets.get((group, topic, queue_id))

    def of_group(self, group: str) -> dict[tuple[str, int], int]:
        """Return the offsets of one group by (topic, queue)."""
        return {(topic, queue): offset for (name, topic, queue), offset in self._offsets.items() if name == group}

    def groups_of(self, topic: str) -> Collection[str]:
        """Return the groups that have an offset in a topic."""
        return self._readers.get(topic, ())

    def _note_reader(self, group: str, topic: str) -> None:
        self._readers.setdefault(topic, Counter())[group] += 1

    def _drop_reader(self, group: str, topic: str) -> None:
        readers = self._readers[topic]
        readers[group] -= 1
        if not readers[group]:
            del readers[group]
        if not readers:
            del self._readers[topic]

    def _put(self, key: Key, offset: int) -> None:
        """Set an offset that a snapshot or a record says."""
        if key not in self._offsets:
            self._note_reader(key[0], key[1])
        self._offsets[key] = offset

    def forget(self, *, group: str | None = None, topic: str | None = None) -> None:
        """Drop what belongs to a deleted group or topic."""
        gone = [
            key for key in self._offsets if (group is None or key[0] == group) and (topic is None or key[1] == topic)
        ]
        for key in gone:
            del self._offsets[key]
            self._drop_reader(key[0], key[1])
            self._changed.pop(key, None)
            self._positions.pop(key, None)
        self.changed = self.changed or bool(gone)

    # -- records ---------------------------------------------------------------------------------

    def take_changes(self, max_bytes: int) -> list[tuple[bytes, list[Key]]]:
        """Return bodies for records of what changed, each with its keys; ``saved`` follows when one is appended.

        No body has more than ``max_bytes``, so that a record never grows with the number of groups.
        """
        shares = [sorted(self._changed)] if self._changed else []
        answer = []
        while shares:
            share = shares.pop()
            body = _encode({key: self._offsets[key] for key in share})
            if len(body) > max_bytes and len(share) > 1:
                half = len(share) // 2
                shares += [share[half:], share[:half]]
            else:
                answer.append((body, share))
        return answer

    def saved(self, keys: list[Key], position: int) -> None:
        """Note that a record at ``position`` holds these offsets."""
        for key in keys:
            self._positions[key] = position
            before = self._changed.pop(key, None)
            moved, first = self._moves.get(key[:2], (0, 0))
            if before is None:
                self._moves[key[:2]] = moved, first + self._offsets[key]
            elif self._offsets[key] > before:
                self._moves[key[:2]] = moved + self._offsets[key] - before, first
        self._version += 1
        self.changed = True

    def take_moves(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Return, for each group and topic, how far offsets moved on in records since the last call.

        Apart from that, the sum of the offsets that were the first of their queues: where a group began, nobody says.
        """
        moves, self._moves = self._moves, {}
        return moves

    def replay(self, body: bytes, position: int) -> None:
        """Take in a record of the log."""
        for key, offset in _decode(body).items():
            self._put(key, offset)
            self._positions[key] = position
        self.changed = True

    def carry_below(self, position: int) -> None:
        """Mark offsets whose records lie below ``position`` as changed: the next record holds them again."""
        for key, at in self._positions.items():
            if at < position:
                self._changed.setdefault(key, self._offsets[key])

    # -- snapshot --------------------------------------------------------------------------------

    def to_snapshot(self, position: int, now_ms: int) -> JsonObject:
        """Return ``consumerOffset.json`` as of ``position``."""
        table: dict[str, Value] = {}
        others: dict[str, Value] = {}
        for (group, topic, queue), offset in self._offsets.items():
            if _AT in topic or _AT in group:
                queues = _inside(_inside(others, group), topic)
            else:
                queues = _inside(table, topic + _AT + group)
            queues[str(queue)] = offset
        lowest = min(self._positions.values(), default=position)
        return {
            "dataVersion": {"counter": self._version, "stateVersion": 0, "timestamp": now_ms},
            "offsetTable": table,
            "litemq": {"position": position, "oldest": lowest, "others": others},
        }

    def load(self, table: JsonObject | None) -> int | None:
        """Take in the snapshot; return the position from which to replay, None when RocketMQ wrote it last."""
        if table is None:
            return 0
        found = table.get("offsetTable")
        ours = table.get("litemq")
        for name, queues in found.items() if isinstance(found, dict) else ():
            topic, at, group = name.rpartition(_AT)
            for queue, offset in numbers(queues).items() if at else ():
                self._put((group, topic, queue), offset)
        if isinstance(ours, dict):
            for key, offset in _keyed(ours.get("others")).items():
                self._put(key, offset)
        # The exact records are not known any more; carrying a little too early does no harm.
        oldest = ours.get("oldest") if isinstance(ours, dict) else 0
        self._positions = dict.fromkeys(self._offsets, oldest if isinstance(oldest, int) else 0)
        return position_of(table)

    def clamp(self, group: str, topic: str, queue_id: int, end: int) -> bool:
        """Bring an offset down to ``end`` when it stands above (a cut log); return whether it did."""
        key = (group, topic, queue_id)
        known = self._offsets.get(key, 0)
        if known <= end:
            return False
        self._offsets[key] = end
        self._changed.setdefault(key, known)
        return True

    def all_keys(self) -> list[Key]:
        """Return every (group, topic, queue) that has an offset."""
        return list(self._offsets)


def _check_name(what: str, name: str) -> None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"the {what} {name!r} has no UTF-8 form: {error.reason}") from error
    if size > MAX_FOLDER_NAME:
        raise InvalidRequest(f"the {what} of a commit has {size} bytes, at most {MAX_FOLDER_NAME} fit")


def _encode(offsets: dict[Key, int]) -> bytes:
    table: dict[str, dict[str, dict[str, int]]] = {}
    for (group, topic, queue), offset in offsets.items():
        table.setdefault(group, {}).setdefault(topic, {})[str(queue)] = offset
    return json.dumps({"op": "progress", "offsets": table}, ensure_ascii=False, separators=(",", ":")).encode()


def _decode(body: bytes) -> dict[Key, int]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return _keyed(found.get("offsets")) if isinstance(found, dict) and found.get("op") == "progress" else {}


def _inside(table: dict[str, Value], name: str) -> dict[str, Value]:
    inner = table.setdefault(name, {})
    assert isinstance(inner, dict)
    return inner


def _keyed(groups: Value) -> dict[Key, int]:
    """Return the offsets of {group: {topic: {queue: offset}}}; what is something else is left out."""
    return {
        (group, topic, queue): offset
        for group, topics in (groups.items() if isinstance(groups, dict) else ())
        if isinstance(topics, dict)
        for topic, queues in topics.items()
        for queue, offset in numbers(queues).items()
    }
