"""Batches read from brokers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from litemq.format.record import FORMATS
from litemq.spark.backend import Damaged, Rows
from litemq.spark.codec import Decoder, Filter
from litemq.spark.errors import BadOption, CorruptInput
from litemq.spark.live import FIRST_CONTACT_S, BrokerBackend
from litemq.spark.live_planning import batch_ranges, partitions_of
from litemq.spark.options import ReadOptions
from litemq.spark.python_worker import settle
from litemq.spark.ranges import QueueRange, Range
from litemq.spark.schema import Column

if TYPE_CHECKING:
    import pyarrow as pa


class LiveReader(DataSourceReader):
    """Reads topics of brokers once; Spark pickles it to its executors."""

    def __init__(self, options: ReadOptions, columns: Sequence[Column]) -> None:
        self._options = options
        self._columns = tuple(columns)

    def partitions(self) -> Sequence[InputPartition]:
        """Return what tasks read: fixed from here on."""
        backend = BrokerBackend(self._options.brokers, self._options, timeout_s=FIRST_CONTACT_S)
        ranges = batch_ranges(backend, self._options)
        formats = {one.name: one.format for one in backend.look(())}
        return [InputPartition((parts, formats)) for parts in partitions_of(backend, self._options, ranges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one partition."""
        if partition is None or partition.value is None:
            return  # Spark makes one empty partition of none
        settle()
        parts, formats = partition.value
        yield from read_parts(self._options, self._columns, parts, formats)


def read_parts(
    options: ReadOptions, columns: Sequence[Column], parts: Sequence[Range], formats: dict[str, str]
) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of ranges of queues, each read from its own broker.

    Raises:
        CorruptInput: there is damage, and ``onCorrupt`` is ``fail``.
        DataLost: messages are gone, and ``onDataLoss`` is ``fail``.
    """
    backend = BrokerBackend(options.brokers, options)
    only = Filter(keys=frozenset(options.keys), tags=frozenset(options.tags))
    for broker in dict.fromkeys(part.broker for part in parts if isinstance(part, QueueRange)):
        decoder = Decoder(FORMATS[formats[broker]], columns, options, broker)
        mine = [part for part in parts if isinstance(part, QueueRange) and part.broker == broker]
        yield from decoder.batches(_runs(backend, options, mine), only)


def _runs(backend: BrokerBackend, options: ReadOptions, parts: Sequence[QueueRange]) -> Iterator[Rows | Damaged]:
    for part in parts:
        for run in backend.open(part):
            if not isinstance(run, Damaged):
                yield run
                continue
            match options.on_corrupt:
                case "keep":
                    yield run
                case "skip":
                    pass
                case "quarantine":
                    raise BadOption("onCorrupt=quarantine needs path: brokers do not hand out damaged bytes; use skip")
                case "fail":
                    raise CorruptInput(
                        f"damaged record in {run.segment}: {run.reason}; set onCorrupt to skip or keep to read what is "
                        "sound, or mend the store of its broker: litemq store repair"
                    )
