"""A broker under test with its clients: topics made on demand, Java programs kept warm, everything ended together."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from benchmarks import native
from benchmarks.java import JavaLoad
from benchmarks.memory import touch_memory
from benchmarks.native import Found
from benchmarks.peers.process import Server
from benchmarks.wire import Client

QUEUES = 16
REFUSED_SHARE = 0.01
"""What a peer may refuse under load (RocketMQ's flow control) before its figures mean nothing; LiteMQ: none."""


class WrongResult(Exception):
    """A run whose figures mean nothing: answers were bad, or what was acknowledged is not there."""


class Site:
    """One broker that speaks the remoting protocol."""

    def __init__(self, start: Callable[[Path], Server], folder: Path) -> None:
        self._stack = contextlib.ExitStack()
        self._folder = folder
        self._loads: dict[str, JavaLoad] = {}
        self._topics: dict[str, int] = {}
        self._warm_s = 3.0
        self.server = self._stack.enter_context(start(folder / "server"))

    @property
    def name(self) -> str:
        """Return which broker it is."""
        return self.server.name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stack.close()
        if kind is not None:
            self.keep_log()

    def keep_log(self) -> Path:
        """Copy what the server logged to where results are kept, and return the copy."""
        copy = native.BUILD / f"{self.name}.log"
        log = self.server.folder / "out.log"
        if log.exists():
            shutil.copyfile(log, copy)
        return copy

    def topic(self, name: str, queues: int = QUEUES) -> str:
        """Make a topic, unless that was done."""
        if name not in self._topics:
            with Client(self.server.port) as client:
                client.create_topics([name], queues)
            self._topics[name] = queues
        return name

    def ends(self, topic: str) -> list[int]:
        """Return the end of every queue of a topic."""
        with Client(self.server.port) as client:
            return client.ends(topic, self._topics[topic])

    @property
    def is_peer(self) -> bool:
        """Return whether it is a broker of others, whose refusals under load are its own affair."""
        return not self.name.startswith("litemq")

    # -- loads ---------------------------------------------------------------------------------------

    def warm(self, seconds: float) -> None:
        """Load it for a while, whatever it answers: a cold JVM refuses much."""
        topic = self.topic("bench-warm")
        self._warm_s = seconds
        native.run(self.server, "send", port=self.server.port, topic=topic, window=16, warm=0, seconds=seconds)

    def native_send(self, topic: str, **options: object) -> Found:
        """Run pipelined single sends and make sure that the broker has what it acknowledged."""
        queues = self._topics[self.topic(topic)]
        before = sum(self.ends(topic))
        found = native.run(self.server, "send", port=self.server.port, topic=topic, queues=queues, **options)
        self._check(found, topic, before)
        return found

    def java_send(self, topic: str, command: str, header: str = "json", **options: object) -> Found:
        """Run sends through the official client and make sure that the broker has what it acknowledged."""
        before = sum(self.ends(self.topic(topic)))
        found = self.java(header).run(command, topic=topic, **options)
        self._check(found, topic, before)
        return found

    def _check(self, found: Found, topic: str, before: int) -> None:
        refused, acknowledged = found["refused"] + found.get("unanswered", 0), found["answered"]
        may_refuse = acknowledged * REFUSED_SHARE if self.is_peer else 0
        if found.get("bad") or refused > may_refuse:
            raise WrongResult(f"{self.name}: {found}")
        limit = time.monotonic() + 10
        while (stored := sum(self.ends(topic)) - before) < acknowledged and time.monotonic() < limit:
            time.sleep(0.05)  # RocketMQ writes its queues a little after the answer
        if stored < acknowledged or stored > acknowledged + refused:
            raise WrongResult(f"{self.name}: {acknowledged} messages were acknowledged, {stored} are stored")

    def java(self, header: str = "json") -> JavaLoad:
        """Return the Java program of a header codec; it runs from its first use on."""
        if header not in self._loads:
            load = self._stack.enter_context(JavaLoad(self.server, self._folder / f"java-{header}", header))
            self._loads[header] = load
            load.run("send", topic=self.topic("bench-warm"), threads=64, body=128, warm=self._warm_s, seconds=1)
        return self._loads[header]


def settle() -> None:
    """Let what the last run left be written, so that the next one does not pay for it; and have memory found."""
    os.sync()
    touch_memory()
    time.sleep(0.3)
