"""``litemq group`` on one broker: its tables, its JSON as the page says, its failures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest
from click.testing import CliRunner
from tests.support.cli_page import CliPage, Command

import litemq
from litemq.cli import connecting
from litemq.cli.main import cli
from litemq.client.admin import Admin
from litemq.client.net import BlockingNet
from litemq.client.running import run
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


@pytest.fixture
def net() -> Iterator[BlockingNet]:
    found = BlockingNet()
    yield found
    run(found.close())


def _fill(it: Command, topic: str, count: int, *, queues: int = 2) -> None:
    """Make a topic with messages."""
    with Admin(it.servers) as admin, litemq.Producer(it.servers) as producer:
        admin.create_topic(topic, queues)
        for number in range(count):
            producer.send(topic, b"%d" % number)


def _beat(it: Command, net: BlockingNet, group: str, topic: str) -> None:
    """Let a client be in a group for as long as the connection lasts."""
    with Admin(it.servers) as admin:
        address = admin.brokers()[0].address
    wanted = {"topic": topic, "subString": "a || b", "expressionType": "TAG", "subVersion": 1}
    consumer = {"groupName": group, "messageModel": "CLUSTERING", "subscriptionDataSet": [wanted]}
    body = json.dumps({"clientID": f"me@{group}", "consumerDataSet": [consumer]}).encode()
    assert run(net.call(address, Request(Ask.HEART_BEAT, {}, body), 5.0)).code == Code.SUCCESS


def _words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_create_and_alter(it: Command) -> None:
    told = it.told(
        "group", "create", "made", "--max-retries", "5", "--attribute", "unmatched=dead-letter", "--disabled"
    )
    PAGE.check("litemq group create", told, unseen=("topics[]",))
    assert (told[0]["max_retries"], told[0]["enabled"]) == (5, False)
    assert "litemq group alter made" in it.said("group", "create", "made", status=2)
    told = it.told("group", "alter", "made", "--enabled", "--no-attribute", "unmatched")
    PAGE.check("litemq group alter", told, unseen=("topics[]", "attributes.*"))
    assert (told[0]["max_retries"], told[0]["enabled"], told[0]["attributes"]) == (5, True, {})
    assert ["max", "retries", "5"] in _words(it.said("group", "alter", "made", "--ordered"))
    assert "--max-retries" in it.said("group", "alter", "made", status=2)
    assert "litemq group list" in it.said("group", "alter", "missing", "--ordered", status=2)
    assert "skip or dead-letter" in it.said("group", "alter", "made", "--attribute", "unmatched=x", status=2)
    assert "' '" in it.said("group", "create", "a b", status=2)


def test_list_and_show(it: Command) -> None:
    _fill(it, "listed-topic", 4)
    it.said("group", "create", "listed", "--attribute", "x.y=z")
    it.said("group", "reset", "listed", "--topic", "listed-topic", "--to", "first", "--yes")
    told = it.told("group", "list")
    PAGE.check("litemq group list", told)
    (one,) = [one for one in told if one["group"] == "listed"]
    assert (one["lag"], one["members"], one["topics"]) == (4, 0, ["listed-topic"])
    assert not any(one["system"] for one in told)
    assert any(one["system"] for one in it.told("group", "list", "--all"))
    lines = _words(it.said("group", "list"))
    assert lines[0] == ["GROUP", "MEMBERS", "LAG", "TOPICS"]
    assert ["listed", "0", "4", "listed-topic"] in lines
    assert it.told("group", "show", "listed") == [one]
    assert ["topics", "listed-topic"] in _words(it.said("group", "show", "listed"))
    assert "litemq group list" in it.said("group", "show", "missing", status=2)


def test_lag(it: Command) -> None:
    _fill(it, "late-topic", 6)
    it.said("group", "create", "late")
    assert "0 messages to read" in it.said("group", "lag", "late")
    it.said("group", "reset", "late", "--topic", "late-topic", "--to", "1", "--queue", "0", "--yes")
    it.said("group", "reset", "late", "--topic", "late-topic", "--to", "0", "--queue", "1", "--yes")
    told = it.told("group", "lag", "late")
    PAGE.check("litemq group lag", told)
    assert (told[0]["total"], told[0]["topics"]) == (5, {"late-topic": 5})
    assert [(queue["queue"], queue["offset"], queue["lag"]) for queue in told[0]["queues"]] == [(0, 1, 2), (1, 0, 3)]
    lines = _words(it.said("group", "lag", "late"))
    assert lines[0][:6] == ["TOPIC", "BROKER", "QUEUE", "OFFSET", "END", "LAG"]
    assert lines[1][:6] == ["late-topic", "broker-a", "0", "1", "3", "2"]
    assert lines[-1][:4] == ["5", "messages", "to", "read,"]
    # What is gone does not wait.
    it.said("topic", "purge", "late-topic", "--queue", "1", "--offset", "2", "--yes")
    assert it.told("group", "lag", "late")[0]["total"] == 3
    assert "litemq group list" in it.said("group", "lag", "missing", status=2)


def test_members(it: Command, net: BlockingNet) -> None:
    _fill(it, "met-topic", 0)
    it.said("group", "create", "met")
    assert it.said("group", "members", "met").endswith("nobody is online\n")
    _beat(it, net, "met", "met-topic")
    told = it.told("group", "members", "met")
    PAGE.check("litemq group members", told, unseen=("queues[].topic", "queues[].broker", "queues[].queue"))
    assert (told[0]["client"], told[0]["language"], told[0]["queues"]) == ("me@met", "PYTHON", None)
    assert told[0]["subscriptions"]["met-topic"] == "a || b"
    lines = _words(it.said("group", "members", "met"))
    assert lines[0][:5] == ["CLIENT", "ADDRESS", "LANGUAGE", "VERSION", "MODE"]
    assert (lines[1][0], lines[1][-1]) == ("me@met", "?")
    assert "litemq group list" in it.said("group", "members", "missing", status=2)


def test_delete(it: Command, net: BlockingNet) -> None:
    it.said("group", "create", "gone")
    _fill(it, "gone-topic", 0)
    assert "add --yes" in it.said("group", "delete", "gone", status=2)
    told = it.told("group", "delete", "gone", "--dry-run")
    PAGE.check("litemq group delete", told)
    assert told[0]["dry_run"] is True
    _beat(it, net, "gone", "gone-topic")
    assert "me@gone" in it.said("group", "delete", "gone", "--yes", status=2)
    run(net.close())
    it.said("group", "delete", "gone", "--yes", "--force")
    assert "no consumer group 'gone'" in it.said("group", "delete", "gone", "--yes", status=2)
    assert "%RETRY%gone" not in [one["topic"] for one in it.told("topic", "list", "--all")]


def test_reset(it: Command) -> None:
    _fill(it, "reset-topic", 6)
    it.said("group", "create", "again")
    at = ("group", "reset", "again", "--topic", "reset-topic", "--to")
    assert "add --yes" in it.said(*at, "first", status=2)
    told = it.told(*at, "last", "--dry-run")
    PAGE.check("litemq group reset", told)
    assert [(one["before"], one["after"], one["dry_run"]) for one in told] == [(None, 3, True)] * 2
    assert it.told("group", "lag", "again")[0]["queues"] == []
    out = it.said(*at, "last", "--yes")
    assert _words(out) == [
        ["TOPIC", "BROKER", "QUEUE", "BEFORE", "AFTER"],
        ["reset-topic", "broker-a", "0", "-", "3"],
        ["reset-topic", "broker-a", "1", "-", "3"],
        ["2", "offsets", "are", "set"],
    ]
    ahead = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert _afters(it.told(*at, "2001-01-01", "--yes")) == [0, 0]
    assert _afters(it.told(*at, "1000000000000", "--yes")) == [0, 0]
    assert _afters(it.told(*at, ahead, "--yes")) == [3, 3]
    assert _afters(it.told(*at, "first", "--queue", "1", "--yes")) == [0]
    assert _afters(it.told(*at, "2", "--queue", "0", "--queue", "1", "--broker", "broker-a", "--yes")) == [2, 2]
    assert [queue["offset"] for queue in it.told("group", "lag", "again")[0]["queues"]] == [2, 2]


def _afters(told: list[dict[str, Any]]) -> list[int]:
    return [one["after"] for one in told]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("refused", "--topic", "refused-topic", "--to", "soon"), "is no time"),
        (("refused", "--topic", "refused-topic", "--to", ""), "first, last"),
        (("refused", "--topic", "refused-topic", "--to", "3"), "--queue"),
        (("refused", "--topic", "refused-topic", "--to", "7", "--queue", "0"), "offsets 0 to 1, not 7"),
        (("refused", "--topic", "refused-topic", "--to", "0", "--queue", "9"), "no queue 9"),
        (("refused", "--topic", "refused-topic", "--to", "first", "--queue", "9"), "has queues [0]"),
        (("refused", "--topic", "refused-topic", "--to", "0", "--queue", "0", "--broker", "x"), "on x"),
        (("refused", "--topic", "refused-topic", "--to", "first", "--broker", "x"), "--broker"),
        (("refused", "--topic", "missing", "--to", "first"), "no topic 'missing'"),
        (("missing", "--topic", "refused-topic", "--to", "first"), "litemq group create missing"),
        (("refused", "--to", "first"), "--topic"),
    ],
)
def test_reset_refuses_what_cannot_be(it: Command, arguments: tuple[str, ...], words: str) -> None:
    with Admin(it.servers) as admin, litemq.Producer(it.servers) as producer:
        if not any(info.topic == "refused-topic" for info in admin.topics()):
            admin.create_topic("refused-topic", 1)
            admin.create_group("refused")
            producer.send("refused-topic", b"1")
        assert words in it.said("group", "reset", *arguments, "--yes", status=2)
        assert admin.lag("refused").queues == ()


def test_a_person_is_asked(it: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "_is_terminal", lambda: True)
    _fill(it, "asked-topic", 2)
    it.said("group", "create", "asked")

    def answer(text: str, *arguments: str) -> str:
        done = CliRunner().invoke(cli, [*arguments, "--nameserver", it.servers], input=text, standalone_mode=False)
        if text == "n\n":
            assert done.return_value == 1
            assert "nothing was changed" in done.output
        else:
            assert done.return_value == 0, done.output
        return done.output

    reset = ("group", "reset", "asked", "--topic", "asked-topic", "--to", "last")
    shown = answer("n\n", *reset)
    assert "set these offsets of group asked?" in shown
    assert "AFTER" in shown
    assert "AFTER" not in answer("n\n", *reset, "--json")
    assert it.told("group", "lag", "asked")[0]["queues"] == []
    answer("y\n", *reset)
    assert len(it.told("group", "lag", "asked")[0]["queues"]) == 2
    assert "2 messages" in answer("n\n", "topic", "purge", "asked-topic")
    assert "2 messages" in answer("n\n", "topic", "delete", "asked-topic")
    assert "2 messages went" in answer("y\n", "topic", "purge", "asked-topic")
    answer("y\n", "topic", "delete", "asked-topic")
    assert "0 members" in answer("n\n", "group", "delete", "asked")
    answer("y\n", "group", "delete", "asked")
    with pytest.raises(click.Abort):  # Ctrl-C
        CliRunner().invoke(
            cli, ["group", "delete", "made", "--nameserver", it.servers], standalone_mode=False, catch_exceptions=False
        )


def test_inflight(it: Command) -> None:
    _fill(it, "held", 3, queues=1)
    with litemq.SimpleConsumer("holders", {"held": "*"}, nameservers=it.servers) as consumer:
        messages = consumer.receive(max_messages=2, invisible=600, timeout=20)
        assert len(messages) == 2
        told = it.told("group", "inflight", "holders")
        PAGE.check("litemq group inflight", told)
        assert [(one["offset"], one["attempt"]) for one in told] == [(0, 1), (1, 1)]
        assert [one["message_id"] for one in told] == [message.message_id for message in messages]
        assert told[0]["until"] - told[0]["handed_out_at"] == 600_000
        with Admin(it.servers) as admin:
            (member,) = admin.members("holders")
        assert {one["consumer"] for one in told} == {member.client_id}
        headers, *rows = _words(it.said("group", "inflight", "holders", "--topic", "held"))
        assert headers == ["TOPIC", "BROKER", "QUEUE", "OFFSET", "MESSAGE", "CONSUMER", "ATTEMPT", "UNTIL"]
        assert [row[:6] for row in rows] == [
            ["held", "broker-a", "0", str(at), messages[at].message_id, member.client_id] for at in range(2)
        ]
        limited = it.said("group", "inflight", "holders", "--count", "1").splitlines()
        assert limited[2:] == ["there may be more than 1 on a broker: --count"]
        consumer.ack(*messages)
    assert it.said("group", "inflight", "holders") == "nothing is held\n"


def test_inflight_of_nobody(it: Command) -> None:
    assert "there is no consumer group 'nobody'" in it.said("group", "inflight", "nobody", status=2)
