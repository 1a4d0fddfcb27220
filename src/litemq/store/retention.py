"""Retention: which segments may go, and how they go without taking live state along.

Whole segments go by age and by disk use (``plan``: a decision without I/O); before one goes, table changes and group
progress that only it holds are appended again at the tail (``carry``).  The last segment never goes, nor one that a
reader holds when it would go, except by force.

    crash after …       leaves                                           the next start
    carrying            copies at the tail                               meets them twice, which changes nothing
    removing a segment  queue and index entries below the log's start    ignores them; they go with the next segment
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from litemq.config import StoreConfig

MAX_SEGMENTS_PER_PASS = 10
_NOWHERE = 1 << 62


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """What a decision needs to know of one segment; ``newest_ms`` bounds the store times in it from above."""

    start: int
    end: int
    newest_ms: int


@dataclass(frozen=True, slots=True)
class Hold:
    """A reader's claim on everything from ``position`` on, until ``until_ms``."""

    name: str
    position: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What a pass does: remove everything below ``start`` (None: nothing); refuse messages or not."""

    start: int | None = None
    forced: bool = False
    overruled: tuple[str, ...] = ()
    """Holds that lose against a full disk."""
    refuse: bool = False


def plan(
    segments: list[SegmentFacts], holds: list[Hold], config: StoreConfig, *, now_ms: int, total: int, free: int
) -> Plan:
    """Decide what goes.  ``segments`` are those that may go at all, oldest first: the last one is not among them."""
    used = 1 - free / total if total else 0.0
    scarce = free < config.disk_free_floor
    refuse = scarce and used >= config.disk_refuse_ratio
    forced = scarce and used >= config.disk_force_ratio
    at_any_hour = config.delete_hour is None or (scarce and used >= config.disk_start_ratio)
    hour = datetime.fromtimestamp(now_ms / 1000).hour  # noqa: DTZ006 - the operator's own clock
    oldest_ms = now_ms - int(config.retention_hours * 3_600_000)
    held = held_from(holds, now_ms)
    start: int | None = None
    if at_any_hour or hour == config.delete_hour:
        for segment in segments[:MAX_SEGMENTS_PER_PASS]:
            if segment.newest_ms >= oldest_ms or segment.end > held:
                break
            start = segment.end
    if forced and segments and (start is None or start <= segments[0].start):
        start = segments[0].end  # one a pass: the disk is looked at again before the next
        return Plan(start, forced=True, overruled=losers(holds, start, now_ms), refuse=refuse)
    return Plan(start, refuse=refuse)


def held_from(holds: Iterable[Hold], now_ms: int) -> int:
    """Return the position from which on a hold keeps everything; no log gets so far when there is none."""
    return min((hold.position for hold in holds if hold.until_ms > now_ms), default=_NOWHERE)


def losers(holds: Iterable[Hold], start: int, now_ms: int) -> tuple[str, ...]:
    """Return the names of the holds that a log which begins at ``start`` breaks."""
    return tuple(hold.name for hold in holds if hold.until_ms > now_ms and hold.position < start)
