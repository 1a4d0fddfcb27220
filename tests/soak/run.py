"""One soak: the broker, its clients, what happens to them, and the verdict."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import linear_regression, median

from tests.soak.ledger import Ledger
from tests.soak.load import GROUPS, QUEUES, TOPICS, identity
from tests.soak.producers import Producers
from tests.support import raw_client as raw
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient

from litemq.wire.remoting.codes import Ask

ROOT = Path(__file__).parent.parent.parent
MIB = 1 << 20
_LEAST, _MOST = 2, 4
"""Consumer processes."""
_DRAIN_S = 75
"""Of a run: a killed member of an ordered group holds its locks for 60 s."""
_DRAIN_LIMIT_S = 180
_REPORT_S = 10
_GROWTH = 16 * MIB


@dataclass(frozen=True, slots=True)
class Plan:
    """How long, how much, and by which seed."""

    seconds: int
    rate: int
    seed: int
    restarts: int = 0

    @property
    def load_s(self) -> float:
        """Return how long messages are sent."""
        return max(self.seconds - _DRAIN_S, self.seconds / 3)


class Soak:
    """A run; ``run`` returns the exit status."""

    def __init__(self, plan: Plan, folder: Path, say: Callable[[str], object]) -> None:
        self._plan = plan
        self._say = say
        self._rng = Random(plan.seed)
        self.ledger = Ledger()
        self._store, self._log = folder / "store", folder / "log"
        self._broker = self._start_broker()
        self._consumers: dict[str, Process] = {}
        self._readers: list[asyncio.Task[None]] = []
        self._serial = 0
        self.happened = {"joined": 0, "left": 0, "killed": 0, "restarted": 0}
        self._memory: list[tuple[float, int]] = []

    def _start_broker(self, port: int = 0) -> BrokerProcess:
        settings = {"store.segment_bytes": 64 * MIB, "store.checkpoint_interval_ms": 5_000}
        return BrokerProcess(self._store, self._log, settings, port=port)

    async def run(self) -> int:
        """Load, disturb, drain, judge."""
        try:
            return await self._run()
        finally:
            for process in self._consumers.values():
                if process.returncode is None:
                    process.kill()
                await process.wait()
            self._broker.kill()

    async def _run(self) -> int:
        plan = self._plan
        self._say(f"soak: {plan.seconds} s, {plan.rate} messages/s, seed {plan.seed}, broker {self._broker.address}")
        self._make_topics()
        for _ in range(_LEAST + 1):
            await self._join()
        producers = Producers(self._broker.address, self.ledger, plan.rate)
        disturb = asyncio.create_task(self._disturb())
        await self._watch(plan.load_s, [disturb], producers)
        disturb.cancel()
        await producers.stop()
        self._say(f"draining: {self._counts()}")
        is_drained = await self._drain()
        for name in list(self._consumers):
            await self._leave(name)
        await asyncio.gather(*self._readers)
        return self._judge(is_drained, producers)

    def _make_topics(self) -> None:
        with RawClient(self._broker.place) as client:
            for topic in TOPICS:
                ext = {"topic": topic, "readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES), "perm": "6"}
                answer = client.ask(Ask.UPDATE_AND_CREATE_TOPIC, {**ext, "topicFilterType": "SINGLE_TAG"})
                assert answer.code == 0, answer

    # -- consumers -------------------------------------------------------------------------------

    async def _join(self) -> None:
        self._serial += 1
        name = f"consumer-{self._serial}"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.soak.consumer", self._broker.address, name),
            cwd=ROOT,
            stdout=PIPE,
            limit=MIB,
        )
        self._consumers[name] = process
        self._readers.append(asyncio.create_task(self._read(process)))
        self.happened["joined"] += 1

    async def _leave(self, name: str) -> None:
        process = self._consumers.pop(name)
        process.terminate()
        status = await asyncio.wait_for(process.wait(), 60)
        if status != 0:
            self.ledger.wrong.append(f"{name} ended with status {status}")
        self.happened["left"] += 1

    async def _kill(self, name: str) -> None:
        process = self._consumers.pop(name)
        process.kill()
        await process.wait()
        self.happened["killed"] += 1

    async def _read(self, process: Process) -> None:
        """Take in what a consumer tells; a line that it could not finish does not count."""
        assert process.stdout is not None
        while (line := await process.stdout.readline()).endswith(b"\n"):
            group, topic, queue, tenure, at_ns, *told = line.decode().split()
            for item in told:
                origin, serial, offset = item.split(":")
                self.ledger.note_consumed(group, origin, int(serial))
                if GROUPS[group].is_ordered:
                    place = (group, topic, int(queue))
                    self.ledger.note_ordered(place, tenure, int(at_ns), int(offset), int(serial))

    async def _disturb(self) -> None:
        """Let consumers come, go and die, and the broker restart."""
        restarts = [
            self._plan.load_s * (number + 1) / (self._plan.restarts + 1) for number in range(self._plan.restarts)
        ]
        began = time.monotonic()
        while True:
            await asyncio.sleep(self._rng.uniform(3, 9))
            names = list(self._consumers)
            if restarts and time.monotonic() - began > restarts[0]:
                restarts.pop(0)
                self._restart()
            elif len(names) <= _LEAST or (len(names) < _MOST and self._rng.random() < 0.4):
                await self._join()
            elif self._rng.random() < 0.5:
                await self._kill(self._rng.choice(names))
            else:
                await self._leave(self._rng.choice(names))

    def _restart(self) -> None:
        port = self._broker.place[1]
        status = self._broker.stop()
        if status != 0:
            self.ledger.wrong.append(f"the broker stopped with status {status}")
        self.ledger.restarts_ns.append(time.monotonic_ns())
        self._broker = self._start_broker(port)
        self._memory.clear()
        self.happened["restarted"] += 1

    # -- watching --------------------------------------------------------------------------------

    async def _watch(self, seconds: float, tasks: list[asyncio.Task[None]], producers: Producers) -> None:
        """Wait, measuring and telling; fails when a part of the soak itself does."""
        end = time.monotonic() + seconds
        told_at = time.monotonic()
        while time.monotonic() < end:
            await asyncio.sleep(1)
            if not self._broker.is_alive:
                raise RuntimeError(f"the broker died:\n{self._log.read_text(errors='replace')[-3000:]}")
            if (error := producers.failed()) is not None:
                raise error
            for task in tasks:
                if task.done():
                    task.result()
            self._memory.append((time.monotonic(), self._broker.memory()))
            if time.monotonic() - told_at >= _REPORT_S:
                told_at = time.monotonic()
                self._say(f"{end - told_at:5.0f} s left: {self._counts()}, RssAnon {self._memory[-1][1] / MIB:.1f} MiB")

    def _counts(self) -> str:
        sent, first, again = self.ledger.counts()
        happened = ", ".join(f"{count} {what}" for what, count in self.happened.items())
        return f"{sent} sent, {first} consumed, {again} again; consumers {happened}"

    async def _drain(self) -> bool:
        """Wait until everything was consumed; return whether it was."""
        end = time.monotonic() + _DRAIN_LIMIT_S
        while time.monotonic() < end:
            if not self.ledger.missing() and self._dead() >= self.ledger.dead():
                return True
            while len(self._consumers) < _LEAST:
                await self._join()
            await asyncio.sleep(1)
        return False

    def _dead(self) -> set[int]:
        """Return the serials among the dead letters."""
        found: set[int] = set()
        offset = 0
        with RawClient(self._broker.place) as client:
            while True:
                ext = raw.pull_ext("%DLQ%again", 0, offset, group="undertaker", count=1000)
                answer = client.ask(raw.PULL, ext)
                if answer.code != 0:
                    return found
                found |= {identity(message.body)[1] for message in raw.messages(answer.body)}
                offset = int(answer.ext["nextBeginOffset"])

    # -- the verdict -----------------------------------------------------------------------------

    def _judge(self, is_drained: bool, producers: Producers) -> int:
        problems = self.ledger.problems()
        if not is_drained and (lost := self.ledger.dead() - self._dead()):
            problems.append(f"{len(lost)} dead letters are missing, the first is {min(lost)}")
        if producers.refused and not self._plan.restarts:
            problems.append(f"{producers.refused} sends were refused or not answered")
        problems += self._memory_problems()
        self._tell_statistics()
        status = self._broker.stop()
        if status != 0:
            problems.append(f"the broker stopped with status {status}")
        problems += [f"surprise in the broker's log:\n{text}" for text in self._broker.surprises()[:3]]
        self._say(f"soak: {self._counts()}; {len(self.ledger.dead())} dead letters")
        for problem in problems:
            self._say(f"PROBLEM: {problem}")
        self._say("soak: failed" if problems else "soak: ok")
        return 1 if problems else 0

    def _memory_problems(self) -> list[str]:
        """Compare the broker's memory near the beginning and at the end."""
        count = len(self._memory)
        if count < 20:
            return [] if self._plan.restarts else ["too short to say anything about memory"]
        sizes = [size for _, size in self._memory]
        early, late = median(sizes[count // 4 : count // 2]), median(sizes[-count // 5 :])
        slope = linear_regression(*zip(*self._memory[count // 4 :], strict=True)).slope
        self._say(
            f"RssAnon: {early / MIB:.1f} MiB early, {late / MIB:.1f} MiB late, {slope * 3600 / MIB:+.1f} MiB/h,"
            f" {max(sizes) / MIB:.1f} MiB at most"
        )
        return [f"the memory grew by {(late - early) / MIB:.1f} MiB"] if late - early > _GROWTH else []

    def _tell_statistics(self) -> None:
        with RawClient(self._broker.place) as client:
            told = json.loads(client.ask(Ask.LITEMQ_STATISTICS, {}).body)
        pauses = told["pauses"]
        for cause, found in pauses["causes"].items():
            longest = found["longest_ms"]
            self._say(f"pauses of the broker's loop, {cause}: {found['count']}, the longest {longest:.0f} ms")
        self._say(f"longest pause of its own: {pauses['longest_own_ms']:.0f} ms")
        self._say(f"broker: {self._broker.cpu_s():.1f} s of CPU")
