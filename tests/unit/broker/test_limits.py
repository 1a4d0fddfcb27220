"""Every limit over a real socket: what it lets in, the answer that names it, its counter, and how it changes live."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Talk, records, running, until
from tests.support.hooked_fs import Call, HookedFileSystem

from litemq.broker import limits, topic_attributes
from litemq.broker.broker import Broker
from litemq.broker.topics import Topic
from litemq.config import BrokerConfig, LimitsConfig, StoreConfig
from litemq.errors import BadField, NoAnswer
from litemq.store.fs import OsFileSystem
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response, encode_request

MIB = 1 << 20


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


def _entry(body: bytes) -> bytes:
    head = (22 + len(body)).to_bytes(4, "big") + bytes(12) + len(body).to_bytes(4, "big")
    return head + body + bytes(2)


async def _batch(talk: Talk, topic: str, body: bytes) -> Response:
    ext = {"a": "pg", "b": topic, "c": "TBW102", "d": "4", "e": "0", "g": "1", "m": "true"}
    return await talk.call(Ask.SEND_BATCH_MESSAGE, ext, body, timeout_s=20)


async def _large_batch(talk: Talk) -> Response:
    """Send one that is plain but for its size."""
    await talk.send("T", b"makes the topic", queue=0)
    return await _batch(talk, "T", _entry(bytes(MIB)) * 9)


async def _big_properties(talk: Talk) -> Response:
    return await talk.send("T", b"x", P="p" * 32_767)


@dataclass(frozen=True)
class Case:
    """A request that meets a limit: its answer, and what counts it."""

    limits: LimitsConfig
    ask: Any
    """Called with a client; returns the answer to the request beyond the limit."""
    code: Code
    words: tuple[str, ...]
    counter: str
    store: StoreConfig | None = None


async def _second(talk: Talk) -> Response:
    assert (await talk.send("T", b"one")).code == Code.SUCCESS
    return await talk.send("T", b"two")


async def _three_bytes_more(talk: Talk) -> Response:
    assert (await talk.send("T", b"x" * 900)).code == Code.SUCCESS
    return await talk.send("T", b"x" * 900)


async def _unread(talk: Talk) -> Response:
    assert (await talk.send("T", b"one")).code == Code.SUCCESS
    await talk.pull("T", 0)
    ext = {"consumerGroup": "cg", "topic": "T", "queueId": "0", "commitOffset": "0"}
    assert (await talk.call(Ask.UPDATE_CONSUMER_OFFSET, ext)).code == Code.SUCCESS
    return await talk.send("T", b"two")


async def _parks(talk: Talk) -> Response:
    await talk.send("T", b"one")
    return await talk.pull("T", 1, park_ms=10_000)


CASES = {
    "messages a second": Case(
        LimitsConfig(producer_messages_per_s=1),
        _second,
        Code.SYSTEM_BUSY,
        ("limits.producer_messages_per_s", "1 messages/s", "try again in"),
        "refused_producer_messages_per_s",
    ),
    "bytes a second": Case(
        LimitsConfig(producer_bytes_per_s=1000),
        _three_bytes_more,
        Code.SYSTEM_BUSY,
        ("limits.producer_bytes_per_s", "1000 bytes/s", "try again in"),
        "refused_producer_bytes_per_s",
    ),
    "backlog": Case(
        LimitsConfig(queue_backlog=1),
        _unread,
        Code.SYSTEM_BUSY,
        ("limits.queue_backlog", "queue 0 of T has 1 unread messages", "try again in 1000 ms"),
        "refused_queue_backlog",
    ),
    "message": Case(
        LimitsConfig(),
        lambda talk: talk.send("T", b"x" * (4 * MIB + 1), timeout_s=20),
        Code.MESSAGE_ILLEGAL,
        (str(4 * MIB + 1), str(4 * MIB)),
        "refused_body",
    ),
    "properties": Case(
        LimitsConfig(), _big_properties, Code.MESSAGE_ILLEGAL, ("the properties", "32767"), "refused_properties"
    ),
    "batch": Case(
        LimitsConfig(),
        _large_batch,
        Code.MESSAGE_ILLEGAL,
        ("the batch", str(8 * MIB)),
        "refused_batch",
    ),
    "parked pulls": Case(
        LimitsConfig(parked_pulls=0), _parks, Code.SYSTEM_BUSY, ("limits.parked_pulls",), "parked_pulls_refused"
    ),
}


class _SlowSyncs:
    """Syncs take their time."""

    def before(self, call: Call) -> bool:
        if call.kind == "sync":
            time.sleep(0.3)
        return True

    def after(self, call: Call) -> None:
        pass


def test_no_more_answers_wait_for_the_disk_than_may(tmp_path: Path) -> None:
    async def test() -> None:
        store, fs = StoreConfig(flush="group"), HookedFileSystem(OsFileSystem(), _SlowSyncs())
        async with running(tmp_path, limits=LimitsConfig(waiting_bytes=1), store=store, fs=fs) as (broker, talk):
            assert (await talk.send("T", b"one")).code == Code.SUCCESS
            first = asyncio.create_task(talk.send("T", b"two"))
            await until(lambda: len(broker.durability) == 1)
            refused = await talk.send("T", b"three")
            assert refused.code == Code.SYSTEM_BUSY
            assert refused.remark is not None
            assert "limits.waiting_bytes" in refused.remark
            assert "try again in 1000 ms" in refused.remark
            assert limits.report(broker)["refused_waiting_bytes"] == 1
            assert (await first).code == Code.SUCCESS

    _run(test())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_limit_names_itself_and_is_counted(case: Case, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, limits=case.limits, store=case.store) as (broker, talk):
            assert limits.report(broker).get(case.counter, 0) == 0
            answer = await case.ask(talk)
            assert answer.code == case.code, answer.remark
            for word in case.words:
                assert word in answer.remark
            assert limits.report(broker)[case.counter] == 1
            assert (await talk.send("U", b"the connection goes on", queue=1)).code in (Code.SUCCESS, Code.SYSTEM_BUSY)

    _run(test())


def test_a_full_disk_names_its_settings(tmp_path: Path) -> None:
    class Full(OsFileSystem):
        def disk(self, path: Path) -> tuple[int, int]:
            return 100 << 30, 1 << 30

    async def test() -> None:
        config = BrokerConfig(port=0, name_servers=())
        broker = Broker(config, StoreConfig(), LimitsConfig(), tmp_path, fs=Full())
        await broker.start()
        talk = Talk(broker.address)
        broker.store.retain()
        answer = await talk.send("T", b"x")
        assert answer.code == Code.SERVICE_NOT_AVAILABLE
        assert "store.disk_refuse_ratio" in (answer.remark or "")
        assert limits.report(broker)["refused_disk"] == 1
        talk.close()
        await broker.close()

    _run(test())


def test_pulls_get_a_default_and_at_most_the_limit(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, limits=LimitsConfig(pull_count=3, max_pull_count=5)) as (broker, talk):
            await _batch(talk, "T", b"".join(_entry(b"%d" % number) for number in range(10)))
            assert len(records((await talk.pull("T", 0, count=0)).body)) == 3
            assert limits.report(broker)["pulls_capped"] == 0
            assert len(records((await talk.pull("T", 0, count=4)).body)) == 4
            assert len(records((await talk.pull("T", 0, count=6)).body)) == 5
            assert limits.report(broker)["pulls_capped"] == 1

    _run(test())


def test_defaults_are_those_of_the_plan() -> None:
    default = LimitsConfig()
    assert (default.pull_count, default.max_pull_count) == (32, 1024)
    assert (default.producer_messages_per_s, default.producer_bytes_per_s, default.queue_backlog) == (0, 0, 0)
    assert default.waiting_bytes == 256 * MIB


def test_a_producer_is_a_client_whatever_its_connections(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, limits=LimitsConfig(producer_messages_per_s=1)) as (broker, talk):
            again, other, stranger = (Talk(broker.address) for _ in range(3))
            for client, name in ((talk, "c1"), (again, "c1"), (other, "c2")):
                await client.heartbeat(name, produces=("pg",))
            assert (await talk.send("T", b"1")).code == Code.SUCCESS
            refused = await again.send("T", b"2")
            assert refused.code == Code.SYSTEM_BUSY
            assert "producer c1 " in (refused.remark or "")
            assert (await other.send("T", b"3")).code == Code.SUCCESS
            assert (await stranger.send("T", b"4")).code == Code.SUCCESS
            refused = await stranger.send("T", b"5")
            assert "producer 127.0.0.1:" in (refused.remark or "")
            for client in (again, other, stranger):
                client.close()

    _run(test())


def test_limits_change_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            plain: list[str] = []
            put, drop = broker.store.put_plain, broker.store.drop_plain

            def put_plain(topic: str, count: int) -> None:
                plain.append(f"+{topic}")
                put(topic, count)

            def drop_plain(topic: str) -> None:
                plain.append(f"-{topic}")
                drop(topic)

            monkeypatch.setattr(broker.store, "put_plain", put_plain)
            monkeypatch.setattr(broker.store, "drop_plain", drop_plain)
            for _ in range(3):
                assert (await talk.send("T", b"x")).code == Code.SUCCESS
            for wanted, sign in (
                (LimitsConfig(producer_messages_per_s=1), "-"),
                (LimitsConfig(), "+"),
                (LimitsConfig(queue_backlog=5), "-"),
                (LimitsConfig(parked_pulls=7, connections=9, waiting_bytes=11, max_pull_count=13), "+"),
            ):
                plain.clear()
                broker.apply_limits(wanted)
                assert f"{sign}T" in plain
                assert f"{'+' if sign == '-' else '-'}T" not in plain
            assert broker.puller.polls.limit == 7
            assert broker.server.limits.connections == 9
            assert broker.durability.limit_bytes == 11
            assert broker.puller.limits.max_pull_count == 13
            broker.apply_limits(LimitsConfig(producer_messages_per_s=1))
            assert (await _second(talk)).code == Code.SYSTEM_BUSY
            broker.apply_limits(LimitsConfig())
            assert (await _second(talk)).code == Code.SUCCESS

    _run(test())


def test_a_backlog_opens_when_the_slowest_group_has_read(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, limits=LimitsConfig(queue_backlog=1_000)) as (broker, talk):
            broker.topics.create(Topic("T", 2, 2, attributes={topic_attributes.BACKLOG: "2"}))
            for number in range(5):  # nobody reads it: no backlog
                assert (await talk.send("T", b"%d" % number)).code == Code.SUCCESS
            for group, offset in (("fast", 5), ("slow", 3)):
                broker.store.progress.commit(group, "T", 0, offset)
            refused = await talk.send("T", b"5")
            assert refused.code == Code.SYSTEM_BUSY
            assert "2 unread" in (refused.remark or "")
            assert (await talk.send("T", b"other queue", queue=1)).code == Code.SUCCESS
            broker.store.progress.commit("slow", "T", 0, 4)
            assert (await _batch(talk, "T", _entry(b"5") + _entry(b"6"))).code == Code.SYSTEM_BUSY
            assert (await talk.send("T", b"5")).code == Code.SUCCESS
            assert (await talk.send("T", b"6")).code == Code.SYSTEM_BUSY
            broker.store.purge("T", {0: 6})  # what is gone is not unread
            assert (await talk.send("T", b"6")).code == Code.SUCCESS
            broker.groups.put("slow", {})
            broker.groups.delete("slow", with_progress=True)
            assert (await talk.send("T", b"7")).code == Code.SUCCESS

    _run(test())


def test_messages_beyond_a_backlog_can_become_dead_letters(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            attributes = {topic_attributes.BACKLOG: "1", topic_attributes.OVERFLOW: "dead-letter"}
            broker.topics.create(Topic("T", 1, 1, attributes=attributes))
            await talk.send("T", b"first")
            for group in ("slow", "fast"):
                broker.store.progress.commit(group, "T", 0, int(group == "fast"))
            answer = await talk.send("T", b"second", TAGS="A", KEYS="k", colour="red", UNIQ_KEY="ID2")
            assert (answer.code, answer.ext["transactionId"]) == (Code.SUCCESS, "ID2")
            assert (await _batch(talk, "T", _entry(b"third") + _entry(b"fourth"))).code == Code.SUCCESS
            assert broker.offsets.greatest("T", 0) == 1
            dead = records((await talk.pull("%DLQ%slow", 0)).body)
            assert [record.body for record in dead] == [b"second", b"third", b"fourth"]
            found = dead[0].properties
            assert (dead[0].tags, dead[0].keys, found["colour"]) == (("A",), ("k",), "red")
            assert {name: found[name] for name in found if name.startswith("DLQ_") and name != "DLQ_TIME"} == {
                "DLQ_REASON": "queue_full",
                "DLQ_GROUP": "slow",
                "DLQ_ORIGIN_TOPIC": "T",
                "DLQ_ORIGIN_MESSAGE_ID": "ID2",
                "DLQ_ORIGIN_QUEUE": "0",
                "DLQ_ORIGIN_OFFSET": "-1",
                "DLQ_RETRY_COUNT": "0",
            }
            assert limits.report(broker)["overflowed"] == 3
            assert broker.retries.died[("slow", "queue_full")] == 3

    _run(test())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (topic_attributes.BACKLOG, "-1"),
        (topic_attributes.BACKLOG, "many"),
        (topic_attributes.OVERFLOW, "drop"),
        (topic_attributes.RETENTION_MS, "0"),
        (topic_attributes.RETENTION_BYTES, "1GB"),
        (topic_attributes.KEEP_UNTIL_READ, "yes"),
    ],
)
def test_wrong_attributes_are_refused(name: str, value: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, _):
            with pytest.raises(BadField, match=f"the attribute {name} is {value!r}, it must be"):
                broker.topics.create(Topic("T", 1, 1, attributes={name: value}))
            assert broker.topics.find("T") is None

    _run(test())
    assert not topic_attributes.kept({name: value}).is_set
    assert topic_attributes.backlog({name: value}, 7) == 7


def test_connections_beyond_the_limit_are_closed(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, limits=LimitsConfig(connections=1)) as (broker, talk):
            await talk.send("T", b"x")
            other = Talk(broker.address)
            with pytest.raises(NoAnswer):
                await other.send("T", b"y")
            assert limits.report(broker)["connections_refused"] == 1
            assert (await talk.send("T", b"z")).code == Code.SUCCESS
            other.close()

    _run(test())


def test_requests_in_flight(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, limits=LimitsConfig(requests_in_flight=1)) as (broker, talk):
            silent = Talk(broker.address, {Ask.GET_CONSUMER_RUNNING_INFO: lambda _, __: None})
            await silent.heartbeat("c", consumes={"cg": {"T": "*"}})
            ext = {"consumerGroup": "cg", "clientId": "c"}
            waiting = asyncio.create_task(talk.call(Ask.GET_CONSUMER_RUNNING_INFO, ext, timeout_s=30))
            await talk.send("T", b"the one before has arrived")
            answer = await talk.call(Ask.GET_CONSUMER_RUNNING_INFO, ext)
            assert answer.code == Code.SYSTEM_BUSY
            assert "limits.requests_in_flight" in (answer.remark or "")
            assert limits.report(broker)["requests_refused"] == 1
            silent.close()
            assert (await waiting).code != Code.SUCCESS

    _run(test())


def test_an_idle_connection_is_closed(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, limits=LimitsConfig(idle_ms=1)) as (broker, _):
            gone = asyncio.Event()
            idle = Talk(broker.address, on_lost=gone.set)
            await idle.send("T", b"x")
            await gone.wait()
            assert limits.report(broker)["idle_closed"] == 1

    _run(test())


def test_a_reader_that_takes_nothing_is_cut_off(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, limits=LimitsConfig(output_stall_ms=1)) as (broker, talk):
            for _ in range(4):
                await talk.send("T", bytes(MIB))
            ext = {"consumerGroup": "cg", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32"}
            ext |= {"sysFlag": "4", "subscription": "*", "maxMsgBytes": str(4 * MIB)}
            with socket.create_connection(("127.0.0.1", int(broker.address.rpartition(":")[2]))) as slow:
                slow.sendall(encode_request(Request(Ask.PULL_MESSAGE, ext)) * 3)
                await until(lambda: limits.report(broker)["slow_readers_closed"] == 1)

    _run(test())


def test_a_slow_reader_is_cut_off(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, limits=LimitsConfig(output_bytes=MIB)) as (broker, talk):
            for _ in range(4):
                await talk.send("T", bytes(MIB))
            ext = {"consumerGroup": "cg", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32"}
            ext |= {"sysFlag": "4", "subscription": "*", "maxMsgBytes": str(4 * MIB)}
            with socket.create_connection(("127.0.0.1", int(broker.address.rpartition(":")[2]))) as slow:
                frames = [encode_request(Request(Ask.PULL_MESSAGE, ext, opaque=number)) for number in range(20)]
                slow.sendall(b"".join(frames))
                await until(lambda: limits.report(broker)["slow_readers_closed"] == 1)
            assert (await talk.send("T", b"others go on")).code == Code.SUCCESS

    _run(test())


def test_settings_of_groups_and_topics_are_bounded(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            group = json.dumps({"groupName": "g", "unknown": "x" * (64 << 10)}).encode()
            answer = await talk.call(Ask.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, group)
            assert answer.code == Code.MESSAGE_ILLEGAL
            assert answer.remark is not None
            assert "the settings of group 'g'" in answer.remark
            assert broker.groups.find("g") is None
            topic = {
                "topic": "T",
                "defaultTopic": "TBW102",
                "readQueueNums": "4",
                "writeQueueNums": "4",
                "perm": "6",
                "topicFilterType": "SINGLE_TAG",
                "order": "false",
                "attributes": "+a=" + "x" * (64 << 10),
            }
            answer = await talk.call(Ask.UPDATE_AND_CREATE_TOPIC, topic)
            assert answer.code != Code.SUCCESS
            assert broker.topics.find("T") is None

    _run(test())
