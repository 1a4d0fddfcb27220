"""Runs of the near future, beside a plain dictionary of all runs."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from litemq.features.cron.near_runs import LEAD_MS, WINDOW_MS, Entry, Load, NearRuns

MINUTE = 60_000
jobs = st.sampled_from([f"job-{number}" for number in range(25)])
delays = st.sampled_from([0, 1, MINUTE, 30 * MINUTE, 2 * 60 * MINUTE]) | st.integers(-1_000, 3 * 60 * MINUTE)


class Beside(RuleBasedStateMachine):
    """``NearRuns``, and the index that it stands before; a job that was taken waits in ``_taken``."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000
        self.real = NearRuns(limit=8)
        self.index: dict[str, Entry] = {}
        self.taken: set[str] = set()
        self.loading: tuple[Load, list[Entry]] | None = None

    def read(self, load: Load) -> list[Entry]:
        found = (entry for entry in self.index.values() if entry.key > load.after and entry.due_ms < load.until_ms)
        return sorted(found)[: load.most]

    @rule(job=jobs, delay=delays)
    def put(self, job: str, delay: int) -> None:
        self.index[job] = Entry(self.now + delay, job, self.now)
        self.real.put(self.index[job])
        self.taken.discard(job)

    @rule(job=jobs)
    def remove(self, job: str) -> None:
        self.index.pop(job, None)
        self.real.remove(job)
        self.taken.discard(job)

    @rule(by=st.sampled_from([1, 1_000, 10 * MINUTE, 90 * MINUTE]))
    def wait(self, by: int) -> None:
        self.now += by

    @rule(most=st.integers(1, 10))
    def take(self, most: int) -> None:
        found = self.real.take(self.now, most)
        assert found == sorted(found)
        assert len(found) <= most
        for entry in found:
            assert entry.due_ms <= self.now
            assert self.index[entry.job_id] == entry
            assert entry.job_id not in self.taken
            self.taken.add(entry.job_id)

    @rule(data=st.data(), delay=delays)
    def go_on(self, data: st.DataObject, delay: int) -> None:
        if self.taken:
            self.put(data.draw(st.sampled_from(sorted(self.taken))), delay)

    @precondition(lambda self: self.loading is None)
    @rule()
    def ask(self) -> None:
        load = self.real.wanted(self.now)
        if load is not None:
            self.loading = load, self.read(load)  # the index may change before the answer is here
            assert self.real.wanted(self.now) is None

    @precondition(lambda self: self.loading is not None)
    @rule(late=st.booleans())
    def answer(self, late: bool) -> None:
        assert self.loading is not None
        load, entries = self.loading
        self.loading = None
        self.real.loaded(load, self.read(load) if late else entries)

    @precondition(lambda self: self.loading is not None)
    @rule()
    def fail(self) -> None:
        assert self.loading is not None
        self.real.failed(self.loading[0])
        self.loading = None

    @rule()
    def drain(self) -> None:
        """Everything that is due comes, in order, however little fits into memory at once."""
        if self.loading is not None:
            self.answer(late=False)
        due = {job for job, entry in self.index.items() if entry.due_ms <= self.now} - self.taken
        found: list[Entry] = []
        for _ in range(100):
            if (load := self.real.wanted(self.now)) is not None:
                self.real.loaded(load, [entry for entry in self.read(load) if entry.job_id not in self.taken])
            slice_ = self.real.take(self.now, 3)
            found += slice_
            self.taken |= {entry.job_id for entry in slice_}
            wake = self.real.wake_ms()
            assert wake is not None
            if not slice_ and wake > self.now:
                break
        assert [entry.job_id for entry in found if entry.job_id in due] == [entry.job_id for entry in found]
        assert {entry.job_id for entry in found} == due

    @invariant()
    def memory_is_the_head_of_the_index(self) -> None:
        bound = self.real._bound
        head = {job: entry for job, entry in self.index.items() if entry.key <= bound and job not in self.taken}
        assert self.real._runs == head
        assert len(self.real) <= 8
        assert len(self.real._heap) <= 2 * 8 + 1_024


TestBeside = Beside.TestCase
TestBeside.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)


def loaded(near: NearRuns, now_ms: int, entries: list[Entry]) -> None:
    load = near.wanted(now_ms)
    assert load is not None
    near.loaded(load, entries)


def test_an_hour_is_loaded_ten_minutes_ahead() -> None:
    near = NearRuns()
    load = near.wanted(0)
    assert load == Load((-1, ""), LEAD_MS + WINDOW_MS, 250_000)
    near.loaded(load, [])
    assert near.wake_ms() == WINDOW_MS
    assert near.wanted(WINDOW_MS - 1) is None
    assert near.wanted(WINDOW_MS) == Load((LEAD_MS + WINDOW_MS, ""), LEAD_MS + 2 * WINDOW_MS, 250_000)
    assert near.wake_ms() is None


def test_a_burst_is_handed_out_in_slices() -> None:
    near = NearRuns(200_000)
    burst = [Entry(5_000, f"job-{number:06}", 5_000) for number in range(100_000)]
    loaded(near, 0, burst)
    assert near.wake_ms() == 5_000
    assert near.take(4_999, 1_000) == []
    found = []
    while slice_ := near.take(5_000, 1_000):
        assert len(slice_) <= 1_000
        found += slice_
    assert found == burst


def test_a_burst_that_does_not_fit_comes_all_the_same() -> None:
    """All keys are due in the same millisecond: the bound stands between two jobs."""
    near = NearRuns(100)
    burst = [Entry(5_000, f"job-{number:06}", 5_000) for number in range(1_000)]
    found: list[Entry] = []
    while len(found) < 1_000:
        load = near.wanted(5_000)
        if load is not None:
            near.loaded(load, [entry for entry in burst if entry.key > load.after][: load.most])
        found += near.take(5_000, 30)
    assert found == burst


def test_an_answer_that_nobody_asked_for() -> None:
    near = NearRuns()
    load = near.wanted(0)
    assert load is not None
    near.loaded(load, [])
    with pytest.raises(ValueError, match="was not asked for"):
        near.loaded(load, [])


def test_room_for_one_is_too_little() -> None:
    with pytest.raises(ValueError, match="room for 2 entries, not 1"):
        NearRuns(1)


def test_what_was_put_and_taken_while_loading_does_not_come_twice() -> None:
    near = NearRuns()
    loaded(near, 0, [])
    load = near.wanted(WINDOW_MS)
    assert load is not None
    near.put(Entry(WINDOW_MS, "a", WINDOW_MS))
    assert near.take(WINDOW_MS, 10) == [Entry(WINDOW_MS, "a", WINDOW_MS)]
    near.loaded(load, [])
    assert near.take(WINDOW_MS, 10) == []
