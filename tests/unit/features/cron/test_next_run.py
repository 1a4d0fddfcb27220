"""Next runs, beside an oracle that looks at every second, beside cronsim, and where clocks change."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from itertools import islice
from zoneinfo import ZoneInfo, available_timezones

import pytest
from cronsim import CronSim
from tests.support import cron_oracle
from tests.support.cron_oracle import ZONES

from litemq.errors import BadCron, UnknownZone
from litemq.features.cron import next_run
from litemq.features.cron.next_run import newest_until, next_after

BERLIN = "Europe/Berlin"


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def chain(expression: str, zone: str, after_ms: int, count: int) -> list[int]:
    """Return one run after the other."""
    found: list[int] = []
    at = next_after(expression, zone, after_ms)
    while at is not None and len(found) < count:
        found.append(at)
        at = next_after(expression, zone, at)
    return found


def local(expression: str, zone: str, after: str, count: int) -> list[str]:
    """Return runs as a clock in the zone shows them, with the offset."""
    info = ZoneInfo(zone)
    times = chain(expression, zone, ms(after), count)
    return [datetime.fromtimestamp(at // 1000, info).strftime("%m-%d %H:%M:%S %z") for at in times]


# -- the oracle --------------------------------------------------------------------------------------


def compare(rng: random.Random, zone: str, centre: int, expressions: int) -> int:
    """Compare what fires some hours around a time; return how many runs were compared."""
    start, end = centre - 20_000 - rng.randrange(3_600), centre + 30_000
    clock = cron_oracle.clock_of(zone, start - 1, end)
    compared = 0
    for _ in range(expressions):
        expression = cron_oracle.random_expression(rng)
        expected = cron_oracle.fires(expression, clock, start)
        if not expression.has_dates():
            with pytest.raises(BadCron):
                next_after(expression.text, zone, start * 1000)
            continue
        for at in (start - 1, centre - 4_000, centre + rng.randrange(-7_200, 7_200)):
            later = [second * 1000 for second in expected if second > at][:40]
            found = chain(expression.text, zone, at * 1000 + rng.randrange(1000), len(later) or 1)
            assert [run for run in found if run < end * 1000] == later, (expression.text, zone, at)
            compared += len(later)
    return compared


def windows(rng: random.Random, zones: list[str], count: int) -> list[tuple[str, int]]:
    """Return zones and times: changes of their clocks for the most part."""
    found: list[tuple[str, int]] = []
    while len(found) < count:
        zone = rng.choice(zones)
        year = rng.choice([2024, 2026, 2027, rng.randint(1971, 2099)])
        known = cron_oracle.changes(zone, year, year)
        if zone in SPECIAL and rng.random() < 0.5:
            known = cron_oracle.changes(zone, SPECIAL[zone], SPECIAL[zone])
        if not known and rng.random() < 0.7:
            continue
        found.append((zone, rng.choice(known) if known else rng.randrange(10**9, 3 * 10**9)))
    return found


SPECIAL = {"Pacific/Apia": 2011, "Pacific/Kwajalein": 1993, "Africa/Monrovia": 1972, "Asia/Kathmandu": 1986}
"""Years in which something rare happened."""


def test_runs_are_those_that_every_second_tells() -> None:
    rng = random.Random(8)
    found = [compare(rng, zone, at, 13) for zone, at in windows(rng, list(ZONES), 23)]
    assert sum(found) > 3_000


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(50))
def test_runs_are_those_that_every_second_tells_ten_thousand_times(seed: int) -> None:
    """Each seed has 200 expressions."""
    rng = random.Random(seed)
    zones = [*ZONES * 10, *sorted(available_timezones() - {"Factory", "localtime"})]
    found = [compare(rng, zone, at, 10) for zone, at in windows(rng, zones, 20)]
    assert sum(found) > 2_000


def test_dates_are_those_that_every_day_tells() -> None:
    rng = random.Random(29)
    for _ in range(250):
        expression = cron_oracle.random_expression(rng)
        text = " ".join(["30 12", *expression.text.split()[-3:]])
        first = date(rng.randint(1970, 2080), rng.randint(1, 12), rng.randint(1, 28))
        days = islice(cron_oracle.days_from(first), 2_000)
        expected = [day for day in days if expression.has_day(day)][:40]
        if not expression.has_dates():
            with pytest.raises(BadCron):
                chain(text, "UTC", 0, 1)
            continue
        found = chain(text, "UTC", ms(f"{first} 00:00"), len(expected))
        assert [datetime.fromtimestamp(at // 1000, UTC).date() for at in found] == expected, text


def test_runs_are_cronsims_where_it_applies() -> None:
    """Five fields, and zones whose clocks are moved by whole hours."""
    rng = random.Random(5)
    compared = 0
    while compared < 400:
        drawn = cron_oracle.random_expression(rng, plain=True, second=False)
        if not drawn.has_dates():
            continue
        expression = drawn.text
        zone = rng.choice(["UTC", BERLIN, "America/New_York", "America/Sao_Paulo", "Africa/Casablanca"])
        start = datetime.fromtimestamp(rng.randrange(1_500_000_000, 2_000_000_000), UTC)
        if rng.random() < 0.7 and (known := cron_oracle.changes(zone, start.year, start.year)):
            start = datetime.fromtimestamp(rng.choice(known) + rng.randrange(-90_000, 7_200), UTC)
        found = chain(expression, zone, int(start.timestamp()) * 1000, 4)
        # It goes on from its last answer, which for fixed times is a local one: it must begin before an overlap.
        simulated = CronSim(expression.upper(), start.astimezone(ZoneInfo(zone)))
        if start.astimezone(ZoneInfo(zone)).fold:
            continue
        expected = sorted({int(next(simulated).timestamp()) * 1000 for _ in range(4)})
        assert found[: len(expected)] == expected, (expression, zone, start)
        compared += 1


# -- clocks that change: the rules, by example ---------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        # Fixed times in a gap run at its end, once.
        ("30 2 * * *", BERLIN, "2026-03-28", ["03-28 02:30:00 +0100", "03-29 03:00:00 +0200", "03-30 02:30:00 +0200"]),
        ("0 30 2 * * *", BERLIN, "2026-03-28 12:00", ["03-29 03:00:00 +0200", "03-30 02:30:00 +0200"]),
        ("*/10 30 2 * * *", BERLIN, "2026-03-28 12:00", ["03-29 03:00:00 +0200", "03-30 02:30:00 +0200"]),
        ("0,30 2,3 * * *", BERLIN, "2026-03-28 12:00", ["03-29 03:00:00 +0200", "03-29 03:30:00 +0200"]),
        # Fixed times that come twice run the first time.
        ("30 2 * * *", BERLIN, "2026-10-24 12:00", ["10-25 02:30:00 +0200", "10-26 02:30:00 +0100"]),
        ("0 30 2 * * *", BERLIN, "2026-10-24 12:00", ["10-25 02:30:00 +0200", "10-26 02:30:00 +0100"]),
        ("30 2 * * *", BERLIN, "2026-10-25 00:30", ["10-26 02:30:00 +0100"]),
        ("30 2 * * *", BERLIN, "2026-10-25 01:10", ["10-26 02:30:00 +0100"]),
        # Intervals follow elapsed time.
        ("0 * * * *", BERLIN, "2026-03-29", ["03-29 03:00:00 +0200", "03-29 04:00:00 +0200"]),
        ("*/30 * * * *", BERLIN, "2026-03-29 00:10", ["03-29 01:30:00 +0100", "03-29 03:00:00 +0200"]),
        ("30 * * * *", BERLIN, "2026-10-25", ["10-25 02:30:00 +0200", "10-25 02:30:00 +0100", "10-25 03:30:00 +0100"]),
        (
            "*/30 2 * * *",
            BERLIN,
            "2026-10-24 23:00",
            [f"10-25 02:{minute}:00 {offset}" for offset in ("+0200", "+0100") for minute in ("00", "30")],
        ),
        ("*/30 2 * * *", BERLIN, "2026-03-28 12:00", ["03-30 02:00:00 +0200", "03-30 02:30:00 +0200"]),
        # Half an hour, in both directions.
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-02 20:00", ["10-04 02:30:00 +1100", "10-05 02:15:00 +1100"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04", ["04-05 01:45:00 +1100", "04-06 01:45:00 +1030"]),
        ("45 * * * *", "Australia/Lord_Howe", "2026-04-04 14:00", ["04-05 01:45:00 +1100", "04-05 01:45:00 +1030"]),
        # A day that is not there: its fixed times run when the next day begins.
        (
            "0 10 * * *",
            "Pacific/Apia",
            "2011-12-29",
            ["12-29 10:00:00 -1000", "12-31 00:00:00 +1400", "12-31 10:00:00 +1400"],
        ),
        ("0 10 30 * *", "Pacific/Apia", "2011-12-29", ["12-31 00:00:00 +1400", "01-30 10:00:00 +1400"]),
        ("0 */6 * * *", "Pacific/Apia", "2011-12-30 03:00", ["12-29 18:00:00 -1000", "12-31 00:00:00 +1400"]),
        # A midnight that is not there, and offsets of odd minutes and seconds.
        ("0 0 * * *", "Asia/Beirut", "2026-03-27 23:00", ["03-29 01:00:00 +0300", "03-30 00:00:00 +0300"]),
        ("0 9 * * *", "Asia/Kathmandu", "2026-01-01", ["01-01 09:00:00 +0545", "01-02 09:00:00 +0545"]),
        ("0 12 * * *", "Africa/Monrovia", "1972-01-06", ["01-06 12:00:00 -004430", "01-07 12:00:00 +0000"]),
    ],
)
def test_where_clocks_change(expression: str, zone: str, after: str, expected: list[str]) -> None:
    assert local(expression, zone, after, len(expected)) == expected


def test_whole_seconds_strictly_later() -> None:
    noon = ms("2026-11-20 12:00")
    assert next_after("* * * * * *", "UTC", noon) == noon + 1000
    assert next_after("* * * * * *", "UTC", noon - 1) == noon
    assert next_after("* * * * * *", "UTC", noon + 999) == noon + 1000
    assert next_after("0 12 * * *", "UTC", noon - 1) == noon
    assert next_after("0 12 * * *", "UTC", noon) == ms("2026-11-21 12:00")


def test_every_counts_from_its_anchor() -> None:
    anchor = ms("2026-11-20 12:00") + 123
    assert next_after("@every 90s", "UTC", anchor, anchor_ms=anchor) == anchor + 90_000
    assert next_after("@every 90s", "UTC", anchor + 89_999, anchor_ms=anchor) == anchor + 90_000
    assert next_after("@every 90s", "UTC", anchor + 90_000, anchor_ms=anchor) == anchor + 180_000
    assert next_after("@every 90s", "UTC", anchor - 10**9, anchor_ms=anchor) == anchor + 90_000


def test_elapsed_time_knows_no_clocks() -> None:
    night = ms("2026-10-25 00:00")
    times = [night]
    for _ in range(4):
        times.append(next_after("@every 1h", BERLIN, times[-1], anchor_ms=night) or 0)
    assert times == [night + hour * 3_600_000 for hour in range(5)]


def test_at_the_ends_of_time() -> None:
    assert next_after("0 0 1 1 *", "UTC", -(10**15)) == 0
    assert next_after("0 0 1 1 *", BERLIN, -(10**15)) == ms("1970-12-31 23:00")
    assert next_after("* * * * *", BERLIN, ms("9999-12-31 23:00")) is None
    assert next_after("* * * * *", BERLIN, 1 << 80) is None


def test_a_leap_day_over_a_century() -> None:
    assert next_after("0 0 29 2 *", "UTC", ms("2096-03-01")) == ms("2104-02-29")


def test_nothing_within_29_years() -> None:
    """A leap day that is a Saturday: 2096 is none, 2100 no leap year."""
    expression = "0 0 */28 2 6#5"
    assert next_after(expression, "UTC", ms("2026-01-01")) == ms("2048-02-29")
    assert next_after(expression, "UTC", ms("2077-01-01")) is None
    with pytest.raises(BadCron, match=r"expected at least one time in 29 years in UTC; there is none"):
        next_run.check(expression, "UTC", ms("2077-01-01"))


def test_an_hour_that_is_always_in_a_gap() -> None:
    with pytest.raises(BadCron, match="29 years in Europe/Berlin"):
        next_run.check("*/5 2 * 3 SUNL", BERLIN, ms("2026-01-01"))
    assert next_after("5 2 * 3 SUNL", BERLIN, ms("2026-01-01")) == ms("2026-03-29 01:00")
    next_run.check("*/5 2 * 3 SUNL", "UTC", ms("2026-01-01"))


def test_wrong_zones_are_refused() -> None:
    with pytest.raises(UnknownZone, match="did you mean Europe/Berlin"):
        next_run.check("0 9 * * *", "Berlin", 0)


@pytest.mark.parametrize("expression", ["* * * * * *", "*/7 3 * * *", "30 2 * * *", "0 0 1 1 *", "@every 1m30s"])
def test_the_newest_is_the_last_of_all(expression: str) -> None:
    rng = random.Random(expression)
    for _ in range(20):
        after = rng.randrange(ms("2026-10-24"), ms("2026-10-26"))
        until = after + rng.choice([0, 1, 999, 1_000, 300_000, 2_000_000])
        all_times = []
        at = next_after(expression, BERLIN, after)
        while at is not None and at <= until:
            all_times.append(at)
            at = next_after(expression, BERLIN, at)
        assert newest_until(expression, BERLIN, after, until) == (all_times[-1] if all_times else None)


def test_the_newest_of_a_year_of_seconds_is_found_at_once() -> None:
    assert newest_until("* * * * * *", BERLIN, 0, ms("2026-11-20") + 500) == ms("2026-11-20")
