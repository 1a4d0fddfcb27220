"""What Spark counts for an audit: everything that grows with the messages, and nothing else.

``messages`` makes the one table that the others read; a table of the same columns from elsewhere (a lake, say) serves
as well.  Bodies are not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from litemq.format.names import CHANGES_TOPIC, PROGRESS_TOPIC, STATS_TOPIC
from litemq.format.stats_records import HOUR_MS, PARTS
from litemq.spark.jobs.audit_findings import Dead, Ends, Finding, Hour, Place, Standing, Stored
from litemq.spark.jobs.audit_ground import Ground, is_moved
from litemq.spark.jobs.job import Source
from litemq.store.changes import decode

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_TIMES: Final = {"startingTimestamp": "", "endingTimestamp": ""}
_LENIENT: Final = {"onCorrupt": "skip", "onDataLoss": "skip"}
"""What is damaged or gone meanwhile is found as missing."""
_PLACED: Final = "topic,broker,queue_id,queue_offset,physical_offset,store_timestamp"
_WANTED: Final = f"{_PLACED},message_id"
_DEAD: Final = f"{_PLACED},group,origin_topic,origin_queue,origin_offset"
_QUEUE: Final = ("broker", "topic", "queue_id")
_ENDS: Final = "broker string, topic string, queue_id int, low bigint, high bigint"
_BUCKET: Final = 256
"""Offsets that are looked for together: a slow reader has about as many steps in one, a fast one a single step."""
_EXAMPLES: Final = 20
"""Findings of one kind and topic that are shown one by one."""


def messages(spark: SparkSession, source: Source, topics: Iterable[str]) -> DataFrame:
    """Return the messages of topics, without their bodies; damaged ones are left out, and found as gaps."""
    found = source.read(spark, columns=_WANTED, subscribe=",".join(topics), **_LENIENT)
    return _named(found)


def _named(found: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return found.withColumn("broker", f.coalesce("broker", f.lit(""))).withColumn(
        "stored_ms", f.coalesce(f.unix_millis("store_timestamp"), f.lit(0))
    )


def cut(spark: SparkSession, found: DataFrame, queues: Mapping[Place, Ends], ground: Ground) -> DataFrame:
    """Return what lies before the cut."""
    from pyspark.sql import functions as f

    found = found.where(f.col("physical_offset") < ground.position_limit)
    if ground.look_again is None:
        return found
    ends = spark.createDataFrame([(*place, *ends) for place, ends in queues.items()], _ENDS)
    return found.join(f.broadcast(ends), list(_QUEUE)).where("queue_offset >= low AND queue_offset < high")


# -- LiteMQ's own topics -------------------------------------------------------------------------


def told(spark: SparkSession, source: Source, ground: Ground, topic: str) -> DataFrame | None:
    """Return the records of one of LiteMQ's own topics, before the cut; None where there are none."""
    queues = {place: ends for place, ends in ground.told.items() if place[1] == topic}
    if not queues:
        return None
    more = {**_TIMES, **_LENIENT, "columns": f"{_PLACED},body", "subscribe": topic}
    return cut(spark, _named(source.read(spark, **more)), queues, ground)


def marks(stats: DataFrame) -> list[tuple[str, int, int]]:
    """Return (broker, since, until) of the times in which not everything was counted."""
    from pyspark.sql import functions as f

    body = f.from_json(f.col("body").cast("string"), "op string, since bigint, until bigint")
    found = stats.select("broker", body.alias("told")).where("told.op = 'incomplete'").select("broker", "told.*")
    return sorted({(row["broker"], row["since"] or 0, row["until"] or 0) for row in found.collect()})


def counted(stats: DataFrame) -> DataFrame:
    """Return broker, hour, part (``sent`` …), name, other and count of all records of counts."""
    from pyspark.sql import functions as f

    table = "map<string,map<string,bigint>>"
    body = f.from_json(f.col("body").cast("string"), "op string, hour bigint, " + ", ".join(f"{p} {table}" for p in PARTS))
    every = stats.select("broker", body.alias("told")).where("told.op = 'counts'")
    parts = f.explode(f.create_map(*[one for part in PARTS for one in (f.lit(part), f.col(f"told.{part}"))]))
    rows = every.select("broker", f.col("told.hour").alias("hour"), parts.alias("part", "table")).where(
        "table IS NOT NULL"
    )
    rows = rows.select("broker", "hour", "part", f.explode("table").alias("name", "others"))
    rows = rows.select("broker", "hour", "part", "name", f.explode("others").alias("other", "count"))
    return rows.groupBy("broker", "hour", "part", "name", "other").agg(f.sum("count").alias("count"))


def last_positions(stats: DataFrame) -> dict[str, int]:
    """Return the position of each broker's last record: everything that was sent before it is counted."""
    from pyspark.sql import functions as f

    rows = stats.groupBy("broker").agg(f.max("physical_offset").alias("last")).collect()
    return {row["broker"]: row["last"] for row in rows}


def by_producer(counts: DataFrame, topics: Collection[str]) -> list[tuple[str, str, int]]:
    """Return topic, producer group and how many messages it sent there."""
    from pyspark.sql import functions as f

    sent = counts.where("part = 'sent'").groupBy("name", "other").agg(f.sum("count").alias("sent"))
    return [(row[0], row[1], row[2]) for row in sent.orderBy("name", "other").toLocalIterator() if row[0] in topics]


def changes(told: DataFrame) -> list[tuple[str, str, str, int]]:
    """Return (broker, what, topic, when) of topics that were deleted or purged."""
    found = []
    for row in told.select("broker", "body", "stored_ms").toLocalIterator():
        change = decode(bytes(row["body"] or b""))
        if change is not None and change.op in ("topic-deleted", "min-offsets"):
            found.append((row["broker"], change.op, change.name, row["stored_ms"]))
    return found


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
        .groupBy("group", *_QUEUE)
        .agg(f.max_by("offset", "physical_offset").alias("offset"))
    )
    return [Standing(row["group"], _place(row), row["offset"]) for row in last.collect()]


def _place(row: Mapping[str, object]) -> Place:
    return str(row["broker"]), str(row["topic"]), int(str(row["queue_id"]))


# -- sent = stored -------------------------------------------------------------------------------


def hours(found: DataFrame, counts: DataFrame, counted_to: Mapping[str, int]) -> Iterator[Hour]:
    """Yield what was sent and what is stored, as far as sends are counted: up to a position of each broker's log."""
    from pyspark.sql import functions as f

    limit = _chosen(counted_to, f.col("broker"))
    stored = found.where(~_is_moved(f.col("topic")) & (f.col("physical_offset") < f.coalesce(limit, f.lit(1 << 62))))
    hour = f.col("stored_ms") - f.col("stored_ms") % HOUR_MS
    stored = stored.groupBy("broker", "topic", hour.alias("hour")).agg(f.count("*").alias("stored"))
    sent = counts.where("part = 'sent'").withColumnRenamed("name", "topic")
    sent = sent.where(~_is_moved(f.col("topic"))).groupBy("broker", "topic", "hour").agg(f.sum("count").alias("sent"))
    both = stored.join(sent, ["broker", "topic", "hour"], "full").fillna(0, ["sent", "stored"])
    for row in both.orderBy("topic", "hour", "broker").toLocalIterator():
        yield Hour(row["broker"], row["topic"], row["hour"], row["sent"], row["stored"])


def _chosen(table: Mapping[str, int], key: Column) -> Column:
    from pyspark.sql import functions as f

    pairs = [f.lit(one) for pair in table.items() for one in pair]
    return f.create_map(*pairs)[key] if pairs else f.lit(None).cast("bigint")


def _is_moved(topic: Column) -> Column:
    return topic.startswith("%RETRY%") | topic.startswith("%DLQ%")


# -- queues --------------------------------------------------------------------------------------


def stored(found: DataFrame) -> tuple[dict[Place, Stored], dict[Place, int], list[Place]]:
    """Return what each queue holds, when its first message was stored, and which queues have gaps or doubles."""
    from pyspark.sql import functions as f

    offset = f.col("queue_offset")
    rows = found.groupBy(*_QUEUE).agg(
        f.count("*").alias("count"),
        f.min(offset).alias("first"),
        f.max(offset).alias("last"),
        f.sum(offset.cast("decimal(38,0)")).alias("sum"),
        f.bit_xor(offset).alias("xor"),
        f.min("stored_ms").alias("time"),
    )
    queues, times, uneven = {}, {}, []
    for row in rows.toLocalIterator():
        place = _place(row)
        one = queues[place] = Stored(row["count"], row["first"], row["last"])
        times[place] = row["time"]
        total = (one.first + one.last) * (one.last - one.first + 1) // 2
        xor = _xor_below(one.last + 1) ^ _xor_below(one.first)
        if (one.count, int(row["sum"]), row["xor"]) != (one.last - one.first + 1, total, xor):
            uneven.append(place)
    return queues, times, uneven


def _xor_below(end: int) -> int:
    """Return 0 ^ 1 ^ … ^ (end - 1)."""
    last = end - 1
    return (last, 1, last + 1, 0)[last % 4] if end > 0 else 0


def unevenness(spark: SparkSession, found: DataFrame, places: list[Place]) -> list[Finding]:
    """Return which offsets are missing within queues, and which are there twice."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    if not places:
        return []
    chosen = spark.createDataFrame([*places], "broker string, topic string, queue_id int")
    queue = Window.partitionBy(*_QUEUE).orderBy("queue_offset", "physical_offset")
    rows = found.join(f.broadcast(chosen), list(_QUEUE)).select(
        *_QUEUE, "queue_offset", (f.lead("queue_offset").over(queue) - f.col("queue_offset") - 1).alias("missing")
    )
    rows = rows.where("missing <> 0").withColumn("kind", f.when(f.col("missing") > 0, "gap").otherwise("double-offset"))
    of_kind = Window.partitionBy(*_QUEUE, "kind")
    rows = rows.withColumn("number", f.row_number().over(of_kind.orderBy("queue_offset"))).withColumn(
        "total", f.sum(f.abs("missing")).over(of_kind)
    )
    answer = []
    for row in rows.where(f.col("number") <= _EXAMPLES).orderBy(*_QUEUE, "queue_offset").collect():
        broker, topic, queue_id = _place(row)
        start, missing = row["queue_offset"], row["missing"]
        if row["kind"] == "gap":
            what = f"offset {start + 1}" if missing == 1 else f"offsets {start + 1} to {start + missing}"
            detail = f"{what} lead to no message; {row['total']} are missing in the queue"
        else:
            detail = f"offset {start} is there twice; {row['total']} doubles in the queue"
        count = max(missing, 1)
        place = {"topic": topic, "broker": broker, "queue_id": queue_id}
        answer.append(Finding(kind=row["kind"], count=count, detail=detail, **place))
    return answer


def doubles(found: DataFrame) -> list[Finding]:
    """Return, for each topic, message ids that are stored more than once, with examples."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    place = f.struct("physical_offset", *_QUEUE, "queue_offset")
    rows = found.where(~_is_moved(f.col("topic")) & (f.col("message_id") != "")).groupBy("topic", "message_id")
    rows = rows.agg(f.count("*").alias("copies"), f.min(place).alias("one"), f.max(place).alias("other"))
    of_topic = Window.partitionBy("topic")
    rows = rows.where("copies > 1").select(
        "*",
        f.row_number().over(of_topic.orderBy("one")).alias("number"),
        f.sum(f.col("copies") - 1).over(of_topic).alias("extra"),
        f.count("*").over(of_topic).alias("ids"),
    )
    answer = []
    for row in rows.where("number <= 3").orderBy("topic", "number").collect():
        said = f"message {row['message_id']} is stored {row['copies']} times, at {_said(row['one'])} and {_said(row['other'])}"
        detail = f"{said}; {row['ids']} ids with {row['extra']} extra copies in the topic"
        answer.append(
            Finding(
                kind="double-id",
                topic=row["topic"],
                broker=row["one"]["broker"],
                queue_id=row["one"]["queue_id"],
                count=row["copies"] - 1,
                detail=detail,
            )
        )
    return answer


def _said(place: Mapping[str, object]) -> str:
    broker = f"{place['broker']}/" if place["broker"] else ""
    return f"{broker}{place['queue_id']} offset {place['queue_offset']}"


# -- groups --------------------------------------------------------------------------------------


def dead_letters(
    spark: SparkSession, source: Source, ground: Ground, queues: Mapping[Place, Stored]
) -> dict[tuple[str, Place], Dead]:
    """Return how many messages of each queue are dead letters of each group, with their origin still there."""
    from pyspark.sql import functions as f

    names = [topic for topic in ground.topics if topic.startswith("%DLQ%")]
    if not names or not ground.standings:
        return {}
    more = {**_TIMES, **_LENIENT, "columns": _DEAD, "view": "dlq", "subscribe": ",".join(names)}
    letters = cut(spark, _named(source.read(spark, **more)), ground.queues, ground)
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
    rows = letters.join(f.broadcast(stands), ["group", *_QUEUE]).where("origin_offset BETWEEN first AND last")
    rows = rows.groupBy("group", *_QUEUE).agg(
        f.count_if(f.col("origin_offset") < f.col("offset")).alias("passed"), f.count("*").alias("all")
    )
    return {(row["group"], _place(row)): Dead(row["passed"], row["all"] - row["passed"]) for row in rows.collect()}


def latency(found: DataFrame, told_steps: DataFrame, begun_at_zero: Iterable[Place]) -> list[tuple[object, ...]]:
    """Return group, topic, hour, messages and the 50th, 95th, 99th and 100th percentile of ms until they were confirmed.

    A message counts with the first progress record behind it.  What a group confirmed before its first record counts
    only in queues of which everything is there, where it began with offset 0.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    spark = found.sparkSession
    past = Window.partitionBy("group", *_QUEUE).orderBy("physical_offset")
    before = f.max("offset").over(past.rowsBetween(Window.unboundedPreceding, -1))
    zero = spark.createDataFrame([*begun_at_zero], "broker string, topic string, queue_id int").withColumn("low", f.lit(0))
    moves = told_steps.join(f.broadcast(zero), list(_QUEUE), "left").withColumn("from", f.coalesce(before, "low"))
    moves = moves.where("offset > `from`").select(
        "group", *_QUEUE, "from", f.col("offset").alias("to"), f.col("stored_ms").alias("told_ms"),
        f.explode(f.sequence(f.expr(f"`from` DIV {_BUCKET}"), f.expr(f"(offset - 1) DIV {_BUCKET}"))).alias("bucket"),
    )
    rows = found.select(*_QUEUE, "queue_offset", "stored_ms", f.expr(f"queue_offset DIV {_BUCKET}").alias("bucket"))
    rows = rows.join(moves, [*_QUEUE, "bucket"]).where("queue_offset >= `from` AND queue_offset < `to`")
    waited = f.greatest(f.col("told_ms") - f.col("stored_ms"), f.lit(0))
    hour = (f.col("stored_ms") - f.col("stored_ms") % HOUR_MS).alias("hour")
    summed = rows.groupBy("group", "topic", hour).agg(
        f.count("*").alias("messages"),
        f.percentile_approx(waited, [0.5, 0.95, 0.99]).alias("ms"),
        f.max(waited).alias("longest"),
    )
    return [
        (row["group"], row["topic"], row["hour"], row["messages"], *row["ms"], row["longest"])
        for row in summed.orderBy("group", "topic", "hour").collect()
    ]
