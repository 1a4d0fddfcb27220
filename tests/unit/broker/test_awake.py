"""A client that waits for each answer keeps the broker awake; messages and answers are what they are without it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop
from tests.support.broker import records, running
from tests.support.raw_client import SEND_V2, frame

from litemq.config import BrokerConfig, StoreConfig

COUNT = 600


def ping_pong(port: int) -> int:
    """Send one message after the other; return how many answers named the offset that they should."""
    right = 0
    with socket.create_connection(("127.0.0.1", port)) as client, client.makefile("rb") as answers:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(COUNT):
            ext = {"a": "pg", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0"}
            ext |= {"i": f"UNIQ_KEY\x01K{number}", "j": "0", "k": "false", "m": "false"}
            request = frame(SEND_V2, ext, b"m%d" % number, opaque=number)
            if number % 7:
                client.sendall(request)
            else:  # in two parts: the loop collects what is no whole frame
                client.sendall(request[:20])
                client.sendall(request[20:])
            answer = answers.read(int.from_bytes(answers.read(4), "big"))
            right += b'"opaque":%d,' % number in answer and b'"queueOffset":"%d"' % number in answer
    return right


@pytest.mark.parametrize("flush", ["async", "group"])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_one_send_after_the_other(tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop], flush: str) -> None:
    async def test() -> None:
        config = BrokerConfig(port=0, name_servers=(), busy_poll_us=100_000)
        store = StoreConfig(flush=flush)  # type: ignore[arg-type] # one of its words
        async with running(tmp_path, config=config, store=store) as (broker, talk):
            await talk.send("T", b"makes the topic", queue=1)
            port = int(broker.address.rpartition(":")[2])
            assert await asyncio.to_thread(ping_pong, port) == COUNT
            assert broker.bench.busy_poll.turns > 0
            for first in range(0, COUNT, 30):
                found = records((await talk.pull("T", first, count=30)).body)
                assert [record.body for record in found] == [b"m%d" % n for n in range(first, first + 30)]

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(test(), 60))
