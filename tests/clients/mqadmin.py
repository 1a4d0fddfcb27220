"""RocketMQ's command line tool ``mqadmin``, in one process for many commands."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from tests.clients.rocketmq import Toolbox, finish


@dataclass(frozen=True, slots=True)
class Sent:
    """A message as its producer knows it."""

    unique_id: str
    offset_id: str
    queue: int
    offset: int


class MqAdmin:
    """Runs commands against a name server; its own exit status is always 0, so what it prints is looked at."""

    def __init__(self, tools: Toolbox, name_server: str, work: Path) -> None:
        self._name_server = name_server
        self._work = work
        self._process = tools.start(work, "256m", "Admin", pipe=True)

    def run(self, *arguments: str) -> str:
        """Return what a command prints; a stack trace is a failure."""
        said = self._said([*arguments, "-n", self._name_server])
        assert "\n\tat " not in said, f"{' '.join(arguments)}: {said[:3000]}"
        assert "[error]" not in said, f"{' '.join(arguments)}: {said[:3000]}"
        assert "usage: mqadmin" not in said, f"{' '.join(arguments)}: {said[:3000]}"
        return said

    def live(self, topic: str, group: str, producer_group: str, count: int) -> list[Sent]:
        """Start a consumer and a producer, and return what they sent and consumed."""
        said = self._said(["live", self._name_server, topic, group, producer_group, str(count)])
        assert "Exception" not in said, said[:3000]
        rows = [line.split() for line in said.splitlines() if re.fullmatch(r"\w+ \w+ \d+ \d+", line)]
        assert len(rows) == count, said[:3000]
        return [Sent(unique, by_offset, int(queue), int(offset)) for unique, by_offset, queue, offset in rows]

    def _said(self, command: list[str]) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"mqadmin ended at {command}: {(self._work / 'out.log').read_text()[-2000:]}"
        said: str = json.loads(line)["said"]
        return said

    def close(self) -> None:
        """End the process."""
        finish(self._process, 5)
