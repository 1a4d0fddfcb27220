"""Info: what a store holds, on the golden cases and as a running RocketMQ says it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.store_files import T0, StoreFiles
from tests.unit.store.walk_support import CASES, FIXTURES, GoldenCase, meta, unpack_rocketmq

from litemq.store.changes import Change, encode
from litemq.store.info import StoreInfo, info
from litemq.types import Message


def queues(found: StoreInfo) -> dict[str, list[int]]:
    return {f"{queue.topic}/{queue.queue_id}": [queue.min_offset, queue.max_offset] for queue in found.topics}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden_cases(case: GoldenCase) -> None:
    found = info(case.path, case.format)
    times = [int(str(record["store_time"] or record["born_time"])) for record in case.dump]
    assert found.format == (case.format if case.dump else None)
    assert (found.first_time, found.last_time) == ((min(times), max(times)) if times else (None, None))
    assert found.kind == ("file" if case.path.is_file() else "log" if case.name == "ordinal" else "store")
    assert found.clean
    assert found.disk_bytes > 0 or not case.dump


@pytest.mark.parametrize("name", ["clean", "killed"])
def test_as_a_running_rocketmq_says(name: str, tmp_path: Path) -> None:
    found = info(unpack_rocketmq(name, tmp_path))
    assert queues(found) == meta(name)["queues"]
    assert str(found.checkpoint) == str(meta(name)["checkpoint"])
    assert found.clean == (name == "clean")
    assert found.end_position == {"clean": 610992, "killed": 634234}[name]


def test_the_object_has_exactly_the_keys_of_the_contract() -> None:
    shown = info(FIXTURES / "litemq" / "store").to_json()
    assert list(shown) == [
        *("path", "kind", "format", "segments", "first_position", "end_position", "first_time", "last_time"),
        *("topics", "clean", "checkpoint", "disk_bytes"),
    ]
    assert shown["topics"][0] == {"topic": "all", "queue_id": 0, "min_offset": 0, "max_offset": 1}  # type: ignore[index]
    assert shown["end_position"] == 2561


def test_queues_whose_records_are_gone_keep_their_next_offset(tmp_path: Path) -> None:
    store = StoreFiles(tmp_path)
    store.add(Message("old", b"x" * 1000))
    store.add(Message("old", b"x" * 1000))
    store.roll()
    store.add(Message("new", b"x"))
    store.write()
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    found = info(tmp_path)
    assert queues(found) == {"new/0": [0, 1], "old/0": [2, 2]}
    assert found.first_position == 4096


def test_segments_made_in_advance_are_not_written(tmp_path: Path) -> None:
    store = StoreFiles(tmp_path)
    put = store.add(Message("t", b"x"))
    store.write()
    (tmp_path / "commitlog" / f"{4096:020d}").write_bytes(bytes(4096))
    assert info(tmp_path).end_position == put.position + len(put.data)


def test_batch_queues_whose_records_are_gone(tmp_path: Path) -> None:
    store = unpack_rocketmq("clean", tmp_path)
    for segment in sorted((store / "commitlog").iterdir())[-1:]:
        segment.unlink()
    assert queues(info(store))["Columnar/0"] == [19, 19]


def test_deleted_and_purged(tmp_path: Path) -> None:
    store = StoreFiles(tmp_path)
    for number in range(20):
        store.add(Message(("gone", "purged", "back")[number % 3], b""))
    for topic in ("gone", "back"):
        change = Change("topic-deleted", topic, offsets={0: store.next_offsets[topic, 0]})
        store.add(Message("LITEMQ_SYS_CHANGES", encode(change)))
    store.add(Message("LITEMQ_SYS_CHANGES", encode(Change("min-offsets", "purged", offsets={0: 3}))))
    store.add(Message("back", b"again"))
    store.write()
    shutil.rmtree(tmp_path / "consumequeue")
    assert queues(info(tmp_path)) == {"LITEMQ_SYS_CHANGES/0": [0, 3], "back/0": [6, 7], "purged/0": [3, 7]}


def test_many_queues(tmp_path: Path) -> None:
    store = StoreFiles(tmp_path, segment_size=1 << 20)
    for number in range(3000):
        store.add(Message(f"t{number % 1500}", b""), store_time=T0)
    for start, data in store.segments.items():
        (tmp_path / f"{start:020d}").write_bytes(data)
    found = info(tmp_path)
    assert len(found.topics) == 1500
    assert all((queue.min_offset, queue.max_offset) == (0, 2) for queue in found.topics)
