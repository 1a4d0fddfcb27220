"""How much of something came in the last minute, hour and day.

A meter keeps totals at moments when they had changed: seven moments 10 s apart, seven 10 min apart, 25 an hour apart.
Between two of them nothing is known to have come, so that a meter at rest costs nothing.
"""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass
from enum import Enum

_ITEMS = 3
"""Of one moment: time, count, size."""


class Window(Enum):
    """A span that is looked at: its length, how far its moments lie apart, and how many are kept."""

    MINUTE = (60_000, 10_000, 8)
    HOUR = (3_600_000, 600_000, 8)
    DAY = (86_400_000, 3_600_000, 26)

    def __init__(self, span_ms: int, step_ms: int, kept: int) -> None:
        self.span_ms = span_ms
        self.step_ms = step_ms
        self.kept = kept


@dataclass(frozen=True, slots=True)
class Flow:
    """What came within a window."""

    count: int = 0
    size: int = 0
    elapsed_ms: int = 0

    @property
    def per_s(self) -> float:
        """Return messages a second."""
        return self.count * 1000 / max(self.elapsed_ms, 1000)

    @property
    def size_per_s(self) -> float:
        """Return bytes a second."""
        return self.size * 1000 / max(self.elapsed_ms, 1000)


class Meter:
    """One total with its past."""

    __slots__ = ("_past", "changed_ms", "count", "size")

    def __init__(self, now_ms: int) -> None:
        self.changed_ms = now_ms
        """When it was last added to."""
        self.count = 0
        self.size = 0
        self._past = tuple(array("q", (now_ms, 0, 0)) for _ in Window)

    def add(self, count: int, size: int, now_ms: int) -> None:
        """Count what came since the last call."""
        self.count += count
        self.size += size
        self.changed_ms = now_ms
        for window, past in zip(Window, self._past, strict=True):
            if now_ms - past[-_ITEMS] >= window.step_ms:
                past.extend((now_ms, self.count, self.size))
                if len(past) > window.kept * _ITEMS:
                    del past[:_ITEMS]

    def over(self, window: Window, now_ms: int) -> Flow:
        """Return what came within a window that ends now."""
        if self.changed_ms <= now_ms - window.span_ms:
            return Flow(0, 0, window.span_ms)
        past = self._past[_INDEX[window]]
        at = 0
        while at + _ITEMS < len(past) and past[at + _ITEMS] <= now_ms - window.span_ms:
            at += _ITEMS
        elapsed = min(max(now_ms - past[at], 0), window.span_ms)
        return Flow(self.count - past[at + 1], self.size - past[at + 2], elapsed)


_INDEX = {window: index for index, window in enumerate(Window)}


class Rates:
    """Totals of every second of the last ten minutes."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self._past: deque[tuple[int, tuple[int, ...]]] = deque(maxlen=601)

    def sample(self, now_ms: int, *totals: int) -> None:
        """Take down the totals; called once a second."""
        self._past.append((now_ms, totals))

    def per_s(self, name: str, seconds: int) -> float:
        """Return how many a second came in the last ``seconds``."""
        if len(self._past) < 2:
            return 0.0
        at = self._names.index(name)
        last_ms, last = self._past[-1]
        first_ms, first = self._past[max(len(self._past) - 1 - seconds, 0)]
        return (last[at] - first[at]) * 1000 / max(last_ms - first_ms, 1)
