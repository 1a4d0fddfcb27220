"""A server process: its event loop, its signals, its log lines, its garbage, and how it ends.

The first SIGTERM or SIGINT (or, for a child, the end of stdin: its parent is gone) asks for a clean stop; a second one
ends the process at once, as a crash would.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from types import FrameType
from typing import Final, Protocol

from litemq.errors import CannotListen

STDIN: Final = 0
_MOST_FILES: Final = 1 << 20
_ENDING: Final = (signal.SIGTERM, signal.SIGINT)
_THRESHOLDS: Final = (10_000, 20, 50)
"""Of the garbage collector: a broker makes few cycles, and a look at many young objects is not free."""

_SWITCH_S: Final = 0.0005
"""For so long a thread that reads from the disk may keep the interpreter from the loop; Python's own is 5 ms."""

Start = Callable[[AsyncExitStack], Awaitable[None]]
"""Starts everything; what must be closed is pushed onto the stack."""


class Part(Protocol):
    """What a process runs."""

    async def start(self) -> None: ...
    async def close(self) -> None: ...


def serve(start: Start, *, is_child: bool = False) -> None:
    """Start everything, wait until the process is told to end, close in the reverse order.

    Raises:
        LiteMQError: what could not be started says why; the rest was closed.
    """
    _raise_file_limit()
    sys.setswitchinterval(_SWITCH_S)
    with _Ending() as ending:
        _run(_serve(start, ending, is_child))


async def _serve(start: Start, ending: _Ending, is_child: bool) -> None:
    ending.attach(asyncio.get_running_loop(), is_child=is_child)
    async with AsyncExitStack() as stack:
        await start(stack)
        _settle_garbage()
        await ending.asked.wait()


async def begin(stack: AsyncExitStack, part: Part) -> None:
    """Start a part; it is closed with the stack."""
    await part.start()
    stack.push_async_callback(part.close)


@contextmanager
def listening(what: str, advice: str) -> Iterator[None]:
    """Name an address that cannot be listened on.

    Args:
        what: Who wants to listen.
        advice: The setting that chooses the address.
    """
    try:
        yield
    except CannotListen as error:
        raise CannotListen(f"{what}: {error}; choose another address with {advice}") from error
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        # Somebody who bound it before us began to listen after us: the loop does not say where.
        raise CannotListen(f"{what}: {error.strerror}; choose another address with {advice}") from error


def configure_logging(level: str, name: str = "") -> None:
    """Send the log to stderr; ``name`` tells the lines of several processes apart."""
    shown = f" {name.replace('%', '%%')}" if name else ""
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter(f"%(asctime)s.%(msecs)03dZ %(levelname)s{shown} %(name)s: %(message)s")
    formatter.datefmt = "%Y-%m-%dT%H:%M:%S"
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def _run(main: Coroutine[object, object, None]) -> None:
    """Run to the end on a new loop: uvloop's where there is one."""
    if sys.platform == "linux":
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main)
    else:
        asyncio.run(main)


def _raise_file_limit() -> None:
    """Allow as many open files as the system does: the usual 1024 are few for connections and a store."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # then it is what it is
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _settle_garbage() -> None:
    """Take all that was made at the start out of the collector's sight: it stays as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


class _Ending:
    """Knows that the process was asked to end; set before the loop runs, so that no signal is missed."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self._is_asked = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> _Ending:
        for number in _ENDING:
            # Not by the loop: it would not hear the second one while it is busy closing.
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_error: object) -> None:
        self._loop = None
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what ``signal`` returned

    def attach(self, loop: asyncio.AbstractEventLoop, *, is_child: bool) -> None:
        """Wake this loop; one of a child also when its parent is gone."""
        self._loop = loop
        if self._is_asked:
            self.asked.set()
        if is_child:
            loop.add_reader(STDIN, self._on_stdin)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._is_asked:
            os._exit(128 + number)
        self._is_asked = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.asked.set)

    def _on_stdin(self) -> None:
        if os.read(STDIN, 4096):
            return
        if self._loop is not None:
            self._loop.remove_reader(STDIN)
        self.asked.set()
