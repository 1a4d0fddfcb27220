"""``litemq topic`` on one broker: its tables, its JSON as the page says, its failures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.cli_page import CliPage, Command

import litemq
from litemq.client.admin import Admin
from litemq.testing import broker

PAGE = CliPage("cli-topics-groups-cluster.md")


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with broker() as found:
        yield found.nameservers


@pytest.fixture
def it(servers: str, capfdbinary: pytest.CaptureFixture[bytes]) -> Command:
    return Command(servers, capfdbinary)


def _send(it: Command, topic: str, count: int) -> None:
    with litemq.Producer(it.servers) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number)


def _words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_create(it: Command) -> None:
    told = it.told("topic", "create", "made", "--queues", "3", "--attribute", "retention.ms=5000")
    PAGE.check("litemq topic create", told, unseen=("left[].broker", "left[].group", "left[].queue", "left[].unread"))
    assert told[0]["topic"] == "made"
    assert it.said("topic", "create", "made-2", "--queues", "3") == (
        "made-2 on broker-a: 3 queues to write, 3 to read\n"
    )
    assert "is there already" in it.said("topic", "create", "made", status=2)
    assert "litemq topic alter made" in it.said("topic", "create", "made", status=2)


def test_create_only_tells_in_a_dry_run(it: Command) -> None:
    assert it.told("topic", "create", "dry", "--queues", "3", "--dry-run")[0]["dry_run"] is True
    assert it.said("topic", "create", "dry", "--dry-run") == (
        "would be: dry on broker-a: 8 queues to write, 8 to read\n"
    )
    assert "there is no topic 'dry'" in it.said("topic", "show", "dry", status=2)


def test_list(it: Command) -> None:
    it.said("topic", "create", "listed", "--queues", "3", "--attribute", "x.y=z")
    told = it.told("topic", "list")
    PAGE.check("litemq topic list", told)
    assert "listed" in [one["topic"] for one in told]
    assert not any(one["system"] for one in told)
    assert any(one["system"] for one in it.told("topic", "list", "--all"))
    lines = _words(it.said("topic", "list"))
    assert lines[0] == ["TOPIC", "BROKER", "READ", "WRITE"]
    assert ["listed", "broker-a", "3", "3"] in lines


def test_show(it: Command) -> None:
    it.said("topic", "create", "shown", "--queues", "2", "--attribute", "x.y=z", "--ordered")
    _send(it, "shown", 5)
    with Admin(it.servers) as admin:
        admin.create_group("reader")
        admin.reset_offset("reader", "shown", "first")
    told = it.told("topic", "show", "shown")
    PAGE.check("litemq topic show", told)
    assert told[0]["messages"] == 5
    assert told[0]["groups"] == ["reader"]
    assert [queue["end"] for queue in told[0]["queue_infos"]] in ([3, 2], [2, 3])
    out = it.said("topic", "show", "shown")
    assert "attributes  x.y=z\n" in out
    assert ["BROKER", "QUEUE", "FIRST", "END", "MESSAGES", "LAST", "STORED"] in _words(out)
    assert "litemq topic list" in it.said("topic", "show", "missing", status=2)


def test_alter(it: Command) -> None:
    it.said("topic", "create", "altered", "--queues", "2", "--attribute", "retention.ms=5000")
    it.said("topic", "alter", "altered", "--unwritable", "--ordered", "--no-attribute", "retention.ms")
    told = it.told("topic", "show", "altered")[0]
    assert (told["writable"], told["readable"], told["ordered"], told["attributes"]) == (False, True, True, {})
    it.said("topic", "alter", "altered", "--writable", "--queues", "4", "--attribute", "queue.backlog=7")
    told = it.told("topic", "show", "altered")[0]
    assert (told["writable"], told["queues"], told["attributes"]) == (True, 4, {"queue.backlog": "7"})
    _send(it, "altered", 8)
    dry = it.told("topic", "alter", "altered", "--queues", "1", "--dry-run", status=1)
    PAGE.check("litemq topic alter", dry)
    assert it.told("topic", "show", "altered")[0]["queues"] == 4
    assert "left: queue 3 on broker-a: no group has read its 2 messages to read" in it.said(
        "topic", "alter", "altered", "--queues", "1", status=1
    )
    assert "--queues" in it.said("topic", "alter", "altered", status=2)
    assert "overflow" in it.said("topic", "alter", "altered", "--attribute", "overflow=never", status=2)
    assert "'x'" in it.said("topic", "alter", "altered", "--attribute", "x", status=2)


def test_placement(it: Command) -> None:
    it.said("topic", "create", "placed", "--queues", "2")
    left = ("left[].broker", "left[].group", "left[].queue", "left[].unread")
    PAGE.check("litemq topic placement", it.told("topic", "placement", "placed"), unseen=left)
    assert it.said("topic", "placement", "placed") == "placed on broker-a: 2 queues to write, 2 to read\n"
    told = it.told("topic", "placement", "placed", "broker-a=5")
    assert told[0]["brokers"] == {"broker-a": {"read": 5, "write": 5}}
    assert "there are broker-a" in it.said("topic", "placement", "placed", "exclusive:broker-x", status=2)
    assert "exclusive:BROKER" in it.said("topic", "placement", "placed", "--queues", "2", status=2)


def test_rebalance(it: Command) -> None:
    it.said("topic", "create", "dealt", "--queues", "2")
    left = ("left[].broker", "left[].group", "left[].queue", "left[].unread")
    PAGE.check("litemq topic rebalance", it.told("topic", "rebalance", "dealt", "--queues", "3"), unseen=left)
    assert it.said("topic", "rebalance", "dealt") == "dealt on broker-a: 3 queues to write, 3 to read\n"
    assert "no topic 'missing'" in it.said("topic", "rebalance", "missing", status=2)


def test_delete(it: Command) -> None:
    it.said("topic", "create", "deleted", "--queues", "2")
    _send(it, "deleted", 3)
    assert "add --yes" in it.said("topic", "delete", "deleted", status=2)
    assert it.said("topic", "delete", "deleted", "--dry-run") == "would delete deleted with 3 messages from broker-a\n"
    left = ("left[].broker", "left[].group", "left[].queue", "left[].unread")
    PAGE.check("litemq topic delete", it.told("topic", "delete", "deleted", "--dry-run"), unseen=left)
    assert it.told("topic", "delete", "deleted", "--yes") == [
        {"topic": "deleted", "brokers": {}, "left": [], "dry_run": False}
    ]
    assert "no topic 'deleted'" in it.said("topic", "delete", "deleted", "--yes", status=2)


def test_purge(it: Command) -> None:
    it.said("topic", "create", "purged", "--queues", "2")
    _send(it, "purged", 6)
    assert "add --yes" in it.said("topic", "purge", "purged", status=2)
    told = it.told("topic", "purge", "purged", "--queue", "1", "--offset", "2", "--dry-run")
    PAGE.check("litemq topic purge", told)
    assert [(one["queue"], one["first"], one["messages"], one["dry_run"]) for one in told] == [(1, 2, 2, True)]
    out = it.said("topic", "purge", "purged", "--queue", "1", "--offset", "2", "--yes")
    assert _words(out) == [
        ["BROKER", "QUEUE", "FIRST", "MESSAGES"],
        ["broker-a", "1", "2", "2"],
        ["2", "messages", "went"],
    ]
    assert sum(one["messages"] for one in it.told("topic", "purge", "purged", "--before", "2001-01-01", "--yes")) == 0
    assert sum(one["messages"] for one in it.told("topic", "purge", "purged", "--dry-run")) == 4
    assert sum(one["messages"] for one in it.told("topic", "purge", "purged", "--yes")) == 4
    assert it.told("topic", "show", "purged")[0]["messages"] == 0
    assert "--queue" in it.said("topic", "purge", "purged", "--offset", "2", "--yes", status=2)
    assert "no queue 7" in it.said("topic", "purge", "purged", "--queue", "7", "--yes", status=2)
    assert "is no time" in it.said("topic", "purge", "purged", "--before", "soon", "--yes", status=2)
    assert "is no time" in it.said("topic", "purge", "purged", "--before", "", "--yes", status=2)
    assert "broker-x" in it.said("topic", "purge", "purged", "--broker", "broker-x", "--yes", status=2)
