"""The key index answers for whole segments or not at all: the answer is that of a walk."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.support.store_files import StoreFiles
from tests.unit.store.walk_support import unpack_rocketmq

from litemq.store import query_index
from litemq.store.changes import Change, encode
from litemq.store.log_walk import Log, open_log
from litemq.store.query import Wanted, query
from litemq.store.query_index import ask_index
from litemq.types import Message, Record


@pytest.fixture(autouse=True)
def every_log_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_index, "MIN_LOG_BYTES", 0)


def fill(store: StoreFiles, count: int = 200, *, status: int = 0) -> StoreFiles:
    for number in range(count):
        store.add(
            Message(
                f"t{number % 3}",
                b"x" * 40,
                queue_id=number % 2,
                message_id=f"m{number}",
                keys=(f"k{number % 17}", "all"),
                status=status if number == count // 2 else 0,
            )
        )
    return store


def covered(path: Path, text: str = "k3") -> frozenset[int]:
    answer = ask_index(open_log(path), text, None)
    return frozenset() if answer is None else answer.covered


def starts_of(store: StoreFiles) -> list[int]:
    return sorted(store.segments)


class TestCoverage:
    @pytest.mark.parametrize("fmt", ["litemq", "rocketmq", "blueprint"])
    def test_all_but_the_last_segment_of_a_plain_store(self, fmt: str, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path, fmt))
        store.write()
        assert covered(tmp_path) == frozenset(starts_of(store)[:-1])

    @pytest.mark.parametrize("status", [1, 3])
    def test_not_a_segment_with_a_record_without_an_entry(self, status: int, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path), status=status)
        store.write()
        odd = store.puts[100].position // 4096 * 4096
        assert covered(tmp_path) == frozenset(starts_of(store)[:-1]) - {odd}
        assert [record.position for record in query(open_log(tmp_path), Wanted(message_id="m100"))] == [
            store.puts[100].position
        ]

    def test_not_a_segment_with_a_topic_that_has_no_folder(self, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path), 60)
        entries = len(store.entries)
        odd = store.add(Message("..", b"", message_id="odd"))
        del store.queues["..", 0]
        del store.entries[entries:]
        fill(store)
        store.write()
        assert odd.position // 4096 * 4096 not in covered(tmp_path)
        assert [record.topic for record in query(open_log(tmp_path), Wanted(message_id="odd"))] == [".."]

    def test_no_segment_before_or_behind_the_index(self, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path))
        store.entries = [entry for entry in store.entries if 8192 <= entry[1] < 16384]
        store.write()
        assert covered(tmp_path) == {8192}

    def test_nothing_of_an_unclean_small_or_odd_store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        store = fill(StoreFiles(tmp_path))
        store.write()
        for text in ("", "a b", "\ufffd"):
            assert covered(tmp_path, text) == frozenset()
        (tmp_path / "abort").touch()
        assert covered(tmp_path) == frozenset()
        (tmp_path / "abort").unlink()
        monkeypatch.setattr(query_index, "MIN_LOG_BYTES", 1 << 40)
        assert covered(tmp_path) == frozenset()
        monkeypatch.setattr(query_index, "MIN_LOG_BYTES", 0)
        monkeypatch.setattr(query_index, "_MAX_CANDIDATES", 3)
        assert covered(tmp_path, "all") == frozenset()
        (tmp_path / "index" / store.index_name).write_bytes(b"\1" * 5000)
        assert covered(tmp_path) == frozenset()
        (tmp_path / "index" / store.index_name).unlink()
        assert covered(tmp_path) == frozenset()

    def test_an_entry_that_points_into_nothing_finds_nothing(self, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path))
        for entry in store.entries:
            if entry[1] == store.puts[40].position:
                entry[1] += 1
        store.write()
        expected = [put.position for put in store.puts if put is not store.puts[40] and "k6" in put.message.keys]
        assert [record.position for record in query(open_log(tmp_path), Wanted(key="k6"))] == expected


def brute_force(log: Log, wanted: Wanted, dead: set[int], limit: int) -> list[Record]:
    found = [
        record
        for record in log.records()
        if wanted.fits(record) and wanted.topic in (None, record.topic) and record.position not in dead
    ]
    return found[-limit:]


@pytest.mark.parametrize("seed", range(25))
def test_the_answer_is_that_of_a_walk(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    store = StoreFiles(tmp_path, chance.choice(["litemq", "rocketmq"]), slots=chance.choice([7, 101]))
    for number in range(chance.randrange(50, 250)):
        status = chance.choice([1, 2, 3]) if chance.random() < 0.02 else 0
        keys = tuple(chance.choice("abcdefgh") for _ in range(chance.randrange(3)))
        store.add(Message(chance.choice("xyz"), b"b" * 30, message_id=f"m{number // 2}", keys=keys, status=status))
    dead: set[int] = set()
    if chance.random() < 0.5:
        dead = {put.position for put in store.puts if put.message.topic == "x"}
        store.add(Message("LITEMQ_SYS_CHANGES", encode(Change("topic-deleted", "x"))))
        if chance.random() < 0.5:  # the queue that would tell of it is gone
            del store.queues["LITEMQ_SYS_CHANGES", 0]
    store.write()
    log = open_log(tmp_path)
    for _ in range(20):
        wanted = Wanted(
            key=chance.choice("abcdefgh") if chance.random() < 0.5 else None,
            topic=chance.choice([None, None, "x", "y"]),
        )
        if wanted.key is None:
            wanted = Wanted(message_id=f"m{chance.randrange(120)}", topic=wanted.topic)
        limit = chance.choice([1, 3, 64])
        assert query(log, wanted, limit) == brute_force(log, wanted, dead, limit), wanted


def test_offset_ids_of_a_real_store(tmp_path: Path) -> None:
    log = open_log(unpack_rocketmq("clean", tmp_path))
    records = list(log.records())
    assert covered(tmp_path / "store")
    for record in records[::23]:
        assert record.offset_id is not None
        assert record.message_id is not None
        assert query(log, Wanted(message_id=record.offset_id)) == [record]
        by_id = [found for found in records if found.message_id == record.message_id]
        assert query(log, Wanted(message_id=record.message_id)) == by_id
