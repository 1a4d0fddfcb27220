"""The producer and the consumer of the demo: processes of their own, which outlive the broker's death.

Each prints how far it is, one JSON object on a line.  The producer sends what was not answered again, in order, so
that a message may be there twice but none is missing; the consumer ends when it has every order that it wants.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import suppress
from typing import Final

import litemq
from litemq.demo import orders

WINDOW: Final = 64
"""Messages on their way at once: fewer than there are customers, so that two orders of one are never."""

_AGAIN_S: Final = 0.05
_REPORT_S: Final = 0.05
_GIVE_UP_S: Final = 60.0
"""Without any answer: the demo is gone, and so is its broker."""


def produce(name_server: str, first: int, until: int) -> None:
    """Send the orders from ``first`` up to ``until``; print how many are acknowledged."""
    unanswered = 0
    patience = _Patience()
    with litemq.Producer(name_server, group="demo-producer") as producer:
        while first < until:
            window = range(first, min(first + WINDOW, until))
            futures = [producer.send_async(orders.message_of(number)) for number in window]
            errors = [future.exception() for future in futures]
            acknowledged = next((at for at, error in enumerate(errors) if error is not None), len(window))
            first += acknowledged
            if acknowledged == len(window):
                patience.is_over()
            else:
                with suppress(litemq.LiteMQError):  # it tells of the same once more
                    producer.flush()
                if not patience.is_tried:
                    unanswered += len(window) - acknowledged
            _say({"acknowledged": first, "unanswered": unanswered})
            if acknowledged < len(window):
                patience.wait(errors[acknowledged])


def consume(name_server: str, group: str, wanted: str, until: int) -> None:
    """Consume the orders below ``until`` with the tags of the expression ``wanted``; print what came."""
    tags = frozenset(orders.TAGS if wanted == "*" else (tag.strip() for tag in wanted.split("||")))
    inbox = orders.Inbox(tags)
    expected = sum(orders.tag_of(number) in tags for number in range(until))
    lock = threading.Lock()
    is_done = threading.Event()

    def handle(message: litemq.Message) -> None:
        with lock:
            inbox.take(message.queue_id, message.tags, message.body)
            if len(inbox.seen) >= expected:
                is_done.set()

    last, changed = 0, time.monotonic()
    with litemq.PushConsumer(
        group, {orders.TOPIC: wanted}, handle, nameservers=name_server, ordered=True, start="first"
    ):
        while not is_done.wait(_REPORT_S):
            _say(inbox.report())
            if len(inbox.seen) != last:
                last, changed = len(inbox.seen), time.monotonic()
            elif time.monotonic() - changed > _GIVE_UP_S:
                raise TimeoutError(f"nothing came for {_GIVE_UP_S:.0f} s")
    _say(inbox.report())


class _Patience:
    """Waits for a broker that does not answer, and gives up in the end."""

    def __init__(self) -> None:
        self.is_over()

    def is_over(self) -> None:
        """An answer came."""
        self.is_tried = False
        """Whether the last one did not answer."""
        self._until = time.monotonic() + _GIVE_UP_S

    def wait(self, error: BaseException | None) -> None:
        """Wait a moment; raise what cannot be waited for."""
        if error is not None and (not isinstance(error, litemq.Unavailable) or time.monotonic() > self._until):
            raise error
        self.is_tried = True
        time.sleep(_AGAIN_S)


def _say(what: dict[str, int]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()
