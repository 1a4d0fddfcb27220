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

from litemq import MessageStore, demo
from litemq.demo_screen import table_lines
from litemq.demo_writer import CONFIG, message, write

COUNT = 20_000
"""Enough that the writer is still at it when it is killed."""


def test_every_step_succeeds_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert demo.run(COUNT) == 0, capsys.readouterr().out
    shown = capsys.readouterr().out
    assert "FAILED" not in shown
    assert "not run" not in shown
    assert all(step.name in shown for step in demo.STEPS)
    assert list(tmp_path.iterdir()) == []


def test_a_step_that_fails_ends_the_demo_with_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def fail(_demo: demo.Demo) -> str:
        raise demo.Failed("no luck")

    steps = [demo.Step("unlucky", fail), demo.Step("later", lambda _demo: "done")]
    assert demo.run(10, steps) == 1
    shown = capsys.readouterr().out
    assert re.search(r"unlucky +no luck .*FAILED", shown)
    assert re.search(r"later .*not run", shown)
    assert list(tmp_path.iterdir()) == []


def test_an_acknowledged_message_that_is_gone_is_noticed(tmp_path: Path) -> None:
    shown = demo.Demo(tmp_path, 1000)
    write(shown.store, 0, 1000)
    shown.acknowledged = 1001
    with pytest.raises(demo.Failed, match="1 acknowledged messages are gone"):
        demo.prove_nothing_is_lost(shown)


def test_a_message_at_the_wrong_place_is_noticed(tmp_path: Path) -> None:
    shown = demo.Demo(tmp_path, 3)
    with MessageStore.open(shown.store, CONFIG) as store:
        store.append_many([message(0), message(2)])
    with pytest.raises(demo.Failed, match="message 1 is expected"):
        demo.prove_nothing_is_lost(shown)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_an_interrupted_demo_leaves_no_file_and_no_process(tmp_path: Path, number: int, status: int) -> None:
    command = [sys.executable, "-m", "litemq.demo", "--messages", "5000000"]
    with subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, text=True, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        writer = next(found for line in running.stdout if (found := re.search(r"writer ([0-9]+)", line)))
        running.send_signal(number)
        _, errors = running.communicate(timeout=60)
    assert running.returncode == status
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []
    assert not Path(f"/proc/{writer[1]}").exists()


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


@pytest.mark.parametrize("count", ["0", "-5", "many"])
def test_a_number_of_messages_that_is_none_is_refused(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        demo.main(["--messages", count])
    assert ended.value.code == 2
    assert f"'{count}' is not a whole number of at least 1" in capsys.readouterr().err


def test_the_summary_fits_into_100_columns() -> None:
    rows = [("step", "result", "seconds", "verdict"), ("nothing is lost", "word " * 60, "1.0", "OK"), ("x", "", "", "")]
    lines = list(table_lines(rows))
    assert max(len(line) for line in lines) <= 100
    assert re.match(r"nothing is lost  word .*  1.0      OK$", lines[1])
    assert lines[2].startswith(" " * 17 + "word")
    assert sum(line.count("word") for line in lines) == 60
