"""Query by key, id and time: what a filter over all records would find, with or without an index."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.store_files import T0, StoreFiles
from tests.unit.store.walk_support import CASES, GoldenCase, meta, unpack_rocketmq

from litemq.format.record import to_json
from litemq.store.changes import Change, encode
from litemq.store.log_walk import open_log
from litemq.store.query import Wanted, query
from litemq.types import Message, Record


def positions(path: Path, wanted: Wanted, limit: int = 64) -> list[int]:
    return [record.position for record in query(open_log(path), wanted, limit)]


@pytest.mark.parametrize("case", [case for case in CASES if case.auto], ids=str)
def test_finds_every_record_by_all_its_keys_and_ids(case: GoldenCase) -> None:
    log = open_log(case.path)
    records = list(log.records())
    keys = {key for record in records for key in record.keys}
    ids = {record.message_id for record in records if record.message_id}
    for key in keys:
        assert query(log, Wanted(key=key)) == [record for record in records if key in record.keys]
    for message_id in ids:
        assert query(log, Wanted(message_id=message_id)) == [r for r in records if r.message_id == message_id]
    assert query(log, Wanted(key="nobody has this")) == []
    assert query(log, Wanted(message_id="")) == [record for record in records if record.message_id == ""]


@pytest.mark.parametrize("name", ["clean", "killed"])
def test_answers_as_a_running_rocketmq(name: str, tmp_path: Path) -> None:
    store = unpack_rocketmq(name, tmp_path)
    for number, (text, expected) in enumerate(meta(name)["index"].items()):
        if number % 9:
            continue
        topic, _, key = text.partition("#")
        by_key = positions(store, Wanted(key=key, topic=topic))
        by_id = positions(store, Wanted(message_id=key, topic=topic))
        assert sorted({*by_key, *by_id}) == sorted(expected), text


def test_the_answer_is_the_same_without_an_index(tmp_path: Path) -> None:
    store = unpack_rocketmq("clean", tmp_path)
    before = positions(store, Wanted(key="same"))
    shutil.rmtree(store / "index")
    assert positions(store, Wanted(key="same")) == before
    assert len(before) == 64


def test_offset_id_in_either_case(tmp_path: Path) -> None:
    log = open_log(unpack_rocketmq("clean", tmp_path))
    record = list(log.records())[100]
    assert record.offset_id is not None
    assert query(log, Wanted(message_id=record.offset_id)) == [record]
    assert query(log, Wanted(message_id=record.offset_id.lower())) == [record]
    other_host = "0A" + record.offset_id[2:]
    assert query(log, Wanted(message_id=other_host)) == []


def test_keys_that_rocketmqs_text_cannot_hold(tmp_path: Path) -> None:
    store = StoreFiles(tmp_path, "rocketmq")
    store.add(Message("t", b"", keys=("a b", "c")))
    store.add(Message("t", b"", keys=("a", "b")))
    store.write()
    log = open_log(tmp_path)
    for key in ("a b", "c", "a", "b"):
        assert query(log, Wanted(key=key)) == [record for record in log.records() if key in record.keys], key


def test_text_that_is_not_utf8_is_found_as_it_is_shown(tmp_path: Path) -> None:
    store = StoreFiles(tmp_path, "rocketmq")
    put = store.add(Message("t", b"", keys=("kXk",), message_id="iXi"))
    at = store.segments[0].index(b"kXk") + 1
    store.segments[0][at] = 0xFF
    at = store.segments[0].index(b"iXi") + 1
    store.segments[0][at] = 0xFF
    store.write()
    assert positions(tmp_path, Wanted(key="k\ufffdk")) == [put.position]
    assert positions(tmp_path, Wanted(message_id="i\ufffdi")) == [put.position]


class TestLimitAndTime:
    @pytest.fixture
    def store(self, tmp_path: Path) -> StoreFiles:
        store = StoreFiles(tmp_path)
        for number in range(100):
            store.add(Message("ab"[number % 2], b"", keys=("same",), born_time=T0 - number))
        store.write()
        return store

    def test_above_the_limit_the_newest_are_kept_in_log_order(self, store: StoreFiles) -> None:
        everything = [put.position for put in store.puts]
        assert positions(store.root, Wanted(key="same")) == everything[-64:]
        assert positions(store.root, Wanted(key="same"), 3) == everything[-3:]
        assert positions(store.root, Wanted(key="same"), 1000) == everything
        assert positions(store.root, Wanted(key="same", topic="a"), 2) == everything[-4::2]

    def test_both_ends_are_included_and_may_be_open(self, store: StoreFiles) -> None:
        everything = [put.position for put in store.puts]
        assert positions(store.root, Wanted().within(T0 + 10, T0 + 12)) == everything[10:13]
        assert positions(store.root, Wanted().within(T0 + 95, None)) == everything[95:]
        assert positions(store.root, Wanted().within(None, T0 + 2)) == everything[:3]
        assert positions(store.root, Wanted().within(1 << 80, None)) == []
        assert positions(store.root, Wanted().within(None, None), 1000) == everything


def test_the_newest_of_a_tmq_tree_are_newest_by_born_time(tmp_path: Path) -> None:
    case = next(case for case in CASES if str(case) == "tmq-store")
    log = open_log(case.path)
    records = list(log.records())

    def newest(limit: int) -> list[Record]:
        kept = sorted(range(len(records)), key=lambda i: (records[i].born_time, i))[-limit:]
        return [records[i] for i in sorted(kept)]

    for limit in (1, 3, 5, 64):
        assert query(log, Wanted(), limit) == newest(limit)


def test_deleted_records_are_not_found(tmp_path: Path) -> None:
    store = StoreFiles(tmp_path)
    for number in range(20):
        store.add(Message("gone" if number % 2 else "purged", b"", keys=("k",)))
    store.add(Message("LITEMQ_SYS_CHANGES", encode(Change("topic-deleted", "gone", offsets={0: 10}))))
    store.add(Message("LITEMQ_SYS_CHANGES", encode(Change("min-offsets", "purged", offsets={0: 7}))))
    again = store.add(Message("gone", b"again", keys=("k",)))
    store.write()
    found = [to_json(record) for record in query(open_log(tmp_path), Wanted(key="k"), 4)]
    assert [(record["topic"], record["queue_offset"]) for record in found] == [
        ("purged", 7),
        ("purged", 8),
        ("purged", 9),
        ("gone", again.queue_offset),
    ]
