"""``Admin`` in both faces, on one broker and on two."""

from __future__ import annotations

import asyncio
import doctest
import importlib
import inspect
import json
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Talk, running, until

import litemq
from litemq import errors
from litemq.broker.broker import Broker
from litemq.client.admin import Admin, AsyncAdmin
from litemq.client.routes import TopicQueue
from litemq.client.running import run
from litemq.config import BrokerConfig, NameserverConfig
from litemq.nameserver.server import NameServer
from litemq.testing import broker
from litemq.wire.remoting import bodies
from litemq.wire.remoting.client import Client
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection

MODULES = ("admin", "brokers", "cluster", "group_values", "groups", "health", "offsets", "topic_values", "topics")


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with broker() as found:
        yield found.nameservers


@pytest.fixture
def admin(servers: str) -> Iterator[Admin]:
    with Admin(servers) as found:
        yield found


def _send(servers: str, topic: str, count: int) -> None:
    with litemq.Producer(servers) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number)


# -- both faces ----------------------------------------------------------------------------------


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module: str, servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of values, too, which are not exported."""
    monkeypatch.setenv("LITEMQ_NAMESERVER", servers)
    name = "litemq.client.admin" + ("" if module == "admin" else f"_{module}")
    found = importlib.import_module(name)
    shown: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    for test in doctest.DocTestFinder(recurse=True).find(found, extraglobs={"litemq": litemq}):
        runner.run(test, out=shown.append)
    assert shown == [], "".join(shown)


def test_the_faces_have_the_same_methods() -> None:
    def methods(face: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(getattr(face, name)).parameters)
            for name in dir(face)
            if not name.startswith("_") and callable(getattr(face, name))
        }

    assert methods(Admin) == methods(AsyncAdmin)
    assert dict.fromkeys(("a",), Admin.__init__.__doc__)
    assert inspect.signature(Admin.__init__) == inspect.signature(AsyncAdmin.__init__)


def test_the_awaited_face(servers: str) -> None:
    async def test() -> None:
        async with AsyncAdmin(servers) as found:
            await found.create_topic("awaited", 2)
            await found.create_group("awaiting")
            names = await asyncio.gather(*(found.topic("awaited") for _ in range(5)))
            assert {details.queues for details in names} == {2}
            assert (await found.lag("awaiting")).total == 0
            await found.delete_group("awaiting")
            await found.delete_topic("awaited")
        with pytest.raises(errors.Closed):
            await found.topics()

    asyncio.run(test())


def test_threads_share_one(admin: Admin) -> None:
    admin.create_topic("shared", 2)
    failed: list[BaseException] = []

    def look() -> None:
        try:
            for _ in range(20):
                assert admin.topic("shared").queues == 2
        except BaseException as error:  # noqa: BLE001 - the test must see whatever it was
            failed.append(error)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_closed(servers: str) -> None:
    found = Admin(servers)
    found.topics()
    found.close()
    with pytest.raises(errors.Closed):
        found.topics()


# -- one broker ----------------------------------------------------------------------------------


def test_settings_of_topics(admin: Admin) -> None:
    admin.create_topic(
        "set", 2, ordered=True, retention=timedelta(hours=1), queue_backlog=5, overflow="dead-letter", writable=False
    )
    details = admin.topic("set")
    assert details.is_ordered
    assert not details.brokers["broker-a"].is_writable
    assert details.attributes == {"retention.ms": "3600000", "queue.backlog": "5", "overflow": "dead-letter"}
    admin.alter_topic("set", retention=None, keep_until_read=True, attributes={"overflow": None, "own": "x"})
    attributes = {"retention.keep-until-read": "true", "queue.backlog": "5", "own": "x"}
    assert admin.topic("set").attributes == attributes
    admin.alter_topic("set", 4, writable=True)
    details = admin.topic("set")
    assert (details.queues, details.is_ordered, details.attributes) == (4, True, attributes)
    assert details.brokers["broker-a"].is_writable


def test_exist_ok_leaves_what_is_there(admin: Admin) -> None:
    admin.create_topic("there", 2)
    assert admin.create_topic("there", 5, exist_ok=True).brokers["broker-a"].write == 2
    admin.create_group("there", max_retries=3)
    assert admin.create_group("there", max_retries=7, exist_ok=True).max_retries == 3


def test_purge_by_time_and_offset(admin: Admin, servers: str) -> None:
    admin.create_topic("old", 1)
    _send(servers, "old", 4)
    assert [one.messages for one in admin.purge_topic("old", before=datetime(2001, 1, 1, tzinfo=UTC))] == [0]
    assert [one.first for one in admin.purge_topic("old", queue=0, offset=1)] == [1]
    after = datetime.now(UTC) + timedelta(hours=1)
    assert [one.messages for one in admin.purge_topic("old", before=after, dry_run=True)] == [3]
    assert [one.messages for one in admin.purge_topic("old", before=after)] == [3]
    _send(servers, "old", 1)
    (queue,) = admin.topic("old").queue_infos
    assert (queue.first, queue.end, queue.messages) == (4, 5, 1)


def test_reset_and_lag(admin: Admin, servers: str) -> None:
    admin.create_topic("read", 1)
    admin.create_group("reader")
    _send(servers, "read", 3)
    between = datetime.now(UTC) + timedelta(milliseconds=1)
    while datetime.now(UTC) < between + timedelta(milliseconds=1):
        pass
    _send(servers, "read", 2)
    queue = TopicQueue("read", "broker-a", 0)
    goals: list[tuple[Any, int]] = [
        *(("first", 0), ("last", 5), (between, 3), (int(between.timestamp() * 1000), 3)),
        *(({0: 4}, 4), ({queue: 2}, 2)),
    ]
    before: int | None = None
    for to, after in goals:
        for dry_run in (True, False):
            (change,) = admin.reset_offset("reader", "read", to, dry_run=dry_run)
            assert (change.before, change.after) == (before, after)
        before = after
        lag = admin.lag("reader")
        assert lag.topics == {"read": 5 - after}
        assert (lag.queues[0].read_at is None) == (after == 0)
    admin.purge_topic("read", queue=0, offset=4)
    assert admin.lag("reader").total == 1
    assert admin.group("reader").lag == 1


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda admin: admin.topic("missing"), errors.UnknownTopic, "litemq topic list"),
        (lambda admin: admin.create_topic("a b"), errors.InvalidRequest, "' '"),
        (lambda admin: admin.create_topic("x", 0), errors.InvalidRequest, "1 to"),
        (lambda admin: admin.create_topic("x", placement="nowhere"), errors.InvalidRequest, "even, exclusive"),
        (lambda admin: admin.create_topic("x", retention_days=3), errors.InvalidRequest, "retention_bytes"),
        (lambda admin: admin.create_topic("x", overflow="x"), errors.InvalidRequest, "refuse or dead-letter"),
        (lambda admin: admin.create_topic("x", attributes={"a": "b,c"}), errors.InvalidRequest, "cannot hold"),
        (lambda admin: admin.create_topic("x", attributes={"+a": "b"}), errors.InvalidRequest, "begins with no"),
        (lambda admin: admin.create_topic("x", attributes={"a": ""}), errors.InvalidRequest, "needs a value"),
        (
            lambda admin: admin.create_topic("x", overflow="refuse", attributes={"overflow": "x"}),
            errors.InvalidRequest,
            "twice",
        ),
        (lambda admin: admin.alter_topic("x"), errors.InvalidRequest, "nothing to change"),
        (lambda admin: admin.alter_topic("missing", 3), errors.UnknownTopic, "missing"),
        (lambda admin: admin.delete_topic("missing"), errors.UnknownTopic, "missing"),
        (lambda admin: admin.delete_topic("SELF_TEST_TOPIC"), errors.LiteMQError, "own"),
        (lambda admin: admin.purge_topic("x", offset=3), errors.InvalidRequest, "queue"),
        (lambda admin: admin.purge_topic("x", queue=0, offset=3, before=5), errors.InvalidRequest, "not both"),
        (lambda admin: admin.purge_topic("x", before=datetime(2026, 1, 1)), errors.InvalidRequest, "time zone"),  # noqa: DTZ001
        (lambda admin: admin.purge_topic("x", before=1.5), errors.InvalidRequest, "ms since"),
        (lambda admin: admin.group("missing"), errors.UnknownGroup, "litemq group list"),
        (lambda admin: admin.lag("missing"), errors.UnknownGroup, "litemq group list"),
        (lambda admin: admin.members("missing"), errors.UnknownGroup, "litemq group list"),
        (lambda admin: admin.delete_group("missing"), errors.UnknownGroup, "litemq group list"),
        (lambda admin: admin.create_group(""), errors.InvalidRequest, "needs a name"),
        (lambda admin: admin.create_group("x", retries=3), errors.InvalidRequest, "max_retries"),
        (lambda admin: admin.create_group("x", max_retries="3"), errors.InvalidRequest, "whole number"),
        (lambda admin: admin.create_group("x", enabled=1), errors.InvalidRequest, "True or False"),
        (lambda admin: admin.alter_group("x"), errors.InvalidRequest, "nothing to change"),
        (lambda admin: admin.reset_offset("missing", "SELF_TEST_TOPIC", "first"), errors.UnknownGroup, "group create"),
        (lambda admin: admin.reset_offset("g", "missing", "first"), errors.UnknownTopic, "missing"),
        (lambda admin: admin.config("broker-x"), errors.InvalidRequest, "there are: broker-a"),
        (lambda admin: admin.set_config("broker-a", {}), errors.InvalidRequest, "no setting"),
        (lambda admin: admin.set_config("broker-a", {"x": 1}), errors.InvalidRequest, "config get"),
        (lambda admin: admin.set_config("broker-a", {"store.flush": "sync"}), errors.NoPermission, "restart"),
        (lambda admin: admin.set_config("broker-a", {"x\ny": 1}), errors.InvalidRequest, "line ends"),
    ],
)
def test_what_cannot_be_is_refused(admin: Admin, call: Any, kind: type, words: str) -> None:  # noqa: ANN401 - any call
    with pytest.raises(kind, match=words):
        call(admin)


@pytest.mark.parametrize("to", ["middle", 1.5, True, datetime(2026, 1, 1), {0: -1}, {0: "1"}, {5: 0}])  # noqa: DTZ001
def test_goals_that_cannot_be(admin: Admin, to: Any) -> None:  # noqa: ANN401 - what is wrong
    admin.create_topic("goals", 1, exist_ok=True)
    admin.create_group("goals", exist_ok=True)
    with pytest.raises(errors.InvalidRequest):
        admin.reset_offset("goals", "goals", to)
    with pytest.raises(errors.InvalidRequest, match="either"):
        admin.reset_offset("goals", "goals", {0: 0}, queues=[0])
    assert admin.lag("goals").queues == ()


def test_wrong_arguments_are_refused_at_once() -> None:
    for timeout in (0, -1.0):
        with pytest.raises(errors.InvalidRequest, match="timeout"):
            Admin("127.0.0.1:9876", timeout=timeout)
    with pytest.raises(errors.InvalidRequest, match="HOST:PORT"):
        Admin("nonsense")


def test_settings_of_brokers(admin: Admin) -> None:
    (change,) = admin.set_config("broker-a", {"limits.pull_count": 17})
    assert (change.name, change.after) == ("limits.pull_count", "17")
    assert admin.config("broker-a")["limits.pull_count"] == "17"
    assert admin.config(admin.brokers()[0].address)["maxTransferCountOnMessageInMemory"] == "17"
    admin.set_config("broker-a", {"broker.auto_create_topics": False, "store.delete_hour": None})
    assert admin.config("broker-a")["broker.auto_create_topics"] == "false"
    assert admin.config("broker-a")["store.delete_hour"] == "none"
    admin.set_config("broker-a", {"broker.auto_create_topics": True})


def test_nobody_is_registered() -> None:
    async def test() -> None:
        server = NameServer(NameserverConfig(port=0))
        await server.start()
        try:
            async with AsyncAdmin(f"127.0.0.1:{server.port}") as found:
                assert await found.brokers() == []
                with pytest.raises(errors.Unavailable, match="litemq broker --nameserver"):
                    await found.topics()
                health = await found.health()
                assert [(one.check, one.status.name) for one in health.checks] == [
                    ("reachable", "OK"),
                    ("registered", "FAIL"),
                ]
        finally:
            await server.close()

    asyncio.run(test())


# -- two brokers ---------------------------------------------------------------------------------


@asynccontextmanager
async def _two(data: Path) -> AsyncIterator[tuple[AsyncAdmin, dict[str, tuple[Broker, Talk]]]]:
    server = NameServer(NameserverConfig(port=0))
    await server.start()
    address = f"127.0.0.1:{server.port}"
    try:
        one = BrokerConfig(port=0, name="broker-a", name_servers=(address,))
        two = BrokerConfig(port=0, name="broker-b", name_servers=(address,))
        async with running(data / "a", config=one) as a, running(data / "b", config=two) as b:
            await until(lambda: len(server.routes.brokers) == 2)
            async with AsyncAdmin(f"127.0.0.1:1;{address}") as found:  # the first is not there
                yield found, {"broker-a": a, "broker-b": b}
    finally:
        await server.close()


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


def test_topics_and_groups_are_on_all_brokers(tmp_path: Path) -> None:
    async def test() -> None:
        async with _two(tmp_path) as (admin, brokers):
            change = await admin.create_topic("T", 5)
            assert {name: on.write for name, on in change.brokers.items()} == {"broker-a": 3, "broker-b": 2}
            for name, (_, talk) in brokers.items():
                for queue in range(2):
                    await talk.send("T", name.encode(), queue=queue)
            details = await admin.topic("T")
            assert [(queue.broker, queue.queue_id, queue.end) for queue in details.queue_infos] == [
                *(("broker-a", 0, 1), ("broker-a", 1, 1), ("broker-a", 2, 0)),
                *(("broker-b", 0, 1), ("broker-b", 1, 1)),
            ]
            # A group that one broker has is made on the other.
            await brokers["broker-a"][1].call(
                Ask.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps({"groupName": "g", "retryMaxTimes": 4}).encode()
            )
            with pytest.raises(errors.UnknownGroup, match="on broker-b"):
                await admin.reset_offset("g", "T", "first")
            assert (await admin.create_group("g", max_retries=6)).brokers == ("broker-a", "broker-b")
            await admin.alter_group("g", max_retries=7)
            assert [found.groups.known("g").max_retries for found, _ in brokers.values()] == [7, 7]
            goals = {TopicQueue("T", "broker-a", 0): 1, TopicQueue("T", "broker-b", 1): 0}
            changes = await admin.reset_offset("g", "T", goals)
            assert [(one.broker, one.queue_id, one.after) for one in changes] == [
                ("broker-a", 0, 1),
                ("broker-b", 1, 0),
            ]
            with pytest.raises(errors.InvalidRequest, match=r"broker-a, broker-b.* --broker"):
                await admin.reset_offset("g", "T", {0: 1})
            assert (await admin.lag("g")).total == 3
            assert [(one.broker, one.messages) for one in await admin.purge_topic("T", broker="broker-b")] == [
                ("broker-b", 1),
                ("broker-b", 1),
            ]
            assert (await admin.lag("g")).total == 1
            assert [info.broker for info in await admin.brokers()] == ["broker-a", "broker-b"]
            health = await admin.health()
            assert [(one.where, one.status.name) for one in health.checks if one.status.name != "OK"] == [
                ("127.0.0.1:1", "FAIL")
            ]
            [registered] = [one for one in health.checks if one.check == "registered"]
            assert registered.where != "127.0.0.1:1", "it told nothing"
            await admin.delete_group("g")
            await admin.delete_topic("T")
            assert [found.topics.find("T") for found, _ in brokers.values()] == [None, None]

    _run(test())


def test_members_tell_their_queues(tmp_path: Path) -> None:
    async def test() -> None:
        async with _two(tmp_path) as (admin, brokers):
            await admin.create_topic("T", 4)
            queues = [(bodies.queue("T", name, 1), {"commitOffset": 0}) for name in brokers]

            def running_info(_connection: Connection, _request: Request) -> Response:
                return Response(body=bodies.with_queue_map("mqTable", queues, properties={"a{b": 'c"}:'}))

            handlers: dict[int, Any] = {
                Ask.GET_CONSUMER_RUNNING_INFO: running_info,
                Ask.NOTIFY_CONSUMER_IDS_CHANGED: _deaf,
            }
            clients = [Client(found.address, handlers) for found, _ in brokers.values()]
            silent = Client(brokers["broker-a"][0].address, {**handlers, Ask.GET_CONSUMER_RUNNING_INFO: _silent})
            try:
                for client in clients:
                    await Talk.heartbeat(client, "one@1", consumes={"g": {"T": "a"}})  # type: ignore[arg-type]
                await Talk.heartbeat(silent, "two@1", consumes={"g": {"T": "a"}})  # type: ignore[arg-type]
                one, two = await admin.members("g")
                assert (one.client_id, one.mode, one.subscriptions["T"]) == ("one@1", "clustering", "a")
                assert one.queues == (TopicQueue("T", "broker-a", 1), TopicQueue("T", "broker-b", 1))
                assert (two.client_id, two.queues) == ("two@1", None)
                assert (await admin.group("g")).members == 2
                assert all(member.queues is None for member in await admin.members("g", with_queues=False))
                with pytest.raises(errors.InvalidRequest, match="2 members online"):
                    await admin.delete_group("g")
            finally:
                for client in (*clients, silent):
                    client.close()

    _run(test())


def _deaf(_connection: Connection, _request: Request) -> None:
    """Take a notice."""


async def _silent(_connection: Connection, _request: Request) -> Response | None:
    return None


def test_the_blocking_face_does_not_touch_a_loop(servers: str) -> None:
    with Admin(servers) as found:
        assert run(found._core.topics()) == found.topics()
