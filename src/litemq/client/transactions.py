"""The blocking producer of transactions."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Self

from litemq.client._message_cy import Message
from litemq.client._sends_cy import Sent
from litemq.client.hooks import Hooks
from litemq.client.net import LoopThread
from litemq.client.producer import Producer
from litemq.client.producing import BATCH_BYTES, BUFFER_BYTES, make_breaker, message_of
from litemq.client.queue_choice import QueueChoice
from litemq.client.routes import name_servers
from litemq.client.running import run
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

__all__ = ["COMMIT", "ROLLBACK", "UNKNOWN", "Decision", "Transaction", "TransactionProducer"]


class Transaction:
    """Messages that are all delivered or none: made by ``TransactionProducer.transaction``.

    Consumers see nothing of them before the commit.  Used by one thread at a time.

    >>> with litemq.TransactionProducer("shop", check=lambda message: litemq.UNKNOWN) as producer:
    ...     with producer.transaction() as tx:
    ...         sent = [tx.send("orders", b"17 apples"), tx.send("invoices", b"3.40")]
    >>> len(sent)
    2
    """

    def __init__(self, core: OpenTransaction) -> None:
        self._core = core

    @property
    def decision(self) -> Decision | None:
        """How it ended; None as long as it runs."""
        return self._core.decision

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
        """Send one message that is delivered when the transaction commits; return its id and where it waits.

        >>> with litemq.TransactionProducer("shop", check=lambda message: litemq.UNKNOWN) as producer:
        ...     with producer.transaction() as tx:
        ...         sent = tx.send("orders", b"17 apples", keys="o-17")

        Raises:
            OutcomeUnknown: it may be stored; when the transaction is left alone, the broker asks ``check``.
            Unavailable: it is not stored; try again.
            InvalidRequest: it cannot be stored as it is, or the transaction is over.
        """
        message = message_of(topic, body, tags, keys, properties, sharding_key)
        return run(self._core.send(message, None if timeout is None else seconds(timeout)))

    def commit(self) -> None:
        """Have all messages delivered; the end of a ``with`` block does it.

        When a broker cannot be reached it is not an error: the broker asks ``check`` later.

        >>> with litemq.TransactionProducer("shop", check=lambda message: litemq.UNKNOWN) as producer:
        ...     tx = producer.transaction()
        ...     sent = tx.send("orders", b"17 apples")
        ...     tx.commit()

        Raises:
            InvalidRequest: it was rolled back before, here or because ``check`` said so.
        """
        run(self._core.end(COMMIT))

    def rollback(self) -> None:
        """Have none of the messages delivered; an exception that leaves a ``with`` block does it.

        >>> with litemq.TransactionProducer("shop", check=lambda message: litemq.UNKNOWN) as producer:
        ...     with producer.transaction() as tx:
        ...         sent = tx.send("orders", b"17 apples")
        ...         tx.rollback()
        >>> tx.decision.name
        'ROLLBACK'

        Raises:
            InvalidRequest: it was committed before.
        """
        run(self._core.end(ROLLBACK))

    def unknown(self) -> None:
        """Leave the decision to ``check``, which brokers ask later: for a database whose commit may have worked.

        >>> with litemq.TransactionProducer("shop", check=lambda message: litemq.ROLLBACK) as producer:
        ...     with producer.transaction() as tx:
        ...         sent = tx.send("orders", b"17 apples")
        ...         tx.unknown()

        Raises:
            InvalidRequest: it is over.
        """
        run(self._core.end(UNKNOWN))

    def __enter__(self) -> Self:
        self._core.check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            run(self._core.end_after(error))
        elif self._core.decision is None:
            run(self._core.end(COMMIT))


class TransactionProducer(Producer):
    """A ``Producer`` whose messages can wait for the end of a transaction, say of a database.

    When this program dies before it tells the end, brokers ask a living producer of the group: its ``check`` looks
    what became of the transaction, in that database.  So all producers of a group must be able to answer for each
    other.  ``check`` runs on threads of the producer as long as it is open.

    >>> stored = set()
    >>> def check(message):
    ...     return litemq.COMMIT if message.message_id in stored else litemq.UNKNOWN  # it may come yet
    >>> with litemq.TransactionProducer("shop", check=check) as producer:
    ...     with producer.transaction() as tx:
    ...         sent = tx.send("orders", b"17 apples", keys="o-17")
    ...         stored.add(sent.message_id)

    Args:
        group: producers that can answer for each other; brokers ask one of them.
        check: gets the message, returns ``COMMIT``, ``ROLLBACK`` when the transaction can commit no more, or
            ``UNKNOWN`` when it may still run: then it is asked again.  What it raises counts as ``UNKNOWN``.  A
            coroutine function runs as a task on the producer's own loop.
        nameservers: as those after it, see ``Producer``.

    Raises:
        InvalidRequest: an argument is wrong.
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
        servers = name_servers(nameservers)
        self._make_checks: Callable[[], TransactionChecks] = lambda: TransactionChecks(servers, group, check)
        self._make_checks()  # refuses what is wrong
        self._lock = threading.Lock()
        self._answering: tuple[int, LoopThread, TransactionChecks] | None = None
        self._answer()

    def _answer(self) -> None:
        """Have brokers answered in the background, also in a child of the process that made this."""
        if self._answering is not None and self._answering[0] == os.getpid():
            return
        with self._lock:
            if self._answering is None or self._answering[0] != os.getpid():
                thread, checks = LoopThread(f"litemq-transactions-{self._shared.settings.group}"), self._make_checks()
                self._answering = os.getpid(), thread, checks
                thread.loop.call_soon_threadsafe(checks.start)

    def transaction(self, *, check_after: float | timedelta | None = None) -> Transaction:
        """Begin a transaction: committed at the end of a ``with`` block, rolled back on an exception.

        >>> with litemq.TransactionProducer("shop", check=lambda message: litemq.UNKNOWN) as producer:
        ...     with producer.transaction() as tx:
        ...         sent = tx.send("orders", b"17 apples")

        Args:
            check_after: seconds after which brokers ask ``check`` when they have heard of no end; else as they are
                set up.
        """
        core = self._halves.begin(check_after)
        self._answer()
        return Transaction(core)

    def send_in_transaction(
        self,
        message: Message,
        execute: Callable[[Message], Decision],
        *,
        check_after: float | timedelta | None = None,
        timeout: float | timedelta | None = None,
    ) -> Sent:
        """Send a message, call ``execute`` with it (it has its ``message_id`` by then), and end it as that returns.

        What ``execute`` raises is raised here, and the broker asks ``check`` later: it may have been done.

        >>> def execute(message):
        ...     return litemq.COMMIT  # behind a database.commit()
        >>> with litemq.TransactionProducer("shop", check=lambda message: litemq.UNKNOWN) as producer:
        ...     sent = producer.send_in_transaction(litemq.Message("orders", b"17 apples"), execute)

        Args:
            check_after: as in ``transaction``.

        Raises:
            OutcomeUnknown: the message may be stored, ``execute`` was not called.
            Unavailable: it is not stored, ``execute`` was not called.
            InvalidRequest: it cannot be stored as it is, or ``execute`` returned something else.
        """
        tx = self.transaction(check_after=check_after)
        sent = tx.send(message, timeout=timeout)
        try:
            decision = as_decision(execute(with_id(message, sent.message_id)), "execute")
        except BaseException:
            tx.unknown()
            raise
        run(tx._core.end(decision))  # noqa: SLF001 - its own transaction
        return sent

    def close(self) -> None:
        """Flush, answer no more questions, and close; what is not ended, another producer of the group is asked about.

        >>> producer = litemq.TransactionProducer("shop", check=lambda message: litemq.UNKNOWN)
        >>> producer.close()
        """
        try:
            super().close()
        finally:
            with self._lock:
                answering, self._answering = self._answering, None
            if answering is not None and answering[0] == os.getpid():
                _, thread, checks = answering
                asyncio.run_coroutine_threadsafe(checks.stop(), thread.loop).result()
                thread.stop()
