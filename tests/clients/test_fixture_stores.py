"""The fixture stores, once opened by LiteMQ, go back to a real broker.  What LiteMQ sees in them: ``tests/unit``."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.clients.conftest import StartBroker
from tests.clients.picture import Picture, check_broker, check_keys, verify
from tests.clients.rocketmq import Sizes

from litemq.store.message_store import MessageStore
from litemq.types import Message

pytestmark = pytest.mark.clients

FIXTURES = Path(__file__).parents[1] / "fixtures"

GROWING = frozenset(
    {"Reminders", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"}
)
"""Where a broker puts pending timers that are due, and transactions that it checks."""


def unpack(name: str, directory: Path) -> tuple[Path, dict[str, Any], Sizes]:
    """Unpack a fixture; return its path, its meta page and its sizes."""
    with tarfile.open(FIXTURES / f"{name}.tar.xz") as archive:
        archive.extractall(directory, filter="data")
    meta: dict[str, Any] = json.loads((FIXTURES / f"{name}.meta.json").read_text())
    sizes = Sizes(meta["segment_size"], meta["queue_entries"], meta["index_slots"], meta["index_entries"])
    return directory / "store", meta, sizes


@pytest.mark.parametrize("name", ["rocketmq-5.4.0-clean", "rocketmq-5.4.0-killed"])
def test_a_brokers_store_goes_back_to_a_broker(name: str, tmp_path: Path, real_broker: StartBroker) -> None:
    path, meta, sizes = unpack(name, tmp_path)
    with MessageStore.open(path) as store:
        for topic, queue_id in Picture.of(store).offsets:
            if topic.lower().startswith(("rmq_sys_", "schedule_topic_")):
                continue  # a broker would take it for a timer, a delayed message or a transaction
            store.append(Message(topic, b"from here", queue_id=queue_id, keys=("from-here",)))
        store.append_many([Message("Orders", bytes(50_000), queue_id=1, tags=("TagA",))] * 5)  # two segments more
        picture = Picture.of(store)
        check_keys(store, picture)
    verify(path)

    with real_broker(path, sizes, mapperFileSizeBatchConsumeQueue=4600) as broker:
        assert broker.started_after() == "normally"
        check_broker(broker, picture, growing=GROWING)
        low, high = meta["queues"]["Columnar/0"]
        assert broker.offsets("Columnar")[0] == (low, high)
        assert [message["offset"] for message in broker.pull("Columnar", 0)] == list(range(low, high))
        for text, positions in meta["index"].items():
            topic, _, key = text.partition("#")
            if topic == "Columnar":
                found = broker.by_key(topic, key) + broker.by_unique_key(topic, key)
                assert {message["position"] for message in found} == set(positions)
        for name_and_group, offsets in meta["consumer_offsets"].items():
            topic, _, group = name_and_group.rpartition("@")
            if topic not in GROWING:
                committed = broker.committed(group, topic, len(offsets))
                assert committed == {int(queue): offset for queue, offset in offsets.items()}
        (sent,) = broker.send("Orders", [{"body": b"from there", "queue": 1}])
        assert sent["offset"] == picture.offsets["Orders", 1][1]
        assert broker.complaints() == []
