"""A name server over real sockets."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from litemq.clock import ManualClock
from litemq.config import NameserverConfig
from litemq.nameserver.server import NameServer
from litemq.wire.remoting.client import Client
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Response
from litemq.wire.remoting.topic_table import DataVersion, checksum, encode

CONFIG = {"perm": 6, "readQueueNums": 4, "writeQueueNums": 4}
TABLE = {"T1": CONFIG, "T2": CONFIG, "%RETRY%G": CONFIG}
BROKER = {"brokerName": "broker-a", "brokerAddr": "127.0.0.1:10911", "clusterName": "C", "brokerId": "0"}
HEADER = {**BROKER, "haServerAddr": "127.0.0.1:10912", "compressed": "false"}


class Running:
    """A name server and a client of it."""

    def __init__(self, server: NameServer, clock: ManualClock) -> None:
        self.server = server
        self.clock = clock
        self.clients: list[Client] = []
        self.client = self.connect()

    def connect(self) -> Client:
        self.clients.append(Client(f"127.0.0.1:{self.server.port}"))
        return self.clients[-1]

    async def ask(self, code: int, body: bytes = b"", /, **ext: str) -> Response:
        return await self.client.call(code, ext, body)

    async def done(self, code: int, body: bytes = b"", /, **ext: str) -> Response:
        answer = await self.ask(code, body, **ext)
        assert answer.code == Code.SUCCESS, answer.remark
        return answer

    async def shown(self, code: int, /, **ext: str) -> Any:  # noqa: ANN401 - JSON
        return json.loads((await self.done(code, **ext)).body)

    async def register(self, *, by: Client | None = None, **ext: str) -> Response:
        body = encode(DataVersion(1), TABLE)
        header = {**HEADER, "bodyCrc32": str(checksum(body)), **ext}
        return await (by or self.client).call(Ask.REGISTER_BROKER, header, body)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not holds():  # noqa: ASYNC110 - it looks at what has no event
                await asyncio.sleep(0.005)


@asynccontextmanager
async def running(**settings: Any) -> AsyncIterator[Running]:  # noqa: ANN401 - fields of the config
    clock = ManualClock()
    server = NameServer(NameserverConfig(port=0, **settings), clock=clock)
    await server.start()
    made = Running(server, clock)
    try:
        yield made
    finally:
        for client in made.clients:
            client.close()
        await server.close()


def run(test: Callable[[Running], Coroutine[Any, Any, None]], **settings: object) -> None:
    async def whole() -> None:
        async with running(**settings) as made:
            await test(made)

    asyncio.run(whole())


def test_a_registered_broker_is_in_routes_and_lists() -> None:
    async def test(made: Running) -> None:
        assert (await made.register()).code == Code.SUCCESS
        route = await made.shown(Ask.GET_ROUTEINFO_BY_TOPIC, topic="T1")
        assert route["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:10911"}
        assert route["queueDatas"][0]["writeQueueNums"] == 4
        info = await made.shown(Ask.GET_BROKER_CLUSTER_INFO)
        assert info["clusterAddrTable"] == {"C": ["broker-a"]}
        assert info["brokerAddrTable"]["broker-a"]["brokerAddrs"] == {"0": "127.0.0.1:10911"}
        topics = list(TABLE)
        assert (await made.shown(Ask.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))["topicList"] == topics
        assert (await made.shown(Ask.GET_TOPICS_BY_CLUSTER, cluster="C"))["topicList"] == sorted(topics)
        assert (await made.shown(Ask.GET_SYSTEM_TOPIC_LIST_FROM_NS))["brokerAddr"] == "127.0.0.1:10911"
        for code in (311, 312, 313):
            assert await made.shown(code) == {"topicList": []}
        group = await made.shown(Ask.GET_BROKER_MEMBER_GROUP, clusterName="C", brokerName="broker-a")
        assert group["brokerMemberGroup"]["brokerAddrs"] == {"0": "127.0.0.1:10911"}

    run(test)


def test_an_unknown_topic_has_no_route() -> None:
    async def test(made: Running) -> None:
        answer = await made.ask(Ask.GET_ROUTEINFO_BY_TOPIC, topic="T9")
        assert answer.code == Code.TOPIC_NOT_EXIST
        assert "T9" in str(answer.remark)
        assert (await made.ask(Ask.GET_ROUTEINFO_BY_TOPIC)).code == Code.INVALID_PARAMETER
        assert (await made.ask(9999)).code == Code.REQUEST_CODE_NOT_SUPPORTED

    run(test)


def test_a_wrong_checksum_or_a_single_topic_is_refused() -> None:
    async def test(made: Running) -> None:
        answer = await made.register(bodyCrc32="1")
        assert (answer.code, "CRC" in str(answer.remark)) == (Code.SYSTEM_ERROR, True)
        one = encode(DataVersion(1), {"T1": CONFIG})
        answer = await made.client.call(Ask.REGISTER_BROKER, HEADER, one)
        assert (answer.code, "whole table" in str(answer.remark)) == (Code.SYSTEM_ERROR, True)
        assert (await made.register(brokerId="x")).code == Code.INVALID_PARAMETER
        assert (await made.register(clusterName="a\nb")).code == Code.INVALID_PARAMETER
        assert not made.server.routes.brokers

    run(test)


def test_a_compressed_table_is_taken() -> None:
    async def test(made: Running) -> None:
        parts = [b'{"counter":1}', b"T1 4 4 6 SINGLE_TAG", b"T2 4 4 6 SINGLE_TAG", b"[]"]
        sized = [len(part).to_bytes(4, "big") + part for part in parts]
        body = zlib.compress(sized[0] + (2).to_bytes(4, "big") + b"".join(sized[1:]))
        header = {**HEADER, "compressed": "true", "bodyCrc32": str(checksum(body))}
        assert (await made.client.call(Ask.REGISTER_BROKER, header, body)).code == Code.SUCCESS
        assert sorted(made.server.routes.topics) == ["T1", "T2"]

    run(test)


def test_a_broker_goes_with_its_connection() -> None:
    async def test(made: Running) -> None:
        broker = made.connect()
        await made.register(by=broker)
        await made.register(by=broker)
        assert "broker-a" in made.server.routes.brokers
        broker.close()
        await made.until(lambda: not made.server.routes.brokers)
        assert (await made.ask(Ask.GET_ROUTEINFO_BY_TOPIC, topic="T1")).code == Code.TOPIC_NOT_EXIST

    run(test)


def test_a_broker_that_registered_through_another_connection_stays() -> None:
    async def test(made: Running) -> None:
        first, second = made.connect(), made.connect()
        await made.register(by=first)
        await made.register(by=second)
        first.close()
        await made.until(lambda: len(made.server._server.connections) == 1)
        assert "broker-a" in made.server.routes.brokers

    run(test)


@pytest.mark.parametrize(
    ("sign", "header", "patience_ms"),
    [
        (None, {}, 120_000),
        (None, {"heartbeatTimeoutMillis": "10000"}, 10_000),
        (Ask.BROKER_HEARTBEAT, {}, 30_000),
    ],
)
def test_a_silent_broker_expires_and_is_cut_off(sign: Ask | None, header: dict[str, str], patience_ms: int) -> None:
    async def test(made: Running) -> None:
        lost = asyncio.Event()
        broker = Client(f"127.0.0.1:{made.server.port}", on_lost=lost.set)
        await made.register(by=broker, **header)
        if sign is not None:
            await broker.call(sign, BROKER)
        made.clock.advance(patience_ms)
        made.server.expire()
        assert "broker-a" in made.server.routes.brokers
        made.clock.advance(1)
        made.server.expire()
        assert not made.server.routes.brokers
        async with asyncio.timeout(5):
            await lost.wait()

    run(test)


def test_the_scan_runs_by_itself_and_its_interval_can_be_changed() -> None:
    async def test(made: Running) -> None:
        await made.register()
        made.clock.advance(120_001)
        await made.done(Ask.UPDATE_NAMESRV_CONFIG, b"scanNotActiveBrokerInterval=100")
        await made.until(lambda: not made.server.routes.brokers)

    run(test)


def test_the_data_version_tells_whether_the_table_is_known() -> None:
    async def test(made: Running) -> None:
        body = json.dumps(DataVersion(1).to_json()).encode()
        answer = await made.done(Ask.QUERY_DATA_VERSION, body, **BROKER)
        assert (answer.ext, answer.body) == ({"changed": "true"}, b"")
        await made.register()
        made.clock.advance(120_000)
        answer = await made.done(Ask.QUERY_DATA_VERSION, body, **BROKER)
        assert answer.ext == {"changed": "false"}
        assert json.loads(answer.body) == {"counter": 1, "stateVersion": 0, "timestamp": 0}
        made.clock.advance(120_000)
        made.server.expire()
        assert "broker-a" in made.server.routes.brokers
        newer = json.dumps(DataVersion(2).to_json()).encode()
        assert (await made.done(Ask.QUERY_DATA_VERSION, newer, **BROKER)).ext == {"changed": "true"}
        assert (await made.ask(Ask.QUERY_DATA_VERSION, b"[", **BROKER)).code == Code.INVALID_PARAMETER

    run(test)


def test_unregister_delete_and_permissions() -> None:
    async def test(made: Running) -> None:
        await made.register()
        wiped = await made.done(Ask.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a")
        assert wiped.ext == {"wipeTopicCount": "3"}
        assert (await made.shown(Ask.GET_ROUTEINFO_BY_TOPIC, topic="T1"))["queueDatas"][0]["perm"] == 4
        added = await made.done(Ask.ADD_WRITE_PERM_OF_BROKER, brokerName="broker-a")
        assert added.ext == {"addTopicCount": "3"}
        await made.done(Ask.DELETE_TOPIC_IN_NAMESRV, topic="T1", clusterName="C")
        await made.done(Ask.DELETE_TOPIC_IN_NAMESRV, topic="T1")
        assert (await made.ask(Ask.GET_ROUTEINFO_BY_TOPIC, topic="T1")).code == Code.TOPIC_NOT_EXIST
        await made.register()  # the same bytes as before: they are read again all the same
        await made.done(Ask.GET_ROUTEINFO_BY_TOPIC, topic="T1")
        offered = {"queueDatas": [{"brokerName": "broker-a", **CONFIG}]}
        await made.done(Ask.REGISTER_TOPIC_IN_NAMESRV, json.dumps(offered).encode(), topic="T7")
        await made.done(Ask.GET_ROUTEINFO_BY_TOPIC, topic="T7")
        for body in (b'{"queueDatas":1}', b'{"queueDatas":[1]}', b'{"queueDatas":[{}]}'):
            assert (await made.ask(Ask.REGISTER_TOPIC_IN_NAMESRV, body, topic="T8")).code == Code.INVALID_PARAMETER
        await made.done(Ask.UNREGISTER_BROKER, **BROKER)
        assert not made.server.routes.brokers

    run(test)


def test_a_copy_is_told_its_master() -> None:
    async def test(made: Running) -> None:
        await made.register()
        answer = await made.register(brokerId="1", brokerAddr="127.0.0.1:10921")
        assert answer.ext == {"masterAddr": "127.0.0.1:10911", "haServerAddr": "127.0.0.1:10912"}

    run(test)


def test_key_values(tmp_path: Path) -> None:
    async def test(made: Running) -> None:
        await made.done(Ask.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="T1", value="broker-a:4")
        found = await made.done(Ask.GET_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="T1")
        assert found.ext == {"value": "broker-a:4"}
        assert await made.shown(Ask.GET_KVLIST_BY_NAMESPACE, namespace="ORDER_TOPIC_CONFIG") == {
            "table": {"T1": "broker-a:4"}
        }
        assert json.loads((await made.register()).body) == {"table": {"T1": "broker-a:4"}}
        await made.done(Ask.UPDATE_NAMESRV_CONFIG, b"returnOrderTopicConfigToBroker=false")
        assert (await made.register()).body == b""

    async def test_again(made: Running) -> None:
        await made.done(Ask.GET_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="T1")
        for _ in range(2):
            await made.done(Ask.DELETE_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="T1")
        gone = await made.ask(Ask.GET_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="T1")
        assert gone.code == Code.QUERY_NOT_FOUND
        assert (await made.ask(Ask.GET_KVLIST_BY_NAMESPACE, namespace="N")).code == Code.QUERY_NOT_FOUND
        assert (await made.ask(Ask.PUT_KV_CONFIG, namespace="N", key="k")).code == Code.INVALID_PARAMETER

    run(test, data=tmp_path)
    run(test_again, data=tmp_path)


def test_settings_are_shown_and_changed_by_name() -> None:
    async def test(made: Running) -> None:
        text = (await made.done(Ask.GET_NAMESRV_CONFIG)).body.decode()
        assert f"listenPort={made.server.port}\n" in text
        assert "brokerExpiryMillis=120000\n" in text
        await made.done(Ask.UPDATE_NAMESRV_CONFIG, b"brokerExpiryMillis=5000\nenableAllTopicList=false\n")
        text = (await made.done(Ask.GET_NAMESRV_CONFIG)).body.decode()
        assert "brokerExpiryMillis=5000\n" in text
        assert (await made.ask(Ask.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).code == Code.SYSTEM_ERROR
        await made.register()
        made.clock.advance(5_001)
        made.server.expire()
        assert not made.server.routes.brokers

    run(test)


@pytest.mark.parametrize(
    ("line", "code", "word"),
    [
        (b"colour=red", Code.INVALID_PARAMETER, "no setting colour"),
        (b"brokerExpiryMillis=x", Code.INVALID_PARAMETER, "brokerExpiryMillis"),
        (b"brokerExpiryMillis=1", Code.INVALID_PARAMETER, "broker_expiry_ms"),
        (b"enableAllTopicList=1", Code.INVALID_PARAMETER, "true or false"),
        (b"listenPort=1", Code.NO_PERMISSION, "listenPort"),
        (b"nonsense", Code.INVALID_PARAMETER, "name=value"),
    ],
)
def test_a_wrong_setting_changes_nothing(line: bytes, code: Code, word: str) -> None:
    async def test(made: Running) -> None:
        answer = await made.ask(Ask.UPDATE_NAMESRV_CONFIG, b"heartbeatExpiryMillis=5000\n" + line)
        assert answer.code == code
        assert word in str(answer.remark)
        assert b"heartbeatExpiryMillis=30000\n" in (await made.done(Ask.GET_NAMESRV_CONFIG)).body

    run(test)
