"""The next run of a job: from its expression, its zone, and a time that is excluded.

When clocks change, a job at fixed times (neither minute nor hour starts with ``*``) keeps to "once": what falls into a
gap runs at the end of the gap, what comes twice runs the first time.  Any other job follows elapsed time: it has no
times in a gap, and runs in both halves of an hour that comes twice.

All times are milliseconds since 1970; runs are at whole seconds, but for ``@every``.
"""

from __future__ import annotations

from litemq.errors import BadCron
from litemq.features.cron.expression import WHOLE, Cron, Every, parse
from litemq.features.cron.search import DAY_S, HORIZON_YEARS, Masks, last_day_of, next_local
from litemq.features.cron.zones import SHIFT_S, Zone, zone


def next_after(expression: str, zone_name: str, after_ms: int, *, anchor_ms: int = 0) -> int | None:
    """Return the first time of an expression that is strictly later than ``after_ms``; None: none in 29 years.

    Args:
        anchor_ms: ``@every`` counts from here; its first time is one period later.

    Raises:
        BadCron: the expression cannot be read.
        UnknownZone: there is no such zone.
    """
    schedule = parse(expression)
    if isinstance(schedule, Every):
        return _next_of_every(schedule, after_ms, anchor_ms)
    return _next_of_cron(schedule, zone(zone_name), after_ms)


def newest_until(expression: str, zone_name: str, after_ms: int, until_ms: int, *, anchor_ms: int = 0) -> int | None:
    """Return the last time that is later than ``after_ms`` and at most ``until_ms``; None when there is none.

    It halves: a year of seconds takes no longer than a year of months.
    """
    newest = next_after(expression, zone_name, after_ms, anchor_ms=anchor_ms)
    if newest is None or newest > until_ms:
        return None
    low, high = newest, until_ms  # a time is at low, none is after high
    while low < high:
        middle = (low + high) // 2
        found = next_after(expression, zone_name, middle, anchor_ms=anchor_ms)
        if found is not None and found <= high:
            newest = low = found
        else:
            high = middle
    return newest


def check(expression: str, zone_name: str, now_ms: int) -> None:
    """Refuse a schedule that cannot be read, or that has no time within the horizon.

    Raises:
        BadCron: the expression is wrong, or never fires.
        UnknownZone: there is no such zone.
    """
    zone(zone_name)
    if next_after(expression, zone_name, now_ms, anchor_ms=now_ms) is None:
        expected = f"at least one time in {HORIZON_YEARS} years in {zone_name}; there is none"
        raise BadCron(expression, field=WHOLE, text=expression, expected=expected)


def _next_of_every(schedule: Every, after_ms: int, anchor_ms: int) -> int:
    periods = max((after_ms - anchor_ms) // schedule.period_ms, 0)
    return anchor_ms + (periods + 1) * schedule.period_ms


def _next_of_cron(schedule: Cron, where: Zone, after_ms: int) -> int | None:
    after = max(after_ms // 1000, -1)
    last_day = last_day_of(after // DAY_S)
    if after // DAY_S > last_day:
        return None
    find = _next_fixed if schedule.is_fixed else _next_elapsed
    found = find(schedule.masks, where, after, last_day)
    return found * 1000 if found >= 0 else None


def _next_fixed(masks: Masks, where: Zone, after: int, last_day: int) -> int:
    """Return the next second that is the first with its local time; a local time in a gap stands for the gap's end."""
    start, end, offset, seen = where.span(after)
    local = next_local(masks, max(after + offset + 1, seen), last_day)
    if local < 0:
        return -1
    # The first span whose clock goes beyond the local time has it, or follows the gap that swallowed it.
    while end + offset <= local:
        start, end, offset, _ = where.span(max(end, local - offset - SHIFT_S))
    return max(start, local - offset)


def _next_elapsed(masks: Masks, where: Zone, after: int, last_day: int) -> int:
    """Return the next second at which a clock in the zone shows a local time that fits."""
    at = after + 1
    while True:
        _, end, offset, _ = where.span(at)
        local = next_local(masks, at + offset, last_day)
        if local < 0:
            return -1
        if local - offset < end:
            return local - offset
        # Clocks change before then.  Right after that they may show again what was searched already; from some days
        # later until shortly before the local time that was found, nothing can fit.
        at = end if end < at + SHIFT_S else max(end, local - offset - SHIFT_S)
