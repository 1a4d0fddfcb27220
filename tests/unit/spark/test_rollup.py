"""Which hours are computed again."""

from __future__ import annotations

from litemq.spark.jobs.rollup import HOUR_MS, changed_hours, hour_text, whole_hours
from litemq.spark.lake.table import DataFile


def test_hours_that_hold_more_than_was_counted() -> None:
    files = [
        DataFile(f"topic=orders/dt=2026-05-01/hour={hour}/{name}", 1, rows)
        for hour, name, rows in [("07", "a", 5), ("07", "b", 2), ("08", "c", 4), ("09", "d", 1)]
    ]
    counted = {("orders", "2026-05-01", "07"): 5, ("orders", "2026-05-01", "08"): 4}
    assert changed_hours(files, counted) == {
        ("orders", "2026-05-01", "07"): files[:2],
        ("orders", "2026-05-01", "09"): files[3:],
    }
    assert changed_hours(files, {("orders", "2026-05-01", hour): 9 for hour in ("07", "08", "09")}) == {}


def test_times_are_widened_to_whole_hours() -> None:
    assert whole_hours(HOUR_MS + 1, HOUR_MS + 1) == (HOUR_MS, 2 * HOUR_MS)
    assert whole_hours(HOUR_MS, 2 * HOUR_MS) == (HOUR_MS, 2 * HOUR_MS)
    assert whole_hours(None, None) == (None, None)
    assert hour_text(HOUR_MS * 25 + 7) == "1970-01-02T01:00Z"
