"""Fixtures: Java and RocketMQ's jars once a session, a driver, brokers on demand, and servers with the scenarios."""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.clients import scenarios, servers
from tests.clients.interop import Inbox, Peer, PythonConsumer, make_topic
from tests.clients.rocketmq import Driver, Missing, RealBroker, Sizes, Toolbox
from tests.clients.scenarios import Run
from tests.clients.servers import Server

from litemq.client.producer import Producer
from litemq.client.push import PushConsumer

pytest.register_assert_rewrite("tests.clients.picture")

StartBroker = Callable[..., RealBroker]


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Toolbox:
    try:
        return Toolbox.find(tmp_path_factory.mktemp("java"))
    except Missing as missing:
        pytest.skip(f"needs a real RocketMQ: {missing}")


@pytest.fixture(scope="session")
def driver(tools: Toolbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    made = Driver(tools, tmp_path_factory.mktemp("driver"))
    yield made
    made.close()


@pytest.fixture
def real_broker(tools: Toolbox, driver: Driver, tmp_path: Path) -> Iterator[StartBroker]:
    """Return a function that makes a broker for a store; it is not started yet, and never outlives the test."""
    numbers = itertools.count(1)
    made: list[RealBroker] = []

    def make(store: Path, sizes: Sizes, **settings: object) -> RealBroker:
        broker = RealBroker(tools, driver, store, tmp_path / f"broker-{next(numbers)}", sizes, **settings)
        made.append(broker)
        return broker

    yield make
    for broker in made:
        broker.kill()


@pytest.fixture(scope="session", params=servers.chosen())
def server(
    request: pytest.FixtureRequest, tools: Toolbox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """Start each server that the scenarios are for, one after the other."""
    started = servers.start(request.param, tools, tmp_path_factory.mktemp(f"server-{request.param}"))
    yield started
    started.close()


@pytest.fixture(scope="session")
def java(
    request: pytest.FixtureRequest, server: Server, tools: Toolbox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Run]:
    """Run the Java scenarios that were selected."""
    work = tmp_path_factory.mktemp("java-suite")
    arguments = (server.name_server, server.kind, fresh_name(), *selected(request, "java", server))
    run = Run(lambda: tools.start(work, "256m", "Suite", *arguments, pipe=True), server, work / "out.log")
    yield run
    run.close()


@pytest.fixture(scope="session")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return scenarios.build_go(tmp_path_factory.mktemp("go"))
    except Missing as missing:
        pytest.skip(f"needs the Go client: {missing}")


@pytest.fixture(scope="session")
def go(
    request: pytest.FixtureRequest, server: Server, go_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Run]:
    """Run the Go scenarios that were selected."""
    work = tmp_path_factory.mktemp("go-suite")
    arguments = (server.name_server, server.kind, fresh_name(), *selected(request, "go", server))
    with (work / "out.log").open("ab") as log:
        run = Run(
            lambda: subprocess.Popen(
                [go_program, *arguments],
                cwd=work,
                env={**os.environ, "HOME": str(work)},  # it keeps offsets there
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            ),
            server,
            work / "out.log",
        )
    yield run
    run.close()


@pytest.fixture(scope="session")
def java_peer(server: Server, tools: Toolbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """The Java client, told what to do by the Python SDK's tests."""
    work = tmp_path_factory.mktemp("java-peer")
    process = tools.start(work, "256m", "Interop", server.name_server, fresh_name(), server.kind, pipe=True)
    peer = Peer("java", process, work / "out.log")
    yield peer
    peer.close()


@pytest.fixture(scope="session")
def go_peer(server: Server, go_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """The Go client, told what to do by the Python SDK's tests."""
    work = tmp_path_factory.mktemp("go-peer")
    with (work / "out.log").open("ab") as log:
        process = subprocess.Popen(
            [go_program, server.name_server, server.kind, fresh_name(), "interop"],
            cwd=work,
            env={**os.environ, "HOME": str(work)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    peer = Peer("go", process, work / "out.log")
    yield peer
    peer.close()


@pytest.fixture(params=["java", "go"])
def peer(request: pytest.FixtureRequest) -> Peer:
    """Each of the other clients, one after the other."""
    found: Peer = request.getfixturevalue(f"{request.param}_peer")
    return found


@pytest.fixture
def topic(server: Server, request: pytest.FixtureRequest) -> str:
    """Return a topic of the test's own, with four queues."""
    name = "".join(c if c.isalnum() else "_" for c in request.node.name)[:90]
    topic = f"{name}_{fresh_name()}"
    make_topic(server, topic, 4)
    return topic


@pytest.fixture
def group(topic: str) -> str:
    """Return a group of the test's own."""
    return f"GID_{topic}"


@pytest.fixture
def producer(server: Server) -> Iterator[Producer]:
    """Return Python's producer."""
    with Producer(server.name_server, timeout=10) as made:
        yield made


@pytest.fixture
def consumer(server: Server, group: str) -> PythonConsumer:
    """Return a function that makes Python's consumers of the test's group."""

    def make(topic: str, handler: Inbox, tags: str = "*", **more: object) -> PushConsumer:
        return PushConsumer(group, {topic: tags}, handler, nameservers=server.name_server, **more)  # type: ignore[arg-type]

    return make


def fresh_name() -> str:
    """Return what sets the topics and groups of one run apart."""
    return f"{time.time_ns() // 1_000_000 % 10**9:x}"


def selected(request: pytest.FixtureRequest, suite: str, server: Server) -> list[str]:
    """Return the scenarios of a suite that this session runs against a server."""
    found = []
    for item in request.session.items:
        if isinstance(item, pytest.Function) and suite in item.fixturenames:
            scenario, name = item.callspec.params["scenario"], item.callspec.params["server"]
            if name == server.name:
                found.append(str(scenario))
    return found
