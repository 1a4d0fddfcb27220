"""Structured Streaming over store files: limits, replay from the checkpoint, losses, a topic made anew."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support.store_files import StoreFiles

from litemq.spark.errors import message_of
from litemq.types import Message

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]


def run(spark: Any, root: Path, **options: object) -> None:  # noqa: ANN401 - Spark's session
    """Read what is there into Parquet, once for each run."""
    frame = spark.readStream.format("litemq").options(startingOffsets="earliest", **options).load(str(root / "store"))
    query = (
        frame.select("topic", "queue_id", "queue_offset", "body")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(root / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(root / "out"))
    )
    query.awaitTermination()


def places(spark: Any, root: Path) -> list[tuple[str, int, int]]:  # noqa: ANN401 - Spark's session
    return sorted(tuple(row)[:3] for row in spark.read.parquet(str(root / "out")).collect())


def wanted(store: StoreFiles) -> list[tuple[str, int, int]]:
    return sorted((put.message.topic, put.message.queue_id, put.queue_offset) for put in store.puts)


def add(store: StoreFiles, count: int, topic: str = "orders") -> None:
    for number in range(count):
        store.add(Message(topic, b"x" * number, queue_id=number % 3))
    store.write()


def batches(root: Path) -> list[Path]:
    return sorted(
        (path for path in (root / "checkpoint" / "commits").iterdir() if path.name.isdigit()), key=lambda p: int(p.name)
    )


def test_growth_limits_new_topics_and_replay(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    store = StoreFiles(tmp_path / "store", segment_size=1 << 15)
    add(store, 60)
    run(spark, tmp_path, maxOffsetsPerTrigger=20)
    assert places(spark, tmp_path) == wanted(store)
    assert len(batches(tmp_path)) >= 3
    add(store, 10)
    add(store, 10, "bills")
    run(spark, tmp_path)
    assert places(spark, tmp_path) == wanted(store)
    # A crash behind the sink's work and before Spark's note of it: the same batch again, and nothing twice.
    last = batches(tmp_path)[-1]
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink()
    add(store, 5)
    run(spark, tmp_path, maxBytesPerTrigger="1k")
    assert places(spark, tmp_path) == wanted(store)


def test_offsets_name_the_log(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    store = StoreFiles(tmp_path / "store")
    add(store, 6)
    run(spark, tmp_path)
    text = (tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()[-1]
    found = json.loads(text)
    assert found["v"] == 1
    assert found["t"]["orders"]["q"] == {"0": 2, "1": 2, "2": 2}
    shutil.rmtree(tmp_path / "store")
    other = StoreFiles(tmp_path / "store")
    add(other, 9, "others")
    with pytest.raises(Exception, match="another log") as caught:
        run(spark, tmp_path)
    assert "onDataLoss" in message_of(caught.value)
    run(spark, tmp_path, onDataLoss="record", dataLossLog=tmp_path / "lost")
    assert "another log" in (tmp_path / "lost").read_text()
    assert places(spark, tmp_path) == sorted(wanted(store) + wanted(other))
