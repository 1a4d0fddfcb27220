"""Store directories written file by file, so that tests can damage them on purpose.

Nothing of ``litemq.store`` is used: queues and index are written from the format page, and ``expected_queues`` and
``expected_index`` say by brute force what ``verify`` must find.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from litemq.format._text_cy import java_hash
from litemq.format.index_file import key_hash
from litemq.format.placement import Placement
from litemq.format.record import FORMATS
from litemq.types import LogPosition, Message, QueueOffset

T0 = 1_700_000_000_000
STORE_HOST = "192.168.1.5:10911"

LITEMQ_ENTRY = struct.Struct(">qiIq")
ROCKETMQ_ENTRY = struct.Struct(">qiq")
INDEX_HEADER = struct.Struct(">qqqqii")
INDEX_ENTRY = struct.Struct(">iqii")


@dataclass(frozen=True)
class Put:
    """A record as it was written."""

    position: int
    queue_offset: int
    store_time: int
    message: Message
    data: bytes

    @property
    def queue(self) -> tuple[str, int]:
        return self.message.topic, self.message.queue_id

    @property
    def has_entry(self) -> bool:
        return self.message.status in (0, 2)

    @property
    def keys(self) -> list[str]:
        if self.message.status == 3:
            return []
        return [key for key in (self.message.message_id, *self.message.keys) if key]


@dataclass
class StoreFiles:
    """Builds a store in memory; ``write`` puts it on disk."""

    root: Path
    format: str = "litemq"
    segment_size: int = 4096
    queue_entries: int = 40
    slots: int = 53
    index_entries: int = 400
    first_segment: int = 0
    puts: list[Put] = field(default_factory=list)
    segments: dict[int, bytearray] = field(default_factory=dict)
    queues: dict[tuple[str, int], dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    next_offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    entries: list[list[int]] = field(default_factory=list)
    """Index entries: hash, position, seconds."""
    index_name: str = "20240101000000000"

    def __post_init__(self) -> None:
        self._start = self.first_segment
        self.segments[self._start] = bytearray()

    @property
    def entry_size(self) -> int:
        return 24 if self.format == "litemq" else 20

    @property
    def end(self) -> int:
        return self._start + len(self.segments[self._start])

    def add(self, message: Message, *, queue_offset: int | None = None, store_time: int | None = None) -> Put:
        """Append a message, with its entry and keys."""
        queue = (message.topic, message.queue_id)
        offset = self.next_offsets.get(queue, 0) if queue_offset is None else queue_offset
        if message.status in (1, 3):
            offset = 0
        time = T0 + len(self.puts) if store_time is None else store_time
        data = self._encode(message, self.end, offset, time)
        if len(self.segments[self._start]) + len(data) + 8 > self.segment_size:
            self.roll()
            data = self._encode(message, self.end, offset, time)
        put = Put(self.end, offset, time, message, data)
        self.segments[self._start] += data
        self.puts.append(put)
        if put.has_entry:
            self.next_offsets[queue] = offset + 1
            self.queues[queue][offset] = self.entry_of(put)
        for key in put.keys:
            self.entries.append([key_hash(f"{message.topic}#{key}"), put.position, (time - T0) // 1000])
        return put

    def roll(self) -> None:
        """Fill the rest of the segment and start the next one."""
        left = self.segment_size - len(self.segments[self._start])
        if self.format == "rocketmq":
            self.segments[self._start] += struct.pack(">II", left, 0xCBD43194)
        elif self.format == "litemq" and left >= 4:
            self.segments[self._start] += b"\xff\xff\xff\xff"
        self._start += self.segment_size
        self.segments[self._start] = bytearray()

    def _encode(self, message: Message, position: int, offset: int, time: int) -> bytes:
        place = Placement(LogPosition(position), QueueOffset(offset), time, STORE_HOST)
        return FORMATS[self.format].write(message, place)

    def entry_of(self, put: Put) -> bytes:
        tag = java_hash(put.message.tags[0]) if put.message.tags else 0
        if self.format == "litemq":
            return LITEMQ_ENTRY.pack(put.position, len(put.data), tag, put.store_time)
        return ROCKETMQ_ENTRY.pack(put.position, len(put.data), tag - (1 << 32) if tag >= 1 << 31 else tag)

    # -- files ------------------------------------------------------------------------------------------------------

    def write(self, *, index: bool = True) -> Path:
        """Write everything; files that are there are replaced."""
        for start, data in self.segments.items():
            self._file("commitlog", f"{start:020d}", data=bytes(data).ljust(self.segment_size, b"\0"))
        for (topic, queue), entries in self.queues.items():
            size = self.entry_size * self.queue_entries
            files: dict[int, bytearray] = {}
            for number, entry in entries.items():
                start, at = divmod(number * self.entry_size, size)
                file = files.setdefault(start * size, bytearray(size))
                file[at : at + self.entry_size] = entry
            for start, file in files.items():
                self._file("consumequeue", topic, str(queue), f"{start:020d}", data=bytes(file))
        self._file("checkpoint", data=bytes(4096))
        if index:
            self._file("index", self.index_name, data=self.index_bytes())
        return self.root

    def index_bytes(self) -> bytes:
        slots = [0] * self.slots
        entries = bytearray(INDEX_ENTRY.size)
        for number, (value, position, seconds) in enumerate(self.entries, 1):
            entries += INDEX_ENTRY.pack(value, position, seconds, slots[value % self.slots])
            slots[value % self.slots] = number
        last = self.entries[-1][1] if self.entries else 0
        first = self.entries[0][1] if self.entries else 0
        used = sum(slot > 0 for slot in slots)
        header = INDEX_HEADER.pack(T0, T0, first, last, used, len(self.entries) + 1)
        return (header + struct.pack(f">{self.slots}i", *slots) + entries).ljust(
            40 + 4 * self.slots + 20 * self.index_entries, b"\0"
        )

    def _file(self, *names: str, data: bytes) -> None:
        path = self.root.joinpath(*names)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def expected_queues(store: StoreFiles, sound: set[int], first_segment: int = 0) -> dict[str, int]:
    """Say what ``verify`` must count, for the sound records at these positions and the entries as they are."""
    by_position = {put.position: put for put in store.puts if put.position in sound}
    counts = {"entries": 0, "missing": 0, "wrong": 0, "dangling": 0}
    found: set[int] = set()
    for queue, entries in store.queues.items():
        for number, data in entries.items():
            if not any(data):
                continue
            position, size = struct.unpack_from(">qi", data)
            if size == 0x7FFFFFFF or 0 <= position < first_segment:
                continue
            counts["entries"] += 1
            put = by_position.get(position)
            if put is None:
                counts["dangling"] += 1
            elif not put.has_entry or put.queue != queue or put.queue_offset != number:
                counts["wrong"] += 1
            else:
                found.add(position)
                counts["wrong"] += data != store.entry_of(put)
    counts["missing"] = sum(put.has_entry and position not in found for position, put in by_position.items())
    return counts


def expected_index(store: StoreFiles, sound: set[int], lost: frozenset[int] = frozenset()) -> dict[str, int]:
    """Say what ``verify`` must count; ``lost``: numbers of entries that no slot leads to."""
    by_position = {put.position: put for put in store.puts if put.position in sound}
    there = {(value, position) for number, (value, position, _) in enumerate(store.entries, 1) if number not in lost}
    return {
        "entries": len(store.entries),
        "missing": sum(
            (key_hash(f"{put.message.topic}#{key}"), put.position) not in there
            for put in by_position.values()
            for key in put.keys
        ),
        "wrong": sum(position not in by_position for _, position, _ in store.entries),
    }
