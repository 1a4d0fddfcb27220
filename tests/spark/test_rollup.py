"""Statistics by the hour, made by a real Spark of lakes, stores and brokers, beside a plain count of the messages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.store_files import Put, StoreFiles

import litemq
from litemq.cli.pipeline_frame import write_report
from litemq.spark.jobs.archive import Archive
from litemq.spark.jobs.job import Run, Source
from litemq.spark.jobs.rollup import HOUR_MS, Rollup
from litemq.spark.lake import group_statistics, topic_statistics
from litemq.spark.lake.table import BadLake
from litemq.testing import broker
from litemq.types import Message

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

T0 = 1_700_000_000_000 // HOUR_MS * HOUR_MS
TOPICS = ("orders", "bills", "%DLQ%billing", "%RETRY%billing")


def add(store: StoreFiles, count: int, *, late: int = 0) -> None:
    """Append messages, 20 an hour; ``late`` of them carry a time of the first hour."""
    for _ in range(count):
        number = len(store.puts)
        time = T0 + (number if late <= 0 else number % 20) * HOUR_MS // 20
        late -= 1
        message = Message(
            TOPICS[number % 7 % 4],
            b"x" * number,
            queue_id=number % 2,
            tags=(f"t{number % 3}",) if number % 5 else (),
            born_time=time - number,
            born_host=f"10.0.0.{number % 4}:5000",
        )
        store.add(message, store_time=time)
    store.write()


def hour_of(put: Put) -> tuple[str, str, str]:
    moment = datetime.fromtimestamp(put.store_time // 1000, UTC)
    return put.message.topic, f"{moment:%Y-%m-%d}", f"{moment:%H}"


def check(spark: Any, lake: Path, puts: list[Put]) -> None:  # noqa: ANN401 - Spark's session
    """Compare the tables with a plain count."""
    hours: dict[tuple[str, str, str], list[Put]] = defaultdict(list)
    for put in puts:
        hours[hour_of(put)].append(put)
    rows = {(row.topic, row.dt, row.hour): row for row in table(spark, lake, "topics")}
    assert rows.keys() == hours.keys()
    for hour, some in hours.items():
        row = rows[hour]
        assert (row.messages, row.bytes) == (len(some), sum(len(put.data) for put in some))
        latencies = sorted(put.store_time - put.message.born_time for put in some)
        assert row.latency_max_ms == latencies[-1]
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            assert row[f"latency_{name}_ms"] == latencies[max(0, -(-len(latencies) * share // 1) - 1).__int__()]
        assert row.producers == len({put.message.born_host for put in some})
        tags = Counter(put.message.tags[0] for put in some if put.message.tags)
        assert {one.tag: one.messages for one in row.top_tags} == tags
    dead = {(row.topic, row.dt, row.hour): (row.dead_letters, row.retries) for row in table(spark, lake, "groups")}
    for hour, some in hours.items():
        if hour[0].startswith("%"):
            assert dead[hour] == ((len(some), None) if hour[0].startswith("%DLQ%") else (None, len(some)))


def table(spark: Any, lake: Path, name: str) -> list[Any]:  # noqa: ANN401 - Spark's session
    read = topic_statistics if name == "topics" else group_statistics
    found: list[Any] = read(spark, lake).collect()
    return found


def test_a_lake_is_rolled_up_and_only_hours_that_changed_again(
    spark: Any,  # noqa: ANN401
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    store = StoreFiles(tmp_path / "store")
    add(store, 60)
    lake = tmp_path / "lake"
    archive = Archive(source=Source(str(tmp_path / "store")), lake=lake, kind="delta")
    archive.run(Run(spark))
    job = Rollup(lake=lake)
    assert {row[0] for row in job.plan(spark).rows} == set(TOPICS)
    assert not (lake / "rollup").exists()
    report = job.run(Run(spark))
    assert (report.figures["messages"], report.figures["hours"], report.figures["topics"]) == (60, 12, 4)
    check(spark, lake, store.puts)
    assert job.plan(spark).rows == []
    assert job.run(Run(spark)).figures["hours"] == 0
    check(spark, lake, store.puts)
    add(store, 6, late=3)
    archive.run(Run(spark))
    late = job.run(Run(spark))
    assert late.figures["hours"] == len({hour_of(put) for put in store.puts[60:]})
    check(spark, lake, store.puts)
    with pytest.raises(BadLake, match="there is no topic 'order' in"):
        replace(job, topics=("order",)).plan(spark)
    capfdbinary.readouterr()
    write_report(late, as_json=False)
    text = capfdbinary.readouterr().out.decode()
    assert "HOURS  MESSAGES  BYTES  P50 MS  P95 MS  P99 MS  PRODUCERS" in text
    assert "COMMITTED  LAG  DEAD LETTERS  RETRIES" in text


def test_what_retention_took_stays_counted(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    store = StoreFiles(tmp_path / "store")
    add(store, 50)
    lake = tmp_path / "lake"
    job = Rollup(lake=lake, source=Source(str(tmp_path / "store")), kind="parquet")
    assert job.run(Run(spark)).figures["messages"] == 50
    check(spark, lake, store.puts)
    assert job.run(Run(spark)).figures["messages"] == 0  # nothing was stored since
    # Another store has only the second half of the first hour, and more of the last one.
    rest = StoreFiles(tmp_path / "rest")
    for put in store.puts[10:]:
        rest.add(put.message, store_time=put.store_time)
    rest.add(store.puts[49].message, store_time=store.puts[49].store_time)
    rest.write()
    again = replace(job, source=Source(str(tmp_path / "rest")))
    assert again.run(Run(spark)).figures["messages"] == 41
    check(spark, lake, [*store.puts, rest.puts[-1]])
    some = replace(again, lake=tmp_path / "some", from_ms=T0 + HOUR_MS + 1, to_ms=T0 + 2 * HOUR_MS - 1)
    assert some.run(Run(spark)).figures["messages"] == 20


def test_groups_of_a_broker(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    lake = tmp_path / "lake"
    with broker() as running:
        with litemq.Admin(running.nameservers) as admin:
            admin.create_topic("orders", queues=1)
            admin.create_group("billing")
        with litemq.Producer(running.nameservers) as producer:
            for number in range(10):
                producer.send("orders", b"%d" % number, tags="paid")
        with litemq.Admin(running.nameservers) as admin:
            admin.reset_offset("billing", "orders", {0: 4})
        job = Rollup(lake=lake, source=Source(brokers=running.nameservers), topics=("orders",), kind="parquet")
        report = job.run(Run(spark))
        assert report.figures["messages"] == 10
        [row] = table(spark, lake, "groups")
        assert (row.group, row.topic, row.committed, row.max_offset, row.lag) == ("billing", "orders", 4, 10, 6)
        with litemq.Admin(running.nameservers) as admin:
            admin.reset_offset("billing", "orders", {0: 9})
        # The hour that goes on is computed again, and of the group the last place counts.
        assert job.run(Run(spark)).figures["messages"] == 10
        assert [row.lag for row in table(spark, lake, "groups")][-1] == 1
        [row] = [row for row in table(spark, lake, "topics") if row.messages]
        assert (row.topic, row.messages, row.producers) == ("orders", 10, 1)
        assert [(one.tag, one.messages) for one in row.top_tags] == [("paid", 10)]


def test_the_command_line(tmp_path: Path) -> None:
    store = StoreFiles(tmp_path / "store")
    add(store, 20)
    command = [sys.executable, "-m", "litemq", "pipeline", "rollup", "--path", "store", "--lake", "lake", "--json"]
    java = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    command += ["--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=1", "--conf", java]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["job"], report["status"], report["figures"]["messages"]) == ("rollup", "done", 20)
    assert {row["topic"] for row in report["topics"]} == set(TOPICS)
    assert [row["group"] for row in report["groups"]] == ["billing", "billing"]
