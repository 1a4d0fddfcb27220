"""Kills of driver, Python workers and brokers, at random: each message that went in comes out once.

``LITEMQ_CHAOS_ROUNDS`` says how many kills, ``LITEMQ_CHAOS_SEED`` which.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pytest
from tests.unit.client.test_several_brokers import second_broker

import litemq
from litemq.client.live_reads import LiveReader
from litemq.testing import Broker, broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(0)]

ROOT = Path(__file__).parent.parent.parent
ROUNDS = int(os.environ.get("LITEMQ_CHAOS_ROUNDS", "3"))
SEED = int(os.environ.get("LITEMQ_CHAOS_SEED", "7"))
EACH = 400


class Driver:
    """A Spark driver in a process of its own."""

    def __init__(self, server: Broker, folder: Path, how: str) -> None:
        command = [sys.executable, "-m", "tests.spark.chaos_driver", server.nameservers, "in", "out"]
        command += [str(folder / "checkpoint"), str(folder), how]
        self._log = (folder / "driver.log").open("ab")
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=self._log, start_new_session=True
        )

    def wait_started(self) -> bool:
        """Return whether the query started."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], 120)
        return bool(ready) and b"started" in os.read(self._process.stdout.fileno(), 100)

    def kill(self) -> None:
        """Kill driver, JVM and workers, as a machine that goes down does."""
        family = [self._process.pid, *descendants(self._process.pid)]
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()

    def kill_worker(self, rng: Random) -> bool:
        """Kill one of its Python workers; return whether there was one."""
        workers = [pid for pid in descendants(self._process.pid) if b"pyspark" in command_of(pid)]
        if not workers:
            return False
        with suppress(ProcessLookupError):
            os.kill(rng.choice(workers), signal.SIGKILL)
        return True

    @property
    def status(self) -> int | None:
        """Return how it ended, None while it runs."""
        return self._process.poll()


def descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and theirs."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                parents.setdefault(int(stat[1]), []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def command_of(pid: int) -> bytes:
    """Return the command line of a process."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def fill(server: Broker, turn: int) -> None:
    """Put messages into the source."""
    with litemq.BatchTransactions(server.nameservers, timeout=60) as batches:
        rows = [litemq.Message("in", b"%d-%d" % (turn, number)) for number in range(EACH)]
        batches.commit("filler", turn, [batches.stage("filler", turn, 0, turn, rows)])


def what_came_out(server: Broker) -> Counter[bytes]:
    """Return the bodies in the target."""
    found: Counter[bytes] = Counter()
    with litemq.PullConsumer(nameservers=server.nameservers) as consumer:
        consumer.subscribe("out")
        with LiveReader(server.nameservers) as reader:
            total = sum(
                queue.max_offset for one in reader.bounds(["out"]) for topic in one.topics for queue in topic.queues
            )
        deadline = time.monotonic() + 60
        while sum(found.values()) < total:
            assert time.monotonic() < deadline
            found.update(message.body for message in consumer.poll(1000, timeout=1))
    return found


@contextmanager
def cluster(folder: Path) -> Iterator[Broker]:
    """Run two brokers with both topics on each."""
    with broker() as first, second_broker(first, folder):
        with litemq.Admin(first.nameservers) as admin:
            admin.create_topic("in", queues=4)
            admin.create_topic("out", queues=4)
        yield first


@pytest.mark.parametrize("how", ["forever", "all"])
def test_each_message_comes_out_once(tmp_path: Path, how: str) -> None:
    rng = Random(f"{SEED} {how}")
    kills: Counter[str] = Counter()
    with cluster(tmp_path) as server:
        driver: Driver | None = None
        for turn in range(ROUNDS):
            fill(server, turn)
            if driver is None or driver.status is not None:
                driver = Driver(server, tmp_path, how)
                driver.wait_started()
            time.sleep(rng.uniform(0, 6))
            what = ("driver", "worker", "broker")[turn % 3] if turn < 3 else rng.choice(("driver", "worker", "broker"))
            kills[what] += 1
            if what == "driver":
                driver.kill()
                driver = None
            elif what == "worker":
                driver.kill_worker(rng)
            else:
                server.kill()
                time.sleep(rng.uniform(0, 2))
                server.start()
        if driver is not None:
            driver.kill()
        deadline = time.monotonic() + 300
        while True:  # a start may fail on a busy machine, and is repeated
            last = Driver(server, tmp_path, "all")
            while last.status is None and time.monotonic() < deadline:
                time.sleep(0.2)
            done = last.status == 0
            last.kill()
            if done:
                break
            assert time.monotonic() < deadline, (tmp_path / "driver.log").read_text()[-4000:]
        with litemq.Admin(server.nameservers) as admin:
            while any(one.unpublished for one in admin.batch_transactions()):
                assert time.monotonic() < deadline
                time.sleep(0.1)
        wanted = {b"%d-%d" % (turn, number) for turn in range(ROUNDS) for number in range(EACH)}
        found = what_came_out(server)
    assert not wanted - set(found), f"lost after {dict(kills)}, seed {SEED}: {sorted(wanted - set(found))[:5]}"
    doubled = [body for body, count in found.items() if count > 1]
    assert not doubled, f"doubled after {dict(kills)}, seed {SEED}: {doubled[:5]}"
