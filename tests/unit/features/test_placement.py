"""Queues of a topic over brokers: even, exclusive, mixed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import InvalidRequest
from litemq.features.placement import place

BROKERS = ["broker-b", "broker-a", "broker-c"]


def test_even() -> None:
    assert place("even", BROKERS, 8) == {"broker-a": 3, "broker-b": 3, "broker-c": 2}
    assert place("even", BROKERS, 2) == {"broker-a": 1, "broker-b": 1}


@given(st.sets(st.text(max_size=3), min_size=1), st.integers(1, 1_000))
def test_even_differs_by_one_at_most(brokers: set[str], count: int) -> None:
    placed = place("even", brokers, count)
    assert sum(placed.values()) == count
    counts = [placed.get(name, 0) for name in sorted(brokers)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] - counts[-1] <= 1


def test_exclusive() -> None:
    assert place("exclusive:broker-b", BROKERS, 8) == {"broker-b": 8}


def test_mixed() -> None:
    assert place("broker-b=4,broker-a=2", BROKERS) == {"broker-b": 4, "broker-a": 2}
    assert place(" broker-b = 4 , broker-a = 2 ", BROKERS, 6) == {"broker-b": 4, "broker-a": 2}


@pytest.mark.parametrize(
    ("placement", "count", "text"),
    [
        ("even", None, "needs the number of queues"),
        ("even", 0, "1 to 1048576 queues, not 0"),
        ("odd", 8, "must be even, exclusive:BROKER or BROKER=COUNT"),
        ("", 8, "must be even"),
        ("exclusive:broker-x", 8, "names broker 'broker-x'; there are broker-a, broker-b, broker-c"),
        ("exclusive:", 8, "names broker ''"),
        ("broker-x=4", None, "names broker 'broker-x'"),
        ("broker-a=4,broker-a=2", None, "names broker 'broker-a' twice"),
        ("broker-a=4,", None, "names broker ''"),
        ("broker-a=0", None, "'broker-a=0' needs a number from 1"),
        ("broker-a=4,broker-b", None, "'broker-b' needs a number"),
        ("broker-a=²", None, "needs a number"),
        ("broker-a=4,broker-b=2", 8, "has 6 queues, 8 were asked for"),
    ],
)
def test_refused(placement: str, count: int | None, text: str) -> None:
    with pytest.raises(InvalidRequest, match=text):
        place(placement, BROKERS, count)


def test_no_brokers() -> None:
    with pytest.raises(InvalidRequest, match="no broker is there"):
        place("even", [], 8)
