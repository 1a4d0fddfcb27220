"""Kernel: staying awake for a request that is about to come.

A client that sends its next request when it has the last answer makes a server sleep and wake for every message, and
on a virtual machine waking takes longer than all the rest.  So while requests come one at a time, each soon after the
last one, the loop looks for the next one again and again instead of sleeping.  Pipelined requests, very many at once
and rare ones end that: the first need no waking, the others would pay with CPU time for nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

_SOONEST_NS = cython.declare(cython.longlong, 10_000)
"""Requests that follow each other faster do not wait for answers."""

STREAK = 16
"""So many requests in a row, one at a time and each soon after the last, let the loop stay awake."""

_STREAK = cython.declare(cython.longlong, STREAK)


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cclass
class BusyPoll:
    """Keeps a loop awake for at most ``limit_us`` after a request; 0: never.  ``turns`` counts how often it did."""

    if not cython.compiled:
        __slots__ = ("is_awake", "last", "limit_ns", "look_again", "loop", "now_ns", "streak", "turns")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limit_us: int,
        now_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.loop = loop
        self.limit_ns = limit_us * 1000
        self.now_ns = now_ns
        self.look_again = self.look  # bound once
        self.last = 0
        self.streak = 0
        self.is_awake = False
        self.turns = 0

    @cython.ccall
    @cython.exceptval(-1)
    def note(self, count: cython.longlong) -> cython.int:
        """Know that a read brought ``count`` requests, which are served."""
        if count != 1 or self.limit_ns == 0:
            self.streak = 0
            return 0
        now: cython.longlong = self.now_ns()
        gap: cython.longlong = now - self.last
        self.last = now
        if gap < _SOONEST_NS or gap > self.limit_ns:
            self.streak = 0
            return 0
        self.streak += 1
        if self.streak >= _STREAK and not self.is_awake:
            self.is_awake = True
            self.loop.call_soon(self.look_again)
        return 0

    def look(self) -> None:
        """Keep the loop from sleeping once more: it looks at its sockets between two of these calls."""
        now: cython.longlong = self.now_ns()
        self.turns += 1
        if self.streak > 0 and now - self.last <= self.limit_ns:
            self.loop.call_soon(self.look_again)
        else:
            self.is_awake = False
