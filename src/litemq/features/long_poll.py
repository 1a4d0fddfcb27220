"""Pulls that wait for messages: who waits where, and until when.

Sans-IO: the broker parks what found nothing, and asks who waits for a queue that got messages, and whose time is up.
A parked pull leaves exactly once: woken, due, or dropped with its connection.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

Queue = tuple[str, int]
"""Topic and queue id."""


@dataclass(slots=True, eq=False)
class Parked(Generic[T]):
    """One pull that waits."""

    queue: Queue
    deadline_ms: int
    owner: Hashable
    pull: T
    is_waiting: bool = True


class LongPolls(Generic[T]):
    """All parked pulls of a broker, at most ``limit``."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._by_queue: dict[Queue, dict[Parked[T], None]] = {}  # a dict: leaving costs the same in any crowd
        self._by_owner: dict[Hashable, set[Parked[T]]] = {}
        self._deadlines: list[tuple[int, int, Parked[T]]] = []
        self._serial = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def next_deadline_ms(self) -> int | None:
        """Return when the next one is due; it may be one that has left meanwhile."""
        return self._deadlines[0][0] if self._deadlines else None

    def park(self, queue: Queue, pull: T, *, owner: Hashable, deadline_ms: int) -> bool:
        """Let a pull wait; False when as many wait as may."""
        if self._count >= self.limit:
            return False
        parked = Parked(queue, deadline_ms, owner, pull)
        self._by_queue.setdefault(queue, {})[parked] = None
        self._by_owner.setdefault(owner, set()).add(parked)
        self._serial += 1
        heapq.heappush(self._deadlines, (deadline_ms, self._serial, parked))
        self._count += 1
        if len(self._deadlines) > 64 + 2 * self._count:  # those that were woken are still in the heap
            self._deadlines = [item for item in self._deadlines if item[2].is_waiting]
            heapq.heapify(self._deadlines)
        return True

    def waits_for(self, queue: Queue) -> bool:
        """Return whether anybody waits for this queue."""
        return queue in self._by_queue

    def wake(self, queue: Queue) -> list[Parked[T]]:
        """Take out those who wait for a queue, the longest waiting first."""
        woken = [*self._by_queue.pop(queue, ())]
        for parked in woken:
            self._leave(parked)
        return woken

    def due(self, now_ms: int) -> list[Parked[T]]:
        """Take out those whose time is up."""
        found = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            parked = heapq.heappop(self._deadlines)[2]
            if parked.is_waiting:
                self._unlist(parked)
                self._leave(parked)
                found.append(parked)
        return found

    def drop(self, owner: Hashable) -> int:
        """Forget the pulls of a connection that is gone; return how many."""
        gone = self._by_owner.pop(owner, set())
        for parked in gone:
            self._unlist(parked)
            parked.is_waiting = False
        self._count -= len(gone)
        return len(gone)

    def take_all(self) -> list[Parked[T]]:
        """Take out every one: the broker stops."""
        return [parked for queue in list(self._by_queue) for parked in self.wake(queue)]

    def _leave(self, parked: Parked[T]) -> None:
        parked.is_waiting = False
        self._count -= 1
        owned = self._by_owner[parked.owner]
        owned.discard(parked)
        if not owned:
            del self._by_owner[parked.owner]

    def _unlist(self, parked: Parked[T]) -> None:
        waiting = self._by_queue[parked.queue]
        del waiting[parked]
        if not waiting:
            del self._by_queue[parked.queue]
