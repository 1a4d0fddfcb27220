"""How much a producer may send, and how far a group may lag behind: decided at once, nothing ever waits.

A token bucket holds what may be sent at this moment, at most one second's worth.  A request that is bigger than a full
bucket passes when it is full, and the next ones pay for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_CLIENTS: Final = 10_000
"""Producers that are told apart; the one that sent nothing for longest is forgotten, with a full bucket."""

BACKLOG_RETRY_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Refusal:
    """Which limit is reached, and when to try again."""

    text: str
    retry_after_ms: int
    setting: str
    """Name of the setting that holds the limit."""

    def __str__(self) -> str:
        return f"{self.text}; try again in {self.retry_after_ms} ms"


class TokenBucket:
    """Tokens that come in at ``rate`` a second; counted in thousandths, which one millisecond brings ``rate`` of."""

    __slots__ = ("_at_ms", "_rate", "_thousandths")

    def __init__(self, rate: int, now_ms: int) -> None:
        self._rate = rate
        self._thousandths = rate * 1000
        self._at_ms = now_ms

    def wait_ms(self, count: int, now_ms: int) -> int:
        """Return in how many milliseconds ``count`` tokens will be there; 0: now."""
        if now_ms > self._at_ms:
            self._thousandths = min(self._rate * 1000, self._thousandths + (now_ms - self._at_ms) * self._rate)
        self._at_ms = now_ms  # also when the clock ran back: from there on it brings tokens again
        missing = min(count, self._rate) * 1000 - self._thousandths
        return -(-missing // self._rate) if missing > 0 else 0

    def take(self, count: int) -> None:
        """Take tokens, also those that are not there yet."""
        self._thousandths -= count * 1000


class ProducerLimits:
    """Messages and bytes a second of each producer; a rate of 0 is no limit."""

    def __init__(self, messages_per_s: int = 0, bytes_per_s: int = 0, max_clients: int = MAX_CLIENTS) -> None:
        self._max_clients = max_clients
        self._buckets: dict[str, tuple[TokenBucket | None, TokenBucket | None]] = {}
        self.messages_per_s = 0
        self.bytes_per_s = 0
        self.configure(messages_per_s, bytes_per_s)

    @property
    def is_on(self) -> bool:
        """Whether there is any limit: when not, nobody need ask."""
        return bool(self.messages_per_s or self.bytes_per_s)

    def configure(self, messages_per_s: int, bytes_per_s: int) -> None:
        """Change the rates; everybody begins with a full bucket.

        Raises:
            ValueError: a rate is below 0.
        """
        if messages_per_s < 0 or bytes_per_s < 0:
            raise ValueError(f"rates must not be below 0: {messages_per_s} messages/s, {bytes_per_s} bytes/s")
        self.messages_per_s, self.bytes_per_s = messages_per_s, bytes_per_s
        self._buckets.clear()

    def admit(self, client_id: str, count: int, size: int, now_ms: int) -> Refusal | None:
        """Let a client send ``count`` messages of ``size`` bytes together, or say why not; all or nothing."""
        if not self.is_on:
            return None
        messages, data = self._of(client_id, now_ms)
        message_wait_ms = messages.wait_ms(count, now_ms) if messages is not None else 0
        data_wait_ms = data.wait_ms(size, now_ms) if data is not None else 0
        if message_wait_ms or data_wait_ms:
            if message_wait_ms >= data_wait_ms:
                limit, setting = f"{self.messages_per_s} messages/s", "producer_messages_per_s"
            else:
                limit, setting = f"{self.bytes_per_s} bytes/s", "producer_bytes_per_s"
            text = f"producer {client_id} sends more than {limit} (limits.{setting})"
            return Refusal(text, max(message_wait_ms, data_wait_ms), setting)
        if messages is not None:
            messages.take(count)
        if data is not None:
            data.take(size)
        return None

    def _of(self, client_id: str, now_ms: int) -> tuple[TokenBucket | None, TokenBucket | None]:
        found = self._buckets.pop(client_id, None)
        if found is None:
            found = (
                TokenBucket(self.messages_per_s, now_ms) if self.messages_per_s else None,
                TokenBucket(self.bytes_per_s, now_ms) if self.bytes_per_s else None,
            )
            if len(self._buckets) >= self._max_clients:
                del self._buckets[next(iter(self._buckets))]
        self._buckets[client_id] = found  # the longest silent stays first
        return found


def check_backlog(topic: str, queue_id: int, *, max_offset: int, lowest_commit: int, limit: int) -> Refusal | None:
    """Refuse a send to a queue whose slowest group has ``limit`` messages or more to read; 0 is no limit."""
    backlog = max_offset - lowest_commit
    if not limit or backlog < limit:
        return None
    text = f"queue {queue_id} of {topic} has {backlog} unread messages, the limit is {limit} (limits.queue_backlog)"
    return Refusal(text, BACKLOG_RETRY_MS, "queue_backlog")
