"""The tables of statistics in a lake, a row for each hour of a topic and each hour of a group's topic.

LAKE/rollup/topics/dt=…/    LAKE/rollup/groups/dt=…/    date and hour in UTC
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from litemq.features.dead_letter import DLQ_PREFIX
from litemq.features.retry import RETRY_PREFIX
from litemq.spark.lake.reading import read_files
from litemq.spark.lake.table import BadLake, kind_of, log_of
from litemq.spark.lake.writing import Key, Layout, Writer

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FOLDER: Final = "rollup"
TOPICS: Final = "topics"
GROUPS: Final = "groups"
LAYOUT: Final = Layout(("dt",), ("hour",))
TOP_TAGS: Final = 5

HEADERS: Final = ("topic", "store_timestamp", "born_timestamp", "size", "born_host", "tags")
"""The columns of messages that statistics are made of."""

_TOPIC_COLUMNS: Final = {
    "topic": "string",
    "hour": "string",
    "messages": "bigint",
    "bytes": "bigint",
    "latency_p50_ms": "bigint",
    "latency_p95_ms": "bigint",
    "latency_p99_ms": "bigint",
    "latency_max_ms": "bigint",
    "producers": "bigint",
    "top_tags": "array<struct<tag: string, messages: bigint>>",
    "dt": "string",
}
_GROUP_COLUMNS: Final = {
    "group": "string",
    "topic": "string",
    "hour": "string",
    "dead_letters": "bigint",
    "retries": "bigint",
    "observed_ms": "bigint",
    "committed": "bigint",
    "max_offset": "bigint",
    "lag": "bigint",
    "dt": "string",
}
TOPICS_SCHEMA: Final = ", ".join(f"`{name}` {kind}" for name, kind in _TOPIC_COLUMNS.items())
GROUPS_SCHEMA: Final = ", ".join(f"`{name}` {kind}" for name, kind in _GROUP_COLUMNS.items())
PROGRESS_SCHEMA: Final = (
    "`group` string, topic string, observed_ms bigint, committed bigint, max_offset bigint, lag bigint"
)
"""Where groups stand at the time of a run, summed over queues."""


def topic_statistics(spark: SparkSession, lake: str | Path) -> DataFrame:
    """Return what is known of each topic and hour.

    Raises:
        BadLake: nothing was ever rolled up there.
    """
    return _read(spark, Path(lake), TOPICS, TOPICS_SCHEMA)


def group_statistics(spark: SparkSession, lake: str | Path) -> DataFrame:
    """Return what is known of each group, topic and hour.

    Raises:
        BadLake: nothing was ever rolled up there.
    """
    return _read(spark, Path(lake), GROUPS, GROUPS_SCHEMA)


def _read(spark: SparkSession, lake: Path, name: str, schema: str) -> DataFrame:
    root = lake / FOLDER / name
    if not kind_of(root):
        raise BadLake(f"{lake} holds no statistics; make them with: litemq pipeline rollup --lake {lake}")
    return read_files(spark, root, log_of(root).files(), schema)


def topic_hours(headers: DataFrame) -> DataFrame:
    """Return the statistics of each topic and hour of messages that have ``dt`` and ``hour``."""
    from pyspark.sql import functions as f

    latency = f.greatest(f.lit(0), f.unix_millis("store_timestamp") - f.unix_millis("born_timestamp"))
    found = headers.groupBy("topic", "dt", "hour").agg(
        f.count("*").alias("messages"),
        f.sum(f.col("size").cast("bigint")).alias("bytes"),
        f.percentile_approx(latency, [0.5, 0.95, 0.99], 10_000).alias("_latency"),
        f.max(latency).alias("latency_max_ms"),
        f.approx_count_distinct("born_host").alias("producers"),
        f.expr(f"approx_top_k(tags, {TOP_TAGS}) FILTER (WHERE tags IS NOT NULL)").alias("_tags"),
    )
    named = {f"latency_p{share}_ms": f.col("_latency")[place] for place, share in enumerate((50, 95, 99))}
    tags = f.transform("_tags", lambda one: f.struct(one["item"].alias("tag"), one["count"].alias("messages")))
    return found.withColumns({**named, "top_tags": tags}).select(*_TOPIC_COLUMNS)


def group_hours(topics: DataFrame, progress: DataFrame) -> DataFrame:
    """Return dead letters and retries of each group by the hour, and where it stands in the hour of the run."""
    from pyspark.sql import functions as f

    own = None
    for prefix, mine, other in ((DLQ_PREFIX, "dead_letters", "retries"), (RETRY_PREFIX, "retries", "dead_letters")):
        rows = topics.where(f.col("topic").startswith(prefix)).select(
            f.substring("topic", len(prefix) + 1, 1 << 20).alias("group"),
            "topic",
            "dt",
            "hour",
            f.col("messages").alias(mine),
            _none(other),
            *map(_none, ("observed_ms", "committed", "max_offset", "lag")),
        )
        own = rows if own is None else own.unionByName(rows)
    assert own is not None
    hours = f.floor(f.col("observed_ms") / 3_600_000)
    day = f.date_add(f.lit("1970-01-01").cast("date"), f.floor(hours / 24).cast("int")).cast("string")
    stands = progress.withColumns(
        {
            "dt": day,
            "hour": f.lpad((hours % 24).cast("string"), 2, "0"),
            "dead_letters": _none("dead_letters"),
            "retries": _none("retries"),
        }
    )
    return merged_groups(own.unionByName(stands))


def merged_topics(old: DataFrame, new: DataFrame) -> DataFrame:
    """Return one row for each topic and hour: the new one, unless it was made of fewer messages."""
    from pyspark.sql import functions as f

    keys = ("topic", "dt", "hour")
    every = old.withColumn("_is_new", f.lit(0)).unionByName(new.withColumn("_is_new", f.lit(1)))
    values = [name for name in new.columns if name not in keys]
    best = f.max_by(f.struct(*values), f.struct("messages", "_is_new")).alias("best")
    return every.groupBy(*keys).agg(best).select(*keys, "best.*").select(*_TOPIC_COLUMNS)


def merged_groups(every: DataFrame) -> DataFrame:
    """Return one row for each group, topic and hour: counts only grow, and of places the last one seen counts."""
    from pyspark.sql import functions as f

    keys = ("group", "topic", "dt", "hour")
    place = f.max(f.struct("observed_ms", "committed", "max_offset", "lag")).alias("place")
    counts = [f.max(name).alias(name) for name in ("dead_letters", "retries")]
    merged = every.groupBy(*keys).agg(*counts, place)
    return merged.select(*keys, "dead_letters", "retries", "place.*").select(*_GROUP_COLUMNS)


def replace(writer: Writer, new: DataFrame, key: Key) -> int:
    """Put rows in place of those of the same hours; return of how many days files were written.

    A day is one file: its other hours are written again as they were.
    """
    log = writer.log
    days = {row.dt for row in new.select("dt").distinct().collect()}
    files = [file for file in log.files() if file.partition["dt"] in days]
    is_topics = "producers" in new.columns
    old = read_files(new.sparkSession, log.root, files, TOPICS_SCHEMA if is_topics else GROUPS_SCHEMA)
    rows = merged_topics(old, new) if is_topics else merged_groups(old.unionByName(new))
    writer.put(rows.repartition(1), key, remove=[file.path for file in files])
    return len(days)


def _none(name: str) -> Column:
    from pyspark.sql import functions as f

    return f.lit(None).cast("bigint").alias(name)
