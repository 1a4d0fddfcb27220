"""Kernel: who waits for messages of which queue, and until when.

Sans-IO: the broker parks whoever found nothing, and asks who waits for a queue that got messages, and whose time is up.
A parked one leaves exactly once: woken, due, or dropped with its owner.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if TYPE_CHECKING:
    from collections.abc import Hashable

_STEP_MS = cython.declare(cython.longlong, 128)
"""Deadlines of one such step are looked at together."""


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cclass
class Waiter:
    """One who may wait for a queue: made once, and parked as often as it finds nothing.

    ``owner`` takes it along when it goes: a connection.  ``step`` is where it is listed by its deadline, -1: nowhere.
    """

    if not cython.compiled:
        __slots__ = ("deadline_ms", "is_waiting", "owner", "queue", "step")

    def __init__(self, owner: Hashable) -> None:
        self.owner = owner
        self.queue: Hashable = None
        self.deadline_ms = 0
        self.is_waiting = False
        self.step = -1


@cython.cclass
class LongPolls:
    """All who wait, at most ``limit``."""

    if not cython.compiled:
        __slots__ = ("by_owner", "by_queue", "by_step", "count", "limit", "listed")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        self.by_queue: dict[Hashable, dict[Waiter, None]] = {}  # a dict: leaving costs the same in any crowd
        self.by_owner: dict[Hashable, set[Waiter]] = {}
        self.by_step: dict[int, list[Waiter]] = {}
        self.listed = 0
        """Deadlines, and how many are listed.  Whoever is woken stays there, and is listed again only
        when that is too late."""

    def __len__(self) -> int:
        return self.count

    @cython.ccall
    @cython.exceptval(-1)
    def park(self, waiter: Waiter, queue: Hashable, deadline_ms: cython.longlong) -> cython.bint:
        """Let it wait; False when as many wait as may."""
        if waiter.is_waiting:
            raise ValueError("it waits already")
        if self.count >= self.limit:
            return False
        waiter.queue = queue
        waiter.deadline_ms = deadline_ms
        waiter.is_waiting = True
        crowd: dict[Waiter, None] | None = self.by_queue.get(queue)
        if crowd is None:
            self.by_queue[queue] = crowd = {}
        crowd[waiter] = None
        owned: set[Waiter] | None = self.by_owner.get(waiter.owner)
        if owned is None:
            self.by_owner[waiter.owner] = owned = set()
        owned.add(waiter)
        self.list_deadline(waiter)
        self.count += 1
        if self.listed > 1024 + 4 * self.count:
            self.prune()
        return True

    @cython.cfunc
    @cython.exceptval(-1)
    def list_deadline(self, waiter: Waiter) -> cython.int:
        step: cython.longlong = waiter.deadline_ms // _STEP_MS
        if waiter.step < 0 or waiter.step > step:
            waiter.step = step
            due: list[Waiter] | None = self.by_step.get(step)
            if due is None:
                self.by_step[step] = due = []
            due.append(waiter)
            self.listed += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def prune(self) -> cython.int:
        """Take those out of the lists of deadlines who do not wait any more."""
        waiter: Waiter
        lists = self.by_step
        self.by_step = {}
        self.listed = 0
        for step, waiters in lists.items():
            for waiter in waiters:
                if waiter.step == step:
                    waiter.step = -1
                    if waiter.is_waiting:
                        self.list_deadline(waiter)
        return 0

    def queues(self) -> list[Hashable]:
        """Return the queues that anybody waits for."""
        return list(self.by_queue)

    def waits_for(self, queue: Hashable) -> bool:
        """Return whether anybody waits for this queue."""
        return queue in self.by_queue

    @cython.ccall
    def wake(self, queue: Hashable) -> list:  # type: ignore[type-arg] # the .pxd wants it bare
        """Take out those who wait for a queue, the longest waiting first."""
        waiter: Waiter
        woken = list(self.by_queue.pop(queue, ()))
        for waiter in woken:
            self.leave(waiter)
        return woken

    def due(self, now_ms: cython.longlong) -> list[Waiter]:
        """Take out those whose time is up, the earliest first."""
        waiter: Waiter
        found = []
        for step in [step for step in self.by_step if step * _STEP_MS <= now_ms]:
            waiters = self.by_step.pop(step)
            self.listed -= len(waiters)
            for waiter in waiters:
                if waiter.step != step:
                    continue  # listed earlier meanwhile
                waiter.step = -1
                if not waiter.is_waiting:
                    continue
                if waiter.deadline_ms > now_ms:
                    self.list_deadline(waiter)
                    continue
                self.unlist(waiter)
                self.leave(waiter)
                found.append(waiter)
        found.sort(key=attrgetter("deadline_ms"))
        return found

    def drop(self, owner: Hashable) -> int:
        """Forget those whose owner is gone; return how many waited."""
        waiter: Waiter
        gone = self.by_owner.pop(owner, set())
        for waiter in gone:
            self.unlist(waiter)
            waiter.is_waiting = False
        self.count -= len(gone)
        return len(gone)

    def take_all(self) -> list[Waiter]:
        """Take out every one: the broker stops."""
        return [waiter for queue in list(self.by_queue) for waiter in self.wake(queue)]

    @cython.cfunc
    @cython.exceptval(-1)
    def leave(self, waiter: Waiter) -> cython.int:
        waiter.is_waiting = False
        self.count -= 1
        owned: set[Waiter] = self.by_owner[waiter.owner]
        owned.discard(waiter)
        if not owned:
            del self.by_owner[waiter.owner]
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def unlist(self, waiter: Waiter) -> cython.int:
        crowd: dict[Waiter, None] = self.by_queue[waiter.queue]
        del crowd[waiter]
        if not crowd:
            del self.by_queue[waiter.queue]
        return 0
