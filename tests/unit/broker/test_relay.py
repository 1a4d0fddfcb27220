"""Questions that go through the broker to a client, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Talk, records, running

from litemq.broker import relay
from litemq.broker.broker import Broker
from litemq.errors import BadBody
from litemq.wire.remoting import bodies
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handlers


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


@asynccontextmanager
async def _consumer(broker: Broker, handlers: Handlers, client_id: str = "c1") -> AsyncIterator[Talk]:
    """Yield a member of group ``cg`` that answers questions."""
    member = Talk(broker.address, handlers)
    try:
        await member.heartbeat(client_id, consumes={"cg": {"T": "*"}})
        yield member
    finally:
        member.close()


def test_a_consumer_says_how_it_does(tmp_path: Path) -> None:
    asked: list[Request] = []
    body = b'{"mqTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{}}}'  # no JSON: it must pass as it is

    def info(_connection: Connection, request: Request) -> Response:
        asked.append(request)
        return Response(ext={"x": "y"}, body=body, remark="well")

    async def test() -> None:
        async with (
            running(tmp_path) as (broker, talk),
            _consumer(broker, {Ask.GET_CONSUMER_RUNNING_INFO: info}),
        ):
            ext = {"consumerGroup": "cg", "clientId": "c1", "jstackEnable": "true"}
            answer = await talk.call(Ask.GET_CONSUMER_RUNNING_INFO, ext)
            assert (answer.code, answer.body, answer.remark, answer.ext) == (0, body, "well", {"x": "y"})
            assert asked[0].ext == ext

    _run(test())


def test_who_is_not_there_cannot_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "_CALL_S", 0.05)
    monkeypatch.setattr(relay, "_STATUS_S", 0.05)
    gone = asyncio.Event()

    async def silent(_connection: Connection, _request: Request) -> Response | None:
        await gone.wait()
        return None

    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            ext = {"consumerGroup": "cg", "clientId": "c1"}
            for code in (Ask.GET_CONSUMER_RUNNING_INFO, Ask.CONSUME_MESSAGE_DIRECTLY):
                answer = await talk.call(code, ext)
                assert answer.code == Code.SYSTEM_ERROR
                assert "<c1> not online" in (answer.remark or "")
            status = {"group": "cg", "topic": "T"}
            answer = await talk.call(Ask.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, status)
            assert answer.code == Code.CONSUMER_NOT_ONLINE
            asks = (Ask.GET_CONSUMER_RUNNING_INFO, Ask.CONSUME_MESSAGE_DIRECTLY, Ask.GET_CONSUMER_STATUS_FROM_CLIENT)
            async with _consumer(broker, dict.fromkeys(asks, silent)):
                for code in asks[:2]:
                    assert (await talk.call(code, ext)).code == Code.CONSUME_MSG_TIMEOUT
                answer = await talk.call(Ask.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, status)
                assert (answer.code, answer.body) == (0, b'{"consumerTable":{}}')

    _run(test())


def test_a_client_that_is_too_old_is_not_asked(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk), _consumer(broker, {}):
            connection = broker.clients.consumer("cg", "c1")
            assert connection is not None
            connection.version = 61
            ext = {"consumerGroup": "cg", "clientId": "c1"}
            answer = await talk.call(Ask.GET_CONSUMER_RUNNING_INFO, ext)
            assert answer.code == Code.SYSTEM_ERROR
            assert "too low" in (answer.remark or "")

    _run(test())


def test_a_consumer_consumes_a_message_at_once(tmp_path: Path) -> None:
    asked: list[Request] = []

    def consume(_connection: Connection, request: Request) -> Response:
        asked.append(request)
        return Response(body=b'{"consumeResult":"CR_SUCCESS"}')

    async def test() -> None:
        async with (
            running(tmp_path) as (broker, talk),
            _consumer(broker, {Ask.CONSUME_MESSAGE_DIRECTLY: consume}),
        ):
            sent = await talk.send("T", b"hello", UNIQ_KEY="U1")
            for message_id, client in ((sent.ext["msgId"], "c1"), ("U1", "")):
                ext = {"consumerGroup": "cg", "clientId": client, "msgId": message_id, "topic": "T"}
                answer = await talk.call(Ask.CONSUME_MESSAGE_DIRECTLY, ext)
                assert answer.body == b'{"consumeResult":"CR_SUCCESS"}'
                assert asked[-1].ext == {**ext, "brokerName": "broker-a"}
                assert [record.body for record in records(asked[-1].body)] == [b"hello"]
            ext = {"consumerGroup": "cg", "clientId": "c1", "msgId": "none", "topic": "T"}
            answer = await talk.call(Ask.CONSUME_MESSAGE_DIRECTLY, ext)
            assert answer.code == Code.SYSTEM_ERROR
            assert "'none'" in (answer.remark or "")
            assert len(asked) == 2

    _run(test())


def test_members_say_where_they_are(tmp_path: Path) -> None:
    queue = b'{{"brokerName":"b","queueId":0,"topic":"T}"}:%d}'

    def status(offset: int) -> Handlers:
        body = b'{"consumerTable":{},"messageQueueTable":' + queue % offset + b"}"
        return {Ask.GET_CONSUMER_STATUS_FROM_CLIENT: lambda _connection, _request: Response(body=body)}

    async def test() -> None:
        async with (
            running(tmp_path) as (broker, talk),
            _consumer(broker, status(5), "c1"),
            _consumer(broker, status(7), "c2"),
        ):
            ext = {"group": "cg", "topic": "T"}
            answer = await talk.call(Ask.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, ext)
            assert answer.body == b'{"consumerTable":{"c1":%b,"c2":%b}}' % (queue % 5, queue % 7)
            answer = await talk.call(Ask.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {**ext, "clientAddr": "c2"})
            assert answer.body == b'{"consumerTable":{"c2":%b}}' % (queue % 7)

    _run(test())


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"t":{{"a":1}:2},"u":3}', b'{{"a":1}:2}'),
        (b'{"x":"\\"}{","t": {"k":"}\\\\"} }', b'{"k":"}\\\\"}'),
        (b'{"t":[{}]}', None),
        (b'{"t":null,"u":{}}', None),
        (b'{"u":{}}', None),
        (b"", None),
    ],
)
def test_a_member_is_cut_out_of_what_is_no_json(body: bytes, found: bytes | None) -> None:
    assert bodies.raw_member(body, "t") == found


def test_a_member_that_does_not_end_is_refused() -> None:
    with pytest.raises(BadBody, match="does not end"):
        bodies.raw_member(b'{"t":{"a":{}', "t")
