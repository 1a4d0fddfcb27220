"""Kills of driver, executors, Python workers and brokers, at random: each message that went in comes out once.

The query shuffles by key on a standalone cluster with two workers, between two brokers.  ``LITEMQ_CHAOS_ROUNDS`` says
how many kills, ``LITEMQ_CHAOS_SEED`` which.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.second_broker import SecondBroker, second_broker
from tests.support.spark_cluster import SparkCluster, command_of, descendants, end, spark_cluster

import litemq
from litemq.client.live_reads import LiveReader
from litemq.testing import Broker, broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(0)]

ROOT = Path(__file__).parent.parent.parent
ROUNDS = int(os.environ.get("LITEMQ_CHAOS_ROUNDS", "3"))
SEED = int(os.environ.get("LITEMQ_CHAOS_SEED", "7"))
EACH = 400
KEYS = 24
KILLS = ("driver", "executor", "worker", "broker", "second broker")
FIRST = {"forever": ("executor", "broker", "driver"), "all": ("second broker", "driver", "executor")}
"""What is killed in any case."""
MOVE_S = 180.0
FINISH_S = 300.0 + 30.0 * ROUNDS
"""A stream that was killed all the time has nearly everything still to read."""


class Driver:
    """A Spark driver in a process of its own, and its executors."""

    def __init__(self, server: Broker, spark: SparkCluster, folder: Path, how: str) -> None:
        (folder / "events").mkdir(exist_ok=True)
        settings = {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
        command = [sys.executable, "-m", "tests.spark.chaos_driver", server.nameservers, "in", "out", str(folder), how]
        command += [f"{name}={value}" for name, value in {**spark.settings, **settings}.items()]
        self._spark = spark
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
        """Kill driver and JVM; executors find out by themselves."""
        end(self._process.pid)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()

    @property
    def status(self) -> int | None:
        """Return how it ended, None while it runs."""
        return self._process.poll()


def fill(server: Broker, turn: int) -> None:
    """Put messages into the source: the bodies of a key go up."""
    with litemq.BatchTransactions(server.nameservers, timeout=60) as batches:
        rows = [
            litemq.Message("in", b"%06d" % (turn * EACH + number), keys=f"key-{number % KEYS}")
            for number in range(EACH)
        ]
        batches.commit("filler", turn, [batches.stage("filler", turn, 0, turn, rows)])


def what_came_out(server: Broker) -> list[litemq.Message]:
    """Return the messages in the target, those of a queue in their order."""
    found: list[litemq.Message] = []
    with litemq.PullConsumer(nameservers=server.nameservers) as consumer:
        consumer.subscribe("out")
        with LiveReader(server.nameservers) as reader:
            total = sum(
                queue.max_offset for one in reader.bounds(["out"]) for topic in one.topics for queue in topic.queues
            )
        deadline = time.monotonic() + 60
        while len(found) < total:
            assert time.monotonic() < deadline
            found += consumer.poll(1000, timeout=1)
    return found


class Whole:
    """Driver, cluster and brokers, and what was killed of them."""

    def __init__(self, brokers: tuple[Broker, SecondBroker], spark: SparkCluster, folder: Path, how: str) -> None:
        self.rng = Random(f"{SEED} {how}")
        self.kills: Counter[str] = Counter()
        self.server = brokers[0]
        self._brokers = brokers
        self._spark = spark
        self._folder = folder
        self._how = how
        self._driver: Driver | None = None
        self._moved: set[Path] = set()

    def run(self) -> None:
        """Have a driver run, a new one when the last one is gone."""
        if self._driver is not None and self._driver.status is not None:
            self._driver.kill()
            self._driver = None
        if self._driver is None:
            self._driver = Driver(self.server, self._spark, self._folder, self._how)
            self._driver.wait_started()

    def wait_until_it_moves(self) -> None:
        """Return when a batch was begun or ended since the last time: what stands still cannot be hit."""
        assert self._driver is not None
        deadline = time.monotonic() + MOVE_S
        while (noted := self._noted()) == self._moved and time.monotonic() < deadline:
            if self._driver.status is not None:
                return
            time.sleep(0.05)
        self._moved = noted

    def _noted(self) -> set[Path]:
        """Return what Spark's checkpoint has of batches that were begun and ended."""
        return {*self._folder.glob("checkpoint/offsets/*"), *self._folder.glob("checkpoint/commits/*")}

    def kill(self, what: str) -> None:
        """Kill one part; a broker comes back a moment later."""
        assert self._driver is not None
        match what:
            case "driver":
                self._driver.kill()
                self._driver = None
            case "executor" | "worker":
                deadline = time.monotonic() + 60
                while not self._kill_of_cluster(what) and time.monotonic() < deadline:
                    time.sleep(0.1)
            case _:
                one = self._brokers[what == "second broker"]
                one.kill()
                time.sleep(self.rng.uniform(0, 2))
                one.start()
        self.kills[what] += 1
        with (self._folder / "kills.log").open("a") as log:
            log.write(f"{sum(self.kills.values())} {what}\n")

    def _kill_of_cluster(self, what: str) -> bool:
        """Kill an executor with its Python workers, or one of those; return whether there was one."""
        found = self._spark.executors()
        if what == "worker":
            found = [pid for executor in found for pid in descendants(executor) if b"pyspark" in command_of(pid)]
        if not found:
            return self._driver is None or self._driver.status is not None
        end(self.rng.choice(found))
        return True

    def finish(self) -> None:
        """Kill the driver and have others read what is left: a start may fail on a busy machine, and is repeated."""
        if self._driver is not None:
            self._driver.kill()
        deadline = time.monotonic() + FINISH_S
        status = None
        while status != 0:
            assert time.monotonic() < deadline, (self._folder / "driver.log").read_text()[-4000:]
            last = Driver(self.server, self._spark, self._folder, "all")
            while last.status is None and time.monotonic() < deadline:
                time.sleep(0.2)
            status = last.status
            last.kill()
        with litemq.Admin(self.server.nameservers) as admin:
            while any(one.unpublished for one in admin.batch_transactions()):
                assert time.monotonic() < deadline
                time.sleep(0.1)


def tasks_of(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield what Spark's event logs say of tasks that ended."""
    for log in (folder / "events").iterdir():
        for line in log.read_text().splitlines():
            if '"SparkListenerTaskEnd"' in line[:100]:
                with suppress(ValueError):  # the driver was killed in the middle of a line
                    yield json.loads(line)["Task Info"]


def out_of_order(found: list[litemq.Message]) -> list[tuple[bytes, bytes]]:
    """Return neighbours of one key in one queue that one task wrote, and that are not in its order."""
    last: dict[tuple[object, ...], bytes] = {}
    wrong = []
    for message in found:
        place = (message.broker, message.queue_id, message.tags, message.keys)
        if last.get(place, b"") > message.body:
            wrong.append((last[place], message.body))
        last[place] = message.body
    return wrong


@pytest.fixture(scope="module")
def spark_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster"), cores=2) as found:
        yield found


@pytest.mark.parametrize("how", ["forever", "all"])
def test_each_message_comes_out_once(tmp_path: Path, spark_processes: SparkCluster, how: str) -> None:
    with broker() as first, second_broker(first, tmp_path) as second:
        with litemq.Admin(first.nameservers) as admin:
            admin.create_topic("in", queues=4)
            admin.create_topic("out", queues=4)
        whole = Whole((first, second), spark_processes, tmp_path, how)
        for turn in range(ROUNDS):
            fill(first, turn)
            whole.run()
            whole.wait_until_it_moves()
            time.sleep(whole.rng.uniform(0, 3))
            whole.kill(FIRST[how][turn] if turn < 3 else whole.rng.choice(KILLS))
        whole.finish()
        found = what_came_out(first)
    bodies = Counter(message.body for message in found)
    wanted = {b"%06d" % number for number in range(ROUNDS * EACH)}
    about = f"after {dict(whole.kills)}, seed {SEED}"
    assert not wanted - set(bodies), f"lost {about}: {sorted(wanted - set(bodies))[:5]}"
    assert set(bodies) == wanted
    doubled = [body for body, count in bodies.items() if count > 1]
    assert not doubled, f"doubled {about}: {doubled[:5]}"
    assert not out_of_order(found), f"out of order {about}: {out_of_order(found)[:5]}"
    assert {message.broker for message in found} == {"broker-a", "second"}
    tasks = list(tasks_of(tmp_path))
    assert any(task["Attempt"] and not task["Speculative"] for task in tasks), "no task was retried"
    assert any(task["Speculative"] for task in tasks), "no slow task was started twice"
