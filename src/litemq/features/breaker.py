"""Circuit breaker: whoever fails too often is left alone for a while, then tried with a single call.

    closed     all calls go through, and are counted
    open       none does, for ``open_s``
    half-open  one does: it closes the breaker when it succeeds, and opens it again when it fails

Calls are counted in two halves of ``window_s``, so that what was long ago has no say.
"""

from __future__ import annotations

from typing import Literal

State = Literal["closed", "open", "half-open"]


class Breaker:
    """Counts successes and failures; times are seconds of a clock that never goes back.

    ``failure_ratio``: more failures than that, among ``min_calls`` or more, open it.  A success that took longer than
    ``slow_s`` counts as a failure.
    """

    __slots__ = (
        *("_before", "_half_since", "_now", "_open_until", "_probe_until", "failure_ratio", "min_calls", "open_s"),
        *("slow_s", "window_s"),
    )

    def __init__(
        self,
        *,
        failure_ratio: float = 0.5,
        min_calls: int = 10,
        open_s: float = 30.0,
        slow_s: float | None = None,
        window_s: float = 10.0,
    ) -> None:
        self.failure_ratio = failure_ratio
        self.min_calls = min_calls
        self.open_s = open_s
        self.slow_s = slow_s
        self.window_s = window_s
        self._now = [0, 0]
        """Calls and failures of this half of the window."""
        self._before = [0, 0]
        self._half_since = float("-inf")
        self._open_until: float | None = None
        self._probe_until = float("-inf")

    @property
    def state(self) -> State:
        """Return where it stands, as of the last question."""
        if self._open_until is None:
            return "closed"
        return "half-open" if self._probe_until > self._open_until else "open"

    def may(self, now: float) -> bool:
        """Return whether a call would be allowed now; unlike ``allows`` this promises none."""
        return self._open_until is None or (now >= self._open_until and now >= self._probe_until)

    def allows(self, now: float) -> bool:
        """Return whether a call may be made now; its end must be told."""
        if self._open_until is None:
            return True
        if not self.may(now):
            return False
        self._probe_until = now + self.open_s  # the one that tries it; another may if this one never ends
        return True

    def succeeded(self, now: float, took_s: float = 0.0, *, count: int = 1) -> None:
        """Know that a call went well, or several that count as one probe."""
        if self.slow_s is not None and took_s > self.slow_s:
            self.failed(now)
        elif self._open_until is None:
            self._count(now, count, 0)
        elif now >= self._open_until:
            self._close()

    def failed(self, now: float) -> None:
        """Know that a call failed."""
        if self._open_until is not None:
            if now >= self._open_until:
                self._open(now)
            return
        self._count(now, 1, 1)
        calls = self._now[0] + self._before[0]
        failures = self._now[1] + self._before[1]
        if calls >= self.min_calls and failures > calls * self.failure_ratio:
            self._open(now)

    def _count(self, now: float, calls: int, failures: int) -> None:
        half = self.window_s / 2
        if now - self._half_since >= half:
            is_next = now - self._half_since < self.window_s
            self._before = self._now if is_next else [0, 0]
            self._now = [0, 0]
            # From where the last half ended: were it from now on, that half would count for too long.
            self._half_since = self._half_since + half if is_next else now
        self._now[0] += calls
        self._now[1] += failures

    def _open(self, now: float) -> None:
        self._open_until = now + self.open_s
        self._probe_until = float("-inf")

    def _close(self) -> None:
        self._open_until = None
        self._probe_until = float("-inf")
        self._now, self._before = [0, 0], [0, 0]
