"""Queue locks: which client of a group may consume a queue in order.

A lock is a lease of 60 s; a client asks again every 20 s.  A client that is gone keeps its locks until they end, as in
RocketMQ: it may still be working on a message that it has pulled.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

LEASE_MS: Final = 60_000
MAX_LOCKS: Final = 100_000

Queue = tuple[str, int]
"""Topic and queue id."""


class QueueLocks:
    """The locks of all groups, at most ``limit``: then no new one is granted until ``expire`` has forgotten some."""

    def __init__(self, limit: int = MAX_LOCKS) -> None:
        self._limit = limit
        self._count = 0
        self._groups: dict[str, dict[Queue, tuple[str, int]]] = {}  # to client and end of the lease

    def __len__(self) -> int:
        return self._count

    def lock(self, group: str, client_id: str, queues: Iterable[Queue], now_ms: int) -> set[Queue]:
        """Lock or renew what is free or already the client's, and return what it holds of ``queues`` now."""
        locks = self._groups.setdefault(group, {})
        granted = set()
        for queue in queues:
            if queue in locks:
                holder, end_ms = locks[queue]
                if holder != client_id and now_ms <= end_ms:
                    continue
            elif self._count >= self._limit:
                continue
            else:
                self._count += 1
            locks[queue] = client_id, now_ms + LEASE_MS
            granted.add(queue)
        if not locks:
            self._groups.pop(group, None)
        return granted

    def unlock(self, group: str, client_id: str, queues: Iterable[Queue]) -> None:
        """Give back what the client holds of ``queues``."""
        locks = self._groups.get(group, {})
        for queue in queues:
            if queue in locks and locks[queue][0] == client_id:
                del locks[queue]
                self._count -= 1
        if not locks:
            self._groups.pop(group, None)

    def holder(self, group: str, queue: Queue, now_ms: int) -> str | None:
        """Return the client that holds a queue."""
        client_id, end_ms = self._groups.get(group, {}).get(queue, (None, 0))
        return client_id if now_ms <= end_ms else None

    def has_live_locks(self, group: str, now_ms: int) -> bool:
        """Return whether any queue is locked: the group consumes in order."""
        return any(now_ms <= end_ms for _, end_ms in self._groups.get(group, {}).values())

    def expire(self, now_ms: int) -> None:
        """Forget leases that have ended."""
        for group, locks in [*self._groups.items()]:
            ended = [queue for queue, (_, end_ms) in locks.items() if end_ms < now_ms]
            for queue in ended:
                del locks[queue]
            self._count -= len(ended)
            if not locks:
                del self._groups[group]
