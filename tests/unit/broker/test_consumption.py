"""Requests that ask or set how far groups have read, over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Talk, records, running, until

from litemq.clock import ManualClock
from litemq.config import StoreConfig
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Response

FORMATS = pytest.mark.parametrize("store", [StoreConfig(format="litemq"), StoreConfig(format="rocketmq")], ids=str)


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


async def _commit(talk: Talk, group: str, topic: str, queue: int, offset: int) -> None:
    ext = {"consumerGroup": group, "topic": topic, "queueId": str(queue), "commitOffset": str(offset)}
    assert (await talk.call(Ask.UPDATE_CONSUMER_OFFSET, ext)).code == Code.SUCCESS


async def _reset(talk: Talk, timestamp: int, **others: str) -> Response:
    ext = {"topic": "T", "group": "cg", "timestamp": str(timestamp), "isForce": "true", **others}
    return await talk.call(Ask.INVOKE_BROKER_TO_RESET_OFFSET, ext)


async def _make_topic(talk: Talk, topic: str, queues: int) -> None:
    ext = {"topic": topic, "readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6"}
    assert (await talk.call(Ask.UPDATE_AND_CREATE_TOPIC, ext)).code == Code.SUCCESS


async def _make_group(talk: Talk, group: str) -> None:
    body = json.dumps({"groupName": group}).encode()
    assert (await talk.call(Ask.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)).code == Code.SUCCESS


def _offset_table(answer: Response) -> dict[int, int]:
    """Return the offsets of a map from queues, of which only the ids are looked at."""
    assert answer.code == Code.SUCCESS, answer
    text = answer.body.decode()
    found = {}
    for part in text.removeprefix('{"offsetTable":{').removesuffix("}}").split(',{"brokerName"'):
        queue, _, offset = part.rpartition(":")
        found[int(queue.split('"queueId":')[1].split(",")[0])] = int(offset)
    return found


@FORMATS
def test_the_lag_of_a_group(store: StoreConfig, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, store=store) as (_, talk):
            await _make_topic(talk, "T", 2)
            for number in range(3):
                await talk.send("T", b"%d" % number)
            await _make_group(talk, "cg")
            await _commit(talk, "cg", "T", 0, 2)
            pulled = records((await talk.pull("T", 0)).body)
            answer = await talk.call(Ask.GET_CONSUME_STATS, {"consumerGroup": "cg", "topic": ""})
            head, _, rest = answer.body.partition(b',"offsetTable":')
            assert json.loads(head + b"}")["consumeTps"] == pytest.approx(3, abs=3)
            assert rest == (
                b'{{"brokerName":"broker-a","queueId":0,"topic":"T"}:'
                b'{"brokerOffset":3,"consumerOffset":2,"lastTimestamp":%d,"pullOffset":2},'
                b'{"brokerName":"broker-a","queueId":1,"topic":"T"}:'
                b'{"brokerOffset":0,"consumerOffset":0,"lastTimestamp":0,"pullOffset":0}}}'
                % (pulled[1].store_time or 0)
            )
            none = await talk.call(Ask.GET_CONSUME_STATS, {"consumerGroup": "cg", "topicList": "S;U"})
            assert none.body == b'{"consumeTps":0.0,"offsetTable":{}}'
            unknown = await talk.call(Ask.GET_CONSUME_STATS, {"consumerGroup": "nobody"})
            assert unknown.body == b'{"consumeTps":0.0,"offsetTable":{}}'

    _run(test())


def test_a_group_with_members_shows_what_they_subscribe_to(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            for topic in ("S", "T"):
                await _make_topic(talk, topic, 1)
            await talk.heartbeat("c1", consumes={"cg": {"T": "*"}})
            for topic in ("S", "T"):
                await _commit(talk, "cg", topic, 0, 0)
            answer = await talk.call(Ask.GET_CONSUME_STATS, {"consumerGroup": "cg"})
            assert answer.body.count(b'"topic":"T"') == 1
            assert b'"topic":"S"' not in answer.body
            told = json.loads((await talk.call(Ask.QUERY_TOPICS_BY_CONSUMER, {"group": "cg"})).body)
            assert told == {"topicList": ["S", "T"]}
            broker.store.progress.commit("@own", "T", 0, 1)  # what the broker keeps for itself is no group
            for topic in ("S", "T"):
                told = json.loads((await talk.call(Ask.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic})).body)
                assert told == {"groupList": ["cg"]}

    _run(test())


def test_the_lag_of_all_groups(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await _make_topic(talk, "T", 1)
            await _make_topic(talk, "S", 1)
            for number in range(4):
                await talk.send("T", b"%d" % number)
            await _make_group(talk, "g1")
            await _make_group(talk, "g2")
            await _commit(talk, "g1", "T", 0, 1)
            await _commit(talk, "g1", "S", 0, 0)
            await _commit(talk, "g2", "T", 0, 4)
            answer = await talk.call(Ask.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
            body = answer.body.decode()
            assert body.startswith(f'{{"brokerAddr":"{broker.address}","consumeStatsList":[{{"g1":[{{"consumeTps":0.0,')
            assert body.endswith('],"totalDiff":3,"totalInflightDiff":0}')
            assert body.count('"offsetTable":') == 3
            ordered = await talk.call(Ask.GET_BROKER_CONSUME_STATS, {"isOrder": "true"})
            assert json.loads(ordered.body)["consumeStatsList"] == []

    _run(test())


def test_the_ages_of_what_a_group_has_read(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_000)

    async def test() -> None:
        async with running(tmp_path, clock=clock) as (_, talk):
            await _make_topic(talk, "T", 1)
            await _make_group(talk, "cg")
            times = []
            for number in range(3):
                times.append(clock.now_ms())
                await talk.send("T", b"%d" % number)
                clock.advance(1_000)
            await _commit(talk, "cg", "T", 0, 2)
            answer = await talk.call(Ask.QUERY_CONSUME_TIME_SPAN, {"topic": "T", "group": "cg"})
            (span,) = json.loads(answer.body)["consumeTimeSpanSet"]
            assert span == {
                "consumeTimeStamp": times[1],
                "delayTime": 1_000,
                "maxTimeStamp": times[2],
                "messageQueue": {"brokerName": "broker-a", "queueId": 0, "topic": "T"},
                "minTimeStamp": times[0],
            }

    _run(test())


@FORMATS
def test_offsets_are_set_by_time(store: StoreConfig, tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_000)

    async def test() -> None:
        async with running(tmp_path, store=store, clock=clock) as (broker, talk):
            await _make_topic(talk, "T", 2)
            await _make_group(talk, "cg")
            for number in range(4):
                clock.advance(1_000)
                await talk.send("T", b"%d" % number, queue=number % 2)
            start = 1_700_000_000_000
            assert _offset_table(await _reset(talk, start + 2_500)) == {0: 1, 1: 1}
            assert _offset_table(await _reset(talk, start)) == {0: 0, 1: 0}
            assert _offset_table(await _reset(talk, -1)) == {0: 2, 1: 2}
            assert _offset_table(await _reset(talk, start, queueId="1")) == {1: 0}
            assert _offset_table(await _reset(talk, -1, queueId="0", offset="1")) == {0: 1}
            assert broker.store.progress.of_group("cg") == {("T", 0): 1, ("T", 1): 0}
            body = (await _reset(talk, -1, queueId="0", offset="1")).body
            assert body == b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:1}}'

    _run(test())


def test_what_cannot_be_reset_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            assert (await _reset(talk, -1)).code == Code.TOPIC_NOT_EXIST
            await _make_topic(talk, "T", 1)
            assert (await _reset(talk, -1)).code == Code.SUBSCRIPTION_GROUP_NOT_EXIST
            await _make_group(talk, "cg")
            assert (await _reset(talk, -1, queueId="1")).code == Code.INVALID_PARAMETER
            assert (await _reset(talk, -1, queueId="0", offset="1")).code == Code.INVALID_PARAMETER
            assert broker.offsets.resets == {}

    _run(test())


def test_a_consumer_goes_where_it_was_sent_and_its_old_commits_are_ignored(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await _make_topic(talk, "T", 1)
            for number in range(3):
                await talk.send("T", b"%d" % number)
            waiting = asyncio.create_task(talk.pull("T", 3, park_ms=20_000))
            other = asyncio.create_task(talk.pull("T", 3, park_ms=20_000, group="other"))
            await until(lambda: len(broker.puller.polls) == 2)
            await _reset(talk, 0)
            moved = await waiting
            assert moved.code == Code.PULL_OFFSET_MOVED
            assert moved.ext["nextBeginOffset"] == "0"
            assert not other.done()

            await _reset(talk, 0)
            await _commit(talk, "cg", "T", 0, 3)
            assert broker.store.progress.offset("cg", "T", 0) == 0
            assert (await talk.pull("T", 3)).code == Code.PULL_OFFSET_MOVED
            assert len(records((await talk.pull("T", 0)).body)) == 3
            await _commit(talk, "cg", "T", 0, 3)
            assert broker.store.progress.offset("cg", "T", 0) == 3

            await talk.send("T", b"more")
            assert [record.body for record in records((await other).body)] == [b"more"]

    _run(test())


def test_offsets_are_cloned(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            for topic in ("S", "T", "%RETRY%from"):
                await _make_topic(talk, topic, 2)
            for group in ("from", "to", "part"):
                await _make_group(talk, group)
            for topic in ("S", "T", "%RETRY%from"):
                await _commit(talk, "from", topic, 1, 7)

            async def clone(**ext: str) -> Response:
                return await talk.call(Ask.CLONE_GROUP_OFFSET, {"srcGroup": "from", "offline": "false", **ext})

            assert (await clone(destGroup="to")).code == Code.SUCCESS
            assert broker.store.progress.of_group("to") == {("S", 1): 7, ("T", 1): 7}
            assert (await clone(destGroup="part", topic="S")).code == Code.SUCCESS
            assert broker.store.progress.of_group("part") == {("S", 1): 7}
            assert (await clone(destGroup="none")).code == Code.SUBSCRIPTION_GROUP_NOT_EXIST
            assert (await clone(destGroup="to", topic="U")).code == Code.TOPIC_NOT_EXIST

    _run(test())
