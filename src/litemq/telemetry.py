"""OpenTelemetry, for applications that have it: ``pip install opentelemetry-api``; LiteMQ itself does not need it.

>>> import litemq.telemetry
>>> hooks = litemq.telemetry.OpenTelemetryHooks()
>>> with litemq.Producer(hooks=hooks) as producer:
...     sent = producer.send("orders", b"17 apples")
>>> def handle(message):
...     pass  # within the trace of whoever sent it
>>> with litemq.PushConsumer("billing", {"orders": "*"}, hooks.handler(handle)) as consumer:
...     pass
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from litemq.client._message_cy import Message
from litemq.errors import InvalidRequest

F = TypeVar("F", bound=Callable[..., Any])

_SYSTEM = {"messaging.system": "litemq"}


class OpenTelemetryHooks:
    """Makes a span of each request and of each handled message; the trace travels with the messages.

    >>> hooks = litemq.telemetry.OpenTelemetryHooks()

    Args:
        tracer: makes the spans; default: that of the application's provider.

    Raises:
        InvalidRequest: OpenTelemetry is not installed.
    """

    def __init__(self, tracer: Any = None) -> None:  # noqa: ANN401 - of a library that need not be there
        try:
            from opentelemetry import propagate, trace
        except ModuleNotFoundError as error:
            raise InvalidRequest("OpenTelemetry is not installed; install it: pip install opentelemetry-api") from error
        self._propagate: Any = propagate
        self._trace: Any = trace
        self._tracer = tracer or trace.get_tracer("litemq")

    @contextmanager
    def sending(self, messages: Sequence[Message]) -> Iterator[Mapping[str, str]]:
        """Make the span of one request.

        >>> with litemq.telemetry.OpenTelemetryHooks().sending([litemq.Message("orders", b"")]) as properties:
        ...     isinstance(properties, dict)
        True
        """
        topic = messages[0].topic
        attributes = {**_SYSTEM, "messaging.destination.name": topic, "messaging.operation.type": "send"}
        if len(messages) > 1:
            attributes["messaging.batch.message_count"] = str(len(messages))
        carrier: dict[str, str] = {}
        with self._tracer.start_as_current_span(
            f"send {topic}", kind=self._trace.SpanKind.PRODUCER, attributes=attributes
        ):
            self._propagate.inject(carrier)
            yield {name: value for name, value in carrier.items() if value}

    def handler(self, handle: F) -> F:
        """Return a handler whose work is a span in the trace of the message's sender.

        >>> handle = litemq.telemetry.OpenTelemetryHooks().handler(lambda message: message.body)
        >>> handle(litemq.Message("orders", b"17 apples"))
        b'17 apples'
        """
        if inspect.iscoroutinefunction(handle):

            @functools.wraps(handle)
            async def awaited(given: Any) -> Any:  # noqa: ANN401 - a message or a list of them
                with self._handling(given):
                    return await handle(given)

            return awaited  # type: ignore[return-value] # the same signature

        @functools.wraps(handle)
        def called(given: Any) -> Any:  # noqa: ANN401 - as above
            with self._handling(given):
                return handle(given)

        return called  # type: ignore[return-value] # the same signature

    @contextmanager
    def _handling(self, given: Message | Sequence[Message]) -> Iterator[None]:
        messages = [given] if isinstance(given, Message) else list(given)
        first = messages[0]
        contexts = [self._propagate.extract(one.raw_properties) for one in messages]
        links = [
            self._trace.Link(found.get_span_context())
            for found in map(self._trace.get_current_span, contexts)
            if found.get_span_context().is_valid
        ]
        attributes = {
            **_SYSTEM,
            "messaging.destination.name": first.topic,
            "messaging.operation.type": "process",
            "messaging.consumer.group.name": first.group,
            "messaging.message.id": first.message_id,
        }
        with self._tracer.start_as_current_span(
            f"process {first.topic}",
            context=contexts[0] if len(messages) == 1 else None,
            links=links if len(messages) > 1 else None,
            kind=self._trace.SpanKind.CONSUMER,
            attributes=attributes,
        ):
            yield
