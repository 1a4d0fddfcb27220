"""RocketMQ's delay levels, 1 to 18: 1s 5s 10s 30s 1m … 10m 20m 30m 1h 2h."""

from __future__ import annotations

from typing import Final

from litemq.format._scan_cy import DELAY_LEVELS_MS

MAX_LEVEL: Final = len(DELAY_LEVELS_MS)

LEVELS_TEXT: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""As RocketMQ's ``messageDelayLevel`` setting, which clients and tools show, has them."""


def clamp(level: int) -> int:
    """Return the level that is meant: 0 for none, 18 for anything above."""
    return max(0, min(level, MAX_LEVEL))


def delay_ms(level: int) -> int:
    """Return how long a level waits."""
    level = clamp(level)
    return DELAY_LEVELS_MS[level - 1] if level else 0


def schedule_queue(level: int) -> int:
    """Return the queue of ``SCHEDULE_TOPIC_XXXX`` that holds messages of a level."""
    if not 1 <= level <= MAX_LEVEL:
        raise ValueError(f"level {level} has no queue, it must be 1 to {MAX_LEVEL}")
    return level - 1
