"""The machine's clock, by both builds of its kernel."""

from __future__ import annotations

import time
from types import ModuleType

import pytest

from litemq import _clock_cy, _plain
from litemq.clock import SystemClock

BUILDS = [_clock_cy, _plain.load_plain("litemq._clock_cy")]


@pytest.mark.parametrize("build", BUILDS, ids=["here", "plain"])
def test_wall_time(build: ModuleType) -> None:
    before = time.time_ns() // 1_000_000
    found = build.wall_ms()
    assert before <= found <= time.time_ns() // 1_000_000


def test_the_clock_of_the_system() -> None:
    clock = SystemClock()
    assert abs(clock.now_ms() - time.time() * 1000) < 5_000
    first = clock.monotonic_ms()
    assert first <= clock.monotonic_ms()
