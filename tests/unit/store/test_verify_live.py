"""Reading a store while its own writer, ``MessageStore``, has it open, and after it closed it."""

from __future__ import annotations

from pathlib import Path

import pytest

from litemq.config import StoreConfig, WritableFormat
from litemq.store.info import info
from litemq.store.log_walk import open_log
from litemq.store.message_store import MessageStore
from litemq.store.query import Wanted, query
from litemq.store.verify import verify
from litemq.types import Message


@pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])
def test_a_store_that_is_being_written(fmt: WritableFormat, tmp_path: Path) -> None:
    config = StoreConfig(format=fmt, segment_bytes=1 << 18, queue_entries=100, index_slots=101, index_entries=1000)
    store = MessageStore.open(tmp_path, config, background=False)
    try:
        for number in range(1500):
            store.append(
                Message(f"t{number % 3}", b"x" * 50, queue_id=number % 2, message_id=f"m{number}", keys=("k",))
            )
            if number == 900:
                store.checkpoint()
                covered = store.appended_end
        log = open_log(tmp_path)
        assert log.live is not None
        assert log.live.flushed == covered
        report = verify(tmp_path)
        assert report.is_ok, report
        assert report.records >= 900
        assert info(tmp_path).end_position <= covered
        found = query(open_log(tmp_path), Wanted(key="k"), 1)
        assert [record.message_id for record in found] == ["m900"]
    finally:
        store.close()
    report = verify(tmp_path)
    assert report.is_ok, report
    assert report.records >= 1500
    assert [record.message_id for record in query(open_log(tmp_path), Wanted(key="k"), 1)] == ["m1499"]


@pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])
def test_deletions_of_a_real_store(fmt: WritableFormat, tmp_path: Path) -> None:
    config = StoreConfig(format=fmt, segment_bytes=1 << 18, queue_entries=100, index_slots=101, index_entries=1000)
    with MessageStore.open(tmp_path, config, background=False) as store:
        for number in range(200):
            store.append(Message(f"t{number % 2}", b"x", keys=("k",)))
        store.delete_topic("t0")
        store.purge("t1", {0: 90})
        store.append(Message("t0", b"again", keys=("k",)))
    assert verify(tmp_path).is_ok
    found = query(open_log(tmp_path), Wanted(key="k"), 1000)
    assert [(record.topic, record.queue_offset) for record in found] == [
        *(("t1", offset) for offset in range(90, 100)),
        ("t0", 100),
    ]
    bounds = {queue.topic: (queue.min_offset, queue.max_offset) for queue in info(tmp_path).topics}
    assert bounds["t0"] == (100, 101)
    assert bounds["t1"] == (90, 100)
