"""Settings of a running broker: shown, changed, kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Talk, running, until

from litemq.config import BrokerConfig, LimitsConfig, StoreConfig
from litemq.wire.remoting import bodies
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Response

CONFIG = BrokerConfig(port=0, name_servers=())


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


async def _update(talk: Talk, **settings: str) -> Response:
    body = bodies.properties_text({name.replace("__", "."): value for name, value in settings.items()})
    return await talk.call(Ask.UPDATE_BROKER_CONFIG, {}, body)


async def _shown(talk: Talk) -> dict[str, str]:
    answer = await talk.call(Ask.GET_BROKER_CONFIG, {})
    assert json.loads(answer.ext["version"]).keys() == {"counter", "stateVersion", "timestamp"}
    return bodies.parse_properties(answer.body)


def test_settings_are_shown_under_both_names(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            shown = await _shown(talk)
            host, _, port = broker.address.rpartition(":")
            assert (shown["brokerIP1"], shown["listenPort"]) == (host, port)
            assert (shown["brokerName"], shown["brokerClusterName"], shown["brokerId"]) == (
                "broker-a",
                "DefaultCluster",
                "0",
            )
            assert shown["autoCreateTopicEnable"] == shown["broker.auto_create_topics"] == "true"
            assert shown["maxMessageSize"] == shown["store.max_body_bytes"] == str(4 << 20)
            assert (shown["fileReservedTime"], shown["deleteWhen"], shown["flushDiskType"]) == (
                "72",
                "04",
                "ASYNC_FLUSH",
            )
            assert shown["messageDelayLevel"].endswith("1h 2h")
            assert shown["limits.max_pull_count"] == "1024"
            assert shown["store.segment_bytes"] == "none"

    _run(test())


def test_switches_and_limits_change_while_the_broker_runs(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            for number in range(5):
                await talk.send("T", b"%d" % number)
            changed = await _update(
                talk, autoCreateTopicEnable="false", limits__max_pull_count="2", limits__parked_pulls="0"
            )
            assert changed.code == Code.SUCCESS, changed
            assert (await talk.send("New", b"x")).code == Code.TOPIC_NOT_EXIST
            assert (await talk.pull("T", 0)).body.count(b"MSG_REGION") == 2
            assert (await talk.pull("T", 5, park_ms=5_000)).code == Code.SYSTEM_BUSY  # none may wait
            assert (await _shown(talk))["autoCreateTopicEnable"] == "false"

            assert (await _update(talk, broker__auto_create_topics="true", defaultTopicQueueNums="3")).code == 0
            sent = await talk.send("New", b"x")
            assert sent.code == Code.SUCCESS
            assert broker.topics.known("New").write_queues == 3

            assert (await _update(talk, autoCreateSubscriptionGroup="false")).code == Code.SUCCESS
            refused = await talk.heartbeat("c1", consumes={"new-group": {"T": "*"}})
            assert refused.code == Code.SUBSCRIPTION_GROUP_NOT_EXIST

    _run(test())


def test_retention_changes_while_the_broker_runs(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, store=StoreConfig(segment_bytes=4096)) as (broker, talk):
            for _ in range(20):
                await talk.send("T", bytes(500))
            segments = broker.store.counters()["segments"]
            assert segments > 2
            assert (await talk.call(Ask.DELETE_EXPIRED_COMMITLOG, {})).code == Code.SUCCESS
            assert broker.store.counters()["segments"] == segments
            await _update(talk, fileReservedTime="0", store__delete_hour="none")
            assert (await talk.call(Ask.DELETE_EXPIRED_COMMITLOG, {})).code == Code.SUCCESS
            await until(lambda: broker.store.counters()["segments"] < segments)
            assert (await _shown(talk))["fileReservedTime"] == "0"
        async with running(tmp_path) as (broker, _):
            assert (broker.store_config.retention_hours, broker.store_config.delete_hour) == (0.0, None)

    _run(test())


def test_connections_are_limited_anew(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            assert (await _update(talk, limits__connections="1", limits__idle_ms="5000")).code == Code.SUCCESS
            assert (broker.server.limits.connections, broker.server.limits.idle_s) == (1, 5.0)

    _run(test())


@pytest.mark.parametrize(
    ("name", "value", "code", "text"),
    [
        ("listenPort", "1", Code.NO_PERMISSION, "listenPort cannot change while the broker runs: set broker.port"),
        ("store.flush", "sync", Code.NO_PERMISSION, "set store.flush and restart"),
        ("maxMessageSize", "1", Code.NO_PERMISSION, "set store.max_body_bytes"),
        ("deleteWhen", "25", Code.INVALID_PARAMETER, "it must be 0 to 23"),
        ("store.disk_start_ratio", "0.95", Code.INVALID_PARAMETER, "must not fall"),
        ("brokerRole", "SLAVE", Code.NO_PERMISSION, "brokerRole cannot be changed"),
        ("noSuchThing", "1", Code.INVALID_PARAMETER, "no setting 'noSuchThing'"),
        ("limits.nothing", "1", Code.INVALID_PARAMETER, "no setting 'limits.nothing'"),
        ("limits.connections", "many", Code.INVALID_PARAMETER, "must be a whole number"),
        ("limits.connections", "0", Code.INVALID_PARAMETER, "it must be 1 to"),
        ("autoCreateTopicEnable", "perhaps", Code.INVALID_PARAMETER, "true or false"),
    ],
)
def test_what_cannot_change_is_refused_with_all_that_came_with_it(
    name: str, value: str, code: Code, text: str, tmp_path: Path
) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            body = bodies.properties_text({"limits.pull_count": "5", name: value})
            answer = await talk.call(Ask.UPDATE_BROKER_CONFIG, {}, body)
            assert answer.code == code
            assert text in (answer.remark or "")
            assert broker.limits == LimitsConfig()
            assert broker.config.auto_create_topics
            assert (await talk.call(Ask.UPDATE_BROKER_CONFIG, {}, b"")).code == Code.INVALID_PARAMETER
            assert (await talk.call(Ask.UPDATE_BROKER_CONFIG, {}, b"name")).code == Code.INVALID_PARAMETER

    _run(test())


def test_a_change_holds_until_the_configuration_says_something_else(tmp_path: Path) -> None:
    async def change() -> None:
        async with running(tmp_path, config=CONFIG) as (_, talk):
            await _update(talk, limits__pull_count="7", autoCreateTopicEnable="false")

    async def look(limits: LimitsConfig) -> tuple[int, int, bool]:
        async with running(tmp_path, config=CONFIG, limits=limits) as (broker, talk):
            sent = await talk.send("T", b"1")
            return sent.code, broker.limits.pull_count, broker.puller.limits is broker.limits

    async def back() -> None:
        async with running(tmp_path, config=CONFIG) as (_, talk):
            await _update(talk, autoCreateTopicEnable="true")

    _run(change())
    assert asyncio.run(look(LimitsConfig())) == (Code.TOPIC_NOT_EXIST, 7, True)
    assert asyncio.run(look(LimitsConfig(pull_count=50))) == (Code.TOPIC_NOT_EXIST, 50, True)
    _run(back())
    assert asyncio.run(look(LimitsConfig())) == (Code.SUCCESS, 7, True)


def test_a_damaged_file_of_changes_changes_nothing(tmp_path: Path) -> None:
    async def look() -> LimitsConfig:
        async with running(tmp_path) as (broker, _):
            return broker.limits

    asyncio.run(look())
    wrong = {
        "limits.pull_count": {"value": "7", "was": 32},
        "limits.max_pull_count": {"value": -1, "was": 1024},
        "limits.none": {"value": 1, "was": 1},
        "store.flush": {"value": "sync", "was": "async"},
        "limits.idle_ms": 5,
    }
    path = tmp_path / "config" / "litemqSettings.json"
    for text in (json.dumps({"settings": wrong}), json.dumps({"settings": []}), "{", ""):
        path.write_text(text)
        assert asyncio.run(look()) == LimitsConfig()
