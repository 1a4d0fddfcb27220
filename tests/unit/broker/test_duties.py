"""Duties of the broker's tick: one that fails stops neither itself nor the others."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from tests.support.broker import running, until

from litemq.errors import StoreFull


def test_a_duty_that_fails_is_named_once_and_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []

    def full(_now_ms: int) -> None:
        raise StoreFull("no room")

    def broken(_now_ms: int) -> None:
        done.append(1)
        raise ZeroDivisionError

    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            broker.on_tick[:0] = [full, broken]
            await until(lambda: len(done) >= 3)
            assert (await talk.send("T", b"one")).code == 0

    with caplog.at_level(logging.WARNING):
        asyncio.run(asyncio.wait_for(test(), 30))
    named = [record.getMessage() for record in caplog.records if "no room" in record.getMessage()]
    assert len(named) == 1
    assert "full" in named[0]
    assert any("failed unexpectedly" in record.getMessage() for record in caplog.records)
