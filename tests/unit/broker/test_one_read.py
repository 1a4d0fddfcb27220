"""What one read brings: the answers of a connection stay its own, whatever else comes with it."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.support.broker import records, running, until
from tests.support.forgetful_fs import ForgetfulFileSystem

from litemq.config import StoreConfig
from litemq.wire.remoting.codes import JSON, Ask, Code
from litemq.wire.remoting.command import Request, Response, decode, encode_request

SEND = {"a": "pg", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0"}
SEND |= {"i": "UNIQ_KEY\x01K"}
SEND |= {"j": "0", "k": "false", "m": "false"}


def send_frame(opaque: int) -> bytes:
    return bytes(encode_request(Request(Ask.SEND_MESSAGE_V2, SEND, b"body", opaque=opaque, flag=0, codec=JSON)))


async def read_answers(reader: asyncio.StreamReader, *, until_end: bool = False) -> list[int]:
    """Return the opaques of the answers that come, until there is one, or until the connection ends."""
    found: list[int] = []
    try:
        while until_end or not found:
            size = await asyncio.wait_for(reader.readexactly(4), 5)
            frame = size + await reader.readexactly(int.from_bytes(size, "big"))
            answer = decode(frame)
            assert isinstance(answer, Response)
            assert answer.code == Code.SUCCESS
            found.append(answer.opaque)
    except asyncio.IncompleteReadError:
        pass
    return found


@pytest.mark.parametrize(("count", "expected"), [(1, [1, 10]), (2, [10, 11, 1])], ids=["one", "several"])
def test_what_a_client_gets_first(tmp_path: Path, count: int, expected: list[int]) -> None:
    """A single send's client sleeps: its answer comes behind the message.  One that sends on gets the answers first."""

    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await talk.send("T", b"makes the topic")
            host, _, port = broker.address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(send_frame(0))  # opens the queue
            assert await read_answers(reader) == [0]
            pull = {"consumerGroup": "cg", "topic": "T", "queueId": "0", "queueOffset": "2", "maxMsgNums": "32"}
            pull |= {"sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "20000", "subscription": "*"}
            pull |= {"subVersion": "0", "expressionType": "TAG"}
            parked = Request(Ask.PULL_MESSAGE, pull, b"", opaque=1, flag=0, codec=JSON)
            writer.write(bytes(encode_request(parked)))
            await until(lambda: broker.bench.puller.polls.count > 0)
            writer.write(b"".join(send_frame(10 + number) for number in range(count)))
            found: list[int] = []
            while len(found) < len(expected):
                found += await read_answers(reader)
            assert found == expected
            writer.close()

    asyncio.run(asyncio.wait_for(test(), 30))


@pytest.mark.parametrize("flush", ["async", "group"])
def test_a_bad_frame_behind_a_send_leaves_no_answer_to_others(tmp_path: Path, flush: Literal["async", "group"]) -> None:
    async def test() -> None:
        async with running(tmp_path, store=StoreConfig(flush=flush)) as (broker, talk):
            await talk.send("T", b"makes the topic")
            host, _, port = broker.address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            header = b"{not json"
            bad = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
            writer.write(send_frame(111) + bad)
            other_reader, other = await asyncio.open_connection(host, int(port))
            assert set(await read_answers(reader, until_end=True)) <= {111}
            other.write(send_frame(222))
            assert await read_answers(other_reader) == [222]
            writer.close()
            other.close()
            answer = await talk.pull("T", 0)
            assert len(records(answer.body)) == 3  # what was stored is there

    asyncio.run(asyncio.wait_for(test(), 30))


class ByHand(Executor):
    """Runs what it is given when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Any]] = []

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401 - as its base
        future: Future[Any] = Future()
        self.waiting.append((future, work))
        return future

    def run(self) -> None:
        for future, work in self.waiting:
            future.set_result(work())


def test_a_message_that_comes_while_the_disk_is_read_is_not_missed(tmp_path: Path) -> None:
    async def test() -> None:
        fs = ForgetfulFileSystem()
        async with running(Path("/store-of-a-fake"), fs=fs) as (broker, talk):
            for number in range(20):
                await talk.send("T", b"m%d" % number, TAGS="other")
            broker.store.checkpoint()
            by_hand = ByHand()
            broker.puller._cold = by_hand
            fs.is_cold = True
            waiting = asyncio.create_task(talk.pull("T", 0, wanted="TAGS = 'wanted'", kind="SQL92", park_ms=25_000))
            await until(lambda: bool(by_hand.waiting))
            await talk.send("T", b"the one", TAGS="wanted")
            fs.is_cold = False
            by_hand.run()
            async with asyncio.timeout(5):
                answer = await waiting
            assert [record.body for record in records(answer.body)] == [b"the one"]

    asyncio.run(asyncio.wait_for(test(), 30))
