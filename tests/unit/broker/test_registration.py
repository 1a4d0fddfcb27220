"""A broker's registration over real sockets: several name servers, dead ones, restarted ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from litemq.broker.registration import Identity, Pace, Registered, Registration
from litemq.config import NameserverConfig
from litemq.errors import BadStore
from litemq.nameserver.server import NameServer
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection
from litemq.wire.remoting.server import Server
from litemq.wire.remoting.topic_table import DataVersion, checksum, decode

CONFIG = {"attributes": {}, "order": False, "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4}
QUICK = Pace(heartbeat_s=0.05, renew_s=0.2, timeout_s=2.0)
SLOW = Pace(heartbeat_s=60.0, renew_s=60.0, timeout_s=2.0)
IDENTITY = Identity(cluster="C", name="broker-a", address="127.0.0.1:10911")


class Topics:
    """The table of a broker."""

    def __init__(self, *names: str) -> None:
        self.table = Registered(DataVersion(1), dict.fromkeys(names, CONFIG))

    def change(self, *made: str, deleted: str = "", **config: object) -> None:
        topics = {**self.table.topics, **{name: {**CONFIG, **config} for name in made}}
        topics.pop(deleted, None)
        self.table = Registered(DataVersion(self.table.version.counter + 1), topics)

    def __call__(self) -> Registered:
        return self.table


async def started(port: int = 0) -> NameServer:
    server = NameServer(NameserverConfig(port=port))
    await server.start()
    return server


def address(server: NameServer) -> str:
    return f"127.0.0.1:{server.port}"


@asynccontextmanager
async def registered(topics: Topics, pace: Pace, *addresses: str) -> AsyncIterator[Registration]:
    registration = Registration(addresses, IDENTITY, topics, pace)
    await registration.start()
    try:
        yield registration
    finally:
        await registration.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - it looks at what has no event
            await asyncio.sleep(0.005)


def perm(server: NameServer, topic: str) -> int:
    return server.routes.topics[topic]["broker-a"].perm


def test_every_name_server_knows_the_broker_until_it_closes() -> None:
    async def test() -> None:
        servers = [await started(), await started()]
        async with registered(Topics("T1", "T2"), SLOW, *map(address, servers)) as registration:
            assert registration.in_reach == [address(server) for server in servers]
            for server in servers:
                assert sorted(server.routes.topics) == ["T1", "T2"]
                assert server.routes.brokers["broker-a"].members[0].timeout_ms == 30_000
        for server in servers:
            assert not server.routes.brokers
            await server.close()

    asyncio.run(test())


def test_one_topic_is_a_table_too() -> None:
    async def test() -> None:
        server = await started()
        async with registered(Topics("T1"), SLOW, address(server)):
            assert list(server.routes.topics) == ["T1"]
        await server.close()

    asyncio.run(test())


def test_changes_are_known_when_the_announcement_returns() -> None:
    async def test() -> None:
        servers = [await started(), await started()]
        topics = Topics("T1", "T2")
        async with registered(topics, SLOW, *map(address, servers)) as registration:
            topics.change("T3")
            await registration.announce(["T3"])
            assert all(server.routes.route("T3") for server in servers)
            topics.change("T3", perm=4)
            await registration.announce(["T3"])
            assert [perm(server, "T3") for server in servers] == [4, 4]
            topics.change(deleted="T1")
            await registration.announce(["T1"])
            assert [sorted(server.routes.topics) for server in servers] == [["T2", "T3"]] * 2
        for server in servers:
            await server.close()

    asyncio.run(test())


def test_many_changes_at_once_are_all_known() -> None:
    async def test() -> None:
        server = await started()
        topics = Topics("T1")
        async with registered(topics, SLOW, address(server)) as registration:

            async def make(name: str) -> None:
                topics.change(name)
                await asyncio.sleep(0)
                await registration.announce([name])
                assert server.routes.route(name)

            await asyncio.gather(*(make(f"N{number}") for number in range(300)))
            assert server.routes.topics.keys() == topics.table.topics.keys()
        await server.close()

    asyncio.run(test())


def test_a_table_of_many_topics_arrives_whole() -> None:
    async def test() -> None:
        server = await started()
        topics = Topics(*(f"T{number}" for number in range(1_001)))
        async with registered(topics, SLOW, address(server)):
            assert server.routes.topics.keys() == topics.table.topics.keys()
        await server.close()

    asyncio.run(test())


def test_a_restarted_name_server_is_told_everything_within_a_heartbeat() -> None:
    async def test() -> None:
        first, second = await started(), await started()
        topics = Topics("T1", "T2")
        async with registered(topics, QUICK, address(first), address(second)) as registration:
            port = first.port
            await first.close()
            await until(lambda: registration.in_reach == [address(second)])
            topics.change("T3")
            await registration.announce(["T3"])  # does not wait for the one that is away
            assert second.routes.route("T3")
            again = await started(port)
            began = asyncio.get_running_loop().time()
            await until(lambda: "T3" in again.routes.topics)
            assert asyncio.get_running_loop().time() - began < 1.0
            assert sorted(again.routes.topics) == ["T1", "T2", "T3"]
            assert registration.in_reach == [address(again), address(second)]
        for server in (again, second):
            await server.close()

    asyncio.run(test())


def test_heartbeats_keep_the_broker_alive_and_tell_what_was_forgotten() -> None:
    async def test() -> None:
        server = await started()
        async with registered(Topics("T1", "T2"), QUICK, address(server)):
            seen_ms = server.routes.brokers["broker-a"].members[0].seen_ms
            await until(lambda: server.routes.brokers["broker-a"].members[0].seen_ms > seen_ms)
            server.routes.delete_topic("T1")
            await until(lambda: "T1" in server.routes.topics)
            server.routes.unregister("broker-a", IDENTITY.address)
            await until(lambda: "T1" in server.routes.topics)
            server.routes.wipe_write("broker-a")
            seen_ms = server.routes.brokers["broker-a"].members[0].seen_ms
            await until(lambda: server.routes.brokers["broker-a"].members[0].seen_ms > seen_ms)
            assert perm(server, "T1") == 4
        await server.close()

    asyncio.run(test())


def test_a_change_that_nobody_announced_is_told_by_the_next_heartbeat() -> None:
    async def test() -> None:
        server = await started()
        topics = Topics("T1", "T2")
        async with registered(topics, QUICK, address(server)):
            topics.change("T3", deleted="T1")
            await until(lambda: sorted(server.routes.topics) == ["T2", "T3"])
        await server.close()

    asyncio.run(test())


def test_a_dead_name_server_holds_up_nobody() -> None:
    async def test() -> None:
        mute = Server({Ask.REGISTER_BROKER: lambda _, __: None})
        mute_port = await mute.listen("127.0.0.1", 0)
        gone = await started()
        await gone.close()
        server = await started()
        topics = Topics("T1", "T2")
        pace = Pace(heartbeat_s=0.05, timeout_s=0.2)
        addresses = (f"127.0.0.1:{mute_port}", address(gone), address(server))
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with registered(topics, pace, *addresses) as registration:
            assert loop.time() - began < 2.0
            assert registration.in_reach == [address(server)]
            began = loop.time()
            for number in range(20):
                topics.change(f"N{number}")
                await registration.announce([f"N{number}"])
                assert server.routes.route(f"N{number}")
            assert loop.time() - began < 2.0
        await server.close()
        await mute.close()

    asyncio.run(test())


def test_a_name_server_that_drops_connections_is_not_asked_all_the_time() -> None:
    async def test() -> None:
        calls = 0

        def drop(connection: Connection, _: Request) -> None:
            nonlocal calls
            calls += 1
            connection.abort()

        server = Server({Ask.REGISTER_BROKER: drop})
        port = await server.listen("127.0.0.1", 0)
        async with registered(Topics("T1"), Pace(heartbeat_s=10.0, timeout_s=1.0), f"127.0.0.1:{port}") as registration:
            await asyncio.sleep(0.2)
            assert calls == 1
            assert registration.in_reach == []
        await server.close()

    asyncio.run(test())


def test_a_rocketmq_name_server_gets_what_it_understands_and_the_whole_table_again() -> None:
    async def test() -> None:
        asked: list[Request] = []

        def take(_: Connection, request: Request) -> Response:
            asked.append(request)
            return Response()

        def compare(_: Connection, request: Request) -> Response:
            assert json.loads(request.body)["counter"] == 1
            return Response(ext={"changed": "false"})

        server = Server({Ask.REGISTER_BROKER: take, Ask.QUERY_DATA_VERSION: compare, Ask.UNREGISTER_BROKER: take})
        port = await server.listen("127.0.0.1", 0)
        async with registered(Topics("T1", "T2"), QUICK, f"127.0.0.1:{port}"):
            await until(lambda: len(asked) >= 3)
        await server.close()
        assert asked.pop().code == Ask.UNREGISTER_BROKER
        for request in asked:
            assert request.version >= 413
            assert request.ext["compressed"] == "false"
            assert int(request.ext["bodyCrc32"]) == checksum(request.body)
            assert request.ext["haServerAddr"] == IDENTITY.address
            assert sorted(decode(request.body, compressed=False).topics) == ["T1", "T2"]

    asyncio.run(test())


def test_a_name_server_that_refuses_is_asked_again() -> None:
    async def test() -> None:
        answers = [Response(Code.SYSTEM_ERROR, remark="not yet"), Response()]
        server = Server({Ask.REGISTER_BROKER: lambda _, __: answers.pop(0), Ask.UNREGISTER_BROKER: lambda _, __: None})
        port = await server.listen("127.0.0.1", 0)
        registration = Registration([f"127.0.0.1:{port}"], IDENTITY, Topics("T1", "T2"), SLOW)
        await registration.start()
        assert registration.in_reach == []
        await until(lambda: registration.in_reach != [])
        await server.close()
        await registration.close()

    asyncio.run(test())


@pytest.mark.parametrize("text", ["", "127.0.0.1", ":9876", "127.0.0.1:x", "127.0.0.1:65536"])
def test_an_address_that_is_none_is_named(text: str) -> None:
    with pytest.raises(BadStore, match="is no host and port"):
        Registration([text], IDENTITY, Topics("T1"))
