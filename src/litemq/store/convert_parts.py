"""Convert a log in parts, which may be read and written by many processes at the same time.

Log, queues and index equal those of ``convert``.  A first pass over the parts measures each record in its new form;
from that follows where each part begins in the new log, and a second pass writes it there.  Queues and index are then
rebuilt from the new log, in parts too.

One process converts, as ``convert`` does: from and to ``tmq``, from a single file, for topics of type BatchCQ, where
records name the position of an earlier one (``__ORIGIN``: what a broker carried or released later), and where a record
gets a segment of its own size.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from litemq.errors import InvalidRequest, RecordTooLarge, StorageError
from litemq.format.names import CHANGES_TOPIC, PROGRESS_TOPIC
from litemq.format.record import BLUEPRINT, FORMATS, decode_row, to_message, to_placement
from litemq.store.convert import Conversion, ConvertReport
from litemq.store.convert_config import is_copied
from litemq.store.convert_origin import origin_of
from litemq.store.convert_source import OnBatch
from litemq.store.convert_tally import Tally
from litemq.store.convert_target import FIRST, Begin, LogTarget, Topics, reserve_of
from litemq.store.derived import INDEX, QUEUES, Sizes
from litemq.store.file_tree import remove_tree
from litemq.store.fs import File
from litemq.store.log_files import COMMIT_LOG
from litemq.store.log_parts import PART_BYTES, Part, PartWalk, Spread, can_be_cut, cut, grouped, mended, step_of
from litemq.store.log_walk import Log, open_log
from litemq.store.offline import BUILD
from litemq.store.rebuild import Build
from litemq.store.rebuild_feed import shared_file
from litemq.store.rebuild_parts import PartsBuild
from litemq.store.segments import name_of
from litemq.types import Record

_STATE: Final = frozenset((CHANGES_TOPIC, PROGRESS_TOPIC))


@dataclass(slots=True)
class Measured:
    """What the records of a part will need."""

    sizes: array[int] = field(default_factory=lambda: array("I"))
    """Of the records that the destination can hold, in order: four bytes of memory for each record of the log."""
    rejected: list[tuple[int, str]] = field(default_factory=list)
    is_plain: bool = True
    """Whether places follow from sizes alone."""
    torn: int = 0
    corrupt: int = 0
    arrived: bool = False


@dataclass(frozen=True, slots=True)
class MeasureParts:
    """A task: measure the records of some parts in their new form."""

    log: Log
    to: str
    sizes: Sizes
    has_positions: bool
    parts: Sequence[Part]

    def __call__(self) -> list[Measured]:
        return [self._measure(part) for part in self.parts]

    def _measure(self, part: Part) -> Measured:
        fmt, found, topics = FORMATS[self.to], Measured(), Topics()
        limit = self.sizes.segment_bytes - reserve_of(fmt)
        walk = PartWalk(self.log, part)
        for record in _records(self.log, walk):
            if self.has_positions and origin_of(record) is not None:
                found.is_plain = False
                return found
            try:
                topics.check(record)
                size = len(fmt.write(to_message(record), to_placement(record, record.position)))
                if size > limit:
                    raise RecordTooLarge(what="the record", size=size, limit=limit)
            except InvalidRequest as error:
                found.is_plain = found.is_plain and not (fmt is BLUEPRINT and isinstance(error, RecordTooLarge))
                found.rejected.append((record.position, str(error)))
            else:
                found.sizes.append(size)
        found.torn, found.corrupt = self.log.damage.torn, self.log.damage.corrupt
        found.arrived = walk.arrived
        return found


def _records(log: Log, walk: PartWalk) -> Iterator[Record]:
    assert log.format is not None
    for batch in walk:
        for row in range(batch.first, batch.count):
            yield decode_row(log.format, batch.view, batch.table, row, batch.segment.name)


@dataclass(slots=True)
class Written:
    """What was written of a part."""

    end: Begin
    records: int
    bytes: int
    newest_time: int
    dropped: dict[str, int]
    queues: dict[str, int]
    """The highest queue id of each topic, in the order in which they come."""
    state: list[Record]
    """Records that say what the tables of the store hold."""


@dataclass(frozen=True, slots=True)
class WritePart:
    """A task: write the records of a part to their place in the new log."""

    log: Log
    root: Path
    to: str
    sizes: Sizes
    part: Part
    begin: Begin

    def __call__(self) -> Written:
        tally = Tally()
        queues: dict[str, int] = {}
        state: list[Record] = []
        target = _SharedTarget(
            *(self.log.fs, self.root, FORMATS[self.to], self.sizes, None, None, tally.compare), begin=self.begin
        )
        try:
            for record in _records(self.log, PartWalk(self.log, self.part)):
                try:
                    target.add(record)
                except InvalidRequest:
                    continue  # told of when it was measured
                queues[record.topic] = max(record.queue_id, queues.get(record.topic, -1))
                if record.topic in _STATE:
                    state.append(record)
            target.finish()
        finally:
            target.close()
        end = Begin(target.start, target.end)
        return Written(end, target.records, target.bytes, target.newest_time, tally.dropped, queues, state)


class _SharedTarget(LogTarget):
    """Writes into segments in which others write at the same time."""

    def _make(self, size: int) -> File:
        if not self._fs.is_dir(self._folder):
            raise FileNotFoundError(2, "the run that wanted it is over", str(self._folder))
        return shared_file(self._fs, self._folder / name_of(self.start), size)


def packed(begin: Begin, sizes: Iterable[int], segment_bytes: int, reserve: int) -> Begin:
    """Return where a log goes on behind records of these sizes."""
    start, end = begin
    for size in sizes:
        if size + reserve > start + segment_bytes - end:
            start += segment_bytes
            end = start
        end += size
    return Begin(start, end)


class ConversionInParts(Conversion):
    """A conversion that ``spread`` does."""

    _how: tuple[Spread, int, int]

    def run_in_parts(self, spread: Spread, least: int, most: int = PART_BYTES) -> ConvertReport:
        """Convert in at least ``least`` tasks of at most ``most`` bytes."""
        self._how = (spread, least, most)
        return self.run(None)

    def build_log(self, root: Path, on_batch: OnBatch | None) -> None:
        """Write one log for all queues in parts, if that can be, and everything that belongs to it."""
        log = self._log
        if not can_be_cut(log) or self._config.batch_topics or not self._build_in_parts(root):
            self._tally = Tally()
            super().build_log(root, on_batch)

    def _build_in_parts(self, root: Path) -> bool:
        """Do it; False: it cannot be done, and nothing was written."""
        spread, least, most = self._how
        step = step_of(self._log, least, most)
        parts, measured = self._measure(cut(self._log, step), step)
        if not all(one.is_plain for one in measured) or not any(one.sizes for one in measured):
            return False
        begins = [FIRST]
        for one in measured:
            begins.append(packed(begins[-1], one.sizes, self._sizes.segment_bytes, reserve_of(self._fmt)))
        self._fs.make_dirs(root / COMMIT_LOG)
        tasks = [
            WritePart(self._log, root, self._fmt.name, self._sizes, part, begin)
            for part, begin in zip(parts, begins, strict=False)
        ]
        written = spread(tasks)
        if [one.end for one in written] != begins[1:]:
            raise StorageError("the source changed while it was converted; stop whoever writes it, and run it again")
        self._take(measured, written)
        self._derive(root, begins[-1].end, max(one.newest_time for one in written))
        return True

    def _measure(self, parts: list[Part], step: int) -> tuple[list[Part], list[Measured]]:
        """Measure all parts; those of a segment that was cut wrongly, or is damaged, again as one."""
        spread = self._how[0]
        has_positions = is_copied(self._log.format, self._fmt)

        def measure(some: list[Part]) -> dict[Part, Measured]:
            tasks = [
                MeasureParts(self._log, self._fmt.name, self._sizes, has_positions, group)
                for group in grouped(some, step)
            ]
            return dict(zip(some, (one for task in spread(tasks) for one in task), strict=True))

        found = measure(parts)
        broken = {part.segment for part in parts if found[part].is_plain and not found[part].arrived}
        if broken:
            parts = mended(parts, broken)
            found |= measure([part for part in parts if part.segment in broken])
        return parts, [found[part] for part in parts]

    def _take(self, measured: list[Measured], written: list[Written]) -> None:
        """Put together what was counted, in the order of the log."""
        report = self._report
        for one in measured:
            report.torn += one.torn
            report.corrupt += one.corrupt
            for position, reason in one.rejected:
                report.reject(position, reason)
        for done in written:
            report.records += done.records
            report.bytes += done.bytes
            self._tally.add(done.dropped)
            for topic, queue_id in done.queues.items():
                self._config.note_queue(topic, queue_id)
            for record in done.state:
                self._config.note(record)
        report.segments = written[-1].end.start // self._sizes.segment_bytes + 1

    def _derive(self, root: Path, end: int, newest_time: int) -> None:
        """Write queues and index of the new log."""
        spread, least, most = self._how
        log = open_log(root, self._fmt.name, self._fs, live=False)
        build = PartsBuild(Build(log, root, self._sizes, 1, self._clock.now_ms, None), spread, least, most)
        built = build.run()
        if built.records != self._report.records:
            raise StorageError(f"{built.records} of {self._report.records} records can be read back; run it again")
        for name in (QUEUES, INDEX):
            self._fs.rename(root / BUILD / name, root / name)
        remove_tree(self._fs, root / BUILD)
        self.finish_log(root, build.tables, end, newest_time)
