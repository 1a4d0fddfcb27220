"""Writing with Spark: tasks stage their rows under one batch transaction, the driver's commit ends it.

    batch write     producer = writeId,   epoch 0, or what the option epoch says
    stream          producer = query id,  epoch = number of the micro-batch

Every attempt of a task stages under a number of its own; the commit names those that Spark chose.  What Spark calls
again after a failure finds at the brokers what became of the epoch: a batch that was committed is not staged again, a
commit that was done is not done twice, and an abort behind a commit changes nothing.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from litemq.client.batch_transactions import BatchTransactions
from litemq.client.staging import Staged
from litemq.errors import InvalidRequest, LiteMQError, StaleEpoch, TransactionOver
from litemq.spark.outgoing import rows_of, with_ids
from litemq.spark.write_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from litemq.client._message_cy import Message
    from litemq.client.producer import Producer

logger = logging.getLogger(__name__)

ROW_ID: Final = "SPARK_ROW_ID"
"""Property of rows that are delivered at least once: the same when a task sends its rows again."""

_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"
_SENT_AT_ONCE: Final = 500
_BYTES_AT_ONCE: Final = 4 << 20


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task tells its driver."""

    staged: Staged | None
    """None: the rows were sent directly."""


class LiteMQWriter(DataSourceArrowWriter):
    """Writes a DataFrame once."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Stage the rows of one attempt of a task."""
        return _write(self._options, self._options.write_id, self._options.epoch, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Have the rows of the chosen attempts delivered."""
        _commit(self._options, self._options.write_id, self._options.epoch, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Drop what was staged; nothing when it was committed."""
        _abort(self._options, self._options.write_id, self._options.epoch)


class LiteMQStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Stage the rows of one attempt of a task."""
        from pyspark import TaskContext

        context = TaskContext.get()
        batch_id = None if context is None else context.getLocalProperty(_BATCH_ID)
        query_id = None if context is None else context.getLocalProperty(_QUERY_ID)
        if batch_id is None or not (self._options.producer_id or query_id):
            raise InvalidRequest("a stream's batch has no number or query id: this Spark does not tell tasks of it")
        return _write(self._options, self._options.producer_id or str(query_id), int(batch_id), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Have the rows of a micro-batch delivered; it may be called again."""
        producer_id = self._producer_of(messages)
        if producer_id:
            _commit(self._options, producer_id, batchId, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Drop what was staged of a micro-batch; nothing when it was committed: it comes again under its number."""
        producer_id = self._producer_of(messages)
        if producer_id:
            _abort(self._options, producer_id, batchId)

    def _producer_of(self, messages: Sequence[WriterCommitMessage | None]) -> str:
        """Return under which name tasks staged: the object that commits is not the one that wrote."""
        found = {one.staged.producer_id for one in messages if isinstance(one, Written) and one.staged is not None}
        return self._options.producer_id or next(iter(found), "")


def _write(options: WriteOptions, producer_id: str, epoch: int, batches: Iterator[pa.RecordBatch]) -> Written:
    from pyspark import TaskContext

    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    if not options.is_exactly_once:
        _send(options, f"{producer_id}/{epoch}/{partition}", batches)
        return Written(None)
    with BatchTransactions(options.brokers, timeout=options.timeout_s) as transactions:
        attempt = random.getrandbits(62)  # another one after a restart, too
        try:
            staged = transactions.stage(producer_id, epoch, partition, attempt, rows_of(batches, options))
        except StaleEpoch as error:
            raise _fallen_behind(producer_id, epoch, error) from error
        if staged.state != "staged":
            for _ in batches:  # it ended before, and nothing is sent; Spark wants its rows taken all the same
                pass
        return Written(staged)


def _commit(
    options: WriteOptions, producer_id: str, epoch: int, messages: Sequence[WriterCommitMessage | None]
) -> None:
    if not options.is_exactly_once:
        return
    staged = [one.staged for one in messages if isinstance(one, Written) and one.staged is not None]
    with BatchTransactions(options.brokers, timeout=options.timeout_s) as transactions:
        try:
            transactions.commit(producer_id, epoch, staged)
        except StaleEpoch as error:
            raise _fallen_behind(producer_id, epoch, error) from error
        except TransactionOver as error:
            raise TransactionOver(
                f"{error}; rows of epoch {epoch} of {producer_id!r} were not written. A batch write goes on under "
                "another writeId; a stream that was away for longer than transaction.batch_expiry_ms under another "
                "producerId"
            ) from error


def _abort(options: WriteOptions, producer_id: str, epoch: int) -> None:
    """Drop rows; the epoch stays open, for Spark repeats a batch under its number."""
    if not options.is_exactly_once:
        return
    try:
        with BatchTransactions(options.brokers, timeout=min(options.timeout_s, 10.0)) as transactions:
            transactions.discard(producer_id, epoch)
    except LiteMQError as error:  # staged rows expire by themselves; this must not hide why Spark gave up
        logger.warning("staged rows of epoch %d of %r were not dropped: %s", epoch, producer_id, error)


def _fallen_behind(producer_id: str, epoch: int, error: StaleEpoch) -> StaleEpoch:
    return StaleEpoch(
        f"{error}. Two streams write as {producer_id!r}, or this one lost its checkpoint and began again at {epoch}: "
        "give it a producerId of its own, or go on with its checkpoint"
    )


def _send(options: WriteOptions, prefix: str, batches: Iterator[pa.RecordBatch]) -> None:
    """Send rows as they come; a task that runs again sends them again, with the same ids."""
    from litemq.client.producer import Producer

    rows = with_ids(rows_of(batches, options), ROW_ID, lambda number: f"{prefix}/{number}")
    with Producer(options.brokers, timeout=options.timeout_s) as producer:
        waiting: dict[str, list[Message]] = {}
        size = 0
        for row in rows:
            if isinstance(row, tuple):
                raise InvalidRequest("delivery=at-least-once takes no queue_id; drop the column, or use exactly-once")
            if row.sharding_key is not None:
                producer.send(row)
                continue
            some = waiting.setdefault(row.topic, [])
            some.append(row)
            size += len(row.body)
            if len(some) == _SENT_AT_ONCE or size >= _BYTES_AT_ONCE:
                _send_all(producer, waiting)
                size = 0
        _send_all(producer, waiting)


def _send_all(producer: Producer, waiting: dict[str, list[Message]]) -> None:
    for some in waiting.values():
        if some:
            producer.send_batch(some)
            some.clear()
