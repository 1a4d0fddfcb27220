"""Rows of a batch transaction on their way: requests for the brokers of their queues, one after the other."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, cast

from litemq.client._message_cy import Message
from litemq.client._stages_cy import Sink, Target, pack
from litemq.client.queue_choice import java_remainder
from litemq.client.routes import TopicQueue
from litemq.client.sending import SendSettings, prepare
from litemq.errors import InvalidRequest
from litemq.format._text_cy import java_hash
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Response

REQUEST_BYTES: Final = 512 << 10
_AS_IT_IS: Final = SendSettings()

State = Literal["staged", "committed", "aborted"]
Row = Message | tuple[Message, TopicQueue | int]


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows of one attempt of a partition, as ``stage`` returns them; ``commit`` takes those that win.

    It is small, and can be pickled: a task returns it to its driver.

    >>> with litemq.BatchTransactions() as batches:
    ...     staged = batches.stage("nightly-7", 0, 0, 1, [litemq.Message("orders", b"17 apples")])
    >>> staged.count, staged.state
    (1, 'staged')
    """

    producer_id: str
    epoch: int
    partition: int
    attempt: int
    rows: dict[str, int] = field(default_factory=dict)
    """How many rows each broker has."""
    state: State = "staged"
    """``committed`` or ``aborted``: the epoch had ended so before, and nothing was staged."""

    @property
    def count(self) -> int:
        """How many rows were staged."""
        return sum(self.rows.values())


class Brokers(Protocol):
    """Whom rows are brought to."""

    async def ask(self, broker: str, code: Ask, ext: dict[str, str], body: bytes = b"") -> Response:
        """Ask a broker until it answers."""
        ...

    async def queues(self, topic: str) -> Sequence[TopicQueue]:
        """Return the queues that a topic's messages can go to."""
        ...


class Staging:
    """Rows of one attempt on their way."""

    def __init__(
        self, core: Brokers, producer_id: str, epoch: int, partition: int, attempt: int, coordinator: str
    ) -> None:
        self._core = core
        self._key = (producer_id, epoch, partition, attempt)
        self._coordinator = coordinator
        self.limit = REQUEST_BYTES
        self._sinks: dict[str, Sink] = {}
        self._targets: dict[str, Target] = {}
        self._places: dict[str, dict[TopicQueue, int]] = {}
        self._rows: dict[str, int] = {}

    def result(self, state: State) -> Staged:
        """Return what is told of it."""
        return Staged(*self._key, dict(self._rows) if state == "staged" else {}, state)

    async def take(self, rows: list[Row]) -> State | None:
        """Take rows in, and send what is full; return how the epoch ended, if it had."""
        messages, places = await self._placed(rows)
        at = 0
        while at < len(messages):
            at, full = pack(messages, at, places, self._targets, self.limit)
            if at == len(messages):
                break
            if full is None:
                await self._target(messages[at].topic)
            elif (ended := await self._send(full)) is not None:
                return ended
        return None

    async def flush(self) -> State | None:
        """Send the rest."""
        for sink in self._sinks.values():
            if sink.count and (ended := await self._send(sink)) is not None:
                return ended
        return None

    async def _placed(self, rows: list[Row]) -> tuple[list[Message], list[int] | None]:
        """Return the messages, and the number of each one's queue; None when none of them asks for one."""
        if all(type(row) is Message and row.queue_offset < 0 and row.sharding_key is None for row in rows):
            return cast(list[Message], rows), None
        messages: list[Message] = []
        places: list[int] = []
        for row in rows:
            message, queue = row if isinstance(row, tuple) else (row, None)
            if not isinstance(message, Message):
                raise InvalidRequest(f"a row must be a litemq.Message, or one with its queue, not {row!r}")
            message = prepare(message, _AS_IT_IS).message
            if message.topic not in self._targets:
                await self._target(message.topic)
            messages.append(message)
            places.append(self._place(message, queue))
        return messages, places

    def _place(self, message: Message, queue: TopicQueue | int | None) -> int:
        known = self._places[message.topic]
        if queue is None:
            key = message.sharding_key
            return -1 if key is None else java_remainder(java_hash(key), len(known))
        place = known.get(queue, -1) if isinstance(queue, TopicQueue) else queue
        if not 0 <= place < len(known):
            raise InvalidRequest(
                f"the topic {message.topic!r} has no queue {queue} that can be written; it has {len(known)}"
            )
        return place

    async def _target(self, topic: str) -> None:
        queues = await self._core.queues(topic)
        sinks = [self._sinks.setdefault(queue.broker, Sink(queue.broker)) for queue in queues]
        numbers = [queue.queue_id for queue in queues]
        self._targets[topic] = Target(sinks, numbers, random.randrange(len(queues)))
        self._places[topic] = {queue: number for number, queue in enumerate(queues)}

    async def _send(self, sink: Sink) -> State | None:
        producer_id, epoch, partition, attempt = self._key
        ext = {
            "producerId": producer_id,
            "epoch": str(epoch),
            "partition": str(partition),
            "attempt": str(attempt),
            "sequence": str(sink.sequence),
            "coordinator": self._coordinator,
            "topics": ",".join(sink.topics),
        }
        answer = await self._core.ask(sink.broker, Ask.LITEMQ_STAGE, ext, sink.body())
        match answer.ext.get("state"):
            case "committed":
                return "committed"
            case "aborted":
                return "aborted"
        self._rows[sink.broker] = self._rows.get(sink.broker, 0) + sink.count
        sink.sequence += 1
        sink.clear()
        return None
