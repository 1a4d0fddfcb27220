"""Commands as a shell gives them, in this process."""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from litemq.cli.main import run

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli-messages-dlq-bench.md"


class Command:
    """Gives commands to one cluster."""

    def __init__(self, nameservers: str, capture: pytest.CaptureFixture[bytes]) -> None:
        self._nameservers = nameservers
        self._capture = capture

    def said(self, *arguments: str, status: int = 0) -> tuple[str, str]:
        """Give a command; return what it writes to stdout and stderr."""
        self._capture.readouterr()
        found = run([*arguments, "--nameserver", self._nameservers])
        out, err = (text.decode() for text in self._capture.readouterr())
        assert found == status, out + err
        return out, err

    def rows(self, *arguments: str) -> list[list[str]]:
        """Give a command; return the words of each line."""
        return [line.split() for line in self.said(*arguments)[0].splitlines()]

    def told(self, *arguments: str, status: int = 0) -> list[dict[str, Any]]:
        """Give a command with ``--json``; return the objects."""
        out, _ = self.said(*arguments, "--json", status=status)
        return [json.loads(line) for line in out.splitlines()]

    def refused(self, *arguments: str) -> str:
        """Give a command that fails; return its one line."""
        out, err = self.said(*arguments, status=2)
        assert out == ""
        assert err.startswith("litemq: error: "), err
        assert err.count("\n") == 1, err
        return err


def interrupted(arguments: list[str], is_time: Callable[[bytes, bytes], bool]) -> tuple[bytes, bytes, int]:
    """Give a command in a process of its own, press Ctrl-C when what it has written says so; return all it wrote."""
    command = [sys.executable, "-m", "litemq", *arguments]
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process,
        selectors.DefaultSelector() as pipes,
    ):
        written = {process.stdout: b"", process.stderr: b""}
        for stream in written:
            assert stream is not None
            pipes.register(stream, selectors.EVENT_READ)
        end = time.monotonic() + 30
        has_pressed = False
        while pipes.get_map():
            assert time.monotonic() < end, written
            for key, _ in pipes.select(1):
                data = os.read(key.fd, 1 << 16)
                if not data:
                    pipes.unregister(key.fileobj)
                written[key.fileobj] += data  # type: ignore[index] # what was registered
            if not has_pressed and is_time(*written.values()):
                has_pressed = True
                process.send_signal(signal.SIGINT)
        out, err = written.values()
        return out, err, process.wait(30)


def documented(heading: str) -> list[str]:
    """Return the keys of a table of the reference page, in order."""
    text = PAGE.read_text().partition(f"### {heading}\n")[2].partition("\n#")[0]
    assert text, f"{PAGE.name} has no heading {heading}"
    rows: Sequence[str] = re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
