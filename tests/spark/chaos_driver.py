"""The driver that chaos kills: reads a topic, shuffles by key, writes another one, from a checkpoint.

    python -m tests.spark.chaos_driver NAMESERVERS SOURCE TARGET FOLDER all|forever [NAME=VALUE …]

Some tasks fail at their first attempt when half of their rows are written, and some are so slow that Spark starts them
a second time.  Settings are Spark's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from litemq.spark import session

if TYPE_CHECKING:
    import pyarrow as pa

SHUFFLED = 4
_SLOW_S = 4.0
_AT_ONCE = 20


def ordered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task in order, each with the number of its micro-batch as its tag."""
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    number = int(context.getLocalProperty("streaming.sql.batchId"))
    part = context.partitionId()
    is_first = context.attemptNumber() == 0
    found = [batch for batch in batches if batch.num_rows]
    if not found:
        return
    table = pa.Table.from_batches(found).sort_by("body").combine_chunks()
    parts = table.to_batches(_AT_ONCE)
    for at, batch in enumerate(parts):
        if is_first and at == len(parts) // 2:
            if (number + part) % 7 == 0:
                raise RuntimeError("chaos: this attempt was to fail")
            if (number + part) % 5 == 0:
                time.sleep(_SLOW_S)
        yield batch.append_column("tags", pa.array([f"batch-{number}"] * batch.num_rows))


def main() -> None:
    nameservers, source, target, folder, how, *given = sys.argv[1:]
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": str(SHUFFLED),
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.task.maxFailures": "8",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.25",
        "spark.speculation.multiplier": "1.5",
        "spark.eventLog.enabled": "true",  # it says which tasks were retried or started twice
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": f"file:{folder}/events",
        **dict(setting.split("=", 1) for setting in given),
    }
    spark = session("chaos", **{name.replace(".", "__"): value for name, value in settings.items()})
    spark.sparkContext.setLogLevel("OFF")
    options = {
        "brokers": nameservers,
        "subscribe": source,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "400",
        "retentionHold": "10m",
    }
    frame = spark.readStream.format("litemq").options(**options).load().select("body", "keys")
    shuffled = frame.repartition(SHUFFLED, "keys").mapInArrow(ordered, "body binary, keys string, tags string")
    written = shuffled.writeStream.format("litemq").options(
        brokers=nameservers, topic=target, checkpointLocation=f"{folder}/checkpoint", timeout="60"
    )
    trigger = {"availableNow": True} if how == "all" else {"processingTime": "0 seconds"}
    query = written.trigger(**trigger).start()
    sys.stdout.write("started\n")
    sys.stdout.flush()
    query.awaitTermination()


if __name__ == "__main__":
    main()
