"""All servers at once, one client process per run, the libraries in turn; the order turns by one each round."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import figures, native
from benchmarks.broker.sites import settle
from benchmarks.figures import Figure
from benchmarks.native import Found, LoadFailed
from benchmarks.peers import kafka, litemq, maven, nats, rabbitmq, redis
from benchmarks.peers.process import Missing, Server, die_with_parent, found
from benchmarks.python import peer_libraries, rows
from benchmarks.python.rows import Row

ROOT = Path(__file__).resolve().parent.parent.parent
_SPARE_S = 120.0
"""A run that takes so much longer than it should hangs."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long everything takes."""

    rounds: int
    seconds: float
    warm: float
    backlog: int


@dataclass(frozen=True, slots=True)
class Contender:
    """A client library and the server that it talks to."""

    name: str
    server: str
    works: tuple[str, ...] = tuple(row.work for row in rows.ROWS)


CONTENDERS = (
    Contender("litemq", "litemq"),
    Contender("redis", "redis"),
    Contender("kafka", "kafka"),
    Contender("kafka_tuned", "kafka", ("batch", "consume")),
    Contender("nats", "nats"),
    Contender("rabbitmq", "rabbitmq"),
)

# What must be there before a server can start; each names what is missing.
_NEEDS: dict[str, Callable[[], object]] = {
    "redis": lambda: found("redis-server", "install Redis (Debian: redis-server)"),
    "kafka": lambda: (maven.java(), kafka.jars()),
    "nats": nats.command,
    "rabbitmq": rabbitmq.script,
}


def make_sure(servers: Sequence[str]) -> None:
    """Have everything here before anything is measured.

    Raises:
        Missing: names all that is not.
    """
    complaints = []
    needs: list[Callable[[], object]] = [_NEEDS[name] for name in servers if name in _NEEDS]
    for need in (*needs, peer_libraries.interpreter):
        try:
            need()
        except Missing as error:
            complaints.append(str(error))
    if complaints:
        raise Missing("; ".join(complaints))


def run(
    directory: Path, chosen: Sequence[Row], servers: Sequence[str], plan: Plan, store_format: str
) -> tuple[dict[str, list[Figure]], dict[str, dict[str, list[Found]]]]:
    """Run rows and print each as it is done; return the figures, and every single run."""
    make_sure(servers)
    starts: dict[str, Callable[[Path], Server]] = {
        "litemq": functools.partial(litemq.start, store_format=store_format),
        "redis": redis.start,
        "kafka": kafka.start,
        "nats": nats.start,
        "rabbitmq": rabbitmq.start,
    }
    results: dict[str, list[Figure]] = {}
    everything: dict[str, dict[str, list[Found]]] = {}
    with contextlib.ExitStack() as stack:
        running = {name: stack.enter_context(starts[name](directory / name)) for name in servers}
        print("ready: " + ", ".join(f"{name} {server.ready_s:.2f} s" for name, server in running.items()), flush=True)
        for row in chosen:
            loads = [
                Load(contender.name, running[contender.server], directory, plan)
                for contender in CONTENDERS
                if contender.server in running and row.work in contender.works
            ]
            everything[row.work] = rounds(row, loads, plan)
            results[row.work] = figures.show(row.title, rows.figures(row, everything[row.work]))
    return results, everything


def rounds(row: Row, loads: Sequence[Load], plan: Plan) -> dict[str, list[Found]]:
    """Run a row in turn; the first round only warms."""
    runs: dict[str, list[Found]] = {load.name: [] for load in loads}
    for turn in range(-1, plan.rounds):
        first = turn % len(loads)
        for load in (*loads[first:], *loads[:first]):
            found = load.run(row.work, turn)
            if turn >= 0:
                runs[load.name].append(found)
    return runs


class Load:
    """Runs of one client library."""

    def __init__(self, name: str, server: Server, directory: Path, plan: Plan) -> None:
        self.name = name
        self._server = server
        self._log = directory / f"{name}.log"
        self._plan = plan
        self._python = Path(sys.executable) if name == "litemq" else peer_libraries.interpreter()

    def run(self, work: str, turn: int) -> Found:
        """Run one work in a process of its own."""
        topic = f"{self.name}-{work}-{turn + 1}"
        if work == "consume":
            topic = f"{self.name}-backlog"
            self._process("fill", topic, 0, count=self._plan.backlog)
        settle()
        seconds = min(2.0, self._plan.seconds) if turn < 0 else self._plan.seconds
        options = {"group": f"readers-{turn + 1}", "count": self._plan.backlog, "warm": self._plan.warm}
        return self._process(work, topic, seconds, **options)

    def _process(self, work: str, topic: str, seconds: float, **options: object) -> Found:
        given: dict[str, object] = {
            "port": self._server.port,
            "name-server": self._server.name_server,
            "topic": topic,
            "seconds": seconds,
            "limit": self._plan.warm + seconds * 3 + _SPARE_S,
            **options,
        }
        arguments = [part for name, value in given.items() for part in (f"--{name}", str(value))]
        with (
            self._log.open("w+b") as log,
            subprocess.Popen(
                [self._python, "-m", "benchmarks.python.load", self.name, work, *arguments],
                env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
                cwd=self._log.parent,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            ) as process,
        ):
            try:
                assert process.stdout is not None
                return native.measured(map(bytes.decode, process.stdout), self._server)
            except LoadFailed as error:
                process.wait()
                said = self._log.read_text(errors="replace")[-2000:]
                raise LoadFailed(f"{self.name}, {work}: {error}\n{said}".rstrip()) from None
            finally:
                process.kill()
