"""A real Spark over store files: rows, schemas, views, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceReader
from tests.support.spark_rows import Row, expected
from tests.support.store_files import StoreFiles
from tests.unit.spark.test_files import filled
from tests.unit.store.walk_support import unpack_rocketmq

from litemq.spark.errors import message_of
from litemq.spark.reader import LiteMQReader
from litemq.types import Message

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]


def load(spark: Any, path: Path, **options: object) -> Any:  # noqa: ANN401 - Spark's session and frame
    return spark.read.format("litemq").options(**options).load(str(path))


def rows_of(frame: Any) -> list[Row]:  # noqa: ANN401 - Spark's frame
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=lambda row: row["physical_offset"])


def plain(rows: list[Row]) -> list[Row]:
    """Return rows as Spark collects them: maps are dicts, times have no zone."""
    found = []
    for row in rows:
        row = {
            name: value.replace(tzinfo=None) if name.endswith("_timestamp") and value else value
            for name, value in row.items()
        }
        found.append({**row, "properties": dict(row["properties"])})
    return found


@pytest.mark.parametrize("fmt", ["litemq", "rocketmq", "blueprint"])
def test_rows_equal_those_of_a_plain_read(spark: Any, fmt: str, tmp_path: Path) -> None:  # noqa: ANN401
    filled(tmp_path, fmt, 7, 60).write()
    for size in ("900", "64m"):
        assert rows_of(load(spark, tmp_path, maxPartitionBytes=size)) == plain(expected(tmp_path))


def test_a_real_rocketmq_store(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    store = unpack_rocketmq("killed", tmp_path)
    assert rows_of(load(spark, store)) == plain(expected(store))


def test_columns_and_schemas(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    filled(tmp_path, "litemq", 3, 40).write()
    every = plain(expected(tmp_path))
    frame = load(spark, tmp_path, columns="queue_offset, topic,physical_offset")
    assert frame.columns == ["queue_offset", "topic", "physical_offset"]
    assert [row["topic"] for row in rows_of(frame)] == [row["topic"] for row in every]
    frame = spark.read.format("litemq").schema("physical_offset BIGINT, all_keys ARRAY<STRING>").load(str(tmp_path))
    assert [row["all_keys"] for row in rows_of(frame)] == [row["all_keys"] for row in every]
    kafka = load(spark, tmp_path, schemaMode="kafka", includeHeaders="true").collect()
    assert sorted(bytes(row["value"]) for row in kafka) == sorted(row["body"] for row in every)
    assert [row["timestampType"] for row in kafka] == [1] * len(every)
    with pytest.raises(Exception, match="no column 'bodi'"):
        load(spark, tmp_path, columns="bodi")


def test_values(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    store = StoreFiles(tmp_path)
    for body in (b'{"id": 1, "name": "a"}', b"no json", b"\xff"):
        store.add(Message("orders", body))
    store.write()
    frame = load(spark, tmp_path, valueFormat="string", columns="body,_corrupt")
    assert [row["body"] for row in frame.collect()] == ['{"id": 1, "name": "a"}', "no json", None]
    frame = load(spark, tmp_path, valueFormat="json", valueSchema="id BIGINT, name STRING")
    assert [row["id"] for row in frame.select("body.id").collect()] == [1, None, None]
    assert frame.where("_corrupt is not null").count() == 2


def test_one_frame_used_twice(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    filled(tmp_path, "litemq", 5, 40).write()
    total = len(expected(tmp_path))
    frame = load(spark, tmp_path)
    some = frame.where("topic = 'orders'").count()
    assert 0 < some < total
    assert frame.count() == total
    assert frame.where("topic = 'orders'").union(frame.where("topic <> 'orders'")).count() == total
    left, right = frame.where("topic = 'orders'").alias("a"), frame.alias("b")
    assert left.join(right, "physical_offset").count() == some
    assert right.join(left, "physical_offset", "left_anti").count() == total - some
    frame.createOrReplaceTempView("twice")
    try:
        assert spark.sql("SELECT count(*) FROM twice WHERE topic = 'orders'").first()[0] == some
        assert spark.sql("SELECT count(*) FROM twice").first()[0] == total
    finally:
        spark.catalog.dropTempView("twice")
    assert not hasattr(LiteMQReader, "pushFilters") or LiteMQReader.pushFilters is DataSourceReader.pushFilters
    with pytest.raises(Exception, match="filterPushdown is off for good"):
        load(spark, tmp_path, filterPushdown="true")


def test_views(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    store = StoreFiles(tmp_path)
    for number in range(10):
        store.add(Message("orders", b"x", queue_id=number % 2))
    store.add(Message("%DLQ%billing", b"x", properties={"DLQ_GROUP": "billing", "DLQ_RETRY_COUNT": "16"}))
    store.write()
    progress = tmp_path / "config" / "consumerOffset.json"
    progress.parent.mkdir()
    progress.write_text('{"offsetTable": {"orders@billing": {0: 3, 1: 5}}}')
    queues = {
        (row["topic"], row["queue_id"]): row["messages"] for row in load(spark, tmp_path, view="queues").collect()
    }
    assert queues == {("orders", 0): 5, ("orders", 1): 5, ("%DLQ%billing", 0): 1}
    groups = load(spark, tmp_path, view="groups").orderBy("queue_id").collect()
    assert [(row["group"], row["offset"], row["lag"]) for row in groups] == [("billing", 3, 2), ("billing", 5, 0)]
    assert load(spark, tmp_path, view="segments").first()["format"] == "litemq"
    (dead,) = load(spark, tmp_path, view="dlq").collect()
    assert (dead["group"], dead["retry_count"], dead["topic"]) == ("billing", 16, "%DLQ%billing")


def test_an_empty_store(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    (tmp_path / "commitlog").mkdir()
    assert load(spark, tmp_path).count() == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribes": "orders"}, "unknown option .subscribes.; did you mean subscribe"),
        ({"subscribe": "order"}, "there is no topic .order"),
        ({"view": "queue"}, "view is .queue.; it must be one of"),
        ({"onCorrupt": "fail"}, "damaged record at position .* onCorrupt"),
    ],
)
def test_errors_say_what_to_change(spark: Any, options: dict[str, str], said: str, tmp_path: Path) -> None:  # noqa: ANN401
    store = filled(tmp_path, "litemq", 5, 40)
    place = store.puts[5].position
    store.segments[0][place + 50] ^= 0xFF
    store.write()
    with pytest.raises(Exception, match=said) as caught:
        load(spark, tmp_path, **options).collect()
    text = message_of(caught.value)
    assert "Traceback" not in text
    assert "\tat " not in text


def test_no_store(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    with pytest.raises(Exception, match="no such file or directory"):
        load(spark, tmp_path / "nothing").collect()
