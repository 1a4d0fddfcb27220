"""What producers may send: rates, backlogs, and answers that wait for a flush.

Every refusal says which limit it is, by which setting it is changed and when to try again, and is counted.  While a
limit has to look at messages of a topic, they do not take the compiled path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from litemq.broker import topic_attributes
from litemq.broker.durability import Durability
from litemq.broker.slowest import slowest
from litemq.broker.topics import Topic, Topics
from litemq.config import LimitsConfig
from litemq.errors import Busy, LiteMQError, RecordTooLarge, StoreFull
from litemq.features.limits import ProducerLimits, Refusal, check_backlog
from litemq.store.message_store import MessageStore
from litemq.wire.remoting.server import ConnectionLimits

if TYPE_CHECKING:
    from litemq.broker.broker import Broker


_PARTS = ("body", "properties", "batch", "record", "topic")
"""Of a message, which can be too large."""


class SendLimits:
    """Lets messages in, or says why not."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        durability: Durability,
        limits: LimitsConfig,
        *,
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._topics = topics
        self._durability = durability
        self._now_ms = now_ms
        self._backlog = limits.queue_backlog
        self._rates = ProducerLimits(limits.producer_messages_per_s, limits.producer_bytes_per_s)
        self.refused: Counter[str] = Counter()
        """Setting, or what was too large → sends that were refused."""
        self.overflowed = 0
        """Messages that became dead letters because their queue was full."""
        topics.is_plain = self._is_plain
        topics.refresh_plain()

    def apply(self, limits: LimitsConfig) -> None:
        """Go on with other limits; producers begin with full buckets when a rate changed."""
        rates = (limits.producer_messages_per_s, limits.producer_bytes_per_s)
        if rates != (self._rates.messages_per_s, self._rates.bytes_per_s):
            self._rates.configure(*rates)
        self._backlog = limits.queue_backlog
        self._topics.refresh_plain()

    @property
    def has_rates(self) -> bool:
        """Return whether it matters who sends."""
        return self._rates.is_on

    def _is_plain(self, topic: Topic) -> bool:
        return not self._rates.is_on and not topic_attributes.backlog(topic.attributes, self._backlog)

    def check_waiting(self) -> None:
        """Refuse a send while too many answers wait for the disk."""
        if self._durability.is_full:
            self.refused["waiting_bytes"] += 1
            raise Busy(
                f"{self._durability.held_bytes} bytes of answers wait for the disk (limits.waiting_bytes); "
                "try again in 1000 ms"
            )

    def admit(self, topic: Topic, queue_id: int, producer: str, *, count: int, size: int) -> str | None:
        """Let messages in, all or none; return the group whose dead letters they become instead, mostly None.

        Raises:
            Busy: a limit is reached.
        """
        full = self._full(topic, queue_id, count)
        refusal = self._rates.admit(producer, count, size, self._now_ms()) if self._rates.is_on else None
        if refusal is not None:
            self._refuse(refusal)
        if full is not None:
            self.overflowed += count
        return full

    def _full(self, topic: Topic, queue_id: int, count: int) -> str | None:
        """Return the group that has no room for more messages where they become its dead letters."""
        limit = topic_attributes.backlog(topic.attributes, self._backlog)
        behind = slowest(self._store, topic.name, queue_id) if limit else None
        if behind is None:
            return None
        reader = self._store.reader
        refusal = check_backlog(
            topic.name,
            queue_id,
            max_offset=reader.max_offset(topic.name, queue_id) + count - 1,
            lowest_commit=max(behind.offset, reader.min_offset(topic.name, queue_id)),
            limit=limit,
        )
        if refusal is not None and not topic_attributes.overflows_to_dead_letters(topic.attributes):
            self._refuse(refusal)
        return behind.group if refusal is not None else None

    def _refuse(self, refusal: Refusal) -> None:
        self.refused[refusal.setting] += 1
        raise Busy(str(refusal))

    def note(self, error: LiteMQError) -> None:
        """Count a send that something else refused: the size of a message, or the disk."""
        if isinstance(error, RecordTooLarge):
            what = error.what.removeprefix("the ").partition(" ")[0]
            self.refused[what if what in _PARTS else "other"] += 1
        elif isinstance(error, StoreFull):
            self.refused["disk"] += 1


def connection_limits(limits: LimitsConfig) -> ConnectionLimits:
    """Return what connections may take."""
    return ConnectionLimits(
        connections=limits.connections,
        connections_per_address=limits.connections_per_address,
        requests_in_flight=limits.requests_in_flight,
        output_bytes=limits.output_bytes,
        output_stall_s=limits.output_stall_ms / 1000,
        idle_s=limits.idle_ms / 1000,
    )


def report(broker: Broker) -> dict[str, int]:
    """Return how often each limit was met since the start."""
    server, puller = broker.server, broker.puller
    return {
        **{f"refused_{name}": count for name, count in sorted(broker.send_limits.refused.items())},
        "overflowed": broker.send_limits.overflowed,
        "connections_refused": server.refused,
        "idle_closed": server.idle_closed,
        "slow_readers_closed": server.slow_readers,
        "requests_refused": server.requests_refused,
        "parked_pulls_refused": puller.park_refusals,
        "pulls_capped": puller.capped,
        "flush_timeouts": broker.durability.timeouts,
    }
