"""Answer a query from the key index where that gives the whole answer, and say where it does not.

An index holds no rolled-back records and none whose topic cannot be a folder.  Both have no ConsumeQueue entry either,
so a segment whose written bytes are all covered by entries has none of them, and the index knows all its keys.  Other
segments, the last one, and those outside of the index are left to a walk.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from litemq.errors import DamagedRecord
from litemq.format import index_file
from litemq.format.index_file import HEADER_SIZE, IndexHeader
from litemq.format.names import CHANGES_TOPIC, ORIGIN
from litemq.format.record import TMQ, Format, decode
from litemq.store._find_cy import cover_segments
from litemq.store.changes import Deletions
from litemq.store.changes import decode as decode_change
from litemq.store.frames import HEAD_SIZE, Kind, adds_up, read_head
from litemq.store.fs import File, FileSystem
from litemq.store.index_slots import likely_slot_count
from litemq.store.log_walk import Log
from litemq.store.queue_types import queue_folders
from litemq.store.verify_queues import entry_files, read_entries
from litemq.store.window import WINDOW
from litemq.types import Record

MIN_LOG_BYTES: Final = 256 << 20
"""A smaller log is walked before its queues and index are even listed."""

_MAX_OPEN: Final = 64

_MAX_CANDIDATES: Final = 10_000
"""More records of one key are found sooner by a walk."""


@dataclass(frozen=True, slots=True)
class IndexAnswer:
    """What the index says."""

    covered: frozenset[int]
    """Starts of the segments that it answers for."""
    records: list[Record]
    """What may be the answer for them, in log order."""
    deletions: Deletions
    changes: frozenset[int]
    """Positions of the changes behind ``deletions``."""


@dataclass(frozen=True, slots=True)
class _Index:
    path: Path
    header: IndexHeader
    slots: int


def ask_index(log: Log, text: str, topic: str | None, position: int = -1) -> IndexAnswer | None:
    """Look up a key or message id, or the record at ``position``; None when only a walk can tell.

    Some of the records may be of other keys with the same hash.
    """
    if not _is_usable(log, text):
        return None
    indexes = _indexes(log)
    if not indexes:
        return None
    reader = _Records(log)
    try:
        covered = _covered(log, reader, indexes)
        positions = _candidates(log, indexes, text, topic) if covered else None
        if positions is None:
            return None
        positions.add(position)
        found = (reader.at(place) for place in sorted(positions) if reader.segment_start(place) in covered)
        changes = {place: record for place in _change_positions(log) if (record := reader.at(place))}
        return IndexAnswer(
            frozenset(covered), [record for record in found if record is not None], _fold(changes), frozenset(changes)
        )
    finally:
        reader.close()


def _is_usable(log: Log, text: str) -> bool:
    """Return whether the store is one that a broker closed, and the text one that an index can hold."""
    stream = log.files.streams[0] if log.files.streams else None
    if log.store is None or log.live is not None or stream is None or log.format in (None, TMQ):
        return False
    if stream.is_ordinal or len(stream.segments) < 2 or log.fs.exists(log.store / "abort"):
        return False
    return bool(text) and " " not in text and "\ufffd" not in text and _log_bytes(log) >= MIN_LOG_BYTES


def _log_bytes(log: Log) -> int:
    total = 0
    for segment in log.files.streams[0].segments:
        file = log.fs.open(segment.path)
        total += file.size()
        file.close()
    return total


def _indexes(log: Log) -> list[_Index] | None:
    """Return all index files; None when one of them cannot be trusted."""
    folder = (log.store or Path()) / "index"
    found = []
    for name in log.fs.names(folder):
        if not name.isascii() or not name.isdigit():
            continue
        file = log.fs.open(folder / name)
        try:
            size = file.size()
            header = index_file.decode_header(file.read_at(HEADER_SIZE, 0).ljust(HEADER_SIZE, b"\0"))
            slots = likely_slot_count(size, header, file.read_at)
        finally:
            file.close()
        if slots is None:
            return None
        if slots:
            found.append(_Index(folder / name, header, slots))
    return found


def _covered(log: Log, reader: _Records, indexes: list[_Index]) -> set[int]:
    """Return the starts of the segments whose written part is covered by queue entries, within the index."""
    starts = reader.starts
    sums = array("q", bytes(8 * len(starts)))
    tops = array("q", bytes(8 * len(starts)))
    for file in entry_files(log)[0]:
        for data, _ in read_entries(log.fs, file):
            cover_segments(data, file.kind, starts, sums, tops)
    begin = min(index.header.begin_position for index in indexes)
    end = max(index.header.end_position for index in indexes)
    return {
        start
        for start, size, top in zip(starts, sums, tops, strict=True)
        if begin <= start and top <= end and size and top - start == size and reader.ends_at(top)
    }


def _candidates(log: Log, indexes: list[_Index], text: str, topic: str | None) -> set[int] | None:
    """Return the positions that the index names; None: too many."""
    topics = [topic] if topic is not None else _topics(log)
    hashes = [index_file.key_hash(index_file.key_text(name, text)) for name in topics]
    positions: set[int] = set()
    for index in indexes:
        file = log.fs.open(index.path)
        try:
            for wanted in hashes:
                for _, entry in index_file.chain(file.read_at, index.header, index.slots, wanted):
                    if entry.hash == wanted:
                        positions.add(entry.position)
                if len(positions) > _MAX_CANDIDATES:
                    return None
        finally:
            file.close()
    return positions


def _topics(log: Log) -> list[str]:
    store = log.store or Path()
    folders = (store / "consumequeue", store / "batchconsumequeue")
    return sorted({topic for folder in folders for topic, _, _ in queue_folders(folder, log.fs)})


def _change_positions(log: Log) -> Iterator[int]:
    for file in entry_files(log)[0]:
        if file.path.parent.parent.name == CHANGES_TOPIC:
            for data, _ in read_entries(log.fs, file):
                for at in range(0, len(data) - file.entry_size + 1, file.entry_size):
                    yield int.from_bytes(data[at : at + 8], signed=True)


def _fold(changes: dict[int, Record]) -> Deletions:
    deletions = Deletions()
    for position in sorted(changes):
        change = decode_change(changes[position].body)
        origin = changes[position].properties.get(ORIGIN, "")
        if change is not None:
            deletions.apply(change, int(origin) if origin.isascii() and origin.isdigit() else position)
    return deletions


class _Records:
    """Reads single records of the log by position."""

    def __init__(self, log: Log) -> None:
        self._fs: FileSystem = log.fs
        self._fmt: Format | None = log.format
        self._segments = {segment.number or 0: segment for segment in log.files.streams[0].segments}
        self.starts = array("q", sorted(self._segments))
        self._files: dict[int, File] = {}

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def segment_start(self, position: int) -> int:
        """Return where the segment that holds ``position`` starts, -1 below the first one."""
        number = bisect_right(self.starts, position) - 1
        return self.starts[number] if number >= 0 else -1

    def ends_at(self, position: int) -> bool:
        """Return whether nothing, or only a filler, is written from ``position`` on in its segment."""
        file, place = self._place(position - 1)
        if file is None or self._fmt is None:
            return False
        return read_head(self._fmt, file.read_at(HEAD_SIZE, place + 1)).kind in (Kind.NOTHING, Kind.FILLER)

    def at(self, position: int) -> Record | None:
        """Return the record at ``position``, None when none is sound there."""
        file, place = self._place(position)
        if file is None or self._fmt is None:
            return None
        head = read_head(self._fmt, file.read_at(HEAD_SIZE, place))
        if head.kind is not Kind.RECORD or place + head.size > file.size():
            return None
        if head.size > WINDOW and not adds_up(
            self._fmt, lambda where, size: file.read_at(size, where), place, head.size
        ):
            return None
        segment = self._segments[position - place]
        try:
            return decode(file.read_at(head.size, place), position, self._fmt, segment.name)
        except DamagedRecord:
            return None

    def _place(self, position: int) -> tuple[File | None, int]:
        start = self.segment_start(position)
        if start < 0:
            return None, 0
        file = self._files.get(start)
        if file is None:
            if len(self._files) >= _MAX_OPEN:
                self.close()
            file = self._files[start] = self._fs.open(self._segments[start].path)
        return file, position - start
