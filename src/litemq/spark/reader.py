"""The batch reader: plans on the driver, reads on executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from litemq.spark.files import FileBackend
from litemq.spark.options import ReadOptions
from litemq.spark.planning import plan
from litemq.spark.python_worker import settle
from litemq.spark.reading import Task, leave_counters, read_ranges
from litemq.spark.schema import Column

if TYPE_CHECKING:
    import pyarrow as pa


class LiteMQReader(DataSourceReader):
    """Reads messages of a store once; Spark pickles it to its executors."""

    def __init__(self, options: ReadOptions, columns: Sequence[Column]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._backend = FileBackend(options.path, options.format)

    def partitions(self) -> Sequence[InputPartition]:
        # What is wanted travels with the partition: Spark has pickled this reader before it asks here.
        found = plan(self._backend, self._options)
        only = found.filter(self._options)
        if self._options.counters_path:
            leave_counters(self._backend, self._options.counters_path)
        return [InputPartition(Task(parts, only)) for parts in found.partitions]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition is None or partition.value is None:
            return  # Spark makes one empty partition of none
        settle()
        task: Task = partition.value
        yield from read_ranges(self._backend, self._options, self._columns, task)
