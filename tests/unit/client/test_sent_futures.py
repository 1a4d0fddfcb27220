"""The kernel that deals with the futures of a whole request, in both builds."""

from __future__ import annotations

from collections import Counter
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq import _plain
from litemq.client import _sent_futures_cy as compiled
from litemq.client._message_cy import Message
from litemq.client._sends_cy import Outgoing, Sent
from litemq.client.sent_future import SentFuture

BUILDS = pytest.mark.parametrize(
    "kernel", [compiled, _plain.load_plain("litemq.client._sent_futures_cy")], ids=["as built", "plain"]
)


def outgoing(count: int) -> list[Outgoing]:
    found = [Outgoing(Message("t", b"%d" % number)) for number in range(count)]
    for one in found:
        one.future = SentFuture()
    return found


def places(count: int) -> list[Sent]:
    return [Sent(str(number), "t", "b", 0, number) for number in range(count)]


@BUILDS
def test_what_was_taken_back_is_not_claimed(kernel: ModuleType) -> None:
    given_, taken_back = outgoing(5), {1, 4}
    for number in taken_back:
        assert given_[number].future.cancel()
    assert kernel.claim(given_) == [one for number, one in enumerate(given_) if number not in taken_back]
    assert all(one.future.running() != one.future.cancelled() for one in given_)
    assert not any(one.future.cancel() for number, one in enumerate(given_) if number not in taken_back)


@BUILDS
def test_all_are_told_and_who_waits_is_called(kernel: ModuleType) -> None:
    given_, called = outgoing(3), []
    given_[1].future.add_done_callback(lambda future: called.append(future.result()))
    kernel.finish(kernel.claim(given_), places(3))
    assert [one.future.result() for one in given_] == places(3)
    assert called == [places(3)[1]]


@BUILDS
def test_an_answer_for_others_tells_nobody(kernel: ModuleType) -> None:
    given_ = kernel.claim(outgoing(3))
    with pytest.raises(ValueError, match="3 messages were sent, 2 were answered"):
        kernel.finish(given_, places(2))
    assert not any(one.future.done() for one in given_)


@BUILDS
@given(eras=st.lists(st.integers(0, 3), max_size=20))
def test_sizes_and_eras_add_up(kernel: ModuleType, eras: list[int]) -> None:
    given_ = outgoing(len(eras))
    for one, era in zip(given_, eras, strict=True):
        one.era = era
    assert kernel.tally(given_) == (sum(one.size for one in given_), dict(Counter(eras)))
