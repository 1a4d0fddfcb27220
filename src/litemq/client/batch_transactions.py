"""Batch transactions, in both faces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from litemq.client.batch_core import TIMEOUT_S, BatchCore, BatchStatus
from litemq.client.net import BlockingNet, LoopNet
from litemq.client.running import run
from litemq.client.staging import Row, Staged

__all__ = ["AsyncBatchTransactions", "BatchStatus", "BatchTransactions", "Staged"]


class BatchTransactions:
    """Many messages, to any topics and brokers, delivered all or none: staged by many writers, committed by one.

    A transaction is an epoch of a producer id; epochs of a producer go up.  Writers stage the rows of their partition,
    each attempt under a number of its own; who commits names the attempts that win, and everything else is dropped.
    So a task that is repeated, or runs twice at once, doubles nothing.  Everything may be said again, by another
    process, too: brokers remember the last ended epoch of a producer.

    >>> with litemq.BatchTransactions() as batches:
    ...     first = batches.stage("orders-stream", 1, 0, 11, [litemq.Message("orders", b"17 apples")])
    ...     again = batches.stage("orders-stream", 1, 0, 12, [litemq.Message("orders", b"17 apples")])
    ...     batches.commit("orders-stream", 1, [again])
    1

    One object may be used by several threads.  It may be made anew in each process; nothing is kept in it.

    Args:
        nameservers: ``host:port``, several of them separated by ``;``; else ``LITEMQ_NAMESERVER``, else this machine's.
        timeout: seconds for which a broker that does not answer is asked again.
    """

    def __init__(self, nameservers: str | Sequence[str] | None = None, *, timeout: float = TIMEOUT_S) -> None:
        self._core = BatchCore(BlockingNet(), nameservers, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; what is staged stays.

        >>> litemq.BatchTransactions().close()
        """
        run(self._core.close())

    def stage(self, producer_id: str, epoch: int, partition: int, attempt: int, messages: Iterable[Row]) -> Staged:
        """Stage the rows of one attempt of a partition, all at once; return what ``commit`` has to know of them.

        When the epoch has ended, nothing is staged, no row is asked for, and ``state`` of the result says how it ended.

        >>> rows = [litemq.Message("orders", b"17 apples"), (litemq.Message("orders", b"3 pears"), 0)]
        >>> with litemq.BatchTransactions() as batches:
        ...     staged = batches.stage("orders-stream", 2, 0, 21, rows)
        >>> staged.count
        2

        Args:
            producer_id: who writes; the same after a restart.
            epoch: which of its transactions, from 0.
            partition: which part of it.
            attempt: which attempt at that part, another number for each, also after a restart: draw it at random.
            messages: the rows.  A message goes to the queue of its sharding key, else to the topic's queues in turn;
                one in a pair with a ``TopicQueue``, or with the number of a queue among all that the topic has, goes
                there.  Messages of a partition that go to one queue keep their order.

        Raises:
            StaleEpoch: a later epoch of the producer has ended.
            TransactionOver: the attempt has other rows already.
            RowsMissing: a broker has lost rows of the attempt: stage it again under another number.
            Unavailable: a broker is away, or a limit is reached; the attempt can be staged again.
            InvalidRequest: a row cannot be stored as it is.
        """
        return run(self._core.stage(producer_id, epoch, partition, attempt, messages))

    def commit(self, producer_id: str, epoch: int, winners: Iterable[Staged]) -> int:
        """Have the winners' rows delivered and all others dropped; return how many rows win.

        It returns when that is certain; then brokers publish the rows.  Committed once, it stays so: another call gets
        the first result.

        >>> with litemq.BatchTransactions() as batches:
        ...     staged = batches.stage("orders-stream", 3, 0, 31, [litemq.Message("orders", b"17 apples")])
        ...     batches.commit("orders-stream", 3, [staged]), batches.commit("orders-stream", 3, [staged])
        (1, 1)

        Args:
            winners: one ``Staged`` of each partition; none at all commits an empty transaction.

        Raises:
            RowsMissing: rows are not staged as the winners say; nothing was committed.
            TransactionOver: it was aborted; the text says why.
            StaleEpoch: a later epoch of the producer has ended.
            OutcomeUnknown: it may be committed: commit again.
            Unavailable: it is not committed, as far as is known: commit again.
        """
        return run(self._core.commit(producer_id, epoch, winners))

    def abort(self, producer_id: str, epoch: int, *, reason: str = "") -> None:
        """End a transaction without its rows; the epoch cannot be used again.

        >>> with litemq.BatchTransactions() as batches:
        ...     staged = batches.stage("orders-stream", 4, 0, 41, [litemq.Message("orders", b"17 apples")])
        ...     batches.abort("orders-stream", 4, reason="the source was wrong")
        ...     batches.status("orders-stream", 4).reason
        'the source was wrong'

        Raises:
            TransactionOver: it was committed, and stays so.
            StaleEpoch: a later epoch of the producer has ended.
        """
        run(self._core.abort(producer_id, epoch, reason))

    def discard(self, producer_id: str, epoch: int, staged: Staged | None = None) -> None:
        """Drop the rows of one attempt, or all rows of the transaction, which stays open; nothing when it has ended.

        For a run that failed and will be repeated with the same epoch, as Spark does.

        >>> with litemq.BatchTransactions() as batches:
        ...     staged = batches.stage("orders-stream", 5, 0, 51, [litemq.Message("orders", b"17 apples")])
        ...     batches.discard("orders-stream", 5, staged)
        ...     batches.status("orders-stream", 5).state
        'unknown'

        Raises:
            StaleEpoch: a later epoch of the producer has ended.
        """
        run(self._core.discard(producer_id, epoch, staged))

    def status(self, producer_id: str, epoch: int) -> BatchStatus:
        """Ask the coordinator what became of a transaction.

        >>> with litemq.BatchTransactions() as batches:
        ...     count = batches.commit("orders-stream", 6, [])
        ...     status = batches.status("orders-stream", 6)
        >>> status.state, status.last_epoch
        ('committed', 6)
        """
        return run(self._core.status(producer_id, epoch))


class AsyncBatchTransactions:
    """``litemq.BatchTransactions`` for asyncio: the same methods, awaited."""

    def __init__(self, nameservers: str | Sequence[str] | None = None, *, timeout: float = TIMEOUT_S) -> None:
        self._core = BatchCore(LoopNet(), nameservers, timeout=timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; see ``litemq.BatchTransactions.close``."""
        await self._core.close()

    async def stage(
        self, producer_id: str, epoch: int, partition: int, attempt: int, messages: Iterable[Row]
    ) -> Staged:
        """Stage the rows of one attempt of a partition; see ``litemq.BatchTransactions.stage``."""
        return await self._core.stage(producer_id, epoch, partition, attempt, messages)

    async def commit(self, producer_id: str, epoch: int, winners: Iterable[Staged]) -> int:
        """Have the winners' rows delivered; see ``litemq.BatchTransactions.commit``."""
        return await self._core.commit(producer_id, epoch, winners)

    async def abort(self, producer_id: str, epoch: int, *, reason: str = "") -> None:
        """End a transaction without its rows; see ``litemq.BatchTransactions.abort``."""
        await self._core.abort(producer_id, epoch, reason)

    async def discard(self, producer_id: str, epoch: int, staged: Staged | None = None) -> None:
        """Drop rows; the transaction stays open; see ``litemq.BatchTransactions.discard``."""
        await self._core.discard(producer_id, epoch, staged)

    async def status(self, producer_id: str, epoch: int) -> BatchStatus:
        """Ask the coordinator; see ``litemq.BatchTransactions.status``."""
        return await self._core.status(producer_id, epoch)
