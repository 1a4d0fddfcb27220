"""Views over files and running brokers, and streams that start at a group's offsets or tell a group theirs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.dead_letters import Death
from tests.support.store_files import StoreFiles

import litemq
from litemq.client.live_reads import LiveReader
from litemq.spark.errors import message_of
from litemq.testing import Broker, broker
from litemq.types import Message

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

EVERY = {(queue_id, offset) for queue_id in (0, 1) for offset in range(5)}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Broker]:
    """Give a broker with ten messages in the two queues of ``orders``, of which ``billing`` has read three of one."""
    with broker() as found, litemq.Admin(found.nameservers) as admin:
        admin.create_topic("orders", queues=2)
        admin.create_topic("empty", queues=1)
        admin.create_group("billing")
        with litemq.Producer(found.nameservers) as producer:
            for number in range(10):
                producer.send("orders", b"%d" % number)
        with LiveReader(found.nameservers) as reader:
            reader.commit("broker-a", "billing", "orders", 0, 3)
        yield found


def live(spark: Any, cluster: Broker, **options: object) -> Any:  # noqa: ANN401 - Spark's session and frame
    return spark.read.format("litemq").options(brokers=cluster.nameservers, **options).load()


def places(frame: Any) -> set[tuple[int, int]]:  # noqa: ANN401 - Spark's frame
    return {(row.queue_id, row.queue_offset) for row in frame.select("queue_id", "queue_offset").collect()}


def streamed(spark: Any, root: Path, **options: object) -> set[tuple[int, int]]:  # noqa: ANN401 - Spark's session
    """Read a stream to its end, on from its checkpoint; return all that it has ever read."""
    frame = spark.readStream.format("litemq").options(subscribe="orders", **options).load()
    query = (
        frame.select("queue_id", "queue_offset")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(root / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(root / "out"))
    )
    query.awaitTermination()
    return places(spark.read.schema("queue_id INT, queue_offset BIGINT").parquet(str(root / "out")))


def stored(root: Path) -> Path:
    """Write a store with ten messages in two queues, of which ``billing`` has read three of one."""
    store = StoreFiles(root / "store")
    for number in range(10):
        store.add(Message("orders", b"x", queue_id=number % 2))
    store.write()
    progress = root / "store" / "config" / "consumerOffset.json"
    progress.parent.mkdir()
    progress.write_text('{"offsetTable": {"orders@billing": {0: 3}}}')
    return root / "store"


def test_views_over_brokers(spark: Any, cluster: Broker) -> None:  # noqa: ANN401
    queues = live(spark, cluster, view="queues", subscribe="orders").orderBy("queue_id").collect()
    assert [(row.broker, row.queue_id, row.min_offset, row.max_offset, row.messages) for row in queues] == [
        ("broker-a", 0, 0, 5, 5),
        ("broker-a", 1, 0, 5, 5),
    ]
    assert all(row.bytes > 5 * 50 and row.first_timestamp <= row.last_timestamp for row in queues)
    topics = {row.topic: row for row in live(spark, cluster, view="topics").collect()}
    assert {name for name in topics if not name.startswith("%")} == {"orders", "empty"}  # no broker's own
    assert (topics["orders"].queues, topics["orders"].messages) == (2, 10)
    assert topics["orders"].first_timestamp == min(row.first_timestamp for row in queues)
    assert (topics["empty"].messages, topics["empty"].last_timestamp) == (0, None)
    groups = live(spark, cluster, view="groups").where("`group` = 'billing'").orderBy("queue_id").collect()
    assert [(row.topic, row.broker, row.queue_id, row.offset, row.max_offset, row.lag) for row in groups] == [
        ("orders", "broker-a", 0, 3, 5, 2),
        ("orders", "broker-a", 1, 0, 5, 5),
    ]
    with pytest.raises(Exception, match="segments") as caught:
        live(spark, cluster, view="segments").collect()
    assert "view=segments needs path" in message_of(caught.value)


def test_dead_letters_of_brokers(spark: Any, cluster: Broker) -> None:  # noqa: ANN401
    death = Death(cluster.nameservers, cluster.address)
    try:
        death.dead_in("returns", "losers", [b"1", b"2"])
    finally:
        death.close()
    rows = live(spark, cluster, view="dlq").collect()
    assert {(row.group, row.origin_topic, row.topic, bytes(row.body)) for row in rows} == {
        ("losers", "returns", "%DLQ%losers", b"1"),
        ("losers", "returns", "%DLQ%losers", b"2"),
    }


def test_topics_of_files(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    root = stored(tmp_path)
    for with_queues in (True, False):
        if not with_queues:
            shutil.rmtree(root / "consumequeue")
        (row,) = spark.read.format("litemq").options(path=str(root), view="topics").load().collect()
        assert (row.topic, row.queues, row.messages) == ("orders", 2, 10)
        assert row.bytes > 10 * 50
        assert row.first_timestamp < row.last_timestamp


@pytest.mark.parametrize("is_live", [True, False], ids=["brokers", "path"])
def test_a_batch_and_a_stream_start_at_a_group(spark: Any, cluster: Broker, is_live: bool, tmp_path: Path) -> None:  # noqa: ANN401
    place = {"brokers": cluster.nameservers} if is_live else {"path": str(stored(tmp_path))}
    options = {**place, "startingOffsets": "group:billing"}
    behind = {(0, 3), (0, 4)}
    batch = spark.read.format("litemq").options(**options, subscribe="orders").load()
    assert places(batch) == behind | {one for one in EVERY if one[0] == 1}  # earliest where it has no offset
    assert streamed(spark, tmp_path, **options) == behind  # a stream: latest
    with pytest.raises(Exception, match="nobody"):
        spark.read.format("litemq").options(**place, startingOffsets="group:nobody").load().count()


def test_a_stream_tells_its_group_what_it_has_read(spark: Any, cluster: Broker, tmp_path: Path) -> None:  # noqa: ANN401
    options = {"brokers": cluster.nameservers, "consumerGroup": "spark-orders", "startingOffsets": "earliest"}
    assert streamed(spark, tmp_path, **options, maxOffsetsPerTrigger=2) == EVERY
    batches = {int(path.name): path for path in (tmp_path / "checkpoint" / "offsets").iterdir() if path.name.isdigit()}
    before_last = json.loads(batches[max(batches) - 1].read_text().splitlines()[-1])["t"]["orders"]["q"]
    with litemq.Admin(cluster.nameservers) as admin:
        told = {f"broker-a/{queue.queue_id}": queue.offset for queue in admin.lag("spark-orders").queues}
    assert told == before_last  # Spark says that a batch is done when it makes the next


def test_where_a_consumer_group_cannot_be(spark: Any, cluster: Broker, tmp_path: Path) -> None:  # noqa: ANN401
    with pytest.raises(Exception, match="consumerGroup needs brokers"):
        streamed(spark, tmp_path, path=str(stored(tmp_path)), consumerGroup="g")
    with pytest.raises(Exception, match="consumerGroup is of streams"):
        live(spark, cluster, subscribe="orders", consumerGroup="g").count()
    with pytest.raises(Exception, match="no group"):
        streamed(spark, tmp_path, brokers=cluster.nameservers, consumerGroup="no group")
