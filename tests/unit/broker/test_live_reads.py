"""Requests of data jobs, over a real socket: what they tell is what the store holds, and live traffic goes on."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Talk, records, running

from litemq.broker.broker import Broker
from litemq.config import LimitsConfig, StoreConfig
from litemq.format import rows
from litemq.format._scan_cy import scan
from litemq.format.record import FORMATS, LITEMQ, decode_row
from litemq.store.frames import stated_offset
from litemq.types import Record
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Response

BOTH = pytest.mark.parametrize("store", [StoreConfig(format="litemq"), StoreConfig(format="rocketmq")], ids=str)


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 100))


async def _ask(talk: Talk, code: Ask, body: object = None, **ext: object) -> Response:
    data = b"" if body is None else json.dumps(body).encode()
    return await talk.call(code, {name: str(value) for name, value in ext.items()}, data, timeout_s=30)


async def _told(talk: Talk, code: Ask, body: object = None, **ext: object) -> Any:  # noqa: ANN401 - JSON
    answer = await _ask(talk, code, body, **ext)
    assert answer.code == Code.SUCCESS, answer.remark
    return json.loads(answer.body)


def _stored(answer: Response) -> list[Record]:
    """Return the records of a raw pull, which say themselves where they stand."""
    fmt = FORMATS[answer.ext["format"]]
    at, found = 0, []
    table = rows.table(1)
    while at < len(answer.body):
        size = int.from_bytes(answer.body[at : at + 4], "big") + (4 if fmt is LITEMQ else 0)
        record = answer.body[at : at + size]
        count, _, _ = scan(fmt.code, record, 0, size, stated_offset(fmt, record), table)
        assert count == 1
        found.append(decode_row(fmt, memoryview(record), table, 0, ""))
        at += size
    return found


async def _fill(talk: Talk, topic: str, count: int, size: int = 20, queues: int = 2) -> None:
    for number in range(count):
        answer = await talk.send(topic, b"%06d" % number + b"x" * size, queue=number % queues, TAGS="a")
        assert answer.code == Code.SUCCESS


@BOTH
def test_bounds_name_log_topics_and_queues(store: StoreConfig, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, store=store) as (broker, talk):
            await _fill(talk, "T", 10)
            await _fill(talk, "U", 3)
            told = await _told(talk, Ask.LITEMQ_BOUNDS, {"topics": ["T", "nobody's", "U"]})
            assert (told["logId"], told["format"]) == (broker.store.tables.log_id, store.format)
            assert [topic["name"] for topic in told["topics"]] == ["T", "U"]
            queues = told["topics"][0]["queues"]
            assert [row[:3] for row in queues] == [[0, 0, 5], [1, 0, 5], [2, 0, 0], [3, 0, 0]]
            for queue_id, low, high, size in queues[:2]:
                assert size == broker.store.reader.span("T", queue_id, low, high).bytes
            first = told["topics"][0]["incarnation"]
            assert first
            await talk.call(Ask.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
            await _fill(talk, "T", 1)
            told = await _told(talk, Ask.LITEMQ_BOUNDS, {"topics": ["T"]})
            assert told["topics"][0]["incarnation"] != first
            assert told["topics"][0]["queues"][0][:3] == [0, 5, 6]

    _run(test())


def test_all_topics_come_in_pages(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            for number in range(5):
                await _fill(talk, f"T{number}", 1)
            names: list[str] = []
            page: dict[str, Any] = {"next": ""}
            while "next" in page:
                page = await _told(talk, Ask.LITEMQ_BOUNDS, fromTopic=page["next"], maxNum=2)
                assert len(page["topics"]) <= 2
                names += [topic["name"] for topic in page["topics"]]
            assert names == sorted(names) == [topic.name for topic in broker.topics.all() if topic.is_readable]
            assert not [name for name in names if name.startswith("LITEMQ_SYS_")]
            told = await _told(talk, Ask.LITEMQ_BOUNDS, {"topics": ["LITEMQ_SYS_CHANGES"]})
            assert told["topics"][0]["queues"][0][2] > 0

    _run(test())


@BOTH
@pytest.mark.parametrize("max_bytes", [1, 3000, 1 << 20])
def test_a_raw_pull_gives_the_stored_records(store: StoreConfig, max_bytes: int, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, store=store) as (broker, talk):
            await _fill(talk, "T", 300, size=100, queues=3)
            for queue_id in range(3):
                at, found = 0, []
                while at < 90:
                    answer = await _ask(
                        talk, Ask.LITEMQ_RAW_PULL, topic="T", queueId=queue_id, fromOffset=at, toOffset=90,
                        maxBytes=max_bytes,
                    )  # fmt: skip
                    assert answer.code == Code.SUCCESS, answer.remark
                    some = _stored(answer)
                    assert len(some) == int(answer.ext["count"]) > 0
                    assert len(answer.body) <= max_bytes or len(some) == 1
                    assert (answer.ext["minOffset"], answer.ext["maxOffset"]) == ("0", "100")
                    at = int(answer.ext["nextOffset"])
                    found += some
                assert at == 90
                there = [broker.store.reader.message_at("T", queue_id, offset) for offset in range(90)]
                assert found == [record and replace(record, segment="") for record in there]

    _run(test())


def test_outside_of_a_queue_nothing_comes(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (_, talk):
            await _fill(talk, "T", 10, queues=1)
            for first, end in ((10, 20), (11, 20), (5, 5), (7, 5)):
                answer = await _ask(talk, Ask.LITEMQ_RAW_PULL, topic="T", queueId=0, fromOffset=first, toOffset=end)
                assert (answer.code, answer.body, answer.ext["count"]) == (0, b"", "0")
                assert int(answer.ext["nextOffset"]) == first
            await _told(talk, Ask.LITEMQ_PURGE_TOPIC, topic="T", queueId=0, beforeOffset=4)
            answer = await _ask(talk, Ask.LITEMQ_RAW_PULL, topic="T", queueId=0, fromOffset=2)
            assert (answer.body, answer.ext["nextOffset"], answer.ext["minOffset"]) == (b"", "2", "4")

    _run(test())


@pytest.mark.parametrize(
    ("code", "ext", "body", "answer"),
    [
        (Ask.LITEMQ_RAW_PULL, {"topic": "none", "queueId": 0, "fromOffset": 0}, None, Code.TOPIC_NOT_EXIST),
        (Ask.LITEMQ_RAW_PULL, {"topic": "T", "queueId": 0}, None, Code.INVALID_PARAMETER),
        (Ask.LITEMQ_RAW_PULL, {"topic": "T", "queueId": -1, "fromOffset": 0}, None, Code.INVALID_PARAMETER),
        (Ask.LITEMQ_RAW_PULL, {"topic": "T", "queueId": 0, "fromOffset": -1}, None, Code.INVALID_PARAMETER),
        (Ask.LITEMQ_SPLIT, {"topic": "T", "queueId": 0, "everyBytes": 0}, None, Code.INVALID_PARAMETER),
        (Ask.LITEMQ_SPLIT, {"topic": "none", "queueId": 0, "everyBytes": 1}, None, Code.TOPIC_NOT_EXIST),
        (Ask.LITEMQ_BOUNDS, {"maxNum": 0}, None, Code.INVALID_PARAMETER),
        (Ask.LITEMQ_BOUNDS, {}, {"topics": [1]}, Code.INVALID_PARAMETER),
        (Ask.LITEMQ_BOUNDS, {}, {"topics": ["T"] * 1001}, Code.INVALID_PARAMETER),
        (Ask.LITEMQ_OFFSETS_AT, {}, {"queues": [["T", 0]]}, Code.INVALID_PARAMETER),
        (Ask.LITEMQ_OFFSETS_AT, {}, {"queues": [["none", 0, 1]]}, Code.TOPIC_NOT_EXIST),
        (Ask.LITEMQ_HOLD, {"name": "a", "leaseMs": 0}, {"queues": []}, Code.INVALID_PARAMETER),
        (Ask.LITEMQ_HOLD, {"name": "a" * 256, "leaseMs": 1}, {"queues": []}, Code.INVALID_PARAMETER),
        (Ask.LITEMQ_HOLD, {"leaseMs": 1}, {"queues": []}, Code.INVALID_PARAMETER),
    ],
)
def test_wrong_requests_are_named(
    code: Ask, ext: dict[str, object], body: object, answer: Code, tmp_path: Path
) -> None:
    async def test() -> None:
        async with running(tmp_path) as (_, talk):
            await _fill(talk, "T", 1)
            refused = await _ask(talk, code, body, **ext)
            assert refused.code == answer, refused
            assert refused.remark

    _run(test())


@BOTH
def test_offsets_at_times(store: StoreConfig, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, store=store) as (broker, talk):
            for _ in range(4):
                await _fill(talk, "T", 2)
                await asyncio.sleep(0.005)
            third = broker.store.reader.message_at("T", 0, 2)
            assert third is not None
            assert third.store_time is not None
            asked = [["T", 0, 0], ["T", 0, third.store_time], ["T", 1, 1 << 60], ["T", 3, 5]]
            told = await _told(talk, Ask.LITEMQ_OFFSETS_AT, {"queues": asked})
            assert told["offsets"] == [0, 2, 4, 0]

    _run(test())


@pytest.mark.parametrize("every", [1, 300, 1000, 50_000])
def test_pieces_are_as_large_as_asked_for(every: int, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            for number in range(120):
                await talk.send("T", b"x" * (number * 7 % 500), queue=0)
            cuts: list[int] = []
            has_more = True
            while has_more:
                first = cuts[-1] if cuts else 5
                told = await _told(
                    talk, Ask.LITEMQ_SPLIT, topic="T", queueId=0, fromOffset=first, toOffset=110, everyBytes=every,
                    maxNum=10,
                )  # fmt: skip
                cuts += told["cuts"]
                has_more = told["more"]
            ends = [5, *cuts, 110]
            assert ends == sorted(set(ends))
            span = broker.store.reader.span
            for low, high in itertools.pairwise(ends):
                size = span("T", 0, low, high - low).bytes
                assert size <= every or high == low + 1
                if high < 110:  # one more would not have fitted
                    assert span("T", 0, low, high - low + 1).bytes > every

    _run(test())


def _small(**more: object) -> StoreConfig:
    return StoreConfig(segment_bytes=1 << 20, retention_hours=0.0, delete_hour=None, **more)  # type: ignore[arg-type]


async def _segments_go(broker: Broker) -> None:
    """Let everything go that may."""
    await asyncio.sleep(0.002)  # what was stored in this millisecond is not old yet
    broker.store.retain()
    broker.store.checkpoint()
    broker.store.tick()


def test_a_hold_keeps_segments_until_it_ends(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, store=_small()) as (broker, talk):
            await _fill(talk, "T", 300, size=10_000, queues=1)
            started = broker.store.start
            held = await _told(talk, Ask.LITEMQ_HOLD, {"queues": [["T", 0, 0]]}, name="job", leaseMs=600_000)
            assert held["late"] == []
            await _segments_go(broker)
            assert broker.store.start == started
            report = json.loads((await talk.call(Ask.LITEMQ_STATISTICS, {})).body)["liveReads"]
            assert [(one["name"], one["position"]) for one in report["holds"]] == [("job", held["position"])]
            # moved on: what is before goes
            await _told(talk, Ask.LITEMQ_HOLD, {"queues": [["T", 0, 150]]}, name="job", leaseMs=600_000)
            await _segments_go(broker)
            low = broker.store.reader.min_offset("T", 0)
            assert 0 < low <= 150
            assert (await _told(talk, Ask.LITEMQ_HOLD, name="job", release="true"))["released"]
            await _segments_go(broker)
            assert broker.store.reader.min_offset("T", 0) > 150
            held = await _told(talk, Ask.LITEMQ_HOLD, {"queues": [["T", 0, 0]]}, name="job", leaseMs=1)
            assert held["late"] == [["T", 0, broker.store.reader.min_offset("T", 0)]]
            await asyncio.sleep(0.3)
            assert not broker.live_reads.report()["holds"]

    _run(test())


def test_a_hold_keeps_what_a_topic_would_let_go(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await _fill(talk, "T", 20, queues=1)
            await _told(talk, Ask.LITEMQ_HOLD, {"queues": [["T", 0, 8]]}, name="job", leaseMs=600_000)
            await talk.call(
                Ask.UPDATE_AND_CREATE_TOPIC,
                {"topic": "T", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6",
                 "topicFilterType": "SINGLE_TAG", "attributes": "+retention.ms=1"},
            )  # fmt: skip
            await asyncio.sleep(0.01)
            await broker.topic_retention.pass_()
            assert broker.store.reader.min_offset("T", 0) == 8
            broker.live_reads.release("job")
            await broker.topic_retention.pass_()
            assert broker.store.reader.min_offset("T", 0) == 20

    _run(test())


def test_answers_are_bounded_by_the_limits(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, limits=LimitsConfig(max_pull_bytes=65_536)) as (_, talk):
            await _fill(talk, "T", 300, size=1000, queues=1)
            answer = await _ask(talk, Ask.LITEMQ_RAW_PULL, topic="T", queueId=0, fromOffset=0, maxBytes=1 << 30)
            assert 60_000 < len(answer.body) <= 65_536

    _run(test())


def test_live_traffic_goes_on_beside_raw_pulls(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await _fill(talk, "T", 2000, size=8000, queues=4)
            other = Talk(broker.address)
            stop = False

            async def scan(queue_id: int) -> int:
                at = count = 0
                while not stop:
                    answer = await _ask(
                        talk, Ask.LITEMQ_RAW_PULL, topic="T", queueId=queue_id, fromOffset=at, maxBytes=4 << 20
                    )
                    count += int(answer.ext["count"])
                    at = int(answer.ext["nextOffset"]) if int(answer.ext["nextOffset"]) > at else 0
                return count

            scans = [asyncio.create_task(scan(queue_id)) for queue_id in range(4)]
            times = []
            for number in range(100):
                began = time.perf_counter()
                sent = await other.send("live", b"%d" % number)
                got = await other.pull("live", int(sent.ext["queueOffset"]), count=1)
                assert [record.body for record in records(got.body)] == [b"%d" % number]
                times.append(time.perf_counter() - began)
            stop = True
            assert sum(await asyncio.gather(*scans)) > 2000
            other.close()
            assert sorted(times)[50] < 0.2  # the client that scans has its share of this loop, too

    _run(test())
