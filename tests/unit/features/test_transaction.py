"""Pending transactions, beside a plain dictionary."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from litemq.features.transaction import BLOCK, MAX_CHECKS, MAX_GROUPS, Entry, Pending

offsets = st.integers(0, 5 * BLOCK) | st.integers(BLOCK - 3, BLOCK + 3)
times = st.integers(1, 1000)
groups = st.sampled_from(["", "a", "b", "gr\u00fcn"])


class Beside(RuleBasedStateMachine):
    """``Pending`` and a dictionary of (due, checks, group) by offset."""

    def __init__(self) -> None:
        super().__init__()
        self.real = Pending()
        self.model: dict[int, tuple[int, int, str]] = {}

    def some(self, data: st.DataObject) -> int:
        """Return an offset, mostly one that is pending."""
        return data.draw(st.sampled_from(sorted(self.model)) | offsets if self.model else offsets)

    @rule(offset=offsets, due=times, checks=st.integers(0, 300), group=groups)
    def add(self, offset: int, due: int, checks: int, group: str) -> None:
        self.real.add(offset, due, checks=checks, group=group)
        self.model[offset] = (due, min(checks, MAX_CHECKS), group)

    @rule(first=offsets, due=times)
    def add_many(self, first: int, due: int) -> None:
        for offset in range(first, first + 40):
            self.real.add(offset, due + offset % 7)
            self.model[offset] = (due + offset % 7, 0, "")

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        offset = self.some(data)
        assert self.real.end(offset) == (self.model.pop(offset, None) is not None)

    @rule(data=st.data(), due=times, counts=st.booleans())
    def put_off(self, data: st.DataObject, due: int, counts: bool) -> None:
        offset = self.some(data)
        (self.real.checked if counts else self.real.postpone)(offset, due)
        if offset in self.model:
            _, checks, group = self.model[offset]
            self.model[offset] = (due, min(checks + counts, MAX_CHECKS), group)

    @rule(now=times, most=st.integers(1, 200), does=st.sampled_from(["look", "check", "end"]))
    def pass_(self, now: int, most: int, does: str) -> None:
        found = self.real.due(now, most)
        ready = {offset: found for offset, found in self.model.items() if found[0] <= now}
        assert len(found) == min(most, len(ready))
        assert len({entry.offset for entry in found}) == len(found)
        for entry in found:
            assert (entry.due_ms, entry.checks, entry.group) == ready[entry.offset]
            if does == "check":
                self.real.checked(entry.offset, now + 60)
                self.model[entry.offset] = (now + 60, min(entry.checks + 1, MAX_CHECKS), entry.group)
            elif does == "end":
                assert self.real.end(entry.offset)
                del self.model[entry.offset]

    @rule(offset=offsets)
    def look(self, offset: int) -> None:
        known = self.model.get(offset)
        assert self.real.is_pending(offset) == (known is not None)
        found = self.real.find(offset)
        assert (found and (found.due_ms, found.checks, found.group)) == known
        first = self.real.first_from(offset)
        assert (first and first.offset) == min((other for other in self.model if other >= offset), default=None)

    @precondition(lambda self: self.model)
    @rule()
    def restart(self) -> None:
        names, blocks = self.real.export()
        again = Pending()
        assert again.load(names, blocks)
        assert again.export() == (names, blocks)
        self.real = again

    @invariant()
    def same(self) -> None:
        assert len(self.real) == len(self.model)
        assert [entry.offset for entry in self.real.entries()] == sorted(self.model)
        for first in sorted(self.model)[::3]:
            behind = [entry.offset for entry in self.real.entries(first + 1)]
            assert behind == sorted(offset for offset in self.model if offset > first)
        assert self.real.block_count == len({offset // BLOCK for offset in self.model})


TestBeside = Beside.TestCase
TestBeside.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_million_pending_take_little() -> None:
    tracemalloc.start()
    pending = Pending()
    for offset in range(1_000_000):
        pending.add(offset, 1_700_000_000_000 + offset, group="g")
    taken, _ = tracemalloc.get_traced_memory()
    names, blocks = pending.export()
    with_export, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 20 << 20
    assert with_export < 50 << 20
    again = Pending()
    assert again.load(names, blocks)
    assert len(again) == 1_000_000


def test_stuck_ones_cost_themselves() -> None:
    pending = Pending()
    for offset in range(100 * BLOCK):
        pending.add(offset, 1000)
        if offset % BLOCK:
            pending.end(offset)
    assert len(pending) == pending.block_count == 100
    for offset in range(BLOCK, 100 * BLOCK):
        pending.end(offset)
    assert pending.block_count == 1
    assert pending.due(1000, 5) == [Entry(0, 1000, 0, "")]


def test_those_that_wait_longest_come_first() -> None:
    pending = Pending()
    for offset in range(3 * BLOCK):
        pending.add(offset, 100 + offset // BLOCK)
    for entry in pending.due(200, BLOCK):
        pending.checked(entry.offset, 201)
    assert {entry.offset // BLOCK for entry in pending.due(300, BLOCK)} == {1}


def test_nothing_is_looked_at_before_its_time() -> None:
    pending = Pending()
    pending.add(7, 1000)
    assert pending.due(999, 10) == []
    assert pending.due(1000, 10) == [Entry(7, 1000, 0, "")]
    pending.checked(7, 2000)
    assert pending.due(1999, 10) == []
    assert pending.due(2000, 10) == [Entry(7, 2000, 1, "")]


def test_too_many_groups_are_left_out() -> None:
    pending = Pending()
    for number in range(MAX_GROUPS + 2):
        pending.add(number, 1, group=f"g{number}")
    assert pending.find(MAX_GROUPS - 1) == Entry(MAX_GROUPS - 1, 1, 0, f"g{MAX_GROUPS - 1}")
    assert pending.find(MAX_GROUPS + 1) == Entry(MAX_GROUPS + 1, 1, 0, "")


@pytest.mark.parametrize("damage", ["", "?", "AAAA", "number", "names", "cut"])
def test_a_damaged_snapshot_is_refused(damage: str) -> None:
    pending = Pending()
    for offset in (1, 2, 9):
        pending.add(offset, 5, group="g")
    names, blocks = pending.export()
    if damage == "number":
        blocks["x"] = blocks.pop("0")
    elif damage == "names":
        names = names[:1]
    elif damage == "cut":
        blocks["0"] = blocks["0"][:-8]
    else:
        blocks["0"] = damage
    again = Pending()
    assert not again.load(names, blocks)
    assert len(again) == 0
