"""When cron expressions fire, found out second by second from the rules of docs/reference/cron-expressions.md.

Nothing here reads an expression: ``random_expression`` makes its text and what it means side by side.
"""

from __future__ import annotations

import calendar
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

Day = Callable[[date], bool]
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
ZONES = (
    *("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Pacific/Kwajalein"),
    *("Africa/Monrovia", "Asia/Kathmandu", "Africa/Casablanca", "Asia/Gaza", "America/St_Johns", "Antarctica/Troll"),
    *("Pacific/Chatham", "Asia/Tehran", "America/Caracas", "Asia/Pyongyang", "Antarctica/Casey", "Pacific/Fakaofo"),
    *("America/Sao_Paulo", "Africa/Cairo", "Asia/Manila", "America/Scoresbysund", "Atlantic/Azores", "Asia/Hebron"),
)
"""Shifts by half an hour, two hours, a day; offsets of odd minutes and seconds; midnights that are missing."""


@dataclass(frozen=True)
class Expression:
    """A text, and what it means."""

    text: str
    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    months: frozenset[int]
    day: Day
    weekday: Day
    needs_both: bool
    is_fixed: bool

    def has_day(self, at: date) -> bool:
        """Return whether a date fits."""
        if at.month not in self.months:
            return False
        fits = self.day(at), self.weekday(at)
        return all(fits) if self.needs_both else any(fits)

    def has_dates(self) -> bool:
        """Return whether any date of 28 years fits: they have every date on every weekday."""
        return any(self.has_day(at) for at in islice(days_from(date(2000, 1, 1)), 28 * 366))


def fires(expression: Expression, clock: list[datetime], start: int) -> list[int]:
    """Return the seconds at which an expression fires, of those whose local times ``clock`` lists from ``start`` on.

    The first entry of ``clock`` is the second before ``start``; clocks must not have changed shortly before it.
    """
    seconds, minutes, hours = expression.seconds, expression.minutes, expression.hours
    days: dict[date, bool] = {}

    def fits(local: datetime) -> bool:
        if local.hour not in hours or local.minute not in minutes or local.second not in seconds:
            return False
        at = local.date()
        if at not in days:
            days[at] = expression.has_day(at)
        return days[at]

    found = []
    highest = clock[0]
    second = timedelta(seconds=1)
    for at, local in enumerate(clock[1:], start):
        if not expression.is_fixed:
            if fits(local):
                found.append(at)
        elif local > highest:
            # Each local time counts when the clock reaches it, or jumps over it, for the first time.
            reached = highest + second
            while not fits(reached) and reached < local:
                reached += second
            if fits(reached):
                found.append(at)
            highest = local
    return found


def clock_of(zone: str, start: int, end: int) -> list[datetime]:
    """Return what a clock in a zone shows at each second, from ``start`` until before ``end``."""
    info = ZoneInfo(zone)
    return [datetime.fromtimestamp(at, info).replace(tzinfo=None) for at in range(start, end)]


def changes(zone: str, first_year: int, last_year: int) -> list[int]:
    """Return the hours, as seconds since 1970, in which the clocks of a zone change."""
    info = ZoneInfo(zone)
    start = int(datetime(first_year, 1, 1, tzinfo=UTC).timestamp())
    end = int(datetime(last_year + 1, 1, 1, tzinfo=UTC).timestamp())

    def offset(at: int) -> timedelta | None:
        return datetime.fromtimestamp(at, info).utcoffset()

    days = [at for at in range(start, end, 86_400) if offset(at) != offset(at + 86_400)]
    return [next(at for at in range(day, day + 86_400, 3_600) if offset(at) != offset(at + 3_600)) for day in days]


# -- expressions -------------------------------------------------------------------------------------


def random_expression(rng: random.Random, *, plain: bool = False, second: bool | None = None) -> Expression:
    """Return an expression; ``plain``: only what every cron has, ``second``: with a field of seconds or without."""
    has_second = rng.random() < 0.5 if second is None else second
    second_text, seconds = _field(rng, 0, 59) if has_second else ("", frozenset({0}))
    minute_text, minutes = _field(rng, 0, 59)
    hour_text, hours = _field(rng, 0, 23)
    month_text, months = ("*", frozenset(range(1, 13))) if rng.random() < 0.6 else _field(rng, 1, 12, MONTHS)
    day_text, day = _day(rng, plain)
    weekday_text, weekday = _weekday(rng, plain)
    return Expression(
        " ".join(filter(None, (second_text, minute_text, hour_text, day_text, month_text, weekday_text))),
        seconds,
        minutes,
        hours,
        months,
        day,
        weekday,
        needs_both=day_text[0] in "*?" or weekday_text[0] in "*?",
        is_fixed=minute_text[0] != "*" and hour_text[0] != "*",
    )


def _field(rng: random.Random, low: int, high: int, names: list[str] | None = None) -> tuple[str, frozenset[int]]:
    def shown(value: int) -> str:
        return names[value - low] if names and rng.random() < 0.5 else str(value)

    def item(kind: str) -> tuple[str, set[int]]:
        first = rng.randint(low, high)
        last = rng.randint(min(first + 1, high), high)
        if first == last and kind == "stepped":  # cronsim takes 5-5/2 for 5/2
            kind = "value"
        step = rng.randint(1, max(2, (high - low) // 2))
        return {
            "value": lambda: (shown(first), {first}),
            "range": lambda: (f"{shown(first)}-{shown(last)}", set(range(first, last + 1))),
            "stepped": lambda: (f"{first}-{last}/{step}", set(range(first, last + 1, step))),
            "open": lambda: (f"{first}/{step}", set(range(first, high + 1, step))),
            "every": lambda: (f"*/{step}", set(range(low, high + 1, step))),
        }[kind]()

    if rng.random() < 0.25:
        return "*", frozenset(range(low, high + 1))
    items = [
        item(rng.choice(["value", "range", "stepped", "open", "every"])) for _ in range(rng.choice([1, 1, 1, 2, 3]))
    ]
    return ",".join(text for text, _ in items), frozenset().union(*(values for _, values in items))


def _length(at: date) -> int:
    return calendar.monthrange(at.year, at.month)[1]


def _workday_near(at: date, wanted: int) -> bool:
    """Return whether a date is the workday nearest to a day of its month."""
    length = _length(at)
    if wanted > length:
        return False
    workdays = [day for day in range(1, length + 1) if at.replace(day=day).weekday() < 5]
    # Saturday is nearer to Friday, Sunday to Monday: no two workdays are equally near but across a month's end.
    return at.day == min(workdays, key=lambda day: abs(day - wanted))


def _day(rng: random.Random, plain: bool) -> tuple[str, Day]:
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(["*", "*" if plain else "?"]), lambda _: True
    if plain or kind < 0.6:
        text, values = _field(rng, 1, 31)
        return text, lambda at: at.day in values
    number = rng.randint(1, 31)
    before = rng.randint(1, 30)
    specials: list[tuple[str, Day]] = [
        ("L", lambda at: at.day == _length(at)),
        (f"L-{before}", lambda at: at.day == _length(at) - before),
        (f"{number}W", lambda at: _workday_near(at, number)),
        ("LW", lambda at: _workday_near(at, _length(at))),
        (f"L,{number}", lambda at: at.day in (_length(at), number)),
    ]
    return rng.choice(specials)


def _weekday(rng: random.Random, plain: bool) -> tuple[str, Day]:
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(["*", "*" if plain else "?"]), lambda _: True
    number = rng.randint(0, 7)
    shown = rng.choice([str(number), WEEKDAYS[number % 7], WEEKDAYS[number % 7].lower()])
    last = rng.randint(number, 7)
    nth = rng.randint(1, 5)

    def sunday0(at: date) -> int:
        return at.isoweekday() % 7

    def is_last(at: date) -> bool:
        return sunday0(at) == number % 7 and at.day + 7 > _length(at)

    def is_nth(at: date) -> bool:
        return (
            sunday0(at) == number % 7
            and sum(sunday0(at.replace(day=d)) == number % 7 for d in range(1, at.day + 1)) == nth
        )

    common: list[tuple[str, Day]] = [
        (shown, lambda at: sunday0(at) == number % 7),
        (f"{number}-{last}", lambda at: sunday0(at) in {day % 7 for day in range(number, last + 1)}),
        ("MON-FRI", lambda at: at.weekday() < 5),
        ("*/2", lambda at: sunday0(at) % 2 == 0),
    ]
    special: list[tuple[str, Day]] = [
        (f"{shown}L", is_last),
        (f"{shown}#{nth}", is_nth),
        (f"{shown}#{nth},{shown}L", lambda at: is_nth(at) or is_last(at)),
        ("FRI-SUN", lambda at: at.weekday() >= 4),
    ]
    return rng.choice(common if plain or kind < 0.6 else special)


def days_from(first: date) -> Iterator[date]:
    """Yield all days from one on."""
    while True:
        yield first
        first += timedelta(days=1)
