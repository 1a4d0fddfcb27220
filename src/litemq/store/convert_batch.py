"""``batchconsumequeue/``: the queues of RocketMQ's topics of type BatchCQ, units of 46 bytes in order of arrival.

A unit stands for one record, which may hold several messages (property ``INNER_NUM``).  Unlike a ConsumeQueue's
entries, units are found by the offset that they state, not by their place.
"""

from __future__ import annotations

from array import array
from collections.abc import Container
from pathlib import Path
from typing import Final

from litemq.format import queue_entry, rows
from litemq.format.queue_entry import BATCH_ENTRY_SIZE, BatchEntry
from litemq.store import small_log
from litemq.store.file_tree import remove_tree
from litemq.store.fs import FileSystem
from litemq.types import Record, Status, TopicQueue

FOLDER: Final = "batchconsumequeue"
_INNER_NUM: Final = "INNER_NUM"
_MOST_WAITING: Final = 1000
_MAX_MESSAGES: Final = 0x7FFF


class BatchQueues:
    """Writes the units of some topics, from the first one on."""

    def __init__(self, fs: FileSystem, root: Path, topics: Container[str], entries_per_file: int) -> None:
        self._files = small_log.Files(fs, root / FOLDER)
        self._topics = topics
        self._file_bytes = entries_per_file * BATCH_ENTRY_SIZE
        self._waiting: dict[TopicQueue, list[BatchEntry]] = {}
        self._written: dict[TopicQueue, int] = {}

    def add(self, record: Record, table: array[int], row: int) -> None:
        """Add the unit of a record that was written, if its topic is one of these and it has one."""
        o = row * rows.WIDTH
        if record.topic not in self._topics or table[o + rows.STATUS] in (Status.PREPARED, Status.ROLLED_BACK):
            return
        unit = BatchEntry(
            record.position,
            record.size,
            table[o + rows.TAG_HASH],
            table[o + rows.STORE_TIME],
            record.queue_offset,
            _messages(record.properties.get(_INNER_NUM, "1")),
        )
        self._waiting.setdefault(TopicQueue(record.topic, record.queue_id), []).append(unit)

    def drop(self, topic: str, position: int) -> None:
        """Remove the units of a topic that was deleted at ``position``."""
        if topic not in self._topics:
            return
        remove_tree(self._files.fs, self._files.root / topic)
        for queue in [queue for queue in self._waiting if queue.topic == topic]:
            self._waiting[queue] = [unit for unit in self._waiting[queue] if unit.position > position]
            self._written.pop(queue, None)

    def write_out(self) -> None:
        """Write the queues in which enough waits; a deletion among what was added last must be known by now."""
        for queue, units in self._waiting.items():
            if len(units) >= _MOST_WAITING:
                self._write(queue)

    def finish(self) -> None:
        """Write everything out; nothing is synced by this."""
        for queue in list(self._waiting):
            self._write(queue)

    def _write(self, queue: TopicQueue) -> None:
        data = b"".join(queue_entry.encode_batch(unit) for unit in self._waiting[queue])
        at = self._written.get(queue, 0)
        self._written[queue] = at + len(data)
        self._waiting[queue].clear()
        while data:
            start = at - at % self._file_bytes
            part = data[: start + self._file_bytes - at]
            path = self._files.root / queue.topic / str(queue.queue_id) / small_log.file_name(start)
            self._files.write(path, part, at - start, self._file_bytes)
            at += len(part)
            data = data[len(part) :]


def _messages(text: str) -> int:
    return min(int(text), _MAX_MESSAGES) if text.isascii() and text.isdigit() and len(text) <= 9 else 1
