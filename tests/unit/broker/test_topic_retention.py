"""Retention of topics by time, by size, until read; and purging, over a real socket and a real store."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.broker import Talk, running

from litemq.broker.broker import Broker
from litemq.broker.topic_attributes import KEEP_UNTIL_READ, RETENTION_BYTES, RETENTION_MS
from litemq.broker.topic_sizes import TopicSizes
from litemq.broker.topics import Topic
from litemq.clock import ManualClock
from litemq.config import StoreConfig
from litemq.format.queue_entry import LAYOUTS, QueueEntry, total_size
from litemq.store.fs import OsFileSystem
from litemq.store.message_store import MessageStore
from litemq.types import Message
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Response

FORMATS = pytest.mark.parametrize("store", [StoreConfig(format="litemq"), StoreConfig(format="rocketmq")])
HOUR = 3_600_000


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


def _topic(broker: Broker, **attributes: object) -> None:
    named = {"ms": RETENTION_MS, "bytes": RETENTION_BYTES, "until_read": KEEP_UNTIL_READ}
    found = {named[name]: str(value).lower() for name, value in attributes.items()}
    broker.topics.create(Topic("T", 2, 2, attributes=found))


def _firsts(broker: Broker) -> tuple[int, int]:
    return broker.offsets.least("T", 0), broker.offsets.least("T", 1)


async def _purge(talk: Talk, **ext: object) -> Response:
    return await talk.call(Ask.LITEMQ_PURGE_TOPIC, {name: str(value) for name, value in ext.items()})


@FORMATS
def test_old_messages_go(store: StoreConfig, tmp_path: Path) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with running(tmp_path, store=store, clock=clock) as (broker, talk):
            _topic(broker, ms=10_000)
            broker.topics.create(Topic("U", 1, 1))
            for number in range(6):
                await talk.send("T", b"%d" % number, queue=number % 2)
                await talk.send("U", b"stays")
                clock.advance(2_000)
            await broker.topic_retention.pass_()  # stored 12, 10, 8, 6, 4 and 2 seconds ago
            assert _firsts(broker) == (1, 0)
            assert broker.topic_retention.purged == 1
            clock.advance(60_000)
            await broker.topic_retention.pass_()
            assert _firsts(broker) == (3, 3)
            assert broker.offsets.least("U", 0) == 0
            await talk.send("T", b"new")
            await broker.topic_retention.pass_()
            assert (_firsts(broker), broker.offsets.greatest("T", 0)) == ((3, 3), 4)
        async with running(tmp_path, store=store, clock=clock) as (broker, talk):
            assert _firsts(broker) == (3, 3)

    _run(test())


@FORMATS
def test_the_oldest_go_while_there_is_too_much(store: StoreConfig, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, store=store) as (broker, talk):
            _topic(broker, bytes=20_000)
            for number in range(40):
                await talk.send("T", bytes(1000), queue=int(number >= 10))
            size = broker.store.reader.span("T", 0, 0, 10).bytes // 10
            room = 20_000 // size
            await broker.topic_retention.pass_()
            assert _firsts(broker) == (10, 30 - room)  # all of the older queue, whichever it is
            await broker.topic_retention.pass_()
            assert _firsts(broker) == (10, 30 - room)
            await talk.send("T", bytes(1000))
            await broker.topic_retention.pass_()
            assert _firsts(broker) == (10, 31 - room)
            _topic(broker, bytes=1_000_000)
            await broker.topic_retention.pass_()
            _topic(broker, bytes=1)
            await broker.topic_retention.pass_()
            assert _firsts(broker) == (11, 30)

    _run(test())


def test_nothing_that_a_group_has_yet_to_read_goes(tmp_path: Path) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with running(tmp_path, clock=clock) as (broker, talk):
            _topic(broker, ms=1_000, bytes=1, until_read=True)
            for number in range(10):
                await talk.send("T", b"%d" % number, queue=number % 2)
            for group, offset in (("fast", 5), ("slow", 2)):
                broker.store.progress.commit(group, "T", 0, offset)
            clock.advance(5_000)
            await broker.topic_retention.pass_()
            assert _firsts(broker) == (2, 5)  # nobody reads queue 1
            broker.store.progress.commit("slow", "T", 0, 4)
            await broker.topic_retention.pass_()
            assert _firsts(broker) == (4, 5)

    _run(test())


class _SmallDisk(OsFileSystem):
    free = 1 << 40

    def disk(self, path: Path) -> tuple[int, int]:
        return 100 << 30, self.free


def test_segments_wait_for_readers_until_the_disk_is_full(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        clock, fs = ManualClock(), _SmallDisk()
        store = StoreConfig(segment_bytes=4096, retention_hours=1, delete_hour=None)
        async with running(tmp_path, store=store, clock=clock, fs=fs) as (broker, talk):
            _topic(broker, until_read=True)
            broker.store.progress.commit("slow", "T", 0, 0)
            for number in range(40):
                await talk.send("T", bytes(500), queue=number % 2)
            await broker.topic_retention.pass_()
            clock.advance(2 * HOUR)
            await talk.send("T", b"new")
        # The hold has ended with the process: the next one takes it before anything can go.
        async with running(tmp_path, store=store, clock=clock, fs=fs) as (broker, talk):
            first = broker.store.records("T", 0, 0, max_count=1)[0].position
            assert (broker.store.retain().start or 0) <= first  # before it are only the broker's own records
            assert broker.offsets.least("T", 0) == 0
            broker.store.progress.commit("slow", "T", 0, 10)
            await broker.topic_retention.pass_()
            kept = broker.store.records("T", 0, 10, max_count=1)[0].position
            start = broker.store.retain().start
            assert start is not None
            assert kept - 4096 < start <= kept
            fs.free = 1 << 30
            with caplog.at_level(logging.WARNING):
                for _ in range(5):
                    broker.store.retain()
                    broker.store.checkpoint()
                    broker.store.tick()
            assert broker.store.start > kept
            assert "holds lose: names=keep-until-read T" in caplog.text
            broker.store.progress.commit("slow", "T", 0, 21)
            await broker.topic_retention.pass_()
            assert broker.store.counters()["holds"] == 0

    _run(test())


def test_a_hold_goes_with_its_attribute(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            _topic(broker, until_read=True)
            await talk.send("T", b"x")
            broker.store.progress.commit("slow", "T", 0, 0)
            await broker.topic_retention.pass_()
            assert broker.store.counters()["holds"] == 1
            _topic(broker)
            assert broker.store.counters()["holds"] == 0
            _topic(broker, until_read=True)
            await broker.topic_retention.pass_()
            broker.topics.delete("T")
            assert broker.store.counters()["holds"] == 0

    _run(test())


def test_a_purge_by_offset_and_by_time(tmp_path: Path) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with running(tmp_path, clock=clock, store=StoreConfig(flush="group")) as (broker, talk):
            _topic(broker)
            for number in range(10):
                await talk.send("T", b"%d" % number, queue=number % 2)
                clock.advance(1_000)
            answer = await _purge(talk, topic="T", queueId=0, beforeOffset=2)
            assert (answer.code, json.loads(answer.body)) == (Code.SUCCESS, {"minOffsets": {"0": 2}})
            answer = await _purge(talk, topic="T", beforeTime=clock.now_ms() - 3_500)
            assert json.loads(answer.body) == {"minOffsets": {"0": 4, "1": 3}}
            answer = await _purge(talk, topic="T", queueId=0, beforeOffset=1)
            assert json.loads(answer.body) == {"minOffsets": {"0": 4}}
            answer = await _purge(talk, topic="T", queueId=1, beforeOffset=99)
            assert json.loads(answer.body) == {"minOffsets": {"1": 5}}
            assert _firsts(broker) == (4, 5)

    _run(test())


@pytest.mark.parametrize(
    ("ext", "code", "words"),
    [
        ({"topic": "nothing", "beforeTime": 1}, Code.TOPIC_NOT_EXIST, "no topic 'nothing'"),
        ({"topic": "SCHEDULE_TOPIC_XXXX", "beforeTime": 1}, Code.NO_PERMISSION, "the broker's own"),
        ({"topic": "T"}, Code.INVALID_PARAMETER, "either beforeOffset or beforeTime"),
        ({"topic": "T", "queueId": 0, "beforeTime": 1, "beforeOffset": 1}, Code.INVALID_PARAMETER, "either"),
        ({"topic": "T", "beforeOffset": 1}, Code.INVALID_PARAMETER, "needs the queueId"),
        ({"topic": "T", "queueId": 7, "beforeOffset": 1}, Code.INVALID_PARAMETER, "queue 7 of topic 'T'"),
        ({"topic": "T", "queueId": 0, "beforeOffset": "x"}, Code.INVALID_PARAMETER, "beforeOffset"),
        ({"beforeTime": 1}, Code.INVALID_PARAMETER, "topic"),
    ],
)
def test_a_wrong_purge_is_refused(ext: dict[str, object], code: Code, words: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            _topic(broker)
            answer = await _purge(talk, **ext)
            assert answer.code == code
            assert words in (answer.remark or "")

    _run(test())


# -- sizes ----------------------------------------------------------------------------------------------------------


@given(
    st.sampled_from(["rocketmq", "litemq"]),
    st.lists(st.one_of(st.integers(1, 5 << 20), st.just(0x7FFFFFFF)), max_size=50),
)
def test_sizes_are_those_of_the_records(name: str, sizes: list[int]) -> None:
    layout = LAYOUTS[name]
    entries = b"".join(layout.encode(QueueEntry(7, size, -1, 5)) for size in sizes)
    assert total_size(entries, layout.size) == sum(size for size in sizes if size != 0x7FFFFFFF)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3_000)), min_size=1, max_size=60),
    st.integers(1, 60_000),
    st.integers(0, 60),
)
def test_what_is_left_fits_and_is_the_newest(
    tmp_path_factory: pytest.TempPathFactory, sent: list[tuple[int, int]], limit: int, looked_at: int
) -> None:
    with MessageStore.open(tmp_path_factory.mktemp("s"), StoreConfig(segment_bytes=1 << 20), background=False) as store:
        found = TopicSizes("T", limit)
        positions: dict[tuple[int, int], tuple[int, int]] = {}
        for number, (queue_id, size) in enumerate(sent):
            appended = store.append(Message("T", bytes(size), queue_id=queue_id))
            positions[queue_id, appended.queue_offset] = (appended.position, appended.end - appended.position)
            if number == looked_at:
                for _ in found.look(store.reader):
                    pass
        for _ in found.look(store.reader):
            pass
        assert found.total == sum(size for _, size in positions.values())
        taken = found.take_excess({})
        left = {place: at for place, at in positions.items() if place[1] >= taken.get(place[0], 0)}
        gone = positions.keys() - left.keys()
        assert found.total == sum(size for _, size in left.values()) <= limit
        if gone:
            newest_gone = max(positions[place] for place in gone)
            assert sum(size for _, size in left.values()) + newest_gone[1] > limit - limit // 256 - 3_500
            assert found.take_excess({}) == {}


def test_a_long_queue_takes_few_blocks(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, StoreConfig(segment_bytes=1 << 24), background=False) as store:
        for _ in range(60):
            store.append_many([Message("T", bytes(100), queue_id=0) for _ in range(100)])
        size = store.reader.span("T", 0, 0, 1).bytes
        found = TopicSizes("T", 256 * size)  # a block for each message
        for _ in found.look(store.reader):
            pass
        assert found.total == 6_000 * size
        assert found.block_count <= 1_024
        assert found.take_excess({}) == {0: 6_000 - 256}
        assert found.total == 256 * size
