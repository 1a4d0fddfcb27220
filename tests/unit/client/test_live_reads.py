"""The client of data jobs over two brokers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.client.test_several_brokers import second_broker

import litemq
from litemq.client.live_reads import LiveQueue, LiveReader, RawRecords
from litemq.format import rows
from litemq.format._scan_cy import scan
from litemq.format.record import FORMATS, LITEMQ, decode_row
from litemq.store.frames import stated_offset
from litemq.testing import Broker, broker


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker() as first, second_broker(first, tmp_path_factory.mktemp("second")):
        yield first


@pytest.fixture
def reader(cluster: Broker) -> Iterator[LiveReader]:
    with LiveReader(cluster.nameservers) as found:
        yield found


def bodies(raw: RawRecords) -> list[bytes]:
    fmt = FORMATS[raw.format]
    at, found, table = 0, [], rows.table(1)
    while at < len(raw.data):
        size = int.from_bytes(raw.data[at : at + 4], "big") + (4 if fmt is LITEMQ else 0)
        record = raw.data[at : at + size]
        assert scan(fmt.code, record, 0, size, stated_offset(fmt, record), table)[0] == 1
        found.append(decode_row(fmt, memoryview(record), table, 0, "").body)
        at += size
    return found


def fill(cluster: Broker, topic: str, count: int, size: int = 0) -> None:
    with litemq.Admin(cluster.nameservers) as admin, litemq.Producer(cluster.nameservers) as producer:
        admin.create_topic(topic, queues=8, exist_ok=True)
        producer.send_batch([litemq.Message(topic, b"%d " % number + b"x" * size) for number in range(count)])


def read_all(reader: LiveReader, topic: str, max_bytes: int = 1 << 20) -> list[bytes]:
    found: list[bytes] = []
    for queue in queues(reader, topic):
        at = queue.min_offset
        while at < queue.max_offset:
            raw = reader.pull(queue.broker, topic, queue.queue_id, at, queue.max_offset, max_bytes=max_bytes)
            found += bodies(raw)
            at = raw.next_offset
    return found


def queues(reader: LiveReader, topic: str) -> list[LiveQueue]:
    return [queue for one in reader.bounds([topic]) for found in one.topics for queue in found.queues]


def test_all_messages_of_two_brokers(cluster: Broker, reader: LiveReader) -> None:
    for _ in range(8):
        fill(cluster, "read", 50, size=300)
    assert {queue.broker for queue in queues(reader, "read")} == {"broker-a", "second"}
    expected = sorted(b"%d " % number + b"x" * 300 for number in range(50) for _ in range(8))
    assert sorted(read_all(reader, "read")) == expected
    assert sorted(read_all(reader, "read", max_bytes=1000)) == expected
    ids = [one.log_id for one in reader.bounds(["read"])]
    assert len(set(ids)) == 2


def test_a_large_answer_comes_whole(cluster: Broker, reader: LiveReader) -> None:
    fill(cluster, "large", 30, size=100_000)
    found = read_all(reader, "large", max_bytes=4 << 20)
    assert sorted(map(len, found)) == sorted(len(b"%d " % number) + 100_000 for number in range(30))


def test_pages_of_topics(cluster: Broker, reader: LiveReader) -> None:
    names = [f"page-{number:03}" for number in range(130)]
    with litemq.Admin(cluster.nameservers) as admin:
        for name in names:
            admin.create_topic(name, queues=1)
    told = {topic.name for one in reader.bounds() for topic in one.topics}
    assert told >= set(names)
    asked = {topic.name for one in reader.bounds([*names, "no-such"]) for topic in one.topics}
    assert asked == set(names)


def test_offsets_and_pieces(cluster: Broker, reader: LiveReader) -> None:
    fill(cluster, "cut", 80, size=500)
    now = int(time.time() * 1000)
    found = [queue for queue in queues(reader, "cut") if queue.max_offset]
    ends = [queue.max_offset for queue in found]
    assert reader.offsets_at([(queue, now + 60_000) for queue in found]) == ends
    assert reader.offsets_at([(queue, 0) for queue in found]) == [0] * len(found)
    one = max(found, key=lambda queue: queue.max_offset)
    cuts = reader.split(one.broker, "cut", one.queue_id, 0, one.max_offset, every_bytes=1)
    assert cuts == list(range(1, one.max_offset))
    assert reader.bytes_end(one.broker, "cut", one.queue_id, 0, one.max_offset, max_bytes=1) == min(1, one.max_offset)
    assert reader.bytes_end(one.broker, "cut", one.queue_id, 0, one.max_offset, max_bytes=1 << 40) == one.max_offset


def test_a_hold_and_its_end(cluster: Broker, reader: LiveReader) -> None:
    fill(cluster, "held", 8)
    queue = queues(reader, "held")[0]
    held = reader.hold(queue.broker, "job", {("held", queue.queue_id): 0}, lease_s=60)
    assert not held.late
    assert held.until_ms > time.time() * 1000 + 30_000
    assert reader.release(queue.broker, "job")
    assert not reader.release(queue.broker, "job")


def test_a_broker_that_was_killed_is_waited_for(tmp_path: Path) -> None:
    with broker() as server, LiveReader(server.nameservers, timeout=30) as reader:
        fill(server, "T", 10)
        assert len(read_all(reader, "T")) == 10
        server.kill()
        starting = threading.Timer(0.5, server.start)
        starting.start()
        assert len(read_all(reader, "T")) == 10
        starting.join()


def test_who_is_away_for_good_is_named(tmp_path: Path) -> None:
    with broker() as server, LiveReader(server.nameservers, timeout=1) as reader:
        fill(server, "T", 1)
        queue = queues(reader, "T")[0]
        with pytest.raises(litemq.UnknownTopic, match="no topic 'other'"):
            reader.pull(queue.broker, "other", 0, 0, 1)
        server.kill()
        with pytest.raises(litemq.Unavailable, match=r"does not answer|no name server"):
            reader.pull(queue.broker, "T", 0, 0, 1)
