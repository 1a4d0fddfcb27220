"""The driver that chaos kills: reads a topic, shuffles, writes another one, from a checkpoint.

python -m tests.spark.chaos_driver NAMESERVERS SOURCE TARGET CHECKPOINT FOLDER all|forever
"""

from __future__ import annotations

import sys

from litemq.spark import session


def main() -> None:
    nameservers, source, target, checkpoint, folder, how = sys.argv[1:]
    spark = session(
        "chaos",
        spark__master="local[2,4]",
        spark__ui__enabled="false",
        spark__driver__extraJavaOptions="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        spark__driver__host="127.0.0.1",
        spark__driver__bindAddress="127.0.0.1",
        spark__sql__shuffle__partitions="3",
        spark__local__dir=folder,
        spark__sql__warehouse__dir=f"{folder}/warehouse",
    )
    spark.sparkContext.setLogLevel("OFF")
    options = {
        "brokers": nameservers,
        "subscribe": source,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "150",
        "retentionHold": "10m",
    }
    frame = spark.readStream.format("litemq").options(**options).load().select("body").repartition(3, "body")
    written = frame.writeStream.format("litemq").options(
        brokers=nameservers, topic=target, checkpointLocation=checkpoint, timeout="60"
    )
    trigger = {"availableNow": True} if how == "all" else {"processingTime": "0 seconds"}
    query = written.trigger(**trigger).start()
    sys.stdout.write("started\n")
    sys.stdout.flush()
    query.awaitTermination()


if __name__ == "__main__":
    main()
