"""Parked pulls: each leaves once, at its queue's message, its deadline or with its connection."""

from __future__ import annotations

import random

from litemq.features.long_poll import LongPolls

A, B = ("T", 0), ("T", 1)


def test_a_message_wakes_those_of_its_queue_in_order() -> None:
    polls = LongPolls[str](10)
    assert polls.park(A, "first", owner=1, deadline_ms=100)
    assert polls.park(A, "second", owner=2, deadline_ms=50)
    assert polls.park(B, "other", owner=1, deadline_ms=100)
    assert [parked.pull for parked in polls.wake(A)] == ["first", "second"]
    assert len(polls) == 1
    assert not polls.waits_for(A)
    assert polls.wake(A) == []


def test_deadlines_take_those_that_still_wait() -> None:
    polls = LongPolls[str](10)
    polls.park(A, "late", owner=1, deadline_ms=100)
    polls.park(B, "early", owner=1, deadline_ms=50)
    polls.wake(B)
    assert polls.due(99) == []
    assert [parked.pull for parked in polls.due(100)] == ["late"]
    assert len(polls) == 0


def test_a_connection_takes_its_pulls_along() -> None:
    polls = LongPolls[str](10)
    polls.park(A, "mine", owner=1, deadline_ms=100)
    polls.park(A, "yours", owner=2, deadline_ms=100)
    assert polls.drop(1) == 1
    assert polls.drop(1) == 0
    assert [parked.pull for parked in polls.due(200)] == ["yours"]


def test_no_more_wait_than_may() -> None:
    polls = LongPolls[int](2)
    assert polls.park(A, 1, owner=1, deadline_ms=1)
    assert polls.park(A, 2, owner=1, deadline_ms=1)
    assert not polls.park(A, 3, owner=1, deadline_ms=1)
    assert len(polls.take_all()) == 2
    assert polls.park(A, 3, owner=1, deadline_ms=1)


def test_random_comings_and_goings_lose_and_double_nobody() -> None:
    dice = random.Random(5)
    polls = LongPolls[int](1000)
    waiting: dict[int, tuple[tuple[str, int], int, int]] = {}
    now = 0
    for serial in range(5000):
        now += dice.randrange(3)
        action = dice.randrange(6)
        left: set[int]
        if action < 3:
            queue, owner, deadline = ("T", dice.randrange(5)), dice.randrange(8), now + dice.randrange(40)
            assert polls.park(queue, serial, owner=owner, deadline_ms=deadline)
            waiting[serial] = (queue, owner, deadline)
            continue
        if action == 3:
            queue = ("T", dice.randrange(5))
            left = {parked.pull for parked in polls.wake(queue)}
            assert left == {pull for pull, item in waiting.items() if item[0] == queue}
        elif action == 4:
            left = {parked.pull for parked in polls.due(now)}
            assert left == {pull for pull, item in waiting.items() if item[2] <= now}
        else:
            owner = dice.randrange(8)
            left = {pull for pull, item in waiting.items() if item[1] == owner}
            assert polls.drop(owner) == len(left)
        for pull in left:
            del waiting[pull]
        assert len(polls) == len(waiting)
