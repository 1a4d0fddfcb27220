from __future__ import annotations

from litemq.broker.pop_holders import PopHolders
from litemq.features.pop import PopQueue


def test_numbers_of_those_who_hold_nothing_are_used_anew() -> None:
    queue = PopQueue(0)
    holders = PopHolders(lambda: [("key", queue)], most=3, at_once=1)
    numbers = [holders.number(name) for name in "abc"]
    assert sorted(numbers) == [1, 2, 3]
    assert holders.number("a") == numbers[0]
    queue.hand_out([0], 1, 10, 20, holders.number("b"))
    assert holders.number("d") not in (0, holders.number("b"))
    assert [holders.name(held.holder) for held in queue.held()] == ["b"]
    assert holders.name(holders.number("d")) == "d"
    assert (holders.number(""), holders.name(0), holders.name(99)) == (0, "", "")


def test_while_all_hold_something_others_are_not_known() -> None:
    queue = PopQueue(0)
    holders = PopHolders(lambda: [("key", queue)], most=2, at_once=1)
    for offset, name in enumerate("ab"):
        queue.hand_out([offset], offset + 1, 10, 20, holders.number(name))
    assert holders.number("c") == 0
    assert [holders.name(held.holder) for held in queue.held()] == ["a", "b"]
