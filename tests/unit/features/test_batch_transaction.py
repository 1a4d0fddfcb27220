"""Batch transactions beside a plain model, through restarts, carried records and snapshots at any point."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from litemq.errors import BadField, Busy, LiteMQError, RowsMissing, StaleEpoch, TransactionOver
from litemq.features.batch_dump import dump, load
from litemq.features.batch_parts import (
    Ask,
    Expire,
    Key,
    Limits,
    Memory,
    Place,
    Publication,
    Repeat,
    Verdict,
    counted,
    shares,
)
from litemq.features.batch_transaction import Batches
from litemq.format.batch_records import Confirmed, Ended, Fact, Published, Publishing, Staged, Winner

HERE, THERE = "broker-a", "broker-b"
ANYTHING = Limits(open=1000, parts=1000, producers=1000, staged_bytes=1 << 40)

producers = st.sampled_from(["p", "q"])
epochs = st.integers(0, 3)
partitions = st.integers(0, 2)
attempts = st.integers(0, 1)


def staged(key: Key, partition: int, attempt: int, sequence: int, count: int, coordinator: str = HERE) -> Staged:
    return Staged(*key, partition, attempt, sequence, coordinator, count, count * 100, count, ("T",), 0, "h:1")


NOTHING = Confirmed("nobody", 0, THERE)
"""In place of a fact whose segment is gone."""


@dataclass
class Told:
    """What the model knows of an open transaction: rows of each request of each attempt."""

    parts: dict[tuple[int, int], list[int]] = field(default_factory=dict)


class Beside(RuleBasedStateMachine):
    """``Batches`` over a list of facts, and dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[Fact, Place]] = []
        self.real = Batches(HERE)
        self.open: dict[Key, Told] = {}
        self.last: dict[str, tuple[int, bool, int]] = {}
        self.publishing: dict[Key, list[tuple[tuple[int, int], int, int]]] = {}
        """Rows that are not published yet, as (attempt of a partition, request, number)."""
        self.snapshot: tuple[str, int] | None = None
        self.now = 0

    def record(self, fact: Fact, origin: int = -1) -> None:
        at = len(self.log)
        place = Place(at, at * 1000, at * 1000 if origin < 0 else origin)
        self.log.append((fact, place))
        self.real.apply(fact, place, self.now)

    def ended(self, key: Key) -> str | None:
        last = self.last.get(key.producer_id)
        if last is None or last[0] < key.epoch:
            return None
        if last[0] > key.epoch:
            return "stale"
        return "committed" if last[1] else "aborted"

    def end(self, key: Key, is_committed: bool, rows: int) -> None:
        self.last[key.producer_id] = key.epoch, is_committed, rows
        for other in [other for other in self.open if other.producer_id == key.producer_id]:
            if other.epoch <= key.epoch:
                del self.open[other]

    @rule(name=producers, epoch=epochs, partition=partitions, attempt=attempts, count=st.integers(1, 3), data=st.data())
    def stage(self, name: str, epoch: int, partition: int, attempt: int, count: int, data: st.DataObject) -> None:
        key = Key(name, epoch)
        rows = self.open[key].parts.get((partition, attempt), []) if key in self.open else []
        sequence = data.draw(st.sampled_from([len(rows), len(rows), max(len(rows) - 1, 0), len(rows) + 1]))
        wanted = staged(key, partition, attempt, sequence, count)
        try:
            verdict: object = self.real.stage(wanted, ANYTHING)
        except LiteMQError as error:
            verdict = type(error)
        expected: object = {
            None: None,
            "stale": StaleEpoch,
            "committed": Verdict.COMMITTED,
            "aborted": Verdict.ABORTED,
        }[self.ended(key)]
        if expected is None:
            if sequence < len(rows):
                expected = Verdict.REPEATED if rows[sequence] == count else TransactionOver
            else:
                expected = Verdict.STORE if sequence == len(rows) else RowsMissing
        assert verdict == expected
        if verdict is Verdict.STORE:
            self.record(wanted)
            self.open.setdefault(key, Told()).parts.setdefault((partition, attempt), []).append(count)

    @rule(name=producers, epoch=epochs, data=st.data())
    def commit(self, name: str, epoch: int, data: st.DataObject) -> None:
        key = Key(name, epoch)
        parts = self.open[key].parts if key in self.open else {}
        chosen = data.draw(st.lists(st.sampled_from(sorted(parts)), unique_by=lambda one: one[0])) if parts else []
        is_short = data.draw(st.booleans()) and data.draw(st.booleans())
        elsewhere = data.draw(st.integers(0, 2))
        winners = tuple(
            Winner(*place, {HERE: sum(parts[place]) + is_short} | ({THERE: elsewhere} if elsewhere else {}))
            for place in chosen
        )
        state = self.ended(key)
        if state in ("stale", "aborted") or (state is None and is_short and chosen):
            expected = {"stale": StaleEpoch, "aborted": TransactionOver, None: RowsMissing}[state]
            with pytest.raises(expected):
                self.real.commit(key, winners, HERE, self.now)
            return
        found = self.real.commit(key, winners, HERE, self.now)
        if state is not None:
            assert state == "committed"
            assert isinstance(found, Memory)
            assert found.rows == self.last[name][2]
            return
        assert isinstance(found, Ended)
        self.record(found)
        rows = [
            (place, request, number)
            for place in chosen
            for request, count in enumerate(parts[place])
            for number in range(count)
        ]
        if rows:
            self.publishing[key] = rows
        self.end(key, True, sum(sum(winner.rows.values()) for winner in winners))

    @rule(name=producers, epoch=epochs)
    def abort(self, name: str, epoch: int) -> None:
        key, state = Key(name, epoch), self.ended(Key(name, epoch))
        if state in ("stale", "committed"):
            with pytest.raises(StaleEpoch if state == "stale" else TransactionOver):
                self.real.abort(key, HERE, "why", self.now)
            return
        found = self.real.abort(key, HERE, "why", self.now)
        if isinstance(found, Memory):
            assert state == "aborted"
            return
        assert state is None
        self.record(found)
        self.end(key, False, 0)

    @rule(name=producers, epoch=epochs, partition=st.integers(-1, 2), attempt=attempts)
    def drop(self, name: str, epoch: int, partition: int, attempt: int) -> None:
        key, state = Key(name, epoch), self.ended(Key(name, epoch))
        try:
            found = self.real.drop(key, partition, attempt)
        except StaleEpoch:
            assert state == "stale"
            return
        assert isinstance(found, Memory) == (state in ("committed", "aborted"))
        if found is not None and not isinstance(found, Memory):
            self.record(found)
            if partition < 0:
                del self.open[key]
            else:
                del self.open[key].parts[partition, attempt]
                if not self.open[key].parts:
                    del self.open[key]

    @precondition(lambda self: self.publishing)
    @rule(data=st.data(), count=st.integers(1, 3), is_cut=st.booleans())
    def publish(self, data: st.DataObject, count: int, is_cut: bool) -> None:
        """Publish a slice; when it ``is_cut``, the log ends behind some of its messages and the start counts them."""
        key = data.draw(st.sampled_from(sorted(self.publishing)))
        publication, left = self.real.publications[key], self.publishing[key]
        count = min(count, len(left))
        self.record(Publishing(*key, publication.done, count))
        got = data.draw(st.integers(0, count)) if is_cut else count
        assert [row_at(publication, publication.done + n) for n in range(got)] == left[:got]
        del left[:got]
        publication.done += got
        if not left:
            self.record(Published(*key))
            del self.publishing[key]

    @rule()
    def restart(self) -> None:
        """Apply all facts anew; how far the newest slice got, a start finds among the messages."""
        done = {key: one.done for key, one in self.real.publications.items()}
        self.real = Batches(HERE)
        first = 0
        if self.snapshot is not None:
            text, first = self.snapshot
            self.real = load(HERE, json.loads(text))
        for fact, place in self.log[first:]:
            self.real.apply(fact, place, self.now)
        assert done.keys() == self.real.publications.keys()
        for key, one in self.real.publications.items():
            assert one.done <= done[key]
            assert one.behind >= 0 or one.done == done[key]
            one.done = done[key]

    @rule()
    def save(self) -> None:
        self.snapshot = json.dumps(dump(self.real)), len(self.log)

    @rule(data=st.data())
    def carry(self, data: st.DataObject) -> None:
        """Say again what stands in the first part of the log, and forget that part."""
        if not self.log:
            return
        start = data.draw(st.integers(0, len(self.log))) * 1000
        if self.snapshot is not None:  # what is behind it is replayed over it
            start = min(start, self.snapshot[1] * 1000)
        for key, place, part in list(self.real.parts()):
            for chunk in list(part.chunks.values()):
                if chunk.place.position < start:
                    copy = staged(key, *place, chunk.sequence, chunk.count)
                    origin = chunk.place.origin
                    self.record(copy, origin)
                    assert part.chunks[chunk.sequence].place.origin == origin
        for key in self.real.said_before(start):
            self.record(self.real.fact_of(key))
        assert not self.real.said_before(start)
        self.log = [(NOTHING if place.position < start else fact, place) for fact, place in self.log]

    @invariant()
    def agrees(self) -> None:
        real = {Key(name, epoch): one for name, epochs in self.real.open.items() for epoch, one in epochs.items()}
        assert real.keys() == self.open.keys()
        assert self.real.open_count == len(self.open)
        for key, one in real.items():
            rows = {place: [part.chunks[n].count for n in sorted(part.chunks)] for place, part in one.parts.items()}
            assert rows == self.open[key].parts
        assert {name: (one.epoch, one.is_committed, one.rows) for name, one in self.real.memories.items()} == self.last
        total = sum(counted(chunk.size) for _, _, part in self.real.parts() for chunk in part.chunks.values())
        assert self.real.staged_bytes == total
        assert self.real.publications.keys() == self.publishing.keys()
        for key, publication in self.real.publications.items():
            assert publication.total - publication.done == len(self.publishing[key])


def row_at(publication: Publication, number: int) -> tuple[tuple[int, int], int, int]:
    """Return the row with this number: (attempt of a partition, request, number in it)."""
    places = {id(chunk): place for place, part in publication.parts.items() for chunk in part.chunks.values()}
    for first, chunk in publication.chunks():
        if first <= number < first + chunk.count:
            return places[id(chunk)], chunk.sequence, number - first
    raise AssertionError(number)


TestBeside = Beside.TestCase
TestBeside.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


# -- what the model does not look at ----------------------------------------------------------------

KEY = Key("p", 1)


def filled(limits: Limits = ANYTHING, *facts: Fact) -> Batches:
    found = Batches(HERE)
    for at, fact in enumerate(facts):
        if isinstance(fact, Staged):
            assert found.stage(fact, limits) is Verdict.STORE
        found.apply(fact, Place(at, at * 1000, at * 1000), 0)
    return found


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        (ANYTHING._replace(open=1), "transaction.batch_open"),
        (ANYTHING._replace(producers=1), "transaction.batch_producers"),
        (ANYTHING._replace(staged_bytes=20_000), "transaction.batch_staged_bytes"),
    ],
)
def test_a_limit_names_itself(limits: Limits, name: str) -> None:
    found = filled(limits, staged(KEY, 0, 0, 0, 5))
    with pytest.raises(Busy, match=name):
        found.stage(staged(Key("q", 0), 0, 0, 0, 5), limits)


def test_attempts_are_limited() -> None:
    limits = ANYTHING._replace(parts=1)
    found = filled(limits, staged(KEY, 0, 0, 0, 5))
    with pytest.raises(Busy, match=r"transaction\.batch_parts"):
        found.stage(staged(KEY, 0, 1, 0, 5), limits)
    assert found.stage(staged(KEY, 0, 0, 1, 5), limits) is Verdict.STORE


def test_an_attempt_that_was_counted_gets_no_more_rows() -> None:
    found = filled(ANYTHING, staged(KEY, 0, 0, 0, 5, THERE))
    found.count(KEY, (Winner(0, 0, {HERE: 5}),), seal=True)
    with pytest.raises(TransactionOver, match="counted"):
        found.stage(staged(KEY, 0, 0, 1, 5, THERE), ANYTHING)


def test_a_transaction_has_one_coordinator() -> None:
    found = filled(ANYTHING, staged(KEY, 0, 0, 0, 5, THERE))
    with pytest.raises(BadField, match="broker-b"):
        found.stage(staged(KEY, 1, 0, 0, 5, HERE), ANYTHING)


def test_rows_that_a_commit_does_not_name_are_missed() -> None:
    found = filled(ANYTHING, staged(KEY, 0, 0, 0, 5))
    with pytest.raises(RowsMissing, match="5 rows on broker-a, the commit names 0"):
        found.commit(KEY, (Winner(0, 0, {THERE: 5}),), HERE, 0)
    with pytest.raises(BadField, match="twice"):
        found.commit(KEY, (Winner(0, 0, {HERE: 5}), Winner(0, 1, {})), HERE, 0)


def test_a_decision_is_kept_until_every_broker_has_confirmed_it() -> None:
    winners = (Winner(0, 0, {HERE: 5, THERE: 2}), Winner(1, 3, {THERE: 4}))
    found = filled(ANYTHING, staged(KEY, 0, 0, 0, 5))
    found.apply(found.commit(KEY, winners, HERE, 0), Place(1, 1000, 1000), 0)  # type: ignore[arg-type]
    found.apply(Published(*KEY), Place(2, 2000, 2000), 0)
    later = Key("p", 2)
    found.apply(found.commit(later, (), HERE, 0), Place(3, 3000, 3000), 0)  # type: ignore[arg-type]
    assert found.decided(KEY, THERE) == ("committed", shares(winners, THERE))
    assert found.due(99, ask_ms=100, expiry_ms=1000, most=16) == []
    assert found.due(100, ask_ms=100, expiry_ms=1000, most=16) == [Repeat(KEY, THERE, shares(winners, THERE))]
    again = Batches(HERE)
    for number, key in enumerate(found.said_before(10_000)):
        again.apply(found.fact_of(key), Place(number, number, number), 0)
    assert again.decided(KEY, THERE) == ("committed", shares(winners, THERE))
    found.apply(Confirmed(*KEY, THERE), Place(4, 4000, 4000), 0)
    assert found.decided(KEY, THERE) == ("aborted", ())  # it has nothing of it any more: what it holds did not win
    assert found.due(10_000, ask_ms=100, expiry_ms=1000, most=16) == []


def test_who_holds_rows_asks_and_only_the_coordinator_expires() -> None:
    other = Key("q", 0)
    found = filled(ANYTHING, staged(KEY, 0, 0, 0, 5), staged(other, 0, 0, 0, 5, THERE))
    assert found.due(99, ask_ms=100, expiry_ms=1000, most=16) == []
    assert found.due(100, ask_ms=100, expiry_ms=1000, most=16) == [Ask(other, THERE, False)]
    assert found.due(150, ask_ms=100, expiry_ms=1000, most=16) == []
    assert found.due(1000, ask_ms=100, expiry_ms=1000, most=16) == [Expire(KEY), Ask(other, THERE, True)]


def test_producers_are_forgotten_when_nobody_has_used_them_for_long() -> None:
    found = Batches(HERE)
    for at, name in enumerate(("a", "b", "c")):
        found.apply(found.abort(Key(name, 7), HERE, "", at), Place(at, at, at), at)  # type: ignore[arg-type]
    found.use("a", 50)
    found.forget(101, 100)
    assert list(found.memories) == ["c", "a"]
    assert found.stage(staged(Key("b", 7), 0, 0, 0, 1), ANYTHING) is Verdict.STORE


def test_a_producer_with_work_left_is_not_forgotten() -> None:
    found = filled(ANYTHING, staged(KEY, 0, 0, 0, 5))
    found.apply(found.commit(KEY, (Winner(0, 0, {HERE: 5}),), HERE, 0), Place(1, 1, 1), 0)  # type: ignore[arg-type]
    found.forget(10_000, 100)
    assert KEY.producer_id in found.memories


def test_states() -> None:
    found = filled(ANYTHING, staged(KEY, 0, 0, 0, 5))

    def state(key: Key) -> str:
        return str(found.state(key)["state"])

    assert (state(KEY), state(Key("p", 0)), state(Key("z", 0))) == ("open", "unknown", "unknown")
    found.apply(found.abort(KEY, HERE, "why", 0), Place(1, 1, 1), 0)  # type: ignore[arg-type]
    assert (state(KEY), state(Key("p", 0)), state(Key("p", 2))) == ("aborted", "stale", "unknown")
    assert found.state(KEY)["reason"] == "why"


def test_an_earlier_epoch_waits_for_its_coordinator() -> None:
    """A broker that was away when an epoch was decided, and hears of the next one first."""
    earlier, later = Key("p", 1), Key("p", 2)
    found = filled(ANYTHING, staged(earlier, 0, 0, 0, 5, THERE), staged(earlier, 0, 9, 0, 1, THERE))
    assert found.stage(staged(later, 0, 0, 0, 2, THERE), ANYTHING) is Verdict.STORE
    found.apply(staged(later, 0, 0, 0, 2, THERE), Place(2, 2000, 2000), 0)
    fact = found.commit(later, (Winner(0, 0, {HERE: 2}),), THERE, 0)
    assert isinstance(fact, Ended)
    found.apply(fact, Place(3, 3000, 3000), 0)
    assert found.due(1000, ask_ms=100, expiry_ms=9999, most=16) == [Ask(earlier, THERE, False)]
    with pytest.raises(StaleEpoch):  # a client's commit of it, which its coordinator would refuse
        found.commit(earlier, (Winner(0, 0, {HERE: 5}),), "", 0)
    fact = found.commit(earlier, (Winner(0, 0, {HERE: 5}),), THERE, 0)
    assert isinstance(fact, Ended)
    found.apply(fact, Place(4, 4000, 4000), 0)
    assert set(found.publications) == {earlier, later}
    assert found.memories["p"].epoch == 2
    assert found.open_count == 0
    again = found.commit(earlier, (Winner(0, 0, {HERE: 5}),), THERE, 0)
    assert isinstance(again, Memory)
    assert (again.is_committed, again.rows) == (True, 5)


def test_an_earlier_epoch_that_was_aborted_goes_when_its_coordinator_says_so() -> None:
    found = filled(ANYTHING, staged(Key("p", 1), 0, 0, 0, 5, THERE))
    found.apply(found.commit(Key("p", 2), (), THERE, 0), Place(1, 1, 1), 0)  # type: ignore[arg-type]
    assert found.open_count == 1
    found.apply(found.abort(Key("p", 1), THERE, "", 0), Place(2, 2, 2), 0)  # type: ignore[arg-type]
    assert (found.open_count, found.staged_bytes, found.memories["p"].epoch) == (0, 0, 2)


def test_rows_that_were_counted_are_not_dropped() -> None:
    found = filled(ANYTHING, staged(KEY, 0, 0, 0, 5, THERE), staged(KEY, 1, 0, 0, 5, THERE))
    found.count(KEY, (Winner(0, 0, {HERE: 5}),), seal=True)
    for place in ((0, 0), (-1, -1)):
        with pytest.raises(TransactionOver, match="counted"):
            found.drop(KEY, *place)
    assert found.drop(KEY, 1, 0) is not None


def test_rows_that_may_have_been_counted_before_a_start_are_not_dropped() -> None:
    """Counting is in no record: behind a start, nobody but the coordinator knows whether they won."""
    own = Key("own", 1)
    before = filled(ANYTHING, staged(KEY, 0, 0, 0, 5, THERE), staged(own, 0, 0, 0, 5))
    before.count(KEY, (Winner(0, 0, {HERE: 5}),), seal=True)
    found = load(HERE, json.loads(json.dumps(dump(before))))
    found.doubt()
    for place in ((0, 0), (-1, -1)):
        with pytest.raises(TransactionOver, match="may have been counted"):
            found.drop(KEY, *place)
    assert found.drop(own, 0, 0) is not None
    assert found.stage(staged(KEY, 0, 0, 1, 5, THERE), ANYTHING) is Verdict.STORE
    found.apply(found.abort(KEY, THERE, "", 0), Place(9, 9, 9), 0)  # type: ignore[arg-type]
    assert KEY.producer_id not in found.open


def test_carried_rows_of_an_earlier_epoch_outlive_a_start() -> None:
    later = Ended("p", 2, True, (), THERE, "", 0)
    rows = staged(KEY, 0, 0, 0, 5, THERE)
    found = filled(ANYTHING, rows, later)
    saved = dump(found)
    for again in (Batches(HERE), load(HERE, saved)):
        again.apply(later, Place(1, 1000, 1000), 0)
        again.apply(rows, Place(9, 9000, 0), 0)  # their first segment is gone
        (chunk,) = again.open["p"][1].parts[0, 0].chunks.values()
        assert chunk.place == Place(9, 9000, 0)
        again.apply(Ended(*KEY, True, (Winner(0, 0, {HERE: 5}),), THERE, "", 0, 5), Place(10, 10_000, 10_000), 0)
        assert [chunk.place.position for _, chunk in again.publications[KEY].chunks()] == [9000]


def test_a_producer_at_the_limit_can_end_what_it_has_open() -> None:
    limits = ANYTHING._replace(producers=2)
    found = filled(limits, Ended("other", 1, False, (), HERE, "", 0), staged(KEY, 0, 0, 0, 5))
    found.check_producers(KEY, limits)
    with pytest.raises(Busy, match="batch_producers"):
        found.check_producers(Key("third", 0), limits)


def test_only_the_coordinator_of_its_rows_ends_a_transaction() -> None:
    found = filled(ANYTHING, staged(KEY, 0, 0, 0, 5))
    with pytest.raises(BadField, match="broker-a"):
        found.commit(KEY, (Winner(0, 0, {HERE: 5, THERE: 1}),), THERE, 0)
    with pytest.raises(BadField, match="broker-a"):
        found.abort(KEY, THERE, "", 0)


def test_who_waited_longest_is_asked_about_first() -> None:
    found = filled(ANYTHING, *(staged(Key(f"p{number}", 0), 0, 0, 0, 5, THERE) for number in range(3)))
    asked = []
    for now_ms in (100, 101, 102, 103, 203):
        todo = found.due(now_ms, ask_ms=100, expiry_ms=1000, most=1)
        asked.append([one.key.producer_id for one in todo if isinstance(one, Ask)])
    assert asked == [["p0"], ["p1"], ["p2"], [], ["p0"]]
