"""The benchmark of the SDK: what it checks, and when it judges."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks import native
from benchmarks.peers import litemq
from benchmarks.peers.process import Missing
from benchmarks.python import __main__ as command
from benchmarks.python import beside_peers, load, peer_libraries, rows
from benchmarks.python.bodies import SIZE, bodies, checksum, shares
from benchmarks.python.drivers import Read, Send


class FakeLibrary:
    """Keeps bodies in a list; loses every ``loses``-th acknowledgement, message or byte."""

    def __init__(self, loses: str = "") -> None:
        self.kept: list[bytes] = []
        self.loses = loses

    def create(self) -> None:
        pass

    def stored(self) -> int:
        return len(self.kept) - (self.loses == "messages" and bool(self.kept))

    def discard(self) -> None:
        self.kept.clear()

    def sender(self, work: str) -> Send:
        def send(count: int) -> int:
            self.kept += bodies(count)
            return count - (self.loses == "acknowledgements")

        return send

    def reader(self, group: str) -> Read:
        def read(count: int) -> tuple[int, int]:
            seen = self.kept[:count]
            return len(seen), sum(body[0] + len(body) for body in seen) - (self.loses == "bytes")

        return read

    def close(self) -> None:
        pass


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 1000])
def test_checksum_is_what_a_reader_adds_up(count: int) -> None:
    assert checksum(count) == sum(body[0] + len(body) for body in bodies(count))


def test_shares_hold_the_bodies_in_order() -> None:
    parts = list(shares(10, 4))
    assert [len(part) for part in parts] == [4, 4, 2]
    assert [body for part in parts for body in part] == list(bodies(10))
    assert {len(body) for body in bodies(300)} == {SIZE}


# -- a run --------------------------------------------------------------------------------------------


def test_a_good_run_prints_where_it_begins_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    found = load.send(FakeLibrary(), "sync", warm=0.0, seconds=0.0001)
    assert found["measured"] == found["result"] >= 1
    assert found["rate"] > 0
    assert capsys.readouterr().out.split() == ["begin", "end"]


@pytest.mark.parametrize("loses", ["acknowledgements", "messages"])
def test_what_is_lost_fails_a_run_of_sends(loses: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "_STORED_S", 0.0)
    with pytest.raises(load.WrongResult, match="acknowledged"):
        load.send(FakeLibrary(loses), "sync", warm=0.0, seconds=0.0001)


def test_a_backlog_is_made_once_and_read_whole() -> None:
    library = FakeLibrary()
    assert load.fill(library, 1000)["measured"] == 1000
    assert load.fill(library, 1000)["measured"] == 0
    assert load.consume(library, "readers", 1000)["result"] == (1000, checksum(1000))


def test_a_broken_backlog_is_not_mended() -> None:
    library = FakeLibrary()
    load.fill(library, 10)
    with pytest.raises(load.WrongResult, match="10 messages instead of 11"):
        load.fill(library, 11)


def test_a_wrong_body_fails_a_run_of_reads() -> None:
    library = FakeLibrary("bytes")
    load.fill(library, 100)
    with pytest.raises(load.WrongResult, match="their sum"):
        load.consume(library, "readers", 100)


def test_a_missing_message_fails_a_run_of_reads() -> None:
    with pytest.raises(load.WrongResult, match="0 came"):
        load.consume(FakeLibrary(), "readers", 100)


# -- LiteMQ's own part --------------------------------------------------------------------------------


def test_the_sdk_does_every_work(tmp_path: Path) -> None:
    plan = beside_peers.Plan(rounds=1, seconds=0.05, warm=0.01, backlog=2000)
    with litemq.start(tmp_path / "server") as server:
        part = beside_peers.Load("litemq", server, tmp_path, plan)
        for row in rows.ROWS:
            found = part.run(row.work, 0)
            assert found["measured"] > 0
            assert found["rate"] > 0
            assert found["client_us"] > 0


def test_a_client_that_ends_early_says_why(tmp_path: Path) -> None:
    plan = beside_peers.Plan(rounds=1, seconds=0.05, warm=0.01, backlog=2000)
    with litemq.start(tmp_path / "server") as server:
        part = beside_peers.Load("litemq", server, tmp_path, plan)
        with pytest.raises(native.LoadFailed, match=r"(?s)litemq, sideways: .*invalid choice"):
            part.run("sideways", 0)


# -- judging ------------------------------------------------------------------------------------------


def _runs(**rates: float) -> dict[str, list[dict[str, Any]]]:
    return {
        name: [{"rate": rate * part, "client_us": 1.0, "broker_us": 2.0} for part in (0.5, 1.0, 3.0)]
        for name, rate in rates.items()
    }


def test_the_bar_is_a_multiple_of_the_best_peer() -> None:
    sync = rows.ROWS[0]
    runs = _runs(litemq=119.0, redis=100.0, kafka=5.0, kafka_tuned=1e9, nats=6.0, rabbitmq=7.0)
    figures = {figure.name: figure for figure in rows.figures(sync, runs)}
    assert figures["sync: litemq"].value == 119.0
    assert figures["sync: litemq"].bar == pytest.approx(120.0)
    assert figures["sync: litemq"].verdict == "MISSED"
    assert figures["sync: redis"].verdict == ""
    assert figures["sync: client CPU per message: nats"].value == 1.0
    assert figures["sync: server CPU per message: nats"].value == 2.0


@pytest.mark.parametrize("missing", rows.PEERS)
def test_nothing_is_judged_without_all_peers(missing: str) -> None:
    rates = {name: 1.0 for name in ("litemq", *rows.PEERS) if name != missing}
    assert rows.bar(rows.ROWS[0], rates) is None


def test_the_order_turns_and_the_first_round_does_not_count() -> None:
    ran: list[tuple[str, int]] = []

    class FakeLoad:
        def __init__(self, name: str) -> None:
            self.name = name

        def run(self, work: str, turn: int) -> dict[str, Any]:
            ran.append((self.name, turn))
            return {"turn": turn}

    plan = beside_peers.Plan(rounds=2, seconds=1, warm=1, backlog=1)
    loads: Any = [FakeLoad("a"), FakeLoad("b"), FakeLoad("c")]
    runs = beside_peers.rounds(rows.ROWS[0], loads, plan)
    assert runs == {name: [{"turn": 0}, {"turn": 1}] for name in "abc"}
    assert [name for name, turn in ran if turn == 0] == ["a", "b", "c"]
    assert [name for name, turn in ran if turn == 1] == ["b", "c", "a"]


# -- what is missing ----------------------------------------------------------------------------------


def _lacks(what: str) -> Callable[[], object]:
    def need() -> object:
        raise Missing(f"no {what}")

    return need


def test_all_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(beside_peers, "_NEEDS", {"redis": _lacks("redis-server"), "rabbitmq": _lacks("RabbitMQ")})
    monkeypatch.setattr(peer_libraries, "interpreter", _lacks("uv"))
    monkeypatch.setattr("sys.argv", ["python", "--dir", str(tmp_path)])
    assert command.main() == 2
    assert "no redis-server; no RabbitMQ; no uv" in capsys.readouterr().err


def test_only_what_was_asked_for_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside_peers, "_NEEDS", {"redis": lambda: None, "rabbitmq": _lacks("RabbitMQ")})
    monkeypatch.setattr(peer_libraries, "interpreter", lambda: None)
    beside_peers.make_sure(["litemq", "redis"])


@pytest.mark.parametrize(("option", "word"), [("--rows", "row"), ("--peers", "peer")])
def test_an_unknown_name_is_refused(
    option: str, word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["python", option, "sideways"])
    assert command.main() == 2
    assert f"no such {word}: sideways" in capsys.readouterr().err


@pytest.mark.parametrize(("rate", "code", "said"), [(10.0, 0, "all bars held"), (1.0, 1, "bars were missed")])
def test_the_result_is_kept_with_every_run(
    rate: float,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    row = rows.ROWS[1]
    runs = {row.work: _runs(litemq=rate, redis=5.0, kafka=5.0, nats=5.0, rabbitmq=5.0)}

    def ran(*_: object) -> object:
        return {row.work: list(rows.figures(row, runs[row.work]))}, runs

    monkeypatch.setattr(beside_peers, "run", ran)
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(native, "BUILD", tmp_path / "bench")
    monkeypatch.setattr("sys.argv", ["python", "--dir", str(tmp_path)])
    assert command.main() == code
    assert said in capsys.readouterr().out
    kept = json.loads((tmp_path / "bench" / "python.json").read_text())
    assert kept["runs"][row.work]["litemq"][1]["rate"] == rate
    assert kept["results"][row.work][0]["verdict"] == ("ok" if code == 0 else "MISSED")
