"""A connection that reads a backlog lets the others in between; what it asked is answered all the same, in order."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop
from tests.support.broker import records, running, until
from tests.support.raw_client import PULL, SEND_V2, frame

from litemq.broker.broker import Broker
from litemq.broker.faces.remoting.protocol import BrokerConnection
from litemq.config import StoreConfig
from litemq.store.message_store import MessageStore

MESSAGES = 8


class Scene:
    """A broker whose clock says that each pull takes long, and how often a connection left pulls for later."""

    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broker = broker
        self.port = int(broker.address.rpartition(":")[2])
        self.left = 0
        self.behind = asyncio.Event()
        ticks = itertools.count(1)
        broker.bench.now_ns = lambda: next(ticks) * 60_000
        before = BrokerConnection.later

        def later(connection: BrokerConnection) -> bool:
            self.left += 1
            self.behind.set()
            return before(connection)

        monkeypatch.setattr(BrokerConnection, "later", later)


@asynccontextmanager
async def scene(
    folder: Path, monkeypatch: pytest.MonkeyPatch, body: int = 10, store: StoreConfig | None = None
) -> AsyncIterator[Scene]:
    async with running(folder, store=store) as (broker, talk):
        for number in range(MESSAGES):
            await talk.send("T", b"%d" % number * body)
        yield Scene(broker, monkeypatch)


def pull(number: int, wanted: str = "*", kind: str = "TAG") -> bytes:
    ext = {
        "consumerGroup": "cg",
        "topic": "T",
        "queueId": "0",
        "queueOffset": str(number % MESSAGES),
        "maxMsgNums": "1",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": wanted,
        "subVersion": "0",
        "expressionType": kind,
    }
    return frame(PULL, ext, opaque=number)


def send(number: int) -> bytes:
    ext = {"a": "pg", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0"}
    ext |= {"i": f"UNIQ_KEY\x01K{number}", "j": "0", "k": "false", "m": "false"}
    return frame(SEND_V2, ext, b"sent", opaque=number)


def connect(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=20)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def answers(client: socket.socket, count: int) -> list[bytes]:
    with client.makefile("rb") as stream:
        return [stream.read(int.from_bytes(stream.read(4), "big")) for _ in range(count)]


def body_of(answer: bytes) -> bytes:
    return records(answer[4 + int.from_bytes(answer[1:4], "big") :])[0].body


LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
Loop = Callable[[], asyncio.AbstractEventLoop]


@LOOPS
def test_answers_keep_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: Loop) -> None:
    async def test() -> None:
        async with scene(tmp_path, monkeypatch) as here:

            def client() -> list[bytes]:
                with connect(here.port) as client:
                    client.sendall(b"".join(map(pull, range(40))) + send(40) + b"".join(map(pull, range(41, 50))))
                    return answers(client, 50)

            found = await asyncio.to_thread(client)
            pulled = [answer for answer in found if b'"opaque":40,' not in answer]  # a send's may overtake pulls'
            numbers = [*range(40), *range(41, 50)]
            assert [b'"opaque":%d,' % n in answer for n, answer in zip(numbers, pulled, strict=True)] == [True] * 49
            assert [body_of(answer) for answer in pulled] == [b"%d" % (n % MESSAGES) * 10 for n in numbers]
            assert here.left >= 20
            assert not any(connection.is_behind for connection in here.broker.server.connections)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(test(), 60))


@LOOPS
def test_another_connection_gets_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: Loop) -> None:
    """While one has pulls left, the other's send is answered: the log's order shows between which."""

    async def test() -> None:
        async with scene(tmp_path, monkeypatch) as here:
            mine, other = connect(here.port), connect(here.port)
            with mine, other:
                # The loop finds both together; whoever comes first, the last send of ``mine`` comes last.
                mine.sendall(b"".join(map(pull, range(40))) + send(40))
                other.sendall(send(0))
                (theirs,) = await asyncio.to_thread(answers, other, 1)
                last = (await asyncio.to_thread(answers, mine, 41))[-1]
                assert b'"queueOffset":"%d"' % MESSAGES in theirs
                assert b'"queueOffset":"%d"' % (MESSAGES + 1) in last

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(test(), 60))


@LOOPS
@pytest.mark.parametrize("reset", [False, True])
def test_what_was_left_is_served_after_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: Loop, reset: bool
) -> None:
    async def test() -> None:
        async with scene(tmp_path, monkeypatch) as here:
            client = connect(here.port)
            client.sendall(b"".join(map(pull, range(40))) + send(40))
            if reset:  # it closes without having read its answers
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.close()
            await until(lambda: here.broker.store.reader.max_offset("T", 0) == MESSAGES + 1)
            await until(lambda: len(here.broker.server.connections) == 1)
            assert here.left > 0

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(test(), 60))


@LOOPS
def test_a_slow_reader_gets_everything_once_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: Loop
) -> None:
    async def test() -> None:
        async with scene(tmp_path, monkeypatch, body=200_000) as here:
            with connect(here.port) as client:
                client.sendall(b"".join(map(pull, range(60))))
                await until(lambda: any(connection.is_paused for connection in here.broker.server.connections))
                found = await asyncio.to_thread(answers, client, 60)
                assert [body_of(answer)[:1] for answer in found] == [b"%d" % (n % 8) for n in range(60)]
                client.sendall(pull(60))
                assert len(await asyncio.to_thread(answers, client, 1)) == 1
                assert here.left > 0

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(test(), 60))


def test_what_is_no_frame_ends_the_connection_behind_what_was_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with scene(tmp_path, monkeypatch) as here:
            with connect(here.port) as client:
                client.sendall(b"".join(map(pull, range(10))) + send(10) + b"\xff" * 8)
                await until(lambda: here.broker.store.reader.max_offset("T", 0) == MESSAGES + 1)
                await until(lambda: len(here.broker.server.connections) == 1)
                assert here.left > 0

    asyncio.run(asyncio.wait_for(test(), 60))


def test_pulls_that_find_nothing_give_way_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with scene(tmp_path, monkeypatch) as here:
            with connect(here.port) as client:
                client.sendall(b"".join(pull(number, "price > 5", "SQL92") for number in range(40)))
                found = await asyncio.to_thread(answers, client, 40)
                assert [b'"opaque":%d,' % number in answer for number, answer in enumerate(found)] == [True] * 40
                assert here.left >= 15

    asyncio.run(asyncio.wait_for(test(), 60))


@LOOPS
@pytest.mark.parametrize("flush", ["async", "group"])
def test_what_was_left_is_answered_when_the_broker_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: Loop, flush: str
) -> None:
    config = StoreConfig(flush=flush)  # type: ignore[arg-type] # one of its words

    async def test() -> None:
        async with scene(tmp_path, monkeypatch, store=config) as here:
            client = connect(here.port)
            client.sendall(b"".join(map(pull, range(200))) + b"".join(map(send, range(200, 220))))
            await here.behind.wait()
        with client:
            found = await asyncio.to_thread(answers, client, 220)
        assert {b'"opaque":%d,' % number in b"".join(found) for number in range(220)} == {True}
        with MessageStore.open(tmp_path) as store:
            assert store.reader.max_offset("T", 0) == MESSAGES + 20

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(test(), 60))


@LOOPS
def test_what_was_served_is_not_served_again_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: Loop
) -> None:
    hold, calls = BrokerConnection.hold, itertools.count(1)

    def failing(connection: BrokerConnection, held: bytes) -> int:
        if next(calls) == 2:
            raise RuntimeError("injected")
        return hold(connection, held)

    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        async with scene(tmp_path, monkeypatch, store=StoreConfig(flush="group")) as here:
            monkeypatch.setattr(BrokerConnection, "hold", failing)
            with connect(here.port) as client:
                client.sendall(b"".join(send(3 * n) + pull(3 * n + 1) + pull(3 * n + 2) for n in range(20)))
                await here.behind.wait()
                await until(lambda: len(here.broker.server.connections) == 1)
            assert next(calls) > 2
            found = here.broker.store.records("T", 0, MESSAGES, max_count=100)
            stored = [record.message_id for record in found]
            assert len(stored) == len(set(stored)) > 0

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(test(), 60))


def test_a_connection_is_forgotten_whatever_its_last_words_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_connection: BrokerConnection) -> int:
        raise RuntimeError("injected")

    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        async with scene(tmp_path, monkeypatch) as here:
            with monkeypatch.context() as patch, connect(here.port) as client:
                await until(lambda: len(here.broker.server.connections) == 2)
                patch.setattr(BrokerConnection, "go_on", failing)
                client.close()
                await until(lambda: len(here.broker.server.connections) == 1)

    asyncio.run(asyncio.wait_for(test(), 60))


def test_the_send_that_crosses_a_bound_asks_for_the_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may come behind it: producers wait for that flush."""
    config = StoreConfig(flush_bytes=4096, flush_interval_ms=60_000)

    async def test() -> None:
        async with scene(tmp_path, monkeypatch, store=config) as here:
            store = here.broker.store
            start = await asyncio.to_thread(store.flush)
            with connect(here.port) as client:
                while store.appended_end - start < config.flush_bytes:
                    client.sendall(send(0))
                    await asyncio.to_thread(answers, client, 1)
                await until(lambda: store.flushed_end > start)

    asyncio.run(asyncio.wait_for(test(), 60))
