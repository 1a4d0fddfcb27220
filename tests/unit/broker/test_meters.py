"""What came in the last minute, hour and day."""

from __future__ import annotations

import pytest

from litemq.broker.meters import Flow, Meter, Rates, Window

START = 1_700_000_000_000


def test_a_meter_knows_windows_of_its_past() -> None:
    meter = Meter(START)
    for second in range(10, 7_210, 10):
        meter.add(5, 500, START + second * 1000)
    now = START + 7_200_000
    assert meter.count == 3_600
    minute, hour, day = (meter.over(window, now) for window in Window)
    assert (minute.count, minute.size, minute.elapsed_ms) == (30, 3_000, 60_000)
    assert minute.per_s == pytest.approx(0.5)
    assert minute.size_per_s == pytest.approx(50)
    assert (hour.count, hour.elapsed_ms) == (1_800, 3_600_000)
    assert (day.count, day.elapsed_ms) == (3_600, 7_200_000)


def test_a_meter_at_rest_empties_window_by_window() -> None:
    meter = Meter(START)
    meter.add(7, 70, START + 10_000)
    assert meter.over(Window.MINUTE, START + 15_000).count == 7
    assert meter.over(Window.MINUTE, START + 71_000).count == 0
    assert meter.over(Window.DAY, START + 71_000).count == 7
    assert meter.over(Window.DAY, START + 86_405_000).count == 7
    assert meter.over(Window.DAY, START + 86_410_000) == Flow(0, 0, 86_400_000)


def test_a_meter_keeps_little() -> None:
    meter = Meter(START)
    for second in range(0, 200_000, 10):
        meter.add(1, 1, START + second * 1000)
    assert sum(len(past) for past in meter._past) <= 3 * (8 + 8 + 26)
    assert meter.over(Window.DAY, START + 200_000_000).count == pytest.approx(8_640, abs=361)


def test_what_came_at_once_is_not_taken_for_a_flood() -> None:
    meter = Meter(START)
    meter.add(10, 100, START + 1)
    assert meter.over(Window.MINUTE, START + 1).per_s == 10.0
    assert Flow().per_s == 0.0


def test_rates_look_back_as_far_as_they_can() -> None:
    rates = Rates("put", "got")
    assert rates.per_s("put", 10) == 0.0
    for second in range(700):
        rates.sample(second * 1000, second * 3, 0 if second < 690 else (second - 690) * 100)
    assert rates.per_s("put", 10) == pytest.approx(3)
    assert rates.per_s("put", 600) == pytest.approx(3)
    assert rates.per_s("got", 5) == pytest.approx(100)
    assert rates.per_s("got", 600) == pytest.approx(1.5)
