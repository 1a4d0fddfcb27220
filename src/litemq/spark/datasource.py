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
            from litemq.spark.views import VIEWS

            return VIEWS[options.view].ddl
        return schemas.to_ddl(schemas.chosen_columns(options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._read()
        if options.brokers:
            from litemq.spark.live_reader import LiveReader

            return LiveReader(options, schemas.projected(schema, options))
        if options.view not in ("messages", "dlq"):
            from litemq.spark.views import ViewReader

            return ViewReader(options, schema)
        from litemq.spark.reader import LiteMQReader

        return LiteMQReader(options, schemas.projected(schema, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        if read_options(self.options).brokers:
            from litemq.spark.live_stream import LiveStreamReader

            live = read_options(self.options, is_stream=True)
            return LiveStreamReader(live, schemas.projected(schema, live))
        from litemq.spark.stream import LiteMQStreamReader, is_latest

        options = self._read()
        columns = schemas.projected(schema, options) if options.view == "messages" else ()  # it refuses when asked
        latest = is_latest(self.options.get("startingOffsets")) and options.from_ms is None
        return LiteMQStreamReader(options, columns, is_latest_default=latest)

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
