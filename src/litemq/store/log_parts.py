"""Parts of a log that can be walked at the same time, each by another process.

A part begins where a record seems to start: its magic is there, the record states that very position, and its checksum
is right.  That is no proof, for a body may hold all of it.  But a walk that comes from before and ends exactly there
would have gone on there: so a part whose walk did not *arrive* at the next one was cut wrongly, or is damaged, and its
segment is walked again as one.  The parts together then give what one walk over the whole log gives.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeVar

from litemq.format import rows
from litemq.format._scan_cy import scan
from litemq.format.record import TMQ, Format
from litemq.store.frames import HEAD_SIZE, Kind, read_head, stated_offset
from litemq.store.fs import File
from litemq.store.log_walk import Log
from litemq.store.segment_walk import NO_END, Batch, Damage

PART_BYTES: Final = 256 << 20
_LEAST_BYTES: Final = 4 << 20
"""Smaller parts cost more than they bring."""
_LOOKED_AT: Final = 1 << 20
_MAX_LOOKED_AT: Final = 16 << 20
"""So far behind the wanted place a record is looked for: behind the largest one."""
_MAGIC_AT: Final = 4

_Result = TypeVar("_Result")
_Sized = TypeVar("_Sized", bound="Sized")


class Sized(Protocol):
    """Something of which some make a task."""

    @property
    def size(self) -> int:
        """Return how many bytes are to be read."""


class Spread(Protocol):
    """Does tasks, which are picklable, in any order and anywhere; returns what each gave, in the order of the tasks."""

    def __call__(self, tasks: Sequence[Callable[[], _Result]], /) -> list[_Result]: ...


@dataclass(frozen=True, slots=True)
class Part:
    """Some records of one segment that follow each other."""

    segment: int
    """Index of the segment."""
    start: int
    """Position of the first record."""
    end: int
    """Position of the next part's first record; ``NO_END``: to the end of the segment."""
    size: int
    """Bytes, as far as one can tell."""


def can_be_cut(log: Log) -> bool:
    """Return whether names tell where segments start, and records where they stand."""
    files = log.files
    is_one = len(files.streams) == 1 and not files.is_tree and files.kind != "file"
    return is_one and log.format not in (None, TMQ) and not files.streams[0].is_ordinal


def cut(log: Log, step: int) -> list[Part]:
    """Return the parts of a log that ``can_be_cut``, about ``step`` bytes each, in log order."""
    found: list[Part] = []
    for index, segment in enumerate(log.files.streams[0].segments):
        start = segment.number or 0
        try:
            file = log.fs.open(segment.path)
        except FileNotFoundError:  # removed meanwhile by the broker that owns it
            continue
        try:
            end = start + _written(log, file, start)
            places = list(_places(log, file, start, end, step))
        finally:
            file.close()
        for one, behind in zip([start, *places], [*places, NO_END], strict=True):
            found.append(Part(index, one, behind, min(behind, end) - one))
    return found


def step_of(log: Log, least: int, most: int = PART_BYTES) -> int:
    """Return into pieces of what size a log is cut, so that there are at least ``least`` of them."""
    total = 0
    for segment in log.files.streams[0].segments:
        if log.fs.exists(segment.path):
            file = log.fs.open(segment.path)
            total += _written(log, file, segment.number or 0)
            file.close()
    return max(min(_LEAST_BYTES, most), min(most, -(-total // max(1, least))))


def grouped(parts: Sequence[_Sized], step: int) -> list[list[_Sized]]:
    """Return neighbours together, up to ``step`` bytes, so that small ones share a task."""
    found: list[list[_Sized]] = []
    size = 0
    for part in parts:
        if not found or size + part.size > step:
            found.append([])
            size = 0
        found[-1].append(part)
        size += part.size
    return found


def as_one(parts: Sequence[Part]) -> Part:
    """Return all parts of a segment as one."""
    return replace(parts[0], end=NO_END, size=sum(part.size for part in parts))


def mended(parts: Sequence[Part], broken: Collection[int]) -> list[Part]:
    """Return the parts with one for each broken segment."""
    again = [as_one([part for part in parts if part.segment == number]) for number in broken]
    kept = [part for part in parts if part.segment not in broken]
    return sorted([*kept, *again], key=lambda part: (part.segment, part.start))


def _written(log: Log, file: File, start: int) -> int:
    """Return how many bytes of a segment may be written."""
    ranges = file.data_ranges(0)
    size = min(file.size(), ranges[-1][1]) if ranges else 0
    if log.live is not None and log.live.flushed is not None:
        size = max(0, min(size, log.live.flushed - start))
    return size


def _places(log: Log, file: File, start: int, end: int, step: int) -> Iterator[int]:
    target = start + step
    while target < end:
        place = _record_behind(log, file, start, target, min(end, target + _MAX_LOOKED_AT))
        if place is not None:
            yield place
            target = place
        target += step


def _record_behind(log: Log, file: File, start: int, position: int, end: int) -> int | None:
    """Return where the first record at or behind ``position`` seems to start."""
    fmt = log.format
    assert fmt is not None
    magics = [magic.to_bytes(_MAGIC_AT) for magic in fmt.magics]
    table = rows.table(1)
    while position < end:
        data = file.read_at(_LOOKED_AT, position - start)
        hits = sorted(at for magic in magics for at in _hits(data, magic))
        for at in hits:
            place = position + at - _MAGIC_AT
            if at >= _MAGIC_AT and place < end and _is_record(log, fmt, file, start, place, table):
                return place
        if len(data) < _LOOKED_AT:
            return None
        position += len(data) - HEAD_SIZE  # a magic may be cut by the end of what was read
    return None


def _hits(data: bytes, magic: bytes) -> Iterator[int]:
    at = data.find(magic)
    while at >= 0:
        yield at
        at = data.find(magic, at + 1)


def _is_record(log: Log, fmt: Format, file: File, start: int, place: int, table: array[int]) -> bool:
    head = read_head(fmt, file.read_at(HEAD_SIZE, place - start))
    if head.kind is not Kind.RECORD or not fmt.min_size <= head.size <= _MAX_LOOKED_AT:
        return False
    frame = file.read_at(head.size, place - start)
    if len(frame) < head.size or stated_offset(fmt, frame) != place:
        return False
    checked = rows.NEVER if log.checked_from is None else log.checked_from
    return scan(fmt.code, memoryview(frame), 0, len(frame), place, table, False, fmt.magic, checked)[0] == 1


class PartWalk:
    """One walk over a part; good for one pass."""

    def __init__(self, log: Log, part: Part) -> None:
        self.arrived = False
        """Whether the walk came from the part's first record to exactly the next part's; told at the end."""
        self.torn: list[int] = []
        """Positions of torn records."""
        self.latest_damage = -1
        """Position of the damage that was met last."""
        self._log = log
        self._part = part
        self._behind = part.start

    def __iter__(self) -> Iterator[Batch]:
        part = self._part
        for batch in self._log.part(part.segment, part.start, part.end, self._note):
            yield batch
            at = (batch.count - 1) * rows.WIDTH
            self._behind = batch.table[at + rows.POSITION] + batch.table[at + rows.SIZE]
        self.arrived = self._behind == part.end or part.end == NO_END

    def _note(self, damage: Damage) -> None:
        self._behind = damage.position + damage.size
        self.latest_damage = damage.position
        if damage.kind == "torn":
            self.torn.append(damage.position)

    @property
    def end(self) -> int | None:
        """Return where the written part of the segment ends; None when nothing is written in it, or it is gone."""
        found = self._log.reached[0]
        return found[0].end if found and found[0].end > found[0].start else None
