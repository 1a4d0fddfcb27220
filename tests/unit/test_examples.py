"""The programs in ``examples/python`` run as they stand, against a broker of ``litemq.testing``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.ctrl_c import press_ctrl_c

from litemq.testing import Broker, broker

PROGRAMS = Path(__file__).resolve().parents[2] / "examples" / "python"
LIMIT_S = 60


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with broker() as started:
        yield started


def command(name: str) -> list[str]:
    return [sys.executable, "-W", "error", str(PROGRAMS / f"{name}.py")]


def environment(running: Broker, home: Path) -> dict[str, str]:
    return {**os.environ, "LITEMQ_NAMESERVER": running.nameservers, "HOME": str(home)}


def shown_by(name: str, running: Broker, tmp_path: Path) -> str:
    """Run a program to its end and return what it printed."""
    done = subprocess.run(
        command(name),
        cwd=tmp_path,
        env=environment(running, tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def test_produce_and_consume(running: Broker, tmp_path: Path) -> None:
    sent = shown_by("produce", running, tmp_path)
    assert len(re.findall(r"^sent order \d: broker-a, queue \d+, offset \d+$", sent, re.MULTILINE)) == 10
    with subprocess.Popen(
        command("consume"), cwd=tmp_path, env=environment(running, tmp_path), stdout=subprocess.PIPE, text=True
    ) as consumer:
        watch = threading.Timer(LIMIT_S, consumer.kill)
        watch.start()
        try:
            assert consumer.stdout is not None
            shown = [consumer.stdout.readline() for _ in range(7)]
            press_ctrl_c(consumer)
            rest = consumer.stdout.read()
        finally:
            watch.cancel()
            consumer.kill()
    assert (consumer.returncode, rest) == (0, "done\n")
    shown.remove("consuming; Ctrl-C ends it\n")
    states, regions = ("created", "paid", "shipped"), ("us", "eu")
    assert sorted(shown) == [
        f"order {number}, {states[number % 3]}: {number * 10} from {regions[number % 2]}\n"
        for number in (1, 2, 4, 5, 7, 8)
    ]


def test_ordered(running: Broker, tmp_path: Path) -> None:
    lines = shown_by("ordered", running, tmp_path).splitlines()
    assert lines == [f"customer-{number} created paid packed shipped" for number in range(5)]


def test_batch(running: Broker, tmp_path: Path) -> None:
    assert re.fullmatch(
        r"20000 messages in [\d.]+ s; the first is in queue \d+\n100 invoices in queue \d+, from offset \d+ on\n",
        shown_by("batch", running, tmp_path),
    )


def test_request_reply(running: Broker, tmp_path: Path) -> None:
    shown = shown_by("request_reply", running, tmp_path)
    assert shown == "the sum of [1, 2, 3] is 6\nthe sum of [40, 2] is 42\n"


def test_pull(running: Broker, tmp_path: Path) -> None:
    first, *again = shown_by("pull", running, tmp_path).splitlines()
    assert first == "first time: 22 degrees 23 degrees 24 degrees"
    assert sorted(again) == ["again: 22 degrees", "again: 23 degrees", "again: 24 degrees"]


def test_with_asyncio(running: Broker, tmp_path: Path) -> None:
    stored, greetings = shown_by("with_asyncio", running, tmp_path).splitlines()
    assert re.fullmatch(r"stored at offset \d+", stored)
    assert greetings.split(", ") == [*(f"hello {number}" for number in range(10)), "hello again"]


def test_dead_letters(running: Broker, tmp_path: Path) -> None:
    assert shown_by("dead_letters", running, tmp_path).splitlines() == [
        "attempt 1 at payment 17",
        "attempt 2 at payment 17",
        "payment-17 is a dead letter of bookkeeping: max_retry, Retry: no such account",
        "attempt 1 at payment 17",
        "redriven and booked: 1",
    ]


def test_transaction(running: Broker, tmp_path: Path) -> None:
    lines = shown_by("transaction", running, tmp_path).splitlines()
    assert lines[0] == "o-2 is not stored: CHECK constraint failed: count > 0"
    assert sorted(lines[1:]) == [
        "delivered: o-1, 17 apples",
        "delivered: o-3, 3 apples",
        "the broker asks about o-3",
    ]


def test_outbox(running: Broker, tmp_path: Path) -> None:
    assert shown_by("outbox", running, tmp_path).splitlines() == [
        "o-2 is not stored",
        "published: 2",
        "delivered: o-1, 17 apples",
        "delivered: o-3, 3 apples",
    ]


def test_work_queue(running: Broker, tmp_path: Path) -> None:
    assert sorted(shown_by("work_queue", running, tmp_path).splitlines()) == [
        "1.png: resized by attempt 1",
        "2.png: resized by attempt 1",
        "3.png: resized by attempt 2",
        "3.png: the disk is full",
        "4.png: resized by attempt 1",
        "5.png: resized by attempt 1",
    ]


def test_every_program_is_listed_and_tested() -> None:
    programs = {path.stem for path in PROGRAMS.glob("*.py")}
    assert set(re.findall(r"\]\((\w+)\.py\)", (PROGRAMS / "README.md").read_text())) == programs
    assert all(f'("{name}"' in Path(__file__).read_text() for name in programs)
