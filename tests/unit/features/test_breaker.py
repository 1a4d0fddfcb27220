"""The circuit breaker, beside a model that keeps every call."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from litemq.features.breaker import Breaker


def state(breaker: Breaker) -> str:
    return breaker.state


def test_it_opens_on_more_failures_than_allowed() -> None:
    breaker = Breaker(failure_ratio=0.5, min_calls=4, open_s=30)
    for failed in (True, False, True, False):
        breaker.failed(0) if failed else breaker.succeeded(0)
    assert state(breaker) == "closed", "half of them is not more than half"
    breaker.failed(0)
    assert state(breaker) == "open"
    assert not breaker.allows(29.9)


def test_few_calls_prove_nothing() -> None:
    breaker = Breaker(min_calls=10)
    for _ in range(9):
        breaker.failed(0)
    assert breaker.allows(0)


def test_one_call_tries_it_again() -> None:
    breaker = Breaker(min_calls=1, open_s=30)
    breaker.failed(0)
    assert breaker.allows(30)
    assert state(breaker) == "half-open"
    assert not breaker.allows(30), "one at a time"
    breaker.failed(31)
    assert state(breaker) == "open"
    assert not breaker.allows(60)
    assert breaker.allows(61)
    breaker.succeeded(61)
    assert state(breaker) == "closed"
    assert breaker.allows(61)


def test_a_probe_that_never_ends_blocks_nobody_for_ever() -> None:
    breaker = Breaker(min_calls=1, open_s=30)
    breaker.failed(0)
    assert breaker.allows(30)
    assert not breaker.may(59.9)
    assert breaker.may(60)
    assert breaker.allows(60)


def test_slow_is_failed() -> None:
    breaker = Breaker(min_calls=2, slow_s=1.0)
    breaker.succeeded(0, took_s=1.0)
    breaker.succeeded(0, took_s=1.1)
    assert state(breaker) == "closed"
    breaker.succeeded(0, took_s=1.1)
    assert state(breaker) == "open"


def test_late_answers_of_calls_before_it_opened_change_nothing() -> None:
    breaker = Breaker(min_calls=1, open_s=30)
    breaker.failed(0)
    breaker.succeeded(1)
    breaker.failed(2)
    assert state(breaker) == "open"
    assert breaker.allows(30)


def test_a_half_counts_no_longer_than_the_window() -> None:
    breaker = Breaker(failure_ratio=0.5, min_calls=6, window_s=10)
    for moment in (0, 1, 2):
        breaker.failed(moment)
    breaker.succeeded(9.9, count=2)
    breaker.failed(14)  # those of the beginning are long ago
    assert state(breaker) == "closed"


@example([(0.0, True), (2.0, True), (4.0, False), (0.0, False), (4.0, True)])
@given(st.lists(st.tuples(st.floats(0, 9), st.booleans()), max_size=60))
def test_what_was_long_ago_has_no_say(calls: list[tuple[float, bool]]) -> None:
    """As long as it is closed, it has counted no call older than the window, and all of its later half."""
    breaker = Breaker(failure_ratio=0.5, min_calls=3, window_s=10, open_s=1000)
    now = 0.0
    made: list[tuple[float, bool]] = []
    for wait, failed in calls:
        now += wait
        was_open = breaker.state == "open"
        breaker.failed(now) if failed else breaker.succeeded(now)
        made.append((now, failed))
        if breaker.state == "open" and not was_open:
            recent = [failed for time, failed in made if time > now - 10]
            assert any(sum(recent[-count:]) > count * 0.5 for count in range(3, len(recent) + 1)), (
                "some stretch of recent calls justifies it"
            )
            return
    if len(made) >= 3 and all(failed for _, failed in made) and now < 5:
        raise AssertionError("all of at least three calls failed, and it is closed")
