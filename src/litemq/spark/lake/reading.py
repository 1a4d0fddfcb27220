"""Reading a table: a DataFrame of exactly the files that are committed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from litemq.spark.lake.table import DataFile
from litemq.spark.lake.writing import spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def read_files(spark: SparkSession, root: Path, files: Sequence[DataFile], schema: StructType | str) -> DataFrame:
    """Return the rows of files of a table; the schema names the columns that are folders, too."""
    if not files:
        return spark.createDataFrame([], schema)
    paths = [spark_path(root / file.path) for file in files]
    return spark.read.schema(schema).option("basePath", spark_path(root)).parquet(*paths)


def chosen(
    files: Iterable[DataFile], topics: Iterable[str] = (), from_ms: int | None = None, to_ms: int | None = None
) -> list[DataFile]:
    """Return the files that can hold messages of some topics (none named: all) of a time; the end is not part of it."""
    wanted = frozenset(topics)
    return [
        file
        for file in files
        if (not wanted or file.partition["topic"] in wanted)
        and (from_ms is None or file.max_ms is None or file.max_ms >= from_ms)
        and (to_ms is None or file.min_ms is None or file.min_ms < to_ms)
    ]
