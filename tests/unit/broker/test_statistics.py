"""What the broker has done, as tools ask for it over a real socket."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Talk, running

from litemq.broker import statistics
from litemq.clock import ManualClock
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Response

START = 1_700_000_000_000
SHOWN = """
brokerVersionDesc brokerActive putTps getTransferredTps sendThreadPoolQueueSize pullThreadPoolQueueSize
ackThreadPoolQueueSize sendThreadPoolQueueHeadWaitTimeMills pullThreadPoolQueueHeadWaitTimeMills
ackThreadPoolQueueHeadWaitTimeMills pageCacheLockTimeMills earliestMessageTimeStamp commitLogDiskRatio
timerReadBehind timerOffsetBehind timerCongestNum timerEnqueueTps timerDequeueTps msgPutTotalYesterdayMorning
msgPutTotalTodayMorning msgPutTotalTodayNow msgGetTotalYesterdayMorning msgGetTotalTodayMorning msgGetTotalTodayNow
getTotalTps bootTimestamp runtime putMessageTimesTotal putMessageSizeTotal putMessageAverageSize
putMessageDistributeTime getFoundTps getMissTps putLatency99 putLatency999 commitLogMinOffset commitLogMaxOffset
consumeQueueDiskRatio dispatchBehindBytes remainHowManyDataToFlush commitLogDirCapacity queryThreadPoolQueueSize
queryThreadPoolQueueCapacity
"""
"""Keys of the runtime table that mqadmin and the Dashboard look for."""


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


async def _stats(talk: Talk, name: str, key: str) -> Response:
    return await talk.call(Ask.VIEW_BROKER_STATS_DATA, {"statsName": name, "statsKey": key})


async def _sums(talk: Talk, name: str, key: str) -> tuple[int, int, int]:
    answer = await _stats(talk, name, key)
    assert answer.code == Code.SUCCESS, answer
    told = json.loads(answer.body)
    assert told.keys() == {"statsDay", "statsHour", "statsMinute"}
    assert all(part.keys() == {"avgpt", "sum", "tps"} for part in told.values())
    return told["statsMinute"]["sum"], told["statsHour"]["sum"], told["statsDay"]["sum"]


async def _runtime(talk: Talk) -> dict[str, str]:
    told = json.loads((await talk.call(Ask.GET_BROKER_RUNTIME_INFO, {})).body)
    assert told.keys() == {"table"}
    table: dict[str, str] = told["table"]
    return table


def test_the_runtime_table_has_every_key_that_tools_look_for(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            for number in range(3):
                await talk.send("T", b"%d" % number)
            await talk.pull("T", 1)
            table = await _runtime(talk)
            assert [key for key in SHOWN.split() if key not in table] == []
            assert all(isinstance(value, str) for value in table.values())
            assert table["putMessageTimesTotal"] == table["msgPutTotalTodayNow"] == "3"
            assert table["msgGetTotalTodayNow"] == "2"
            for key in ("putTps", "getTransferredTps", "getTotalTps", "getFoundTps", "getMissTps"):
                assert len([float(number) for number in table[key].split(" ")]) == 3
            assert 0 <= float(table["commitLogDiskRatio"]) <= 1
            assert table["commitLogMaxOffset"] == str(broker.store.appended_end)
            assert broker.statistics.boot_ms - 10_000 < int(table["earliestMessageTimeStamp"])

    _run(test())


def test_litemq_own_records_are_not_counted(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await talk.send("T", b"1")
            broker.offsets.commit("g", "T", 0, 1)
            broker.store._state.save_progress()
            await talk.call(Ask.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
            assert broker.statistics.put_total == 1

    _run(test())


def test_messages_of_topics_and_groups_are_counted(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            assert (await _stats(talk, "TOPIC_PUT_NUMS", "T")).code == Code.SYSTEM_ERROR
            for number in range(5):
                await talk.send("T", b"%d" % number, queue=number % 2)
            await talk.pull("T", 0)
            assert await _sums(talk, "TOPIC_PUT_NUMS", "T") == (5, 5, 5)
            assert await _sums(talk, "GROUP_GET_NUMS", "T@cg") == (3, 3, 3)
            assert await _sums(talk, "BROKER_PUT_NUMS", "DefaultCluster") == (5, 5, 5)
            assert await _sums(talk, "BROKER_GET_NUMS", "DefaultCluster") == (3, 3, 3)
            size = (broker.store.reader.entries("T", 0, 0, 1))[0].size
            assert (await _sums(talk, "TOPIC_PUT_SIZE", "T"))[0] == pytest.approx(5 * size, rel=0.1)
            assert (await _sums(talk, "GROUP_GET_SIZE", "T@cg"))[0] == pytest.approx(3 * size, rel=0.1)
            for name, key in (
                ("TOPIC_PUT_NUMS", "S"),
                ("GROUP_GET_NUMS", "T"),
                ("SNDBCK_PUT_NUMS", "T@cg"),
                ("X", "T"),
            ):
                assert (await _stats(talk, name, key)).code == Code.SYSTEM_ERROR, name

    _run(test())


def test_what_was_sent_back_is_counted(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await talk.send("T", b"1")
            await talk.heartbeat("c1", consumes={"cg": {"T": "*"}})
            position = broker.store.reader.entries("T", 0, 0, 1)[0].position
            ext = {"offset": str(position), "group": "cg", "delayLevel": "3"}
            assert (await talk.call(Ask.CONSUMER_SEND_MSG_BACK, ext)).code == Code.SUCCESS
            assert await _sums(talk, "SNDBCK_PUT_NUMS", "T@cg") == (1, 1, 1)

    _run(test())


def test_windows_move_with_the_clock(tmp_path: Path) -> None:
    clock = ManualClock(START)

    async def test() -> None:
        async with running(tmp_path, clock=clock) as (broker, talk):
            await talk.send("T", b"1")
            for _ in range(90):
                clock.advance(1_000)
                broker.statistics.tick(clock.now_ms())
            assert await _sums(talk, "TOPIC_PUT_NUMS", "T") == (0, 1, 1)
            for _ in range(20):
                await talk.send("T", b"x")
            clock.advance(1_000)
            broker.statistics.tick(clock.now_ms())
            assert await _sums(talk, "TOPIC_PUT_NUMS", "T") == (20, 21, 21)
            assert (await _runtime(talk))["putTps"].startswith("2.0000 0.3333")

    _run(test())


def test_a_new_day_begins_at_midnight(tmp_path: Path) -> None:
    clock = ManualClock(START)

    async def test() -> None:
        async with running(tmp_path, clock=clock) as (broker, talk):
            await talk.send("T", b"1")
            clock.advance(86_400_000)
            broker.statistics.tick(clock.now_ms())
            await talk.send("T", b"2")
            table = await _runtime(talk)
            assert (table["msgPutTotalYesterdayMorning"], table["msgPutTotalTodayMorning"]) == ("0", "1")
            assert table["msgPutTotalTodayNow"] == "2"

    _run(test())


def test_many_topics_are_looked_at_in_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_TOPICS_AT_ONCE", 90)
    clock = ManualClock(START)

    async def test() -> None:
        async with running(tmp_path, clock=clock) as (broker, talk):
            for number in range(20):
                await talk.send(f"T{number}", b"x")
            clock.advance(10_000)
            ticks = 0
            while len(broker.statistics.puts) < 20:
                before = len(broker.statistics.puts)
                broker.statistics.tick(clock.now_ms())
                assert len(broker.statistics.puts) - before <= 5
                ticks += 1
                assert ticks < 50
            assert ticks > 1

    _run(test())


def test_what_is_deleted_is_forgotten_but_stays_in_the_total(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            for topic in ("S", "T"):
                await talk.send(topic, b"1")
                await talk.pull(topic, 0)
            assert await _sums(talk, "GROUP_GET_NUMS", "T@cg") == (1, 1, 1)
            await talk.call(Ask.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
            assert (await _stats(talk, "TOPIC_PUT_NUMS", "T")).code == Code.SYSTEM_ERROR
            assert (await _stats(talk, "GROUP_GET_NUMS", "T@cg")).code == Code.SYSTEM_ERROR
            await talk.call(Ask.DELETE_SUBSCRIPTIONGROUP, {"groupName": "cg"})
            assert (await _stats(talk, "GROUP_GET_NUMS", "S@cg")).code == Code.SYSTEM_ERROR
            assert broker.puller.delivered == {}
            assert broker.statistics.got_total == 2
            await talk.send("T", b"anew")
            assert await _sums(talk, "TOPIC_PUT_NUMS", "T") == (1, 1, 1)

    _run(test())


def test_what_was_there_before_the_start_is_not_counted(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (_, talk):
            for number in range(5):
                await talk.send("T", b"%d" % number, queue=number % 2)
        async with running(tmp_path) as (broker, talk):
            await talk.pull("T", 0, queue=1)  # opens the queue
            assert (await _stats(talk, "TOPIC_PUT_NUMS", "T")).code == Code.SYSTEM_ERROR
            await talk.send("T", b"5", queue=1)
            assert await _sums(talk, "TOPIC_PUT_NUMS", "T") == (1, 1, 1)
            assert broker.store.appended("T") == (1, 1)

    _run(test())


def test_litemq_statistics_have_every_part(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await talk.send("T", b"1")
            broker.reports["weather"] = lambda: {"sunny": True}
            told = json.loads((await talk.call(Ask.LITEMQ_STATISTICS, {})).body)
            assert told["broker"]["address"] == broker.address
            assert told["messages"]["put"] == 1
            assert told["connections"]["open"] == 1
            assert told["counters"]["log_end"] == broker.store.appended_end
            assert told["limits"]["connections"] == 10_000
            assert told["limitsMet"]["connections_refused"] == 0
            assert isinstance(told["pauses"], dict)
            assert told["weather"] == {"sunny": True}

    _run(test())


def test_pauses_of_the_loop_are_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as (broker, talk):
            with broker.pauses.during("flush"):
                time.sleep(0.05)  # noqa: ASYNC251 - it is blocked on purpose
            await asyncio.sleep(0.1)
            table = await _runtime(talk)
            last = json.loads(table["litemqLoopPausesLast"])
            assert any(pause["marked_ms"].get("flush", 0) >= 49 for pause in last)
            assert sum(cause["count"] for cause in json.loads(table["litemqLoopPauses"]).values()) >= len(last) >= 1
            assert float(table["litemqLoopPauseOwnMaxMs"]) >= 0

    asyncio.run(main())
