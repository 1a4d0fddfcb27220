"""Processes of the demo: the broker, and those who talk to it.  None outlives the demo."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

_START_S: Final = 60.0
_STOP_S: Final = 60.0

SETTINGS: Final = {
    "store.segment_bytes": 16 << 20,
    "store.queue_entries": 20_000,
    "store.index_slots": 200_000,
    "store.index_entries": 500_000,
}
"""Small files, so that the demo takes little room."""


class Failed(Exception):
    """Something did not do what it promised; the text says what."""


class LeftOut(Exception):
    """A step needs what is not installed here, and the demo is well without it; the text says what."""


class Child:
    """A process that says on stdout how it is, one JSON object on a line."""

    def __init__(self, name: str, *arguments: str, log: Path) -> None:
        self.name = name
        self.said: dict[str, int] = {}
        """The last that it said of each thing."""
        self._log = log
        command = [sys.executable, "-P", "-m", *arguments]
        with log.open("ab") as errors:
            # In a group of its own: Ctrl-C is for the demo, which ends its processes itself.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, process_group=0
            )
        self.pid = self._process.pid
        self._spoke = threading.Event()
        self._reader = threading.Thread(target=self._read, name=f"demo-{name}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.update(json.loads(line))
            self._spoke.set()
        self._spoke.set()

    def wait_word(self) -> None:
        """Return when it has said something."""
        if not self._spoke.wait(_START_S) or not self.said:
            raise Failed(f"the {self.name} does not start: {self.errors()}")

    @property
    def is_running(self) -> bool:
        """Return whether it has not ended yet."""
        return self._process.poll() is None

    def check_so_far(self) -> None:
        """Raise if it has ended badly."""
        if self._process.poll():
            self.check()

    def check(self) -> None:
        """Wait until it has said its last word; raise unless it ended well."""
        status = self._process.wait(_STOP_S)
        self._reader.join()
        if status:
            raise Failed(f"the {self.name} ended with status {status}: {self.errors()}")

    def kill(self) -> None:
        """End it as ``kill -9`` does."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def stop(self) -> int:
        """Ask it to end; return its exit status."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            raise Failed(f"the {self.name} did not stop within {_STOP_S:.0f} s") from None
        finally:
            self.kill()

    def errors(self) -> str:
        """Return the end of what it wrote to stderr."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "it said nothing"


class Up(Child):
    """``litemq up``: a name server and a broker in one process."""

    def __init__(self, data: Path, log: Path, ports: tuple[str, str] = ("0", "0")) -> None:
        settings = [text for name, value in SETTINGS.items() for text in ("--set", f"{name}={value}")]
        started = time.perf_counter()
        where = ("--data", str(data), "--nameserver-port", ports[0], "--port", ports[1])
        super().__init__("broker", "litemq", "up", "--json", *where, *settings, log=log)
        try:
            self.wait_word()
        except BaseException:
            self.kill()
            raise
        self.ready_ms = (time.perf_counter() - started) * 1000
        said: dict[str, object] = dict(self.said)
        self.name_server = str(said["name_server"])
        brokers = said["brokers"]
        assert isinstance(brokers, list)
        self.address = str(brokers[0]["address"])
        self.may_lose = str(brokers[0]["may_lose"])

    @property
    def ports(self) -> tuple[str, str]:
        """Return where it listens, for one that takes its place."""
        return self.name_server.rpartition(":")[2], self.address.rpartition(":")[2]
