"""Brokers as processes of their own, behind a parent that starts them anew when they die.

A child prints one line of JSON when it is ready, and ends when its stdin does: whatever becomes of the parent, no
child outlives it for long.  Its log goes to the parent's stderr.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from litemq.errors import Unavailable

logger = logging.getLogger(__name__)

_STEADY_S = 60.0
"""A child that was ready for so long is started anew without delay when it dies."""


@dataclass(slots=True)
class Child:
    """One broker process."""

    name: str
    command: Sequence[str]
    process: Process | None = None
    ready: Mapping[str, object] = field(default_factory=dict)
    """What it said when it was ready."""
    starts: int = 0


class BrokerProcesses:
    """Starts children, keeps them running, ends them.  Each is restarted after a delay that doubles up to a bound."""

    def __init__(
        self,
        commands: Mapping[str, Sequence[str]],
        *,
        first_delay_s: float = 0.5,
        max_delay_s: float = 30.0,
        grace_s: float = 60.0,
    ) -> None:
        self.children = [Child(name, command) for name, command in commands.items()]
        self._first_delay_s = first_delay_s
        self._max_delay_s = max_delay_s
        self._grace_s = grace_s
        self._keepers: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start all children at once; return when all are ready.

        Raises:
            Unavailable: one ended before it was ready; the others are ended too.
        """
        ends = await asyncio.gather(*map(self._start, self.children), return_exceptions=True)
        failures = [end for end in ends if end is not None]
        if failures:
            await self.close()
            raise failures[0]
        self._keepers = [asyncio.create_task(self._keep(child), name=child.name) for child in self.children]

    async def close(self) -> None:
        """End all children cleanly; one that takes too long is killed."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        running = [child.process for child in self.children if child.process is not None]
        for process in running:
            if process.stdin is not None:
                process.stdin.close()
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        await asyncio.gather(*(self._end(process) for process in running))

    async def _end(self, process: Process) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._grace_s):
                await process.wait()
                return
        logger.error("a broker does not stop, it is killed: pid=%d", process.pid)
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    async def _start(self, child: Child) -> None:
        """Start a child and wait until it is ready."""
        # A session of its own: Ctrl-C is for the parent, which then ends its children.
        process = await asyncio.create_subprocess_exec(*child.command, stdin=PIPE, stdout=PIPE, start_new_session=True)
        child.process = process
        child.starts += 1
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            status = await process.wait()
            raise Unavailable(f"{child.name} {_end_text(status)} before it was ready; its reason stands above")
        child.ready = json.loads(line)
        logger.info("broker ready: name=%s pid=%d", child.name, process.pid)

    async def _keep(self, child: Child) -> None:
        """Wait for a child's end; start it anew as long as nobody wants it to end."""
        loop = asyncio.get_running_loop()
        delay_s = self._first_delay_s
        while True:
            ready_at = loop.time()
            assert child.process is not None
            status = await child.process.wait()
            if loop.time() - ready_at >= _STEADY_S:
                delay_s = self._first_delay_s
            logger.error("%s %s; it is started again: delay_s=%g", child.name, _end_text(status), delay_s)
            delay_s = await self._start_again(child, delay_s)

    async def _start_again(self, child: Child, delay_s: float) -> float:
        """Try until it is ready; return the delay of the next time."""
        while True:
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, self._max_delay_s)
            try:
                await self._start(child)
            except (Unavailable, OSError, ValueError) as error:
                logger.error("%s; it is started again: delay_s=%g", error, delay_s)
            else:
                return delay_s


def _end_text(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"
