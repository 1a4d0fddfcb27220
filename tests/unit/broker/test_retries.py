"""Messages that are sent back: later again, each once, across restarts; then the dead letters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.support.broker import Talk, records, running

from litemq.broker.broker import Broker
from litemq.clock import ManualClock
from litemq.config import StoreConfig
from litemq.types import Record
from litemq.wire.remoting.codes import Ask, Code

FORMATS = pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])
RETRY = "%RETRY%cg"
DEAD = "%DLQ%cg"


async def _send_back(talk: Talk, record: Record, *, level: int = 0, most: int = 16, **ext: str) -> int:
    answer = await talk.call(
        Ask.CONSUMER_SEND_MSG_BACK,
        {
            "group": "cg",
            "offset": str(record.position),
            "delayLevel": str(level),
            "maxReconsumeTimes": str(most),
            **ext,
        },
    )
    return answer.code


async def _pulled(talk: Talk, topic: str, offset: int = 0) -> list[Record]:
    return records((await talk.pull(topic, offset)).body)


async def _first(talk: Talk, broker: Broker) -> Record:
    await talk.heartbeat("client-1", consumes={"cg": {"T": "*"}})
    await talk.send("T", b"one", queue=2, TAGS="A", KEYS="k1 k2", colour="red")
    (record,) = records((await talk.pull("T", 0, queue=2)).body)
    return record


def _run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(_as_coroutine(test), 60))


async def _as_coroutine(test: Callable[[], Awaitable[None]]) -> None:
    await test()


@FORMATS
def test_a_message_comes_again_after_its_delay_and_dies_after_the_last(fmt: str, tmp_path: Path) -> None:
    clock = ManualClock()

    async def test() -> None:
        config = StoreConfig(format=fmt)  # type: ignore[arg-type] # one of two names
        async with running(tmp_path, store=config, clock=clock) as (broker, talk):
            record = await _first(talk, broker)
            assert await _send_back(talk, record, most=2) == Code.SUCCESS
            clock.advance(9_999)
            broker.schedule.pass_(clock.now_ms())
            assert await _pulled(talk, RETRY) == []
            clock.advance(1)
            broker.schedule.pass_(clock.now_ms())
            (again,) = await _pulled(talk, RETRY)
            assert again.body == b"one"
            assert again.reconsume_times == 1
            assert again.tags == ("A",)
            assert again.keys == ("k1", "k2")
            assert again.message_id == record.message_id
            assert again.born_time == record.born_time
            assert again.properties["RETRY_TOPIC"] == "T"
            assert again.properties["ORIGIN_MESSAGE_ID"] == record.offset_id
            assert again.properties["colour"] == "red"
            assert "DELAY" not in again.properties
            assert await _send_back(talk, again, most=2) == Code.SUCCESS
            clock.advance(30_000)
            broker.schedule.pass_(clock.now_ms())
            third = (await _pulled(talk, RETRY))[1]
            assert third.reconsume_times == 2
            assert third.properties["ORIGIN_MESSAGE_ID"] == record.offset_id
            assert await _send_back(talk, third, most=2, lmqError="boom", lmqStack="at line 1") == Code.SUCCESS
            (dead,) = await _pulled(talk, DEAD)
            assert dead.body == b"one"
            assert {name: value for name, value in dead.properties.items() if name.startswith("DLQ_")} == {
                "DLQ_ORIGIN_TOPIC": "T",
                "DLQ_ORIGIN_MESSAGE_ID": record.offset_id,
                "DLQ_ORIGIN_QUEUE": "2",
                "DLQ_ORIGIN_OFFSET": "0",
                "DLQ_REASON": "max_retry",
                "DLQ_ERROR": "boom",
                "DLQ_STACK": "at line 1",
                "DLQ_GROUP": "cg",
                "DLQ_CONSUMER_ID": "client-1",
                "DLQ_RETRY_COUNT": "2",
                "DLQ_TIME": str(clock.now_ms()),
            }

    _run(test)


@FORMATS
def test_what_was_released_before_a_crash_is_not_released_again(fmt: str, tmp_path: Path) -> None:
    clock = ManualClock()
    config = StoreConfig(format=fmt)  # type: ignore[arg-type] # one of two names

    async def before() -> None:
        async with running(tmp_path, store=config, clock=clock) as (broker, talk):
            record = await _first(talk, broker)
            for level in (1, 1, 2, 2):
                assert await _send_back(talk, record, level=level) == Code.SUCCESS
                clock.advance(1)
            clock.advance(1_000)
            assert broker.schedule.pass_(clock.now_ms()) == 2  # both of level 1; those of level 2 wait on
            broker.store.flush()
            broker.schedule.close = lambda: None  # type: ignore[method-assign] # as a crash: no last snapshot

    async def after() -> None:
        async with running(tmp_path, store=config, clock=clock) as (broker, talk):
            assert broker.schedule.pass_(clock.now_ms()) == 0
            assert len(await _pulled(talk, RETRY)) == 2
            clock.advance(5_000)
            assert broker.schedule.pass_(clock.now_ms()) == 2
            assert len(await _pulled(talk, RETRY)) == 4

    async def clean() -> None:
        async with running(tmp_path, store=config, clock=clock) as (broker, _):
            clock.advance(100_000)
            assert broker.schedule.pass_(clock.now_ms()) == 0
        offsets = json.loads((tmp_path / "config" / "delayOffset.json").read_text())["offsetTable"]
        assert (offsets["1"], offsets["2"], offsets["3"]) == (2, 2, 0)

    _run(before)
    _run(after)
    _run(clean)


def test_waiting_messages_of_other_topics_are_left_alone(tmp_path: Path) -> None:
    clock = ManualClock()
    config = StoreConfig(format="rocketmq")

    async def test() -> None:
        async with running(tmp_path, store=config, clock=clock) as (broker, talk):
            record = await _first(talk, broker)
            from litemq.types import Message

            strange = {"DELAY": "1", "REAL_TOPIC": "T", "REAL_QID": "0"}
            broker.store.append(Message("SCHEDULE_TOPIC_XXXX", b"not ours", properties=strange))
            assert await _send_back(talk, record, level=1) == Code.SUCCESS
            clock.advance(1_000)
            assert broker.schedule.pass_(clock.now_ms()) == 1
            assert broker.schedule.left_alone == 1
            assert broker.schedule.levels[0].first == 0
            assert broker.schedule.levels[0].next == 2
            assert await _pulled(talk, "T") == []

    _run(test)


def test_a_consumer_may_reject_for_good(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            record = await _first(talk, broker)
            assert await _send_back(talk, record, level=-1) == Code.SUCCESS
            (dead,) = await _pulled(talk, DEAD)
            assert dead.properties["DLQ_REASON"] == "consume_error"
            assert dead.properties["DLQ_RETRY_COUNT"] == "0"

    _run(test)


def test_what_is_not_there_cannot_be_sent_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            record = await _first(talk, broker)
            ext = {"group": "nobody", "offset": str(record.position), "delayLevel": "0"}
            assert (await talk.call(36, ext)).code == Code.SUBSCRIPTION_GROUP_NOT_EXIST
            ext |= {"group": "cg", "offset": "123456789"}
            assert (await talk.call(36, ext)).code == Code.SYSTEM_ERROR
            ext |= {"offset": str(record.position + 1)}
            assert (await talk.call(36, ext)).code == Code.SYSTEM_ERROR

    _run(test)


def test_a_client_may_send_its_retry_itself(tmp_path: Path) -> None:
    clock = ManualClock()

    async def test() -> None:
        async with running(tmp_path, clock=clock) as (broker, talk):
            await _first(talk, broker)
            ext = {
                "a": "cg",
                "b": RETRY,
                "c": "TBW102",
                "d": "4",
                "e": "0",
                "f": "0",
                "g": "1",
                "h": "0",
                "m": "false",
                "i": "UNIQ_KEY\x01U\x02RETRY_TOPIC\x01T\x02DELAY\x013\x02",
                "j": "1",
                "l": "2",
            }
            assert (await talk.call(310, ext, b"mine")).code == Code.SUCCESS
            clock.advance(10_000)
            broker.schedule.pass_(clock.now_ms())
            (again,) = await _pulled(talk, RETRY)
            assert (again.body, again.reconsume_times) == (b"mine", 1)
            assert (await talk.call(310, {**ext, "j": "3"}, b"dead")).code == Code.SUCCESS
            (dead,) = await _pulled(talk, DEAD)
            assert (dead.body, dead.properties["DLQ_REASON"]) == (b"dead", "max_retry")

    _run(test)


def test_a_group_that_wants_more_retry_queues_than_there_are_loses_nothing(tmp_path: Path) -> None:
    clock = ManualClock()

    async def test() -> None:
        async with running(tmp_path, clock=clock) as (broker, talk):
            record = await _first(talk, broker)  # makes the retry topic, with one queue
            broker.groups.put("cg", {"retryQueueNums": 1 << 20})
            for _ in range(5):
                assert await _send_back(talk, record) == Code.SUCCESS
            clock.advance(10_000)
            broker.schedule.pass_(clock.now_ms())
            assert len(await _pulled(talk, RETRY)) == 5

    _run(test)
