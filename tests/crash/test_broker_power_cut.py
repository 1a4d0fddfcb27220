"""A broker over a disk that is slow, fails and forgets: what it acknowledges is on disk, at that very moment."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from random import Random

import pytest
from tests.support.broker import Talk, records
from tests.support.faults import Faults, failed_sync
from tests.support.forgetful_fs import ForgetfulFileSystem
from tests.support.hooked_fs import Call, HookedFileSystem
from tests.support.page_cache import Fate

from litemq.broker.broker import Broker
from litemq.config import BrokerConfig, FlushPolicy, LimitsConfig, StoreConfig, WritableFormat
from litemq.errors import NoAnswer
from litemq.format import message_id
from litemq.wire.remoting.codes import Code
from litemq.wire.remoting.command import Response

pytestmark = [
    pytest.mark.crash,
    # The threads of a machine that was switched off end by ``PowerCut``.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

ROOT = Path("/store")
SEGMENT = 64 << 10
CLIENTS = 3
AT_ONCE = 8
SEEDS = 6
LONG_SEEDS = 60

policies = pytest.mark.parametrize("flush", ["group", "sync"])
formats = pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


class SlowDisk:
    """Hook: syncs of the log take their time, and fail by plan."""

    def __init__(self, seed: int, *, least_s: float = 0.0, most_s: float = 0.0) -> None:
        self._rng = Random(seed)
        self._range = (least_s, most_s)
        self.faults = Faults(seed)
        self.gate = threading.Event()
        """Cleared: no sync of the log comes to its end."""
        self.gate.set()
        self.forgets = False
        """Whether flushes of the log do nothing, though they say they did."""

    def before(self, call: Call) -> bool:
        is_flush = call.kind == "sync" and "commitlog" in str(call.path)
        if is_flush and self._range[1]:
            time.sleep(self._rng.uniform(*self._range))
        if is_flush:
            self.gate.wait(30)
        self.faults.before(call)
        return not (is_flush and self.forgets and call.site().module == "flush")

    def after(self, call: Call) -> None:
        """Nothing to do."""


class Machine:
    """A broker in this process, over a disk that forgets."""

    def __init__(self, seed: int, hook: SlowDisk, **store: object) -> None:
        self.rng = Random(seed)
        self.disk = ForgetfulFileSystem()
        self.hook = hook
        self.answered: dict[tuple[str, int, int], bytes] = {}
        """(topic, queue, offset) → body of every send that was answered with success."""
        self._config = StoreConfig(
            segment_bytes=SEGMENT,
            max_body_bytes=8 << 10,
            queue_entries=64,
            index_slots=64,
            index_entries=500,
            checkpoint_interval_ms=150,
            progress_interval_ms=100,
            **store,  # type: ignore[arg-type]
        )

    async def start(self) -> None:
        """Start the broker on what the disk holds."""
        fs = HookedFileSystem(self.disk, self.hook)
        self.broker = Broker(BrokerConfig(port=0, name_servers=()), self._config, LimitsConfig(), ROOT, fs=fs)
        await self.broker.start()
        self.talks = [Talk(self.broker.address) for _ in range(CLIENTS)]

    async def stop(self) -> None:
        """Stop it cleanly."""
        for talk in self.talks:
            talk.close()
        await self.broker.close()

    async def cut_power(self, fate: Fate | None = None) -> None:
        """Cut the power now; what is left of the broker is cleared away."""
        after = self.disk.crash(self.rng, fate=fate)
        broker = self.broker
        for task in broker._workers:
            task.cancel()
        broker.pauses.stop()
        for connection in list(broker.server.connections):
            connection.abort()
        self.hook.gate.set()
        await broker.registration.close()
        await broker.server.close(grace_s=0.1)
        broker._cold.shutdown()
        broker.store.abandon()
        for talk in self.talks:
            talk.close()
        self.disk = after

    async def send(self, talk: Talk, topic: str, body: bytes, **found: str) -> Response:
        """Send one message; a success must be on disk when it arrives here."""
        disk = self.disk  # an answer may still be under way when the power is cut
        answer = await talk.send(topic, body, queue=self.rng.randrange(4), timeout_s=30, **found)
        if answer.code == Code.SUCCESS:
            place = message_id.parse_offset_id(answer.ext["msgId"])
            assert place is not None
            check_durable(disk, place[1], body)
            self.answered[topic, int(answer.ext["queueId"]), int(answer.ext["queueOffset"])] = body
        return answer

    async def load(self, count: int) -> None:
        """Send messages, several at once on each connection; returns when ``count`` of them were answered."""
        enough = asyncio.Event()

        async def produce(talk: Talk, number: int) -> None:
            serial = 0
            while True:
                body = f"{number}:{serial}:{self.rng.random()}".encode()
                topic = f"new-{number}-{serial}" if self.rng.random() < 0.02 else "T"
                keys = {"KEYS": f"k{serial}"} if self.rng.random() < 0.2 else {}
                await self.send(talk, topic, body + b"x" * self.rng.randrange(600), **keys)
                serial += 1
                if len(self.answered) >= goal:
                    enough.set()

        goal = len(self.answered) + count
        first = len(self.answered)
        workers = [
            asyncio.create_task(produce(talk, (first * CLIENTS + at) * AT_ONCE + number))
            for at, talk in enumerate(self.talks)
            for number in range(AT_ONCE)
        ]
        done = asyncio.create_task(enough.wait())
        await asyncio.wait([done, *workers], return_when=asyncio.FIRST_COMPLETED, timeout=60)
        self._workers = [done, *workers]
        for worker in workers:
            if worker.done() and not worker.cancelled() and (error := worker.exception()) is not None:
                raise error

    async def end_load(self) -> None:
        """Let the producers go."""
        for worker in self._workers:
            worker.cancel()
        for result in await asyncio.gather(*self._workers, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, (NoAnswer, asyncio.CancelledError)):
                raise result

    async def check_answered(self) -> None:
        """Check that everything that was answered can be pulled, where the answer said."""
        queues = {(topic, queue) for topic, queue, _ in self.answered}
        found = {}
        for topic, queue in queues:
            offset = 0
            while True:
                answer = await self.talks[0].pull(topic, offset, queue=queue, count=500)
                if answer.code != Code.SUCCESS:
                    break
                for record in records(answer.body):
                    assert record.queue_offset == offset, "the offsets of a queue have a hole, or one is there twice"
                    found[topic, queue, offset] = record.body
                    offset += 1
        lost = [place for place, body in self.answered.items() if found.get(place) != body]
        assert not lost, f"{len(lost)} of {len(self.answered)} answered messages are lost, among them {min(lost)}"


def check_durable(disk: ForgetfulFileSystem, position: int, body: bytes) -> None:
    """Check that no power cut can take a message away any more."""
    base = position - position % SEGMENT
    content = disk.durable(ROOT / "commitlog" / f"{base:020d}")
    assert content is not None, f"the segment of position {position} may vanish, but a send to it was answered"
    at = position - base
    assert body in content[at : at + len(body) + 1000], f"position {position} was answered before its flush"


def run(test: Coroutine[object, object, None]) -> None:
    """Run on asyncio's own loop, with an end to it."""
    asyncio.run(asyncio.wait_for(test, 120))


async def lives(machine: Machine, rounds: int, *, fate: Fate | None = None) -> None:
    """Load a broker and cut the power, so many times; nothing answered may be missing."""
    for _ in range(rounds):
        await machine.start()
        await machine.check_answered()
        try:
            await machine.load(machine.rng.randrange(20, 200))
        finally:
            await machine.cut_power(fate)
            await machine.end_load()
    await machine.start()
    await machine.check_answered()
    await machine.stop()


@policies
@formats
@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_answered_is_lost_to_a_power_cut(flush: FlushPolicy, fmt: WritableFormat, seed: int) -> None:
    hook = SlowDisk(seed, least_s=0.005, most_s=0.03)
    run(lives(Machine(seed, hook, flush=flush, format=fmt), rounds=2))


@policies
@formats
@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(100, 100 + LONG_SEEDS))
def test_many_power_cuts(flush: FlushPolicy, fmt: WritableFormat, seed: int) -> None:
    hook = SlowDisk(seed, most_s=Random(seed).choice((0.0, 0.01, 0.1)))
    run(lives(Machine(seed, hook, flush=flush, format=fmt), rounds=4))


@policies
def test_no_answer_comes_before_its_flush_however_slow_that_is(flush: FlushPolicy) -> None:
    hook = SlowDisk(1, least_s=0.05, most_s=0.2)
    run(lives(Machine(1, hook, flush=flush), rounds=1, fate="lost"))


async def failing(machine: Machine) -> None:
    await machine.start()
    await machine.load(50)
    await machine.end_load()
    await machine.check_answered()  # makes the group: a new one cannot be made when writes have stopped
    machine.hook.faults.add(failed_sync(path="*commitlog*", skip=1))
    talk = machine.talks[0]
    answers = [await machine.send(talk, "T", b"hopeful %d" % number) for number in range(30)]
    codes = [answer.code for answer in answers]
    first = codes.index(Code.SERVICE_NOT_AVAILABLE)
    assert set(codes[:first]) <= {Code.SUCCESS}
    assert set(codes[first:]) == {Code.SERVICE_NOT_AVAILABLE}, "writes stop after a flush that failed"
    assert "flush failed" in (answers[-1].remark or "")
    await machine.check_answered()  # reads go on
    await machine.cut_power()
    await machine.start()
    await machine.check_answered()
    assert (await machine.send(machine.talks[0], "T", b"taken again")).code == Code.SUCCESS
    await machine.stop()


@policies
@formats
@pytest.mark.parametrize("seed", range(3))
def test_a_failed_flush_is_answered_by_name_and_costs_nothing_answered(
    flush: FlushPolicy, fmt: WritableFormat, seed: int
) -> None:
    run(failing(Machine(seed, SlowDisk(seed, most_s=0.01), flush=flush, format=fmt)))


async def hanging(machine: Machine) -> None:
    await machine.start()
    talk = machine.talks[0]
    assert (await machine.send(talk, "T", b"before")).code == Code.SUCCESS
    machine.hook.gate.clear()
    late = await machine.send(talk, "T", b"late")
    assert late.code == Code.FLUSH_DISK_TIMEOUT
    queue, offset = int(late.ext["queueId"]), int(late.ext["queueOffset"])
    unseen = await talk.pull("T", offset, queue=queue)
    assert unseen.code != Code.SUCCESS, "what is not flushed is not read"
    machine.hook.gate.set()
    assert (await machine.send(talk, "T", b"after")).code == Code.SUCCESS
    (record,) = records((await talk.pull("T", offset, queue=queue, count=1)).body)
    assert record.body == b"late", "it was stored all the same"
    await machine.cut_power("lost")
    await machine.start()
    await machine.check_answered()
    await machine.stop()


@policies
def test_a_flush_that_takes_too_long_is_answered_so(flush: FlushPolicy) -> None:
    run(hanging(Machine(1, SlowDisk(1), flush=flush, flush_timeout_ms=300)))


# -- the tests bite ------------------------------------------------------------------------------


async def impatient(machine: Machine) -> None:
    await machine.start()
    machine.broker.durability.waits = False
    try:
        await machine.load(20)
    finally:
        await machine.cut_power()
        await machine.end_load()


def test_answers_that_do_not_wait_are_noticed() -> None:
    with pytest.raises(AssertionError, match=r"answered before its flush|may vanish"):
        run(impatient(Machine(1, SlowDisk(1, least_s=0.05, most_s=0.1), flush="group")))


def test_flushes_that_do_nothing_are_noticed() -> None:
    hook = SlowDisk(1)
    hook.forgets = True
    with pytest.raises(AssertionError, match=r"answered before its flush|may vanish"):
        run(lives(Machine(1, hook, flush="group"), rounds=1, fate="lost"))
