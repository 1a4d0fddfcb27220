"""Batch transactions of the SDK over two brokers, through deaths of brokers and drivers."""

from __future__ import annotations

import asyncio
import itertools
import pickle
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.client.test_several_brokers import second_broker

import litemq
from litemq import aio
from litemq.features.slots import Table
from litemq.testing import Broker, broker

TOPIC = "orders"
_numbers = itertools.count(1)
TASK = """
import pickle, sys
import litemq
with litemq.BatchTransactions(sys.argv[1]) as batches:
    rows = [litemq.Message(sys.argv[3], f"{sys.argv[4]}:{n}".encode()) for n in range(500)]
    staged = batches.stage(sys.argv[2], 0, int(sys.argv[4]), 100 + int(sys.argv[4]), rows)
sys.stdout.buffer.write(pickle.dumps(staged))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker() as first, second_broker(first, tmp_path_factory.mktemp("second")):
        yield first


@pytest.fixture
def topic(cluster: Broker) -> str:
    name = f"{TOPIC}-{next(_numbers)}"
    with litemq.Admin(cluster.nameservers) as admin:
        admin.create_topic(name, queues=8)
    return name


def producer_of(name: str) -> str:
    """Return a producer that a broker decides about."""
    table = Table.over(["broker-a", "second"])
    return next(
        found for found in (f"p{number}-{next(_numbers)}" for number in range(99)) if table.broker_of(found) == name
    )


def read(server: Broker, topic: str, count: int) -> list[litemq.Message]:
    """Return what is in a topic, when it is ``count`` messages and no more come."""
    with litemq.PullConsumer(nameservers=server.nameservers) as consumer:
        consumer.subscribe(topic)
        found: list[litemq.Message] = []
        while len(found) < count:
            more = consumer.poll(10_000, timeout=10)
            assert more, f"{len(found)} of {count}"
            found += more
        return found + consumer.poll(10_000, timeout=0.3)


def rows(topic: str, *bodies: str) -> list[litemq.Message]:
    return [litemq.Message(topic, body.encode()) for body in bodies]


@pytest.mark.parametrize("coordinator", ["broker-a", "second"])
def test_staged_by_many_processes_and_committed_by_one(cluster: Broker, topic: str, coordinator: str) -> None:
    producer_id = producer_of(coordinator)
    command = [sys.executable, "-c", TASK, cluster.nameservers, producer_id, topic]
    tasks = [subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE) for number in range(3)]
    staged = [pickle.loads(task.communicate()[0]) for task in tasks]
    assert [one.count for one in staged] == [500] * 3
    assert all(set(one.rows) == {"broker-a", "second"} for one in staged)
    with litemq.BatchTransactions(cluster.nameservers) as batches:
        loser = batches.stage(producer_id, 0, 1, 7, rows(topic, "loser"))
        assert loser.count == 1
        with litemq.Admin(cluster.nameservers) as admin:
            there = {one.broker: one for one in admin.batch_transactions() if one.producer_id == producer_id}
        assert {one.coordinator for one in there.values()} == {coordinator}
        assert sum(one.rows for one in there.values()) == 1501
        assert batches.commit(producer_id, 0, staged) == 1500
        assert batches.commit(producer_id, 0, staged) == 1500
        found = Counter(message.body for message in read(cluster, topic, 1500))
        assert found == Counter(f"{task}:{n}".encode() for task in range(3) for n in range(500))
        again = batches.stage(producer_id, 0, 0, 8, rows(topic, "late"))
        assert (again.state, again.rows) == ("committed", {})
        assert batches.status(producer_id, 0).coordinator == coordinator
        with pytest.raises(litemq.TransactionOver):
            batches.abort(producer_id, 0)


def test_rows_of_an_ended_epoch_are_not_even_asked_for(cluster: Broker, topic: str) -> None:
    def never() -> Iterator[litemq.Message]:
        raise AssertionError
        yield

    producer_id = producer_of("second")
    with litemq.BatchTransactions(cluster.nameservers) as batches:
        batches.commit(producer_id, 3, [])
        assert batches.stage(producer_id, 3, 0, 0, never()).state == "committed"
        with pytest.raises(litemq.StaleEpoch):
            batches.stage(producer_id, 2, 0, 0, never())
        batches.abort(producer_id, 4, reason="no")
        assert batches.stage(producer_id, 4, 0, 0, never()).state == "aborted"
        with pytest.raises(litemq.TransactionOver, match="no"):
            batches.commit(producer_id, 4, [])


def test_rows_go_where_they_say(cluster: Broker, topic: str) -> None:
    with litemq.Producer(cluster.nameservers) as producer:
        keyed = {key: producer.send(topic, b"sent", sharding_key=key) for key in ("k1", "k2", "k3")}
    named = litemq.TopicQueue(topic, "second", 3)
    given: list[litemq.Message | tuple[litemq.Message, litemq.TopicQueue | int]] = [
        *(litemq.Message(topic, f"{key}-{n}".encode(), sharding_key=key) for n in range(20) for key in keyed),
        *((message, named) for message in rows(topic, *(f"named-{n}" for n in range(20)))),
        *((message, 2) for message in rows(topic, *(f"third-{n}" for n in range(20)))),
    ]
    with litemq.BatchTransactions(cluster.nameservers) as batches:
        staged = batches.stage(producer_of("broker-a"), 0, 0, 1, given)
        batches.commit(staged.producer_id, 0, [staged])
        with pytest.raises(litemq.InvalidRequest, match="no queue 99"):
            batches.stage(producer_of("broker-a"), 0, 0, 1, [(litemq.Message(topic, b""), 99)])
    found = [message for message in read(cluster, topic, 103) if message.body != b"sent"]
    for key, sent in keyed.items():
        mine = [one for one in found if one.sharding_key == key]
        assert {(one.broker, one.queue_id) for one in mine} == {(sent.broker, sent.queue_id)}
        assert [one.body for one in mine] == [f"{key}-{n}".encode() for n in range(20)]
    for name, place in (("named", ("second", 3)), ("third", ("broker-a", 2))):
        mine = [one for one in found if one.body.startswith(name.encode())]
        assert {(one.broker, one.queue_id) for one in mine} == {place}
        assert [one.body for one in mine] == [f"{name}-{n}".encode() for n in range(20)]


def test_what_was_received_can_be_written_again(cluster: Broker, topic: str) -> None:
    with litemq.Producer(cluster.nameservers, compression="zlib", compress_over=10) as producer:
        producer.send(topic, b"x" * 1000, tags="t", keys="k", properties={"a": "b"})
    (received,) = read(cluster, topic, 1)
    with litemq.BatchTransactions(cluster.nameservers) as batches:
        staged = batches.stage(producer_of("second"), 0, 0, 1, [received])
        batches.commit(staged.producer_id, 0, [staged])
    _, copy = read(cluster, topic, 2)
    assert (copy.body, copy.tags, copy.keys, dict(copy.properties)) == (b"x" * 1000, "t", ("k",), {"a": "b"})


def test_missing_rows_are_named_and_nothing_is_committed_anywhere(cluster: Broker, topic: str) -> None:
    producer_id = producer_of("broker-a")
    with litemq.BatchTransactions(cluster.nameservers) as batches:
        staged = batches.stage(producer_id, 0, 4, 1, rows(topic, *"abcdefgh"))
        wrong = litemq.Staged(producer_id, 0, 4, 1, {**staged.rows, "second": staged.rows["second"] + 1})
        with pytest.raises(litemq.RowsMissing, match=r"partition 4 .* on second"):
            batches.commit(producer_id, 0, [wrong])
        assert batches.status(producer_id, 0).state == "open"
        batches.discard(producer_id, 0, staged)
        with pytest.raises(litemq.RowsMissing):
            batches.commit(producer_id, 0, [staged])
        with pytest.raises(litemq.InvalidRequest, match="another transaction"):
            batches.commit(producer_id, 1, [staged])
        better = batches.stage(producer_id, 0, 4, 2, rows(topic, *"abcdefgh"))
        assert batches.commit(producer_id, 0, [better]) == 8
    assert len(read(cluster, topic, 8)) == 8


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("", 0, 0, 0), "producer id"),
        (("x" * 256, 0, 0, 0), "producer id"),
        (("p", -1, 0, 0), "epoch"),
        (("p", 0, -1, 0), "partition"),
        (("p", 0, 0, 1 << 63), "attempt"),
    ],
)
def test_arguments_are_looked_at(cluster: Broker, arguments: tuple[str, int, int, int], text: str) -> None:
    with litemq.BatchTransactions(cluster.nameservers) as batches, pytest.raises(litemq.InvalidRequest, match=text):
        batches.stage(*arguments, [])


def test_the_awaited_face(cluster: Broker, topic: str) -> None:
    async def main() -> int:
        async with aio.BatchTransactions(cluster.nameservers) as batches:
            producer_id = producer_of("second")
            parts = await asyncio.gather(
                *(batches.stage(producer_id, 0, part, part, rows(topic, *"abc")) for part in range(4))
            )
            await batches.discard(producer_id, 1)
            count = await batches.commit(producer_id, 0, parts)
            assert (await batches.status(producer_id, 0)).state == "committed"
            return count

    assert asyncio.run(main()) == 12
    assert len(read(cluster, topic, 12)) == 12


def test_a_broker_that_is_killed_while_rows_are_staged(tmp_path: Path) -> None:
    """The writer waits for it, and nothing is doubled; so does the driver."""
    with broker(data=tmp_path / "store") as server:
        with litemq.Admin(server.nameservers) as admin:
            admin.create_topic(TOPIC, queues=4)
        killed = threading.Event()

        def come_back() -> None:
            server.restart()
            killed.set()

        def given() -> Iterator[litemq.Message]:
            for number in range(40_000):
                if number == 20_000:
                    server.kill()
                    threading.Timer(0.2, come_back).start()
                yield litemq.Message(TOPIC, b"%d" % number)

        with litemq.BatchTransactions(server.nameservers) as batches:
            staged = batches.stage("p", 0, 0, 1, given())
            assert killed.wait(30)
            assert batches.commit("p", 0, [staged]) == 40_000
            server.kill()
            server.restart()
            assert batches.commit("p", 0, [staged]) == 40_000
        found = Counter(int(message.body) for message in read(server, TOPIC, 40_000))
        assert found == Counter(range(40_000))
