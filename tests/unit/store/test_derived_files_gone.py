"""Queues, index and checkpoint can be deleted: opening makes them anew from the log."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from litemq.config import StoreConfig, WritableFormat
from litemq.store.message_store import MessageStore
from litemq.store.verify import verify
from litemq.types import Message, TopicQueue


def ends(store: MessageStore) -> dict[TopicQueue, tuple[int, int]]:
    reader = store.reader
    return {
        queue: (reader.min_offset(queue.topic, queue.queue_id), reader.max_offset(queue.topic, queue.queue_id))
        for queue in store.queues()
    }


@pytest.mark.parametrize("format_name", ["litemq", "rocketmq"])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "gone",
    [
        ["consumequeue"],
        ["index"],
        ["checkpoint"],
        ["consumequeue", "index"],
        ["consumequeue", "index", "checkpoint"],
    ],
)
def test_what_was_deleted_is_made_anew(
    tmp_path: Path, gone: list[str], format_name: WritableFormat, *, clean: bool
) -> None:
    config = StoreConfig(
        format=format_name, segment_bytes=1 << 18, queue_entries=100, index_slots=100, index_entries=500
    )
    store = MessageStore.open(tmp_path / "s", config, background=False)
    for n in range(2_000):
        store.append(Message(f"topic-{n % 3}", b"x" * 100, queue_id=n % 2, keys=(f"key-{n}",)))
    store.delete_topic("topic-1")
    for n in range(100):
        store.append(Message("topic-1", b"y" * 100, queue_id=n % 2, keys=(f"again-{n}",)))
    before = ends(store)
    if clean:
        store.close()
    else:
        store.checkpoint()
        store.abandon()
    for name in gone:
        path = tmp_path / "s" / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()

    # Killed before it finished: the folders are back, but nothing of them may be trusted the next time.
    MessageStore.open(tmp_path / "s", background=False).abandon()

    with MessageStore.open(tmp_path / "s", background=False) as store:
        assert ends(store) == before
        assert len(store.reader.by_key("topic-0", "key-3")) == 1
        assert len(store.reader.by_key("topic-1", "again-3")) == 1
        assert store.reader.by_key("topic-1", "key-1") == []
    assert verify(tmp_path / "s").is_ok
