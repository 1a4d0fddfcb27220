"""What Spark counts for an audit: everything that grows with the messages, and nothing else.

``messages`` makes the one table that the others read; a table of the same columns from elsewhere (a lake, say) serves
as well.  Bodies are not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from litemq.features.dead_letter import DLQ_PREFIX
from litemq.features.retry import RETRY_PREFIX
from litemq.format.stats_records import HOUR_MS, PARTS
from litemq.spark.jobs.audit_findings import Ends, Finding, Hour, Place, Stored, without_message
from litemq.spark.jobs.audit_ground import Ground
from litemq.spark.jobs.job import Cell, Source
from litemq.store.changes import decode

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TIMES: Final = {"startingTimestamp": "", "endingTimestamp": ""}
LENIENT: Final = {"onCorrupt": "skip", "onDataLoss": "skip"}
"""What is damaged or gone meanwhile is found as missing."""
PLACED: Final = "topic,broker,queue_id,queue_offset,physical_offset,store_timestamp"
_WANTED: Final = f"{PLACED},message_id"
QUEUE: Final = ("broker", "topic", "queue_id")
_ENDS: Final = "broker string, topic string, queue_id int, low bigint, high bigint"
_EXAMPLES: Final = 20
"""Findings of one kind and topic that are shown one by one."""


def messages(spark: SparkSession, source: Source, topics: Iterable[str]) -> DataFrame:
    """Return the messages of topics, without their bodies; damaged ones are left out, and found as gaps."""
    found = source.read(spark, columns=_WANTED, subscribe=",".join(topics), **LENIENT)
    return named(found)


def named(found: DataFrame) -> DataFrame:
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
    return found.join(f.broadcast(ends), list(QUEUE)).where("queue_offset >= low AND queue_offset < high")


# -- LiteMQ's own topics -------------------------------------------------------------------------


def told(spark: SparkSession, source: Source, ground: Ground) -> DataFrame | None:
    """Return the records of LiteMQ's own topics, before the cut; None where there are none."""
    topics = sorted({topic for _, topic, _ in ground.told})
    if not topics:
        return None
    more = {**TIMES, **LENIENT, "columns": f"{PLACED},body", "subscribe": ",".join(topics)}
    return cut(spark, named(source.read(spark, **more)), ground.told, ground)


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
    columns = ", ".join(["op string", "hour bigint", *(f"{part} {table}" for part in PARTS)])
    body = f.from_json(f.col("body").cast("string"), columns)
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


def by_producer(counts: DataFrame, topics: Collection[str]) -> list[tuple[Cell, ...]]:
    """Return topic, producer group and how many messages it sent there."""
    from pyspark.sql import functions as f

    sent = counts.where("part = 'sent'").groupBy("name", "other").agg(f.sum("count").alias("sent"))
    return [(row[0], row[1], row[2]) for row in sent.orderBy("name", "other").toLocalIterator() if row[0] in topics]


def changes(told: DataFrame) -> list[tuple[str, str, str, int]]:
    """Return (broker, what, topic, when) of topics that were deleted or purged."""
    found: list[tuple[str, str, str, int]] = []
    for row in told.select("broker", "body", "stored_ms").toLocalIterator():
        change = decode(bytes(row["body"] or b""))
        if change is not None and change.op in ("topic-deleted", "min-offsets"):
            found.append((row["broker"], change.op, change.name, row["stored_ms"]))
    return found


def place_of(row: Mapping[str, object]) -> Place:
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
    return topic.startswith(RETRY_PREFIX) | topic.startswith(DLQ_PREFIX)


# -- queues --------------------------------------------------------------------------------------


def stored(found: DataFrame) -> tuple[dict[Place, Stored], dict[Place, int], list[Place]]:
    """Return what each queue holds, when its first message was stored, and which queues have gaps or doubles."""
    from pyspark.sql import functions as f

    offset = f.col("queue_offset")
    rows = found.groupBy(*QUEUE).agg(
        f.count("*").alias("count"),
        f.min(offset).alias("first"),
        f.max(offset).alias("last"),
        f.sum(offset.cast("decimal(38,0)")).alias("sum"),
        f.bit_xor(offset).alias("xor"),
        f.min("stored_ms").alias("time"),
    )
    queues, times, uneven = {}, {}, []
    for row in rows.toLocalIterator():
        place = place_of(row)
        one = queues[place] = Stored(row["count"], row["first"], row["last"])
        times[place] = row["time"]
        total = (one.first + one.last) * (one.last - one.first + 1) // 2
        xor = _xor_below(one.last + 1) ^ _xor_below(one.first)
        if (one.messages, int(row["sum"]), row["xor"]) != (one.last - one.first + 1, total, xor):
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
    queue = Window.partitionBy(*QUEUE).orderBy("queue_offset", "physical_offset")
    rows = found.join(f.broadcast(chosen), list(QUEUE)).select(
        *QUEUE, "queue_offset", (f.lead("queue_offset").over(queue) - f.col("queue_offset") - 1).alias("missing")
    )
    rows = rows.where("missing <> 0").withColumn("kind", f.when(f.col("missing") > 0, "gap").otherwise("double-offset"))
    of_kind = Window.partitionBy(*QUEUE, "kind")
    rows = rows.withColumn("number", f.row_number().over(of_kind.orderBy("queue_offset"))).withColumn(
        "total", f.sum(f.abs("missing")).over(of_kind)
    )
    answer = []
    for row in rows.where(f.col("number") <= _EXAMPLES).orderBy(*QUEUE, "queue_offset").collect():
        broker, topic, queue_id = place_of(row)
        start, missing = row["queue_offset"], row["missing"]
        if row["kind"] == "gap":
            said = without_message(start + 1, start + 1 + missing)
            detail = f"{said}; {row['total']} are missing within the queue"
        else:
            detail = f"offset {start} is there twice; {row['total']} doubles in the queue"
        count = max(missing, 1)
        answer.append(
            Finding(kind=row["kind"], topic=topic, broker=broker, queue_id=queue_id, count=count, detail=detail)
        )
    return answer


def doubles(found: DataFrame) -> list[Finding]:
    """Return, for each topic, message ids that are stored more than once, with examples."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    place = f.struct("physical_offset", *QUEUE, "queue_offset")
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
        places = f"{_said(row['one'])} and {_said(row['other'])}"
        said = f"message {row['message_id']} is stored {row['copies']} times, at {places}"
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
