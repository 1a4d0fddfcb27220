"""Parked pulls: each leaves once, at its queue's message, its deadline or with its connection."""

from __future__ import annotations

import random

import pytest

from litemq.features._long_poll_cy import LongPolls, Waiter

A, B = ("T", 0), ("T", 1)


class Named(Waiter):
    """Somebody who waits, told apart in tests."""

    def __init__(self, name: object, owner: int) -> None:
        super().__init__(owner)
        self.name = name


def park(polls: LongPolls, queue: tuple[str, int], name: object, *, owner: int, deadline_ms: int) -> bool:
    return bool(polls.park(Named(name, owner), queue, deadline_ms))


def names(waiters: list[Waiter]) -> list[object]:
    return [waiter.name for waiter in waiters if isinstance(waiter, Named)]


def test_a_message_wakes_those_of_its_queue_in_order() -> None:
    polls = LongPolls(10)
    assert park(polls, A, "first", owner=1, deadline_ms=100)
    assert park(polls, A, "second", owner=2, deadline_ms=50)
    assert park(polls, B, "other", owner=1, deadline_ms=100)
    assert names(polls.wake(A)) == ["first", "second"]
    assert len(polls) == 1
    assert not polls.waits_for(A)
    assert polls.wake(A) == []


def test_deadlines_take_those_that_still_wait() -> None:
    polls = LongPolls(10)
    park(polls, A, "late", owner=1, deadline_ms=100)
    park(polls, B, "early", owner=1, deadline_ms=50)
    polls.wake(B)
    assert polls.due(99) == []
    assert names(polls.due(100)) == ["late"]
    assert len(polls) == 0


def test_the_earliest_deadline_comes_first() -> None:
    polls = LongPolls(10)
    for name in (7000, 30, 900, 31, 6999):
        park(polls, A, name, owner=1, deadline_ms=name)
    assert names(polls.due(6999)) == [30, 31, 900, 6999]
    assert names(polls.due(7000)) == [7000]


@pytest.mark.parametrize("later_ms", [40_000, 1_000])
def test_one_that_is_parked_again_has_its_new_deadline(later_ms: int) -> None:
    polls = LongPolls(10)
    waiter = Named("again", 1)
    polls.park(waiter, A, 20_000)
    polls.wake(A)
    polls.park(waiter, B, later_ms)
    assert polls.due(later_ms - 1) == []
    assert names(polls.due(later_ms)) == ["again"]
    assert polls.due(50_000) == []
    assert not waiter.is_waiting


def test_one_that_waits_cannot_be_parked_twice() -> None:
    polls = LongPolls(10)
    waiter = Named("once", 1)
    assert polls.park(waiter, A, 100)
    with pytest.raises(ValueError, match="waits already"):
        polls.park(waiter, B, 100)
    assert names(polls.wake(A)) == ["once"]


def test_a_connection_takes_its_pulls_along() -> None:
    polls = LongPolls(10)
    park(polls, A, "mine", owner=1, deadline_ms=100)
    park(polls, A, "yours", owner=2, deadline_ms=100)
    assert polls.drop(1) == 1
    assert polls.drop(1) == 0
    assert names(polls.due(200)) == ["yours"]


def test_no_more_wait_than_may() -> None:
    polls = LongPolls(2)
    assert park(polls, A, 1, owner=1, deadline_ms=1)
    assert park(polls, A, 2, owner=1, deadline_ms=1)
    assert not park(polls, A, 3, owner=1, deadline_ms=1)
    assert len(polls.take_all()) == 2
    assert park(polls, A, 3, owner=1, deadline_ms=1)


def test_random_comings_and_goings_lose_and_double_nobody() -> None:
    dice = random.Random(5)
    polls = LongPolls(1000)
    waiting: dict[Waiter, tuple[tuple[str, int], object, int]] = {}
    resting: list[Waiter] = []
    now = 0
    for _ in range(5000):
        now += dice.randrange(60)
        action = dice.randrange(6)
        left: set[Waiter]
        if action < 3:
            queue, deadline = ("T", dice.randrange(5)), now + dice.randrange(900)
            reused = bool(resting) and dice.random() < 0.7
            waiter = resting.pop(dice.randrange(len(resting))) if reused else Waiter(dice.randrange(8))
            assert polls.park(waiter, queue, deadline)
            waiting[waiter] = (queue, waiter.owner, deadline)
            continue
        if action == 3:
            queue = ("T", dice.randrange(5))
            left = set(polls.wake(queue))
            assert left == {waiter for waiter, item in waiting.items() if item[0] == queue}
        elif action == 4:
            left = set(polls.due(now))
            assert left == {waiter for waiter, item in waiting.items() if item[2] <= now}
        else:
            owner = dice.randrange(8)
            left = {waiter for waiter, item in waiting.items() if item[1] == owner}
            assert polls.drop(owner) == len(left)
        for waiter in left:
            del waiting[waiter]
            resting.append(waiter)
        assert len(polls) == len(waiting)


def test_those_who_left_long_before_their_deadlines_take_no_memory() -> None:
    polls = LongPolls(10)
    for number in range(50_000):
        assert park(polls, A, number, owner=1, deadline_ms=30_000 + number)
        polls.wake(A)
    assert polls.listed <= 1100
    assert park(polls, A, "last", owner=1, deadline_ms=100_000)
    assert polls.due(99_999) == []
    assert names(polls.due(100_000)) == ["last"]
    assert polls.listed == 0
