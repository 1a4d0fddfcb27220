"""What a conversion lost, key by key: the record object of the source beside that of the destination."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress
from operator import attrgetter, ne
from typing import Final

from litemq.types import NO_HOST, Record

COMPARED: Final = (
    *("topic", "queue_id", "queue_offset", "message_id", "tags", "keys", "properties", "body", "flag", "sys_flag"),
    *("type", "priority", "reliability", "delay_time", "transaction_id", "status", "sharding_key", "broadcast"),
    *("born_time", "born_host", "store_time", "store_host", "reconsume_times", "prepared_offset"),
    *("consume_start_time", "consume_end_time"),
)
"""Keys of the record object that a conversion keeps; all others say where and how a record is stored."""

_INDEXES: Final = range(len(COMPARED))
_NOTHING: Final = ("normal", NO_HOST)
_values = attrgetter(*COMPARED)


class Tally:
    """Counts, for each key, the records whose value in the destination is another one."""

    def __init__(self) -> None:
        self._dropped = dict.fromkeys((*COMPARED, "body_size"), 0)

    @property
    def dropped(self) -> dict[str, int]:
        """Return the keys that lost something, with the number of records."""
        return {key: count for key, count in self._dropped.items() if count}

    def add(self, dropped: Mapping[str, int]) -> None:
        """Take in what was counted elsewhere."""
        for key, count in dropped.items():
            self._dropped[key] += count

    def compare(self, before: Record, after: Record) -> None:
        """Take in one record as it was and as it is read back."""
        old, new = _values(before), _values(after)
        if old == new:
            return
        for index in compress(_INDEXES, map(ne, old, new)):
            first, second = old[index], new[index]
            if (first or second) and _plain(first) != _plain(second):
                self._dropped[COMPARED[index]] += 1
        if len(before.body) != len(after.body):
            self._dropped["body_size"] += 1


def _plain(value: object) -> object:
    """Return None for everything that counts as nothing: null, 0, empty, ``normal``, ``0.0.0.0:0``."""
    return None if not value or value in _NOTHING else value
