"""Compare ConsumeQueues (``tmq``: index files) with the log, in one pass over each when they agree.

*missing*: a sound record without its entry; *wrong*: an entry whose size, tag hash or store time is not its record's,
or that stands where the record does not belong; *dangling*: an entry that points at no sound record.
Memory: a table of sums, one for each 16 MiB of the log; where the two differ, up to a million entries at a time.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from litemq.format import rows
from litemq.format.queue_entry import BATCH_ENTRY_SIZE, LAYOUTS, TMQ_ENTRY_SIZE
from litemq.format.record import LITEMQ, ROCKETMQ, TMQ
from litemq.store import _queue_check_cy as kernel
from litemq.store._sort_cy import sort_rows
from litemq.store.fs import FileSystem
from litemq.store.log_files import TMQ_INDEX
from litemq.store.log_walk import Log
from litemq.store.queue_types import batch_topics, queue_folders
from litemq.store.segment_walk import Batch

NO_DEAD: Final = array("q", [0, 0, 0])
ALL: Final = (1 << 63) - 1

BLOCKS: Final = 1 << 16
"""Sums that are kept: enough for a log of 1 TiB, and right for a longer one."""
TREE_BLOCKS: Final = 1 << 8
"""… for each log of a tmq tree."""

_MAX_COLLECTED: Final = 1 << 20
_CHUNK: Final = 1_104_000
_EXTENSION: Final = "consumequeue_ext"
"""Bytes read at once: whole entries of each size."""
_ZEROS: Final = bytes(_CHUNK)
_NO_STARTS: Final = array("q", [0])


@dataclass(slots=True)
class QueueReport:
    """The object ``consume_queue`` of ``verify``."""

    queues: int = 0
    entries: int = 0
    missing: int = 0
    wrong: int = 0
    dangling: int = 0

    @property
    def is_ok(self) -> bool:
        return not (self.missing or self.wrong or self.dangling)

    def add(self, other: QueueReport) -> None:
        """Take in what was found elsewhere."""
        self.queues += other.queues
        self.entries += other.entries
        self.missing += other.missing
        self.wrong += other.wrong
        self.dangling += other.dangling


@dataclass(frozen=True, slots=True)
class EntryFile:
    """One file of entries."""

    path: Path
    kind: int
    entry_size: int
    queue: int
    topic: int
    number: int
    """Of its first entry in the queue."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What decides which entry a record should have."""

    kind: int
    dead: array[int]
    batch: array[int]
    end: int
    """Every record below this position must have its entry."""

    @classmethod
    def of(cls, log: Log, dead: array[int] = NO_DEAD) -> Rules:
        """Return those of a log of which ``dead`` was taken away."""
        kind = kernel.TMQ if log.format is TMQ else kernel.LITEMQ if log.format is LITEMQ else kernel.ROCKETMQ
        batched = (topic.encode("utf-8", "surrogateescape") for topic in batch_topics(log))
        batch = array("q", [*sorted(map(kernel.key_of_topic, batched)), 0])
        return cls(kind, dead, batch, _end_while_live(log, kind))

    @property
    def blocks(self) -> int:
        """Return how many sums are kept."""
        return TREE_BLOCKS if self.kind == kernel.TMQ else BLOCKS


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where one log lies, known after it was walked."""

    stream: int
    base: int
    """Where its first block begins."""
    first_position: int
    end: int
    """Entries that point at or behind it have no record."""
    starts: array[int]
    """Of its segments."""
    is_live: bool


class QueueCheck:
    """Fed with every batch of one walk; then ``finish``."""

    def __init__(self, log: Log, dead: array[int] = NO_DEAD) -> None:
        self._log = log
        self._rules = Rules.of(log, dead)
        self._sums: dict[int, array[int]] = {}
        self._bases: dict[int, int] = {}

    def add(self, batch: Batch) -> None:
        sums = self._sums.get(batch.stream)
        if sums is None:
            sums = self._sums[batch.stream] = no_sums(self._rules)
            self._bases[batch.stream] = batch.start
        sum_rows(batch, self._rules, self._bases[batch.stream], sums)

    def finish(self) -> QueueReport:
        """Compare; the log may be walked again where the sums differ."""
        log, rules = self._log, self._rules
        report = QueueReport()
        ends = [log.end_of(stream) for stream in range(len(log.reached))]
        segment_starts = [array("q", [found.start for found in reached] or [0]) for reached in log.reached]
        first_positions = list(log.first_positions)
        for number in range(len(log.files.streams)):
            files, queues = self._entry_files(number)
            first = first_positions[number]
            end = min(ends[number], rules.end)
            base = self._bases.get(number, first)
            bounds = Bounds(number, base, first, end, segment_starts[number], log.live is not None)
            sums = self._sums.pop(number, None) or no_sums(rules)
            report.queues += queues
            report.add(compare(log, files, rules, bounds, sums))
        return report

    def _entry_files(self, stream: int) -> tuple[list[EntryFile], int]:
        log = self._log
        if self._rules.kind == kernel.TMQ:
            folder = log.files.streams[stream].folder
            path = folder / TMQ_INDEX if folder is not None else None
            if path is None or not log.fs.exists(path):
                return [], 1
            return [EntryFile(path, kernel.TMQ, TMQ_ENTRY_SIZE, stream, -1, 0)], 1
        return entry_files(log)


def no_sums(rules: Rules) -> array[int]:
    """Return the sums of no record, block by block."""
    return array("Q", bytes(8 * rules.blocks))


def sum_rows(batch: Batch, rules: Rules, base: int, sums: array[int]) -> None:
    """Add the entries that records should have to the sums of their blocks."""
    kernel.sum_rows(
        batch.view,
        batch.table,
        batch.first,
        batch.count,
        rules.kind,
        batch.stream,
        rules.dead,
        rules.batch,
        base,
        rules.end,
        sums,
    )


def compare(log: Log, files: list[EntryFile], rules: Rules, bounds: Bounds, sums: array[int]) -> QueueReport:
    """Compare entries with the sums of a walk, which are used up."""
    report, counts = sum_entries(log.fs, files, rules, bounds, sums)
    for group, total in groups(sums, counts):
        report.add(match(log, files, rules, bounds, group, total))
    return report


def sum_entries(
    fs: FileSystem, files: list[EntryFile], rules: Rules, bounds: Bounds, sums: array[int]
) -> tuple[QueueReport, array[int]]:
    """Take every entry off the sums; return what needs no look at the log, and how many entries are in each block."""
    counts = array("q", bytes(8 * len(sums)))
    counters = array("q", bytes(32))
    for file in files:
        for data, number in read_entries(fs, file):
            kernel.sum_entries(
                data,
                file.kind,
                file.queue,
                file.topic,
                number,
                bounds.starts,
                rules.dead,
                bounds.first_position,
                bounds.base,
                bounds.end,
                bounds.is_live,
                sums,
                counts,
                counters,
            )
    return QueueReport(entries=counters[kernel.ENTRIES], dangling=counters[kernel.DANGLING]), counts


def groups(sums: array[int], counts: array[int]) -> Iterator[tuple[list[int], int]]:
    """Yield the blocks whose sums differ, as many together as memory allows, with how many entries they have."""
    group: list[int] = []
    total = 0
    for block, difference in enumerate(sums):
        if difference:
            if group and total + counts[block] > _MAX_COLLECTED:
                yield group, total
                group, total = [], 0
            group.append(block)
            total += counts[block]
    if group:
        yield group, total


def match(log: Log, files: list[EntryFile], rules: Rules, bounds: Bounds, group: list[int], total: int) -> QueueReport:
    """Look at each record and entry of some blocks."""
    wanted = bytearray(rules.blocks)
    for block in group:
        wanted[block] = 1
    entries, used = _collect(log.fs, files, rules, bounds, wanted, total)
    sort_rows(entries, kernel.ENTRY_WIDTH, kernel.ENTRY_WIDTH, used)
    counters = array("q", bytes(32))
    cursor = 0
    low, high = span(bounds.base, bounds.end, group, len(wanted))
    has_extension = log.format is ROCKETMQ and log.store is not None and log.fs.is_dir(log.store / _EXTENSION)
    for batch in log.batches(low, streams=range(bounds.stream, bounds.stream + 1)):
        if batch.table[batch.first * rows.WIDTH + rows.POSITION] >= high:
            break
        cursor = kernel.match_rows(
            batch.view,
            batch.table,
            batch.first,
            batch.count,
            rules.kind,
            bounds.stream,
            rules.dead,
            rules.batch,
            bounds.base,
            bounds.end,
            wanted,
            entries,
            used,
            cursor,
            counters,
            has_extension,
        )
    return QueueReport(
        missing=counters[kernel.MISSING],
        wrong=counters[kernel.WRONG],
        dangling=counters[kernel.DANGLING] + used - cursor,
    )


def _collect(
    fs: FileSystem, files: list[EntryFile], rules: Rules, bounds: Bounds, wanted: bytearray, total: int
) -> tuple[array[int], int]:
    entries = array("q", bytes(8 * kernel.ENTRY_WIDTH * max(1, total)))
    used = 0
    for file in files:
        for data, number in read_entries(fs, file):
            used = kernel.collect_entries(
                data,
                file.kind,
                file.queue,
                file.topic,
                number,
                bounds.starts,
                rules.dead,
                bounds.base,
                bounds.end,
                wanted,
                entries,
                used,
            )
    return entries, used


def entry_files(log: Log) -> tuple[list[EntryFile], int]:
    """Return the files of all ConsumeQueues of a store, and how many queues they are."""
    if log.store is None:
        return [], 0
    name = log.format.name if log.format is not None else LITEMQ.name
    kind = kernel.LITEMQ if name == LITEMQ.name else kernel.ROCKETMQ
    size = LAYOUTS[name].size if name in LAYOUTS else TMQ_ENTRY_SIZE
    found: list[EntryFile] = []
    queues = 0
    for folder, entry_kind, entry_size in (
        ("consumequeue", kind, size),
        ("batchconsumequeue", kernel.BATCH, BATCH_ENTRY_SIZE),
    ):
        if entry_kind == kernel.BATCH and kind == kernel.LITEMQ:
            continue
        folders = list(queue_folders(log.store / folder, log.fs))
        queues += len(folders)
        found += files_of(folders, log.fs, entry_kind, entry_size)
    return found, queues


def files_of(
    folders: Iterable[tuple[str, int, Path]], fs: FileSystem, kind: int, entry_size: int
) -> Iterator[EntryFile]:
    """Yield the files of queues: topic, number and folder."""
    for topic, queue_id, path in folders:
        raw = topic.encode("utf-8", "surrogateescape")
        keys = kernel.key_of_queue(raw, queue_id), kernel.key_of_topic(raw)
        for name in fs.names(path):
            if name.isascii() and name.isdigit():
                yield EntryFile(path / name, kind, entry_size, *keys, int(name) // entry_size)


def _end_while_live(log: Log, kind: int) -> int:
    """Return the position below which every record must have its entry."""
    if log.live is None:
        return ALL
    if log.live.derived is not None:
        return log.live.derived
    # Nobody says how far the writer's queues are: what is there now tells, as they are written in log order.
    highest = -1
    for file in entry_files(log)[0] if kind != kernel.TMQ else ():
        for data, _ in read_entries(log.fs, file):
            highest = max(highest, kernel.highest_position(data, file.kind, _NO_STARTS))
    return highest + 1


def read_entries(fs: FileSystem, entries: EntryFile) -> Iterator[tuple[bytes, int]]:
    """Yield chunks of whole entries with the number of the first one; stretches of zeros are passed over."""
    try:
        file = fs.open(entries.path)
    except FileNotFoundError:  # removed meanwhile by the broker that owns it
        return
    try:
        at = 0
        for start, end in file.data_ranges(0):
            at = max(at, start - start % entries.entry_size)
            while at < end:
                data = file.read_at(min(_CHUNK, end - at + entries.entry_size), at)
                data = data[: len(data) - len(data) % entries.entry_size]
                if not data:
                    return
                if data != _ZEROS[: len(data)]:
                    yield data, entries.number + at // entries.entry_size
                at += len(data)
    finally:
        file.close()


def span(base: int, end: int, group: list[int], blocks: int) -> tuple[int, int]:
    """Return the part of the log, from ``base`` to ``end``, in which the blocks of ``group`` lie."""
    if (end - base) >> kernel.BLOCK_SHIFT >= blocks:  # longer than the table: each block stands for several parts
        return base, end
    return base + (group[0] << kernel.BLOCK_SHIFT), base + ((group[-1] + 1) << kernel.BLOCK_SHIFT)
