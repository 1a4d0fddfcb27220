"""``litemq cluster`` on one broker: its tables, its JSON as the page says, its failures; and no cluster at all."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from tests.support.cli_page import CliPage, Command

import litemq
from litemq.cli.main import run
from litemq.client.admin import Admin
from litemq.client.net import BlockingNet
from litemq.client.running import run as do
from litemq.testing import broker
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request

PAGE = CliPage("cli-topics-groups-cluster.md")


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with broker() as found:
        yield found.nameservers


@pytest.fixture
def it(servers: str, capfdbinary: pytest.CaptureFixture[bytes]) -> Command:
    return Command(servers, capfdbinary)


def _words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_list(it: Command) -> None:
    told = it.told("cluster", "list")
    PAGE.check("litemq cluster list", told)
    assert (told[0]["broker"], told[0]["reachable"]) == ("broker-a", True)
    lines = _words(it.said("cluster", "list"))
    assert lines[0][:5] == ["CLUSTER", "BROKER", "NO", "ADDRESS", "VERSION"]
    assert lines[1][:4] == ["DefaultCluster", "broker-a", "0", told[0]["address"]]


def test_health(it: Command) -> None:
    told = it.told("cluster", "health")
    PAGE.check("litemq cluster health", told)
    assert {one["check"] for one in told[0]["checks"]} == {
        *("reachable", "registered", "disk", "flush", "writable", "lag")
    }
    assert _words(it.said("cluster", "health"))[0] == ["STATUS", "WHERE", "CHECK", "FOUND"]


def test_health_finds_a_slow_group(it: Command) -> None:
    with Admin(it.servers) as admin, litemq.Producer(it.servers) as producer:
        admin.create_topic("slow-topic", 1)
        for _ in range(3):
            producer.send("slow-topic", b"x")
        admin.create_group("slow")
        admin.reset_offset("slow", "slow-topic", "first")
    (found,) = [one for one in it.told("cluster", "health", "--max-lag", "2")[0]["checks"] if one["check"] == "lag"]
    assert found["status"] == "WARN"
    assert "slow: 3" in found["text"]
    assert "litemq group lag slow" in found["text"]
    assert "--max-lag" in it.said("cluster", "health", "--max-lag", "x", status=2)


def test_config_get(it: Command) -> None:
    told = it.told("cluster", "config", "get", "broker-a")
    PAGE.check("litemq cluster config get", told)
    assert told[0]["settings"]["store.flush"] == "async"
    assert it.said("cluster", "config", "get", "broker-a", "store.flush", "brokerName") == (
        "store.flush  async\nbrokerName   broker-a\n"
    )
    assert "there are: broker-a (127.0.0.1:" in it.said("cluster", "config", "get", "broker-x", status=2)
    assert "'no.such'" in it.said("cluster", "config", "get", "broker-a", "no.such", status=2)


def test_config_set(it: Command) -> None:
    dry = it.told("cluster", "config", "set", "broker-a", "broker.default_queues=5", "--dry-run")
    PAGE.check("litemq cluster config set", dry)
    assert (dry[0]["before"], dry[0]["after"], dry[0]["dry_run"]) == ("8", "5", True)
    out = it.said("cluster", "config", "set", "broker-a", "broker.default_queues=5")
    assert _words(out) == [["BROKER", "SETTING", "BEFORE", "AFTER"], ["broker-a", "broker.default_queues", "8", "5"]]
    assert it.told("cluster", "config", "get", "broker-a", "broker.default_queues")[0]["settings"] == {
        "broker.default_queues": "5"
    }
    for pair, words in (
        ("broker.default_queues", "NAME=VALUE"),
        ("broker.default_queues=many", "broker.default_queues"),
        ("no.such=1", "litemq cluster config get broker-a"),
        ("store.flush=sync", "restart it"),
    ):
        assert words in it.said("cluster", "config", "set", "broker-a", pair, status=2)


def test_a_broker_that_is_not_there(it: Command) -> None:
    """The name server knows of it as long as its connection is there."""
    net = BlockingNet()
    header = {"clusterName": "C", "brokerName": "broker-x", "brokerAddr": _nobody(), "brokerId": "0"}
    table = b'{"topicConfigSerializeWrapper":{"dataVersion":{},"topicConfigTable":{}}}'
    answer = do(net.call(it.servers, Request(Ask.REGISTER_BROKER, header, table), 5.0))
    assert answer.code == Code.SUCCESS
    told = it.told("cluster", "list")
    PAGE.check("litemq cluster list", told)
    assert [(one["broker"], one["reachable"]) for one in told] == [("broker-a", True), ("broker-x", False)]
    (line,) = [line for line in it.said("cluster", "list").splitlines() if "broker-x" in line]
    assert "no answer" in line
    health = it.told("cluster", "health", status=1)[0]
    assert health["status"] == "FAIL"
    assert [(one["where"], one["check"]) for one in health["checks"] if one["status"] == "FAIL"] == [
        ("broker-x", "reachable")
    ]
    err = it.said("topic", "list", status=2)
    assert "cannot be reached" in err
    assert "litemq cluster health" in err
    do(net.close())
    until = time.monotonic() + 10
    while len(it.told("cluster", "list")) > 1:
        assert time.monotonic() < until


def _nobody() -> str:
    """Return an address on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    "command",
    [
        *(("topic", "list"), ("topic", "show", "T"), ("topic", "create", "T"), ("topic", "alter", "T", "--ordered")),
        *(("topic", "placement", "T"), ("topic", "rebalance", "T"), ("topic", "delete", "T", "--yes")),
        *(("topic", "purge", "T", "--yes"), ("group", "list"), ("group", "show", "G"), ("group", "lag", "G")),
        *(("group", "members", "G"), ("group", "create", "G"), ("group", "alter", "G", "--ordered")),
        *(("group", "delete", "G", "--yes"), ("group", "reset", "G", "--topic", "T", "--to", "first", "--yes")),
        *(("cluster", "list"), ("cluster", "health"), ("cluster", "config", "get", "B")),
        ("cluster", "config", "set", "B", "a.b=c"),
    ],
    ids=" ".join,
)
def test_nobody_answers(command: tuple[str, ...], capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    address = _nobody()
    began = time.monotonic()
    err = Command(address, capfdbinary).said(*command, status=2)
    assert time.monotonic() - began < 3
    assert f"{address} cannot be reached" in err
    assert "litemq up" in err


def test_a_name_server_that_says_nothing(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        began = time.monotonic()
        err = Command(f"127.0.0.1:{server.getsockname()[1]}", capfdbinary).said("cluster", "health", status=2)
        assert time.monotonic() - began < 3
        assert "did not answer" in err


def test_the_variables_name_the_servers(
    servers: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", servers)
    assert run(["cluster", "list"]) == 0
    monkeypatch.setenv("LITEMQ_NAMESERVER", "127.0.0.1:1")
    assert run(["cluster", "list"]) == 2
    assert run(["cluster", "list", "--name-server", servers]) == 0
    assert b"127.0.0.1:1 cannot be reached" in capfdbinary.readouterr().err
