"""The messages of a lake: the table that ``archive`` fills, with the columns of ``format("litemq")``.

LAKE/messages/topic=…/dt=…/hour=…/   date and hour in UTC, of the store time
LAKE/checkpoints/archive/            up to where the stream has read
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from litemq.spark.lake.reading import chosen, read_files
from litemq.spark.lake.table import BadLake, Log, kind_of, log_of
from litemq.spark.lake.writing import Layout
from litemq.spark.schema import MESSAGES, to_ddl

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FOLDER: Final = "messages"
LAYOUT: Final = Layout(("topic", "dt", "hour"), ("store_timestamp", "queue_id", "queue_offset"))
SCHEMA: Final = f"{to_ddl(MESSAGES)}, `dt` string, `hour` string"


def messages_log(lake: Path, kind: str = "") -> Log:
    """Return the log of a lake's messages; ``kind`` counts where there are none yet."""
    return log_of(lake / FOLDER, kind)


def files(lake: str | Path) -> list[str]:
    """Return the paths of the Parquet files that hold a lake's messages, for readers other than Spark.

    Raises:
        BadLake: no messages were ever kept there.
    """
    log = _there(Path(lake))
    return [str((log.root / file.path).absolute()) for file in log.files()]


def messages(
    spark: SparkSession,
    lake: str | Path,
    *,
    topics: Iterable[str] = (),
    from_ms: int | None = None,
    to_ms: int | None = None,
) -> DataFrame:
    """Return the messages of a lake as ``format("litemq")`` gives them, so that lake and store can be unioned.

    Topics and store times (the end is not part of it) choose among the files before Spark sees them.

    Raises:
        BadLake: no messages were ever kept there.
    """
    log = _there(Path(lake))
    wanted = chosen(log.files(), topics, from_ms, to_ms)
    found = read_files(spark, log.root, wanted, SCHEMA).select(*(column.name for column in MESSAGES))
    if from_ms is not None:
        found = found.where(f"store_timestamp >= timestamp_millis({from_ms})")
    if to_ms is not None:
        found = found.where(f"store_timestamp < timestamp_millis({to_ms})")
    return found


def with_hour(frame: DataFrame) -> DataFrame:
    """Add the columns ``dt`` and ``hour``, by UTC whatever the session's time zone is."""
    return frame.withColumn("dt", _day()).withColumn("hour", _hour())


def _seconds() -> Column:
    from pyspark.sql import functions as f

    return f.coalesce(f.unix_seconds("store_timestamp"), f.unix_seconds("born_timestamp"), f.lit(0))


def _day() -> Column:
    from pyspark.sql import functions as f

    days = f.floor(_seconds() / 86_400).cast("int")
    return f.date_add(f.lit("1970-01-01").cast("date"), days).cast("string")


def _hour() -> Column:
    from pyspark.sql import functions as f

    return f.lpad(f.pmod(f.floor(_seconds() / 3_600), f.lit(24)).cast("string"), 2, "0")


def _there(lake: Path) -> Log:
    if not kind_of(lake / FOLDER):
        raise BadLake(f"{lake} holds no messages; fill it with: litemq pipeline archive --to {lake}")
    return messages_log(lake)
