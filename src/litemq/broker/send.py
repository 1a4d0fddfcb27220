"""Sending: the use case of every send that the compiled path leaves alone.

Both ways give the same log and the same answers; this one also makes topics, applies limits and refuses.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from litemq.broker import system_topics
from litemq.broker._sent_cy import SentCounts
from litemq.broker.half_records import is_half
from litemq.broker.limits import SendLimits
from litemq.broker.messages import MessageMaker, Sending, batch_entries
from litemq.broker.retries import Retries, group_of
from litemq.broker.topics import Topic, Topics
from litemq.broker.transactions import Transactions
from litemq.errors import BadBody, BadField, LiteMQError, NoPermission, NotSupported, RecordTooLarge
from litemq.format.names import RESERVED_TOPIC_PREFIX
from litemq.store.message_store import MessageStore
from litemq.types import Appended, Message

_MAX_PROPERTIES = 32_767
_MAX_HALF_PROPERTIES = _MAX_PROPERTIES - 1024
"""What is stored in place of a transactional message says more."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a producer says beside the message: who it is, and how a topic is made that is not there."""

    group: str
    template: str = system_topics.TEMPLATE
    template_queues: int = 4
    client_id: str = ""
    max_reconsume_times: int | None = None


class Sender:
    """Stores messages of producers."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        maker: MessageMaker,
        retries: Retries,
        transactions: Transactions,
        limits: SendLimits,
        sent: SentCounts,
        *,
        max_batch_bytes: int,
    ) -> None:
        self._store = store
        self._topics = topics
        self._maker = maker
        self._retries = retries
        self._transactions = transactions
        self._limits = limits
        self._sent = sent
        self._max_batch_bytes = max_batch_bytes
        self._random = random.Random()

    def send(self, sending: Sending, wish: Wish) -> tuple[Message, Appended]:
        """Store one message; visible by the store's rule, durable when the log is flushed to ``end``.

        Raises:
            Busy: a limit is reached; the text says which, and when to try again.
        """
        try:
            return self._send(sending, wish)
        except LiteMQError as error:
            self._limits.note(error)
            raise

    def send_batch(self, sending: Sending, wish: Wish) -> tuple[list[Message], list[Appended]]:
        """Store the messages of a batch behind each other in one queue."""
        try:
            return self._send_batch(sending, wish)
        except LiteMQError as error:
            self._limits.note(error)
            raise

    def _send(self, sending: Sending, wish: Wish) -> tuple[Message, Appended]:
        self._limits.check_waiting()
        size = len(sending.body) + _check_properties(sending)
        topic = self.topic_for(sending.topic, wish)
        placed = replace(sending, queue_id=self._queue_of(topic, sending.queue_id))
        if sending.topic.startswith(system_topics.RETRY_PREFIX):
            return self._retries.resend(placed, group_of(sending.topic), wish.max_reconsume_times)
        message = self._maker.make(placed)
        full = self._limits.admit(topic, placed.queue_id, wish.client_id, count=1, size=size)
        if is_half(sending.properties, sending.sys_flag):  # a full queue gets it all the same, when it is committed
            if size > _MAX_HALF_PROPERTIES + len(sending.body):
                limit = _MAX_HALF_PROPERTIES
                raise RecordTooLarge(what="the properties", size=size - len(sending.body), limit=limit)
            return message, self._transactions.begin(message, wish.group)
        if full is not None:
            message = self._retries.overflowed(message, full)
        appended = self._store.append(message)
        self._sent.note(message.topic, wish.group, 1, appended.store_time)
        return message, appended

    def _send_batch(self, sending: Sending, wish: Wish) -> tuple[list[Message], list[Appended]]:
        self._limits.check_waiting()
        if sending.topic.startswith(system_topics.RETRY_PREFIX):
            raise NotSupported("a batch cannot be sent to a retry topic")
        if len(sending.body) > self._max_batch_bytes:
            raise RecordTooLarge(what="the batch", size=len(sending.body), limit=self._max_batch_bytes)
        topic = self.topic_for(sending.topic, wish)
        queue_id = self._queue_of(topic, sending.queue_id)
        messages = []
        for body, flag, found in batch_entries(sending.body):
            if is_half(found, sending.sys_flag):
                raise NotSupported("a batch holds no transactional messages (property TRAN_MSG): send them one by one")
            placed = replace(sending, queue_id=queue_id, body=body, flag=flag, properties=found)
            messages.append(self._maker.make(placed))
        if not messages:
            raise BadBody("the batch holds no message")
        size = len(sending.body)
        full = self._limits.admit(topic, queue_id, wish.client_id, count=len(messages), size=size)
        if full is not None:
            messages = [self._retries.overflowed(message, full) for message in messages]
        appended = self._store.append_many(messages)
        for message, one in zip(messages, appended, strict=True):
            self._sent.note(message.topic, wish.group, 1, one.store_time)
        return messages, appended

    def topic_for(self, name: str, wish: Wish) -> Topic:
        """Return the topic that messages are for, made when that is allowed.

        Raises:
            NoPermission: producers may not send to it.
        """
        if name.startswith(RESERVED_TOPIC_PREFIX) or name in system_topics.CLOSED_TO_PRODUCERS:
            raise NoPermission(f"producers may not send to topic {name!r}")
        topic = self._topics.for_send(name, wish.template, wish.template_queues)
        if not topic.is_writable:
            raise NoPermission(f"topic {name!r} takes no messages: its permission is {topic.perm}")
        return topic

    def _queue_of(self, topic: Topic, queue_id: int) -> int:
        if queue_id < 0:
            return self._random.randrange(max(topic.write_queues, 1))
        if queue_id >= topic.queue_count:
            raise BadField(f"queue {queue_id} of topic {topic.name!r} does not exist: it has {topic.queue_count}")
        return queue_id


def _check_properties(sending: Sending) -> int:
    """Return the bytes of the properties."""
    size = sum(len(name.encode()) + len(value.encode()) + 2 for name, value in sending.properties.items())
    if size > _MAX_PROPERTIES:
        raise RecordTooLarge(what="the properties", size=size, limit=_MAX_PROPERTIES)
    return size
