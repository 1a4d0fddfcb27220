"""nats-py on uvloop and a JetStream stream in files.

A pull consumer fetches 1000 messages at once and acknowledges all of them with the last one.
"""

from __future__ import annotations

import asyncio
from typing import Any

import nats  # type: ignore[import-not-found]
import uvloop
from nats.js.api import AckPolicy, ConsumerConfig  # type: ignore[import-not-found]

from benchmarks.python.bodies import bodies
from benchmarks.python.drivers import Read, Send

_WINDOW = {"pipelined": 64, "batch": 500}
_READ_COUNT = 1000


class Library:
    """One connection and one stream, whose name is its only subject."""

    def __init__(self, port: int, _: str, topic: str) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._topic = topic
        self._connection = self._runner.run(nats.connect(f"nats://127.0.0.1:{port}"))
        self._stream = self._connection.jetstream()
        self._subscription: Any = None

    def create(self) -> None:
        """Make the stream."""
        self._runner.run(self._stream.add_stream(name=self._topic, subjects=[self._topic]))

    def stored(self) -> int:
        """Return what the stream holds."""
        return int(self._runner.run(self._stream.stream_info(self._topic)).state.messages)

    def discard(self) -> None:
        """Delete the stream."""
        self._runner.run(self._stream.delete_stream(self._topic))

    def sender(self, work: str) -> Send:
        """Return what does a work."""
        if work == "sync":
            return lambda count: self._runner.run(self._one_by_one(count))
        self._stream = self._connection.jetstream(publish_async_max_pending=_WINDOW[work])
        return lambda count: self._runner.run(self._windowed(count))

    async def _one_by_one(self, count: int) -> int:
        topic, acknowledged = self._topic, 0
        for body in bodies(count):
            if (await self._stream.publish(topic, body)).seq:
                acknowledged += 1
        return acknowledged

    async def _windowed(self, count: int) -> int:
        topic, acknowledged = self._topic, 0

        def done(answer: asyncio.Future[Any]) -> None:
            nonlocal acknowledged
            acknowledged += answer.exception() is None

        for body in bodies(count):
            (await self._stream.publish_async(topic, body)).add_done_callback(done)
        await self._stream.publish_async_completed()
        await asyncio.sleep(0)  # the last callbacks
        return acknowledged

    def reader(self, group: str) -> Read:
        """Return what reads from the stream's beginning."""
        config = ConsumerConfig(ack_policy=AckPolicy.ALL)
        self._subscription = self._runner.run(self._stream.pull_subscribe(self._topic, group, config=config))
        return lambda count: self._runner.run(self._read(count))

    async def _read(self, count: int) -> tuple[int, int]:
        seen, total = 0, 0
        while seen < count:
            messages = await self._subscription.fetch(_READ_COUNT)
            for message in messages:
                body = message.data
                total += body[0] + len(body)
            await messages[-1].ack()
            seen += len(messages)
        await self._connection.flush()
        return seen, total

    def close(self) -> None:
        """Disconnect."""
        self._runner.run(self._connection.close())
        self._runner.close()
