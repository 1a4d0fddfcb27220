"""Receipts of a broker that is killed, or whose machine loses its power: what is acknowledged never comes again.

Every delivery has a generation.  Whatever happens, a receipt that was good must be of the last delivery of its
message; and in the end everything that was sent is acknowledged, each once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from tests.crash.test_broker_power_cut import Machine, SlowDisk
from tests.support.broker import Talk, records, until
from tests.support.broker_process import BrokerProcess, kill_while_starting
from tests.support.receipts import Got, ack, change, changed, pop

from litemq.config import FlushPolicy, WritableFormat
from litemq.errors import LiteMQError

pytestmark = [
    pytest.mark.crash,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

formats = pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])

TOPIC = "T"
QUEUES = 4
ROUNDS = 3
WORKERS = 3
LONG_SEEDS = 60
INVISIBLE_MS = (150, 400, 800)
"""Short, so that messages come again while others are under way."""

_LAST_POLL_MS = 1_200
"""Who finds nothing for so long has everything: nothing is held for longer."""

SETTINGS = {
    "broker.default_queues": QUEUES,
    "store.segment_bytes": 256 << 10,
    "store.queue_entries": 1000,
    "store.index_slots": 500,
    "store.index_entries": 4000,
    "store.max_body_bytes": 16 << 10,
    "store.checkpoint_interval_ms": 300,
    "store.progress_interval_ms": 200,
}


@dataclass
class Known:
    """What all consumers of the group know together."""

    rng: Random
    undone: bool = False
    """Whether a power cut may undo what was answered."""
    sent: set[bytes] = field(default_factory=set)
    """Sends that were answered."""
    held: list[Got] = field(default_factory=list)
    """Deliveries that are not acknowledged, of any age."""
    done: dict[bytes, int] = field(default_factory=dict)
    """Message → generation of the receipt that acknowledged it."""
    delivered: Counter[tuple[bytes, int]] = field(default_factory=Counter)
    """(message, generation) → how often it came."""
    asked: Counter[bytes] = field(default_factory=Counter)
    """Message → acknowledgements that were not answered, of any of its receipts: it may come again, or not."""
    refused: int = 0
    serial: int = 0

    def take(self, found: list[Got]) -> None:
        """Note deliveries."""
        for message in found:
            place = (message.body, generation(message))
            assert not self.delivered[place], f"handed out twice: {message}"
            self.delivered[place] += 1
            assert self.undone or message.body not in self.done, f"acknowledged, and came again: {message}"
        self.held += found

    def note_ack(self, message: Got, code: int) -> None:
        """Note what an acknowledgement was answered."""
        self.asked[message.body] -= 1
        if code:
            self.refused += 1
            return
        assert self.undone or message.body not in self.done, f"acknowledged twice: {message}"
        self.done[message.body] = generation(message)

    def check(self) -> None:
        """No receipt was good that was not of the last delivery."""
        for body, number in self.delivered:
            assert self.undone or body not in self.done or number <= self.done[body], body


def generation(message: Got) -> int:
    return int(message.receipt.split(" ")[1])


async def done_with(talk: Talk, message: Got, known: Known) -> int:
    """Acknowledge a message; return the code that was answered."""
    known.asked[message.body] += 1
    code = (await ack(talk, message)).code
    known.note_ack(message, code)
    return code


async def send(talk: Talk, known: Known) -> None:
    """Send a message."""
    known.serial += 1
    body = b"%d|%b" % (known.serial, b"x" * known.rng.randrange(1000))
    if (await talk.send(TOPIC, body, queue=known.rng.randrange(QUEUES), timeout_s=30)).code == 0:
        known.sent.add(body)


async def work(talk: Talk, known: Known) -> None:
    """Send, take, acknowledge, prolong, and try receipts that are worth nothing any more."""
    rng = known.rng
    while True:
        for _ in range(rng.choice((0, 1, 8))):
            await send(talk, known)
        invisible = rng.choice(INVISIBLE_MS)
        known.take(await pop(talk, maxMsgNums=rng.choice((1, 8, 32)), invisibleTime=invisible))
        rng.shuffle(known.held)
        for _ in range(rng.choice((2, 20))):
            if not known.held:  # the workers share them
                break
            message = known.held.pop()
            if rng.random() < 0.15:
                answer = await change(talk, message, rng.choice(INVISIBLE_MS))
                if answer.code == 0:
                    known.held.append(changed(message, answer))
                    known.held.append(message)  # the old receipt, which must be worth nothing
                    known.delivered[message.body, generation(known.held[-2])] += 1
            else:
                await done_with(talk, message, known)
                if rng.random() < 0.1:
                    known.held.append(message)  # once more


async def rest(talk: Talk, known: Known) -> None:
    """Acknowledge everything that is left."""
    await send(talk, known)  # a power cut may have taken the topic
    known.held.clear()
    while found := await pop(talk, pollTime=_LAST_POLL_MS, invisibleTime=60_000):
        known.take(found)
        for message in found:
            assert await done_with(talk, message, known) == 0
    there = await stored(talk)
    assert all(count == 1 for count in there.values())
    lost = there.keys() - known.done.keys() - set(+known.asked)
    assert not lost, f"never delivered, or never again: {len(lost)} of {len(there)}"
    assert known.undone or not known.sent - there.keys()
    known.check()


async def stored(talk: Talk) -> Counter[bytes]:
    """Return what is in the topic."""
    found: Counter[bytes] = Counter()
    for queue in range(QUEUES):
        offset = 0
        while (answer := await talk.pull(TOPIC, offset, queue=queue, count=500)).code == 0:
            for record in records(answer.body):
                offset += 1
                found[record.body] += 1
    return found


async def load(talks: list[Talk], known: Known, more: int) -> list[asyncio.Task[None]]:
    """Have workers at it until so many more messages are acknowledged; they go on."""
    goal = len(known.done) + more
    await send(talks[0], known)  # makes the topic
    workers = [asyncio.create_task(work(talk, known)) for talk in talks]
    await until(lambda: len(known.done) >= goal or any(worker.done() for worker in workers), within_s=60)
    return workers


async def end(workers: list[asyncio.Task[None]]) -> None:
    """End workers whose broker is gone."""
    for worker in workers:
        worker.cancel()
    for result in await asyncio.gather(*workers, return_exceptions=True):
        if isinstance(result, BaseException) and not isinstance(result, (LiteMQError, OSError, asyncio.CancelledError)):
            raise result


def kill_again_and_again(folder: Path, fmt: WritableFormat, flush: FlushPolicy, seed: int) -> None:
    """Kill a broker under load several times; then everything is acknowledged."""
    rng = Random(seed)
    settings = {**SETTINGS, "store.format": fmt, "store.flush": flush}
    data, log = folder / f"store{seed}", folder / f"log{seed}"
    known = Known(rng)

    async def life(broker: BrokerProcess) -> None:
        talks = [Talk(broker.address) for _ in range(WORKERS)]
        workers = await load(talks, known, rng.randrange(1, 120))
        broker.kill()
        await end(workers)
        for talk in talks:
            talk.close()

    async def last(broker: BrokerProcess) -> None:
        talk = Talk(broker.address)
        await rest(talk, known)
        talk.close()

    for number in range(ROUNDS + 1):
        if number and rng.random() < 0.4:
            kill_while_starting(data, log, settings, rng.uniform(0.1, 1.0))
        with BrokerProcess(data, log, settings) as broker:
            asyncio.run(asyncio.wait_for(life(broker) if number < ROUNDS else last(broker), 90))
            assert not broker.surprises(), broker.surprises()[0]
    assert known.refused, "no receipt was stale: the test shows nothing"


async def cut_again_and_again(seed: int, fmt: WritableFormat, flush: FlushPolicy) -> None:
    """Cut the power under load several times."""
    machine = Machine(seed, SlowDisk(seed), format=fmt, flush=flush)
    rng = Random(seed)
    known = Known(rng, undone=flush == "async")
    for number in range(ROUNDS):
        await machine.start()
        if number < ROUNDS - 1:
            workers = await load(machine.talks, known, rng.randrange(1, 120))
            machine_stops = asyncio.create_task(machine.cut_power())
            with suppress(asyncio.CancelledError):
                await machine_stops
            await end(workers)
        else:
            await rest(machine.talks[0], known)
    await machine.stop()


@pytest.mark.parametrize(("fmt", "flush"), [("litemq", "async"), ("rocketmq", "group")])
def test_killed(tmp_path: Path, fmt: WritableFormat, flush: FlushPolicy) -> None:
    kill_again_and_again(tmp_path, fmt, flush, 0)


@pytest.mark.parametrize(("fmt", "flush"), [("litemq", "group"), ("rocketmq", "async")])
def test_power_cut(fmt: WritableFormat, flush: FlushPolicy, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    asyncio.run(asyncio.wait_for(cut_again_and_again(1, fmt, flush), 100))


@pytest.mark.slow
@formats
def test_killed_for_long(tmp_path: Path, fmt: WritableFormat) -> None:
    for seed in range(LONG_SEEDS):
        kill_again_and_again(tmp_path, fmt, "group" if seed % 3 == 1 else "async", 1000 + seed)


@pytest.mark.slow
@formats
@pytest.mark.parametrize("flush", ["async", "group"])
def test_power_cuts_for_long(fmt: WritableFormat, flush: FlushPolicy, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    for seed in range(LONG_SEEDS):
        asyncio.run(asyncio.wait_for(cut_again_and_again(1000 + seed, fmt, flush), 100))
