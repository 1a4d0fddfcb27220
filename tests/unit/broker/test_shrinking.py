"""Fewer queues, without losing what groups have yet to read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from tests.support.broker import Talk, records, running, until

from litemq.wire.remoting.codes import Ask, Code


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


async def _put(talk: Talk, queues: int, **others: str) -> None:
    ext = {"topic": "T", "readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6", **others}
    answer = await talk.call(Ask.UPDATE_AND_CREATE_TOPIC, ext)
    assert answer.code == Code.SUCCESS, answer


async def _commit(talk: Talk, queue: int, offset: int) -> None:
    ext = {"consumerGroup": "cg", "topic": "T", "queueId": str(queue), "commitOffset": str(offset)}
    assert (await talk.call(Ask.UPDATE_CONSUMER_OFFSET, ext)).code == Code.SUCCESS


async def _fill(talk: Talk) -> None:
    """Make a topic of four queues with a message each, of which a group has read the last two."""
    await _put(talk, 4)
    body = json.dumps({"groupName": "cg"}).encode()
    await talk.call(Ask.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)
    for queue in range(4):
        await talk.send("T", b"%d" % queue, queue=queue)
        await _commit(talk, queue, 1 if queue > 1 else 0)


def test_queues_stay_readable_until_they_have_been_read(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await _fill(talk)
            await _put(talk, 1, attributes="+colour=red")
            topic = broker.topics.known("T")
            assert (topic.write_queues, topic.read_queues) == (1, 2)
            assert topic.attributes == {"colour": "red", "read.queues.wanted": "1"}
            assert (await talk.pull("T", 0, queue=2)).code == Code.INVALID_PARAMETER
            assert [record.body for record in records((await talk.pull("T", 0, queue=1)).body)] == [b"1"]
            await _commit(talk, 1, 1)
            await until(lambda: broker.topics.known("T").read_queues == 1)
            assert broker.topics.known("T").attributes == {"colour": "red"}

    _run(test())


def test_a_restart_goes_on_with_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await _fill(talk)
            await _put(talk, 1)
        async with running(tmp_path) as (broker, talk):
            assert broker.topics.known("T").read_queues == 2
            await _commit(talk, 1, 1)
            await until(lambda: broker.topics.known("T").read_queues == 1)

    _run(test())


def test_growing_again_ends_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await _fill(talk)
            await _put(talk, 1)
            await _put(talk, 3)
            topic = broker.topics.known("T")
            assert (topic.write_queues, topic.read_queues, topic.attributes) == (3, 3, {})

    _run(test())


def test_force_does_not_wait(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await _fill(talk)
            await _put(talk, 1, force="true")
            topic = broker.topics.known("T")
            assert (topic.write_queues, topic.read_queues, topic.attributes) == (1, 1, {})
            await _put(talk, 4)
            assert [record.body for record in records((await talk.pull("T", 0, queue=1)).body)] == [b"1"]

    _run(test())


def test_nonsense_in_the_attribute_is_left_alone(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await _fill(talk)
            broker.topics.set_attributes("T", {"read.queues.wanted": "few"})
            await asyncio.sleep(0.3)
            topic = broker.topics.known("T")
            assert (topic.read_queues, topic.attributes) == (4, {"read.queues.wanted": "few"})
            await talk.call(Ask.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
            await asyncio.sleep(0.3)
            assert (await talk.call(Ask.GET_BROKER_RUNTIME_INFO, {})).code == Code.SUCCESS

    _run(test())
