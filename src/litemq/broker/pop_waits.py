"""Who waits for messages by receipts, and what wakes them: a message, a time that is over, an acknowledgement.

Messages are noticed the way that parked pulls notice them: for every queue that anybody waits for, one pull of ours is
parked among them.
"""

from __future__ import annotations

import heapq
import itertools
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from litemq.broker._pull_cy import Pull
from litemq.broker.pull import Puller
from litemq.features.filters import TagFilter

if TYPE_CHECKING:
    from litemq.store._slice_cy import Pulled
    from litemq.store._tails_cy import QueueTail

logger = logging.getLogger(__name__)

Key = tuple[str, str, int]
"""Group, topic, and the queue that is waited for, -1: any."""

_PARK_MS = 30_000
_ALL = TagFilter("*")


class Waits(Protocol):
    """Somebody who waits."""

    deadline_ms: int

    @property
    def key(self) -> Key:
        """Return what it waits for."""

    @property
    def is_gone(self) -> bool:
        """Return whether nobody would take an answer."""


W = TypeVar("W", bound=Waits)


class Waiting(Generic[W]):
    """All who wait, at most ``limit``; those of one key in the order in which they came."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        self._lists: dict[Key, OrderedDict[W, None]] = {}
        self._by_topic: dict[str, set[Key]] = {}
        self._deadlines: list[tuple[int, int, W]] = []
        self._numbers = itertools.count()

    def add(self, one: W, *, again: bool = False) -> bool:
        """Let one wait, ``again`` before the others; False: as many wait as may."""
        if self.count >= self.limit and not again:
            return False
        waiting = self._lists.setdefault(one.key, OrderedDict())
        waiting[one] = None
        if again:
            waiting.move_to_end(one, last=False)
        else:
            heapq.heappush(self._deadlines, (one.deadline_ms, next(self._numbers), one))
        self._by_topic.setdefault(one.key[1], set()).add(one.key)
        self.count += 1
        return True

    def take(self, key: Key) -> W | None:
        """Take out the one of a key who waits longest and is still there."""
        while (waiting := self._lists.get(key)) is not None:
            one = next(iter(waiting))
            self._drop(one)
            if not one.is_gone:
                return one
        return None

    def due(self, now_ms: int) -> list[W]:
        """Take out those whose time is up."""
        found = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            one = heapq.heappop(self._deadlines)[2]
            if one in self._lists.get(one.key, ()):
                self._drop(one)
                found.append(one)
        return found

    def take_all(self) -> list[W]:
        """Take out everyone."""
        found = [one for waiting in self._lists.values() for one in waiting]
        for one in found:
            self._drop(one)
        self._deadlines.clear()
        return found

    def keys(self, topic: str) -> list[Key]:
        """Return what is waited for in a topic."""
        return list(self._by_topic.get(topic, ()))

    def topics(self) -> list[str]:
        """Return the topics that anybody waits for."""
        return list(self._by_topic)

    def length(self, group: str, topic: str, queue_id: int) -> int:
        """Return how many members of a group wait for a queue; -1: for any."""
        keys = [(group, topic, queue_id)] if queue_id >= 0 else self.keys(topic)
        return sum(len(self._lists.get(key, ())) for key in keys if key[0] == group)

    def _drop(self, one: W) -> None:
        waiting = self._lists[one.key]
        del waiting[one]
        self.count -= 1
        if not waiting:
            del self._lists[one.key]
            keys = self._by_topic[one.key[1]]
            keys.discard(one.key)
            if not keys:
                del self._by_topic[one.key[1]]


class Watch(Pull):
    """A parked pull that tells once when its queue has got a message, and is answered to nobody."""

    def __init__(
        self, owner: Hashable, puller: Puller, topic: str, queue_id: int, told: Callable[[Watch], None]
    ) -> None:
        super().__init__(owner, "", topic, queue_id, _ALL, max_count=1, max_bytes=1, park_ms=_PARK_MS)
        self._puller = puller
        self._told = told

    def begin(self, tail: QueueTail, high: int) -> bool:
        """Wait for a message at or behind ``high``, the queue's readable end; False: too many wait."""
        self.tail = tail
        self.offset = high
        return bool(self._puller.park(self, high))

    def give(self, _pulled: Pulled) -> int:
        """Tell of a message; what was read is counted for nobody."""
        self._puller.delivered.pop(self.key, None)
        self._puller.found -= 1
        self._told(self)
        return 0

    def tell(self, _verdict: object, _next_offset: int, _low: int, _high: int) -> int:
        """Tell that there may be something new, or that the wait was long."""
        self._told(self)
        return 0

    def refuse(self, error: object) -> int:
        """Tell all the same: whoever waits finds out what is wrong."""
        logger.warning("a queue that is waited for cannot be read: topic=%s reason=%s", self.topic, error)
        self._told(self)
        return 0
