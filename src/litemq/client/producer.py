"""The blocking producer."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Self

from litemq.client._message_cy import Message
from litemq.client._sends_cy import Sent
from litemq.client.hooks import Hooks
from litemq.client.lanes import Buffer, ThreadLane
from litemq.client.net import BlockingNet, LoopNet, LoopThread
from litemq.client.producing import (
    BATCH_BYTES,
    BUFFER_BYTES,
    GROUP,
    Producing,
    check_batching,
    close,
    make_breaker,
    message_of,
    send_batch,
)
from litemq.client.queue_choice import QueueChoice
from litemq.client.requests import Requester, make_net
from litemq.client.running import run
from litemq.client.sending import Compression, SendSettings
from litemq.client.sent_future import SentFuture
from litemq.client.values import seconds
from litemq.errors import BufferFull
from litemq.features.breaker import Breaker

_producers: weakref.WeakSet[Producer] = weakref.WeakSet()


def _begin_in_child() -> None:
    """Leave to the parent what it accepted: its threads, which send that and answer requests, are not here."""
    for producer in list(_producers):
        producer._begin()  # noqa: SLF001 - a part of the class that no application calls


os.register_at_fork(after_in_child=_begin_in_child)


class Producer:
    """Sends messages; safe to use from several threads, and in a child after a fork.

    What was accepted before a fork is sent by the parent; its futures tell nothing in the child.

    >>> with litemq.Producer() as producer:
    ...     sent = producer.send("orders", b"17 apples", tags="paid", keys="o-17")
    >>> sent.topic
    'orders'

    Args:
        nameservers: ``host:port``, several as a list or with semicolons; default ``LITEMQ_NAMESERVER``, else
            ``127.0.0.1:9876``.
        group: name by which operators see this producer.
        timeout: seconds in which a message must be answered, tries on other brokers included.
        retries: how often a message is sent again that was refused for now or not answered.
        linger: seconds that ``send_async`` waits for more messages; they are batched without it, too, while a
            request is under way.
        batch_bytes: bytes of the largest request that ``send_async`` makes.
        buffer_bytes: bytes that may wait in ``send_async``.
        compression: ``lz4``, ``zstd`` or ``zlib`` for bodies over ``compress_over`` bytes; batches travel as they are.
        queue_choice: ``round-robin``, ``random``, ``hash`` (of the first key), ``latency`` (the broker that answers
            fastest) or a function of message and queues.  A sharding key chooses by itself.
        breaker: makes the breaker of a broker.
        hooks: looks on while messages are sent, for traces.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str] | None = None,
        *,
        group: str = GROUP,
        timeout: float | timedelta = 3.0,
        retries: int = 2,
        linger: float | timedelta = 0.0,
        batch_bytes: int = BATCH_BYTES,
        buffer_bytes: int = BUFFER_BYTES,
        compression: Compression | None = None,
        compress_over: int = 4096,
        queue_choice: QueueChoice = "round-robin",
        breaker: Callable[[], Breaker] = make_breaker,
        hooks: Hooks | None = None,
    ) -> None:
        settings = SendSettings(group, seconds(timeout), retries, compression, compress_over)
        self._shared = Producing(BlockingNet(), nameservers, settings, queue_choice, breaker, hooks)
        self._linger = seconds(linger)
        check_batching(self._linger, batch_bytes, buffer_bytes)
        self._batch_bytes = batch_bytes
        self._buffer_bytes = buffer_bytes
        self._begin()
        _producers.add(self)

    def _begin(self) -> None:
        """Have nothing that waits, no threads, and locks that nobody holds; so a child of this process begins, too."""
        self._buffer = Buffer(self._buffer_bytes)
        self._lanes: dict[str, ThreadLane] = {}
        self._requests: tuple[LoopThread, LoopNet, Requester] | None = None
        self._requests_lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(
        self,
        topic: Message | str,
        body: bytes | bytearray | memoryview | None = None,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        sharding_key: str | None = None,
        timeout: float | timedelta | None = None,
    ) -> Sent:
        """Send one message and return where it is stored.

        >>> with litemq.Producer() as producer:
        ...     sent = producer.send(litemq.Message("orders", b"17 apples"))
        >>> sent.queue_offset >= 0
        True

        Raises:
            OutcomeUnknown: it may be stored.
            Unavailable: it is not; try again.
            InvalidRequest: it cannot be stored as it is.
        """
        message = message_of(topic, body, tags, keys, properties, sharding_key)
        outgoing = self._shared.outgoing(message)
        return run(self._shared.core.deliver([outgoing], self._shared.deadline(timeout)))[0]

    def send_async(
        self,
        topic: Message | str,
        body: bytes | bytearray | memoryview | None = None,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        sharding_key: str | None = None,
        timeout: float | timedelta | None = None,
    ) -> concurrent.futures.Future[Sent]:
        """Accept one message, send it with others, and return the future of where it is stored.

        >>> with litemq.Producer() as producer:
        ...     futures = [producer.send_async("orders", b"%d apples" % n) for n in range(100)]
        ...     offsets = [future.result().queue_offset for future in futures]
        >>> len(offsets)
        100

        Raises:
            BufferFull: ``buffer_bytes`` wait already, and did until the timeout.
        """
        message = message_of(topic, body, tags, keys, properties, sharding_key)
        outgoing = self._shared.outgoing(message)
        deadline = self._shared.deadline(timeout)
        size = outgoing.size
        era = self._buffer.take(size)
        if era is None:
            self._hurry()
            era = self._buffer.take_within(size, deadline - time.monotonic())
        if era is None:
            raise BufferFull(
                f"{self._buffer.size} bytes of {self._buffer.count} messages wait to be sent (buffer_bytes "
                f"{self._buffer.limit}); wait for their futures, or send less"
            )
        outgoing.future = future = SentFuture()
        outgoing.deadline = deadline
        outgoing.era = era
        lane = self._lanes.get(message.topic)
        if lane is None:
            lane = ThreadLane(self._shared.core, message.topic, self._linger, self._batch_bytes, self._buffer.free)
            lane = self._lanes.setdefault(message.topic, lane)
        lane.put(outgoing)
        return future

    def send_batch(self, messages: Iterable[Message], *, timeout: float | timedelta | None = None) -> list[Sent]:
        """Send messages of one topic to one queue; return where they are, in order.

        They travel as one request, as several if they do not fit into one.

        >>> with litemq.Producer() as producer:
        ...     sent = producer.send_batch([litemq.Message("orders", b"%d" % n) for n in range(3)])
        >>> [one.queue_offset - sent[0].queue_offset for one in sent]
        [0, 1, 2]
        """
        return run(send_batch(self._shared, messages, self._shared.deadline(timeout)))

    def send_oneway(
        self,
        topic: Message | str,
        body: bytes | bytearray | memoryview | None = None,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        sharding_key: str | None = None,
    ) -> None:
        """Send one message and do not ask what becomes of it: the fastest way, and the only one that may lose it.

        >>> with litemq.Producer() as producer:
        ...     producer.send_oneway("measurements", b"21.5")
        """
        outgoing = self._shared.outgoing(message_of(topic, body, tags, keys, properties, sharding_key))
        run(self._shared.core.deliver_oneway(outgoing, self._shared.deadline(None)))

    def request(self, message: Message, *, timeout: float | timedelta = 3.0) -> Message:
        """Send a message and return the one that a consumer replies with (``consumer.reply``).

        >>> def serve(message):
        ...     consumer.reply(message, message.body.upper())
        >>> with litemq.PushConsumer("shouters", {"questions": "*"}, serve) as consumer:
        ...     with litemq.Producer() as producer:
        ...         answer = producer.request(litemq.Message("questions", b"who?"), timeout=20)
        >>> answer.body
        b'WHO?'

        Raises:
            NoAnswer: nobody replied in time.
        """
        self._shared.outgoing(message)
        with self._requests_lock:
            if self._requests is None:
                thread = LoopThread("litemq-requests")
                net, holder = make_net()
                requester = Requester(self._shared.make_core(net), self._shared.settings.group)
                holder.append(requester)
                self._requests = thread, net, requester
            thread, _, requester = self._requests
        asked = asyncio.run_coroutine_threadsafe(requester.request(message, seconds(timeout)), thread.loop)
        try:
            return asked.result()
        except BaseException:
            asked.cancel()
            raise

    def flush(self, timeout: float | timedelta | None = None) -> None:
        """Wait until everything that was accepted is answered.

        >>> with litemq.Producer() as producer:
        ...     future = producer.send_async("orders", b"17 apples")
        ...     producer.flush()
        ...     future.done()
        True

        Raises:
            LiteMQError: the first failure among what was accepted since the last flush.
            BufferFull: not everything is answered in time; it is still tried.
        """
        era = self._buffer.end_era()
        self._hurry()
        limit = self._shared.settings.timeout * 2 if timeout is None else seconds(timeout)
        if not self._buffer.wait_for_end(era, limit):
            raise BufferFull(
                f"{self._buffer.left(era)} messages are not answered after {limit:g} s; flush again to wait on"
            )
        error = self._buffer.take_error()
        if error is not None:
            raise error

    def _hurry(self) -> None:
        for lane in list(self._lanes.values()):
            lane.hurry()

    def close(self) -> None:
        """Flush, then close the connections; a closed producer stays closed.

        >>> producer = litemq.Producer()
        >>> producer.close()
        """
        if self._shared.is_closed:
            return
        self._shared.is_closed = True
        try:
            self.flush()
        finally:
            run(self._shared.net.close())
            if self._requests is not None:
                thread, net, requester = self._requests
                asyncio.run_coroutine_threadsafe(close(requester, net), thread.loop).result()
                thread.stop()
