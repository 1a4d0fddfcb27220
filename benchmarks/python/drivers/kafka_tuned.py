"""confluent-kafka with the settings that a throughput test would give it; printed beside its defaults.

Batches report errors only, so that ``flush() == 0`` tells that the rest was acknowledged.  By default a consumer that
has read 100 000 messages ahead of the application waits a second before it reads on; here a millisecond.
"""

from __future__ import annotations

from typing import ClassVar

from confluent_kafka import Producer  # type: ignore[import-not-found]

from benchmarks.python.bodies import bodies
from benchmarks.python.drivers import Send, kafka


class Library(kafka.Library):
    """Clients of one topic, for ``batch`` and reading."""

    partitions = 8
    read_settings: ClassVar[dict[str, object]] = {"fetch.queue.backoff.ms": 1}

    def sender(self, work: str) -> Send:
        """Return what sends a batch."""
        if work != "batch":
            raise ValueError(f"{work}: the defaults do that")
        self._errors = 0
        self._producer = Producer(
            {
                **self._servers,
                "acks": "all",
                "linger.ms": 5,
                "delivery.report.only.error": True,
                "on_delivery": self._failed,
            }
        )
        return self._batch

    def _failed(self, *_: object) -> None:
        self._errors += 1

    def _batch(self, count: int) -> int:
        before, producer, topic = self._errors, self._producer, self._topic
        for body in bodies(count):
            while True:
                try:
                    producer.produce(topic, body)
                    break
                except BufferError:  # 100 000 messages wait, its default
                    producer.poll(0.1)
        left = producer.flush()
        return count - int(left) - (self._errors - before)
