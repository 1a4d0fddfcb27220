"""What the steps of the demo share: its directory, its processes, and how they wait and read."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import litemq
from litemq.demo.processes import Child, Failed, Up
from litemq.demo.screen import Screen

LIMIT_S: Final = 300.0
LOOK_S: Final = 0.02


@dataclass
class Demo:
    """What the steps share; ``close`` ends every process."""

    directory: Path
    messages: int
    screen: Screen = field(default_factory=Screen)
    broker: Up | None = None
    children: list[Child] = field(default_factory=list)

    @property
    def store(self) -> Path:
        return self.directory / "store"

    @property
    def copy(self) -> Path:
        return self.directory / "for-rocketmq"

    @property
    def up(self) -> Up:
        """Return the broker, which must run."""
        if self.broker is None:
            raise Failed("no broker runs")
        return self.broker

    def start_broker(self, ports: tuple[str, str] = ("0", "0")) -> Up:
        """Start ``litemq up`` over the store."""
        self.broker = Up(self.store, self.directory / "broker.log", ports)
        self.children.append(self.broker)
        return self.broker

    def start(self, name: str, *arguments: str | int) -> Child:
        """Start a producer or a consumer."""
        words = ("litemq.demo", name, self.up.name_server, *map(str, arguments))
        child = Child(name, *words, log=self.directory / f"{name}.log")
        self.children.append(child)
        self.screen.note(f"{name} {child.pid}: {' '.join(words[3:])}")
        return child

    def close(self) -> None:
        """End every process."""
        for child in self.children:
            child.kill()

    def litemq(self, *arguments: str | Path) -> list[dict[str, object]]:
        """Run a command of ``litemq store`` and return the objects that it prints."""
        shown = " ".join(str(argument).replace(str(self.directory), "DIR") for argument in arguments)
        self.screen.note(f"$ litemq store {shown}")
        done = subprocess.run(
            [sys.executable, "-P", "-m", "litemq", "store", *map(str, arguments), "--json"],
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        if done.returncode:
            raise Failed(f"exit status {done.returncode}: {(done.stderr or done.stdout).strip()[:300]}")
        return [json.loads(line) for line in done.stdout.splitlines()]


def wait(is_done: Callable[[], bool]) -> None:
    """Wait until something has become true."""
    deadline = time.monotonic() + LIMIT_S
    while not is_done():
        if time.monotonic() > deadline:
            raise Failed(f"not done within {LIMIT_S:.0f} s")
        time.sleep(LOOK_S)


def read(demo: Demo, topic: str, wanted: litemq.Tags | litemq.Sql, count: int) -> list[litemq.Message]:
    """Read so many messages of a topic from its start, in no group."""
    found: list[litemq.Message] = []

    def poll() -> bool:
        found.extend(consumer.poll(max_messages=500))
        return len(found) >= count

    with litemq.PullConsumer(nameservers=demo.up.name_server) as consumer:
        consumer.subscribe(topic, wanted)
        wait(poll)
    return found
