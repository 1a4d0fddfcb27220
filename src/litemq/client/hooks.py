"""Where an application may look on while messages are sent and handled: traces, measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from litemq.client._message_cy import Message


class Hooks(Protocol):
    """What a producer calls; ``litemq.telemetry.OpenTelemetryHooks`` is one, and yours may do anything.

    >>> import contextlib
    >>> class Counting:
    ...     sent = 0
    ...     @contextlib.contextmanager
    ...     def sending(self, messages):
    ...         yield {"sender": "counting"}
    ...         self.sent += len(messages)
    >>> counting = Counting()
    >>> with litemq.Producer(hooks=counting) as producer:
    ...     sent = producer.send("orders", b"17 apples")
    >>> counting.sent
    1
    """

    def sending(self, messages: Sequence[Message]) -> AbstractContextManager[Mapping[str, str]]:
        """Surround one request; what it yields becomes properties of each message.

        An error that ends the request is raised inside.
        """
        ...
