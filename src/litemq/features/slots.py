"""Slots: a name has one of 1024 for ever, and a table says which broker has which slot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from litemq.format._text_cy import java_hash

COUNT: Final = 1024


def slot_of(name: str) -> int:
    """Return the slot of a name.

    >>> slot_of("orders-stream")
    872
    """
    return java_hash(name) % COUNT


@dataclass(frozen=True, slots=True)
class Table:
    """The broker of each slot, as a number in ``brokers``."""

    brokers: tuple[str, ...]
    slots: tuple[int, ...]

    @classmethod
    def over(cls, brokers: Iterable[str]) -> Table:
        """Return a table that deals the slots to brokers, as evenly as can be.

        >>> Table.over(["broker-b", "broker-a"]).broker_of("orders-stream")
        'broker-a'
        """
        names = tuple(sorted(set(brokers)))
        return cls(names, tuple(number % len(names) for number in range(COUNT)))

    def broker_of(self, name: str) -> str:
        """Return the broker of a name's slot."""
        return self.brokers[self.slots[slot_of(name)]]

    def to_json(self) -> dict[str, Any]:
        """Return the object that is kept and told."""
        return {"brokers": list(self.brokers), "slots": list(self.slots)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Table:
        """Return the table that an object tells.

        Raises:
            ValueError: it is none.
        """
        brokers, slots = found.get("brokers"), found.get("slots")
        if not isinstance(brokers, list) or not brokers or not all(isinstance(name, str) and name for name in brokers):
            raise ValueError("a table of slots needs a list of broker names")
        if (
            not isinstance(slots, list)
            or len(slots) != COUNT
            or not all(type(number) is int and 0 <= number < len(brokers) for number in slots)
        ):
            raise ValueError(f"a table of slots needs {COUNT} numbers from 0 to {len(brokers) - 1}")
        return cls(tuple(brokers), tuple(slots))
