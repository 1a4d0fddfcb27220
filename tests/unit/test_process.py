"""A server process ends cleanly at the first signal and at once at the second; its errors say what to do."""

from __future__ import annotations

import errno
import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from litemq import process
from litemq.errors import CannotListen

PROGRAM = """
import asyncio, gc, sys, time
from litemq import process

async def close():
    print("closing", flush=True)
    if sys.argv[1] == "slow":
        time.sleep(600)  # blocks the loop, too
    await asyncio.sleep(0)
    print("closed", flush=True)

async def start(stack):
    stack.push_async_callback(close)
    if sys.argv[1] == "fail":
        raise ValueError("no")
    loop = asyncio.get_running_loop()
    loop.call_soon(lambda: print("ready", type(loop).__module__, flush=True))

process.serve(start, is_child=sys.argv[1] == "child")
print("frozen", gc.get_freeze_count() > 0)
"""


@contextmanager
def program(kind: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def said(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_asks_for_a_clean_end(number: signal.Signals) -> None:
    with program("quick") as running:
        loop = "uvloop" if sys.platform == "linux" else "asyncio.unix_events"
        assert said(running) == f"ready {loop}"
        running.send_signal(number)
        assert [said(running) for _ in range(3)] == ["closing", "closed", "frozen True"]
        assert running.wait(30) == 0


def test_the_second_signal_ends_at_once() -> None:
    with program("slow") as running:
        said(running)
        running.send_signal(signal.SIGTERM)
        assert said(running) == "closing"
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 128 + signal.SIGINT
        assert said(running) == ""


def test_a_child_ends_when_stdin_does() -> None:
    with program("child") as running:
        said(running)
        assert running.stdin is not None
        running.stdin.write("not yet\n")
        running.stdin.flush()
        running.stdin.close()
        assert said(running) == "closing"
        assert running.wait(30) == 0


def test_what_was_started_is_closed_when_the_rest_fails() -> None:
    with program("fail") as running:
        assert [said(running), said(running)] == ["closing", "closed"]
        assert running.wait(30) == 1
        assert running.stderr is not None
        assert "ValueError: no" in running.stderr.read()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            CannotListen("cannot listen on 127.0.0.1:5: Address already in use"),
            "the broker: cannot listen on 127.0.0.1:5: Address already in use; choose another address with --port",
        ),
        (
            OSError(errno.EADDRINUSE, "Address already in use"),
            "the broker: Address already in use; choose another address with --port",
        ),
    ],
)
def test_an_address_that_cannot_be_listened_on_is_named(error: Exception, told: str) -> None:
    with pytest.raises(CannotListen) as raised, process.listening("the broker", "--port"):
        raise error
    assert str(raised.value) == told


def test_other_errors_pass() -> None:
    with pytest.raises(FileNotFoundError), process.listening("the broker", "--port"):
        raise FileNotFoundError(errno.ENOENT, "no such file")


def test_log_lines_tell_whose_they_are(capfd: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        process.configure_logging("info", "broker-%s")
        logging.getLogger("litemq.test").info("roll: start=%d", 5)
        logging.getLogger("litemq.test").debug("unseen")
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    line = capfd.readouterr().err
    assert line.endswith("Z INFO broker-%s litemq.test: roll: start=5\n")
    assert "unseen" not in line


def test_a_server_may_open_as_many_files_as_the_system_allows() -> None:
    program = """
import resource
from litemq import process

async def start(stack):
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    raise SystemExit

process.serve(start)
"""
    bounded = ["sh", "-c", 'ulimit -Sn 100 && ulimit -Hn 300 && exec "$0" "$@"', sys.executable, "-c", program]
    assert subprocess.run(bounded, capture_output=True, text=True, check=True).stdout == "300\n"
