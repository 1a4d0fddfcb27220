"""The producer and the consumer of the demo: processes of their own, which outlive the broker's death.

Each prints how far it is, one JSON object on a line.  The producer sends what was not answered again, in order, so
that a message may be there twice but none is missing; the consumer ends when it has every order that it wants.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from litemq.demo import orders
from litemq.demo.client import DemoClient
from litemq.errors import NoAnswer

WINDOW: Final = 64
"""Messages on their way at once."""

T = TypeVar("T")

_AGAIN_S: Final = 0.05
_REPORT_S: Final = 0.05
_GIVE_UP_S: Final = 60.0
"""Without any answer: the demo is gone, and so is its broker."""


async def produce(name_server: str, first: int, until: int) -> None:
    """Send the orders from ``first`` up to ``until``; print how many are acknowledged."""
    async with DemoClient(name_server, "demo-producer") as client:
        unanswered = 0
        patience = _Patience()
        while first < until:
            window = range(first, min(first + WINDOW, until))
            sends = (
                client.send(orders.TOPIC, orders.queue_of(n), orders.body_of(n), orders.properties_of(n))
                for n in window
            )
            answers = await asyncio.gather(*sends, return_exceptions=True)
            acknowledged = next((at for at, answer in enumerate(answers) if answer is not None), len(window))
            first += acknowledged
            if acknowledged == len(window):
                patience.is_over()
            elif not patience.is_tried:
                unanswered += len(window) - acknowledged
            _say({"acknowledged": first, "unanswered": unanswered})
            if acknowledged < len(window):
                await patience.wait(answers[acknowledged])


async def consume(name_server: str, group: str, wanted: str, until: int) -> None:
    """Consume the orders below ``until`` with the tags of the expression ``wanted``; print what came."""
    tags = frozenset(orders.TAGS if wanted == "*" else (tag.strip() for tag in wanted.split("||")))
    inbox = orders.Inbox(tags)
    expected = sum(orders.tag_of(number) in tags for number in range(until))
    is_done = asyncio.Event()

    async def drain(queue_id: int) -> None:
        offset = 0
        while not is_done.is_set():
            found, offset = await _steadily(partial(client.pull, orders.TOPIC, queue_id, offset, wanted=wanted))
            for message in found:
                inbox.take(message.queue_id, message.tags, message.body)
            if len(inbox.seen) >= expected:
                is_done.set()

    async def report() -> None:
        while True:
            _say(inbox.report())
            await asyncio.sleep(_REPORT_S)

    async with DemoClient(name_server, group) as client:
        await _steadily(lambda: client.heartbeat(orders.TOPIC, wanted))
        tasks = [asyncio.create_task(drain(queue_id)) for queue_id in range(orders.QUEUES)]
        tasks.append(asyncio.create_task(report()))
        ended = asyncio.create_task(is_done.wait())
        await asyncio.wait([ended, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
            task.cancel()
        ended.cancel()
    _say(inbox.report())


async def _steadily(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until there is an answer."""
    patience = _Patience()
    while True:
        try:
            return await ask()
        except NoAnswer as error:
            await patience.wait(error)


class _Patience:
    """Waits for a broker that does not answer, and gives up in the end."""

    def __init__(self) -> None:
        self.is_over()

    def is_over(self) -> None:
        """An answer came."""
        self.is_tried = False
        """Whether the last one did not answer."""
        self._until = time.monotonic() + _GIVE_UP_S

    async def wait(self, error: object) -> None:
        """Wait a moment; raise what cannot be waited for."""
        if isinstance(error, BaseException) and (not isinstance(error, NoAnswer) or time.monotonic() > self._until):
            raise error
        self.is_tried = True
        await asyncio.sleep(_AGAIN_S)


def _say(what: dict[str, int]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()
