"""``format("litemq")``: what Spark asks first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader

from litemq.spark import schema as schemas
from litemq.spark.errors import BadOption
from litemq.spark.options import ReadOptions, read_options

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType


class LiteMQDataSource(DataSource):
    """Messages, queues and what else a store holds."""

    @classmethod
    def name(cls) -> str:
        return "litemq"

    def _read(self) -> ReadOptions:
        return read_options(self.options)

    def schema(self) -> str:
        options = self._read()
        if options.view not in ("messages", "dlq"):
            from litemq.spark.views import ddl_of

            return ddl_of(options.view)
        return schemas.to_ddl(schemas.chosen_columns(options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._read()
        if options.consumer_group:
            raise BadOption("consumerGroup is of streams: a batch has no position to tell; leave it out")
        if options.view not in ("messages", "dlq"):
            from litemq.spark.views import ViewReader

            return ViewReader(options, schema)
        if options.brokers:
            from litemq.spark.live_reader import LiveReader

            return LiveReader(options, schemas.projected(schema, options))
        from litemq.spark.reader import LiteMQReader

        return LiteMQReader(options, schemas.projected(schema, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        options = read_options(self.options, is_stream=True)
        if options.brokers and options.view in ("messages", "dlq"):
            from litemq.spark.live_stream import LiveStreamReader

            return LiveStreamReader(options, schemas.projected(schema, options))
        from litemq.spark.stream import LiteMQStreamReader

        # Another view than messages is refused when the reader is asked: an error here is covered by one of PySpark's.
        return LiteMQStreamReader(options, schemas.projected(schema, options) if options.view == "messages" else ())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from litemq.spark.write_options import check_schema, write_options
        from litemq.spark.writer import LiteMQWriter

        if overwrite:
            raise BadOption("mode overwrite is refused: messages are only ever added; use .mode('append')")
        options = write_options(self.options, is_stream=False)
        check_schema(schema, options)
        return LiteMQWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        from litemq.spark.write_options import check_schema, write_options
        from litemq.spark.writer import LiteMQStreamWriter

        if overwrite:
            raise BadOption("outputMode complete is refused: messages are only ever added; use append or update")
        options = write_options(self.options, is_stream=True)
        check_schema(schema, options)
        return LiteMQStreamWriter(options)
