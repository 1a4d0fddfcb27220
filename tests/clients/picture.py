"""What a store holds, seen through LiteMQ, to be compared with what a real broker says of the same files."""

from __future__ import annotations

import ipaddress
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.clients.rocketmq import RealBroker, Shown, Sizes

from litemq.config import StoreConfig
from litemq.format import hosts, names
from litemq.store.message_store import MessageStore
from litemq.types import Record

Queue = tuple[str, int]

_ADDED = {"MIN_OFFSET", "MAX_OFFSET"}
"""Properties that the Java client adds to what it pulled."""

_COMPRESSED = 0x1
"""The sys flag's bit that the Java client clears when it decompresses a body."""

_NOT_PLAIN = names.SHOWN_BY_A_KEY | names.RESERVED_IN_ROCKETMQ | names.CHECKSUMS | _ADDED


def store_config(sizes: Sizes) -> StoreConfig:
    """Return the configuration of a ``rocketmq`` store with these sizes."""
    return StoreConfig(
        format="rocketmq",
        segment_bytes=sizes.segment_bytes,
        queue_entries=sizes.queue_entries,
        index_slots=sizes.index_slots,
        index_entries=sizes.index_entries,
    )


@dataclass(slots=True)
class Picture:
    """Queues, their messages, keys and progress.  LiteMQ's own topics are left out."""

    offsets: dict[Queue, tuple[int, int]] = field(default_factory=dict)
    records: dict[Queue, list[Record]] = field(default_factory=dict)
    progress: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)
    """(group, topic) → queue → offset."""
    end: int = 0

    @classmethod
    def of(cls, store: MessageStore) -> Picture:
        """Look at an open store."""
        made = cls(end=store.appended_end)
        for queue in store.queues():
            if queue.topic.startswith(names.RESERVED_TOPIC_PREFIX):
                continue
            key = (queue.topic, queue.queue_id)
            low, high = store.reader.min_offset(*key), store.reader.max_offset(*key)
            made.offsets[key] = (low, high)
            found = [store.reader.message_at(*key, offset) for offset in range(low, high)]
            made.records[key] = [record for record in found if record is not None]
            assert len(made.records[key]) == high - low
        for group, topic, queue_id in store.progress.all_keys():
            offset = store.progress.offset(group, topic, queue_id)
            assert offset is not None
            made.progress.setdefault((group, topic), {})[queue_id] = offset
        return made

    @classmethod
    def of_path(cls, path: Path) -> Picture:
        """Open the store at ``path``, look, close it again; ``end`` is where the log ended before."""
        with MessageStore.open(path) as store:
            made = cls.of(store)
            made.end = store.recovered.end
            return made

    @property
    def topics(self) -> dict[str, list[int]]:
        """Return the queues of each topic."""
        answer: dict[str, list[int]] = {}
        for topic, queue_id in self.offsets:
            answer.setdefault(topic, []).append(queue_id)
        return answer

    def keys(self) -> dict[tuple[str, str], set[int]]:
        """Return (topic, key) → positions of the messages that carry it; a key with a blank is in no index."""
        return self._carriers(lambda record: tuple(key for key in record.keys if " " not in key))

    def ids(self) -> dict[tuple[str, str], set[int]]:
        """Return (topic, message id) → positions of the messages that carry it."""
        return self._carriers(lambda record: (record.message_id,) if record.message_id else ())

    def _carriers(self, keys_of: Callable[[Record], tuple[str, ...]]) -> dict[tuple[str, str], set[int]]:
        answer: dict[tuple[str, str], set[int]] = {}
        for (topic, _), records in self.records.items():
            for record in records:
                for key in keys_of(record):
                    answer.setdefault((topic, key), set()).add(record.position)
        return answer

    def includes(self, older: Picture) -> None:
        """Assert that everything of ``older`` is still here."""
        for queue, records in older.records.items():
            assert self.offsets[queue][1] >= older.offsets[queue][1], queue
            by_offset = {record.queue_offset: record for record in self.records[queue]}
            for record in records:
                assert by_offset[record.queue_offset] == record, (queue, record.queue_offset)


def check_keys(store: MessageStore, picture: Picture) -> None:
    """Assert that LiteMQ's lookups find every message by its keys and its id, and no other."""
    for (topic, key), positions in {**picture.keys(), **picture.ids()}.items():
        assert {record.position for record in store.reader.by_key(topic, key)} == newest(positions), (topic, key)


def newest(positions: set[int]) -> set[int]:
    """Return the positions that one answer holds."""
    return set(sorted(positions)[-64:])


def check_broker(
    broker: RealBroker,
    picture: Picture,
    *,
    reborn: frozenset[Queue] = frozenset(),
    growing: frozenset[str] = frozenset(),
) -> None:
    """Assert that a running broker says of the store what LiteMQ said.

    ``reborn``: queues of topics that were deleted and created again; while the log still starts at 0, a restarted
    broker takes some of the missing offsets for present ones.  ``growing``: topics that the broker adds to by itself.
    """
    for topic, queue_ids in picture.topics.items():
        said = broker.offsets(topic)
        for queue_id in queue_ids:
            low, high = picture.offsets[topic, queue_id]
            shown_low = min(said[queue_id][0], low) if (topic, queue_id) in reborn else low
            shown_high = max(said[queue_id][1], high) if topic in growing else high
            assert said[queue_id] == (shown_low, shown_high), (topic, queue_id)
            pulled = [message for message in broker.pull(topic, queue_id, low) if message["offset"] < high]
            records = picture.records[topic, queue_id]
            assert [message["offset"] for message in pulled] == [record.queue_offset for record in records]
            for message, record in zip(pulled, records, strict=True):
                check_message(message, record)
    reborn_topics = {topic for topic, _ in reborn}
    for carriers, find in ((picture.keys(), broker.by_key), (picture.ids(), broker.by_unique_key)):
        for (topic, key), positions in carriers.items():
            found = {message["position"] for message in find(topic, key)}
            if topic in growing:
                found = {position for position in found if position < picture.end}
            if topic in reborn_topics:
                found &= positions  # a broker's index still finds what was deleted
            assert (newest(positions) - found, found - newest(positions)) == (set(), set()), (topic, key)


def check_message(message: Shown, record: Record) -> None:
    """Assert that a message that the Java client got is the record that LiteMQ sees."""
    where = (record.topic, record.queue_id, record.queue_offset)
    expected = {
        "topic": record.topic,
        "queue": record.queue_id,
        "offset": record.queue_offset,
        "position": record.position,
        "size": record.size,
        "body": record.body,
        "tags": record.tags[0] if record.tags else None,
        "keys": " ".join(key for key in record.keys if " " not in key) or None,
        "flag": record.flag,
        "bornTime": record.born_time,
        "storeTime": record.store_time,
        "reconsumeTimes": record.reconsume_times,
        "preparedOffset": record.prepared_offset,
        "offsetId": record.offset_id,
    }
    assert (message["sysFlag"] ^ (record.sys_flag or 0)) & ~_COMPRESSED == 0, where
    wrong = {name: (message.get(name), value) for name, value in expected.items() if message.get(name) != value}
    assert wrong == {}, where
    if record.message_id:
        assert message["id"] == record.message_id, where
    assert _host(message["bornHost"]) == record.born_host, where
    assert _host(message["storeHost"]) == record.store_host, where
    plain = {name: value for name, value in message["properties"].items() if name not in _NOT_PLAIN}
    assert plain == record.properties, where


def litemq_store(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run ``litemq store …``."""
    command = [sys.executable, "-c", "from litemq.cli.main import main; main()", "store", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def verify(path: Path, *, missing: int = 0) -> None:
    """Assert that ``litemq store verify`` finds nothing but so many records without a queue entry."""
    done = litemq_store("verify", "--json", path)
    assert done.returncode == (1 if missing else 0), done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["consume_queue"]["missing"] == missing
    wrong = (found["torn"], found["corrupt"], found["consume_queue"]["wrong"], found["consume_queue"]["dangling"])
    assert wrong == (0, 0, 0, 0), done.stdout
    assert (found["index"]["missing"], found["index"]["wrong"]) == (0, 0), done.stdout


def _host(shown: list[object]) -> str:
    address = ipaddress.ip_address(str(shown[0]))
    return hosts.to_text(address.packed + int(str(shown[1])).to_bytes(4))
