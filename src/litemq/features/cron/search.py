"""The next local time that fits an expression's bit masks: integers only, and no zone.

Local times are seconds since 1970-01-01 00:00 on the wall; days are counted from there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Final

HORIZON_YEARS: Final = 29
"""What does not fire in so many years does not fire: each date meets each weekday within 28, but around 2100."""

HORIZON_DAYS: Final = 10_593
DAY_S: Final = 86_400
_EPOCH: Final = date(1970, 1, 1).toordinal()
_MAX_YEAR: Final = 9_990
"""Zones look some way ahead, and dates end with the year 9999."""
_LENGTHS: Final = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_ALL_DAYS: Final = 0xFFFFFFFE
_ALL_MONTHS: Final = 0x1FFE
_ALL_WEEKDAYS: Final = 0x7F
_EVERY_WEEK: Final = 0b10000001000000100000010000001
"""Times a mask of seven days: the mask in five weeks, side by side."""
_SATURDAY: Final = 6


@dataclass(frozen=True, slots=True)
class Masks:
    """The fields of an expression; bit n of a mask stands for the value n."""

    seconds: int
    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    """Bit 0 is Sunday."""
    from_end: int = 0
    nearest: int = 0
    last_weekdays: int = 0
    nth_weekdays: int = 0
    needs_both: bool = True
    """Day and weekday must fit both: one of them starts with ``*``.  Else either will do, as in Vixie's cron."""

    is_daily: bool = field(init=False)
    """Every date fits."""
    first_time: int = field(init=False)
    """The first second of a day that fits."""

    def __post_init__(self) -> None:
        every_date = self.days == _ALL_DAYS and self.weekdays == _ALL_WEEKDAYS and self.months == _ALL_MONTHS
        first_time = (_lowest(self.hours) * 60 + _lowest(self.minutes)) * 60 + _lowest(self.seconds)
        object.__setattr__(self, "is_daily", every_date)
        object.__setattr__(self, "first_time", first_time)


def next_local(masks: Masks, local: int, last_day: int) -> int:
    """Return the first local second from ``local`` on that fits; -1 when there is none up to ``last_day``."""
    day, second = divmod(local, DAY_S)
    time = next_time(masks, second)
    if time < 0:
        day, time = day + 1, masks.first_time
    found = day if masks.is_daily else next_day(masks, day, last_day)
    if found < 0 or found > last_day:
        return -1
    return found * DAY_S + (time if found == day else masks.first_time)


def next_time(masks: Masks, second: int) -> int:
    """Return the first second of a day from ``second`` on that fits; -1 when the day has none left."""
    rest, seconds = divmod(second, 60)
    hour, minute = divmod(rest, 60)
    if masks.hours >> hour & 1:
        if masks.minutes >> minute & 1:
            left = masks.seconds >> seconds
            if left:
                return second + _lowest(left)
        left = masks.minutes >> minute + 1
        if left:
            return (hour * 60 + minute + 1 + _lowest(left)) * 60 + _lowest(masks.seconds)
    left = masks.hours >> hour + 1
    if not left:
        return -1
    # The first minute and second: those of the first time, in a later hour.
    return (hour + 1 + _lowest(left)) * 3600 + masks.first_time % 3600


def next_day(masks: Masks, day: int, last_day: int) -> int:
    """Return the first day from ``day`` up to ``last_day`` whose date fits; -1 when there is none."""
    ordinal, last = day + _EPOCH, last_day + _EPOCH
    at = date.fromordinal(ordinal)
    year, month, start = at.year, at.month, ordinal - at.day + 1
    past = at.day
    while start <= last:
        if masks.months >> month & 1:
            days = days_of(masks, year, month, start % 7) >> past
            if days:
                found = start + past - 1 + _lowest(days)
                return found - _EPOCH if found <= last else -1
        months = masks.months >> month + 1
        if months:
            month += 1 + _lowest(months)
        else:
            year, month = year + 1, _lowest(masks.months)
        start, past = date(year, month, 1).toordinal(), 1
    return -1


def last_day_of(day: int) -> int:
    """Return the last day that a search from ``day`` on looks at."""
    return min(day + HORIZON_DAYS, date(_MAX_YEAR, 12, 31).toordinal() - _EPOCH)


def days_of(masks: Masks, year: int, month: int, first: int) -> int:
    """Return the days of a month that fit as a mask; ``first`` is the weekday of the first, 0 for Sunday."""
    length = _LENGTHS[month] if month != 2 or year % 4 or (year % 100 == 0 and year % 400) else 29
    days = masks.days
    if masks.from_end or masks.nearest:
        days |= _special_days(masks, length, first)
    weekdays = _weeks(masks.weekdays, first) << 1
    if masks.last_weekdays or masks.nth_weekdays:
        weekdays |= _special_weekdays(masks, length, first)
    return (days & weekdays if masks.needs_both else days | weekdays) & (2 << length) - 2


def _special_days(masks: Masks, length: int, first: int) -> int:
    days = 0
    for before in _bits(masks.from_end):
        if before < length:
            days |= 1 << length - before
    for day in _bits(masks.nearest):
        if day <= length:  # a month without a 31st has no weekday that is nearest to it
            days |= 1 << _nearest_weekday(day or length, length, first)
    return days


def _nearest_weekday(day: int, length: int, first: int) -> int:
    """Return the day from Monday to Friday that is nearest, in the same month."""
    weekday = (first + day - 1) % 7
    if weekday == _SATURDAY:
        return day - 1 if day > 1 else 3
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


def _special_weekdays(masks: Masks, length: int, first: int) -> int:
    days = (_weeks(masks.last_weekdays, first) << 1) & (_ALL_WEEKDAYS << length - 6)
    for week in range(5):
        wanted = masks.nth_weekdays >> 7 * week & _ALL_WEEKDAYS
        days |= _weeks(wanted, first) << 1 & _ALL_WEEKDAYS << 7 * week + 1
    return days


def _weeks(weekdays: int, first: int) -> int:
    """Return a mask of weekdays as one of a month's days, from bit 0 on."""
    return ((weekdays | weekdays << 7) >> first & _ALL_WEEKDAYS) * _EVERY_WEEK


def _bits(mask: int) -> list[int]:
    return [number for number in range(mask.bit_length()) if mask >> number & 1]


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1
