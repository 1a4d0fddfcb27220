"""Receipts: nobody gets what another holds, nothing is lost, and a receipt is good for its own delivery only."""

from __future__ import annotations

import json

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from litemq.features.pop import Held, PopQueue, Standing

MOST = 3


class Machine(RuleBasedStateMachine):
    """A queue beside a dict that says the same in the simplest way."""

    @initialize(first=st.sampled_from([0, 1_000, 5_000_000_000]), is_ordered=st.booleans())
    def begin(self, first: int, is_ordered: bool) -> None:
        self.now = 1_000_000
        self.first = first
        self.is_ordered = is_ordered
        self.queue = PopQueue(first)
        self.held: dict[int, list[int]] = {}  # offset → generation, until, attempts
        self.done: set[int] = set()
        self.old: list[tuple[int, int]] = []  # receipts of earlier deliveries
        self.holders: dict[int, int] = {}

    def _deliver(self, offset: int, until: int) -> None:
        known = self.held.get(offset)
        if known is not None:
            assert known[1] <= self.now, "somebody else holds it"
            assert known[0] < self.now
            self.old.append((offset, known[0]))
        attempts = known[2] + 1 if known is not None else 1
        assert attempts <= MOST
        self.held[offset] = [self.now, max(until, self.now + 1), attempts]
        self.holders[offset] = self.now % 7

    @rule(count=st.integers(1, 40), skip=st.sets(st.integers(0, 39), max_size=5), invisible=st.integers(1, 500))
    def receive(self, count: int, skip: set[int], invisible: int) -> None:
        self.queue.expire(self.now, MOST)
        until = self.now + invisible
        if self.is_ordered:
            if self.queue.is_blocked or self.queue.dead:
                return
            count = 1
        again = self.queue.ready(count, self.now)
        if self.is_ordered and again:
            again = [self.queue.floor]
        assert again == sorted(set(again))
        for offset in again:
            assert self.queue.attempt(offset) == (self.held[offset][2], self.held[offset][0])
            self._deliver(offset, until)
        self.queue.deliver(again, self.now, until, self.now % 7)
        if not again and not (self.is_ordered and self.queue.count):
            first = self.queue.next
            fresh = [first + at for at in range(count) if at not in skip]
            self.done |= {first + at for at in range(count) if at in skip}
            for offset in fresh:
                assert offset not in self.held
                assert offset not in self.done
                self._deliver(offset, until)
            self.queue.hand_out(fresh, first + count, self.now, until, self.now % 7)
        if self.is_ordered:
            assert sum(until > self.now for _, until, _ in self.held.values()) <= 1

    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        if self.held:
            offset = data.draw(st.sampled_from(sorted(self.held)))
            assert self.queue.acknowledge(offset, self.held[offset][0]) is Standing.GOOD
            self._finish(offset)

    @rule(data=st.data())
    def acknowledge_with_an_old_receipt(self, data: st.DataObject) -> None:
        if self.old:
            offset, generation = data.draw(st.sampled_from(self.old))
            expected = Standing.DELIVERED_AGAIN if offset in self.held else Standing.NOT_HELD
            assert self.queue.acknowledge(offset, generation) is expected
            assert self.queue.change(offset, generation, self.now, self.now + 9) == 0

    @rule(data=st.data(), invisible=st.integers(0, 500))
    def change(self, data: st.DataObject, invisible: int) -> None:
        if self.held:
            offset = data.draw(st.sampled_from(sorted(self.held)))
            known = self.held[offset]
            changed = self.queue.change(offset, known[0], self.now, self.now + invisible)
            assert changed > known[0]
            self.old.append((offset, known[0]))
            known[:2] = [changed, max(self.now + invisible, changed + 1)]

    @rule(ms=st.integers(1, 400))
    def wait(self, ms: int) -> None:
        self.now += ms

    @rule()
    def bury(self) -> None:
        self.queue.expire(self.now, MOST)
        while found := self.queue.take_dead(2):
            for offset in found:
                assert self.held[offset][1] <= self.now
                assert self.held[offset][2] == MOST
                assert self.queue.finish(offset)
                self._finish(offset)

    @rule(by=st.integers(0, 60))
    def advance(self, by: int) -> None:
        goal = self.queue.floor + by
        self.queue.advance(goal)
        for offset in [offset for offset in self.held if offset < goal]:
            self._finish(offset)
        self.done |= set(range(self.first, goal))

    @rule()
    def keep(self) -> None:
        self.queue = PopQueue.load(json.loads(json.dumps(self.queue.dump())))
        self.holders = {}

    @rule()
    def restate(self) -> None:
        other = PopQueue(self.queue.next)
        for held in self.queue.held():
            other.restore(Held(*held[:4]))
        self.queue = other
        self.holders = {}

    def _finish(self, offset: int) -> None:
        self.old.append((offset, self.held.pop(offset)[0]))
        self.done.add(offset)

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "queue"):
            return
        assert [(one.offset, one.generation, one.attempt) for one in self.queue.held()] == [
            (offset, self.held[offset][0], self.held[offset][2]) for offset in sorted(self.held)
        ]
        told = {one.offset: one.holder for one in self.queue.held()}
        assert told == {offset: self.holders.get(offset, 0) for offset in self.held}
        assert set(self.queue.holders()) == set(told.values())
        middle = (self.first + self.queue.next) // 2
        assert [one.offset for one in self.queue.held(middle)] == sorted(one for one in told if one >= middle)
        assert self.queue.count == len(self.held)
        assert self.queue.floor == min(self.held, default=self.queue.next)
        assert not set(range(self.first, self.queue.next)) - self.held.keys() - self.done
        over = [offset for offset, (_, until, _) in self.held.items() if until <= self.now]
        assert self.queue.ready_count <= len(over)
        assert bool(over) <= (self.queue.due_ms <= self.now or self.queue.ready_count > 0)


TestMachine = Machine.TestCase


def test_a_million_held_messages_take_little() -> None:
    queue = PopQueue(0)
    for first in range(0, 1_000_000, 500):
        queue.hand_out(range(first, first + 500), first + 500, 1_000, 2_000)
    assert queue.count == 1_000_000
    assert sum(len(text) for text in queue.dump().values() if isinstance(text, str)) < 28_000_000
    assert queue.acknowledge(0, 1_000) is Standing.GOOD
    assert queue.floor == 1
    while queue.due_ms <= 2_000:
        queue.expire(2_000, 9)
    assert queue.ready_count == 999_999
    assert queue.ready(3, 2_001) == [1, 2, 3]


def test_a_time_that_runs_back_brings_no_second_delivery_of_one_generation() -> None:
    queue = PopQueue(0)
    queue.hand_out([0], 1, 100, 101)
    queue.expire(200, 9)
    assert queue.ready(1, 100) == []
    assert queue.ready(1, 101) == [0]


def test_bounds_that_fall_leave_no_list_that_grows() -> None:
    queue = PopQueue(0)
    queue.hand_out([0], 1, 1, 1_000_000)
    generation = 1
    for until in range(900_000, 800_000, -10):
        generation = queue.change(0, generation, 2, until)
    assert len(queue._due) < 2_000


def test_what_cannot_be_loaded_is_refused() -> None:
    told = PopQueue(5).dump()
    assert PopQueue.load(told).next == 5
    for wrong in ({"next": "x"}, {"blocks": 1}, {"index": 1}, {"index": "AAAA"}, {"until": "?"}):
        with pytest.raises(ValueError, match=r"."):
            PopQueue.load({**told, **wrong})


def test_held_says_who_waits() -> None:
    queue = PopQueue(0)
    queue.hand_out([3, 5], 6, 10, 20)
    queue.expire(20, 9)
    queue.deliver([3], 21, 40)
    assert list(queue.held()) == [Held(3, 21, 40, 2), Held(5, 10, 0, 1)]


def test_a_dead_message_that_was_ready_once_is_not_handed_out_again() -> None:
    queue = PopQueue(0)
    queue.hand_out([0], 1, 10, 20)
    queue.expire(20, 2)
    queue.deliver(queue.ready(1, 21), 21, 30)
    queue.expire(30, 2)
    assert queue.ready(1, 31) == []
    assert queue.change(0, 21, 31, 40) == 31
    assert queue.take_dead(1) == []
    queue.expire(40, 2)
    assert queue.take_dead(1) == [0]
