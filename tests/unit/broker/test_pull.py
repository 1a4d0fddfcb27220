"""Pulling over a real socket: what is there, what comes, what is filtered, what is out of range."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Talk, records, running, until

from litemq.config import LimitsConfig, StoreConfig
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Response

STORES = pytest.mark.parametrize(
    "store",
    [StoreConfig(format="litemq"), StoreConfig(format="rocketmq"), StoreConfig(format="litemq", flush="group")],
    ids=["litemq", "rocketmq", "group"],
)


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


def _offsets(answer: Response) -> tuple[int, int, int]:
    ext = answer.ext
    assert ext["suggestWhichBrokerId"] == "0"
    return int(ext["nextBeginOffset"]), int(ext["minOffset"]), int(ext["maxOffset"])


@STORES
def test_messages_come_in_order_with_all_offsets(store: StoreConfig, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, store=store) as (_, talk):
            for number in range(5):
                await talk.send("T", b"m%d" % number, queue=1)
            answer = await talk.pull("T", 1, queue=1, count=3)
            assert answer.code == Code.SUCCESS
            assert [record.body for record in records(answer.body)] == [b"m1", b"m2", b"m3"]
            assert [record.queue_offset for record in records(answer.body)] == [1, 2, 3]
            assert _offsets(answer) == (4, 0, 5)

    _run(test())


@STORES
def test_a_parked_pull_gets_the_next_message(store: StoreConfig, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, store=store) as (broker, talk):
            await talk.send("T", b"first")
            waiting = asyncio.create_task(talk.pull("T", 1, park_ms=20_000))
            await until(lambda: len(broker.puller.polls) == 1)
            await talk.send("T", b"other queue", queue=1)
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await talk.send("T", b"second")
            answer = await waiting
            assert [record.body for record in records(answer.body)] == [b"second"]
            assert len(broker.puller.polls) == 0

    _run(test())


@STORES
def test_a_parked_pull_sleeps_through_messages_that_its_filter_drops(store: StoreConfig, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, store=store) as (broker, talk):
            await talk.send("T", b"zero", TAGS="B")
            waiting = asyncio.create_task(talk.pull("T", 1, wanted="A", park_ms=20_000))
            sql = asyncio.create_task(talk.pull("T", 1, wanted="colour = 'red'", kind="SQL92", park_ms=20_000))
            await until(lambda: len(broker.puller.polls) == 2)
            for number in range(10):
                await talk.send("T", b"no%d" % number, TAGS="B")
            await asyncio.sleep(0.05)
            assert not waiting.done()
            assert not sql.done()
            await talk.send("T", b"yes", TAGS="A", colour="red")
            for answer in (await waiting, await sql):
                assert [record.body for record in records(answer.body)] == [b"yes"]
                assert _offsets(answer)[0] == 12

    _run(test())


def test_a_filter_that_lets_nothing_pass_moves_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (_, talk):
            for number in range(3):
                await talk.send("T", b"m%d" % number, TAGS="B")
            answer = await talk.pull("T", 0, wanted="A || C")
            assert answer.code == Code.PULL_RETRY_IMMEDIATELY
            assert _offsets(answer) == (3, 0, 3)

    _run(test())


def test_tags_with_one_hash_are_told_apart(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (_, talk):
            await talk.send("T", b"no", TAGS="BB")  # Java's hash of "Aa" is that of "BB"
            await talk.send("T", b"yes", TAGS="Aa")
            answer = await talk.pull("T", 0, wanted="Aa")
            assert [record.body for record in records(answer.body)] == [b"yes"]

    _run(test())


def test_offsets_out_of_range_are_moved(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await talk.send("T", b"one")
            await talk.send("T", b"two")
            answer = await talk.pull("T", 7)
            assert (answer.code, _offsets(answer)) == (Code.PULL_OFFSET_MOVED, (2, 0, 2))
            broker.store.purge("T", {0: 1})
            answer = await talk.pull("T", 0)
            assert (answer.code, _offsets(answer)) == (Code.PULL_OFFSET_MOVED, (1, 1, 2))
            answer = await talk.pull("T", 0, queue=3)
            assert (answer.code, _offsets(answer)) == (Code.PULL_NOT_FOUND, (0, 0, 0))
            answer = await talk.pull("T", 5, queue=3)
            assert (answer.code, _offsets(answer)) == (Code.PULL_OFFSET_MOVED, (0, 0, 0))

    _run(test())


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "Nowhere"}, Code.TOPIC_NOT_EXIST),
        ({"queueId": "99"}, Code.INVALID_PARAMETER),
        ({"queueId": "-1"}, Code.INVALID_PARAMETER),
        ({"queueOffset": "x"}, Code.INVALID_PARAMETER),
        ({"subscription": "a = ", "expressionType": "SQL92"}, Code.SUBSCRIPTION_PARSE_FAILED),
        ({"sysFlag": "0"}, Code.SUBSCRIPTION_NOT_EXIST),
        ({"consumerGroup": "not allowed!"}, Code.INVALID_PARAMETER),
    ],
)
def test_what_cannot_be_pulled_is_named(change: dict[str, str], code: Code, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (_, talk):
            await talk.send("T", b"one")
            ext = {
                "consumerGroup": "cg",
                "topic": "T",
                "queueId": "0",
                "queueOffset": "0",
                "maxMsgNums": "32",
                "sysFlag": "4",
                "commitOffset": "0",
                "suspendTimeoutMillis": "0",
                "subscription": "*",
                "subVersion": "0",
            }
            answer = await talk.call(Ask.PULL_MESSAGE, ext | change)
            assert answer.code == code
            assert answer.remark

    _run(test())


def test_a_pull_may_commit(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await talk.send("T", b"one")
            ext = {
                "consumerGroup": "cg",
                "topic": "T",
                "queueId": "0",
                "queueOffset": "1",
                "maxMsgNums": "32",
                "sysFlag": "5",
                "commitOffset": "1",
                "suspendTimeoutMillis": "0",
                "subscription": "*",
                "subVersion": "0",
            }
            await talk.call(Ask.PULL_MESSAGE, ext)
            assert broker.store.progress.offset("cg", "T", 0) == 1

    _run(test())


def test_no_more_pulls_wait_than_may(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, limits=LimitsConfig(parked_pulls=1)) as (broker, talk):
            await talk.send("T", b"one")
            first = asyncio.create_task(talk.pull("T", 1, park_ms=20_000))
            await until(lambda: len(broker.puller.polls) == 1)
            second = await talk.pull("T", 1, park_ms=20_000)
            assert second.code == Code.SYSTEM_BUSY  # "not found" would have it ask again at once
            await talk.send("T", b"two")
            assert (await first).code == Code.SUCCESS

    _run(test())


def test_a_lost_connection_takes_its_pulls_along(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await talk.send("T", b"one")
            other = Talk(broker.address)
            waiting = asyncio.create_task(other.pull("T", 1, park_ms=20_000))
            await until(lambda: len(broker.puller.polls) == 1)
            other.close()
            with pytest.raises(Exception, match="lost"):
                await waiting
            await until(lambda: not len(broker.puller.polls))

    _run(test())
