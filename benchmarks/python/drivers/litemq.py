"""LiteMQ's SDK.

Topics are made and counted by the benchmarks' own tiny client, so that the SDK does not check itself.
"""

from __future__ import annotations

import collections
import contextlib
from concurrent.futures import Future

from benchmarks.python.bodies import bodies, shares
from benchmarks.python.drivers import Read, Send
from benchmarks.wire import Client
from litemq import Message, Producer, PullConsumer, Sent

QUEUES = 8
_WINDOW, _BATCH = 64, 1000
_POLL_COUNT, _COMMIT_EVERY = 4096, 50_000
_WAIT_S = 10.0


class Library:
    """Clients of one topic."""

    def __init__(self, port: int, name_server: str, topic: str) -> None:
        self._stack = contextlib.ExitStack()
        self._wire = self._stack.enter_context(Client(port))
        self._name_server = name_server
        self._topic = topic

    def create(self) -> None:
        """Make the topic."""
        self._wire.create_topics([self._topic], QUEUES)

    def stored(self) -> int:
        """Return the sum of the ends of its queues."""
        return sum(self._wire.ends(self._topic, QUEUES))

    def discard(self) -> None:
        """Leave the messages to retention: one log holds those of all topics."""

    def sender(self, work: str) -> Send:
        """Return what does a work."""
        self._producer = self._stack.enter_context(Producer(self._name_server, group="benchmark"))
        return {"sync": self._one_by_one, "pipelined": self._windowed, "batch": self._batches}[work]

    def _one_by_one(self, count: int) -> int:
        send, topic, acknowledged = self._producer.send, self._topic, 0
        for body in bodies(count):
            if send(topic, body).queue_offset >= 0:
                acknowledged += 1
        return acknowledged

    def _windowed(self, count: int) -> int:
        send, topic, acknowledged = self._producer.send_async, self._topic, 0
        waiting: collections.deque[Future[Sent]] = collections.deque()
        for body in bodies(count):
            if len(waiting) == _WINDOW:
                acknowledged += waiting.popleft().result(_WAIT_S).queue_offset >= 0
            waiting.append(send(topic, body))
        return acknowledged + sum(future.result(_WAIT_S).queue_offset >= 0 for future in waiting)

    def _batches(self, count: int) -> int:
        send, topic, acknowledged = self._producer.send_batch, self._topic, 0
        for share in shares(count, _BATCH):
            acknowledged += len(send([Message(topic, body) for body in share]))
        return acknowledged

    def reader(self, group: str) -> Read:
        """Return what reads from the topic's beginning."""
        self._consumer = self._stack.enter_context(PullConsumer(group, nameservers=self._name_server))
        return self._read

    def _read(self, count: int) -> tuple[int, int]:
        consumer, seen, total, committed = self._consumer, 0, 0, 0
        consumer.subscribe(self._topic)
        while seen < count:
            messages = consumer.poll(max_messages=_POLL_COUNT, timeout=_WAIT_S)
            for message in messages:
                body = message.body
                total += body[0] + len(body)
            seen += len(messages)
            if seen - committed >= _COMMIT_EVERY:
                consumer.commit()
                committed = seen
        consumer.commit()
        return seen, total

    def close(self) -> None:
        """Disconnect."""
        self._stack.close()
