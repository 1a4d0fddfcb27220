"""Archives of real stores by a real Spark: row by row what the store holds, whatever dies in between."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.store_files import StoreFiles

import litemq
from litemq.cli.pipeline_frame import write_report
from litemq.spark import lake
from litemq.spark.errors import message_of
from litemq.spark.jobs.archive import Archive
from litemq.spark.jobs.job import Report, Run, Source
from litemq.spark.lake.messages import LAYOUT, messages_log, with_hour
from litemq.spark.lake.table import BadLake, Change, Log
from litemq.spark.lake.writing import Key, Writer, writing
from litemq.spark.live import reader_of
from litemq.testing import broker
from litemq.types import Message

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

MINUTE_MS = 60_000
T0 = 1_700_000_000_000
KINDS = ["parquet", "delta"]


def add(store: StoreFiles, count: int, topics: tuple[str, ...] = ("orders", "bills", "%DLQ%billing")) -> None:
    """Append messages of several topics over some hours, and write the files."""
    chance = random.Random(len(store.puts))
    for _ in range(count):
        number = len(store.puts)
        message = Message(
            chance.choice(topics),
            chance.randbytes(chance.randrange(200)),
            queue_id=chance.randrange(3),
            tags=("paid",) if number % 3 else (),
            keys=(f"k-{number}",),
            properties={"number": str(number)},
            born_time=T0 + number * MINUTE_MS - 7,
        )
        store.add(message, store_time=T0 + number * MINUTE_MS)
    store.write()


def archive(root: Path, kind: str = "parquet", **more: Any) -> Archive:  # noqa: ANN401 - fields of the job
    return Archive(source=Source(str(root / "store")), lake=root / "lake", kind=kind, **more)


def rows(frame: Any) -> list[tuple[object, ...]]:  # noqa: ANN401 - Spark's frame
    """Return all columns of all rows, in the order of places."""
    found = [tuple(sorted(cell.items()) if isinstance(cell, dict) else cell for cell in row) for row in frame.collect()]
    return sorted(found, key=lambda row: (row[0], row[2], row[3]))


def of_store(spark: Any, root: Path) -> Any:  # noqa: ANN401 - Spark's session and frame
    return spark.read.format("litemq").load(str(root / "store"))


def check_same(spark: Any, root: Path) -> None:  # noqa: ANN401 - Spark's session
    """Compare lake and store, and the files that are there with those that count."""
    kept, stored = lake.messages(spark, root / "lake"), of_store(spark, root)
    assert kept.schema == stored.schema
    assert rows(kept) == rows(stored)


def check_no_leftovers(root: Path) -> None:
    folder = root / "lake" / "messages"
    there = {str(path) for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts}
    assert there == set(lake.files(root / "lake"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_lake_holds_what_the_store_holds(spark: Any, tmp_path: Path, kind: str) -> None:  # noqa: ANN401
    store = StoreFiles(tmp_path / "store", segment_size=1 << 16)
    add(store, 120)
    job = archive(tmp_path, kind, batch_bytes="20000")
    assert {row[0]: row[2] for row in job.plan(spark).rows} == {
        topic: sum(put.message.topic == topic for put in store.puts) for topic in ("orders", "bills", "%DLQ%billing")
    }
    assert not (tmp_path / "lake").exists()
    report = job.run(Run(spark))
    assert (report.status, report.figures["messages"], report.figures["missing"]) == ("done", 120, 0)
    assert int(str(report.figures["batches"])) >= 2
    check_same(spark, tmp_path)
    assert [row[2] for row in job.plan(spark).rows] == [0, 0, 0]
    if kind == "parquet":
        again = job.run(Run(spark))
        assert (again.figures["messages"], again.figures["files"]) == (0, 0)
    # Growth, another topic, and small files that become larger ones.
    add(store, 40, ("orders", "new"))
    before = len(lake.files(tmp_path / "lake"))
    merged = replace(job, is_compacting=True, keep_replaced_s=0.0).run(Run(spark))
    assert merged.figures["messages"] == 40
    assert int(str(merged.figures["merged_into"])) < int(str(merged.figures["merged_files"]))
    assert len(lake.files(tmp_path / "lake")) < before
    check_same(spark, tmp_path)
    check_no_leftovers(tmp_path)
    # Times and topics choose files; lake and store can be unioned; other readers see the same rows.
    some = lake.messages(
        spark, tmp_path / "lake", topics=["orders"], from_ms=T0 + 50 * MINUTE_MS, to_ms=T0 + 90 * MINUTE_MS
    )
    wanted = [put for put in store.puts[50:90] if put.message.topic == "orders"]
    assert sorted(row.keys for row in some.select("keys").collect()) == sorted(put.message.keys[0] for put in wanted)
    assert some.inputFiles()
    assert len(some.inputFiles()) < len(lake.files(tmp_path / "lake"))
    assert some.union(of_store(spark, tmp_path)).count() == len(wanted) + 160
    if kind == "delta":
        from deltalake import DeltaTable

        found = DeltaTable(str(tmp_path / "lake" / "messages")).to_pyarrow_table(columns=["topic", "body"]).to_pylist()
        assert sorted((row["topic"], row["body"]) for row in found) == sorted(
            (put.message.topic, put.message.body) for put in store.puts
        )


def test_files_are_sorted_and_compressed_with_zstd(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    import pyarrow.parquet as pq

    store = StoreFiles(tmp_path / "store")
    add(store, 30, ("orders",))
    archive(tmp_path).run(Run(spark))
    for path in lake.files(tmp_path / "lake"):
        assert Path(path).parent.parent.parent.name == "topic=orders"
        found = pq.ParquetFile(path)
        column = found.schema_arrow.field("store_timestamp")
        assert str(column.type) == "timestamp[us, tz=UTC]"
        assert found.metadata.row_group(0).column(0).compression == "ZSTD"
        times = found.read(columns=["store_timestamp"])["store_timestamp"].to_pylist()
        assert times == sorted(times)
        hour = Path(path).parent
        assert {f"dt={time:%Y-%m-%d}/hour={time:%H}" for time in times} == {f"{hour.parent.name}/{hour.name}"}


# -- what dies in between -------------------------------------------------------------------------------------------


class Killed(Exception):
    """Stands for the end of the process: nothing of ours handles it."""


@dataclass
class DyingLog:
    """A table whose writer dies before or behind its next commit."""

    log: Log
    when: str

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the log has
        return getattr(self.log, name)

    def commit(self, change: Change) -> None:
        if self.when == "moved":
            raise Killed
        self.log.commit(change)
        raise Killed


@pytest.mark.parametrize(
    ("when", "kind"),
    [("staged", "parquet"), ("moved", "parquet"), ("moved", "delta"), ("committed", "parquet"), ("committed", "delta")],
)
def test_a_death_leaves_the_table_as_before_or_after(spark: Any, tmp_path: Path, kind: str, when: str) -> None:  # noqa: ANN401
    store = StoreFiles(tmp_path / "store")
    add(store, 30)
    frame = with_hour(of_store(spark, tmp_path))
    log = messages_log(tmp_path / "lake", kind)

    def die(staged: Path) -> None:
        raise Killed

    with writing(log, LAYOUT, "archive") as writer:
        dying = Writer(DyingLog(log, when), LAYOUT, "archive")
        with suppress(Killed):
            if when == "staged":
                writer.put(frame, Key("query", 0), look=die)
            else:
                dying.put(frame, Key("query", 0))
    assert len(log.files()) == (0 if when != "committed" else log.last_batch("query") == 0 and len(log.files()))
    assert any((log.root / "_stage" / "archive").iterdir())
    with writing(log, LAYOUT, "archive") as writer:
        assert not (log.root / "_stage" / "archive").exists()
        assert writer.has(Key("query", 0)) == (when == "committed")
        if when == "committed":
            check_no_leftovers(tmp_path)
        else:
            assert not list(log.root.rglob("*.zstd.parquet"))
            writer.put(frame, Key("query", 0))
    check_same(spark, tmp_path)
    check_no_leftovers(tmp_path)
    with writing(log, LAYOUT, "archive") as writer, pytest.raises(BadLake, match="batch 0 of query is committed"):
        writer.put(frame, Key("query", 0))
    check_same(spark, tmp_path)


def test_a_batch_that_comes_again_is_not_kept_again(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    store = StoreFiles(tmp_path / "store", segment_size=1 << 16)
    add(store, 40)
    job = archive(tmp_path, batch_bytes="8000")
    job.run(Run(spark))
    commits = job.checkpoint / "commits"
    last = max((path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    last.unlink()  # as if the driver had died behind the commit of the table
    (commits / f".{last.name}.crc").unlink()
    add(store, 10)
    report = job.run(Run(spark))
    assert (report.status, report.figures["messages"], report.figures["missing"]) == ("done", 10, 0)
    assert report.notes == [f"batch {last.name} was archived by a run that was killed, and is not counted here"]
    check_same(spark, tmp_path)


def test_a_job_that_is_stopped_goes_on(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    store = StoreFiles(tmp_path / "store", segment_size=1 << 16)
    add(store, 80)
    job = archive(tmp_path, batch_bytes="16000")
    asked = iter([False, True])
    report = job.run(Run(spark, should_stop=lambda: next(asked, True)))
    assert report.status == "stopped"
    assert 0 < int(str(report.figures["messages"])) < 80
    assert lake.messages(spark, tmp_path / "lake").count() == report.figures["messages"]
    assert job.run(Run(spark)).status == "done"
    check_same(spark, tmp_path)


COMMAND = [
    *(sys.executable, "-m", "litemq", "pipeline", "archive", "--json", "--master", "local[2]"),
    *("--conf", "spark.sql.shuffle.partitions=1"),
    *("--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
]


@pytest.mark.timeout(600)  # it starts Java twice, for which a busy machine takes minutes
def test_a_process_that_is_killed_goes_on_when_it_is_run_again(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    store = StoreFiles(tmp_path / "store", segment_size=1 << 20)
    add(store, 500)
    command = [*COMMAND, "--path", str(tmp_path / "store"), "--to", str(tmp_path / "lake"), "--format", "parquet"]
    with subprocess.Popen(
        [*command, "--batch-size", "9000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 300
        while len(messages_log(tmp_path / "lake", "parquet").files()) < 5:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.03)
        os.kill(process.pid, signal.SIGKILL)
    kept = rows(lake.messages(spark, tmp_path / "lake"))
    stored = rows(of_store(spark, tmp_path))
    assert 0 < len(kept) < len(stored)
    assert len({row[:4] for row in kept}) == len(kept)
    done = subprocess.run([*command, "--report", str(tmp_path / "report.json")], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report == json.loads((tmp_path / "report.json").read_text())
    assert (report["job"], report["status"]) == ("archive", "done")
    assert (report["figures"]["missing"], report["figures"]["repeated"]) == (0, 0)
    assert sum(row["to_offset"] - row["from_offset"] for row in report["queues"]) == report["figures"]["messages"]
    check_same(spark, tmp_path)
    check_no_leftovers(tmp_path)


# -- what is wrong --------------------------------------------------------------------------------------------------


@contextmanager
def refused(told: str) -> Iterator[None]:
    with pytest.raises(Exception, match="(?s)" + told) as caught:
        yield
    assert told in message_of(caught.value)


def test_what_would_keep_messages_twice_or_never_is_refused(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    store = StoreFiles(tmp_path / "store")
    add(store, 20)
    job = archive(tmp_path)
    with refused("there is no topic 'order'"):
        replace(job, source=Source(job.source.path, options={"subscribe": "order"})).run(Run(spark))
    job = archive(tmp_path)
    job.run(Run(spark))
    with refused("archives all topics from files, and a stream keeps to what it began with"):
        replace(job, source=Source(job.source.path, options={"subscribe": "orders"})).run(Run(spark))
    with refused("is a table of the kind parquet, not delta"):
        replace(job, kind="delta").plan(spark)
    away = job.checkpoint.rename(tmp_path / "away")
    with refused("is gone, which knows up to where"):
        job.run(Run(spark))
    away.rename(job.checkpoint)
    (tmp_path / "lake" / "messages").rename(tmp_path / "lake" / "moved")
    with refused("says that batch 0 is archived, and"):
        job.run(Run(spark))
    with refused("holds no messages; fill it with"):
        lake.messages(spark, tmp_path / "lake")


def test_a_damaged_record_stops_the_job_or_is_counted(
    spark: Any,  # noqa: ANN401
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    store = StoreFiles(tmp_path / "store", segment_size=1 << 16)
    add(store, 30, ("orders",))
    put = store.puts[10]
    [segment] = store.segments
    store.segments[segment][put.position - segment + len(put.data) // 2] ^= 0xFF
    store.write()
    job = archive(tmp_path)
    with refused("onCorrupt"):
        job.run(Run(spark))
    report = replace(job, on_corrupt="skip").run(Run(spark))
    assert (report.status, report.figures["messages"], report.figures["missing"]) == ("findings", 29, 1)
    [row] = [row for row in report.tables["queues"].to_json() if row["missing"]]
    assert (row["topic"], row["queue_id"], row["missing"]) == ("orders", put.message.queue_id, 1)
    capfdbinary.readouterr()
    write_report(report, as_json=False)
    text = capfdbinary.readouterr().out.decode()
    assert "FROM OFFSET  TO OFFSET  MESSAGES  MISSING  REPEATED" in text
    assert "missing: offsets that were read and have no message" in text


# -- brokers --------------------------------------------------------------------------------------------------------


def test_a_running_broker_keeps_what_is_not_archived_yet(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    rounds = 0
    reports: list[Report] = []
    with broker() as running:
        with litemq.Admin(running.nameservers) as admin:
            admin.create_topic("orders", queues=2)
        with litemq.Producer(running.nameservers) as producer:

            def send(count: int) -> None:
                for number in range(count):
                    producer.send("orders", b"%d" % number, tags="paid")

            send(30)
            job = Archive(
                source=Source(brokers=running.nameservers, options={"subscribe": "orders"}),
                lake=tmp_path / "lake",
                kind="delta",
                every_s=0.1,
                hold_s=600,
            )

            def should_stop() -> bool:
                """Send more when the first round is through, and end when that is archived, too."""
                nonlocal rounds
                path = tmp_path / "lake" / "messages"
                there = sum(file.rows for file in messages_log(tmp_path / "lake").files()) if path.is_dir() else 0
                if there == 30 and not rounds:
                    rounds = 1
                    send(12)
                return there == 42

            reports.append(job.run(Run(spark, should_stop=should_stop)))
            kept = lake.messages(spark, tmp_path / "lake")
            stored = job.source.read(spark)
            assert kept.schema == stored.schema
            assert rows(kept) == rows(stored)
            # The hold stands for an hour's rest or a next run, once and where the archive ends.
            held = reader_of(running.nameservers)
            assert held.release("broker-a", job._hold().name)
            assert not held.release("broker-a", job._hold().name)
        [report] = reports
        assert (report.status, report.figures["messages"], report.figures["missing"]) == ("done", 42, 0)
        assert {row["broker"] for row in report.tables["queues"].to_json()} == {"broker-a"}
