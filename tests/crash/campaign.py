"""Many runs at once: seeds spread over processes, failures made small and put into words."""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.crash.lives import run
from tests.crash.shrink import shrink
from tests.crash.workload import Plan, make_plan, with_threads
from tests.support.forgetful_fs import PowerCut

from litemq.config import WritableFormat

PROCESSES = 2
_CHUNK = 25


def failure(plan: Plan, attempt: Callable[[Plan], object] = run) -> BaseException | None:
    """Return what goes wrong in a run, None when nothing does."""
    try:
        attempt(plan)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return error
    return None


def explain(plan: Plan) -> str:
    """Return the smallest history that fails like this plan, and how to see it again."""
    small = shrink(plan, failure)
    error = failure(small)
    assert error is not None
    again = f"again: .venv/bin/python -m tests.crash --format {plan.config.format} {plan.seed}"
    return f"seed {plan.seed} fails; {again}\nsettings: {small.config}\n{in_words(error)}"


def in_words(error: BaseException) -> str:
    """Return what went wrong, and what happened before."""
    notes = getattr(error, "__notes__", ())
    return "\n".join((f"{type(error).__name__}: {error}", *notes, *traceback.format_tb(error.__traceback__)[-3:]))


def failed_seeds(seeds: range, fmt: WritableFormat) -> list[int]:
    """Return the seeds whose runs fail."""
    with pool() as workers:
        return [seed for found in workers.map(partial(_failed, fmt), _chunks(seeds)) for seed in found]


def _failed(fmt: WritableFormat, seeds: range) -> list[int]:
    logging.disable(logging.CRITICAL)  # recovery warns of what it finds, thousands of times
    return [seed for seed in seeds if failure(make_plan(seed, fmt=fmt)) is not None]


def failures_with_threads(seeds: range, fmt: WritableFormat) -> dict[int, str]:
    """Return what goes wrong, by seed, in runs with the store's threads at work; it may not happen every time."""
    with pool() as workers:
        found = workers.map(partial(_failed_with_threads, fmt), _chunks(seeds))
        return {seed: text for part in found for seed, text in part.items()}


def _failed_with_threads(fmt: WritableFormat, seeds: range) -> dict[int, str]:
    logging.disable(logging.CRITICAL)
    let_threads_die()
    plans = (with_threads(make_plan(seed, fmt=fmt)) for seed in seeds)
    return {plan.seed: in_words(error) for plan in plans if (error := failure(plan)) is not None}


def let_threads_die() -> None:
    """Prepare a process for runs with threads: they take turns often, and a power cut in one is no news."""
    sys.setswitchinterval(1e-5)
    shown = threading.excepthook

    def show(args: threading.ExceptHookArgs) -> None:
        if not issubclass(args.exc_type, PowerCut):
            shown(args)

    threading.excepthook = show


def pool() -> ProcessPoolExecutor:
    """Return processes that share the work."""
    processes = min(PROCESSES, os.cpu_count() or 1)
    return ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"))


def _chunks(seeds: range) -> Iterator[range]:
    for start in range(seeds.start, seeds.stop, _CHUNK):
        yield range(start, min(start + _CHUNK, seeds.stop))
