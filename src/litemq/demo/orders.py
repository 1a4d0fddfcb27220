"""What the demo sends: order ``n`` is the same whoever makes it, so that a lost, doubled or altered one is noticed.

A customer's orders go into one queue, one behind the other; so they are consumed in the order of their numbers.
The customer is the sharding key, which chooses the queue.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final

import litemq

TOPIC: Final = "orders"
QUEUES: Final = 4
TAGS: Final = ("created", "paid", "shipped")
CUSTOMERS: Final = 97


def tag_of(number: int) -> str:
    """Return the tag of an order."""
    return TAGS[number % len(TAGS)]


def customer_of(number: int) -> str:
    """Return whose order it is: what orders it among others."""
    return f"c-{number % CUSTOMERS:03d}"


def key_of(number: int) -> str:
    """Return what an order is found by."""
    return f"order-{number}"


def amount_of(number: int) -> int:
    """Return what an order is worth."""
    return number * 7919 % 10_000


def body_of(number: int) -> bytes:
    """Return the body of an order."""
    return b'{"number": %d, "customer": "%s", "amount": %d}' % (
        number,
        customer_of(number).encode(),
        amount_of(number),
    )


def message_of(number: int) -> litemq.Message:
    """Return an order as it is sent."""
    return litemq.Message(
        TOPIC,
        body_of(number),
        tags=tag_of(number),
        keys=key_of(number),
        properties={"amount": str(amount_of(number))},
        sharding_key=customer_of(number),
    )


@dataclass(slots=True)
class Inbox:
    """What a consumer has got, and what is wrong with it."""

    wanted: frozenset[str]
    """Tags that it asked for."""
    seen: set[int] = field(default_factory=set)
    twice: int = 0
    disordered: int = 0
    wrong: int = 0
    """Altered, in another queue than others of the customer, or with a tag that was not asked for."""
    _last: dict[str, int] = field(default_factory=dict)
    _queues: dict[str, int] = field(default_factory=dict)

    def take(self, queue_id: int, tags: str | None, body: bytes) -> None:
        """Look at a message that was consumed."""
        try:
            number = int(json.loads(body)["number"])
        except (ValueError, KeyError, TypeError):
            self.wrong += 1
            return
        tag, customer = tag_of(number), customer_of(number)
        is_whole = body == body_of(number) and tags == tag
        is_whole = is_whole and self._queues.setdefault(customer, queue_id) == queue_id
        if not is_whole or tag not in self.wanted:
            self.wrong += 1
        elif number in self.seen:
            self.twice += 1
        else:
            self.disordered += number < self._last.get(customer, -1)
            self._last[customer] = number
            self.seen.add(number)

    def report(self) -> dict[str, int]:
        """Return the counts."""
        return {"received": len(self.seen), "twice": self.twice, "disordered": self.disordered, "wrong": self.wrong}
