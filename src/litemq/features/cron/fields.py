"""One field of a cron expression: text to a bit mask, bit n for the value n.

*   a   a-b   */n   a-b/n   a/n   and lists of these;  names of months and weekdays;  0 and 7 are Sunday
day       ?   L   L-n   nW   LW
weekday   ?   nL   n#k
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from litemq.errors import BadCron

_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_SUNDAY: Final = 7
"""The second number of Sunday: ranges end with it."""


@dataclass(frozen=True, slots=True)
class Field:
    """What one field may hold."""

    name: str
    low: int
    high: int
    steps: int
    """The largest step: it takes the first value only."""
    names: Mapping[str, int]
    expected: str


SECOND: Final = Field("second", 0, 59, 60, {}, "0 to 59")
MINUTE: Final = Field("minute", 0, 59, 60, {}, "0 to 59")
HOUR: Final = Field("hour", 0, 23, 24, {}, "0 to 23")
DAY: Final = Field("day", 1, 31, 31, {}, "1 to 31, L, L-n, nW or LW")
MONTH: Final = Field("month", 1, 12, 12, {name: n for n, name in enumerate(_MONTHS, 1)}, "1 to 12 or JAN to DEC")
WEEKDAY: Final = Field(
    "weekday",
    0,
    7,
    7,
    {name: n for n, name in enumerate(_WEEKDAYS)},
    "0 to 7 (0 and 7 are Sunday), SUN to SAT, nL or n#k",
)


class Parsed(NamedTuple):
    """What a field says."""

    mask: int = 0
    from_end: int = 0
    """Days: bit n for the n-th day before the last one."""
    nearest: int = 0
    """Days: bit n for the weekday nearest to day n, bit 0 for the last weekday of the month."""
    last: int = 0
    """Weekdays: bit n for the last one of the month."""
    nth: int = 0
    """Weekdays: bit 7·(k-1)+n for the k-th one of the month."""


def joined(one: Parsed, other: Parsed) -> Parsed:
    """Return what either says."""
    return Parsed(*(a | b for a, b in zip(one, other, strict=True)))


def parse(field: Field, text: str, expression: str) -> Parsed:
    """Return what one field says.

    Raises:
        BadCron: it cannot be read; names the field, its text and what was expected.
    """
    return _Reader(field, text, expression).read()


class _Reader:
    """Reads one field; ``_item`` is what an error shows."""

    def __init__(self, field: Field, text: str, expression: str) -> None:
        self._field = field
        self._text = text
        self._expression = expression
        self._item = text

    def read(self) -> Parsed:
        if self._text == "?":
            if self._field not in (DAY, WEEKDAY):
                raise self._bad(f"{self._field.expected}; ? stands in the day and weekday fields only")
            return self._plain("*")
        if "," not in self._text:
            return self._read_item(self._text.upper())
        found = Parsed()
        for item in self._text.upper().split(","):
            if not item:
                self._item = self._text
                raise self._bad("a value before and after each comma")
            found = joined(found, self._read_item(item))
        return found

    def _read_item(self, item: str) -> Parsed:
        self._item = item
        return self._special(item) or self._plain(item)

    def _special(self, item: str) -> Parsed | None:
        """Return what an item with L, W or # says; None when it is none of these."""
        if self._field is DAY:
            return self._special_day(item)
        if self._field is WEEKDAY:
            return self._special_weekday(item)
        return None

    def _special_day(self, item: str) -> Parsed | None:
        if "L" not in item and "W" not in item:
            return None
        if item == "LW":
            return Parsed(nearest=1)
        if found := re.fullmatch(r"L(?:-(\d+))?", item, re.ASCII):
            return Parsed(from_end=1 << self._number(found[1] or "0", 0, 30, "L, or L-1 to L-30"))
        if found := re.fullmatch(r"(\d+)W", item, re.ASCII):
            return Parsed(nearest=1 << self._number(found[1], 1, 31, "1W to 31W, or LW"))
        return None

    def _special_weekday(self, item: str) -> Parsed | None:
        if item == "L":
            raise self._bad("the weekday that is meant, as in 5L or FRIL (the last Friday)")
        if item.endswith("L"):
            return Parsed(last=1 << self._value(item[:-1]) % _SUNDAY)
        if "#" in item:
            day, _, nth = item.partition("#")
            week = self._number(nth, 1, 5, "#1 to #5 behind the weekday, as in 5#2 (the second Friday)")
            return Parsed(nth=1 << 7 * (week - 1) + self._value(day) % _SUNDAY)
        return None

    def _plain(self, item: str) -> Parsed:
        """Return what a value, a range or a step says."""
        span, slash, step = item.partition("/")
        low, high = self._ends(span, has_step=bool(slash))
        mask = (2 << high) - (1 << low)
        if slash:
            every = self._number(step, 1, self._field.steps, f"a step of 1 to {self._field.steps}")
            mask = sum(1 << value for value in range(low, high + 1, every))
        # Both Sundays are one bit.
        return Parsed((mask | mask >> _SUNDAY) & 0x7F if self._field is WEEKDAY else mask)

    def _ends(self, span: str, *, has_step: bool) -> tuple[int, int]:
        if span == "*":
            return self._field.low, self._field.high
        first, dash, last = span.partition("-")
        low = self._value(first)
        if not dash:
            return low, self._field.high if has_step else low
        high = self._value(last)
        if low and self._field is WEEKDAY and last == _WEEKDAYS[0]:
            high = _SUNDAY
        if high < low:
            raise self._bad(f"a range that goes up; write {self._halves(first, last)} instead")
        return low, high

    def _halves(self, first: str, last: str) -> str:
        """Return the list that a range over the end of the field would have meant."""
        names = list(self._field.names) or [str(self._field.low), str(self._field.high)]
        if self._field is WEEKDAY and first == str(_SUNDAY):
            return f"{names[0]}-{last}"
        return f"{first}-{names[-1]},{names[0]}-{last}"

    def _value(self, text: str) -> int:
        named = self._field.names.get(text)
        return self._number(text, self._field.low, self._field.high, self._field.expected) if named is None else named

    def _number(self, text: str, low: int, high: int, expected: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) <= 9 and low <= int(text) <= high):
            raise self._bad(expected)
        return int(text)

    def _bad(self, expected: str) -> BadCron:
        return BadCron(self._expression, field=self._field.name, text=self._item, expected=expected)
