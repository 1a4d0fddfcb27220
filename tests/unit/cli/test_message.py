"""``litemq message`` at a real broker: tables, JSON as documented, failures."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.dead_letters import Death
from tests.unit.cli.command import Command, documented, interrupted

import litemq
from litemq.cli.asking import asking
from litemq.cli.tail import Filter, following, since
from litemq.client.running import run
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


def _stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


class TestSend:
    def test_one(self, it: Command) -> None:
        out, _ = it.said("message", "send", "one", "17 apples", "--tag", "paid", "--key", "a", "--key", "b")
        message_id = out.split()[0]
        assert out == f"{message_id} is in one: broker-a/{out.rpartition('/')[2]}"
        (found,) = it.told("message", "get", message_id)
        assert (found["body"], found["tags"], found["keys"]) == ("17 apples", "paid", ["a", "b"])

    def test_everything_that_can_be_said(self, it: Command) -> None:
        more = ("--property", "region=eu", "-p", "x=1=2", "--sharding-key", "s")
        (sent,) = it.told("message", "send", "said", "ä", *more)
        assert list(sent) == documented("A sent message")
        (found,) = it.told("message", "get", sent["message_id"], "--topic", "said")
        assert found["properties"] == {"region": "eu", "x": "1=2"}
        assert (found["sharding_key"], found["body"]) == ("s", "ä")

    def test_lines_of_stdin(self, it: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        _stdin(monkeypatch, b"one\r\n\ntwo\nthree")
        out, _ = it.said("message", "send", "lines", "--lines")
        assert out == "3 messages sent to lines\n"
        assert sorted(one["body"] for one in it.told("message", "tail", "lines")) == ["one", "three", "two"]

    def test_no_bar_among_what_is_typed(self, it: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        class Terminal(io.TextIOWrapper):
            def isatty(self) -> bool:
                return True

        typed, shown = Terminal(io.BytesIO(b"one\ntwo\n")), io.BytesIO()
        monkeypatch.setattr(sys, "stdin", typed)
        monkeypatch.setattr(sys, "stderr", Terminal(shown, write_through=True))
        it.said("message", "send", "typed", "--lines")
        assert shown.getvalue() == b"reading the body from the terminal; end it with Ctrl-D\n"

    def test_stdin_and_files_as_they_are(self, it: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        _stdin(monkeypatch, b"a\nb\n\xff")
        (sent,) = it.told("message", "send", "raw")
        (found,) = it.told("message", "get", sent["message_id"])
        assert (found["body"], found["body_encoding"], found["size"]) == ("YQpiCv8=", "base64", 5)
        file = tmp_path / "body"
        file.write_bytes(b"x\ny")
        (sent,) = it.told("message", "send", "raw", "--file", str(file))
        out, _ = it.said("message", "get", sent["message_id"], "--body")
        assert out == "x\ny"
        assert len(it.told("message", "send", "raw", "--file", str(file), "--lines")) == 2

    def test_nothing_to_send(self, it: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        _stdin(monkeypatch, b"")
        assert "stdin is empty" in it.refused("message", "send", "raw")
        _stdin(monkeypatch, b"\n\n")
        assert it.said("message", "send", "raw", "--lines")[0] == "0 messages sent to raw\n"

    def test_what_fails_on_the_way_tells_what_is_stored(
        self, it: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        file = tmp_path / "lines"
        file.write_bytes(b"a\nb\n" + b"x" * (5 << 20))
        assert "; 2 messages were stored before it" in it.refused(
            "message", "send", "broken", "--file", str(file), "--lines"
        )

    @pytest.mark.parametrize("batch", [(), ("--batch", "8")])
    def test_many(self, it: Command, batch: tuple[str, ...]) -> None:
        topic = f"many-{len(batch)}"
        sent = it.told("message", "send", topic, "x", "--count", "30", *batch)
        assert len({one["message_id"] for one in sent}) == 30
        assert len(it.told("message", "tail", topic, "--from", "first")) == 30

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("a b", "x"), "topic 'a b' cannot be used"),
            (("t", "x", "--property", "x"), "NAME=VALUE"),
            (("t", "x", "--file", "y"), "either as an argument"),
            (("t", "--file", "/no/such/file"), "No such file"),
            (("t", "x", "--count", "0"), "--count"),
            (("t", "x", "-p", "UNIQ_KEY=1"), "LiteMQ's own"),
        ],
    )
    def test_what_cannot_be_is_refused(self, it: Command, arguments: tuple[str, ...], words: str) -> None:
        assert words in it.refused("message", "send", *arguments)


class TestTail:
    def test_the_newest(self, it: Command, death: Death) -> None:
        death.send("tailed", [b"%d" % number for number in range(15)])
        told = it.told("message", "tail", "tailed")
        assert [list(one) for one in told] == [documented("A message")] * 10
        times = [one["stored_at"] for one in told]
        assert times == sorted(times)
        out, _ = it.said("message", "tail", "tailed", "-n", "2")
        assert len(out.splitlines()) == 2
        assert "tags=-  keys=k-" in out

    def test_filters_and_where_to_begin(self, it: Command) -> None:
        for number in range(4):
            it.said("message", "send", "sifted", str(number), "--tag", "ab"[number % 2], "-p", f"n={number}")
        assert [one["body"] for one in it.told("message", "tail", "sifted", "--filter", "b", "-n", "1")] == ["3"]
        begun = it.told("message", "tail", "sifted", "--sql", "n >= 2", "--from", "first")
        assert sorted(one["body"] for one in begun) == ["2", "3"]
        assert len(it.told("message", "tail", "sifted", "--from", "1h", "-n", "3")) == 3
        assert it.told("message", "tail", "sifted", "--from", "2100-01-01") == []

    def test_what_comes(self, it: Command, death: Death) -> None:
        death.send("followed", [b"old"])
        sender = threading.Timer(0.2, lambda: death.send("followed", [b"new-1", b"new-2"]))
        sender.start()
        told = it.told("message", "tail", "followed", "--from", "last", "-n", "2")
        sender.join()
        assert sorted(one["body"] for one in told) == ["new-1", "new-2"]

    def test_new_queues_are_found(self, cluster: Broker, death: Death, monkeypatch: pytest.MonkeyPatch) -> None:
        death.send("growing", [b"a"])
        with asking(cluster.nameservers) as ask:
            (place, *_) = (one for one in since(ask, "growing", "first") if one.end)
            now = iter(range(0, 10_000, 20))
            monkeypatch.setattr(ask._net, "now", lambda: float(next(now)))
            found = following(ask, "growing", [place], Filter(), is_endless=True)
            assert next(found).body == b"a"
            death.send("growing", [b"%d" % number for number in range(8)])
            assert len({next(found).queue_id for _ in range(8)}) == 4

    def test_wrong_use(self, it: Command) -> None:
        assert "litemq topic create missing" in it.refused("message", "tail", "missing")
        assert "either --filter or --sql" in it.refused("message", "tail", "t", "--filter", "a", "--sql", "b = 1")
        assert "is no time" in it.refused("message", "tail", "t", "--from", "soon")

    def test_a_bad_filter(self, it: Command, death: Death) -> None:
        death.send("badly", [b"a"])
        assert "a >" in it.refused("message", "tail", "badly", "--sql", "a >")


def test_a_tail_that_is_interrupted(cluster: Broker, death: Death) -> None:
    death.send("endless", [b"a"])
    arguments = ["message", "tail", "endless", "--follow", "--nameserver", cluster.nameservers]
    out, err, status = interrupted(arguments, lambda out, _err: out.endswith(b"\n"))
    assert (out[-2:], err.strip(), status) == (b"a\n", b"", 130)


class TestGetAndQuery:
    def test_get(self, it: Command, death: Death) -> None:
        (sent,) = death.send("got", [b"a\nb"])
        (told,) = it.told("message", "get", sent.message_id)
        assert list(told) == documented("A message")
        out, _ = it.said("message", "get", told["offset_id"])
        assert out.splitlines()[0].split() == ["topic", "got"]
        assert out.endswith("\n\na\nb\n")

    def test_none(self, it: Command) -> None:
        assert "no message 'nothing' in any topic" in it.refused("message", "get", "nothing")
        assert "in topic 'got'" in it.refused("message", "get", "nothing", "--topic", "got")

    def test_query(self, it: Command, death: Death) -> None:
        sent, _ = death.send("asked", [b"a", b"b"])
        for wanted in (("--key", "k-a"), ("--id", sent.message_id)):
            (told,) = it.told("message", "query", "asked", *wanted)
            assert list(told) == documented("A message")
            assert told["body"] == "a"
        assert len(it.told("message", "query", "asked", "--begin", "1h")) == 2
        assert len(it.told("message", "query", "asked", "--begin", "1h", "-n", "1")) == 1
        header, row = it.rows("message", "query", "asked", "--key", "k-b")
        assert header == ["STORED", "QUEUE", "OFFSET", "TAGS", "KEYS", "BYTES", "BODY"]
        assert row[2:] == ["0", "-", "k-b", "1", "b"] or row[2:] == ["1", "-", "k-b", "1", "b"]
        assert it.said("message", "query", "asked", "--key", "nobody")[0] == "no message of asked is so\n"

    def test_wrong_use(self, it: Command) -> None:
        assert "say what to look for" in it.refused("message", "query", "asked")
        assert "either --key or --id" in it.refused("message", "query", "asked", "--key", "a", "--id", "b")
        assert "no broker has the topic" in it.refused("message", "query", "missing", "--key", "a")
        assert "no broker has the topic" in it.refused("message", "query", "missing", "--id", "a")


class TestTrace:
    def test_it(self, it: Command, death: Death) -> None:
        (sent,) = death.dead_in("traced", "mourners", [b"a"], "no such order")
        (told,) = it.told("message", "trace", sent.message_id)
        assert list(told) == documented("A trace")
        assert list(told["message"]) == documented("A message")
        (group,) = told["groups"]
        assert list(group) == documented("A group of a trace")
        assert group["state"] == "dead"
        (dead,) = group["dead_letters"]
        assert list(dead) == [*dict.fromkeys(documented("A dead letter") + documented("A message"))]
        out, _ = it.said("message", "trace", sent.message_id)
        assert "group mourners: gave up: it is a dead letter" in out
        assert "dead: consume_error: no such order" in out

    def test_all_states_have_words(self, it: Command, death: Death) -> None:
        from litemq.cli.message_text import group_text
        from litemq.client.trace import GroupTrace

        said = {
            group_text(GroupTrace("g", state, 3))
            for state in ("unread", "read", "retry waits", "retry unread", "read after retry", "dead")
        }
        assert len(said) == 6
        (sent,) = death.send("unread", [b"a"])
        assert "no group reads the topic" in it.said("message", "trace", sent.message_id)[0]

    def test_none(self, it: Command) -> None:
        assert "no message 'nothing'" in it.refused("message", "trace", "nothing")


def test_nobody_answers(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    it = Command("127.0.0.1:1", capfdbinary)
    for arguments in (
        ("send", "t", "x"),
        ("tail", "t"),
        ("get", "x"),
        ("query", "t", "--key", "k"),
        ("query", "t", "--id", "k"),
        ("trace", "x"),
    ):
        began = time.monotonic()
        assert "start one with: litemq up" in it.refused("message", *arguments)
        assert time.monotonic() - began < 6  # 3 s, and a busy machine


def test_a_read_on_a_closed_queue_ends(cluster: Broker, death: Death) -> None:
    death.send("ended", [b"a"])
    with asking(cluster.nameservers) as ask:
        places = since(ask, "ended", 0)
        assert [one.body for one in following(ask, "ended", places, Filter(), is_endless=False)] == [b"a"]
        assert run(ask.lookups.topics())


class TestTransactions:
    def test_table_and_json(self, it: Command, cluster: Broker) -> None:
        def check(_: litemq.Message) -> litemq.Decision:
            return litemq.UNKNOWN

        with litemq.TransactionProducer("tellers", check=check, nameservers=cluster.nameservers) as producer:
            with producer.transaction() as tx:
                sent = tx.send("receipts", b"17", keys=("r-1", "r-2"))
                headers, row, *rest = it.rows("message", "transactions", "--group", "tellers")
                (told,) = it.told("message", "transactions", "--topic", "receipts")
                assert it.told("message", "transactions", "--topic", "elsewhere") == []
            (ended,) = it.told("message", "transactions", "--group", "tellers", "--ended")
        assert (headers[0], rest) == ("MESSAGE", [])
        assert row[:5] == [sent.message_id, "receipts", "tellers", "broker-a", "pending"]
        assert list(told) == documented("A transaction")
        assert (told["message_id"], told["keys"], told["state"]) == (sent.message_id, ["r-1", "r-2"], "pending")
        assert told["next_check_at"] - told["stored_at"] == 60_000
        assert (ended["message_id"], ended["state"], ended["next_check_at"]) == (sent.message_id, "committed", None)

    def test_none_and_many(self, it: Command, cluster: Broker) -> None:
        out, _ = it.said("message", "transactions", "--group", "nobody")
        assert out == "no transaction waits for its end\n"
        with (
            litemq.TransactionProducer(
                "hosts", check=lambda _: litemq.UNKNOWN, nameservers=cluster.nameservers
            ) as producer,
            producer.transaction() as tx,
        ):
            for _ in range(3):
                tx.send("meals", b"soup")
            lines = it.said("message", "transactions", "--group", "hosts", "--count", "2")[0].splitlines()
            tx.rollback()
        assert len(lines) == 4
        assert lines[-1] == "there may be more than 2 on a broker: --count"

    def test_no_cluster(self, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        assert "no name server answers" in Command("127.0.0.1:1", capfdbinary).refused("message", "transactions")
