"""Latencies in buckets that grow by a fixed ratio: any percentile within 1 % of the true one, in a few kilobytes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

_RATIO: Final = 1.02
"""From one bucket to the next: its middle is at most 1 % from anything in it."""
_LOG: Final = math.log(_RATIO)
_MIDDLE: Final = 2 / (1 + _RATIO)
"""From the upper end of a bucket to the value that is as far from both ends, in per cent of what may be there."""

PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9)


class Histogram:
    """Counts values above 0; of one at or below it only the count is kept.

    >>> latencies = Histogram([1, 2, 3, 4])
    >>> round(latencies.percentile(50)), latencies.max
    (2, 4)
    """

    def __init__(self, values: Iterable[float] = ()) -> None:
        self._counts: dict[int, int] = {}
        self._zeros = 0
        self.count = 0
        self.total = 0.0
        self.max = 0.0
        for value in values:
            self.add(value)

    def add(self, value: float, times: int = 1) -> None:
        """Count a value, so many times."""
        self.count += times
        if value <= 0:
            self._zeros += times
            return
        self.total += value * times
        if value > self.max:
            self.max = value
        bucket = math.ceil(math.log(value) / _LOG)
        self._counts[bucket] = self._counts.get(bucket, 0) + times

    def merge(self, other: Histogram) -> None:
        """Count all that another has counted, also while another thread adds to it."""
        for bucket, count in other._counts.copy().items():
            self._counts[bucket] = self._counts.get(bucket, 0) + count
        self._zeros += other._zeros
        self.count += other.count
        self.total += other.total
        self.max = max(self.max, other.max)

    def percentile(self, percent: float) -> float:
        """Return the value that ``percent`` of all do not exceed; 0 when nothing was counted."""
        left = max(math.ceil(self.count * percent / 100), 1) - self._zeros
        if left <= 0:
            return 0.0
        for bucket in sorted(self._counts):
            left -= self._counts[bucket]
            if left <= 0:
                return min(_RATIO**bucket * _MIDDLE, self.max)
        return self.max

    @property
    def mean(self) -> float:
        """The mean; 0 when nothing was counted."""
        return self.total / self.count if self.count else 0.0
