"""Read and write bodies of 4 MiB with a real Spark whose Python workers have 512 MiB of address space.

A process of its own, because the limit belongs to the session: ``python -m tests.support.memory_driver DIR``.
Prints one JSON object: the limit that workers have, and what each step counted.
"""

from __future__ import annotations

import json
import random
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import litemq
from litemq.spark import session
from litemq.testing import broker

SIZE = 4 << 20
COUNT = 8
"""Bodies of each kind: more than fit the limit together."""


def limit_of(_: object) -> int:
    """Return the address space that a worker may have."""
    import resource

    return resource.getrlimit(resource.RLIMIT_AS)[0]


def write_store(folder: Path) -> None:
    """Write a store of random bodies, and of compressed ones that unfold to as much."""
    from tests.support.store_files import StoreFiles

    from litemq.types import Message

    store = StoreFiles(folder, "rocketmq", segment_size=64 << 20)
    chance = random.Random(1)
    for number in range(COUNT):
        store.add(Message("large", chance.randbytes(SIZE - 200), born_host="10.0.0.1:5"))
        folded = zlib.compress(bytes([number]) * SIZE)
        store.add(Message("folded", folded, sys_flag=1, born_host="10.0.0.1:5"))
    store.write()


def counted(frame: Any) -> list[int]:  # noqa: ANN401 - Spark's frame
    """Return how many rows there are and how long the shortest body is, every body having come to the JVM."""
    row = frame.selectExpr("count(*)", "min(length(body))", "max(crc32(body)) > 0").first()
    return [row[0], row[1]]


def main() -> None:
    folder = Path(sys.argv[1])
    spark = session(
        "memory",
        spark__master="local[1]",
        spark__executor__pyspark__memory="512m",
        spark__ui__enabled="false",
        spark__driver__host="127.0.0.1",
        spark__driver__bindAddress="127.0.0.1",
        spark__driver__extraJavaOptions="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        spark__sql__shuffle__partitions="1",
        spark__sql__warehouse__dir=str(folder / "warehouse"),
        spark__local__dir=str(folder / "local"),
    )
    spark.sparkContext.setLogLevel("ERROR")
    found: dict[str, object] = {"limit": spark.sparkContext.parallelize([0], 1).map(limit_of).first()}
    write_store(folder / "store")
    store = spark.read.format("litemq").option("path", str(folder / "store"))
    found["files"] = counted(store.load())
    with broker() as brokers:
        with litemq.Admin(brokers.nameservers) as admin:
            admin.create_topic("large", queues=2)
        to = {"brokers": brokers.nameservers, "topic": "large"}
        rows = store.option("subscribe", "large").load().select("body")
        rows.write.format("litemq").options(**to).mode("append").save()
        with litemq.Admin(brokers.nameservers) as admin:
            while any(one.unpublished for one in admin.batch_transactions()):
                time.sleep(0.05)
        live = {"brokers": brokers.nameservers, "subscribe": "large"}
        found["brokers"] = counted(spark.read.format("litemq").options(**live).load())
        stream = spark.readStream.format("litemq").options(**live, startingOffsets="earliest").load().select("body")
        once = {**to, "delivery": "at-least-once", "checkpointLocation": str(folder / "checkpoint")}
        query = stream.writeStream.format("litemq").options(**once).trigger(availableNow=True).start()
        query.awaitTermination()
        found["written again"] = counted(spark.read.format("litemq").options(**live).load())
    spark.stop()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
