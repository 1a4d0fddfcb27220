"""Ways to deal queues, as consumers use them: every queue has one reader, whoever comes and goes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from litemq.client.group_member import STRATEGIES, Deal, check_strategy, new_client_id, room_of, strategy
from litemq.client.routes import TopicQueue
from litemq.errors import InvalidRequest

ROOMS = {"broker-a": "north", "broker-b": "south", "broker-c": "west"}


def _queues(count: int) -> list[TopicQueue]:
    return [TopicQueue("orders", broker, number) for broker in sorted(ROOMS) for number in range(count)]


def _shares(deal: Deal, queues: list[TopicQueue], members: list[str]) -> dict[str, list[TopicQueue]]:
    return {member: list(deal(queues, members, member)) for member in members}


@pytest.mark.parametrize("name", STRATEGIES)
@given(count=st.integers(0, 8), size=st.integers(1, 7))
@settings(max_examples=30)
def test_every_queue_has_one_reader(name: str, count: int, size: int) -> None:
    queues = _queues(count)
    members = sorted(f"c{number}{'%room=north' if number % 3 else ''}" for number in range(size))
    shares = _shares(strategy(name, ROOMS), queues, members)
    assert sorted((queue for share in shares.values() for queue in share), key=str) == sorted(queues, key=str)


@pytest.mark.parametrize("name", STRATEGIES)
def test_who_is_no_member_gets_nothing(name: str) -> None:
    assert list(strategy(name, ROOMS)(_queues(4), ["a", "b"], "c")) == []


def test_average_is_balanced() -> None:
    shares = _shares(strategy("average", {}), _queues(5), ["a", "b", "c", "d"])
    assert sorted(map(len, shares.values())) == [3, 4, 4, 4]


def test_a_member_reads_in_its_own_room() -> None:
    north, south = "n%room=north", "s%room=south"
    shares = _shares(strategy("same-room", ROOMS), _queues(4), [north, south])
    assert {queue.broker for queue in shares[north]} == {"broker-a", "broker-c"}
    assert {queue.broker for queue in shares[south]} == {"broker-b", "broker-c"}
    assert {len(share) for share in shares.values()} == {6}


def test_rooms_travel_in_client_ids() -> None:
    assert room_of(new_client_id("one", "north")) == "north"
    assert room_of(new_client_id("one")) == ""


def test_consistent_hash_spreads_over_all_members() -> None:
    shares = _shares(strategy("consistent-hash", {}), _queues(8), ["CID_A", "CID_B", "CID_C"])
    assert all(shares.values())


class Members(RuleBasedStateMachine):
    """With consistent hashes only queues of those who came or went move."""

    def __init__(self) -> None:
        super().__init__()
        self.members: list[str] = ["c0"]
        self.deal = strategy("consistent-hash", {})
        self.queues = _queues(6)
        self.owners = self._owners()
        self.serial = 0

    def _owners(self) -> dict[TopicQueue, str]:
        shares = _shares(self.deal, self.queues, self.members)
        return {queue: member for member, share in shares.items() for queue in share}

    @rule()
    def join(self) -> None:
        self.serial += 1
        newcomer = f"c{self.serial}"
        self.members = sorted([*self.members, newcomer])
        after = self._owners()
        assert all(after[queue] in (owner, newcomer) for queue, owner in self.owners.items())
        self.owners = after

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        if len(self.members) == 1:
            return
        gone = data.draw(st.sampled_from(self.members))
        self.members = [member for member in self.members if member != gone]
        after = self._owners()
        assert all(after[queue] == owner for queue, owner in self.owners.items() if owner != gone)
        self.owners = after

    @invariant()
    def every_queue_has_a_reader(self) -> None:
        assert self.owners.keys() == set(self.queues)


TestMembers = Members.TestCase
TestMembers.settings = settings(max_examples=15, stateful_step_count=12)


def test_unknown_strategies_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="average, consistent-hash, same-room"):
        check_strategy("fair")
    assert check_strategy(strategy("average", {}))
