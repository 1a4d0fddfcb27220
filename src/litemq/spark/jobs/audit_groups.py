"""What Spark counts of consumer groups for an audit: where they went on, what died, how long messages waited."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from litemq.features.dead_letter import DLQ_PREFIX
from litemq.format.stats_records import HOUR_MS
from litemq.spark.jobs.audit_findings import Dead, Place, Standing, Stored
from litemq.spark.jobs.audit_frames import LENIENT, PLACED, QUEUE, TIMES, cut, named, place_of
from litemq.spark.jobs.audit_ground import Ground
from litemq.spark.jobs.job import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DEAD: Final = f"{PLACED},group,origin_topic,origin_queue,origin_offset"
_BUCKET: Final = 256
"""Offsets that are looked for together: a slow reader has about as many steps in one, a fast one a single step."""


def steps(progress: DataFrame) -> DataFrame:
    """Return where groups went on, record by record: group, broker, topic, queue_id, offset, position, time."""
    from pyspark.sql import functions as f

    table = "map<string,map<string,map<string,bigint>>>"
    body = f.from_json(f.col("body").cast("string"), f"op string, offsets {table}")
    rows = progress.select("broker", "physical_offset", "stored_ms", body.alias("told")).where("told.op = 'progress'")
    kept = ("broker", "physical_offset", "stored_ms")
    rows = rows.select(*kept, f.explode("told.offsets").alias("group", "topics"))
    rows = rows.select(*kept, "group", f.explode("topics").alias("topic", "queues"))
    rows = rows.select(*kept, "group", "topic", f.explode("queues").alias("queue", "offset"))
    return rows.withColumn("queue_id", f.col("queue").cast("int")).drop("queue")


def newest(found: DataFrame, position: int) -> list[Standing]:
    """Return where groups went on last, as records from ``position`` on say."""
    from pyspark.sql import functions as f

    last = (
        found.where(f.col("physical_offset") >= position)
        .groupBy("group", *QUEUE)
        .agg(f.max_by("offset", "physical_offset").alias("offset"))
    )
    return [Standing(row["group"], place_of(row), row["offset"]) for row in last.collect()]


def dead_letters(
    spark: SparkSession, source: Source, ground: Ground, queues: Mapping[Place, Stored]
) -> dict[tuple[str, Place], Dead]:
    """Return how many messages of each queue are dead letters of each group, with their origin still there."""
    from pyspark.sql import functions as f

    names = [topic for topic in ground.topics if topic.startswith(DLQ_PREFIX)]
    if not names or not ground.standings:
        return {}
    more = {**TIMES, **LENIENT, "columns": _DEAD, "view": "dlq", "subscribe": ",".join(names)}
    letters = cut(spark, named(source.read(spark, **more)), ground.queues, ground)
    origin = (f.col("origin_topic").alias("topic"), f.col("origin_queue").cast("int").alias("queue_id"))
    letters = letters.select("group", "broker", *origin, "origin_offset").distinct()
    known = [
        (one.group, *one.place, one.offset, queues[one.place].first, queues[one.place].last)
        for one in ground.standings
        if one.place in queues
    ]
    if not known:
        return {}
    schema = "group string, broker string, topic string, queue_id int, offset bigint, first bigint, last bigint"
    stands = spark.createDataFrame(known, schema)
    rows = letters.join(f.broadcast(stands), ["group", *QUEUE]).where("origin_offset BETWEEN first AND last")
    rows = rows.groupBy("group", *QUEUE).agg(
        f.count_if(f.col("origin_offset") < f.col("offset")).alias("passed"), f.count("*").alias("all")
    )
    return {(row["group"], place_of(row)): Dead(row["passed"], row["all"] - row["passed"]) for row in rows.collect()}


class Waited(NamedTuple):
    """How long the messages of an hour waited until a group confirmed them, in ms."""

    group: str
    topic: str
    hour: int
    messages: int
    p50: int
    p95: int
    p99: int
    longest: int


def latency(found: DataFrame, told_steps: DataFrame, begun_at_zero: Iterable[Place]) -> list[Waited]:
    """Return how long messages waited until groups confirmed them.

    A message counts with the first progress record behind it.  What a group confirmed before its first record counts
    only in queues of which everything is there, where it began with offset 0.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    spark = found.sparkSession
    past = Window.partitionBy("group", *QUEUE).orderBy("physical_offset")
    before = f.max("offset").over(past.rowsBetween(Window.unboundedPreceding, -1))
    zero = spark.createDataFrame([*begun_at_zero], "broker string, topic string, queue_id int")
    zero = zero.withColumn("low", f.lit(0))
    moves = told_steps.join(f.broadcast(zero), list(QUEUE), "left").withColumn("from", f.coalesce(before, "low"))
    moves = moves.where("offset > `from`").select(
        "group",
        *QUEUE,
        "from",
        f.col("offset").alias("to"),
        f.col("stored_ms").alias("told_ms"),
        f.explode(f.sequence(f.expr(f"`from` DIV {_BUCKET}"), f.expr(f"(offset - 1) DIV {_BUCKET}"))).alias("bucket"),
    )
    rows = found.select(*QUEUE, "queue_offset", "stored_ms", f.expr(f"queue_offset DIV {_BUCKET}").alias("bucket"))
    rows = rows.join(moves, [*QUEUE, "bucket"]).where("queue_offset >= `from` AND queue_offset < `to`")
    waited = f.greatest(f.col("told_ms") - f.col("stored_ms"), f.lit(0))
    hour = (f.col("stored_ms") - f.col("stored_ms") % HOUR_MS).alias("hour")
    summed = rows.groupBy("group", "topic", hour).agg(
        f.count("*").alias("messages"),
        f.percentile_approx(waited, [0.5, 0.95, 0.99]).alias("ms"),
        f.max(waited).alias("longest"),
    )
    answer = []
    for row in summed.orderBy("group", "topic", "hour").collect():
        p50, p95, p99 = row["ms"]
        answer.append(Waited(row["group"], row["topic"], row["hour"], row["messages"], p50, p95, p99, row["longest"]))
    return answer
