"""Rates and backlogs: decided at once, with a time to try again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.features.limits import ProducerLimits, Refusal, check_backlog

TOO_MANY_BYTES = "producer c sends more than 1000 bytes/s (limits.producer_bytes_per_s)"


def test_off_by_default() -> None:
    limits = ProducerLimits()
    assert not limits.is_on
    assert limits.admit("c", 1_000_000, 1 << 40, 0) is None


def test_messages_a_second() -> None:
    limits = ProducerLimits(messages_per_s=10)
    assert limits.is_on
    assert all(limits.admit("c", 1, 1, 0) is None for _ in range(10))
    refused = limits.admit("c", 1, 1, 0)
    assert refused == Refusal(
        "producer c sends more than 10 messages/s (limits.producer_messages_per_s)", 100, "producer_messages_per_s"
    )
    assert (
        str(refused) == "producer c sends more than 10 messages/s (limits.producer_messages_per_s); try again in 100 ms"
    )
    assert limits.admit("other", 1, 1, 0) is None
    assert limits.admit("c", 1, 1, 99) is not None
    assert limits.admit("c", 1, 1, 100) is None
    assert limits.admit("c", 1, 1, 100) is not None


def test_bytes_a_second_and_all_or_nothing() -> None:
    limits = ProducerLimits(messages_per_s=10, bytes_per_s=1_000)
    assert limits.admit("c", 1, 1_000, 0) is None
    assert limits.admit("c", 9, 500, 0) == Refusal(TOO_MANY_BYTES, 500, "producer_bytes_per_s")
    # The refused one took no messages either.
    assert limits.admit("c", 9, 0, 0) is None


def test_more_than_a_bucket_passes_when_it_is_full_and_is_paid_for() -> None:
    limits = ProducerLimits(bytes_per_s=1_000)
    assert limits.admit("c", 1, 3_000, 0) is None
    assert limits.admit("c", 1, 1, 2_000) == Refusal(TOO_MANY_BYTES, 1, "producer_bytes_per_s")
    assert limits.admit("c", 1, 1, 2_001) is None


def test_live_change() -> None:
    limits = ProducerLimits(messages_per_s=1)
    assert limits.admit("c", 1, 1, 0) is None
    assert limits.admit("c", 1, 1, 0) is not None
    limits.configure(2, 0)
    assert limits.admit("c", 2, 1, 0) is None
    assert limits.admit("c", 1, 1, 0) is not None
    limits.configure(0, 0)
    assert limits.admit("c", 1, 1, 0) is None
    with pytest.raises(ValueError, match="-1 messages/s"):
        limits.configure(-1, 0)


def test_the_clock_may_run_back() -> None:
    limits = ProducerLimits(messages_per_s=1)
    assert limits.admit("c", 1, 1, 10_000_000) is None
    assert limits.admit("c", 1, 1, 0) == Refusal(
        "producer c sends more than 1 messages/s (limits.producer_messages_per_s)", 1_000, "producer_messages_per_s"
    )
    assert limits.admit("c", 1, 1, 1_000) is None


def test_the_number_of_clients_is_bounded() -> None:
    limits = ProducerLimits(messages_per_s=1, max_clients=2)
    for client in "abac":  # b is silent for longest
        limits.admit(client, 1, 1, 0)
    assert limits.admit("a", 1, 1, 0) is not None
    assert limits.admit("c", 1, 1, 0) is not None
    assert limits.admit("b", 1, 1, 0) is None


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(1, 30)), max_size=60))
def test_never_more_than_the_rate_and_a_bucket_and_the_wait_is_true(sends: list[tuple[int, int]]) -> None:
    limits = ProducerLimits(messages_per_s=20)
    now_ms, sent, largest = 0, 0, 0
    for passed_ms, count in sends:
        now_ms += passed_ms
        refused = limits.admit("c", count, 1, now_ms)
        if refused is not None:
            now_ms += refused.retry_after_ms
            assert limits.admit("c", count, 1, now_ms) is None
        sent += count
        largest = max(largest, count)
        assert sent <= 20 + 20 * now_ms / 1000 + largest


def test_backlog() -> None:
    assert check_backlog("t", 3, max_offset=100, lowest_commit=0, limit=0) is None
    assert check_backlog("t", 3, max_offset=99, lowest_commit=0, limit=100) is None
    refused = check_backlog("t", 3, max_offset=150, lowest_commit=50, limit=100)
    assert refused == Refusal(
        "queue 3 of t has 100 unread messages, the limit is 100 (limits.queue_backlog)", 1_000, "queue_backlog"
    )
