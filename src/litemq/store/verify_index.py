"""Compare the key index with the log, in one merge when they agree.

*missing*: a message id or key of a sound record that its slot does not lead to; *wrong*: an entry that points at no
sound record.  Entries of other keys are fine: RocketMQ indexes tags too, and some records twice.
Memory: one file's slots and a bit for each of its entries; where the two differ, up to two million entries at a time.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from litemq.format import index_file, rows
from litemq.format.index_file import ENTRY_SIZE
from litemq.store import _index_check_cy as kernel
from litemq.store._queue_check_cy import BLOCK_SHIFT
from litemq.store._sort_cy import sort_rows
from litemq.store.log_walk import Log
from litemq.store.segment_walk import Batch
from litemq.store.verify_index_files import IndexFile, Loaded, chunks, index_paths, load, reach
from litemq.store.verify_queues import ALL, BLOCKS, NO_DEAD, span

_MAX_COLLECTED: Final = 1 << 21


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

    def add(self, other: IndexReport) -> None:
        """Take in what was found elsewhere."""
        self.files += other.files
        self.entries += other.entries
        self.missing += other.missing
        self.wrong += other.wrong


@dataclass(frozen=True, slots=True)
class Index:
    """All files of a key index."""

    files: list[IndexFile]
    """In the order of their entries."""
    is_regular: bool
    end: int
    """Every key of a record below this position must have its entry."""

    @classmethod
    def of(cls, log: Log, loaded: list[Loaded]) -> Index:
        """Put together what was found of each file."""
        # Names are local times, which go back once a year: positions do not.
        files = sorted(
            (one.file for one in loaded if one.file is not None), key=lambda file: (file.begin_position, file.path.name)
        )
        end = ALL
        if any(one.is_partial for one in loaded):
            end = 0
        elif log.live is not None:
            newest = max((file.end_position for file in files), default=-1)
            end = newest + 1 if log.live.derived is None else log.live.derived
        return cls(files, all(one.is_regular for one in loaded), end)


@dataclass(frozen=True, slots=True)
class IndexRules:
    """What decides which keys of a walked log must be in the index."""

    dead: array[int]
    first_position: int
    end: int
    """Entries that point at or behind it have no record."""
    live_end: int
    """Every key of a record below this position must have its entry."""
    is_live: bool


def rules_of(log: Log, index: Index, dead: array[int], first_position: int, log_end: int) -> IndexRules:
    """Return the rules for a log that was walked."""
    return IndexRules(dead, first_position, min(log_end, index.end), index.end, log.live is not None)


class IndexMerge:
    """Goes through rows and entries side by side, for as long as they agree."""

    def __init__(self, dead: array[int], end: int, pieces: Iterable[bytes]) -> None:
        self.agrees = True
        self._dead = dead
        self._end = end
        self._pieces = iter(pieces)
        self._data: bytes = bytes(ENTRY_SIZE)
        self._at = self._stop = 0
        self._is_last = False

    def add(self, batch: Batch, first_position: int) -> None:
        """Take in rows; entries below ``first_position`` are passed over."""
        row = batch.first
        while self.agrees and row < batch.count:
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
            self.agrees = why != kernel.IRREGULAR

    def _more(self) -> None:
        """Take the next piece of entries behind those that are left."""
        data = next(self._pieces, None)
        if data is None:
            self._is_last = True
            return
        self._data = self._data[self._at : self._stop] + data
        self._at = 0
        self._stop = len(self._data)

    def has_left(self, first_position: int, end: int) -> bool:
        """Return whether entries point behind the last record that was merged, but not behind the log."""
        while True:
            for at in range(self._at, self._stop, ENTRY_SIZE):
                if first_position <= index_file.decode_entry(self._data, at).position < end:
                    return True
            self._at = self._stop
            if self._is_last:
                return False
            self._more()


class IndexCheck:
    """Fed with every batch of one walk; then ``finish``."""

    def __init__(self, log: Log, dead: array[int] = NO_DEAD) -> None:
        self._log = log
        self._dead = dead
        loaded = [load(log, path) for path in index_paths(log)]
        self._report = report_of(loaded)
        self._index = Index.of(log, loaded)
        pieces = (data for file in self._index.files for data, _ in chunks(log.fs, file))
        self._merge = IndexMerge(dead, self._index.end, pieces)
        self._merge.agrees = self._index.is_regular

    def add(self, batch: Batch) -> None:
        self._merge.add(batch, self._log.first_positions[batch.stream])

    def finish(self) -> IndexReport:
        """Count; the log may be walked again where the merge failed."""
        log, index, report = self._log, self._index, self._report
        rules = rules_of(log, index, self._dead, log.first_position, log.end_position)
        found, counts = count(log, index.files, rules)
        report.add(found)
        if not self._merge.agrees or self._merge.has_left(rules.first_position, rules.end):
            for group, total in groups(rules, counts):
                report.add(match(log, index.files, rules, group, total))
        return report


def report_of(loaded: list[Loaded]) -> IndexReport:
    """Return what is known before anything is compared."""
    wrong = sum(one.wrong for one in loaded)
    return IndexReport(files=len(loaded), entries=wrong, wrong=wrong)


def count(log: Log, files: list[IndexFile], rules: IndexRules) -> tuple[IndexReport, array[int]]:
    """Return what the entries of some files tell by themselves, and how many lead into each block of the log."""
    counts = array("q", bytes(8 * BLOCKS))
    counters = array("q", bytes(24))
    first = rules.first_position
    for index in files:
        for data, _ in chunks(log.fs, index):
            kernel.count_entries(data, first, first, rules.end, rules.is_live, BLOCK_SHIFT, counts, counters)
    return IndexReport(entries=counters[kernel.ENTRIES], wrong=counters[kernel.WRONG]), counts


def groups(rules: IndexRules, counts: array[int]) -> Iterator[tuple[list[int], int]]:
    """Yield all blocks of the log, as many together as memory allows, with how many entries they have."""
    group: list[int] = []
    total = 0
    length = rules.end - rules.first_position
    blocks = len(counts) if length >> BLOCK_SHIFT >= len(counts) else (length >> BLOCK_SHIFT) + 1
    for block in range(blocks):
        if group and total + counts[block] > _MAX_COLLECTED:
            yield group, total
            group, total = [], 0
        group.append(block)
        total += counts[block]
    yield group, total


def match(log: Log, files: list[IndexFile], rules: IndexRules, group: list[int], total: int) -> IndexReport:
    """Look up every key of some blocks."""
    wanted = bytearray(BLOCKS)
    for block in group:
        wanted[block] = 1
    base = rules.first_position
    entries = array("q", bytes(8 * kernel.COLLECTED_WIDTH * max(1, total)))
    used = 0
    for index in files:
        reachable = reach(log, index)[2]
        for data, number in chunks(log.fs, index):
            used = kernel.collect_entries(data, number, base, rules.end, BLOCK_SHIFT, wanted, reachable, entries, used)
    sort_rows(entries, kernel.COLLECTED_WIDTH, kernel.COLLECTED_WIDTH, used)
    counters = array("q", bytes(24))
    cursor = 0
    low, high = span(base, rules.end, group, BLOCKS)
    for batch in log.batches(low):
        if batch.table[batch.first * rows.WIDTH + rows.POSITION] >= high:
            break
        cursor = kernel.match_rows(
            batch.view,
            batch.table,
            batch.first,
            batch.count,
            rules.dead,
            rules.live_end,
            base,
            BLOCK_SHIFT,
            wanted,
            entries,
            used,
            cursor,
            counters,
        )
    return IndexReport(missing=counters[kernel.MISSING], wrong=counters[kernel.WRONG] + used - cursor)
