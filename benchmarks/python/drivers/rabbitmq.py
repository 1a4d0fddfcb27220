"""pika on a quorum queue, every publish confirmed.

One at a time through ``BlockingConnection``; otherwise through ``SelectConnection``, whose confirms come as callbacks.
A consumer gets up to 1000 messages ahead and acknowledges 500 at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika  # type: ignore[import-not-found]

from benchmarks.python.bodies import bodies
from benchmarks.python.drivers import Read, Send

_WINDOW = 64
_BURST = 500
"""How many are published before the loop may read confirms, when nothing limits them."""
_PREFETCH, _ACK_EVERY = 1000, 500


class Library:
    """Connections to one queue."""

    def __init__(self, port: int, _: str, topic: str) -> None:
        self._place = pika.ConnectionParameters("127.0.0.1", port)
        self._topic = topic
        self._connection = pika.BlockingConnection(self._place)
        self._channel = self._connection.channel()
        self._publisher: _Publisher | None = None

    def create(self) -> None:
        """Make the queue."""
        self._channel.queue_declare(self._topic, durable=True, arguments={"x-queue-type": "quorum"})

    def stored(self) -> int:
        """Return what the queue holds."""
        return int(self._channel.queue_declare(self._topic, passive=True).method.message_count)

    def discard(self) -> None:
        """Delete the queue."""
        self._channel.queue_delete(self._topic)

    def sender(self, work: str) -> Send:
        """Return what does a work."""
        if work == "sync":
            self._channel.confirm_delivery()
            return self._one_by_one
        self._publisher = _Publisher(self._place, self._topic)
        return self._publisher.pipelined if work == "pipelined" else self._publisher.unlimited

    def _one_by_one(self, count: int) -> int:
        publish, topic = self._channel.basic_publish, self._topic
        properties = _persistent()
        for body in bodies(count):
            publish("", topic, body, properties)  # raises when it is refused
        return count

    def reader(self, group: str) -> Read:
        """Return what reads the queue, which is for one group only."""
        self._channel.basic_qos(prefetch_count=_PREFETCH)
        return self._read

    def _read(self, count: int) -> tuple[int, int]:
        channel, seen, total = self._channel, 0, 0

        def consume(_: object, delivery: Any, __: object, body: bytes) -> None:  # noqa: ANN401 - it has no types
            nonlocal seen, total
            seen += 1
            total += body[0] + len(body)
            if seen % _ACK_EVERY == 0 or seen == count:
                channel.basic_ack(delivery.delivery_tag, multiple=True)
            if seen == count:
                channel.stop_consuming()

        channel.basic_consume(self._topic, consume)
        channel.start_consuming()
        return seen, total

    def close(self) -> None:
        """Disconnect."""
        if self._publisher is not None:
            self._publisher.close()
        self._connection.close()


def _persistent() -> Any:  # noqa: ANN401 - it has no types
    return pika.BasicProperties(delivery_mode=2)


class _Publisher:
    """Publishes on an event loop of its own, which runs only while there is something to send."""

    def __init__(self, place: Any, topic: str) -> None:  # noqa: ANN401 - it has no types
        self._topic = topic
        self._properties = _persistent()
        self._published = self._confirmed = self._acknowledged = 0
        self._more: Callable[[], None] = self._nothing
        self._channel: Any = None
        self._connection = pika.SelectConnection(
            place,
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
            on_open_error_callback=self._failed,
            on_close_callback=self._failed,
        )
        self._loop = self._connection.ioloop
        self._is_closing = False
        self._loop.start()

    def _opened(self, channel: Any) -> None:  # noqa: ANN401 - it has no types
        self._channel = channel
        channel.confirm_delivery(self._answered, callback=lambda _: self._loop.stop())

    def _failed(self, _: object, error: BaseException) -> None:
        self._loop.stop()
        if not self._is_closing:
            raise error

    def _answered(self, frame: Any) -> None:  # noqa: ANN401 - it has no types
        method = frame.method
        new = method.delivery_tag - self._confirmed
        if new < 1 or (new > 1 and not method.multiple):
            raise RuntimeError(
                f"confirm {method.delivery_tag} came after {self._confirmed}: one queue confirms in order"
            )
        self._confirmed += new
        if isinstance(method, pika.spec.Basic.Ack):
            self._acknowledged += new
        self._more()

    def _nothing(self) -> None:
        """Nothing is to be published."""

    def pipelined(self, count: int) -> int:
        """Publish with at most 64 unconfirmed."""
        return self._run(count, _WINDOW)

    def unlimited(self, count: int) -> int:
        """Publish as fast as the loop takes it."""
        return self._run(count, None)

    def _run(self, count: int, window: int | None) -> int:
        every, publish, topic, properties = bodies(count), self._channel.basic_publish, self._topic, self._properties
        before, end = self._acknowledged, self._published + count

        def burst() -> None:
            room = _BURST if window is None else window - (self._published - self._confirmed)
            for _ in range(min(room, end - self._published)):
                publish("", topic, next(every), properties)
                self._published += 1
            if window is None and self._published < end:
                self._loop.add_callback_threadsafe(burst)

        def more() -> None:
            if self._confirmed == end:
                self._loop.stop()
            elif window is not None:
                burst()

        self._more = more
        self._loop.add_callback_threadsafe(burst)
        self._loop.start()
        self._more = self._nothing
        return self._acknowledged - before

    def close(self) -> None:
        """Disconnect."""
        self._is_closing = True
        self._connection.close()
        self._loop.start()
