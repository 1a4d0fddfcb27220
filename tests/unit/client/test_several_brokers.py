"""A producer with two brokers, of which one dies."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import litemq
from litemq.testing import Broker, broker

TOPIC = "orders"


@contextmanager
def second_broker(first: Broker, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    config = folder / "second.toml"
    config.write_text(
        f'[broker]\nname = "second"\nport = 0\nname_servers = ["{first.nameservers}"]\nbusy_poll_us = 0\n'
        "[store]\nsegment_bytes = 16777216\nqueue_entries = 20000\nindex_slots = 20000\nindex_entries = 100000\n"
    )
    command = [sys.executable, "-m", "litemq", "broker", "--data", str(folder / "second"), "--config", str(config)]
    process = subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        assert json.loads(process.stdout.readline())
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Broker, subprocess.Popen[bytes]]]:
    with broker() as first, second_broker(first, tmp_path) as second:
        with litemq.Admin(first.nameservers) as admin:
            admin.create_topic(TOPIC, queues=8)
        yield first, second


def test_the_other_broker_takes_what_one_does_not(cluster: tuple[Broker, subprocess.Popen[bytes]]) -> None:
    first, second = cluster
    with litemq.Producer(first.nameservers, timeout=5) as producer:
        both = Counter(producer.send(TOPIC, b"before").broker for _ in range(16))
        assert both == {"second": 8, "broker-a": 8}
        second.kill()
        second.wait()
        after = Counter(producer.send(TOPIC, b"after").broker for _ in range(50))
        assert after == {"broker-a": 50}
        futures = [producer.send_async(TOPIC, b"after") for _ in range(100)]
        assert {future.result(10).broker for future in futures} == {"broker-a"}


def test_a_key_stays_with_its_queue_as_long_as_its_broker_is_there(
    cluster: tuple[Broker, subprocess.Popen[bytes]],
) -> None:
    """When it is gone, keys are dealt anew over the queues that are left, as RocketMQ's own clients do."""
    first, second = cluster
    with litemq.Producer(first.nameservers) as producer:
        keys = list(map(str, range(20)))
        places = [
            (sent.broker, sent.queue_id) for sent in (producer.send(TOPIC, b"", sharding_key=key) for key in keys)
        ]
        again = [(sent.broker, sent.queue_id) for sent in (producer.send(TOPIC, b"", sharding_key=key) for key in keys)]
        assert places == again
        assert {name for name, _ in places} == {"broker-a", "second"}
        second.kill()
        second.wait()
        assert {producer.send(TOPIC, b"", sharding_key=key).broker for key in keys} == {"broker-a"}


def test_consumers_read_from_both(cluster: tuple[Broker, subprocess.Popen[bytes]]) -> None:
    first, _ = cluster
    with litemq.Producer(first.nameservers) as producer:
        producer.send_batch([litemq.Message(TOPIC, b"0")])
        for number in range(1, 40):
            producer.send(TOPIC, b"%d" % number)
    with litemq.PullConsumer("readers", nameservers=first.nameservers) as consumer:
        consumer.subscribe(TOPIC)
        found: list[litemq.Message] = []
        while len(found) < 40:
            found += consumer.poll(timeout=10)
    assert {int(message.body) for message in found} == set(range(40))
    assert {message.broker for message in found} == {"broker-a", "second"}


def test_receipts_of_both(cluster: tuple[Broker, subprocess.Popen[bytes]]) -> None:
    first, second = cluster
    with (
        litemq.Producer(first.nameservers, timeout=5) as producer,
        litemq.SimpleConsumer("workers", {TOPIC: "*"}, nameservers=first.nameservers) as consumer,
    ):
        for number in range(32):
            producer.send(TOPIC, b"%d" % number)
        found: list[litemq.Message] = []
        while len(found) < 32:
            found += consumer.receive(max_messages=8)
        assert Counter(message.broker for message in found) == {"second": 16, "broker-a": 16}
        assert {message.broker for message in found[:16]} == {"second", "broker-a"}  # they take turns
        consumer.ack(*found)
        for _ in range(2):  # whichever gets it
            threading.Timer(0.1, producer.send, (TOPIC, b"later")).start()
            (message,) = consumer.receive()
            consumer.ack(message)
        second.kill()
        second.wait()
        producer.send(TOPIC, b"after")
        (message,) = consumer.receive()
        assert (message.body, message.broker) == (b"after", "broker-a")
        consumer.ack(message)


def test_a_transaction_over_both(cluster: tuple[Broker, subprocess.Popen[bytes]]) -> None:
    first, second = cluster
    asked: list[str] = []

    def check(message: litemq.Message) -> litemq.Decision:
        asked.append(message.broker)
        return litemq.COMMIT

    with (
        litemq.TransactionProducer("shop", check=check, nameservers=first.nameservers, timeout=1) as producer,
        litemq.SimpleConsumer("workers", {TOPIC: "*"}, nameservers=first.nameservers) as consumer,
    ):
        with producer.transaction() as tx:
            both = {tx.send(TOPIC, b"%d" % number).broker for number in range(8)}
            assert consumer.receive(timeout=0) == []
        assert both == {"second", "broker-a"}
        found: list[litemq.Message] = []
        while len(found) < 8:
            found += consumer.receive()
        tx = producer.transaction(check_after=1)
        for number in range(8):
            tx.send(TOPIC, b"%d" % number)
        while set(asked) != both:  # both brokers know whom to ask
            time.sleep(0.01)
        with producer.transaction() as tx:
            for number in range(8):
                tx.send(TOPIC, b"last %d" % number)
            second.kill()
            second.wait()
        assert tx.decision is litemq.COMMIT  # the broker that is gone asks when it is back
        last: list[bytes] = []
        while len(last) < 4:  # the other one has heard
            last += [message.body for message in consumer.receive() if message.body.startswith(b"last")]
