"""Expressions: what they mean, and what is told of wrong ones."""

from __future__ import annotations

import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import BadCron
from litemq.features.cron.expression import MACROS, MAX_LENGTH, Cron, Every, parse


def fields_of(expression: str) -> Cron:
    found = parse(expression)
    assert isinstance(found, Cron)
    return found


def bits(mask: int) -> list[int]:
    return [value for value in range(64) if mask >> value & 1]


@pytest.mark.parametrize(
    ("minute", "values"),
    [
        ("*", list(range(60))),
        ("7", [7]),
        ("007", [7]),
        ("3-6", [3, 4, 5, 6]),
        ("*/20", [0, 20, 40]),
        ("*/60", [0]),
        ("50/4", [50, 54, 58]),
        ("10-20/5", [10, 15, 20]),
        ("53-53/4", [53]),
        ("5,1,3-4,58/1", [1, 3, 4, 5, 58, 59]),
    ],
)
def test_values(minute: str, values: list[int]) -> None:
    assert bits(fields_of(f"{minute} * * * *").masks.minutes) == values


@pytest.mark.parametrize(
    ("weekday", "values"),
    [
        ("*", list(range(7))),
        ("?", list(range(7))),
        ("0", [0]),
        ("7", [0]),
        ("sun", [0]),
        ("5-7", [0, 5, 6]),
        ("FRI-SUN", [0, 5, 6]),
        ("SUN-TUE", [0, 1, 2]),
        ("SUN-SUN", [0]),
        ("0-7", list(range(7))),
        ("Mon-fri/2", [1, 3, 5]),
        ("1/2", [0, 1, 3, 5]),
    ],
)
def test_weekdays(weekday: str, values: list[int]) -> None:
    assert bits(fields_of(f"* * * * {weekday}").masks.weekdays) == values


def test_months() -> None:
    assert bits(fields_of("* * * JAN,mar-May,12 *").masks.months) == [1, 3, 4, 5, 12]


def test_five_fields_are_six_with_second_0() -> None:
    assert fields_of("5 4 3 2 1") == fields_of(" 0  5\t4 3 2 1 ")


@pytest.mark.parametrize("macro", MACROS)
def test_macros(macro: str) -> None:
    assert parse(macro) == parse(macro.upper()) == parse(MACROS[macro])


@pytest.mark.parametrize(
    ("duration", "period_s"),
    [("90s", 90), ("5m", 300), ("1h30m", 5_400), ("2d", 172_800), ("1d2h3m4s", 93_784), ("0m1s", 1), ("120m", 7_200)],
)
def test_every(duration: str, period_s: int) -> None:
    assert parse(f"@every {duration}") == parse(f"@EVERY   {duration} ") == Every(period_s * 1000)


@pytest.mark.parametrize(
    ("expression", "is_fixed"),
    [
        ("0 9 * * *", True),
        ("0-59 9 * * *", True),
        ("*/10 30 2 * * *", True),
        ("* 9 * * *", False),
        ("*/30 9 * * *", False),
        ("0 * * * *", False),
        ("0 */2 * * *", False),
        ("0 0-23/2 * * *", True),
        ("@hourly", False),
        ("@daily", True),
    ],
)
def test_which_keep_to_times_of_day(expression: str, is_fixed: bool) -> None:
    assert fields_of(expression).is_fixed == is_fixed


@pytest.mark.parametrize(
    ("dates", "needs_both"),
    [("1 * 1", False), ("* * 1", True), ("*/2 * 1", True), ("1 * */2", True), ("? * 1", True), ("L * 1#1", False)],
)
def test_vixies_rule(dates: str, needs_both: bool) -> None:
    assert fields_of(f"0 0 {dates}").masks.needs_both == needs_both


RANGE = "a range that goes up; write "


@pytest.mark.parametrize(
    ("expression", "field", "text", "expected"),
    [
        ("60 * * * * *", "second", "60", "0 to 59"),
        ("61 * * * *", "minute", "61", "0 to 59"),
        ("-1 * * * *", "minute", "-1", "0 to 59"),
        ("1.5 * * * *", "minute", "1.5", "0 to 59"),
        ("٣ * * * *", "minute", "٣", "0 to 59"),
        ("* 24 * * *", "hour", "24", "0 to 23"),
        ("* * 0 * *", "day", "0", "1 to 31, L, L-n, nW or LW"),
        ("* * 1,32 * *", "day", "32", "1 to 31, L, L-n, nW or LW"),
        ("* * L-31 * *", "day", "L-31", "L, or L-1 to L-30"),
        ("* * 0W * *", "day", "0W", "1W to 31W, or LW"),
        ("* * 1-5W * *", "day", "1-5W", "1 to 31, L, L-n, nW or LW"),
        ("* * * 13 *", "month", "13", "1 to 12 or JAN to DEC"),
        ("* * * JUNE *", "month", "JUNE", "1 to 12 or JAN to DEC"),
        ("* * * * 8", "weekday", "8", "0 to 7 (0 and 7 are Sunday), SUN to SAT, nL or n#k"),
        ("* * * * MO", "weekday", "MO", "0 to 7 (0 and 7 are Sunday), SUN to SAT, nL or n#k"),
        ("* * * * L", "weekday", "L", "the weekday that is meant, as in 5L or FRIL (the last Friday)"),
        ("* * * * 5#6", "weekday", "5#6", "#1 to #5 behind the weekday, as in 5#2 (the second Friday)"),
        ("* * * * 9L", "weekday", "9L", "0 to 7 (0 and 7 are Sunday), SUN to SAT, nL or n#k"),
        ("? * * * *", "minute", "?", "0 to 59; ? stands in the day and weekday fields only"),
        ("1,,2 * * * *", "minute", "1,,2", "a value before and after each comma"),
        ("*/0 * * * *", "minute", "*/0", "a step of 1 to 60"),
        ("*/61 * * * *", "minute", "*/61", "a step of 1 to 60"),
        ("1/ * * * *", "minute", "1/", "a step of 1 to 60"),
        ("* 22-4 * * *", "hour", "22-4", RANGE + "22-23,0-4 instead"),
        ("* * * NOV-FEB *", "month", "NOV-FEB", RANGE + "NOV-DEC,JAN-FEB instead"),
        ("* * * * FRI-MON", "weekday", "FRI-MON", RANGE + "FRI-SAT,SUN-MON instead"),
        ("* * * * 7-2", "weekday", "7-2", RANGE + "SUN-2 instead"),
        ("@every 5", "duration", "5", "days, hours, minutes and seconds in this order, as in 90s, 5m or 1h30m"),
        ("@every 5m1h", "duration", "5m1h", "days, hours, minutes and seconds in this order, as in 90s, 5m or 1h30m"),
        ("@every", "duration", "", "days, hours, minutes and seconds in this order, as in 90s, 5m or 1h30m"),
        ("@every 0s", "duration", "0s", "1 second to 29 years"),
        ("@every 11000d", "duration", "11000d", "1 second to 29 years"),
        ("0 0 30 2 *", "day, month and weekday", "30 2 *", "at least one date in 29 years; there is none"),
        (
            "0 0 31 4,6,9,11 *",
            "day, month and weekday",
            "31 4,6,9,11 *",
            "at least one date in 29 years; there is none",
        ),
        ("0 0 30W feb *", "day, month and weekday", "30W feb *", "at least one date in 29 years; there is none"),
    ],
)
def test_wrong_fields_are_named(expression: str, field: str, text: str, expected: str) -> None:
    with pytest.raises(BadCron) as caught:
        parse(expression)
    error = caught.value
    assert (error.field, error.text, error.expected) == (field, text, expected)
    assert str(error) == f"cron expression {expression!r}, {field} {text!r}: expected {expected}"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("", "5 fields (minute hour day month weekday) or 6 (second first), not 0"),
        ("* * * *", "5 fields (minute hour day month weekday) or 6 (second first), not 4"),
        ("0 0 0 1 1 ? 2026", "5 fields (minute hour day month weekday) or 6 (second first), not 7"),
        ("@reboot", "@hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually, or @every with a duration"),
    ],
)
def test_wrong_as_a_whole(expression: str, expected: str) -> None:
    with pytest.raises(BadCron) as caught:
        parse(expression)
    assert str(caught.value) == f"cron expression {expression!r}: expected {expected}"


def test_a_long_text_is_refused_and_shown_in_part() -> None:
    with pytest.raises(BadCron, match="at most 255 characters, not 300") as caught:
        parse("1" * 300)
    assert len(str(caught.value)) < 200
    parse(" " * 300 + "* * * * *")
    parse(",".join(["59"] * 82) + " * * * *")
    assert MAX_LENGTH == 255


@given(st.text(alphabet="0123456789*/-,?LW# @AJNSUMONevry\t٣é", max_size=30))
def test_any_text_has_a_meaning_or_an_error(text: str) -> None:
    with suppress(BadCron):
        parse(text)


def test_an_expression_is_small() -> None:
    found = fields_of("*/5 8-18 L-3,15W * MON#2,FRIL")
    values = {getattr(found.masks, name) for name in type(found.masks).__slots__}
    size = sum(sys.getsizeof(value) for value in (found, found.masks, *(value for value in values if value > 256)))
    assert size < 500
