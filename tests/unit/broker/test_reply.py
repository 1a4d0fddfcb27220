"""Replies go to the producer that waits for them, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Talk, running

from litemq.broker import reply
from litemq.format import properties
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handlers

TOPIC = "DefaultCluster_REPLY_TOPIC"


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


async def _reply(talk: Talk, body: bytes, found: dict[str, str], *, is_short: bool = True) -> Response:
    ext = {
        "producerGroup": "CLIENT_INNER_PRODUCER",
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "1",
        "bornTimestamp": "1700000000000",
        "flag": "3",
        "properties": properties.write(found.items()).decode(),
        "reconsumeTimes": "0",
        "unitMode": "false",
    }
    if not is_short:
        return await talk.call(Ask.SEND_REPLY_MESSAGE, ext, body)
    letters = dict(zip("abcdefghijk", ext.values(), strict=True))
    return await talk.call(Ask.SEND_REPLY_MESSAGE_V2, letters, body)


@pytest.mark.parametrize("is_short", [True, False])
def test_a_reply_reaches_the_producer_that_asked(is_short: bool, tmp_path: Path) -> None:
    got: list[Request] = []

    def take(_connection: Connection, request: Request) -> Response:
        got.append(request)
        return Response()

    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            producer = Talk(broker.address, {Ask.PUSH_REPLY_MESSAGE_TO_CLIENT: take})
            await producer.heartbeat("p1", produces=("pg",))
            end = broker.store.appended_end
            found = {"MSG_TYPE": "reply", "CORRELATION_ID": "42", "REPLY_TO_CLIENT": "p1"}
            answer = await _reply(talk, b"pong", found, is_short=is_short)
            assert answer.code == Code.SUCCESS
            assert answer.ext == {
                "msgId": "0",
                "queueId": "0",
                "queueOffset": "0",
                "MSG_REGION": "DefaultRegion",
                "TRACE_ON": "true",
            }
            (request,) = got
            told = properties.parse(request.ext["properties"].encode())
            assert told.pop("PUSH_REPLY_TIME") == request.ext["storeTimestamp"]
            assert told == found
            ext = request.ext
            assert (request.body, ext["topic"], ext["sysFlag"], ext["flag"]) == (b"pong", TOPIC, "1", "3")
            assert (ext["bornTimestamp"], ext["storeHost"]) == ("1700000000000", broker.address)
            assert ext["bornHost"].startswith("127.0.0.1:")
            needed = {"producerGroup", "defaultTopic", "defaultTopicQueueNums", "queueId", "reconsumeTimes", "unitMode"}
            assert needed < ext.keys()
            assert broker.store.appended_end == end  # it is not stored
            assert (broker.replies.pushed, broker.replies.failed) == (1, 0)
            producer.close()

    _run(test())


def test_a_reply_to_nobody_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply, "_CALL_S", 0.05)
    gone = asyncio.Event()

    async def silent(_connection: Connection, _request: Request) -> Response | None:
        await gone.wait()
        return None

    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            answer = await _reply(talk, b"pong", {"REPLY_TO_CLIENT": "p1"})
            assert answer.code == Code.SYSTEM_ERROR
            assert answer.remark == "push reply message fail, channel of <p1> not found."
            answer = await _reply(talk, b"pong", {"CORRELATION_ID": "42"})
            assert (answer.code, answer.remark) == (1, "reply message properties[REPLY_TO_CLIENT] is null")
            answers: tuple[Handlers, ...] = ({}, {Ask.PUSH_REPLY_MESSAGE_TO_CLIENT: silent})
            for handlers in answers:
                producer = Talk(broker.address, handlers)
                await producer.heartbeat("p1", produces=("pg",))
                answer = await _reply(talk, b"pong", {"REPLY_TO_CLIENT": "p1"})
                assert (answer.code, answer.remark) == (1, "push reply message to p1 fail.")
                producer.close()
            assert broker.replies.failed == 4

    _run(test())
