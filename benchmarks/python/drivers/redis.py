"""redis-py with hiredis on a stream.

In flight are the commands of one pipeline: asyncio with 64 tasks was a seventh as fast.  A group reads 1000 entries at
once and acknowledges them with the next read.
"""

from __future__ import annotations

from typing import Any

import redis  # type: ignore[import-not-found]

from benchmarks.python.bodies import bodies, shares
from benchmarks.python.drivers import Read, Send

_PIPELINE = {"pipelined": 64, "batch": 1000}
_READ_COUNT = 1000


class Library:
    """One connection and one stream."""

    def __init__(self, port: int, _: str, topic: str) -> None:
        self._client = redis.Redis("127.0.0.1", port)
        self._topic = topic

    def create(self) -> None:
        """A stream begins with its first entry."""

    def stored(self) -> int:
        """Return the stream's length."""
        return int(self._client.xlen(self._topic))

    def discard(self) -> None:
        """Delete the stream."""
        self._client.delete(self._topic)

    def sender(self, work: str) -> Send:
        """Return what does a work."""
        if work == "sync":
            return self._one_by_one
        return lambda count: self._pipelines(count, _PIPELINE[work])

    def _one_by_one(self, count: int) -> int:
        topic, acknowledged = self._topic, 0
        for body in bodies(count):
            if self._client.xadd(topic, {"body": body}):
                acknowledged += 1
        return acknowledged

    def _pipelines(self, count: int, size: int) -> int:
        topic, acknowledged = self._topic, 0
        for share in shares(count, size):
            pipeline = self._client.pipeline(transaction=False)
            for body in share:
                pipeline.xadd(topic, {"body": body})
            acknowledged += sum(map(bool, pipeline.execute()))
        return acknowledged

    def reader(self, group: str) -> Read:
        """Return what reads from the stream's beginning."""
        self._client.xgroup_create(self._topic, group, id="0")
        return lambda count: self._read(count, group)

    def _read(self, count: int, group: str) -> tuple[int, int]:
        topic, seen, total = self._topic, 0, 0
        done: list[bytes] = []
        while seen < count:
            pipeline = self._client.pipeline(transaction=False)
            if done:
                pipeline.xack(topic, group, *done)
            pipeline.xreadgroup(group, "reader", {topic: ">"}, count=_READ_COUNT)
            entries = _entries(pipeline.execute()[-1])
            for _, fields in entries:
                body = fields[b"body"]
                total += body[0] + len(body)
            done = [entry_id for entry_id, _ in entries]
            seen += len(done)
        self._client.xack(topic, group, *done)
        return seen, total

    def close(self) -> None:
        """Disconnect."""
        self._client.close()


def _entries(answer: Any) -> Any:  # noqa: ANN401 - it has no types
    """Return the entries of the only stream asked for; RESP2 answers with a list of streams, RESP3 with a dict."""
    if isinstance(answer, dict):
        ((entries,),) = answer.values()
        return entries
    ((_, entries),) = answer
    return entries
