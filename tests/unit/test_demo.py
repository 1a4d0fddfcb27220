"""The demo shows what it says, notices what goes wrong, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from litemq.demo import __main__ as demo
from litemq.demo import orders, steps
from litemq.demo.processes import Child, Failed, LeftOut
from litemq.demo.screen import table_lines
from litemq.demo.stage import Demo

COUNT = 6_000
"""Enough that the producer is still at it when the broker is killed."""


def test_every_step_succeeds_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert demo.run(COUNT) == 0, capsys.readouterr().out
    shown = capsys.readouterr().out
    assert "FAILED" not in shown
    assert "not run" not in shown
    assert all(step.name in shown for step in steps.STEPS)
    assert re.search(r"kill -9 \d+, [\d,]+ messages acknowledged", shown)
    assert "reason = max_retry" in shown
    assert "error = Retry: no such account" in shown
    assert list(tmp_path.iterdir()) == []
    assert not any(Path(f"/proc/{pid}").exists() for pid in re.findall(r"(?:broker|producer|consumer) (\d+):", shown))


def test_a_step_that_fails_ends_the_demo_with_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def fail(_demo: Demo) -> str:
        raise Failed("no luck")

    unlucky = [steps.Step("unlucky", fail), steps.Step("later", lambda _demo: "done")]
    assert demo.run(10, unlucky) == 1
    shown = capsys.readouterr().out
    assert re.search(r"unlucky +no luck .*FAILED", shown)
    assert re.search(r"later .*not run", shown)
    assert list(tmp_path.iterdir()) == []


def test_a_step_without_what_it_needs_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def need(_demo: Demo) -> str:
        raise LeftOut("Spark needs Java 17 or newer")

    assert demo.run(10, [steps.Step("needy", need), steps.Step("later", lambda _demo: "done")]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"needy +Spark needs Java 17 or newer .*left out", shown)
    assert re.search(r"later +done .*OK", shown)


# -- what a consumer notices --------------------------------------------------------------------------------------


Order = tuple[int, str, bytes]


def order(number: int, *, queue_id: int | None = None, tag: str = "", body: bytes = b"") -> Order:
    """Return an order as it was sent, but for what is given."""
    return (
        number % orders.CUSTOMERS % orders.QUEUES if queue_id is None else queue_id,
        tag or orders.tag_of(number),
        body or orders.body_of(number),
    )


def report(*taken: Order, wanted: tuple[str, ...] = orders.TAGS) -> dict[str, int]:
    inbox = orders.Inbox(frozenset(wanted))
    for one in taken:
        inbox.take(*one)
    return {name: count for name, count in inbox.report().items() if count}


def test_orders_as_they_were_sent_are_right() -> None:
    assert report(*map(order, range(300))) == {"received": 300}


def test_an_order_that_comes_twice_or_too_late_is_noticed() -> None:
    later = orders.CUSTOMERS  # of the customer of order 0
    assert report(order(0), order(0)) == {"received": 1, "twice": 1}
    assert report(order(later), order(0)) == {"received": 2, "disordered": 1}
    assert report(order(1), order(0)) == {"received": 2}, "of different customers"


def test_an_order_that_is_not_as_it_was_sent_is_noticed() -> None:
    assert report(order(3, body=orders.body_of(3) + b" ")) == {"wrong": 1}
    assert report(order(3, body=b"[]")) == {"wrong": 1}
    later = 3 + orders.CUSTOMERS  # of the same customer
    assert report(order(3), order(later, queue_id=2)) == {"received": 1, "wrong": 1}, "another queue than before"
    assert report(order(3, tag="paid")) == {"wrong": 1}
    assert report(order(3), wanted=("paid", "shipped")) == {"wrong": 1}, "nobody asked for this tag"


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"received": 9}, "9 messages were consumed where 10 were sent"),
        ({"received": 10, "wrong": 1}, "1 messages came wrong"),
        ({"received": 10, "disordered": 2}, "2 messages came disordered"),
        ({"received": 10, "twice": 3}, "3 messages came twice"),
    ],
)
def test_a_step_fails_when_its_consumer_noticed_something(said: dict[str, int], complaint: str, tmp_path: Path) -> None:
    consumer = Child("consumer", "litemq", "version", "--json", log=tmp_path / "log")
    consumer.kill()
    consumer.said = {"received": 0, "twice": 0, "disordered": 0, "wrong": 0, **said}
    with pytest.raises(Failed, match=complaint):
        steps.check_consumer(consumer, 10)


def test_a_process_that_ends_badly_says_why(tmp_path: Path) -> None:
    child = Child("producer", "litemq", "store", "info", str(tmp_path / "nowhere"), log=tmp_path / "log")
    try:
        with pytest.raises(Failed, match=r"the producer ended with status 2: litemq: error: .*nowhere"):
            child.check()
    finally:
        child.kill()


# -- how it ends --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_an_interrupted_demo_leaves_no_file_and_no_process(tmp_path: Path, number: int, status: int) -> None:
    command = [sys.executable, "-m", "litemq.demo", "--messages", "1000000"]
    pids = []
    with subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, text=True, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            pids += re.findall(r"(?:broker|producer|consumer) ([0-9]+):", line)
            if len(pids) == 3:
                break
        running.send_signal(number)
        _, errors = running.communicate(timeout=60)
    assert running.returncode == status
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []
    assert len(pids) == 3
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def run_demo(shell: str) -> subprocess.CompletedProcess[str]:
    demo_command = f"{shlex.quote(sys.executable)} -m litemq.demo --messages 1000"
    return subprocess.run(
        ["bash", "-c", shell.replace("DEMO", demo_command)], capture_output=True, text=True, check=False, timeout=100
    )


def test_a_closed_pipe_ends_it_quietly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = run_demo("DEMO | head -1; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = run_demo("DEMO > /dev/full")
    assert done.returncode == 2
    assert done.stderr == "litemq: error: cannot write the output: No space left on device\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("count", ["0", "1", "-5", "many"])
def test_a_number_of_messages_that_is_none_is_refused(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        demo.main(["--messages", count])
    assert ended.value.code == 2
    assert f"'{count}' is not a whole number of at least 2" in capsys.readouterr().err


def test_the_summary_fits_into_100_columns() -> None:
    rows = [("step", "result", "seconds", "verdict"), ("nothing is lost", "word " * 60, "1.0", "OK"), ("x", "", "", "")]
    lines = list(table_lines(rows))
    assert max(len(line) for line in lines) <= 100
    assert re.match(r"nothing is lost  word .*  1.0      OK$", lines[1])
    assert lines[2].startswith(" " * 17 + "word")
    assert sum(line.count("word") for line in lines) == 60
