"""The lake without Spark: the manifest of a plain table, what is merged, and what an archive says of its queues."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from litemq.spark import lake
from litemq.spark.lake.archived import Book, Counted, ends_of, last_commit, odd, query_id
from litemq.spark.lake.compaction import merges
from litemq.spark.lake.parquet_log import ParquetLog
from litemq.spark.lake.reading import chosen
from litemq.spark.lake.table import BadLake, Change, DataFile, LakeBusy, LakeDamaged, kind_of, locked, log_of

HOUR_MS = 3_600_000
T0 = 1_700_000_000_000 // HOUR_MS * HOUR_MS


def file(name: str, *, topic: str = "orders", hour: int = 0, size: int = 10, rows: int = 5) -> DataFile:
    times = (T0 + hour * HOUR_MS, T0 + hour * HOUR_MS + 1_000)
    return DataFile(f"topic={topic}/dt=2023-11-14/hour={22 + hour:02d}/{name}", size, rows, *times)


def test_a_commit_is_all_or_nothing_and_happens_once(tmp_path: Path) -> None:
    log = ParquetLog(tmp_path)
    assert (log.files(), log.last_batch("q"), kind_of(tmp_path)) == ([], None, "")
    log.commit(Change("q", 3, (file("a"), file("b"))))
    assert kind_of(tmp_path) == "parquet"
    for batch in (2, 3):
        with pytest.raises(BadLake, match=f"batch {batch} of q is committed already"):
            log.commit(Change("q", batch, (file("c"),)))
    with pytest.raises(BadLake, match="not part of the table any more"):
        log.commit(Change("q", 4, (file("c"),), (file("a").path, file("gone").path)))
    assert log.files() == [file("a"), file("b")]
    log.commit(Change("compact", 0, (file("ab"),), (file("a").path, file("b").path)))
    again = ParquetLog(tmp_path)
    assert (again.files(), again.last_batch("q"), again.last_batch("compact")) == ([file("ab")], 3, 0)


def test_replaced_files_go_when_they_are_old_enough(tmp_path: Path) -> None:
    log = ParquetLog(tmp_path)
    for one in (file("a"), file("b")):
        (tmp_path / one.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / one.path).write_bytes(b"rows")
    log.commit(Change("q", 0, (file("a"), file("b"))))
    log.commit(Change("compact", 0, (), (file("a").path,)))
    assert log.vacuum(3_600) == 0
    assert (tmp_path / file("a").path).exists()
    assert log.vacuum(0) == 1
    assert not (tmp_path / file("a").path).exists()
    assert (tmp_path / file("b").path).exists()
    assert log.vacuum(0) == 0


def test_commits_of_several_writers_do_not_lose_each_other(tmp_path: Path) -> None:
    def write(writer: str) -> None:
        for batch in range(20):
            ParquetLog(tmp_path).commit(Change(writer, batch, (file(f"{writer}-{batch}"),)))

    threads = [threading.Thread(target=write, args=(name,)) for name in ("one", "two", "three")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ParquetLog(tmp_path).files()) == 60


@pytest.mark.parametrize(
    ("text", "told"), [("{", "is no JSON: .*put back a copy"), ('{"v": 2}', "has version 2, this LiteMQ reads 1")]
)
def test_a_manifest_that_cannot_be_read_is_named(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "_manifest.json").write_text(text)
    with pytest.raises(LakeDamaged, match=rf"_manifest\.json {told}"):
        ParquetLog(tmp_path).files()


def test_a_table_keeps_its_kind(tmp_path: Path) -> None:
    ParquetLog(tmp_path).create("", ())
    assert log_of(tmp_path).kind == "parquet"
    with pytest.raises(BadLake, match="is a table of the kind parquet, not delta"):
        log_of(tmp_path, "delta")
    with pytest.raises(BadLake, match="takes the signs"):
        log_of(tmp_path / "a[b]", "parquet")


def test_one_process_at_a_time_does_the_same_work(tmp_path: Path) -> None:
    busy = pytest.raises(LakeBusy, match="another process runs archive")
    with locked(tmp_path, "archive"), locked(tmp_path, "compact"), busy, locked(tmp_path, "archive"):
        pass
    with locked(tmp_path, "archive"):
        pass


def test_files_for_other_readers(tmp_path: Path) -> None:
    with pytest.raises(BadLake, match="holds no messages; fill it with: litemq pipeline archive --to"):
        lake.files(tmp_path)
    ParquetLog(tmp_path / "messages").commit(Change("q", 0, (file("a"),)))
    assert lake.files(tmp_path) == [str(tmp_path / "messages" / file("a").path)]


def test_partitions_are_read_from_paths() -> None:
    found = DataFile("topic=%25DLQ%25g/dt=2026-05-01/hour=07/x.zstd.parquet", 1, 1)
    assert found.partition == {"topic": "%DLQ%g", "dt": "2026-05-01", "hour": "07"}


def test_files_are_chosen_by_topic_and_time() -> None:
    every = [file("a"), file("b", hour=1), file("c", topic="bills"), DataFile("topic=orders/dt=x/hour=y/d", 1, 1)]
    assert chosen(every) == every
    assert chosen(every, ["bills"]) == [every[2]]
    assert chosen(every, ["orders"], T0 + 1_000, T0 + HOUR_MS) == [every[0], every[3]]
    assert chosen(every, ["orders"], T0 + 1_001) == [every[1], every[3]]


def test_small_files_of_hours_that_are_over_are_merged() -> None:
    every = [
        *(file("a", size=10), file("b", size=20), file("big", size=50)),
        *(file("alone", hour=1), file("x", topic="bills"), file("y", topic="bills")),
    ]
    over = T0 + HOUR_MS
    found = merges(every, now_ms=over, target_bytes=100)
    assert [(one.topic, [file.path[-1] for file in one.files]) for one in found] == [
        ("bills", ["x", "y"]),
        ("orders", ["a", "b"]),
    ]
    assert found[1].rows_per_file(100) == 10 * 100 // 30
    assert merges(every, now_ms=over - 1, target_bytes=100) == []
    hours = [file(name, hour=hour) for hour in (0, 1) for name in "ab"]
    assert [len(one.files) for one in merges(hours, now_ms=over + HOUR_MS, target_bytes=100)] == [4]
    assert [len(one.files) for one in merges(hours, now_ms=over + HOUR_MS, target_bytes=2)] == []


def counted(*offsets: int) -> Counted:
    return Counted(len(offsets), min(offsets), max(offsets), sum(offsets))


def test_holes_and_doubles_are_found() -> None:
    queue = ("orders", "", 0)
    assert odd({queue: 3}, {queue: 6}, {queue: counted(3, 4, 5)}) == []
    for offsets in [(3, 5), (3, 4, 4, 5), (3, 3, 5), (4, 5), (3, 4)]:
        assert odd({queue: 3}, {queue: 6}, {queue: counted(*offsets)})
    book = Book()
    book.add({queue: 0}, {queue: 3}, {queue: counted(0, 1, 2)}, {})
    book.add(
        {queue: 3},
        {queue: 6, ("new", "a", 1): 9},
        {queue: counted(3, 3, 5), ("new", "a", 1): counted(7, 8)},
        {queue: 2},
    )
    book.add({queue: 6}, {queue: 8, ("still", "", 0): 4}, {}, {})
    kept = book.queues[queue]
    assert (kept.start, kept.end, kept.messages, kept.missing, kept.repeated) == (0, 8, 6, 3, 1)
    assert book.queues["new", "a", 1].start == 7
    assert (book.messages, book.missing, book.repeated) == (8, 3, 1)
    assert ("still", "", 0) not in book.queues


def test_a_checkpoint_is_read(tmp_path: Path) -> None:
    assert (query_id(tmp_path), last_commit(tmp_path), ends_of(tmp_path, 0)) == ("", None, None)
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    (tmp_path / "metadata").write_text('{"id":"7d3c"}')
    for batch in (9, 10):
        (tmp_path / "commits" / str(batch)).write_text("v1\n{}")
        (tmp_path / "commits" / f".{batch}.crc").write_text("")
    told = {"t": {"orders": {"id": "", "q": {"0": 5, "broker-a/1": 7}}}}
    (tmp_path / "offsets" / "10").write_text(f"v1\n{{}}\n{json.dumps(told)}")
    assert (query_id(tmp_path), last_commit(tmp_path)) == ("7d3c", 10)
    assert ends_of(tmp_path, 10) == {("orders", "", 0): 5, ("orders", "broker-a", 1): 7}
