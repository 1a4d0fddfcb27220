"""A second broker beside ``litemq.testing.broker()``: killed, and started again where it was."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from litemq.testing import Broker

_READY_S = 60.0


class SecondBroker:
    """The broker ``second`` of a name server's cluster."""

    def __init__(self, first: Broker, folder: Path) -> None:
        self._folder = folder
        self._port = "0"
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "second.toml").write_text(
            f'[broker]\nname = "second"\nname_servers = ["{first.nameservers}"]\nbusy_poll_us = 0\n'
            "[store]\nsegment_bytes = 16777216\nqueue_entries = 20000\nindex_slots = 20000\nindex_entries = 100000\n"
        )

    def start(self) -> None:
        """Start it, on the port that it had before."""
        command = [sys.executable, "-m", "litemq", "broker", "--child", "--json", "--port", self._port]
        command += ["--data", str(self._folder / "second"), "--config", str(self._folder / "second.toml")]
        log = self._folder / "second.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, process_group=0
            )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _READY_S)
        line = self._process.stdout.readline() if ready else b""
        assert line, f"the second broker did not start: {log.read_text()[-2000:]}"
        self._port = json.loads(line)["brokers"][0]["address"].rpartition(":")[2]

    def kill(self) -> None:
        """End it by ``kill -9``."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process = None


@contextmanager
def second_broker(first: Broker, folder: Path) -> Iterator[SecondBroker]:
    """Run it while a block runs."""
    broker = SecondBroker(first, folder)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
