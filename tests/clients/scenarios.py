"""Scenario programs: a Java or Go process runs many scenarios at once and prints a line for each verdict.

The names of the scenarios are read from the sources, so that each is a test; a run gets those that were selected.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.clients.rocketmq import HERE, Missing, finish
from tests.clients.servers import CannotRestart, Server

_REGISTERED = re.compile(r'\b(?:scenario|ours|binary|restarting)\("([a-z0-9-]+)"')


def names(sources: list[Path]) -> list[str]:
    """Return the scenarios that the sources register, in order."""
    return [name for path in sorted(sources) for name in _REGISTERED.findall(path.read_text())]


def build_go(work: Path, source: Path = HERE / "go") -> Path:
    """Compile the Go scenarios, or another program, into ``work`` and return it.

    Raises:
        Missing: Go is not installed, or the client's modules cannot be fetched.
    """
    go = shutil.which("go")
    if go is None:
        raise Missing("no `go` on the PATH: install Go, 1.21 or newer (Debian: golang-go)")
    program = work / "clients"
    done = subprocess.run([go, "build", "-o", program, "."], cwd=source, capture_output=True, text=True, check=False)
    if "dial tcp" in done.stderr or "no such host" in done.stderr:
        raise Missing(f"Go could not fetch the client ({done.stderr.splitlines()[-1]})")
    assert done.returncode == 0, done.stderr
    return program


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a scenario ended: ``PASS``, ``FAIL`` or ``SKIP``."""

    word: str
    text: str

    def check(self) -> None:
        """Fail or skip the calling test unless the scenario passed."""
        if self.word == "SKIP":
            pytest.skip(self.text)
        assert self.word == "PASS", self.text


class Run:
    """One process with its scenarios; verdicts are there as they come."""

    def __init__(self, launch: Callable[[], subprocess.Popen[bytes]], server: Server, log: Path) -> None:
        self._server = server
        self._log = log
        self._verdicts: dict[str, Verdict] = {}
        self._changed = threading.Condition()
        self._is_over = False
        self._process = launch()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def verdict(self, name: str, seconds: float = 600) -> Verdict:
        """Wait for a scenario's verdict."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while name not in self._verdicts:
                left = deadline - time.monotonic()
                assert not self._is_over, f"the process ended without a verdict on {name}: {self._said()}"
                assert left > 0, f"no verdict on {name} within {seconds} s: {self._said()}"
                self._changed.wait(min(left, 1))
            return self._verdicts[name]

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-2000:] if self._log.exists() else ""

    def _read(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        for line in self._process.stdout:
            word, _, rest = line.decode(errors="replace").strip().partition(" ")
            if word == "ASK":
                answer = self._asked(rest)
                self._process.stdin.write(f"{answer}\n".encode())
                self._process.stdin.flush()
            elif word in {"PASS", "FAIL", "SKIP"}:
                name, _, text = rest.partition(" ")
                with self._changed:
                    self._verdicts[name] = Verdict(word, text)
                    self._changed.notify_all()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _asked(self, what: str) -> str:
        try:
            self._server.do(what)
        except CannotRestart as cannot:
            return f"SKIP {cannot}"
        except Exception as error:  # noqa: BLE001 - whatever it was, the scenario must hear of it
            return f"could not {what}: {error!r}".replace("\n", " ")
        return "DONE"

    def close(self) -> None:
        """End the process."""
        finish(self._process, 5)
        self._reader.join(10)
