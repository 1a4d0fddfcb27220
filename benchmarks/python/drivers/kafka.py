"""confluent-kafka (librdkafka) with its defaults, ``acks=all``, a delivery report for each message.

One partition, as that is where it sends fastest.  Partitions are assigned, so no run waits for a group to form; offsets
are committed every five seconds, its default.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

from confluent_kafka import (  # type: ignore[import-not-found]
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[import-not-found]

from benchmarks.python.bodies import bodies
from benchmarks.python.drivers import Read, Send

_WINDOW = 64
_SEND: dict[str, dict[str, object]] = {
    "sync": {"linger.ms": 0},
    "pipelined": {"linger.ms": 0},
    "batch": {"linger.ms": 5},
}
_READ_COUNT = 1000
_WAIT_S = 10.0


class Library:
    """Clients of one topic."""

    partitions = 1
    read_settings: ClassVar[dict[str, object]] = {}

    def __init__(self, port: int, _: str, topic: str) -> None:
        self._servers = {"bootstrap.servers": f"127.0.0.1:{port}"}
        self._admin = AdminClient(self._servers)
        self._topic = topic
        self._acknowledged = 0
        self._producer: Any = None
        self._consumer: Any = None

    def create(self) -> None:
        """Make the topic and wait for its leaders."""
        limit = time.monotonic() + 30
        while (found := self._admin.list_topics(timeout=_WAIT_S).topics.get(self._topic)) is None or any(
            part.leader < 0 for part in found.partitions.values()
        ):
            if found is None:
                self._admin.create_topics([NewTopic(self._topic, self.partitions, 1)])[self._topic].result(_WAIT_S)
            elif time.monotonic() > limit:
                raise RuntimeError("the topic has no leaders")
            time.sleep(0.1)

    def stored(self) -> int:
        """Return the sum of what the partitions hold."""
        watcher = Consumer({**self._servers, "group.id": "watcher"})
        try:
            ends = [watcher.get_watermark_offsets(part, _WAIT_S) for part in self._partitions()]
        finally:
            watcher.close()
        return sum(high - low for low, high in ends)

    def _partitions(self) -> list[Any]:
        return [TopicPartition(self._topic, number, OFFSET_BEGINNING) for number in range(self.partitions)]

    def discard(self) -> None:
        """Delete the topic."""
        self._admin.delete_topics([self._topic])[self._topic].result(_WAIT_S)

    def sender(self, work: str) -> Send:
        """Return what does a work."""
        self._producer = Producer({**self._servers, "acks": "all", **_SEND[work]})
        return {"sync": self._one_by_one, "pipelined": self._windowed, "batch": self._unlimited}[work]

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is None:
            self._acknowledged += 1

    def _one_by_one(self, count: int) -> int:
        before, producer, topic, delivered = self._acknowledged, self._producer, self._topic, self._delivered
        for body in bodies(count):
            producer.produce(topic, body, on_delivery=delivered)
            producer.flush()
        return self._acknowledged - before

    def _windowed(self, count: int) -> int:
        before, producer, topic, delivered = self._acknowledged, self._producer, self._topic, self._delivered
        for body in bodies(count):
            while len(producer) >= _WINDOW:
                producer.poll(_WAIT_S)
            producer.produce(topic, body, on_delivery=delivered)
        producer.flush()
        return self._acknowledged - before

    def _unlimited(self, count: int) -> int:
        before, producer, topic, delivered = self._acknowledged, self._producer, self._topic, self._delivered
        for body in bodies(count):
            while True:
                try:
                    producer.produce(topic, body, on_delivery=delivered)
                    break
                except BufferError:  # 100 000 messages wait, its default
                    producer.poll(0.1)
        producer.flush()
        return self._acknowledged - before

    def reader(self, group: str) -> Read:
        """Return what reads from the beginning of all partitions."""
        consumer = Consumer({**self._servers, "group.id": group, **self.read_settings})
        consumer.list_topics(self._topic, _WAIT_S)
        self._consumer = consumer
        return self._read

    def _read(self, count: int) -> tuple[int, int]:
        consumer, seen, total = self._consumer, 0, 0
        consumer.assign(self._partitions())
        while seen < count:
            messages = consumer.consume(_READ_COUNT, _WAIT_S)
            for message in messages:
                if message.error() is not None:
                    raise RuntimeError(str(message.error()))
                body = message.value()
                total += body[0] + len(body)
            seen += len(messages)
        return seen, total

    def close(self) -> None:
        """Disconnect."""
        if self._consumer is not None:
            self._consumer.close()
