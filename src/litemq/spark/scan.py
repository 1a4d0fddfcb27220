"""One DataFrame for each question: simple conditions go to the reader as options, and Spark checks them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def scan(
    spark: SparkSession,
    path: str,
    *,
    topics: Iterable[str] = (),
    columns: Iterable[str] = (),
    keys: Iterable[str] = (),
    tags: Iterable[str] = (),
    start: str | int | None = None,
    end: str | int | None = None,
    where: str = "",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return a new DataFrame over the store at ``path``.

    ``start`` and ``end`` are times (ms, ISO 8601, or ``-1h``); ``where`` is SQL over the columns.  Call it again to see
    new messages: Spark keeps the partitions of a DataFrame from its first action on.
    """
    wanted = {
        "path": path,
        "subscribe": ",".join(topics),
        "columns": ",".join(columns),
        "keys": ",".join(keys),
        "tags": ",".join(tags),
        "startingTimestamp": "" if start is None else str(start),
        "endingTimestamp": "" if end is None else str(end),
        **(options or {}),
    }
    frame = spark.read.format("litemq").options(**{name: value for name, value in wanted.items() if value}).load()
    return frame.where(where) if where else frame
