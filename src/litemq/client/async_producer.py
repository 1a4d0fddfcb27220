"""The awaited producer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Self

from litemq.client._message_cy import Message
from litemq.client._sends_cy import Sent
from litemq.client.hooks import Hooks
from litemq.client.lanes import Buffer, TaskLane, poll_until
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
from litemq.client.sending import Compression, SendSettings
from litemq.client.values import seconds
from litemq.errors import BufferFull
from litemq.features.breaker import Breaker


class AsyncProducer:
    """``litemq.Producer`` for asyncio: what waits is awaited, ``send_async`` returns an ``asyncio.Future``."""

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
        net, holder = make_net()
        self._shared = Producing(net, nameservers, settings, queue_choice, breaker, hooks)
        self._requester = Requester(self._shared.core, group)
        holder.append(self._requester)
        self._linger = seconds(linger)
        check_batching(self._linger, batch_bytes, buffer_bytes)
        self._batch_bytes = batch_bytes
        self._buffer = Buffer(buffer_bytes)
        self._lanes: dict[str, TaskLane] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def send(
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
        """Send one message and return where it is stored; see ``litemq.Producer.send``."""
        outgoing = self._shared.outgoing(message_of(topic, body, tags, keys, properties, sharding_key))
        return (await self._shared.core.deliver([outgoing], self._shared.deadline(timeout)))[0]

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
    ) -> asyncio.Future[Sent]:
        """Accept one message and return the future of where it is stored; see ``litemq.Producer.send_async``.

        Raises:
            BufferFull: ``buffer_bytes`` wait already; await some of the futures first.
        """
        message = message_of(topic, body, tags, keys, properties, sharding_key)
        outgoing = self._shared.outgoing(message)
        size = outgoing.size
        era = self._buffer.take(size)
        if era is None:
            self._hurry()
            raise BufferFull(
                f"{self._buffer.size} bytes of {self._buffer.count} messages wait to be sent (buffer_bytes "
                f"{self._buffer.limit}); await their futures, or send less"
            )
        outgoing.future = future = asyncio.get_running_loop().create_future()
        outgoing.deadline = self._shared.deadline(timeout)
        outgoing.era = era
        lane = self._lanes.get(message.topic)
        if lane is None:
            lane = TaskLane(self._shared.core, self._linger, self._batch_bytes, self._buffer.free)
            self._lanes[message.topic] = lane
        lane.put(outgoing)
        return future

    async def send_batch(self, messages: Iterable[Message], *, timeout: float | timedelta | None = None) -> list[Sent]:
        """Send messages of one topic to one queue; see ``litemq.Producer.send_batch``."""
        return await send_batch(self._shared, messages, self._shared.deadline(timeout))

    async def send_oneway(
        self,
        topic: Message | str,
        body: bytes | bytearray | memoryview | None = None,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        sharding_key: str | None = None,
    ) -> None:
        """Send one message and do not ask what becomes of it; see ``litemq.Producer.send_oneway``."""
        outgoing = self._shared.outgoing(message_of(topic, body, tags, keys, properties, sharding_key))
        await self._shared.core.deliver_oneway(outgoing, self._shared.deadline(None))

    async def request(self, message: Message, *, timeout: float | timedelta = 3.0) -> Message:
        """Send a message and return the one that a consumer replies with; see ``litemq.Producer.request``."""
        self._shared.outgoing(message)
        return await self._requester.request(message, seconds(timeout))

    async def flush(self, timeout: float | timedelta | None = None) -> None:
        """Wait until everything that was accepted is answered; see ``litemq.Producer.flush``."""
        era = self._buffer.end_era()
        self._hurry()
        limit = self._shared.settings.timeout * 2 if timeout is None else seconds(timeout)
        if not await poll_until(lambda: not self._buffer.left(era), time.monotonic() + limit, asyncio.sleep):
            raise BufferFull(
                f"{self._buffer.left(era)} messages are not answered after {limit:g} s; flush again to wait on"
            )
        error = self._buffer.take_error()
        if error is not None:
            raise error

    def _hurry(self) -> None:
        for lane in self._lanes.values():
            lane.hurry()

    async def close(self) -> None:
        """Flush, then close the connections."""
        if self._shared.is_closed:
            return
        self._shared.is_closed = True
        try:
            await self.flush()
        finally:
            await close(self._requester, self._shared.net)
