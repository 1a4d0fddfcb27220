"""Delay levels, retries and when they end."""

from __future__ import annotations

import pytest

from litemq.features.delay_levels import LEVELS_TEXT, MAX_LEVEL, clamp, delay_ms, schedule_queue
from litemq.features.retry import (
    DeadLetter,
    Redeliver,
    after_failure,
    after_resend,
    origin_of,
    retry_properties,
    retry_topic,
)


def test_levels_are_what_their_text_says() -> None:
    units = {"s": 1_000, "m": 60_000, "h": 3_600_000}
    told = [int(text[:-1]) * units[text[-1]] for text in LEVELS_TEXT.split()]
    assert [delay_ms(level) for level in range(1, MAX_LEVEL + 1)] == told
    assert (delay_ms(-1), delay_ms(0), delay_ms(99)) == (0, 0, 7_200_000)
    assert (clamp(-1), clamp(5), clamp(19)) == (0, 5, 18)
    assert (schedule_queue(1), schedule_queue(18)) == (0, 17)
    for level in (0, 19):
        with pytest.raises(ValueError, match=f"level {level} has no queue"):
            schedule_queue(level)


def test_each_retry_comes_a_level_later() -> None:
    assert after_failure(0, 0) == Redeliver(level=3, delay_ms=10_000, reconsume_times=1)
    assert after_failure(1, 0) == Redeliver(level=4, delay_ms=30_000, reconsume_times=2)
    assert after_failure(15, 0) == Redeliver(level=18, delay_ms=7_200_000, reconsume_times=16)
    assert after_failure(40, 0, max_times=100) == Redeliver(level=18, delay_ms=7_200_000, reconsume_times=41)


def test_the_consumer_may_choose_the_level() -> None:
    assert after_failure(7, 1) == Redeliver(level=1, delay_ms=1_000, reconsume_times=8)
    assert after_failure(0, 50) == Redeliver(level=18, delay_ms=7_200_000, reconsume_times=1)


def test_the_end() -> None:
    assert after_failure(16, 0) == DeadLetter("max_retry")
    assert after_failure(0, 0, max_times=0) == DeadLetter("max_retry")
    assert after_failure(2, 5, max_times=2) == DeadLetter("max_retry")
    assert after_failure(0, -1) == DeadLetter("consume_error")
    assert after_failure(16, -1) == DeadLetter("consume_error")


def test_retries_that_clients_send_themselves() -> None:
    assert after_resend(16) is None
    assert after_resend(17) == DeadLetter("max_retry")
    assert after_resend(3, max_times=2) == DeadLetter("max_retry")
    assert after_resend(1, is_ordered=True) == DeadLetter("max_retry")


def test_the_first_topic_and_id_are_kept() -> None:
    first = retry_properties({"k": "v"}, topic="t", message_id="1")
    assert first == {"k": "v", "RETRY_TOPIC": "t", "ORIGIN_MESSAGE_ID": "1"}
    again = retry_properties(first, topic=retry_topic("g"), message_id="2")
    assert again == first
    assert origin_of(again, topic=retry_topic("g"), message_id="2") == ("t", "1")
    assert origin_of({}, topic="t", message_id="1") == ("t", "1")
    assert retry_topic("g") == "%RETRY%g"
