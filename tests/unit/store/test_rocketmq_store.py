"""Stores of a real RocketMQ open and go on; what a real RocketMQ leaves behind in a store of LiteMQ is understood.

``tests/clients`` does the same with real brokers; here their work is in the fixtures, or done by hand.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from litemq.config import StoreConfig
from litemq.errors import UnknownTopic
from litemq.format import checkpoint, config_json, index_file, names
from litemq.store.message_store import MessageStore
from litemq.types import Message

FIXTURES = Path(__file__).parents[2] / "fixtures"
CONFIG = StoreConfig(format="rocketmq", segment_bytes=1 << 16, queue_entries=50, index_slots=100, index_entries=400)


class Fixture:
    """A store that a real broker left, and what that broker said of it."""

    def __init__(self, name: str, directory: Path) -> None:
        with tarfile.open(FIXTURES / f"{name}.tar.xz") as archive:
            archive.extractall(directory, filter="data")
        self.path = directory / "store"
        self.meta: dict[str, Any] = json.loads((FIXTURES / f"{name}.meta.json").read_text())
        self.is_clean = name.endswith("clean")

    def queues(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return min and max offset of every queue in ``consumequeue/``."""
        found = {name.rpartition("/")[::2]: (low, high) for name, (low, high) in self.meta["queues"].items()}
        return {
            (topic, int(queue)): ends
            for (topic, queue), ends in found.items()
            if topic not in self.meta["batch_topics"]
        }


@pytest.fixture(params=["rocketmq-5.4.0-clean", "rocketmq-5.4.0-killed"])
def fixture(request: pytest.FixtureRequest, tmp_path: Path) -> Fixture:
    return Fixture(request.param, tmp_path)


@pytest.fixture
def store(fixture: Fixture) -> Iterator[MessageStore]:
    opened = MessageStore.open(fixture.path, background=False)
    yield opened
    opened.close()


def offsets(store: MessageStore) -> dict[tuple[str, int], tuple[int, int]]:
    return {
        (queue.topic, queue.queue_id): (
            store.reader.min_offset(queue.topic, queue.queue_id),
            store.reader.max_offset(queue.topic, queue.queue_id),
        )
        for queue in store.queues()
        if not queue.topic.startswith(names.RESERVED_TOPIC_PREFIX)
    }


def test_its_queues_are_those_that_its_broker_has(fixture: Fixture, store: MessageStore) -> None:
    assert offsets(store) == fixture.queues()


def test_only_the_torn_record_is_cut(fixture: Fixture, store: MessageStore) -> None:
    torn = fixture.meta["torn"]
    assert store.was_clean == fixture.is_clean
    assert store.recovered.damaged == []
    if torn is None:
        assert store.recovered.cut == []
    else:
        assert [position for position, _ in store.recovered.cut] == [torn["position"]]
        assert store.recovered.end == torn["position"]


def test_every_message_is_there(fixture: Fixture, store: MessageStore) -> None:
    lines = (FIXTURES / f"rocketmq-5.4.0-{'clean' if fixture.is_clean else 'killed'}.messages.jsonl").read_text()
    expected = [json.loads(line) for line in lines.splitlines()]
    for line in expected:
        record = store.reader.record_at(line["position"])
        assert record is not None
        assert (record.topic, record.queue_id, record.queue_offset, record.size, record.offset_id) == (
            line["topic"],
            line["queue_id"],
            line["queue_offset"],
            line["size"],
            line["offset_id"],
        )
        if record.status in ("normal", "committed") and (record.topic, record.queue_id) in fixture.queues():
            assert store.reader.message_at(record.topic, record.queue_id, record.queue_offset) == record


def test_keys_and_ids_find_what_its_broker_finds(fixture: Fixture, store: MessageStore) -> None:
    for text, positions in fixture.meta["index"].items():
        topic, _, key = text.partition("#")
        assert [record.position for record in store.reader.by_key(topic, key)] == sorted(positions), text


def test_its_groups_go_on_where_they_were(fixture: Fixture, store: MessageStore) -> None:
    found: dict[str, dict[str, int | None]] = {}
    for group, topic, queue_id in store.progress.all_keys():
        offset = store.progress.offset(group, topic, queue_id)
        found.setdefault(f"{topic}@{group}", {})[str(queue_id)] = offset
    assert found == fixture.meta["consumer_offsets"]


def test_appending_goes_on_and_keeps_what_is_pending(fixture: Fixture, store: MessageStore) -> None:
    before = offsets(store)
    for topic, queue_id in before:
        appended = store.append(Message(topic, b"goes on", queue_id=queue_id, keys=("goes-on",)))
        assert appended.queue_offset == before[topic, queue_id][1]
    with pytest.raises(UnknownTopic, match="batch"):
        store.append(Message("Columnar", b"LiteMQ writes no batch queues"))
    store.close()
    with MessageStore.open(fixture.path, background=False) as again:
        assert again.was_clean
        assert offsets(again) == {queue: (low, high + 1) for queue, (low, high) in before.items()}
        assert all(len(again.reader.by_key(topic, "goes-on")) >= 1 for topic, _ in before)
    delays = config_json.read((fixture.path / "config" / "delayOffset.json").read_bytes())
    assert delays["offsetTable"] == fixture.meta["delay_offsets"]
    assert (fixture.path / "timerwheel").exists()
    assert (fixture.path / "batchconsumequeue" / "Columnar" / "0").is_dir()


# -- what a real RocketMQ does to a store of LiteMQ ---------------------------------------------------------------


def rewrite_as_rocketmq_does(path: Path) -> None:
    """Replace the tables and the checkpoint as a broker does that opened the store and stopped cleanly."""
    for name in ("topics.json", "subscriptionGroup.json", "consumerOffset.json"):
        file = path / "config" / name
        table = config_json.read(file.read_bytes())
        table.pop("litemq", None)
        file.write_bytes(config_json.write(table))
    found = checkpoint.decode((path / "checkpoint").read_bytes())
    assert found is not None
    theirs = checkpoint.Checkpoint(found.log_time, found.queue_time, found.index_time, 0, 17)
    ours = (path / "checkpoint").read_bytes()
    (path / "checkpoint").write_bytes(checkpoint.encode(theirs)[:40] + ours[40:])


def test_a_log_keeps_its_id_and_its_deletions_when_rocketmq_rewrote_the_tables(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", CONFIG, background=False) as store:
        log_id = store.tables.log_id
        store.append_many([Message("again", b"first life", keys=("k",))] * 3)
        store.append(Message("gone", b"only life", keys=("k",)))
        store.delete_topic("again")
        store.delete_topic("gone")
        store.append(Message("again", b"second life", keys=("k",)))
    rewrite_as_rocketmq_does(tmp_path / "s")
    for _ in range(2):
        with MessageStore.open(tmp_path / "s", background=False) as store:
            assert store.was_clean
            assert store.tables.log_id == log_id
            assert [record.body for record in store.reader.by_key("again", "k")] == [b"second life"]
            assert store.reader.by_key("gone", "k") == []
            assert offsets(store) == {("again", 0): (3, 4)}
    with MessageStore.open(tmp_path / "s", background=False) as store:
        assert store.append(Message("gone", b"second life")).queue_offset == 1


def test_topics_that_rocketmq_started_anew_count_from_0(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", CONFIG, background=False) as store:
        store.append_many([Message("anew", b"first life")] * 5)
        store.delete_topic("anew")
        store.append(Message("anew", b"second life"))
    rewrite_as_rocketmq_does(tmp_path / "s")
    with MessageStore.open(tmp_path / "s", background=False) as store:
        # What a broker's log has after mqadmin deleted the topic and sends created it again.
        store._queues.drop_topic("anew")
        store.tables.deletions.next_offsets.clear()
        store.append_many([Message("anew", b"third life")] * 2)
        assert offsets(store) == {("anew", 0): (0, 2)}
    rewrite_as_rocketmq_does(tmp_path / "s")
    with MessageStore.open(tmp_path / "s", background=False) as store:
        assert offsets(store) == {("anew", 0): (0, 2)}
        assert [record.body for record in store.records("anew", 0, 0)] == [b"third life"] * 2


def test_what_rocketmq_forbids_a_group_is_kept(tmp_path: Path) -> None:
    MessageStore.open(tmp_path / "s", CONFIG, background=False).close()
    file = tmp_path / "s" / "config" / "subscriptionGroup.json"
    table = config_json.read(file.read_bytes())
    file.write_bytes(config_json.write({**table, "forbiddenTable": {"g": {"t": 1}}}))
    for _ in range(2):
        MessageStore.open(tmp_path / "s", background=False).close()
        assert config_json.read(file.read_bytes())["forbiddenTable"] == {"g": {"t": 1}}


def test_a_queue_file_that_a_refused_broker_made_is_in_nobodys_way(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", CONFIG, background=False) as store:
        store.append(Message("t", b"x"))
        file = tmp_path / "s" / "consumequeue" / "t" / "0" / f"{0:020d}"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"\xff" * 1000)
        store.checkpoint()
        assert store.failure is None
    with MessageStore.open(tmp_path / "s", background=False) as store:
        assert [record.body for record in store.records("t", 0, 0)] == [b"x"]


def test_the_header_of_an_index_file_tells_only_of_entries_that_its_slots_lead_to(tmp_path: Path) -> None:
    """A real RocketMQ takes over a file as its header has it, and indexes only what lies behind its end."""
    store = MessageStore.open(tmp_path / "s", CONFIG, background=False)
    store.append(Message("t", b"x", keys=("first",)))
    store._index.write_tail(store._clock.now_ms())  # what a checkpoint does when the slots are not due
    _check_header(tmp_path / "s", 1)
    store.checkpoint()
    _check_header(tmp_path / "s", 2)
    store.append(Message("t", b"x", keys=("second",)))
    store._index.write_tail(store._clock.now_ms())
    _check_header(tmp_path / "s", 2)
    assert store._index.told_until(1 << 60) < 1 << 60
    store.abandon()
    with MessageStore.open(tmp_path / "s", background=False) as again:
        assert len(again.reader.by_key("t", "second")) == 1
    _check_header(tmp_path / "s", 3)


def _check_header(path: Path, next_number: int) -> None:
    (file,) = (path / "index").iterdir()
    data = file.read_bytes()
    header = index_file.decode_header(data)
    assert header.next_number == next_number
    used = {slot for slot in range(CONFIG.index_slots or 0) if index_file.decode_slot(data, index_file.slot_at(slot))}
    assert len(used) == header.slots_used == next_number - 1
