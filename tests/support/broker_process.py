"""A broker in a process of its own: started on a store, looked at from outside, stopped or killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_SURPRISES = ("failed unexpectedly", "Traceback (most recent call last)", "was never retrieved")
"""What a log never says: each is an error that nobody foresaw."""


class BrokerProcess:
    """``litemq broker`` on free ports; it ends with this process at the latest."""

    def __init__(self, data: Path, log: Path, settings: Mapping[str, object], *, port: int = 0, files: int = 0) -> None:
        """Start a broker; ``settings`` are by ``section.key``, ``files`` bounds how many it may have open."""
        self.log = log
        self._process = _spawn(data, log, port, settings, files)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the broker did not start:\n{log.read_text()[-2000:]}"
        self.pid: int = self._process.pid
        self.address: str = json.loads(line)["brokers"][0]["address"]
        host, _, number = self.address.rpartition(":")
        self.place = (host, int(number))

    def __enter__(self) -> BrokerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def is_alive(self) -> bool:
        """Return whether it still runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it by ``kill -9``; nothing happens when it has ended."""
        self._process.kill()
        self._reap()

    def stop(self, *, timeout_s: float = 30.0) -> int:
        """Ask it to stop, and return its exit status."""
        self._process.terminate()
        try:
            return self._process.wait(timeout_s)
        finally:
            self.kill()

    def _reap(self) -> None:
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def memory(self) -> int:
        """Return its ``RssAnon`` in bytes."""
        return memory_of(self.pid)

    def cpu_s(self) -> float:
        """Return the CPU time that it took."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def surprises(self) -> list[str]:
        """Return the ends of its log from each error on that nobody foresaw."""
        return surprises_in(self.log.read_text(errors="replace"))


def kill_while_starting(data: Path, log: Path, settings: Mapping[str, object], after_s: float) -> None:
    """Start a broker and kill it a moment later, wherever its start has come to."""
    process = _spawn(data, log, 0, settings)
    with suppress(subprocess.TimeoutExpired):
        process.wait(after_s)
    process.kill()
    process.communicate()


def _spawn(data: Path, log: Path, port: int, settings: Mapping[str, object], files: int = 0) -> subprocess.Popen[bytes]:
    bounded = ("sh", "-c", f'ulimit -n {files} && exec "$0" "$@"') if files else ()
    given = [f"{name}={value}" for name, value in settings.items()]
    with log.open("ab") as stderr:
        return subprocess.Popen(
            [
                *bounded,
                *(sys.executable, "-m", "litemq", "broker", "--child", "--json", "--log-level", "info"),
                *("--data", str(data), "--port", str(port), "--nameserver", ""),
                *(part for text in given for part in ("--set", text)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )


def memory_of(pid: int) -> int:
    """Return the ``RssAnon`` of a process in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    raise ValueError(f"process {pid} has no memory")


def surprises_in(text: str) -> list[str]:
    """Return the parts of a log that begin with an error that nobody foresaw."""
    lines = text.splitlines()
    places = [at for at, line in enumerate(lines) if any(word in line for word in _SURPRISES)]
    return ["\n".join(lines[at : at + 40]) for at in places]
