"""Latencies in buckets against the sorted values themselves."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.cli.histogram import PERCENTILES, Histogram

_VALUES = st.lists(st.floats(1e-7, 1e4), min_size=1, max_size=300)


@given(_VALUES, st.sampled_from((*PERCENTILES, 1.0, 100.0)))
def test_percentiles_are_within_two_per_cent(values: list[float], percent: float) -> None:
    exact = sorted(values)[max(math.ceil(len(values) * percent / 100), 1) - 1]
    assert Histogram(values).percentile(percent) == pytest.approx(exact, rel=0.02)


@given(_VALUES, _VALUES)
def test_merged_is_counted_together(some: list[float], others: list[float]) -> None:
    merged, together = Histogram(some), Histogram(some + others)
    merged.merge(Histogram(others))
    assert (merged.count, merged.max) == (together.count, together.max)
    assert merged.mean == pytest.approx(together.mean)
    assert [merged.percentile(one) for one in PERCENTILES] == [together.percentile(one) for one in PERCENTILES]


def test_none_and_nothing() -> None:
    assert Histogram().percentile(99) == Histogram().mean == Histogram().max == 0
    zeros = Histogram([0, -1, 5])
    assert (zeros.count, zeros.percentile(50), zeros.max) == (3, 0.0, 5)
    assert zeros.percentile(99) == pytest.approx(5, rel=0.02)


def test_many_at_once() -> None:
    found = Histogram()
    found.add(2.0, 99)
    found.add(10.0)
    assert found.percentile(99) == pytest.approx(2, rel=0.02)
    assert found.percentile(99.9) == pytest.approx(10, rel=0.02)
