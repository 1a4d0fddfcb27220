"""The awaited producer of transactions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from inspect import isawaitable
from types import TracebackType
from typing import Any, Self

from litemq.client._message_cy import Message
from litemq.client._sends_cy import Sent
from litemq.client.async_producer import AsyncProducer
from litemq.client.hooks import Hooks
from litemq.client.producing import BATCH_BYTES, BUFFER_BYTES, make_breaker, message_of
from litemq.client.queue_choice import QueueChoice
from litemq.client.routes import name_servers
from litemq.client.sending import Compression
from litemq.client.transaction_checks import Check, TransactionChecks
from litemq.client.transaction_ends import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    Decision,
    Halves,
    OpenTransaction,
    as_decision,
    with_id,
)
from litemq.client.values import seconds
from litemq.features.breaker import Breaker

logger = logging.getLogger(__name__)


class AsyncTransaction:
    """``litemq.Transaction`` for asyncio: what waits is awaited, and it is used in ``async with``."""

    def __init__(self, core: OpenTransaction) -> None:
        self._core = core

    @property
    def decision(self) -> Decision | None:
        """How it ended; None as long as it runs."""
        return self._core.decision

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
        """Send one message that is delivered when the transaction commits; see ``litemq.Transaction.send``."""
        message = message_of(topic, body, tags, keys, properties, sharding_key)
        return await self._core.send(message, None if timeout is None else seconds(timeout))

    async def commit(self) -> None:
        """Have all messages delivered; see ``litemq.Transaction.commit``."""
        await _to_the_end(self._core.end(COMMIT))

    async def rollback(self) -> None:
        """Have none of the messages delivered; see ``litemq.Transaction.rollback``."""
        await _to_the_end(self._core.end(ROLLBACK))

    async def unknown(self) -> None:
        """Leave the decision to ``check``; see ``litemq.Transaction.unknown``."""
        await _to_the_end(self._core.end(UNKNOWN))

    async def __aenter__(self) -> Self:
        self._core.check_open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            await _to_the_end(self._core.end_after(error))
        elif self._core.decision is None:
            await self.commit()


async def _to_the_end(ending: Any) -> None:  # noqa: ANN401 - a coroutine
    """Run a coroutine to its end, also when the caller is cancelled meanwhile: half an end helps nobody."""
    task = asyncio.ensure_future(ending)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is not None:
            logger.warning("end of a transaction failed: %s", task.exception())
        raise


class AsyncTransactionProducer(AsyncProducer):
    """``litemq.TransactionProducer`` for asyncio: what waits is awaited, ``transaction()`` is for ``async with``.

    Brokers are answered from the first ``async with`` or the first transaction on.  ``check`` and ``execute`` may be
    coroutine functions.
    """

    def __init__(
        self,
        group: str,
        *,
        check: Check,
        nameservers: str | Sequence[str] | None = None,
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
        super().__init__(
            nameservers,
            group=group,
            timeout=timeout,
            retries=retries,
            linger=linger,
            batch_bytes=batch_bytes,
            buffer_bytes=buffer_bytes,
            compression=compression,
            compress_over=compress_over,
            queue_choice=queue_choice,
            breaker=breaker,
            hooks=hooks,
        )
        self._halves = Halves(self._shared)
        self._checks = TransactionChecks(name_servers(nameservers), group, check)

    async def __aenter__(self) -> Self:
        self._checks.start()
        return self

    def transaction(self, *, check_after: float | timedelta | None = None) -> AsyncTransaction:
        """Begin a transaction; see ``litemq.TransactionProducer.transaction``."""
        core = self._halves.begin(check_after)
        self._checks.start()
        return AsyncTransaction(core)

    async def send_in_transaction(
        self,
        message: Message,
        execute: Callable[[Message], Decision] | Callable[[Message], Awaitable[Decision]],
        *,
        check_after: float | timedelta | None = None,
        timeout: float | timedelta | None = None,
    ) -> Sent:
        """Send a message, call ``execute``, end it so; see ``litemq.TransactionProducer.send_in_transaction``."""
        tx = self.transaction(check_after=check_after)
        sent = await tx.send(message, timeout=timeout)
        try:
            said: object = execute(with_id(message, sent.message_id))
            decision = as_decision(await said if isawaitable(said) else said, "execute")
        except BaseException:
            await tx.unknown()
            raise
        await _to_the_end(tx._core.end(decision))  # noqa: SLF001 - its own transaction
        return sent

    async def close(self) -> None:
        """Flush, answer no more questions, and close; see ``litemq.TransactionProducer.close``."""
        try:
            await super().close()
        finally:
            await self._checks.stop()
