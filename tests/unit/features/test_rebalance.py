"""Shares of queues: complete, disjoint, as RocketMQ deals them."""

from __future__ import annotations

import pytest

from litemq.features.rebalance import average, circle

QUEUES = list(range(10))


def test_the_first_members_get_one_more() -> None:
    members = ["a", "b", "c"]
    assert [average(QUEUES, members, member) for member in members] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert [circle(QUEUES, members, member) for member in members] == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]


def test_who_is_not_a_member_gets_nothing() -> None:
    assert average(QUEUES, ["a"], "b") == []
    assert circle(QUEUES, ["a"], "b") == []


@pytest.mark.parametrize("queues", range(12))
@pytest.mark.parametrize("count", range(1, 8))
def test_every_queue_has_one_reader(queues: int, count: int) -> None:
    members = [f"m{number}" for number in range(count)]
    for deal in (average, circle):
        shares = [deal(range(queues), members, member) for member in members]
        assert sorted(queue for share in shares for queue in share) == list(range(queues))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
