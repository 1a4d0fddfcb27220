"""Batch transactions by the SDK over two brokers that are killed at any moment: all or nothing on both."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import litemq
from litemq.testing import Broker, broker

pytestmark = pytest.mark.crash

TOPIC = "T"
LONG_SEEDS = 20
SETTINGS = (
    "busy_poll_us = 0\n[transaction]\nbatch_ask_ms = 300\n[store]\nsegment_bytes = 16777216\nqueue_entries = 20000\n"
    "index_slots = 20000\nindex_entries = 100000\n"
)


class Second:
    """The other broker, in a process that is killed and started again on the same store."""

    def __init__(self, nameservers: str, folder: Path) -> None:
        self._folder = folder
        config = folder / "second.toml"
        config.write_text(f'[broker]\nname = "second"\nport = 0\nname_servers = ["{nameservers}"]\n{SETTINGS}')
        command = [sys.executable, "-m", "litemq", "broker", "--data", str(folder / "second"), "--config", str(config)]
        self._command = [*command, "--json"]
        self.restart()

    def restart(self) -> None:
        """Start it, and return when it serves."""
        with (self._folder / "second.log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log)
        assert self._process.stdout is not None
        assert json.loads(self._process.stdout.readline())

    def kill(self) -> None:
        """End it by ``kill -9``."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def killer(rng: Random, brokers: list[Broker | Second], is_over: threading.Event) -> None:
    """Kill brokers one after the other, and start them again a moment later."""
    while not is_over.wait(rng.uniform(0.05, 1.2)):
        one = rng.choice(brokers)
        one.kill()
        time.sleep(rng.uniform(0, 0.3))
        one.restart()


def write(nameservers: str, rng: Random, epochs: int) -> dict[bytes, bool]:
    """Write transactions of two producers; return every row, and whether it must be there."""
    rows: dict[bytes, bool] = {}
    for epoch in range(epochs):
        for producer_id in ("x", "y"):  # one for each coordinator
            with litemq.BatchTransactions(nameservers, timeout=60) as batches:
                winners = []
                for partition in range(2):
                    for attempt in range(rng.choice((1, 2))):
                        number = rng.getrandbits(62)
                        count = rng.choice((1, 30, 3000))
                        mine = [f"{producer_id}|{epoch}|{partition}|{number}|{n}".encode() for n in range(count)]
                        given = [litemq.Message(TOPIC, row) for row in mine]
                        staged = batches.stage(producer_id, epoch, partition, number, given)
                        assert staged.count == count
                        rows |= dict.fromkeys(mine, False)
                        if not attempt:
                            winners.append((staged, mine))
                if rng.random() < 0.2:
                    batches.abort(producer_id, epoch)
                    continue
                expected = sum(staged.count for staged, _ in winners)
                assert batches.commit(producer_id, epoch, [staged for staged, _ in winners]) == expected
            with litemq.BatchTransactions(nameservers, timeout=60) as other:  # said again by another one
                assert other.commit(producer_id, epoch, [staged for staged, _ in winners]) == expected
            rows |= {row: True for _, mine in winners for row in mine}
    return rows


def read(nameservers: str, count: int) -> Counter[bytes]:
    """Return what is in the topic, when it is ``count`` messages and no more come."""
    found: Counter[bytes] = Counter()
    until = time.monotonic() + 60
    with litemq.PullConsumer(nameservers=nameservers) as consumer:
        consumer.subscribe(TOPIC)
        while found.total() < count and time.monotonic() < until:
            found.update(message.body for message in consumer.poll(10_000, timeout=1))
        found.update(message.body for message in consumer.poll(10_000, timeout=1))
    return found


def run(folder: Path, seed: int, epochs: int) -> None:
    rng = Random(seed)
    with broker(data=folder / "first", transaction={"batch_ask_ms": 300}) as first:
        second = Second(first.nameservers, folder)
        try:
            with litemq.Admin(first.nameservers) as admin:
                admin.create_topic(TOPIC, queues=4)
            with litemq.BatchTransactions(first.nameservers) as batches:
                both = {batches.status(producer_id, 0).coordinator for producer_id in ("x", "y")}
                assert both == {"broker-a", "second"}
            is_over = threading.Event()
            thread = threading.Thread(target=killer, args=(Random(seed + 1), [first, second], is_over))
            thread.start()
            try:
                rows = write(first.nameservers, rng, epochs)
            finally:
                is_over.set()
                thread.join()
            wanted = {row for row, must in rows.items() if must}
            found = read(first.nameservers, len(wanted))
            assert not [row for row, count in found.items() if count > 1]
            assert found.keys() == wanted
            until = time.monotonic() + 30
            with litemq.Admin(first.nameservers) as admin:
                while left := admin.batch_transactions():  # losers that nobody told of, decisions to confirm
                    assert time.monotonic() < until, left
                    time.sleep(0.2)
        finally:
            second.kill()


def test_brokers_are_killed(tmp_path: Path) -> None:
    run(tmp_path, 1, epochs=2)


@pytest.mark.slow
def test_brokers_are_killed_for_long(tmp_path: Path) -> None:
    for seed in range(LONG_SEEDS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        run(folder, 100 + seed, epochs=8)
