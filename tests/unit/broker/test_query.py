"""Requests that look for single messages, over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Talk, records, running

from litemq.config import StoreConfig
from litemq.format.message_id import parse_offset_id
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Response

FORMATS = pytest.mark.parametrize("store", [StoreConfig(format="litemq"), StoreConfig(format="rocketmq")], ids=str)


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


async def _query(talk: Talk, key: str, *, topic: str = "T", **others: str) -> Response:
    ext = {"topic": topic, "key": key, "maxNum": "64", "beginTimestamp": "0", "endTimestamp": str((1 << 63) - 1)}
    return await talk.call(Ask.QUERY_MESSAGE, {**ext, **others})


def _bodies(answer: Response) -> list[bytes]:
    return [record.body for record in records(answer.body)]


@FORMATS
def test_a_message_is_found_by_its_offset_id(store: StoreConfig, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, store=store) as (broker, talk):
            await talk.send("T", b"first")
            sent = await talk.send("T", b"second", KEYS="k")
            place = parse_offset_id(sent.ext["msgId"])
            assert place is not None
            assert place[0] == broker.address
            answer = await talk.call(Ask.VIEW_MESSAGE_BY_ID, {"offset": str(place[1]), "topic": "T"})
            assert answer.code == Code.SUCCESS
            (record,) = records(answer.body)
            assert (record.body, record.keys, record.queue_offset) == (b"second", ("k",), 1)
            assert record.offset_id == sent.ext["msgId"]

    _run(test())


@FORMATS
def test_no_message_where_there_is_none_or_one_of_another_topic(store: StoreConfig, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, store=store) as (broker, talk):
            sent = await talk.send("T", b"body")
            place = parse_offset_id(sent.ext["msgId"])
            assert place is not None
            for ext in (
                {"offset": str(place[1] + 1)},
                {"offset": str(broker.store.appended_end)},
                {"offset": "-1"},
                {"offset": str(place[1]), "topic": "Other"},
                {"offset": "0"},  # the log begins with a record of LiteMQ's own
            ):
                answer = await talk.call(Ask.VIEW_MESSAGE_BY_ID, ext)
                assert answer.code == Code.SYSTEM_ERROR, ext
                assert "position" in (answer.remark or "")
            assert (await talk.call(Ask.VIEW_MESSAGE_BY_ID, {"offset": "x"})).code == Code.INVALID_PARAMETER

    _run(test())


@FORMATS
def test_a_deleted_topic_shows_no_message(store: StoreConfig, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, store=store) as (_, talk):
            sent = await talk.send("T", b"body", KEYS="k")
            place = parse_offset_id(sent.ext["msgId"])
            assert place is not None
            assert (await talk.call(Ask.DELETE_TOPIC_IN_BROKER, {"topic": "T"})).code == Code.SUCCESS
            answer = await talk.call(Ask.VIEW_MESSAGE_BY_ID, {"offset": str(place[1])})
            assert answer.code == Code.SYSTEM_ERROR
            assert (await _query(talk, "k")).code == Code.QUERY_NOT_FOUND

    _run(test())


@FORMATS
def test_messages_are_found_by_key(store: StoreConfig, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, store=store) as (_, talk):
            await talk.send("T", b"1", KEYS="red blue", UNIQ_KEY="U1")
            await talk.send("T", b"2", KEYS="blue", UNIQ_KEY="U2")
            await talk.send("S", b"3", KEYS="blue", UNIQ_KEY="U3")
            answer = await _query(talk, "blue", indexType="K", lastKey="")
            assert answer.code == Code.SUCCESS
            assert sorted(_bodies(answer)) == [b"1", b"2"]
            assert int(answer.ext["indexLastUpdateTimestamp"]) > 0
            assert int(answer.ext["indexLastUpdatePhyoffset"]) > 0
            assert _bodies(await _query(talk, "red")) == [b"1"]
            assert _bodies(await _query(talk, "blue", maxNum="1")) == [b"2"]
            missing = await _query(talk, "U1")
            assert missing.code == Code.QUERY_NOT_FOUND  # an id is no key
            assert missing.ext.keys() == answer.ext.keys()

    _run(test())


@FORMATS
def test_a_message_is_found_by_the_id_that_its_producer_gave_it(store: StoreConfig, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, store=store) as (_, talk):
            await talk.send("T", b"1", KEYS="U2", UNIQ_KEY="U1")
            await talk.send("T", b"2", UNIQ_KEY="U2")
            await talk.send("T", b"again", UNIQ_KEY="U2")
            for how in ({"_UNIQUE_KEY_QUERY": "true"}, {"indexType": "U"}):
                found = await _query(talk, "U2", maxNum="1", **how)
                assert sorted(_bodies(found)) == [b"2", b"again"], how

    _run(test())


def test_the_time_window_and_the_kind_of_index_count(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (_, talk):
            await talk.send("T", b"1", KEYS="k")
            (record,) = records((await _query(talk, "k")).body)
            stored = record.store_time
            assert stored is not None
            within = {"beginTimestamp": str(stored), "endTimestamp": str(stored)}
            assert _bodies(await _query(talk, "k", **within)) == [b"1"]
            assert (await _query(talk, "k", endTimestamp=str(stored - 1))).code == Code.QUERY_NOT_FOUND
            assert (await _query(talk, "k", beginTimestamp=str(stored + 1))).code == Code.QUERY_NOT_FOUND
            assert (await _query(talk, "k", indexType="T")).code == Code.INVALID_PARAMETER

    _run(test())


def test_an_answer_never_outgrows_a_frame(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (_, talk):
            for number in range(5):
                await talk.send("T", bytes([number]) * (3 << 20), KEYS="big", UNIQ_KEY=f"U{number}")
            found = await _query(talk, "big")
            assert [body[0] for body in _bodies(found)] == [4, 3]  # the newest, up to 8 MiB

    _run(test())


def test_litemq_own_topics_are_not_searched(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (_, talk):
            answer = await _query(talk, "anything", topic="LITEMQ_SYS_CHANGES")
            assert answer.code == Code.QUERY_NOT_FOUND

    _run(test())


@FORMATS
def test_entries_of_a_queue_say_whether_a_group_wants_them(store: StoreConfig, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, store=store) as (_, talk):
            for tag in ("A", "B", "A"):
                await talk.send("T", tag.encode(), TAGS=tag, UNIQ_KEY=f"U{tag}")
            ext = {"topic": "T", "queueId": "0", "index": "0", "count": "2"}
            told = json.loads((await talk.call(Ask.QUERY_CONSUME_QUEUE, ext)).body)
            assert (told["minQueueIndex"], told["maxQueueIndex"]) == (0, 3)
            assert [row["tagsCode"] for row in told["queueData"]] == [65, 66]
            assert [row["eval"] for row in told["queueData"]] == [True, True]
            assert "subscriptionData" not in told
            position = told["queueData"][1]["physicOffset"]
            seen = await talk.call(Ask.VIEW_MESSAGE_BY_ID, {"offset": str(position)})
            assert _bodies(seen) == [b"B"]

            await talk.heartbeat("c1", consumes={"cg": {"T": "A"}})
            told = json.loads(
                (await talk.call(Ask.QUERY_CONSUME_QUEUE, {**ext, "index": "1", "consumerGroup": "cg"})).body
            )
            assert [row["eval"] for row in told["queueData"]] == [False, True]
            assert told["subscriptionData"]["subString"] == "A"
            wrong = await talk.call(Ask.QUERY_CONSUME_QUEUE, {**ext, "queueId": "99"})
            assert wrong.code == Code.INVALID_PARAMETER

    _run(test())
