"""LiteMQ's name server beside RocketMQ's: each takes the other's brokers, and both give the same answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.clients.conftest import StartBroker
from tests.clients.rocketmq import BROKER, CLUSTER, Driver, Sizes

from litemq.broker.registration import Identity, Pace, Registered, Registration
from litemq.config import NameserverConfig
from litemq.nameserver.server import NameServer
from litemq.wire.remoting.client import Client
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.topic_table import DataVersion

pytestmark = pytest.mark.clients

CONFIG = {"attributes": {}, "order": False, "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4}
OURS = Identity(cluster=CLUSTER, name="broker-ours", address="127.0.0.1:30911")


async def asked(client: Client, code: int, **ext: str) -> Any:  # noqa: ANN401 - JSON
    answer = await client.call(code, ext)
    assert answer.code == Code.SUCCESS, answer.remark
    return json.loads(answer.body)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await holds():  # noqa: ASYNC110 - another process has no event
            await asyncio.sleep(0.05)


async def is_gone(server: NameServer) -> bool:
    return not server.routes.brokers


async def has_route(client: Client, topic: str) -> bool:
    return (await client.call(Ask.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})).code == Code.SUCCESS


def test_our_broker_registers_with_a_real_name_server(driver: Driver) -> None:
    async def test() -> None:
        ours = NameServer(NameserverConfig(port=0))
        await ours.start()
        addresses = [f"127.0.0.1:{driver.name_server_port}", f"127.0.0.1:{ours.port}"]
        tables = [Registered(DataVersion(1, 1_700_000_000_000), {"L1": CONFIG, "L2": CONFIG})]
        registration = Registration(addresses, OURS, lambda: tables[-1], Pace(heartbeat_s=0.1, renew_s=0.5))
        clients = [Client(address) for address in addresses]
        await registration.start()
        assert registration.in_reach == addresses
        tables.append(Registered(DataVersion(2, 1_700_000_000_001), {**tables[-1].topics, "L3": CONFIG}))
        await registration.announce(["L3"])
        for topic in ("L1", "L3"):
            real, own = [await asked(client, Ask.GET_ROUTEINFO_BY_TOPIC, topic=topic) for client in clients]
            assert own == real
        await clients[0].call(Ask.DELETE_TOPIC_IN_NAMESRV, {"topic": "L1"})
        await until(lambda: has_route(clients[0], "L1"))  # it is told the whole table again
        await registration.close()
        assert [await has_route(client, "L3") for client in clients] == [False, False]
        for client in clients:
            client.close()
        await ours.close()

    asyncio.run(test())


def test_a_real_broker_registers_with_our_name_server(driver: Driver, real_broker: StartBroker, tmp_path: Path) -> None:
    async def test() -> None:
        ours = NameServer(NameserverConfig(port=0))
        await ours.start()
        addresses = [f"127.0.0.1:{driver.name_server_port}", f"127.0.0.1:{ours.port}"]
        clients = [Client(address) for address in addresses]
        broker = real_broker(tmp_path / "store", Sizes(), namesrvAddr=";".join(addresses))
        await asyncio.to_thread(broker.start)
        await until(lambda: has_route(clients[1], "SELF_TEST_TOPIC"))
        lists = [await asked(client, Ask.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) for client in clients]
        assert sorted(lists[0]["topicList"]) == sorted(lists[1]["topicList"])
        for topic in lists[0]["topicList"]:
            real, own = [await asked(client, Ask.GET_ROUTEINFO_BY_TOPIC, topic=topic) for client in clients]
            assert own == real
        assert BROKER in ours.routes.brokers
        await asyncio.to_thread(broker.stop)
        await until(lambda: is_gone(ours))
        for client in clients:
            client.close()
        await ours.close()

    asyncio.run(test())
