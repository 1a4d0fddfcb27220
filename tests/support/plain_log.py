"""A store directory read the plain way: the log by a scan from its first byte, derived files by their layout alone.

The crash tests compare what the store says with this; it shares nothing with the store but the scan kernel.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from litemq.format import _scan_cy, rows
from litemq.format._text_cy import java_hash
from litemq.store.fs import FileSystem

CODES = {"litemq": _scan_cy.LITEMQ, "rocketmq": _scan_cy.ROCKETMQ}
ENTRY_SIZES = {"litemq": 24, "rocketmq": 20}

_SIZE_FIELD = 4
_PREPARED = 1
_ROLLED_BACK = 3
_FILLER_SIZE = 0x7FFFFFFF
"""Size field of the entries that RocketMQ puts before a queue's first one."""


class PlainRecord(NamedTuple):
    """A sound record of the log."""

    position: int
    topic: str
    queue_id: int
    queue_offset: int
    status: int
    tag_hash: int
    store_time: int
    message_id: str
    keys: tuple[str, ...]
    body: bytes
    raw: bytes

    @property
    def end(self) -> int:
        return self.position + len(self.raw)

    @property
    def has_entry(self) -> bool:
        return self.status not in (_PREPARED, _ROLLED_BACK)


class QueueEntry(NamedTuple):
    """What a ConsumeQueue says of one message."""

    position: int
    size: int
    tag_hash: int
    store_time: int


Queue = tuple[str, int]


@dataclass(slots=True)
class PlainSegment:
    """What a scan of one segment found."""

    base: int
    data: bytes
    records: list[PlainRecord]
    written_end: int
    """Place behind its last record."""
    why: int
    """Why the scan ended there."""

    @property
    def is_complete(self) -> bool:
        """Whether the log goes on in the next segment: by a filler, or because there is no room for one."""
        no_room = self.why == rows.END and len(self.data) - self.written_end < _SIZE_FIELD
        return bool(self.data) and (self.why == rows.FILLER or no_room)

    @property
    def damage(self) -> str | None:
        if self.why == rows.CUT or self.why >= rows.DAMAGE:
            return rows.REASONS.get(self.why, "reaches beyond the end of the file")
        return None


@dataclass(slots=True)
class PlainLog:
    """The sound records from the log's start on, up to the first damage or hole; ``stop`` says which, if any."""

    start: int
    end: int
    """Behind the last record."""
    next_segment: int
    """Where the log may go on instead when its last segment is complete; else as ``end``."""
    records: list[PlainRecord]
    segments: list[PlainSegment]
    stop: str

    def queues(self) -> dict[Queue, dict[int, PlainRecord]]:
        """Return {queue: {queue offset: record}} of the records that have an entry."""
        found: dict[Queue, dict[int, PlainRecord]] = {}
        for record in self.records:
            if record.has_entry:
                found.setdefault((record.topic, record.queue_id), {})[record.queue_offset] = record
        return found

    def index(self) -> Counter[tuple[int, int]]:
        """Return how often the key index must hold (hash, position)."""
        found: Counter[tuple[int, int]] = Counter()
        for record in self.records:
            if record.status != _ROLLED_BACK:
                for key in (record.message_id, *record.keys):
                    if key:
                        found[index_hash(record.topic, key), record.position] += 1
        return found


def scan_log(fs: FileSystem, root: Path, name: str) -> PlainLog:
    """Scan ``root/commitlog`` as format ``name``."""
    folder = root / "commitlog"
    segments = [
        _scan_segment(read_bytes(fs, folder / file), int(file), name) for file in fs.names(folder) if file.isdigit()
    ]
    start = segments[0].base if segments else 0
    log = PlainLog(start, start, start, [], segments, "")
    for number, segment in enumerate(segments):
        if segment.base != log.next_segment:
            if any(any(later.data) for later in segments[number:]):  # else made ahead of time, and empty
                log.stop = f"hole before segment {segment.base}"
            break
        log.records += segment.records
        log.next_segment = segment.base + segment.written_end
        # A file that was made ahead of time does not say whether the log, full to the last bytes, has come to it yet.
        if segment.written_end or number == 0 or segments[number - 1].why == rows.FILLER:
            log.end = log.next_segment
        if segment.is_complete:
            log.next_segment = segment.base + len(segment.data)
        elif segment.damage:
            log.stop = f"damage at {log.end}: {segment.damage}"
            break
        elif any(later.records for later in segments[number + 1 :]):
            log.stop = f"hole at {log.end}"
            break
    return log


def _scan_segment(data: bytes, base: int, name: str) -> PlainSegment:
    table = rows.table(64)
    segment = PlainSegment(base, data, [], 0, rows.ROOM)
    while segment.why == rows.ROOM:
        count, segment.written_end, segment.why = _scan_cy.scan(
            CODES[name], data, segment.written_end, len(data), base, table, checked_from=0
        )
        for number in range(count):
            row = table[number * rows.WIDTH : (number + 1) * rows.WIDTH]
            segment.records.append(_record(data, row, base))
    return segment


def _record(data: bytes, row: Sequence[int], base: int) -> PlainRecord:
    def text(at: int, size: int) -> str:
        return data[row[at] : row[at] + row[size]].decode("utf-8", "replace")

    at = row[rows.POSITION] - base
    return PlainRecord(
        position=row[rows.POSITION],
        topic=text(rows.TOPIC_AT, rows.TOPIC_SIZE),
        queue_id=row[rows.QUEUE_ID],
        queue_offset=row[rows.QUEUE_OFFSET],
        status=row[rows.STATUS],
        tag_hash=row[rows.TAG_HASH],
        store_time=row[rows.STORE_TIME],
        message_id=text(rows.ID_AT, rows.ID_SIZE),
        keys=_keys(data[row[rows.KEYS_AT] : row[rows.KEYS_AT] + row[rows.KEYS_SIZE]], row[rows.KEYS_COUNT]),
        body=data[row[rows.BODY_AT] : row[rows.BODY_AT] + row[rows.BODY_SIZE]],
        raw=data[at : at + row[rows.SIZE]],
    )


def _keys(data: bytes, count: int) -> tuple[str, ...]:
    if count < 0:
        return tuple(data.decode("utf-8", "replace").split())
    keys = []
    while data:
        size = int.from_bytes(data[:2], "big")
        keys.append(data[2 : 2 + size].decode())
        data = data[2 + size :]
    return tuple(keys)


# -- derived files ----------------------------------------------------------------------------------------------------


def queue_entries(fs: FileSystem, root: Path, name: str, per_file: int) -> dict[Queue, dict[int, QueueEntry]]:
    """Return {queue: {queue offset: entry}} of every ConsumeQueue file; unwritten and filler entries are left out."""
    found: dict[Queue, dict[int, QueueEntry]] = {}
    size = ENTRY_SIZES[name]
    folder = root / "consumequeue"
    for topic in fs.names(folder):
        for queue in fs.names(folder / topic):
            entries = found.setdefault((topic, int(queue)), {})
            for file in fs.names(folder / topic / queue):
                data = read_bytes(fs, folder / topic / queue / file)
                assert len(data) == per_file * size, f"consumequeue/{topic}/{queue}/{file} has {len(data)} bytes"
                first = int(file) // size
                for number in range(per_file):
                    raw = data[number * size : (number + 1) * size]
                    entry = _entry(raw, size)
                    if any(raw) and entry.size != _FILLER_SIZE:
                        entries[first + number] = entry
    return found


def _entry(data: bytes, size: int) -> QueueEntry:
    if size == ENTRY_SIZES["litemq"]:
        return QueueEntry(*struct.unpack(">qiIq", data))
    position, record_size, tag_hash = struct.unpack(">qiq", data)
    return QueueEntry(position, record_size, tag_hash, 0)


def expected_entry(record: PlainRecord, name: str) -> QueueEntry:
    """Return the entry that a rebuild would write for ``record``."""
    if name == "litemq":
        return QueueEntry(record.position, len(record.raw), record.tag_hash & 0xFFFFFFFF, record.store_time)
    return QueueEntry(record.position, len(record.raw), record.tag_hash, 0)


def index_entries(fs: FileSystem, root: Path, slots: int, per_file: int) -> Counter[tuple[int, int]]:
    """Return how often the key index holds (hash, position), found by walking every slot's chain."""
    found: Counter[tuple[int, int]] = Counter()
    for file in fs.names(root / "index"):
        data = read_bytes(fs, root / "index" / file)
        assert len(data) == 40 + 4 * slots + 20 * per_file, f"index/{file} has {len(data)} bytes"
        (count,) = struct.unpack_from(">i", data, 36)
        assert not any(data[40 + 4 * slots + 20 * count :]), f"index/{file} has bytes behind its {count - 1} entries"
        for slot in range(slots):
            (number,) = struct.unpack_from(">i", data, 40 + 4 * slot)
            while 0 < number < count:
                hashed, position, _seconds, before = struct.unpack_from(">iqii", data, 40 + 4 * slots + 20 * number)
                found[hashed, position] += 1
                assert before < number, f"index {file}: entry {number} is linked to {before}"
                number = before
    return found


def index_ends(fs: FileSystem, root: Path) -> dict[int, int]:
    """Return {position: store time} of the first and the last record of each index file, as its header has them."""
    found: dict[int, int] = {}
    for file in fs.names(root / "index"):
        begin_time, end_time, begin, end = struct.unpack_from(">qqqq", read_bytes(fs, root / "index" / file))
        found |= {begin: begin_time, end: end_time}
    return found


def index_hash(topic: str, key: str) -> int:
    """Return the hash of a key as the index stores it."""
    value = java_hash(f"{topic}#{key}")
    return value if value < 1 << 31 else (-value) & 0x7FFFFFFF


def read_bytes(fs: FileSystem, path: Path) -> bytes:
    """Return the whole file."""
    file = fs.open(path)
    try:
        return file.read_at(file.size(), 0)
    finally:
        file.close()
