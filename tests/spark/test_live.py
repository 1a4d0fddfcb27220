"""A real Spark over running brokers: batches, streams, exactly-once writes, and what goes wrong."""

from __future__ import annotations

import itertools
import json
import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.test_several_brokers import second_broker

import litemq
from litemq.spark.errors import message_of
from litemq.spark.listener import LiteMQQueryListener
from litemq.testing import Broker, broker

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker() as first, second_broker(first, tmp_path_factory.mktemp("second")):
        yield first


@pytest.fixture
def make(cluster: Broker) -> Callable[[], str]:
    """Make topics on both brokers."""

    def made() -> str:
        name = f"topic-{next(_numbers)}"
        with litemq.Admin(cluster.nameservers) as admin:
            admin.create_topic(name, queues=4)
        return name

    return made


def fill(cluster: Broker, topic: str, bodies: list[bytes]) -> None:
    with litemq.BatchTransactions(cluster.nameservers) as batches:
        name = f"fill-{next(_numbers)}"
        rows = [litemq.Message(topic, body, keys=body.decode(), tags="t") for body in bodies]
        batches.commit(name, 0, [batches.stage(name, 0, 0, 1, rows)])
    published(cluster)


def published(cluster: Broker) -> None:
    """Wait until all committed rows are in their topics."""
    deadline = time.monotonic() + 60
    with litemq.Admin(cluster.nameservers) as admin:
        while any(one.unpublished for one in admin.batch_transactions()):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def load(spark: Any, cluster: Broker, topic: str, **options: object) -> Any:  # noqa: ANN401 - Spark's session and frame
    given = {"brokers": cluster.nameservers, "subscribe": topic, **options}
    return spark.read.format("litemq").options(**given).load()


def bodies_of(frame: Any) -> Counter[bytes]:  # noqa: ANN401 - Spark's frame
    return Counter(bytes(row.body) for row in frame.select("body").collect())


def stream(spark: Any, cluster: Broker, topic: str, **options: object) -> Any:  # noqa: ANN401 - Spark's session and frame
    given = {"brokers": cluster.nameservers, "subscribe": topic, "startingOffsets": "earliest", **options}
    return spark.readStream.format("litemq").options(**given).load()


def run(frame: Any, cluster: Broker, to: str, checkpoint: Path, **options: object) -> Any:  # noqa: ANN401 - Spark's
    """Write a stream until all that is there now was read; return its query."""
    given = {"brokers": cluster.nameservers, "topic": to, "checkpointLocation": str(checkpoint), **options}
    query = frame.writeStream.format("litemq").options(**given).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return query


def test_a_batch_from_two_brokers(spark: Any, cluster: Broker, make: Callable[[], str]) -> None:  # noqa: ANN401
    topic = make()
    wanted = [b"%d" % number for number in range(400)]
    fill(cluster, topic, wanted)
    for options in ({}, {"maxRecordsPerPartition": 7}, {"minPartitions": 9}, {"maxPartitionBytes": "2k"}):
        assert bodies_of(load(spark, cluster, topic, **options)) == Counter(wanted)
    frame = load(spark, cluster, topic)
    assert {row.broker for row in frame.select("broker").distinct().collect()} == {"broker-a", "second"}
    places = frame.selectExpr("broker", "queue_id", "queue_offset", "physical_offset").distinct().count()
    assert places == 400
    assert bodies_of(load(spark, cluster, topic, keys="17,399")) == Counter([b"17", b"399"])
    assert load(spark, cluster, topic, tags="other").count() == 0
    kafka = load(spark, cluster, topic, schemaMode="kafka")
    assert sorted(bytes(row.value) for row in kafka.collect()) == sorted(wanted)


def test_columns_of_a_live_read_are_those_of_a_message(
    spark: Any,  # noqa: ANN401
    cluster: Broker,
    make: Callable[[], str],
) -> None:
    topic = make()
    with litemq.Producer(cluster.nameservers) as producer:
        sent = producer.send(topic, b"17 apples", tags="paid", keys=["o-17", "x"], properties={"region": "eu"})
    [row] = load(spark, cluster, topic).collect()
    assert (row.topic, row.broker, row.queue_id, row.queue_offset) == (
        topic,
        sent.broker,
        sent.queue_id,
        sent.queue_offset,
    )
    assert (bytes(row.body), row.tags, row.keys, row.all_keys) == (b"17 apples", "paid", "o-17", ["o-17", "x"])
    assert row.properties["region"] == "eu"
    assert (row.message_id, row.format) == (sent.message_id, "litemq")


def test_what_is_written_is_there_once(spark: Any, cluster: Broker, make: Callable[[], str]) -> None:  # noqa: ANN401
    topic = make()
    frame = spark.range(300).selectExpr(
        "cast(id as string) AS body",
        f"'{topic}' AS topic",
        "concat('k', id) AS keys",
        "'t' AS tags",
        "map('half', cast(id div 2 as string)) AS properties",
        "cast(id % 4 as int) AS queue_id",
        "id AS number",
    )
    options = {"brokers": cluster.nameservers, "writeId": f"w-{topic}", "extraColumns": "properties"}
    for _ in range(2):  # the second time it is there already
        frame.repartition(3).write.format("litemq").options(**options).mode("append").save()
        published(cluster)
    rows = load(spark, cluster, topic).collect()
    assert Counter(int(row.body) for row in rows) == Counter(range(300))
    for row in rows:
        number = int(row.body)
        assert (row.keys, row.tags) == (f"k{number}", "t")
        assert (row.properties["half"], row.properties["number"]) == (str(number // 2), str(number))
    assert len({(row.broker, row.queue_id) for row in rows}) == 4


@pytest.mark.parametrize(
    ("select", "options", "told"),
    [
        ("'x' AS text", {"topic": "T"}, "a column body"),
        ("'x' AS body", {}, "nothing says where messages go"),
        ("'x' AS body, 1 AS colour", {"topic": "T"}, "unknown column colour"),
        ("'x' AS body, 1 AS tagz", {"topic": "T"}, "did you mean tags"),
        ("'x' AS body, now() AS deliver_timestamp", {"topic": "T"}, "deliver_timestamp is refused"),
        ("1.5 AS body", {"topic": "T"}, "must be binary or string"),
        ("'x' AS body, 'x' AS value", {"topic": "T"}, "mean the same"),
        ("'x' AS body", {"topic": "T", "brokers": ""}, "brokers is missing"),
        ("'x' AS body", {"topic": "T", "topik": "x"}, "did you mean topic"),
        ("'x' AS body", {"topic": "T", "delivery": "never"}, "must be one of: exactly-once"),
        ("cast(NULL AS string) AS body", {"topic": "T"}, "a row has no body"),
    ],
)
def test_wrong_writes_say_what_to_do(
    spark: Any,  # noqa: ANN401
    cluster: Broker,
    select: str,
    options: dict[str, str],
    told: str,
) -> None:
    frame = spark.range(1).selectExpr(*select.split(", "))
    given = {"brokers": cluster.nameservers, **options}
    with pytest.raises(Exception, match="(?s)" + told) as caught:
        frame.write.format("litemq").options(**{k: v for k, v in given.items() if v}).mode("append").save()
    assert told in message_of(caught.value)


def test_overwrite_is_refused(spark: Any, cluster: Broker) -> None:  # noqa: ANN401
    frame = spark.range(1).selectExpr("'x' AS body", "'T' AS topic")
    with pytest.raises(Exception, match="overwrite is refused"):
        frame.write.format("litemq").option("brokers", cluster.nameservers).mode("overwrite").save()


def test_a_stream_goes_on_where_it_was(
    spark: Any,  # noqa: ANN401
    cluster: Broker,
    make: Callable[[], str],
    tmp_path: Path,
) -> None:
    source, to = make(), make()
    done: list[bytes] = []
    for turn in range(3):
        more = [b"%d-%d" % (turn, number) for number in range(100)]
        fill(cluster, source, more)
        done += more
        options = {"maxOffsetsPerTrigger": 30} if turn == 1 else {"maxBytesPerTrigger": "5k"} if turn == 2 else {}
        query = run(
            stream(spark, cluster, source, **options).selectExpr("body").repartition(2), cluster, to, tmp_path / "c"
        )
        assert query.exception() is None
        if options:
            assert len([one for one in query.recentProgress if one.numInputRows]) >= 3
        published(cluster)
        assert bodies_of(load(spark, cluster, to)) == Counter(done)


@pytest.mark.parametrize("what", ["commits", "both"])
def test_a_batch_that_comes_again_is_written_once(
    spark: Any,  # noqa: ANN401
    cluster: Broker,
    make: Callable[[], str],
    tmp_path: Path,
    what: str,
) -> None:
    source, to = make(), make()
    wanted = [b"%d" % number for number in range(200)]
    fill(cluster, source, wanted)
    frame = stream(spark, cluster, source, maxOffsetsPerTrigger=80).selectExpr("body").repartition(3)
    run(frame, cluster, to, tmp_path)
    newest = max((one for one in (tmp_path / "commits").iterdir() if one.name.isdigit()), key=lambda one: int(one.name))
    newest.unlink()  # as if the driver had died behind the commit of the sink
    (newest.parent / f".{newest.name}.crc").unlink()
    if what == "both":
        fill(cluster, source, [b"later"])
        wanted.append(b"later")
    run(frame, cluster, to, tmp_path)
    published(cluster)
    assert bodies_of(load(spark, cluster, to)) == Counter(wanted)


def test_tasks_that_fail_first(
    spark: Any,  # noqa: ANN401
    cluster: Broker,
    make: Callable[[], str],
    tmp_path: Path,
) -> None:
    from pyspark.errors import StreamingQueryException

    source, to = make(), make()
    wanted = [b"%d" % number for number in range(300)]
    fill(cluster, source, wanted)
    mark = str(tmp_path / "failed")

    def fail_once(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches
        try:
            with open(mark, "x"):  # noqa: PTH123 - shipped to a worker
                pass
        except FileExistsError:
            return
        raise ValueError("a task dies behind its last row")

    frame = stream(spark, cluster, source).select("body").repartition(2).mapInArrow(fail_once, "body BINARY")
    given = {"brokers": cluster.nameservers, "topic": to, "checkpointLocation": str(tmp_path / "c")}
    for _ in range(2):  # with one slot for failures the query fails, and its abort leaves the epoch open
        query = frame.writeStream.format("litemq").options(**given).trigger(availableNow=True).start()
        with suppress(StreamingQueryException):
            query.awaitTermination(120)
            break
    assert Path(mark).exists()
    published(cluster)
    assert bodies_of(load(spark, cluster, to)) == Counter(wanted)


@pytest.mark.parametrize("policy", ["fail", "skip", "record"])
def test_what_is_gone_is_told_exactly(
    spark: Any,  # noqa: ANN401
    cluster: Broker,
    make: Callable[[], str],
    tmp_path: Path,
    policy: str,
) -> None:
    source, to = make(), make()
    fill(cluster, source, [b"%d" % number for number in range(80)])
    options = {"onDataLoss": policy, "maxOffsetsPerTrigger": 80}
    log = tmp_path / "lost.jsonl"
    if policy == "record":
        options["dataLossLog"] = str(log)
    frame = stream(spark, cluster, source, **options).select("body")
    query = frame.writeStream.format("litemq").options(
        brokers=cluster.nameservers, topic=to, checkpointLocation=str(tmp_path / "c")
    )
    assert query.trigger(availableNow=True).start().awaitTermination(120)
    published(cluster)
    read = load(spark, cluster, to).count()
    assert read == 80
    fill(cluster, source, [b"%d" % number for number in range(80)])
    with litemq.Admin(cluster.nameservers) as admin:
        admin.purge_topic(source, before=int(time.time() * 1000) + 60_000)
    fill(cluster, source, [b"behind"])
    again = query.trigger(availableNow=True).start()
    if policy == "fail":
        with pytest.raises(Exception, match="are gone"):
            again.awaitTermination(120)
        assert f"{source}/" in str(again.exception())
        return
    assert again.awaitTermination(120)
    published(cluster)
    found = bodies_of(load(spark, cluster, to))
    assert found[b"behind"] == 1
    assert sum(found.values()) == read + 1
    if policy == "record":
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert sum(line["count"] for line in lines) == 80
        assert all(line["to"] - line["from"] == line["count"] for line in lines)


def test_a_listener_tells_the_group(
    spark: Any,  # noqa: ANN401
    cluster: Broker,
    make: Callable[[], str],
    tmp_path: Path,
) -> None:
    source, to = make(), make()
    fill(cluster, source, [b"%d" % number for number in range(50)])
    query = run(stream(spark, cluster, source).select("body"), cluster, to, tmp_path / "c")
    group = f"group-{source}"
    listener = LiteMQQueryListener(cluster.nameservers, group)
    for progress in query.recentProgress:
        for told in progress.sources:
            listener.tell(told.endOffset)
    with litemq.Admin(cluster.nameservers) as admin:
        assert admin.lag(group).topics[source] == 0


def test_wrong_reads_say_what_to_do(spark: Any, cluster: Broker) -> None:  # noqa: ANN401
    with pytest.raises(Exception, match="there is no topic 'nobodys'"):
        load(spark, cluster, "nobodys").collect()
    with pytest.raises(Exception, match="exclude each other"):
        load(spark, cluster, "T", path="/tmp/x").collect()
    with pytest.raises(Exception, match="no name server answers"):
        spark.read.format("litemq").option("brokers", "127.0.0.1:1").load().collect()


def test_of_two_attempts_one_wins_and_an_abort_behind_changes_nothing(
    spark: Any,  # noqa: ANN401
    cluster: Broker,
    make: Callable[[], str],
) -> None:
    import pyarrow as pa

    from litemq.spark.write_options import write_options
    from litemq.spark.writer import LiteMQWriter

    topic = make()
    options = write_options({"brokers": cluster.nameservers, "topic": topic}, is_stream=False)
    writer = pickle.loads(pickle.dumps(LiteMQWriter(options)))
    batch = pa.record_batch({"body": [b"%d" % number for number in range(50)]})
    first = writer.write(iter([batch]))
    second = writer.write(iter([batch]))  # speculation: the same partition again
    assert first.staged.attempt != second.staged.attempt
    writer.commit([second])
    writer.abort([first, second])
    writer.commit([second])
    again = writer.write(iter([batch]))
    assert (again.staged.state, again.staged.count) == ("committed", 0)
    published(cluster)
    assert bodies_of(load(spark, cluster, topic)) == Counter(b"%d" % number for number in range(50))


def test_at_least_once_sends_at_once(spark: Any, cluster: Broker, make: Callable[[], str]) -> None:  # noqa: ANN401
    topic = make()
    frame = spark.range(1200).selectExpr("cast(id AS string) AS body", f"'{topic}' AS topic")
    options = {"brokers": cluster.nameservers, "delivery": "at-least-once", "writeId": "w"}
    frame.repartition(2).write.format("litemq").options(**options).mode("append").save()
    rows = load(spark, cluster, topic).selectExpr("body", "properties['SPARK_ROW_ID'] AS id").collect()
    assert Counter(int(row.body) for row in rows) == Counter(range(1200))
    assert len({row.id for row in rows}) == 1200
