"""``litemq dlq`` at a real broker: tables, JSON as documented, failures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.dead_letters import Death
from tests.unit.cli.command import Command, documented

from litemq.cli import connecting, since
from litemq.testing import Broker, broker


@pytest.fixture(scope="module")
def cluster() -> Iterator[Broker]:
    with broker() as found:
        yield found


@pytest.fixture(scope="module")
def death(cluster: Broker) -> Iterator[Death]:
    found = Death(cluster.nameservers, cluster.address)
    yield found
    found.close()


@pytest.fixture
def it(cluster: Broker, capfdbinary: pytest.CaptureFixture[bytes]) -> Command:
    return Command(cluster.nameservers, capfdbinary)


def test_list(it: Command, death: Death) -> None:
    death.dead_in("orders-a", "ga", [b"1", b"2"])
    death.dead_in("returns-a", "ga", [b"3"])
    told = it.told("dlq", "list", "ga")
    assert [list(one) for one in told] == [documented("A count of dead letters")] * 2
    assert [(one["origin_topic"], one["count"]) for one in told] == [("orders-a", 2), ("returns-a", 1)]
    assert [one["group"] for one in it.told("dlq", "list", "--topic", "returns-a")] == ["ga"]
    header, row = it.rows("dlq", "list", "--topic", "orders-a")
    assert header == ["GROUP", "TOPIC", "REASON", "COUNT", "FIRST", "LAST"]
    assert row[:4] == ["ga", "orders-a", "consume_error", "2"]
    assert it.said("dlq", "list", "--topic", "nothing-died-here")[0] == "there are no dead letters\n"
    assert "litemq group list" in it.refused("dlq", "list", "nobody")


def test_show(it: Command, death: Death) -> None:
    sent = death.dead_in("orders-b", "gb", [b"1", b"2"], "no such order\x1b[31m")
    told = it.told("dlq", "show", "gb")
    assert [list(one) for one in told] == [[*dict.fromkeys(documented("A dead letter") + documented("A message"))]] * 2
    assert told[0]["stack"].startswith("Traceback")
    assert not [name for name in told[0]["properties"] if name.startswith("DLQ_")]
    assert len(it.told("dlq", "show", "--topic", "orders-b", "-n", "1")) == 1
    (one,) = it.told("dlq", "show", "gb", "--id", sent[1].message_id)
    assert one["body"] == "2"
    assert it.told("dlq", "show", "gb", "--reason", "max_retry") == []
    assert it.told("dlq", "show", "gb", "--since", "2100-01-01") == []
    assert len(it.told("dlq", "show", "gb", "--since", "1h", "--until", "2100-01-01")) == 2
    out, _ = it.said("dlq", "show", "gb", "--stack", "-n", "1")
    assert "    error  no such order\\x1b[31m\n    body   1\n    | Traceback\n" in out
    assert it.said("dlq", "show", "gb", "--reason", "x")[0] == "there are no such dead letters\n"
    assert "--topic" in it.refused("dlq", "show")
    assert "litemq group list" in it.refused("dlq", "show", "nobody")


class TestRedrive:
    def test_dry_run_then_some_then_all(self, it: Command, death: Death) -> None:
        sent = death.dead_in("orders-c", "gc", [b"1", b"2", b"3"])
        (told,) = it.told("dlq", "redrive", "gc", "--dry-run")
        assert list(told) == documented("A redrive")
        assert told == {"group": "gc", "to": "group", "dry_run": True, "sent": 3, "skipped": 0, "passed_over": 0}
        (told,) = it.told("dlq", "redrive", "gc", "--id", sent[0].message_id, "--yes")
        assert (told["sent"], told["passed_over"]) == (1, 2)
        out, _ = it.said("dlq", "redrive", "gc", "--yes", "--rate", "1000/s", "--reason", "consume_error")
        assert out == "2 dead letters were sent once more\n1 were redriven before (--again sends them, too)\n"
        (told,) = it.told("dlq", "redrive", "gc", "--to", "origin", "--again", "--yes")
        assert told["sent"] == 3
        assert len(it.told("message", "query", "orders-c", "--begin", "1h")) == 6

    def test_it_asks(self, it: Command, death: Death, monkeypatch: pytest.MonkeyPatch) -> None:
        death.dead_in("orders-d", "gd", [b"1"])
        assert "--yes" in it.refused("dlq", "redrive", "gd")
        asked: list[str] = []
        answers = iter((False, True))

        def confirm(question: str, **_more: object) -> bool:
            asked.append(question)
            return next(answers)

        monkeypatch.setattr(connecting, "_is_terminal", lambda: True)
        monkeypatch.setattr("click.confirm", confirm)
        assert it.said("dlq", "redrive", "gd", status=1) == ("", "nothing was changed\n")
        assert it.said("dlq", "redrive", "gd")[0] == "1 dead letters were sent once more\n"
        assert asked == ["send 1 dead letters to group gd only?"] * 2

    def test_wrong_use(self, it: Command) -> None:
        for rate in ("0", "fast", "-1/s", "inf"):
            assert "messages a second" in it.refused("dlq", "redrive", "g", "--yes", "--rate", rate)
        assert "litemq group list" in it.refused("dlq", "redrive", "nobody", "--yes")
        assert "is no time" in it.refused("dlq", "redrive", "g", "--yes", "--since", "soon")


def test_archive(it: Command, death: Death, tmp_path: Path) -> None:
    death.dead_in("orders-e", "ge", [b"1", b"2"])
    file = tmp_path / "ge.jsonl"
    (told,) = it.told("dlq", "archive", "ge", str(file))
    assert list(told) == documented("An archive")
    assert told["count"] == 2
    assert json.loads(file.read_text().splitlines()[-1]) == {"end": True, "count": 2}
    assert "--force" in it.refused("dlq", "archive", "ge", str(file))
    out, _ = it.said("dlq", "archive", "ge", str(file), "--force", "--reason", "max_retry")
    assert out == f"0 dead letters of ge are in {file}\n"
    assert f"{tmp_path / 'none' / 'x'}: No such file" in it.refused(
        *("dlq", "archive", "ge", str(tmp_path / "none" / "x"))
    )
    assert "litemq group list" in it.refused("dlq", "archive", "nobody", str(tmp_path / "x"))
    assert not (tmp_path / "x").exists()


def test_purge(it: Command, death: Death) -> None:
    death.dead_in("orders-f", "gf", [b"1", b"2"])
    assert "--yes" in it.refused("dlq", "purge", "gf")
    (told,) = it.told("dlq", "purge", "gf", "--dry-run")
    assert list(told) == documented("A purge")
    assert told == {"group": "gf", "dry_run": True, "count": 2}
    assert it.told("dlq", "purge", "gf", "--before", "1h", "--dry-run")[0]["count"] == 0
    assert it.told("dlq", "purge", "gf", "--before", "1h", "--yes")[0]["count"] == 0
    assert it.said("dlq", "purge", "gf", "--yes")[0] == "2 dead letters of gf were removed\n"
    assert it.told("dlq", "show", "gf") == []
    assert "litemq group list" in it.refused("dlq", "purge", "nobody", "--yes")


def test_how_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 10**18)
    assert [since.parse_when(text) for text in (None, "90s", "2h", "1d", "5")] == [
        None,
        10**12 - 90_000,
        10**12 - 7_200_000,
        10**12 - 86_400_000,
        5,
    ]


def test_nobody_answers(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    it = Command("127.0.0.1:1", capfdbinary)
    for arguments in (("list",), ("show", "g"), ("redrive", "g", "--yes"), ("archive", "g", "x"), ("purge", "g", "-y")):
        assert "start one with: litemq up" in it.refused("dlq", *arguments)
