"""Batch transactions of a broker that is killed, or whose machine loses its power: all or nothing, nothing twice."""

from __future__ import annotations

import asyncio
import logging
import shutil
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from tests.crash.test_broker_power_cut import Machine, SlowDisk
from tests.support.batch_driver import NAME, QUEUES, Producer, end, entry, pulled, put_table, settled, stage
from tests.support.broker import Talk, running, until
from tests.support.broker_process import BrokerProcess, kill_while_starting

from litemq.broker.batch_transactions import SNAPSHOT
from litemq.broker.topics import Topic
from litemq.config import FlushPolicy, StoreConfig, WritableFormat
from litemq.errors import NoAnswer
from litemq.format.names import STAGE_TOPIC
from litemq.types import LogPosition

pytestmark = [
    pytest.mark.crash,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

formats = pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])

ROUNDS = 3
LONG_SEEDS = 60

SETTINGS = {
    "store.segment_bytes": 1 << 20,
    "store.queue_entries": 1000,
    "store.index_slots": 500,
    "store.index_entries": 4000,
    "store.max_body_bytes": 16 << 10,
    "store.checkpoint_interval_ms": 300,
    "store.progress_interval_ms": 200,
    "broker.default_queues": QUEUES,
}


async def kill_again_and_again(folder: Path, fmt: WritableFormat, flush: FlushPolicy, seed: int) -> None:
    """Kill a broker under load several times; in its last life everything is there."""
    rng = Random(seed)
    settings = {**SETTINGS, "store.format": fmt, "store.flush": flush}
    data, log = folder / "store", folder / "log"
    producers = [Producer(name, Random(seed * 7 + number)) for number, name in enumerate("ab")]
    for life in range(ROUNDS + 1):
        if life and rng.random() < 0.4:
            kill_while_starting(data, log, settings, rng.uniform(0.1, 1.0))
        with BrokerProcess(data, log, settings) as broker:
            talk = Talk(broker.address)
            if life == 0:
                await put_table(talk)
            await settled(talk)
            found = await pulled(talk)
            for producer in producers:
                producer.check(found)
                producer.after_crash()
            if life < ROUNDS:
                await live(broker, producers, rng)
            talk.close()
            assert not broker.surprises(), broker.surprises()[0]
    assert all(producer.epochs for producer in producers)


async def live(broker: BrokerProcess, producers: list[Producer], rng: Random) -> None:
    """Load a broker for a moment, and kill it."""
    talks = [Talk(broker.address) for _ in producers]
    tasks = [asyncio.create_task(producer.run(talk)) for producer, talk in zip(producers, talks, strict=True)]
    await asyncio.sleep(rng.uniform(0.02, 0.6))
    broker.kill()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(result, NoAnswer):
            raise result if isinstance(result, BaseException) else AssertionError(result)
    for talk in talks:
        talk.close()


@pytest.mark.parametrize(("fmt", "flush"), [("litemq", "async"), ("rocketmq", "group")])
def test_killed(tmp_path: Path, fmt: WritableFormat, flush: FlushPolicy) -> None:
    asyncio.run(kill_again_and_again(tmp_path, fmt, flush, 0))


@pytest.mark.slow
@formats
def test_killed_for_long(tmp_path: Path, fmt: WritableFormat) -> None:
    for seed in range(LONG_SEEDS):
        flush: FlushPolicy = "group" if seed % 3 == 1 else "async"
        folder = tmp_path / f"data{seed}"
        folder.mkdir()
        asyncio.run(kill_again_and_again(folder, fmt, flush, 1000 + seed))


# -- power cuts -----------------------------------------------------------------------------------


async def cut_again_and_again(seed: int, fmt: WritableFormat, flush: FlushPolicy) -> None:
    """Cut the power under load several times; what was answered as committed is there, whatever the policy."""
    machine = Machine(seed, SlowDisk(seed), format=fmt, flush=flush)
    rng = Random(seed)
    producers = [Producer(name, Random(seed * 7 + number)) for number, name in enumerate("ab")]
    for life in range(ROUNDS):
        await machine.start()
        talk = machine.talks[0]
        if life == 0:
            machine.broker.topics.create(Topic("T", QUEUES, QUEUES))
            await put_table(talk)
        await settled(talk)
        found = await pulled(talk)
        for producer in producers:
            producer.check(found)
            producer.after_crash()
        goal = sum(len(producer.epochs) for producer in producers) + rng.randrange(2, 8)
        workers = [
            asyncio.create_task(producer.run(each)) for producer, each in zip(producers, machine.talks, strict=False)
        ]
        with suppress(TimeoutError):
            await until(lambda goal=goal: sum(len(each.epochs) for each in producers) >= goal, within_s=20)  # type: ignore[misc]
        await asyncio.sleep(rng.uniform(0, 0.05))
        for worker in workers:
            worker.cancel()
        for result in await asyncio.gather(*workers, return_exceptions=True):
            if not isinstance(result, (NoAnswer, asyncio.CancelledError)):
                raise result if isinstance(result, BaseException) else AssertionError(result)
        if life < ROUNDS - 1:
            await machine.cut_power()
    await machine.stop()


@formats
@pytest.mark.parametrize("flush", ["async", "group"])
@pytest.mark.parametrize("seed", range(2))
def test_power_cut(fmt: WritableFormat, flush: FlushPolicy, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    asyncio.run(asyncio.wait_for(cut_again_and_again(seed, fmt, flush), 100))


@pytest.mark.slow
@formats
@pytest.mark.parametrize("flush", ["async", "group"])
def test_power_cuts_for_long(fmt: WritableFormat, flush: FlushPolicy, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    for seed in range(LONG_SEEDS):
        asyncio.run(asyncio.wait_for(cut_again_and_again(1000 + seed, fmt, flush), 100))


# -- every place ----------------------------------------------------------------------------------

ROWS = {0: [b"a-%d" % n for n in range(7)], 1: [b"b-%d" % n for n in range(3)]}
LOSERS = [b"loser"]
WINNERS = [(0, 1, {NAME: 7}), (1, 1, {NAME: 3})]
KEY = ("p", 4)


@formats
@pytest.mark.parametrize("has_snapshot", [True, False])
def test_a_log_that_ends_anywhere(tmp_path: Path, fmt: WritableFormat, has_snapshot: bool) -> None:
    """Cut the log of a transaction behind each of its records, and within; then say everything again."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    config = StoreConfig(format=fmt, segment_bytes=1 << 20, flush_interval_ms=1 << 30, checkpoint_interval_ms=1 << 30)

    async def load() -> tuple[list[LogPosition], int]:
        async with running(whole, store=config) as (broker, talk):
            broker.topics.create(Topic("T", QUEUES, QUEUES))
            await put_table(talk)
            if has_snapshot:
                assert (await end(talk, ("q", 0), "abort")).code == 0
                await until((whole / "config" / SNAPSHOT).exists, within_s=20)
            broker.store.flush()
            start = broker.store.appended_end
            broker.batches._publisher._most = 3  # several slices
            broker.batches._publisher._slice_bytes = 100
            await say_all(talk)
            await settled(talk)
            ends = [record.position for record in broker.store.reader.walk(start)][1:]
            decision = next(
                record.position + record.size
                for record in broker.store.reader.walk(start)
                if record.topic == STAGE_TOPIC and record.body[1] == 2
            )
            broker.batches.close = lambda: None  # type: ignore[method-assign]
            broker.store.flush = lambda: 0  # type: ignore[method-assign]
            broker.store.close = broker.store.abandon  # type: ignore[method-assign]
        return ends, decision

    async def look(end_of_log: int, decision: int) -> None:
        for life in range(3):
            async with running(cut, store=config) as (broker, talk):
                await settled(talk)
                found = await pulled(talk)
                bodies = sorted(body for queue in found.values() for body in queue)
                is_decided = life > 0 or end_of_log >= decision
                assert bodies == (sorted(ROWS[0] + ROWS[1]) if is_decided else []), (end_of_log, life)
                if life == 1:
                    continue
                await say_all(talk)
                await settled(talk)
                assert not broker.batches.core.open_count
                assert not broker.batches.core.staged_bytes

    async def say_all(talk: Talk) -> None:
        for sequence, rows in enumerate((ROWS[0][:4], ROWS[0][4:])):
            answer = await stage(talk, KEY, map(entry, rows), partition=0, attempt=1, sequence=sequence)
            assert answer.code == 0, answer
        for attempt, rows in ((0, LOSERS), (1, ROWS[1])):
            answer = await stage(talk, KEY, map(entry, rows), partition=1, attempt=attempt)
            assert answer.code == 0, answer
        answer = await end(talk, KEY, "commit", WINNERS)
        assert (answer.code, answer.ext.get("rows")) == (0, "10"), answer

    ends, decision = asyncio.run(load())
    assert len(ends) > 15
    for at in [*ends, *(position + 9 for position in ends[::4])]:
        shutil.rmtree(cut, ignore_errors=True)
        shutil.copytree(whole, cut)
        with (cut / "commitlog" / f"{0:020d}").open("r+b") as log:
            log.seek(at)
            log.write(bytes((1 << 20) - at))
        asyncio.run(asyncio.wait_for(look(at, decision), 60))
