"""``litemq up`` in a process of its own that tests start, stop, kill and start again on the same ports."""

from __future__ import annotations

import asyncio
import json
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from litemq.format import properties
from litemq.wire.remoting.client import Client
from litemq.wire.remoting.codes import Ask, Code

_READY_S = 60.0


class Up:
    """One name server and one broker."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._names, self._port = _free_ports()
        self.nameservers = f"127.0.0.1:{self._names}"
        self.broker = f"127.0.0.1:{self._port}"
        self._config = folder / "litemq.toml"
        self._config.write_text(
            f"[nameserver]\nport = {self._names}\n[broker]\nport = {self._port}\n"
            f'name_servers = ["{self.nameservers}"]\ndefault_queues = 4\n[store]\nsegment_bytes = 16777216\n'
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and return when it serves."""
        command = [sys.executable, "-m", "litemq", "up", "--data", str(self._folder / "data")]
        with (self._folder / "out.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--config", str(self._config), "--json"], stdout=subprocess.PIPE, stderr=log
            )
        assert self._process.stdout is not None
        assert select.select([self._process.stdout], [], [], _READY_S)[0], "litemq up prints no ready line"
        assert json.loads(self._process.stdout.readline()), (self._folder / "out.log").read_text()

    def stop(self, *, kill: bool = False) -> None:
        """End it."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        self._process.wait(_READY_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    def restart(self, *, kill: bool = False) -> None:
        """End it and start it again."""
        self.stop(kill=kill)
        self.start()

    # -- from the side -------------------------------------------------------------------------------

    def send(self, topic: str, *bodies: bytes, queue: int = 0, **found: str) -> None:
        """Send messages to a queue; ``found`` are their properties.  Tried until the broker has taken them."""
        asyncio.run(self._send(topic, bodies, queue, found))

    async def _send(self, topic: str, bodies: tuple[bytes, ...], queue: int, found: dict[str, str]) -> None:
        client = Client(self.broker)
        try:
            for body in bodies:
                answer = await client.call(Ask.SEND_MESSAGE_V2, _sending(topic, queue, body, found), body)
                assert answer.code == Code.SUCCESS, answer.remark
        finally:
            client.close()
            await asyncio.sleep(0)

    def ask(self, code: int, ext: dict[str, str], body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
        """Ask the broker something; return the code, the fields and the body of its answer."""

        async def call() -> tuple[int, dict[str, str], bytes]:
            client = Client(self.broker)
            try:
                answer = await client.call(code, ext, body)
                return answer.code, dict(answer.ext), answer.body
            finally:
                client.close()
                await asyncio.sleep(0)

        return asyncio.run(call())

    def committed(self, group: str, topic: str, queue: int = 0) -> int | None:
        """Return how far a group has read; None when it has not said so."""
        ext = {"consumerGroup": group, "topic": topic, "queueId": str(queue), "setZeroIfNotFound": "false"}
        code, found, _ = self.ask(Ask.QUERY_CONSUMER_OFFSET, ext)
        return int(found["offset"]) if code == Code.SUCCESS else None

    def create(self, topic: str, queues: int = 4) -> None:
        """Make a topic."""
        ext = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": str(queues),
            "writeQueueNums": str(queues),
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }
        code, _, _ = self.ask(Ask.UPDATE_AND_CREATE_TOPIC, ext)
        assert code == Code.SUCCESS


def _sending(topic: str, queue: int, body: bytes, found: dict[str, str]) -> dict[str, str]:
    found = {"UNIQ_KEY": f"K{body[:20].hex()}", **found}
    return {
        "a": "pg",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue),
        "f": "0",
        "g": "1700000000000",
        "h": "0",
        "i": properties.write(found.items()).decode(),
        "j": "0",
        "k": "false",
        "m": "false",
    }


def _free_ports() -> tuple[int, int]:
    """Return a port for the name server, and one for the broker whose second neighbour below is free, too."""
    while True:
        with socket.socket() as names, socket.socket() as broker, socket.socket() as vip:
            names.bind(("127.0.0.1", 0))
            broker.bind(("127.0.0.1", 0))
            port: int = broker.getsockname()[1]
            with suppress(OSError):
                vip.bind(("127.0.0.1", port - 2))
                return names.getsockname()[1], port


@contextmanager
def running(folder: Path) -> Iterator[Up]:
    """Yield a running server; it is ended behind it."""
    up = Up(folder)
    up.start()
    try:
        yield up
    finally:
        up.stop(kill=True)


class Gathered:
    """What handlers got, by any thread; waits for as many as are expected."""

    def __init__(self) -> None:
        self._got: list[Any] = []
        self._more = threading.Condition()

    def add(self, item: Any) -> None:  # noqa: ANN401 - whatever a test wants to see
        """Take one."""
        with self._more:
            self._got.append(item)
            self._more.notify_all()

    def all(self) -> list[Any]:
        """Return what came so far."""
        with self._more:
            return list(self._got)

    def bodies(self) -> list[bytes]:
        """Return the bodies that came so far."""
        return [item for item in self.all() if isinstance(item, bytes)]

    def wait(self, count: int, within_s: float = 20.0) -> list[Any]:
        """Return what came as soon as it is so many; fail when it does not become so many."""
        with self._more:
            assert self._more.wait_for(lambda: len(self._got) >= count, within_s), (count, self._got[-20:])
            return list(self._got)
