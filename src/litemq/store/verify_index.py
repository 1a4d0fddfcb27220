"""Compare the key index with the log, in one merge when they agree.

*missing*: a message id or key of a sound record that its slot does not lead to; *wrong*: an entry that points at no
sound record.  Entries of other keys are fine: RocketMQ indexes tags too, and some records twice.
Memory: one file's slots and a bit for each of its entries; where the two differ, up to two million entries at a time.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from litemq.format import index_file, rows
from litemq.format.index_file import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE, IndexHeader
from litemq.store import _index_check_cy as kernel
from litemq.store._queue_check_cy import BLOCK_SHIFT
from litemq.store._sort_cy import sort_rows
from litemq.store.fs import File, FileSystem
from litemq.store.index_slots import likely_slot_count
from litemq.store.log_walk import Log
from litemq.store.segment_walk import Batch
from litemq.store.verify_queues import ALL, BLOCKS, NO_DEAD, span

_MAX_COLLECTED: Final = 1 << 21
_CHUNK: Final = ENTRY_SIZE * 50_000
_SLOT_CHUNK: Final = 1 << 20
_DEFAULT_SIZE: Final = index_file.file_size(index_file.DEFAULT_SLOTS, index_file.DEFAULT_ENTRIES)


@dataclass(slots=True)
class IndexReport:
    """The object ``index`` of ``verify``."""

    files: int = 0
    entries: int = 0
    missing: int = 0
    wrong: int = 0

    @property
    def is_ok(self) -> bool:
        return not (self.missing or self.wrong)


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One file whose slot count is known."""

    path: Path
    slots: int
    count: int
    """Entries and the unused number 0."""
    begin_position: int
    end_position: int


class IndexCheck:
    """Fed with every batch of one walk; then ``finish``."""

    def __init__(self, log: Log, dead: array[int] = NO_DEAD) -> None:
        self._log = log
        self._fs = log.fs
        self._dead = dead
        self._report = IndexReport()
        self._files: list[IndexFile] = []
        self._regular = True
        self._is_partial = False
        """A file that is being written does not even show how many slots it has: nothing can be asked of the index."""
        self._load()
        self._end = self._end_while_live()
        self._chunks = self._all_chunks()
        self._data: bytes = bytes(ENTRY_SIZE)
        self._at = self._stop = 0
        self._is_last = False

    # -- files ---------------------------------------------------------------------------------

    def _load(self) -> None:
        folder = (self._log.store or Path()) / "index"
        for name in self._fs.names(folder):
            if name.isascii() and name.isdigit() and not self._fs.is_dir(folder / name):
                self._report.files += 1
                self._load_file(folder / name)
        # Names are local times, which go back once a year: positions do not.
        self._files.sort(key=lambda file: (file.begin_position, file.path.name))

    def _load_file(self, path: Path) -> None:
        file = self._fs.open(path)
        try:
            size = file.size()
            if size < HEADER_SIZE:
                return
            header = index_file.decode_header(file.read_at(HEADER_SIZE, 0))
            slots = likely_slot_count(size, header, file.read_at)
            if self._log.live is not None:
                self._take_live(path, file, header, slots)
                return
            lost = self._take(path, size, header, slots)
            if lost is None and slots:  # not that many slots, then
                lost = self._take(path, size, header, index_file.slot_count(size, header, file.read_at))
        finally:
            file.close()
        if lost is None:
            there = min(header.next_number - 1, size // ENTRY_SIZE)
            self._report.entries += there
            self._report.wrong += there
        self._regular = self._regular and not lost

    def _take(self, path: Path, size: int, header: IndexHeader, slots: int | None) -> int | None:
        """Take a file in and return how many of its entries no slot leads to; None: it has not so many slots."""
        if not slots:
            return slots
        count = min(header.next_number, index_file.entry_count(size, slots))
        index = IndexFile(path, slots, count, header.begin_position, header.end_position)
        lost, astray, _ = self._reach(index)
        if astray and size != _DEFAULT_SIZE:
            return None
        self._files.append(index)
        return lost

    def _take_live(self, path: Path, file: File, header: IndexHeader, slots: int | None) -> None:
        """Take in a file that is being written: its header and slots come later than its entries."""
        if not slots:
            self._is_partial = True
            return
        first = index_file.entry_at(0, slots)
        count = 0
        for start, end in file.data_ranges(first):
            for at in range(start, end, _CHUNK):
                written = len(file.read_at(min(_CHUNK, end - at), at).rstrip(b"\0"))
                if written:
                    count = -(-(at + written - first) // ENTRY_SIZE)
        self._files.append(IndexFile(path, slots, max(1, count), header.begin_position, header.end_position))

    def _end_while_live(self) -> int:
        """Return the position below which every key must have its entry."""
        if self._log.live is None:
            return ALL
        if self._is_partial:
            return 0
        if self._log.live.derived is not None:
            return self._log.live.derived
        return max((file.end_position for file in self._files), default=-1) + 1

    def _slots(self, file: File, slots: int) -> array[int]:
        numbers = array("i", bytes(SLOT_SIZE * slots))
        with memoryview(numbers) as view, view.cast("B") as raw:
            for at in range(0, len(raw), _SLOT_CHUNK):
                data = file.read_at(min(_SLOT_CHUNK, len(raw) - at), HEADER_SIZE + at)
                raw[at : at + len(data)] = data
        if sys.byteorder == "little":
            numbers.byteswap()
        return numbers

    def _reach(self, index: IndexFile) -> tuple[int, int, bytearray]:
        """Return how many entries no slot leads to, how many slots lead astray, and a bit for each entry reached."""
        if self._log.live is not None:  # the owner has the slots in memory, and makes them anew from the entries
            return 0, 0, bytearray(b"\xff" * (index.count // 8 + 1))
        reachable = bytearray(index.count // 8 + 1)
        lost = 0
        file = self._fs.open(index.path)
        try:
            newest = self._slots(file, index.slots)
            before = array("i", newest)
            step = _CHUNK // ENTRY_SIZE
            for first in range(1 + (index.count - 2) // step * step, 0, -step):
                data = file.read_at(
                    ENTRY_SIZE * min(step, index.count - first), index_file.entry_at(first, index.slots)
                )
                lost += kernel.mark_reachable(data, first, newest, reachable)
        finally:
            file.close()
        return lost, kernel.count_astray(before, newest), reachable

    def _chunks_of(self, index: IndexFile) -> Iterator[tuple[bytes, int]]:
        """Yield the file's entries in pieces, each with the number of its first one."""
        try:
            file = self._fs.open(index.path)
        except FileNotFoundError:  # removed meanwhile by the broker that owns it
            return
        try:
            step = _CHUNK // ENTRY_SIZE
            for first in range(1, index.count, step):
                data = file.read_at(
                    ENTRY_SIZE * min(step, index.count - first), index_file.entry_at(first, index.slots)
                )
                if len(data) >= ENTRY_SIZE:
                    yield data, first
        finally:
            file.close()

    def _all_chunks(self) -> Iterator[bytes]:
        for index in self._files:
            for data, _ in self._chunks_of(index):
                yield data

    # -- the merge ---------------------------------------------------------------------------------

    def add(self, batch: Batch) -> None:
        row = batch.first
        first_position = self._log.first_positions[batch.stream]
        while self._regular and row < batch.count:
            row, self._at, why = kernel.merge_rows(
                batch.view,
                batch.table,
                row,
                batch.count,
                self._dead,
                first_position,
                self._end,
                self._data,
                self._at,
                self._stop,
                self._is_last,
            )
            if why == kernel.MORE_ENTRIES:
                self._more()
            self._regular = why != kernel.IRREGULAR

    def _more(self) -> None:
        """Take the next piece of entries behind those that are left."""
        data = next(self._chunks, None)
        if data is None:
            self._is_last = True
            return
        self._data = self._data[self._at : self._stop] + data
        self._at = 0
        self._stop = len(self._data)

    # -- the end ---------------------------------------------------------------------------------

    def finish(self) -> IndexReport:
        """Count; the log may be walked again where the merge failed."""
        log = self._log
        first_position = log.first_position
        end = min(log.end_position, self._end)
        counts = array("q", bytes(8 * BLOCKS))
        counters = array("q", bytes(24))
        for index in self._files:
            for data, _ in self._chunks_of(index):
                kernel.count_entries(
                    data, first_position, first_position, end, log.live is not None, BLOCK_SHIFT, counts, counters
                )
        self._report.entries += counters[kernel.ENTRIES]
        self._report.wrong += counters[kernel.WRONG]
        if not self._regular or self._has_left(first_position, end):
            self._resolve(first_position, end, counts)
        return self._report

    def _has_left(self, first_position: int, end: int) -> bool:
        """Return whether entries point behind the last record that was merged, but not behind the log."""
        while True:
            for at in range(self._at, self._stop, ENTRY_SIZE):
                if first_position <= index_file.decode_entry(self._data, at).position < end:
                    return True
            self._at = self._stop
            if self._is_last:
                return False
            self._more()

    def _resolve(self, first_position: int, end: int, counts: array[int]) -> None:
        """Look up every key, as many blocks of the log at a time as memory allows."""
        group: list[int] = []
        total = 0
        blocks = len(counts) if (end - first_position) >> BLOCK_SHIFT >= len(counts) else None
        for block in range(blocks or ((end - first_position) >> BLOCK_SHIFT) + 1):
            if group and total + counts[block] > _MAX_COLLECTED:
                self._match(first_position, end, group, total)
                group, total = [], 0
            group.append(block)
            total += counts[block]
        self._match(first_position, end, group, total)

    def _match(self, base: int, end: int, group: list[int], total: int) -> None:
        wanted = bytearray(BLOCKS)
        for block in group:
            wanted[block] = 1
        entries = array("q", bytes(8 * kernel.COLLECTED_WIDTH * max(1, total)))
        used = 0
        for index in self._files:
            reachable = self._reach(index)[2]
            for data, number in self._chunks_of(index):
                used = kernel.collect_entries(data, number, base, end, BLOCK_SHIFT, wanted, reachable, entries, used)
        sort_rows(entries, kernel.COLLECTED_WIDTH, kernel.COLLECTED_WIDTH, used)
        counters = array("q", bytes(24))
        cursor = 0
        low, high = span(base, end, group, BLOCKS)
        for batch in self._log.batches(low):
            if batch.table[batch.first * rows.WIDTH + rows.POSITION] >= high:
                break
            cursor = kernel.match_rows(
                batch.view,
                batch.table,
                batch.first,
                batch.count,
                self._dead,
                self._end,
                base,
                BLOCK_SHIFT,
                wanted,
                entries,
                used,
                cursor,
                counters,
            )
        self._report.missing += counters[kernel.MISSING]
        self._report.wrong += counters[kernel.WRONG] + used - cursor


def has_index(fs: FileSystem, store: Path | None) -> bool:
    """Return whether the store has a key index at all."""
    return store is not None and fs.is_dir(store / "index")
