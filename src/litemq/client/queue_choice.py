"""Which queue a message goes to: pure decisions over a route's queues."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

from litemq.client._message_cy import Message
from litemq.client.routes import TopicQueue
from litemq.errors import InvalidRequest
from litemq.format._text_cy import java_hash

Choose = Callable[[Message, Sequence[TopicQueue]], TopicQueue]
QueueChoice = Literal["round-robin", "random", "hash", "latency"] | Choose

NAMES: Final = ("round-robin", "random", "hash", "latency")
_FORGET: Final = 0.2
"""Weight of the last answer in a broker's mean latency."""
_FADES: Final = 0.998
"""What is known of a broker that is not chosen becomes less with each choice: some day it is asked again."""


def queue_of_key(key: str, queues: Sequence[TopicQueue]) -> TopicQueue:
    """Return the queue of a sharding key: Java's choice, so that both languages meet in one queue."""
    return queues[java_remainder(java_hash(key), len(queues))]


def java_remainder(value: int, count: int) -> int:
    """Return ``Math.abs(value % count)`` of Java's 32-bit numbers."""
    value = (value & 0xFFFFFFFF) - (1 << 32) if value & 0x80000000 else value & 0xFFFFFFFF
    return abs(value) % count


class Chooser:
    """Chooses queues; remembers where it stands in each topic, and how fast brokers answered."""

    def __init__(self, how: QueueChoice) -> None:
        if not callable(how) and how not in NAMES:
            raise InvalidRequest(f"queue_choice is {how!r}; choose {', '.join(NAMES)} or a function")
        self._how = how
        self._turns: dict[str, Iterator[int]] = {}
        self._latencies: dict[str, float] = {}

    @property
    def may_stay(self) -> bool:
        """Return whether several messages in a row may go to one queue, to be sent as one batch."""
        return self._how in ("round-robin", "random", "latency")

    def choose(
        self,
        message: Message,
        queues: Sequence[TopicQueue],
        may_use: Callable[[str], bool] | None = None,
        avoid: str = "",
    ) -> TopicQueue | None:
        """Return a queue whose broker ``may_use`` allows (None: all), another broker than ``avoid`` if there is one.

        None: no broker may be used.  A message with a sharding key goes to its own queue, whatever is asked for.
        """
        key = message.sharding_key
        if key is not None:
            found = queue_of_key(key, queues)
            return found if may_use is None or may_use(found.broker) else None
        usable = queues if may_use is None else [one for one in queues if may_use(one.broker)]
        if not usable:
            return None
        others = [one for one in usable if one.broker != avoid] if avoid else usable
        return self._one_of(message, others or usable)

    def answered(self, broker: str, took_s: float) -> None:
        """Know how long a broker took."""
        before = self._latencies.get(broker)
        self._latencies[broker] = took_s if before is None else before + (took_s - before) * _FORGET

    def _one_of(self, message: Message, queues: Sequence[TopicQueue]) -> TopicQueue:
        how = self._how
        if callable(how):
            return how(message, queues)
        if how == "random":
            return random.choice(queues)
        if how == "hash" and message.keys:
            return queue_of_key(message.keys[0], queues)
        if how == "latency":
            queues = self._fastest(queues)
        turns = self._turns.get(message.topic)
        if turns is None:  # producers that start at once need not meet in one queue
            turns = self._turns[message.topic] = itertools.count(random.randrange(1 << 16))
        return queues[next(turns) % len(queues)]

    def _fastest(self, queues: Sequence[TopicQueue]) -> Sequence[TopicQueue]:
        """Return the queues of the broker that answers fastest; of one that never answered nothing bad is known."""
        known = self._latencies
        best = min(known.get(one.broker, 0.0) for one in queues)
        for broker, took in list(known.items()):
            if took > best:
                known[broker] = took * _FADES
        return [one for one in queues if known.get(one.broker, 0.0) <= best]
