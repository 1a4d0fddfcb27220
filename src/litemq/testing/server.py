"""``broker()``: name server and broker in a process of their own, which ends with this one at the latest."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from litemq.errors import Unavailable

_START_S: Final = 60.0
_STOP_S: Final = 30.0
_SHOWN_BYTES: Final = 4_000
_SMALL: Final[Mapping[str, Mapping[str, object]]] = {
    # Small files are quick to make; a test broker must not keep a core busy to answer sooner.
    "broker": {"busy_poll_us": 0},
    "store": {
        "segment_bytes": 16 << 20,
        "queue_entries": 20_000,
        "index_slots": 20_000,
        "index_entries": 100_000,
    },
}


class Broker:
    """A name server and a broker that run for a test; ``broker()`` makes one.

    >>> from litemq.testing import broker
    >>> with broker() as b:
    ...     b.nameservers.startswith("127.0.0.1:")
    True
    """

    http: str | None = None
    """Address of its HTTP interface; None: this version has none yet."""

    def __init__(self, folder: Path, data: Path, settings: Mapping[str, Mapping[str, object]]) -> None:
        self.data = data
        """Its store; it stays the same over ``kill`` and ``restart``."""
        self.nameservers = ""
        """Address of its name server, as ``Producer``, the consumers, ``Admin`` and LITEMQ_NAMESERVER take it."""
        self.address = ""
        """Address of the broker itself."""
        self._log = folder / "broker.log"
        self._config = folder / "litemq.toml"
        self._config.write_text(_toml(settings))
        self._ports = ("0", "0")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its process; None while it does not run.

        >>> with litemq.testing.broker() as b:
        ...     b.kill()
        ...     print(b.pid)
        None
        """
        if self._process is None or self._process.poll() is not None:
            return None
        return self._process.pid

    @property
    def log(self) -> str:
        """What it logged so far.

        >>> with litemq.testing.broker() as b:
        ...     "ERROR" in b.log
        False
        """
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def start(self) -> None:
        """Start it, on the ports that it had before; nothing happens when it runs.

        >>> with litemq.testing.broker() as b:
        ...     b.stop()
        ...     b.start()

        Raises:
            Unavailable: it did not start; the end of its log says why.
        """
        if self.pid is not None:
            return
        self._release()
        command = [sys.executable, "-P", "-m", "litemq", "up", "--child", "--json", "--config", str(self._config)]
        command += ["--data", str(self.data), "--nameserver-port", self._ports[0], "--port", self._ports[1]]
        with self._log.open("ab") as log:
            # In a group of its own: Ctrl-C is for the tests, which then end it.  When this process is gone, however
            # it went, the pipe closes, and the broker stops.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(),
                process_group=0,
            )
        try:
            ready = json.loads(self._ready_line(self._process))
        except BaseException:
            self.kill()
            raise
        self.nameservers = ready["name_server"]
        self.address = ready["brokers"][0]["address"]
        self._ports = (self.nameservers.rpartition(":")[2], self.address.rpartition(":")[2])

    def stop(self) -> None:
        """Stop it as a service manager does: what is under way is answered, the store is closed.

        >>> with litemq.testing.broker() as b:
        ...     b.stop()

        Raises:
            Unavailable: it did not stop, and was killed.
        """
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Unavailable(
                f"the broker did not stop within {_STOP_S:.0f} s; its log ends:\n{self._tail()}"
            ) from None
        self._release()

    def kill(self) -> None:
        """End it as ``kill -9`` or a crash does.

        >>> with litemq.testing.broker() as b:
        ...     b.kill()
        ...     b.restart()
        """
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._release()

    def restart(self) -> None:
        """Stop it if it runs, and start it on the same ports and the same store.

        >>> with litemq.testing.broker() as b:
        ...     before = b.nameservers
        ...     b.restart()
        ...     b.nameservers == before
        True
        """
        self.stop()
        self.start()

    def __repr__(self) -> str:
        return f"<litemq.testing.Broker {self.nameservers} {'runs' if self.pid else 'does not run'}>"

    def _ready_line(self, process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        line = b""
        deadline = time.monotonic() + _START_S
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                raise Unavailable(f"the broker was not ready within {_START_S:.0f} s; its log ends:\n{self._tail()}")
            read = os.read(process.stdout.fileno(), 1 << 16)
            if not read:
                status = process.wait()
                raise Unavailable(f"the broker did not start, its exit status is {status}; its log:\n{self._tail()}")
            line += read
        return line

    def _tail(self) -> str:
        return self.log[-_SHOWN_BYTES:] or "(it is empty)"

    def _release(self) -> None:
        """Close what belonged to a process that has ended."""
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None


@contextmanager
def broker(*, data: Path | str | None = None, **settings: Mapping[str, Any]) -> Iterator[Broker]:
    """Run a broker while a block runs.

    It listens on free ports of this machine and keeps its files in a new directory, which goes with it.  Nothing of
    this process is changed; to use it as the default, set LITEMQ_NAMESERVER to ``b.nameservers``.

    >>> from litemq.testing import broker
    >>> with broker(broker={"auto_create_topics": False}, limits={"queue_backlog": 1000}) as b:
    ...     with litemq.Producer(b.nameservers) as producer:
    ...         producer.send("never-made", b"17 apples")
    Traceback (most recent call last):
    litemq.errors.UnknownTopic: ...

    Args:
        data: Where its store is, to keep it or to look at one that exists; by default in the directory that goes.
        settings: Sections of the configuration and what to set in them: ``store={"flush": "sync"}``.

    Raises:
        Unavailable: it did not start; the end of its log says why.
    """
    folder = Path(tempfile.mkdtemp(prefix="litemq-"))
    try:
        running = Broker(folder, folder / "store" if data is None else Path(data).absolute(), _with_small(settings))
        running.start()
        try:
            yield running
        finally:
            running.kill() if data is None else running.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _with_small(settings: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, object]]:
    """Return the settings of a small store, and those that are given above them."""
    found = {section: dict(values) for section, values in _SMALL.items()}
    for section, values in settings.items():
        found.setdefault(section, {}).update(values)
    return found


def _toml(settings: Mapping[str, Mapping[str, object]]) -> str:
    """Return a configuration file: numbers, texts and lists look the same in JSON and in TOML."""
    lines = []
    for section, values in settings.items():
        lines.append(f"[{section}]")
        lines += [f"{name} = {json.dumps(value, default=str)}" for name, value in values.items()]
    return "\n".join(lines) + "\n"


def _environment() -> dict[str, str]:
    """Return this process's environment without settings of a broker: they are for one that is not a test's."""
    return {name: value for name, value in os.environ.items() if not (name.startswith("LITEMQ_") and "__" in name)}
