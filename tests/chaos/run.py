"""A broker, a producer and a consumer group of processes to which things happen; then what must hold is checked.

each acknowledged message is handled at least once
ordered: no message of a key is handled before those that were stored before it
a consumer that is stopped (Ctrl-C, SIGTERM) ends by itself, with status 0
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.workers import TOPIC

from litemq.client.admin import Admin
from litemq.testing import Broker, broker

MEMBERS = 3
STOP_S = 40.0
CATCH_UP_S = 120.0


@dataclass
class Plan:
    """What happens, for how long."""

    seconds: float
    seed: int
    is_ordered: bool
    pause_s: tuple[float, float] = (0.5, 2.5)
    """Between two events."""


@dataclass
class Outcome:
    """What came of it."""

    acknowledged: int = 0
    handled: int = 0
    again: int = 0
    """Handlings beside the first of each message."""
    events: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


class Chaos:
    """One run."""

    def __init__(self, plan: Plan, folder: Path, say: Callable[[str], object] = lambda _: None) -> None:
        self._plan = plan
        self._folder = folder
        self._say = say
        self._chance = random.Random(plan.seed)
        self._outcome = Outcome()
        self._members: list[subprocess.Popen[bytes]] = []
        self._started = 0
        self._ready: dict[int, Path] = {}

    def run(self) -> Outcome:
        """Run, and return what came of it."""
        with broker() as server:
            with Admin(server.nameservers) as admin:
                admin.create_topic(TOPIC, queues=8)
            producer = self._start(server, "produce")
            try:
                for _ in range(MEMBERS):
                    self._members.append(self._start(server, "consume"))
                self._let_things_happen(server)
                self._end(producer, signal.SIGTERM, "producer")
                self._wait_until_handled()
                for member in self._members:
                    self._end(member, signal.SIGTERM, "consumer")
            finally:
                for process in (producer, *self._members):
                    process.kill()
                    process.wait()
        self._check()
        return self._outcome

    # -- what happens ------------------------------------------------------------------------------

    def _let_things_happen(self, server: Broker) -> None:
        events: dict[str, Callable[[], object]] = {
            "kill a consumer": lambda: self._replace(server, signal.SIGKILL),
            "Ctrl-C a consumer": lambda: self._replace(server, signal.SIGINT),
            "stop a consumer": lambda: self._replace(server, signal.SIGTERM),
            "one consumer more": lambda: self._members.append(self._start(server, "consume")),
            "kill the broker": lambda: self._kill(server),
            "restart the broker": server.restart,
        }
        end = time.monotonic() + self._plan.seconds
        while time.monotonic() < end:
            time.sleep(self._chance.uniform(*self._plan.pause_s))
            name = self._chance.choice(list(events))
            if name == "one consumer more" and len(self._members) > MEMBERS:
                name = "stop a consumer"
            self._say(f"{end - time.monotonic():6.1f} s left: {name}")
            self._outcome.events[name] += 1
            events[name]()

    def _kill(self, server: Broker) -> None:
        server.kill()
        time.sleep(self._chance.uniform(0, 1))
        server.restart()

    def _replace(self, server: Broker, how: signal.Signals) -> None:
        member = self._members.pop(self._chance.randrange(len(self._members)))
        self._end(member, how, "consumer")
        if len(self._members) < MEMBERS:
            self._members.append(self._start(server, "consume"))

    def _start(self, server: Broker, work: str) -> subprocess.Popen[bytes]:
        self._started += 1
        out = self._folder / f"{work}-{self._started}"
        command = [sys.executable, "-m", "tests.chaos.workers", work, "--nameservers", server.nameservers]
        command += ["--out", str(out), "--seed", str(self._plan.seed * 1000 + self._started)]
        if self._plan.is_ordered:
            command.append("--ordered")
        with out.with_suffix(".log").open("wb") as log:
            process = subprocess.Popen(command, stderr=log, stdout=log)
        self._ready[process.pid] = out.with_suffix(".ready")
        return process

    def _end(self, process: subprocess.Popen[bytes], how: signal.Signals, what: str) -> None:
        self._wait_until_ready(process)
        process.send_signal(how)
        try:
            status = process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._outcome.faults.append(f"a {what} does not end {STOP_S:.0f} s after {how.name}")
            process.kill()
            process.wait()
            return
        if how != signal.SIGKILL and status != 0:
            self._outcome.faults.append(f"a {what} ended with {status} after {how.name}")

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until a process listens to signals: one that has just begun simply dies of them."""
        ready = self._ready[process.pid]
        end = time.monotonic() + STOP_S
        while not ready.exists() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)

    # -- what must hold ----------------------------------------------------------------------------

    def _wait_until_handled(self) -> None:
        end = time.monotonic() + CATCH_UP_S
        acknowledged = set(self._lines("produce"))
        while time.monotonic() < end:
            handled = {(key, number) for key, number, _ in self._handled()}
            if acknowledged <= handled:
                return
            time.sleep(0.5)

    def _lines(self, work: str) -> list[tuple[str, int]]:
        return [
            (line.split()[0], int(line.split()[1]))
            for path in sorted(self._folder.glob(f"{work}-*"))
            if not path.suffix
            for line in path.read_text().splitlines()
        ]

    def _handled(self) -> list[tuple[str, int, int]]:
        found = []
        for path in sorted(self._folder.glob("consume-*")):
            if not path.suffix:
                for line in path.read_text().splitlines():
                    key, number, attempt = line.split()
                    found.append((key, int(number), int(attempt)))
        return found

    def _check(self) -> None:
        outcome = self._outcome
        acknowledged = set(self._lines("produce"))
        handled = Counter((key, number) for key, number, _ in self._handled())
        outcome.acknowledged, outcome.handled = len(acknowledged), len(handled)
        outcome.again = sum(handled.values()) - len(handled)
        lost = sorted(acknowledged - set(handled))
        if lost:
            outcome.faults.append(f"{len(lost)} acknowledged messages were not handled: {lost[:5]}")
        if self._plan.is_ordered:
            self._check_order()

    def _check_order(self) -> None:
        """Within one process a key's numbers go up by one, or back to what is handled again, never ahead."""
        for path in sorted(self._folder.glob("consume-*")):
            if path.suffix:
                continue
            last: dict[str, int] = {}
            for line in path.read_text().splitlines():
                key, text, _ = line.split()
                number = int(text)
                if key in last and number > last[key] + 1:
                    gap = [(key, missing) for missing in range(last[key] + 1, number)]
                    if not self._were_handled_elsewhere(gap, path):
                        self._outcome.faults.append(f"{path.name}: {key} {number} was handled right after {last[key]}")
                        return
                last[key] = number

    def _were_handled_elsewhere(self, messages: list[tuple[str, int]], but: Path) -> bool:
        """Return whether others handled them: a queue may go to another member and come back."""
        others: set[tuple[str, int]] = set()
        for path in self._folder.glob("consume-*"):
            if path != but and not path.suffix:
                others.update((line.split()[0], int(line.split()[1])) for line in path.read_text().splitlines())
        return set(messages) <= others
