"""Power cuts at any call: thousands of seeded runs on the file system that forgets.

``LITEMQ_CRASH_RUNS`` and ``LITEMQ_CRASH_SEED`` set how many and from where; a failure says how to run its seed again.
"""

from __future__ import annotations

import os

import pytest
from tests.crash.campaign import explain, failed_seeds, failures_with_threads
from tests.crash.lives import run
from tests.crash.workload import make_plan

from litemq.config import WritableFormat

pytestmark = pytest.mark.crash

_RUNS: dict[WritableFormat, int] = {"litemq": 1_400, "rocketmq": 700}
_LONG_RUNS = 20_000
_THREADED_RUNS: dict[WritableFormat, int] = {"litemq": 400, "rocketmq": 200}
_LONG_SEED = 1_000_000

formats = pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])


def check(fmt: WritableFormat, first: int, runs: int) -> None:
    failed = failed_seeds(range(first, first + runs), fmt)
    if failed:
        text = explain(make_plan(failed[0], fmt=fmt))
        pytest.fail(f"{len(failed)} of {runs} runs fail: {failed[:20]}\n{text}", pytrace=False)


def setting(name: str, default: int) -> int:
    return int(os.environ.get(name) or default)


@formats
@pytest.mark.timeout(600)
def test_nothing_flushed_is_lost_and_nothing_lost_comes_back(fmt: WritableFormat) -> None:
    check(fmt, setting("LITEMQ_CRASH_SEED", 0), setting("LITEMQ_CRASH_RUNS", _RUNS[fmt]))


@formats
@pytest.mark.slow
@pytest.mark.timeout(0)
def test_the_same_for_a_long_time(fmt: WritableFormat) -> None:
    check(fmt, setting("LITEMQ_CRASH_SEED", _LONG_SEED), setting("LITEMQ_CRASH_RUNS", _LONG_RUNS))


def check_threads(fmt: WritableFormat, first: int, runs: int) -> None:
    failed = failures_with_threads(range(first, first + runs), fmt)
    if failed:
        seed, text = next(iter(failed.items()))
        again = f".venv/bin/python -m tests.crash --threads --format {fmt} {seed}"
        pytest.fail(f"{len(failed)} of {runs} runs fail: {list(failed)[:20]}; again: {again}\n{text}", pytrace=False)


@pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])
@pytest.mark.timeout(600)
def test_threads_that_die_with_the_power(fmt: WritableFormat) -> None:
    check_threads(fmt, setting("LITEMQ_CRASH_SEED", 0), setting("LITEMQ_CRASH_RUNS", _THREADED_RUNS[fmt]))


@pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])
@pytest.mark.slow
@pytest.mark.timeout(0)
def test_threads_that_die_for_a_long_time(fmt: WritableFormat) -> None:
    check_threads(fmt, setting("LITEMQ_CRASH_SEED", _LONG_SEED), setting("LITEMQ_CRASH_RUNS", _LONG_RUNS))


def test_a_seed_gives_the_same_run_every_time() -> None:
    def history(seed: int) -> tuple[list[str], list[tuple[int, str, int]]]:
        memory = run(make_plan(seed, fmt="litemq"))
        return memory.said, [(record.position, record.topic, len(record.raw)) for record in memory.legit.values()]

    assert [history(seed) for seed in range(5)] == [history(seed) for seed in range(5)]
