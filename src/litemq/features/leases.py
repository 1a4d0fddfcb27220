"""Leases on old messages: a reader says how far back it still reads, and until when its word holds.

A lease is renewed by its name.  It keeps nothing by itself: whoever removes messages asks for ``floors`` and positions,
and may go over them.  One that nobody renews ends, so that a reader that died holds nothing for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LONGEST_MS: Final = 24 * 3_600_000
MOST: Final = 1_000
"""Leases of one broker."""

Queue = tuple[str, int]
"""Topic and queue id."""


@dataclass(frozen=True, slots=True)
class Lease:
    """What a reader still needs: everything from ``position`` of the log on, and of each queue from an offset on."""

    name: str
    position: int
    offsets: Mapping[Queue, int]
    until_ms: int


class LeasesFull(Exception):
    """There are as many leases as may be."""


class Leases:
    """The leases of one broker."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._held: dict[str, Lease] = {}
        self.taken = 0
        self.renewed = 0
        self.released = 0
        self.expired = 0
        self.refused = 0

    def __len__(self) -> int:
        return len(self._held)

    def take(self, name: str, position: int, offsets: Mapping[Queue, int], *, lease_ms: int, now_ms: int) -> Lease:
        """Take or renew a lease, which is moved; a lease lasts at most a day.

        Raises:
            LeasesFull: it would be one too many.
        """
        self.expire(now_ms)
        if name in self._held:
            self.renewed += 1
        elif len(self._held) >= self._most:
            self.refused += 1
            raise LeasesFull
        else:
            self.taken += 1
        lease = Lease(name, position, dict(offsets), now_ms + min(lease_ms, LONGEST_MS))
        self._held[name] = lease
        return lease

    def release(self, name: str) -> bool:
        """Give a lease back; return whether there was one."""
        found = self._held.pop(name, None)
        self.released += found is not None
        return found is not None

    def expire(self, now_ms: int) -> list[Lease]:
        """End and return the leases whose time is over."""
        over = [lease for lease in self._held.values() if lease.until_ms <= now_ms]
        for lease in over:
            del self._held[lease.name]
        self.expired += len(over)
        return over

    def held(self) -> list[Lease]:
        """Return the leases, those that end first first."""
        return sorted(self._held.values(), key=lambda lease: (lease.until_ms, lease.name))

    def floors(self, topic: str) -> dict[int, int]:
        """Return the offset of each queue of a topic that somebody still needs."""
        floors: dict[int, int] = {}
        for lease in self._held.values():
            for (held, queue_id), offset in lease.offsets.items():
                if held == topic:
                    floors[queue_id] = min(offset, floors.get(queue_id, offset))
        return floors
