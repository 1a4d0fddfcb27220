"""``litemq pipeline offsets`` on checkpoints of a real Spark: a stream is stopped, moved, and goes on from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.store_files import StoreFiles

import litemq
from litemq.cli.main import run as give
from litemq.testing import broker
from litemq.types import Message

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]


def new_rows(spark: Any, root: Path, name: str = "checkpoint", **options: object) -> list[tuple[int, int]]:  # noqa: ANN401
    """Run a stream to its end, on from its checkpoint; return what this run read."""
    out = root / f"out-{len(list(root.glob('out-*')))}"
    frame = spark.readStream.format("litemq").options(subscribe="orders", **options).load()

    def keep(batch: Any, number: int) -> None:  # noqa: ANN401 - Spark's frame
        batch.select("queue_id", "queue_offset").write.mode("append").parquet(str(out))

    query = (
        frame.writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(root / name))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = spark.read.schema("queue_id INT, queue_offset BIGINT").parquet(str(out)).collect() if out.exists() else []
    return sorted((row.queue_id, row.queue_offset) for row in found)


def moved(root: Path, *arguments: str, name: str = "checkpoint") -> None:
    assert give(["pipeline", "offsets", "set", "--checkpoint", str(root / name), "--yes", *arguments]) == 0


def test_a_stream_over_files(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    store = StoreFiles(tmp_path / "store")
    for number in range(8):
        store.add(Message("orders", b"x", queue_id=number % 2))
    store.write()
    options = {"path": str(tmp_path / "store"), "startingOffsets": "earliest"}
    every = [(queue, offset) for queue in (0, 1) for offset in range(4)]
    assert new_rows(spark, tmp_path, **options) == every
    moved(tmp_path, "orders/0=1")
    assert new_rows(spark, tmp_path, **options) == [(0, 1), (0, 2), (0, 3)]
    moved(tmp_path, "*=earliest", "orders/0=latest", "--path", str(tmp_path / "store"))
    assert new_rows(spark, tmp_path, **options) == [(1, 0), (1, 1), (1, 2), (1, 3)]
    # A crash before the last batch was done: it is given up, and what it wanted is read as far as it was asked for.
    commits = tmp_path / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink()
    moved(tmp_path, "orders/1=3", "--abandon-batch")
    assert new_rows(spark, tmp_path, **options) == [(1, 3)]
    moved(tmp_path, "orders=2")
    copy = ["--checkpoint", str(tmp_path / "checkpoint"), "--to", str(tmp_path / "second")]
    assert give(["pipeline", "offsets", "fork", *copy]) == 0
    for name in ("checkpoint", "second"):
        assert new_rows(spark, tmp_path, name, **options) == [(0, 2), (0, 3), (1, 2), (1, 3)]


def test_a_stream_over_brokers(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    with broker() as cluster, litemq.Admin(cluster.nameservers) as admin:
        admin.create_topic("orders", queues=1)
        with litemq.Producer(cluster.nameservers) as producer:
            for number in range(6):
                producer.send("orders", b"%d" % number)
        options = {"brokers": cluster.nameservers, "startingOffsets": "earliest"}
        assert len(new_rows(spark, tmp_path, **options)) == 6
        moved(tmp_path, "orders=-1h", "orders/broker-a/0=4", "--nameserver", cluster.nameservers)
        assert new_rows(spark, tmp_path, **options) == [(0, 4), (0, 5)]
        # A topic that was made anew: the old offsets are of another one, and the move takes over its id.
        admin.delete_topic("orders")
        admin.create_topic("orders", queues=1)
        with litemq.Producer(cluster.nameservers) as producer:
            producer.send("orders", b"new")
        moved(tmp_path, "*=earliest", "--nameserver", cluster.nameservers)
        assert new_rows(spark, tmp_path, **options) == [(0, 6)]  # offsets go on
