"""Dead letters say how they died, within their limits."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from litemq.features.dead_letter import (
    MAX_ERROR,
    MAX_STACK,
    Death,
    dead_letter_properties,
    dead_letter_topic,
    head,
    head_and_tail,
)
from litemq.format import properties as property_text

DEATH = Death(
    reason="max_retry",
    group="g",
    origin_topic="t",
    origin_message_id="0A",
    origin_queue=0,
    origin_offset=7,
    retry_count=16,
    time_ms=1_700_000_000_000,
    consumer_id="1.2.3.4@5",
    error="ValueError: no",
    stack="Traceback …",
)


def test_all_properties() -> None:
    assert dead_letter_topic("g") == "%DLQ%g"
    assert dead_letter_properties({"k": "v"}, DEATH) == {
        "k": "v",
        "DLQ_ORIGIN_TOPIC": "t",
        "DLQ_ORIGIN_MESSAGE_ID": "0A",
        "DLQ_ORIGIN_QUEUE": "0",
        "DLQ_ORIGIN_OFFSET": "7",
        "DLQ_REASON": "max_retry",
        "DLQ_GROUP": "g",
        "DLQ_CONSUMER_ID": "1.2.3.4@5",
        "DLQ_RETRY_COUNT": "16",
        "DLQ_TIME": "1700000000000",
        "DLQ_ERROR": "ValueError: no",
        "DLQ_STACK": "Traceback …",
    }


def test_dying_again_leaves_nothing_of_the_first_death() -> None:
    first = dead_letter_properties({"k": "v"}, DEATH)
    second = dead_letter_properties(first, replace(DEATH, reason="consume_error", error="", stack="", consumer_id=""))
    assert second["DLQ_REASON"] == "consume_error"
    assert not second.keys() & {"DLQ_ERROR", "DLQ_STACK", "DLQ_CONSUMER_ID"}
    assert second["k"] == "v"


def test_long_texts_are_cut() -> None:
    found = dead_letter_properties({}, replace(DEATH, error="é" * 5_000, stack="H" * 9_000 + "T" * 9_000))
    assert found["DLQ_ERROR"] == "é" * (MAX_ERROR // 2)
    stack = found["DLQ_STACK"]
    assert len(stack.encode()) <= MAX_STACK
    assert stack.startswith("HHHH")
    assert stack.endswith("TTTT")
    assert "\n…\n" in stack
    assert len(stack.encode()) > MAX_STACK - 8


@given(st.text(), st.integers(-3, 60))
def test_cut_at_characters(text: str, max_size: int) -> None:
    for cut in (head(text, max_size), head_and_tail(text, max_size)):
        assert len(cut.encode()) <= max(0, max_size)
    assert text.startswith(head(text, max_size))
    if len(text.encode()) <= max_size:
        assert head(text, max_size) == head_and_tail(text, max_size) == text
    else:
        first, gap, last = head_and_tail(text, max_size).partition("\n…\n")
        assert not gap or (text.startswith(first) and text.endswith(last))


@given(st.integers(1, 32_500), st.text(max_size=20))
def test_the_properties_fit_as_far_as_error_and_stack_go(size: int, odd: str) -> None:
    death = replace(DEATH, error="e\x01\x02\ud800" + odd * 100, stack="s" * 20_000, consumer_id="c\x02")
    found = dead_letter_properties({"k": "x" * size}, death)
    assert all(property_text.can_hold(name, value) for name, value in found.items())
    written = property_text.write(found.items())
    assert property_text.parse(written) == found
    required = {name: value for name, value in found.items() if name not in ("DLQ_ERROR", "DLQ_STACK")}
    assert len(written) <= max(32_767, len(property_text.write(required.items())))
    assert required["DLQ_CONSUMER_ID"] == "c "
