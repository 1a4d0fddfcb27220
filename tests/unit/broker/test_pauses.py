"""A pause of the loop is noticed, and blamed on what caused it."""

from __future__ import annotations

import asyncio
import gc
import time

import pytest

from litemq.broker.pauses import GARBAGE, MACHINE, OTHER, THREADS, Pauses, Sample

MS = 1_000_000


class Times:
    """A machine whose times the test sets, in milliseconds."""

    def __init__(self) -> None:
        self.now = Sample(0, 0, 0, 0)
        self.stolen = 0
        self.pauses = Pauses(lambda: self.now, lambda: self.stolen * MS)
        self.pauses.note(self.now)

    def tick(self, *, wall: float, cpu: float = 1, threads: float = 0, not_run: float = 0, stolen: int = 0) -> None:
        self.stolen += stolen
        before = self.now
        self.now = Sample(
            before.wall + int(wall * MS),
            before.thread_cpu + int(cpu * MS),
            before.process_cpu + int((cpu + threads) * MS),
            before.not_run + int(not_run * MS),
        )
        self.pauses.note(self.now)


def test_ticks_in_time_are_no_pauses() -> None:
    times = Times()
    for wall in (10, 10.5, 15, 20):
        times.tick(wall=wall)
    assert not times.pauses.last
    times.tick(wall=20.1)
    assert [pause.took_ms for pause in times.pauses.last] == [20.1]


@pytest.mark.parametrize(
    ("given", "cause", "is_own"),
    [
        ({"cpu": 40}, OTHER, True),
        ({"cpu": 0}, OTHER, True),
        ({"cpu": 1, "not_run": 25}, MACHINE, False),
        ({"cpu": 1, "not_run": 15}, OTHER, True),
        ({"cpu": 1, "stolen": 40}, MACHINE, False),
        ({"cpu": 40, "stolen": 40}, OTHER, True),
        ({"cpu": 2, "threads": 35}, THREADS, True),
    ],
)
def test_what_the_machine_tells(given: dict[str, int], cause: str, is_own: bool) -> None:
    times = Times()
    times.tick(wall=50, **given)
    (pause,) = times.pauses.last
    assert (pause.cause, pause.is_own, pause.took_ms) == (cause, is_own, 50.0)
    assert pause.cpu_ms == given.get("cpu", 1)
    assert pause.not_run_ms == given.get("not_run", 0)


def mark(times: Times, cause: str, ms: int) -> None:
    times.pauses._marked[cause] += ms * MS


def test_marks_are_heard_before_guesses() -> None:
    times = Times()
    mark(times, "flush", 30)
    mark(times, "roll", 5)
    times.tick(wall=50, cpu=0, threads=45)
    assert [(pause.cause, pause.marked_ms) for pause in times.pauses.last] == [("flush", {"flush": 30.0, "roll": 5.0})]


def test_a_mark_is_for_one_tick() -> None:
    times = Times()
    mark(times, "flush", 15)
    times.tick(wall=16)
    times.tick(wall=60)
    assert [pause.cause for pause in times.pauses.last] == [OTHER]


def test_an_idle_loop_is_woken_less_often_and_marks_still_count() -> None:
    times = Times()
    for _ in range(9):
        times.tick(wall=10, cpu=0.1)
    assert times.pauses.interval_ns == 10 * MS
    times.tick(wall=10, cpu=0.1)
    assert times.pauses.interval_ns == 50 * MS
    times.tick(wall=50.5, cpu=0.1)
    assert not times.pauses.last
    mark(times, "retention", 35)
    times.tick(wall=50.5, cpu=30)
    assert [(pause.cause, pause.took_ms) for pause in times.pauses.last] == [("retention", 35.0)]
    assert times.pauses.interval_ns == 10 * MS


def test_marks_within_marks_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0

    def pass_time(ms: int) -> None:
        nonlocal now
        now += ms * MS

    monkeypatch.setattr(time, "monotonic_ns", lambda: now)
    pauses = Times().pauses
    with pauses.during("checkpoint"):
        pass_time(10)
        with pauses.during("flush"):
            pass_time(20)
            pauses.on_garbage("start", {})
            pass_time(40)
            pauses.on_garbage("stop", {})
        pass_time(5)
    assert pauses._take_marks() == {"checkpoint": 15 * MS, "flush": 20 * MS, GARBAGE: 40 * MS}


def test_the_report_adds_up_and_keeps_the_newest() -> None:
    times = Times()
    for _ in range(150):
        times.tick(wall=30, cpu=25)
    times.tick(wall=200, cpu=0, not_run=190)
    report = times.pauses.report()
    assert report["causes"] == {
        OTHER: {"count": 150, "total_ms": 4500, "longest_ms": 30.0},
        MACHINE: {"count": 1, "total_ms": 200, "longest_ms": 200.0},
    }
    assert report["longest_own_ms"] == 30.0
    last = report["last"]
    assert isinstance(last, list)
    assert len(last) == 100
    assert last[-1]["cause"] == MACHINE


def test_a_blocked_loop_is_noticed() -> None:
    async def main() -> Pauses:
        pauses = Pauses()
        pauses.start()
        await asyncio.sleep(0.03)
        with pauses.during("flush"):
            time.sleep(0.06)  # noqa: ASYNC251 - it is blocked on purpose
        await asyncio.sleep(0.03)
        pauses.stop()
        return pauses

    pauses = asyncio.run(main())
    assert any(pause.marked_ms.get("flush", 0) >= 59 for pause in pauses.last)
    assert pauses.on_garbage not in gc.callbacks


def test_garbage_collection_is_seen() -> None:
    pauses = Times().pauses
    gc.callbacks.append(pauses.on_garbage)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(pauses.on_garbage)
    assert pauses._take_marks()[GARBAGE] > 0
