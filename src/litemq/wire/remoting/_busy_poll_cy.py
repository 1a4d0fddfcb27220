"""Kernel: staying awake for a request that is about to come.

A client that sends its next request when it has the last answer makes a server sleep and wake for every message, and
on a virtual machine waking takes longer than all the rest.  So while requests come one at a time, each soon after the
last one, the loop looks for the next one again and again instead of sleeping; while they all come from the same few
connections, it looks at their sockets most of the time, which takes a fraction of a turn of the loop.  Pipelined
requests and rare ones end that: the first need no waking, the others would pay with CPU time for nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.litemq.wire.remoting._receiver_cy import Receiver, give_way, read_first
else:
    from litemq.wire.remoting._receiver_cy import Receiver, give_way, read_first

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

_SOONEST_NS = cython.declare(cython.longlong, 10_000)
"""Requests that follow each other faster keep nobody awake: the loop has no time to sleep."""

STREAK = 16
"""So many requests in a row, one at a time and each soon after the last, let the loop stay awake."""
SOURCES = 4
"""Connections whose sockets are looked at; a loop with more of them looks at all of its own."""

_STREAK = cython.declare(cython.longlong, STREAK)
_SOURCES = cython.declare(cython.Py_ssize_t, SOURCES)
_LOOKS = cython.declare(cython.int, 16)
"""Looks at each of these sockets between two turns of the loop, together 10 to 25 µs: so long may others wait."""


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cclass
class BusyPoll:
    """Keeps a loop awake for at most ``limit_us`` after a request; 0: never.  ``turns`` counts how often it did."""

    if not cython.compiled:
        __slots__ = (
            *("familiar", "is_awake", "last", "limit_ns", "look_again", "loop", "now_ns", "sources", "streak", "turns"),
        )

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
        self.sources: list[Receiver] = []
        """Connections that the last requests came from, the one that was met last at the end."""
        self.familiar = 0
        """How many requests in a row came from these alone."""
        self.is_awake = False
        self.turns = 0

    @cython.ccall
    @cython.exceptval(-1)
    def note(self, count: cython.longlong, source: Receiver) -> cython.int:
        """Know that a read of ``source`` brought ``count`` requests, which are served."""
        if count != 1 or self.limit_ns == 0:
            self.streak = 0
            return 0
        now: cython.longlong = self.now_ns()
        gap: cython.longlong = now - self.last
        self.last = now
        if gap > self.limit_ns:
            self.streak = 0
            return 0
        if gap < _SOONEST_NS:
            return 0
        self.streak += 1
        self.familiar += 1
        if source not in self.sources:
            self.familiar = 0
            self.sources.append(source)
            if len(self.sources) > _SOURCES:
                del self.sources[0]
        if self.streak >= _STREAK and not self.is_awake:
            self.is_awake = True
            self.loop.call_soon(self.look_again)
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def forget(self, source: Receiver) -> cython.int:
        """Let go of a connection that is lost."""
        if source in self.sources:
            self.sources.remove(source)
        return 0

    def look(self) -> None:
        """Keep the loop from sleeping once more: it looks at its sockets between two of these calls."""
        now: cython.longlong = self.now_ns()
        self.turns += 1
        if self.streak > 0 and now - self.last <= self.limit_ns:
            self.loop.call_soon(self.look_again)
            if self.familiar >= _STREAK:
                read_first(self.sources, _LOOKS)
            else:
                give_way()
        else:
            self.sources.clear()
            self.familiar = 0
            self.is_awake = False
