"""Make a failing plan small: leave out steps, messages and lives while it still fails the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.crash.workload import Append, Cut, LifePlan, Plan, Step

Fails = Callable[[Plan], BaseException | None]


def shrink(plan: Plan, fails: Fails, *, tries: int = 400) -> Plan:
    """Return a smaller plan that fails like ``plan``, after at most so many ``tries``."""
    first = fails(plan)
    assert first is not None, "the plan does not fail"
    kind = _kind(first)
    progress = True
    while progress:
        progress = False
        for smaller in _smaller(plan):
            if tries <= 0:
                return plan
            tries -= 1
            error = fails(smaller)
            if error is not None and _kind(error) == kind:
                plan, progress = smaller, True
                break
    return plan


def _kind(error: BaseException) -> str:
    """Return the error's text without the numbers and names that change with every step left out."""
    return type(error).__name__ + re.sub(r"[\d.]+|'[^']*'|\{.*\}", "", str(error))[:60]


def _smaller(plan: Plan) -> Iterator[Plan]:
    lives = plan.lives
    for number in range(len(lives) - 1, -1, -1):
        if len(lives) > 1:
            yield replace(plan, lives=lives[:number] + lives[number + 1 :])
    for number, life in enumerate(lives):
        for smaller in _smaller_lives(life):
            yield replace(plan, lives=(*lives[:number], smaller, *lives[number + 1 :]))


def _smaller_lives(life: LifePlan) -> Iterator[LifePlan]:
    steps = life.steps
    if life.cut.step is not None and life.cut.step + 1 < len(steps):
        yield replace(life, steps=steps[: life.cut.step + 1])
    size = len(steps)
    while size:
        for start in range(0, len(steps), size):
            yield _without(life, start, min(start + size, len(steps)))
        size //= 2
    for number, step in enumerate(steps):
        for smaller in _smaller_steps(step):
            yield replace(life, steps=(*steps[:number], smaller, *steps[number + 1 :]))


def _without(life: LifePlan, start: int, end: int) -> LifePlan:
    cut = life.cut
    if cut.step is not None and start <= cut.step < end:
        cut = Cut(None, 0, "before")
    elif cut.step is not None and cut.step >= end:
        cut = replace(cut, step=cut.step - (end - start))
    return replace(life, steps=life.steps[:start] + life.steps[end:], cut=cut)


def _smaller_steps(step: Step) -> Iterator[Step]:
    if isinstance(step, Append) and len(step.messages) > 1:
        for number in range(len(step.messages)):
            yield replace(step, messages=step.messages[:number] + step.messages[number + 1 :])
