"""The same pull asked again: checked once, and again as soon as something changed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.support.broker import Talk, records, running, until

from litemq.broker.broker import Broker
from litemq.config import LimitsConfig, StoreConfig
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Response


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


def bodies(answer: Response) -> list[bytes]:
    return [record.body for record in records(answer.body)]


async def pull_as_member(talk: Talk, topic: str, offset: int, *, park_ms: int = 0) -> Response:
    """Pull without a subscription: that of the heartbeat counts."""
    ext = {
        "consumerGroup": "cg",
        "topic": topic,
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": "2" if park_ms else "0",
        "commitOffset": "0",
        "suspendTimeoutMillis": str(park_ms),
        "subVersion": "0",
    }
    return await talk.call(Ask.PULL_MESSAGE, ext, timeout_s=20)


def checks_of(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the topics of the pulls that are looked at closely from now on."""
    seen: list[str] = []
    before = broker.puller.check

    def check(group: str, topic: str, queue_id: int) -> None:
        seen.append(topic)
        before(group, topic, queue_id)

    monkeypatch.setattr(broker.puller, "check", check)
    return seen


def test_the_same_pull_is_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            for number in range(5):
                await talk.send("T", b"m%d" % number)
            seen = checks_of(broker, monkeypatch)
            for number in range(5):
                assert bodies(await talk.pull("T", number, count=1)) == [b"m%d" % number]
            assert seen == ["T"]
            assert bodies(await talk.pull("T", 0, count=2)) == [b"m0", b"m1"]  # another pull
            assert bodies(await talk.pull("T", 0, count=1, group="other")) == [b"m0"]
            assert len(seen) == 3
            assert broker.puller.kept == 3

    _run(test())


def test_a_topic_that_may_not_be_read_any_more_is_not(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await talk.send("T", b"one")
            assert bodies(await talk.pull("T", 0)) == [b"one"]
            topic = broker.topics.known("T")
            broker.topics.create(replace(topic, perm=2))
            assert (await talk.pull("T", 0)).code == Code.NO_PERMISSION
            broker.topics.create(topic)
            assert bodies(await talk.pull("T", 0)) == [b"one"]

    _run(test())


def test_a_group_that_may_not_consume_any_more_does_not(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await talk.send("T", b"one")
            assert bodies(await talk.pull("T", 0)) == [b"one"]
            broker.groups.put("cg", {"consumeEnable": False})
            assert (await talk.pull("T", 0)).code == Code.NO_PERMISSION

    _run(test())


def test_another_limit_counts_for_pulls_that_are_known(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            for number in range(5):
                await talk.send("T", b"m%d" % number)
            assert len(bodies(await talk.pull("T", 0))) == 5
            broker.apply_limits(LimitsConfig(max_pull_count=2, pull_count=2))
            assert len(bodies(await talk.pull("T", 0))) == 2

    _run(test())


def test_another_subscription_of_the_group_counts_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await talk.send("T", b"a", TAGS="A")
            await talk.send("T", b"b", TAGS="B")
            await talk.heartbeat("c1", consumes={"cg": {"T": "A"}})
            assert bodies(await pull_as_member(talk, "T", 0)) == [b"a"]
            await talk.heartbeat("c1", consumes={"cg": {"T": "A"}})
            generation = broker.puller.generation
            assert bodies(await pull_as_member(talk, "T", 0)) == [b"a"]
            await talk.heartbeat("c1", consumes={"cg": {"T": "A"}})
            assert broker.puller.generation == generation  # the same again changes nothing
            await talk.heartbeat("c1", consumes={"cg": {"Other": "*"}})
            assert (await pull_as_member(talk, "T", 0)).code == Code.SUBSCRIPTION_NOT_EXIST
            await talk.heartbeat("c1", consumes={"cg": {"T": "B"}})
            assert bodies(await pull_as_member(talk, "T", 0)) == [b"b"]

    _run(test())


@pytest.mark.parametrize("flush", ["async", "group"])
def test_a_topic_that_was_made_again_is_another_one(tmp_path: Path, flush: Literal["async", "group"]) -> None:
    async def test() -> None:
        async with running(tmp_path, store=StoreConfig(flush=flush)) as (broker, talk):
            await talk.send("T", b"old")
            assert bodies(await talk.pull("T", 0, park_ms=10_000)) == [b"old"]
            broker.topics.delete("T")
            assert (await talk.pull("T", 0, park_ms=10_000)).code == Code.TOPIC_NOT_EXIST
            sent = await talk.send("T", b"new")
            offset = int(sent.ext["queueOffset"])
            assert bodies(await talk.pull("T", offset, park_ms=10_000)) == [b"new"]
            waiting = asyncio.create_task(talk.pull("T", offset + 1, park_ms=10_000))
            await until(lambda: len(broker.puller.polls) == 1)
            await talk.send("T", b"newer")
            assert bodies(await waiting) == [b"newer"]

    _run(test())


def test_who_waits_for_a_topic_that_is_deleted_is_told(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await talk.send("T", b"old")
            waiting = asyncio.create_task(talk.pull("T", 1, park_ms=25_000))
            await until(lambda: len(broker.puller.polls) == 1)
            broker.topics.delete("T")
            async with asyncio.timeout(5):
                assert (await waiting).code == Code.PULL_NOT_FOUND
            assert len(broker.puller.polls) == 0

    _run(test())


def test_one_pull_that_fails_takes_no_other_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await talk.send("T", b"one")
            bad = asyncio.create_task(talk.pull("T", 1, park_ms=20_000, wanted="a = 1", kind="SQL92"))
            await until(lambda: len(broker.puller.polls) == 1)
            good = asyncio.create_task(talk.pull("T", 1, park_ms=20_000))
            await until(lambda: len(broker.puller.polls) == 2)

            def fail(*_: object) -> int:
                raise RuntimeError("something that nobody thought of")

            monkeypatch.setattr(broker.puller, "keep_matching", fail)
            assert (await talk.send("T", b"two")).code == Code.SUCCESS
            assert bodies(await good) == [b"two"]
            answer = await bad
            assert answer.code == Code.SYSTEM_BUSY
            assert "nobody thought of" in (answer.remark or "")

    _run(test())


@pytest.mark.parametrize("flush", ["async", "group"])
def test_the_same_pull_twice_at_once_is_answered_twice(tmp_path: Path, flush: Literal["async", "group"]) -> None:
    async def test() -> None:
        async with running(tmp_path, store=StoreConfig(flush=flush)) as (broker, talk):
            await talk.send("T", b"one")
            pulls = [asyncio.create_task(talk.pull("T", 1, park_ms=20_000)) for _ in range(3)]
            await until(lambda: len(broker.puller.polls) == 3)
            await talk.send("T", b"two")
            assert [bodies(answer) for answer in await asyncio.gather(*pulls)] == [[b"two"]] * 3
            assert len(broker.puller.polls) == 0

    _run(test())


def test_a_connection_that_is_gone_is_not_remembered(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await talk.send("T", b"one")
            other = Talk(broker.address)
            await other.pull("T", 0)
            await other.pull("T", 0, count=3)
            assert broker.puller.kept == 2
            other.close()
            await until(lambda: broker.puller.kept == 0)
            assert bodies(await talk.pull("T", 0)) == [b"one"]

    _run(test())


def test_what_is_remembered_is_bounded(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await talk.send("T", b"one")
            for count in range(1, 1100):
                assert bodies(await talk.pull("T", 0, count=count)) == [b"one"]
            assert 0 < broker.puller.kept <= 1024
            kept = broker.puller.kept
            long = " || ".join(f"a-rather-long-tag-{number}" for number in range(40))
            assert (await talk.pull("T", 0, wanted=long)).code == Code.PULL_RETRY_IMMEDIATELY
            assert broker.puller.kept == kept

    _run(test())
