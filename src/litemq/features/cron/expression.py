"""Cron expressions as values: five fields, six with the second first, a macro, or ``@every``.

A parsed expression is integers only, some 300 bytes, and cached by its text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from litemq.errors import BadCron
from litemq.features.cron import fields, search
from litemq.features.cron.search import HORIZON_YEARS, Masks

MAX_LENGTH: Final = 255
MIN_EVERY_MS: Final = 1_000
MAX_EVERY_MS: Final = HORIZON_YEARS * 365 * 86_400_000
WHOLE: Final = "expression"
"""Instead of a field, where all of it is wrong."""

_CACHED: Final = 16_384
"""Expressions that are kept parsed: 5 MB at most."""

MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_SIX: Final = (fields.SECOND, fields.MINUTE, fields.HOUR, fields.DAY, fields.MONTH, fields.WEEKDAY)
_DURATION: Final = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)
_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1_000)
_A_CYCLE_DAY: Final = 10_957
"""1 January 2000; the 28 years from there on have every date on every weekday."""


@dataclass(frozen=True, slots=True)
class Cron:
    """An expression of fields."""

    masks: Masks
    is_fixed: bool
    """Neither minute nor hour starts with ``*``: it names times of day, and keeps to "once a day" when clocks change.

    The second does not count: a job at ``*/10 30 2 * * *`` is one that belongs to 02:30.
    """


@dataclass(frozen=True, slots=True)
class Every:
    """An interval of elapsed time; the zone does not matter."""

    period_ms: int


@lru_cache(maxsize=_CACHED)
def parse(expression: str) -> Cron | Every:
    """Return what an expression means.

    Raises:
        BadCron: it cannot be read, or no date fits it; names the field, its text and what was expected.
    """
    text = expression.strip()
    if len(text) > MAX_LENGTH:
        raise _bad(text, WHOLE, text, f"at most {MAX_LENGTH} characters, not {len(text)}")
    if text.startswith("@"):
        word, _, rest = text.partition(" ")
        if word.lower() == "@every":
            return Every(_period_ms(text, rest.strip()))
        if text.lower() not in MACROS:
            raise _bad(text, WHOLE, text, f"{', '.join(MACROS)}, or @every with a duration")
        text = MACROS[text.lower()]
    return _parse_fields(text)


def _parse_fields(text: str) -> Cron:
    parts = text.split()
    if len(parts) not in (5, 6):
        wanted = "5 fields (minute hour day month weekday) or 6 (second first)"
        raise _bad(text, WHOLE, text, f"{wanted}, not {len(parts)}")
    if len(parts) == 5:
        parts.insert(0, "0")
    second, minute, hour, day, month, weekday = (
        fields.parse(field, part, text) for field, part in zip(_SIX, parts, strict=True)
    )
    masks = Masks(
        seconds=second.mask,
        minutes=minute.mask,
        hours=hour.mask,
        days=day.mask,
        months=month.mask,
        weekdays=weekday.mask,
        from_end=day.from_end,
        nearest=day.nearest,
        last_weekdays=weekday.last,
        nth_weekdays=weekday.nth,
        needs_both=parts[3][0] in "*?" or parts[5][0] in "*?",
    )
    if search.next_day(masks, _A_CYCLE_DAY, _A_CYCLE_DAY + search.HORIZON_DAYS) < 0:
        dates = " ".join(parts[3:])
        raise _bad(text, "day, month and weekday", dates, f"at least one date in {HORIZON_YEARS} years; there is none")
    return Cron(masks, is_fixed=not (parts[1].startswith("*") or parts[2].startswith("*")))


def _period_ms(text: str, duration: str) -> int:
    found = _DURATION.fullmatch(duration)
    if found is None or not duration or len(duration) > 40:
        raise _bad(text, "duration", duration, "days, hours, minutes and seconds in this order, as in 90s, 5m or 1h30m")
    period_ms = sum(int(count or 0) * unit for count, unit in zip(found.groups(), _UNITS_MS, strict=True))
    if not MIN_EVERY_MS <= period_ms <= MAX_EVERY_MS:
        raise _bad(text, "duration", duration, f"1 second to {HORIZON_YEARS} years")
    return period_ms


def _bad(expression: str, field: str, text: str, expected: str) -> BadCron:
    return BadCron(expression, field=field, text=text, expected=expected)
