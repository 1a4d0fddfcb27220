"""Where time comes from: passed in, so that every rule can be tested without sleeping."""

from __future__ import annotations

import time
from typing import Protocol

from litemq._clock_cy import wall_ms


class Clock(Protocol):
    """What a component needs to know of time."""

    def now_ms(self) -> int:
        """Return wall-clock milliseconds since the epoch."""

    def monotonic_ms(self) -> int:
        """Return milliseconds that never run back; only differences mean something."""


class SystemClock:
    """The machine's clock."""

    now_ms = staticmethod(wall_ms)

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when told to."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, ms: int) -> None:
        """Let ``ms`` milliseconds pass."""
        self._now_ms += ms
        self._monotonic_ms += ms

    def set_wall(self, now_ms: int) -> None:
        """Set the wall clock alone, forward or back, as an operator or NTP would."""
        self._now_ms = now_ms
