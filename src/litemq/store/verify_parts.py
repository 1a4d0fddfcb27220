"""Check a log and what is derived from it in parts, which may be looked at by many processes at the same time.

What is found equals what ``verify`` finds.  The parts of the log give sums of the entries that they should have and
merge their share of the key index; then the entries are taken off the sums; and what disagrees is looked at one by
one, as ``verify`` does it.  A log whose positions only a walk tells is one task, a tmq tree one for some of its queues.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Final

from litemq.format.record import TMQ
from litemq.store import verify_index, verify_queues
from litemq.store._queue_check_cy import tally
from litemq.store.changes import Change, Deletions
from litemq.store.deletions import as_table, changes_of, has_changes, is_empty
from litemq.store.log_parts import PART_BYTES, Part, PartWalk, Spread, can_be_cut, cut, grouped, mended, step_of
from litemq.store.log_walk import Damages, Log
from litemq.store.verify import VerifyReport, verify_log
from litemq.store.verify_index import Index, IndexMerge, IndexReport, IndexRules
from litemq.store.verify_index_files import IndexFile, Loaded, chunks, entry_behind, has_index, index_paths, load
from litemq.store.verify_queues import BLOCKS, NO_DEAD, Bounds, EntryFile, QueueReport, Rules, entry_files

_MASK: Final = (1 << 64) - 1


def verify_in_parts(log: Log, spread: Spread, least: int, most: int = PART_BYTES) -> VerifyReport:
    """Check an open log in at least ``least`` tasks of at most ``most`` bytes, where there is so much of it.

    Raises:
        BadStore: there is nothing that could be checked.
    """
    if can_be_cut(log):
        return _Check(log, spread, least, most).run()
    if log.format is TMQ and log.files.is_tree:
        return _verify_tree(log, spread, least)
    return spread([partial(verify_log, log)])[0]


# -- a tmq tree ----------------------------------------------------------------------------------


def _verify_tree(log: Log, spread: Spread, least: int) -> VerifyReport:
    streams = log.files.streams
    share = -(-len(streams) // max(1, least)) or 1
    tasks = []
    for first in range(0, len(streams), share):
        some = replace(log.files, streams=streams[first : first + share])
        tasks.append(partial(verify_log, log.with_files(some)))
    if not tasks:
        return verify_log(log)
    found = spread(tasks)
    queues = QueueReport()
    for one in found:
        queues.add(one.consume_queue or QueueReport())
    return replace(
        found[0],
        segments=sum(one.segments for one in found),
        records=sum(one.records for one in found),
        bytes=sum(one.bytes for one in found),
        unchecked=sum(one.unchecked for one in found),
        damage=Damages.of(one.damage for one in found),
        consume_queue=queues,
    )


# -- one log with names that tell positions ------------------------------------------------------


@dataclass(slots=True)
class PartFound:
    """What one walk over a part gave."""

    records: int = 0
    bytes: int = 0
    checked: int = 0
    damage: Damages = field(default_factory=Damages)
    arrived: bool = False
    end: int | None = None
    """Where the written part of its segment ends."""
    sums: dict[int, int] = field(default_factory=dict)
    is_indexed: bool = True
    """Whether the part and its share of the key index agree."""
    changes: list[tuple[Change, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Share:
    """Part of a file of the key index."""

    file: IndexFile
    start: int
    """Number of the first entry."""
    end: int


@dataclass(frozen=True, slots=True)
class CheckParts:
    """A task: walk over some parts."""

    log: Log
    parts: Sequence[Part]
    shares: Sequence[list[Share]]
    """Of the key index, for each part."""
    rules: Rules | None
    index: Index | None
    first_position: int
    last: Part

    def __call__(self) -> list[PartFound]:
        return [self._check(part, shares) for part, shares in zip(self.parts, self.shares, strict=True)]

    def _check(self, part: Part, shares: list[Share]) -> PartFound:
        log, rules, index = self.log, self.rules, self.index
        found = PartFound()
        dead = NO_DEAD if rules is None else rules.dead
        sums = None if rules is None else verify_queues.no_sums(rules)
        merge = None
        if index is not None:
            merge = IndexMerge(dead, index.end, _pieces(log, shares))
            merge.agrees = index.is_regular
        walk = PartWalk(log, part)
        for batch in walk:
            size, checked = tally(batch.table, batch.first, batch.count)
            found.records += batch.count - batch.first
            found.bytes += size
            found.checked += checked
            if rules is not None and sums is not None:
                verify_queues.sum_rows(batch, rules, self.first_position, sums)
            if merge is not None:
                merge.add(batch, self.first_position)
            if rules is not None and has_changes(log.format):
                found.changes += changes_of(log.format, batch)
        found.damage = log.damage
        found.arrived, found.end = walk.arrived, walk.end
        if sums is not None:
            found.sums = {block: total for block, total in enumerate(sums) if total}
        if merge is not None and index is not None:
            end = index.end if part != self.last else min(index.end, walk.end or self.first_position)
            found.is_indexed = merge.agrees and not merge.has_left(self.first_position, end)
        return found


def _pieces(log: Log, shares: list[Share]) -> Iterator[bytes]:
    for share in shares:
        for data, _ in chunks(log.fs, share.file, share.start, share.end):
            yield data


@dataclass(frozen=True, slots=True)
class TakeEntries:
    """A task: take the entries of some files off the sums."""

    log: Log
    files: list[EntryFile]
    rules: Rules
    bounds: Bounds

    def __call__(self) -> tuple[QueueReport, dict[int, int], dict[int, int]]:
        sums = verify_queues.no_sums(self.rules)
        report, counts = verify_queues.sum_entries(self.log.fs, self.files, self.rules, self.bounds, sums)
        return report, _not_zero(sums), _not_zero(counts)


@dataclass(frozen=True, slots=True)
class CountIndex:
    """A task: count the entries of one file of the key index."""

    log: Log
    file: IndexFile
    rules: IndexRules

    def __call__(self) -> tuple[IndexReport, dict[int, int]]:
        report, counts = verify_index.count(self.log, [self.file], self.rules)
        return report, _not_zero(counts)


def _not_zero(numbers: array[int]) -> dict[int, int]:
    return {at: number for at, number in enumerate(numbers) if number}


class _Check:
    """One check of a log that can be cut."""

    def __init__(self, log: Log, spread: Spread, least: int, most: int) -> None:
        self._log = log
        self._spread = spread
        self._least = least
        self._step = step_of(log, least, most)
        self._parts = cut(log, self._step)
        self._first_position = log.files.streams[0].named_start
        self._has_queues = log.store is not None
        self._loaded: list[Loaded] = []
        self._index: Index | None = None

    def run(self) -> VerifyReport:
        log = self._log
        if log.store is not None and has_index(log.fs, log.store):
            self._loaded = self._spread([partial(load, log, path) for path in index_paths(log)])
            self._index = Index.of(log, self._loaded)
        rules = Rules.of(log) if self._has_queues else None
        found = self._walk(rules)
        deletions = Deletions()
        for change, position in (both for one in found for both in one.changes):
            deletions.apply(change, position)
        if rules is not None and not is_empty(deletions):
            rules = Rules.of(log, as_table(deletions))
            found = self._walk(rules)
        end = next((one.end for one in reversed(found) if one.end is not None), self._first_position)
        return VerifyReport(
            path=str(log.path),
            format=None if log.format is None else log.format.name,
            segments=log.segment_count,
            records=sum(one.records for one in found),
            bytes=sum(one.bytes for one in found),
            unchecked=sum(one.records - one.checked for one in found),
            damage=Damages.of(one.damage for one in found),
            consume_queue=None if rules is None else self._queues(rules, found, end),
            index=None if rules is None or self._index is None else self._indexes(self._index, rules, found, end),
        )

    # -- the log -----------------------------------------------------------------------------------

    def _walk(self, rules: Rules | None) -> list[PartFound]:
        """Walk over all parts; those of a segment that was cut wrongly, or is damaged, again as one."""
        found = self._walk_over(self._parts, rules)
        broken = {part.segment for part in self._parts if not found[part].arrived}
        if broken:
            self._parts = mended(self._parts, broken)
            found |= self._walk_over([part for part in self._parts if part.segment in broken], rules)
        return [found[part] for part in self._parts]

    def _walk_over(self, parts: list[Part], rules: Rules | None) -> dict[Part, PartFound]:
        shares = self._shares()
        tasks = [
            CheckParts(
                *(self._log, some, [shares[part] for part in some], rules, self._index),
                *(self._first_position, self._parts[-1]),
            )
            for some in grouped(parts, self._step)
        ]
        found = [one for task in self._spread(tasks) for one in task]
        return dict(zip(parts, found, strict=True))

    def _shares(self) -> dict[Part, list[Share]]:
        """Return the entries of the key index that each part must have, where they stand in the order of the log."""
        files = [] if self._index is None else self._index.files
        if not files:
            return {part: [] for part in self._parts}
        begins = [file.begin_position for file in files]
        places = [(0, 1)]
        for part in self._parts[1:]:
            at = max(0, bisect_left(begins, part.start) - 1)
            places.append(max(places[-1], (at, entry_behind(self._log.fs, files[at], part.start))))
        places.append((len(files) - 1, files[-1].count))
        return {part: shares(files, *ends) for part, ends in zip(self._parts, pairwise(places), strict=True)}

    # -- what is derived from it -------------------------------------------------------------------

    def _queues(self, rules: Rules, found: list[PartFound], end: int) -> QueueReport:
        log, first = self._log, self._first_position
        files, queues = entry_files(log)
        bounds = Bounds(0, first, first, min(end, rules.end), array("q", [first]), log.live is not None)
        sums = [one.sums for one in found]
        counts: list[dict[int, int]] = []
        report = QueueReport(queues=queues)
        share = -(-len(files) // self._least) or 1
        tasks = [TakeEntries(log, files[at : at + share], rules, bounds) for at in range(0, len(files), share)]
        for one, taken, counted in self._spread(tasks):
            report.add(one)
            sums.append(taken)
            counts.append(counted)
        unequal = verify_queues.groups(array("Q", added(sums, rules.blocks)), array("q", added(counts, rules.blocks)))
        looks = [partial(verify_queues.match, log, files, rules, bounds, *group) for group in unequal]
        for look in self._spread(looks):
            report.add(look)
        return report

    def _indexes(self, index: Index, rules: Rules, found: list[PartFound], end: int) -> IndexReport:
        log = self._log
        ours = verify_index.rules_of(log, index, rules.dead, self._first_position, end)
        report = verify_index.report_of(self._loaded)
        counts: list[dict[int, int]] = []
        for one, counted in self._spread([CountIndex(log, file, ours) for file in index.files]):
            report.add(one)
            counts.append(counted)
        if not all(one.is_indexed for one in found):
            all_counts = array("q", added(counts, BLOCKS))
            looks = [
                partial(verify_index.match, log, index.files, ours, *group)
                for group in verify_index.groups(ours, all_counts)
            ]
            for look in self._spread(looks):
                report.add(look)
        return report


def shares(files: list[IndexFile], start: tuple[int, int], end: tuple[int, int]) -> list[Share]:
    """Return the entries between two places, each (index of a file, number of an entry)."""
    found = []
    for at in range(start[0], end[0] + 1):
        low = start[1] if at == start[0] else 1
        high = end[1] if at == end[0] else files[at].count
        if low < high:
            found.append(Share(files[at], low, high))
    return found


def added(parts: list[dict[int, int]], blocks: int) -> list[int]:
    """Add up numbers that are kept by block; sums wrap around."""
    total = [0] * blocks
    for part in parts:
        for block, number in part.items():
            total[block] = (total[block] + number) & _MASK
    return total
