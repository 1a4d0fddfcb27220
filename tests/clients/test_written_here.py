"""Stores written by LiteMQ open in a real RocketMQ broker, go on there, and come back."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.clients import written
from tests.clients.conftest import StartBroker
from tests.clients.picture import Picture, check_broker, check_keys, verify
from tests.clients.rocketmq import CLUSTER, RealBroker, Sizes, until
from tests.clients.written import AGAIN, GROUP, LATER, ORDERS

from litemq.store.message_store import MessageStore
from litemq.types import Message

pytestmark = pytest.mark.clients

SIZES = Sizes()
REBORN = frozenset({(AGAIN, 0)})
MADE_THERE = "Made_there"


def test_a_clean_store_goes_there_and_back_twice(tmp_path: Path, real_broker: StartBroker) -> None:
    path = tmp_path / "store"
    written.write(path, SIZES)
    first = Picture.of_path(path)
    assert len(list((path / "commitlog").iterdir())) >= 4
    assert len(list((path / "index").iterdir())) >= 2
    assert first.offsets[AGAIN, 0] == (70, 75)

    with real_broker(path, SIZES) as broker:
        assert broker.started_after() == "normally"
        check_broker(broker, first, reborn=REBORN, growing=frozenset({LATER}))
        until(lambda: broker.offsets(LATER)[0] == (0, 1), "the delayed message was not handed out")
        _check_tools(broker, first)
        _check_progress(broker, first)
        _go_on_there(broker)
        assert broker.complaints() == []

    with MessageStore.open(path) as store:
        assert store.was_clean
        assert (store.recovered.cut, store.recovered.damaged) == ([], [])
        second = Picture.of(store)
        second.includes(first)
        check_keys(store, second)
        _check_what_came_back(store, first, second)
        third = _go_on_here(store, second)
    verify(path)

    with real_broker(path, SIZES) as broker:
        assert broker.started_after() == "normally"
        check_broker(broker, third, reborn=REBORN)
        assert broker.complaints() == []
        (sent,) = broker.send(MADE_THERE, [{"body": b"theirs", "queue": 1}])
        assert sent["offset"] == third.offsets[MADE_THERE, 1][1]


def _check_tools(broker: RealBroker, picture: Picture) -> None:
    """mqadmin shows the same."""
    status = broker.mqadmin("topicStatus", "-t", ORDERS)
    rows = [line.split() for line in status.splitlines() if line.startswith("broker-a")]
    assert {int(row[1]): (int(row[2]), int(row[3])) for row in rows} == {
        queue: offsets for (topic, queue), offsets in picture.offsets.items() if topic == ORDERS
    }
    record = picture.records[ORDERS, 2][5]
    assert record.message_id is not None
    assert record.message_id in broker.mqadmin("queryMsgByKey", "-t", ORDERS, "-k", record.keys[0])
    shown = broker.mqadmin("queryMsgByUniqueKey", "-t", ORDERS, "-i", record.message_id)
    assert record.keys[0] in shown
    assert record.tags[0] in shown
    (found,) = broker.by_unique_key(ORDERS, record.message_id)
    assert found["position"] == record.position


def _check_progress(broker: RealBroker, picture: Picture) -> None:
    """The group goes on where LiteMQ's ``consumerOffset.json`` says."""
    assert broker.committed(GROUP, ORDERS, 4) == picture.progress[GROUP, ORDERS]
    left = {
        (queue, record.queue_offset)
        for (topic, queue), records in picture.records.items()
        if topic == ORDERS
        for record in records
        if record.queue_offset >= picture.progress[GROUP, ORDERS][queue]
    }
    got = broker.consume(GROUP, ORDERS, len(left))
    assert {(message["queue"], message["offset"]) for message in got} == left
    assert len(got) == len(left)


def _go_on_there(broker: RealBroker) -> None:
    """Several segments and index files more, a topic, a delayed message."""
    sent: list[dict[str, object]] = [
        {"body": b"from there %d" % i, "keys": f"there-{i}", "tags": "There"} for i in range(150)
    ]
    sent.append({"body": b"much " * 4000, "keys": "there-compressed"})
    broker.send(ORDERS, sent)
    broker.create_topic(MADE_THERE, 2)
    noise = written.noise(60_000)
    broker.send(MADE_THERE, [{"body": noise, "queue": 1, "properties": {"a": "ü"}}] * 6)
    broker.send(LATER, [{"body": b"later", "level": written.LATE_LEVEL}])


def _check_what_came_back(store: MessageStore, first: Picture, second: Picture) -> None:
    assert [record.body for record in second.records[LATER, 0]] == [b"soon"]
    assert second.offsets[MADE_THERE, 1] == (0, 6)
    assert MADE_THERE in store.tables.topics
    assert sum(high for (topic, _), (_, high) in second.offsets.items() if topic == ORDERS) == 500 + 151
    assert len(store.reader.by_key(ORDERS, "there-149")) == 1
    assert store.reader.by_key(ORDERS, "there-compressed")[0].body == b"much " * 4000
    late = second.records[written.SCHEDULE, written.LATE_LEVEL - 1]
    assert [record.body for record in late] == [b"late", b"later"]
    assert second.progress[GROUP, ORDERS] == {
        queue: high for (topic, queue), (_, high) in first.offsets.items() if topic == ORDERS
    }


def _go_on_here(store: MessageStore, picture: Picture) -> Picture:
    ends = {queue: high for queue, (_, high) in picture.offsets.items()}
    for message in (*written.orders(5000, 200), Message(MADE_THERE, b"mine", queue_id=1)):
        appended = store.append(message)
        assert appended.queue_offset == ends[message.topic, message.queue_id]
        ends[message.topic, message.queue_id] += 1
    made = Picture.of(store)
    check_keys(store, made)
    return made


def test_a_store_whose_writer_was_killed_opens_there_and_comes_back_after_a_kill_there(
    tmp_path: Path, real_broker: StartBroker
) -> None:
    path = tmp_path / "store"
    stored = _write_and_kill(path)
    assert (path / "abort").exists()
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    first = Picture.of_path(copy)
    shutil.rmtree(copy)
    seen = {record.position for records in first.records.values() for record in records}
    assert stored <= seen

    broker = real_broker(path, written.KILLED_SIZES)
    broker.start()
    assert broker.started_after() == "abnormally"
    check_broker(broker, first)
    assert broker.complaints() == []
    sent = broker.send(ORDERS, [{"body": b"there %d" % i, "keys": f"there-{i}"} for i in range(300)])
    for life, count in ((b"first", 10), (b"second", 3)):  # unlike LiteMQ, a broker starts a deleted topic at 0 again
        broker.create_topic("Anew", 1)
        broker.send("Anew", [{"body": life, "queue": 0}] * count)
        if life == b"first":
            assert "success" in broker.mqadmin("deleteTopic", "-c", CLUSTER, "-t", "Anew")
    broker.kill()
    assert (path / "abort").exists()

    with MessageStore.open(path) as store:
        assert not store.was_clean
        second = Picture.of(store)
        second.includes(first)
        check_keys(store, second)
        for one, number in zip(sent, range(300), strict=True):
            record = store.reader.message_at(ORDERS, one["queue"], one["offset"])
            assert record is not None
            assert (record.body, record.offset_id) == (b"there %d" % number, one["offsetId"])
        assert [record.body for record in second.records["Anew", 0]] == [b"second"] * 3
        ends = {queue: high for queue, (_, high) in second.offsets.items()}
        for message in written.orders(9000, 50):
            assert store.append(message).queue_offset == ends[ORDERS, message.queue_id]
            ends[ORDERS, message.queue_id] += 1
        third = Picture.of(store)
    verify(path, missing=10)  # the first life of Anew: that a broker deleted it is not in the log

    with real_broker(path, written.KILLED_SIZES) as broker:
        assert broker.started_after() == "normally"
        check_broker(broker, third)
        assert broker.complaints() == []


def _write_and_kill(path: Path) -> set[int]:
    """Have a process write, kill it in the middle, return the positions it was told."""
    command = [sys.executable, "-m", "tests.clients.written", str(path)]
    root = Path(__file__).parents[2]
    stored: set[int] = set()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        for line in process.stdout:
            stored |= set(json.loads(line))
            if len(stored) > 1200:
                break
        process.send_signal(signal.SIGKILL)
        for line in process.stdout:
            if line.endswith("\n"):
                stored |= set(json.loads(line))
    return stored
