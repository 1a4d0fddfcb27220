"""``litemq bench`` at a real broker, and its rules without one."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from tests.unit.cli.command import Command, documented, interrupted
from tests.unit.cli.test_output import Terminal

from litemq.cli import bench
from litemq.cli.counting import counted
from litemq.cli.load import Load, Plan, Worker, body_of, consuming, due_of
from litemq.cli.rates import Rates, live, time_text
from litemq.client._message_cy import Message
from litemq.testing import Broker, broker


@pytest.fixture(scope="module")
def cluster() -> Iterator[Broker]:
    with broker() as found:
        yield found


@pytest.fixture
def it(cluster: Broker, capfdbinary: pytest.CaptureFixture[bytes]) -> Command:
    return Command(cluster.nameservers, capfdbinary)


class TestCommands:
    @pytest.mark.parametrize(
        "how", [(), ("--threads", "3"), ("--in-flight", "50"), ("--batch", "16"), ("--rate", "2000")]
    )
    def test_send(self, it: Command, how: tuple[str, ...]) -> None:
        topic = f"sent{''.join(how)}"
        (told,) = it.told("bench", "send", "--topic", topic, "-n", "100", "--size", "64", *how)
        assert list(told) == documented("A load")
        assert list(told["latency_us"]) == documented("Latencies")
        assert (told["messages"], told["bytes"], told["bench"]) == (100, 6400, "send")
        assert 0 < told["latency_us"]["p50"] <= told["latency_us"]["max"]
        assert len(it.told("message", "query", topic, "--begin", "1h", "-n", "500")) == 101  # one made the topic

    def test_seconds_and_rates(self, it: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        waited = Load._wait
        monkeypatch.setattr(Load, "_wait", lambda self, a, b, _every, e: waited(self, a, b, 0.1, e))
        out, err = it.said("bench", "send", "--topic", "timed", "-t", "0.35", "--rate", "200")
        assert 3 <= len(err.splitlines()) <= 4
        assert all("messages/s" in line for line in err.splitlines())
        assert "since it was due" in out
        assert [line.split()[0] for line in out.splitlines()][4:] == [
            "latency",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "max",
            "mean",
        ]

    def test_consume(self, it: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bench, "_IDLE_S", 0.2)
        it.said("bench", "send", "--topic", "consumed", "-n", "99", "--size", "32", "--batch", "9")
        (told,) = it.told("bench", "consume", "--topic", "consumed")
        assert list(told) == documented("A load")
        assert (told["messages"], told["bytes"], told["latency_us"]) == (100, 99 * 32 + 8, None)
        (told,) = it.told("bench", "consume", "--topic", "consumed", "-n", "60")
        assert told["messages"] == 60
        out, _ = it.said("bench", "consume", "--topic", "consumed", "--group", "readers")
        assert out.splitlines()[0].split() == ["messages", "100"]
        (told,) = it.told("bench", "consume", "--topic", "consumed", "--group", "readers", "-t", "0.3")
        assert told["messages"] == 0

    def test_latency(self, it: Command) -> None:
        (told,) = it.told("bench", "latency", "--topic", "timely", "-n", "100", "--rate", "1000", "--threads", "2")
        assert list(told) == documented("A load")
        assert list(told["latency_us"]) == documented("Latencies")
        assert (told["messages"], told["rate"]) == (100, 1000.0)
        out, _ = it.said("bench", "latency", "--topic", "timely", "-t", "0.2")
        assert "end to end, since it was due" in out

    def test_wrong_use(self, it: Command) -> None:
        assert "either --in-flight or --batch" in it.refused("bench", "send", "--in-flight", "2", "--batch", "2")
        assert "--size" in it.refused("bench", "send", "--size", "1")
        assert "--rate" in it.refused("bench", "latency", "--rate", "0")
        assert "cannot be used" in it.refused("bench", "send", "--topic", "a b")

    def test_nobody_answers(self, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        it = Command("127.0.0.1:1", capfdbinary)
        for what in ("send", "consume", "latency"):
            assert "start one with: litemq up" in it.refused("bench", what)


def test_interrupted(cluster: Broker) -> None:
    out, err, status = interrupted(
        ["bench", "send", "--topic", "endless", "-t", "60", "--nameserver", cluster.nameservers, "--json"],
        lambda _out, err: b"messages/s" in err,
    )
    assert status == 130
    assert json.loads(out)["messages"] > 0
    assert b"interrupted; this is the result until then" in err
    assert b"Traceback" not in err


def test_a_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    load = Load(Plan(topic="t"))
    with live(load, "send") as shown:
        load.run([lambda worker: worker.done(1, 8, 0.001)], shown)
        shown()
    assert "1 in all" in terminal.shown()
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with counted("redrive") as told:
        assert told is not None
        told(1, 3)
    assert "redrive" in terminal.shown()


class TestRules:
    def test_latencies_begin_when_due(self) -> None:
        load = Load(Plan(topic="t", count=5, rate=1000.0))
        turns = load.turns()
        begun = time.monotonic()
        first = next(turns)[1]
        time.sleep(0.02)  # a stall: the next four were due meanwhile, and do not wait
        dues = [first, *(due for _, due in turns)]
        assert [due - first for due in dues] == pytest.approx([0, 0.001, 0.002, 0.003, 0.004])
        assert time.monotonic() - begun < 1

    def test_nothing_is_due_after_the_end(self) -> None:
        load = Load(Plan(topic="t", count=10, batch=4))
        assert [count for count, _ in load.turns()] == [4, 4, 2]
        load.stopped.set()
        assert list(Load(Plan(topic="t", count=0)).turns()) == []
        assert load.take(1) == 0

    def test_the_first_error_ends_all(self) -> None:
        load = Load(Plan(topic="t"))

        def fails(_worker: Worker) -> None:
            raise ValueError("broken")

        def waits(_worker: Worker) -> None:
            assert load.stopped.wait(10)

        with pytest.raises(ValueError, match="broken"):
            load.run([waits, fails], lambda: None)
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("bench-")]

    def test_interrupted(self) -> None:
        load = Load(Plan(topic="t"))

        def waits(worker: Worker) -> None:
            worker.done(1, 8, 0.001)
            assert load.stopped.wait(10)

        def interrupted() -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            load.run([waits], interrupted, every_s=0.01)
        assert load.total == 1

    def test_due_times_in_bodies(self) -> None:
        assert len(body_of(1.5, 100)) == 100
        assert due_of(body_of(1.5, 8), 2.0) == 1.5
        assert due_of(b"short", 2.0) is None
        assert due_of(b"x" * 100, 2.0) is None

    def test_what_is_missing_is_told(self) -> None:
        class Poor:
            def poll(self, max_messages: int = 0, timeout: float = 0) -> list[Message]:
                return [Message("t", b"not ours")] * min(max_messages, 2)

        load = Load(Plan(topic="t"))
        work = consuming(load, Poor(), most=5, knows_due=True, is_over=lambda count, _idle: count >= 4)
        load.run([work], lambda: None)
        assert (load.total, load.latencies().count) == (4, 0)
        load.expected = 5
        assert load.is_short
        assert "4 in all" in Rates(load, "consume").line()

    def test_times(self) -> None:
        assert [time_text(one) for one in (0.0000315, 0.0042, 3.14159)] == ["32 µs", "4.20 ms", "3.14 s"]
