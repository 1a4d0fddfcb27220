"""Walk over the segments of one log, in order: where each starts, which is the last, which need not be read."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from litemq.format.record import Format
from litemq.store.frames import SIZE_FIELD
from litemq.store.log_files import SegmentFile, Stream
from litemq.store.segment_walk import NO_END, Batch, Damage, SegmentWalk, claimed_start, stated_start
from litemq.store.window import Window

if TYPE_CHECKING:
    from litemq.store.log_walk import Log


@dataclass(frozen=True, slots=True)
class Reached:
    """A segment that a walk went through."""

    segment: SegmentFile
    start: int
    end: int
    """Position behind its written part."""


class StreamWalk:
    """One walk over the segments of one log."""

    def __init__(
        self,
        log: Log,
        fmt: Format,
        magic: int,
        number: int,
        reached: list[Reached],
        report: Callable[[Damage], None],
    ) -> None:
        self._log = log
        self._fmt = fmt
        self._magic = magic
        self._number = number
        self._stream: Stream = log.files.streams[number]
        self._reached = reached
        self._report = report
        self._last: dict[int, bool] = {}

    def batches(
        self, first_position: int, buffer: bytearray, table: array[int], *, is_exact: bool = False
    ) -> Iterator[Batch]:
        """Yield sound records; when ``is_exact`` one starts at ``first_position`` and nothing before it is read."""
        follow: int | None = 0
        for index, segment in enumerate(self._stream.segments):
            behind = self._is_before(index, first_position)
            if behind is None:
                follow = yield from self._segment(
                    index, follow, first_position, NO_END, buffer, table, is_exact=is_exact
                )
            else:
                self._reach(index, Reached(segment, segment.number or 0, behind))

    def part(self, index: int, start: int, end: int, buffer: bytearray, table: array[int]) -> Iterator[Batch]:
        """Yield the sound records of one segment from ``start``, where one starts, to before ``end``."""
        yield from self._segment(index, 0, start, end, buffer, table, is_exact=True)

    def _segment(
        self,
        index: int,
        follow: int | None,
        first_position: int,
        end: int,
        buffer: bytearray,
        table: array[int],
        *,
        is_exact: bool,
    ) -> Generator[Batch, None, int | None]:
        """Yield the sound records of one segment; return where the next one starts, None when that is not known."""
        segment = self._stream.segments[index]
        flushed = self._log.live.flushed if self._log.live is not None else None
        try:
            file = self._log.open_file(segment.path)
        except FileNotFoundError:
            if self._log.live is None:
                raise
            return follow  # retention was faster
        try:
            window = Window(file, file.size(), buffer)
            start = self._start(segment, window, follow)
            if index == 0:
                self._log.first_positions[self._number] = start
            if flushed is not None:
                window.size = max(0, min(window.size, flushed - start))
            walk = SegmentWalk(
                self._fmt,
                self._magic,
                segment,
                start,
                window,
                table,
                is_last=partial(self._is_last, index),
                report=self._report,
                is_live=self._log.live is not None,
                stream=self._number,
                checked_from=self._log.checked_from,
            )
            place = max(0, first_position - start) if is_exact else 0
            yield from walk.batches(first_position, place, end)
        finally:
            file.close()
        self._reach(index, Reached(segment, start, start + walk.written))
        return None if walk.is_lost else start + walk.written

    def _reach(self, index: int, reached: Reached) -> None:
        if index == 0:
            self._log.first_positions[self._number] = reached.start
        self._reached.append(reached)

    def _is_before(self, index: int, first_position: int) -> int | None:
        """Return where the next segment starts when this one lies wholly before the first position that is wanted."""
        if self._stream.is_ordinal or index + 1 == len(self._stream.segments):
            return None
        behind = self._stream.segments[index + 1].number
        return behind if behind is not None and behind <= first_position else None

    def _start(self, segment: SegmentFile, window: Window, follow: int | None) -> int:
        """Return the position of the segment's first byte; ``follow`` is where the one before it ended, if known."""
        number = segment.number
        is_single = self._log.files.kind == "file"
        if not is_single and not self._stream.is_ordinal:
            return number or 0
        is_first = segment is self._stream.segments[0]
        if not is_single and follow is not None and (not is_first or number == 0):
            return follow
        stated = stated_start(self._fmt, self._magic, window)
        if stated is not None:
            return stated
        if is_single:
            return claimed_start(self._fmt, self._magic, window) if number is None else number
        return self._reached[-1].end if self._reached else 0

    def _is_last(self, index: int) -> bool:
        """Return whether no later segment has anything in it."""
        known = self._last.get(index)
        if known is None:
            known = not any(self._is_written(segment) for segment in self._stream.segments[index + 1 :])
            self._last[index] = known
        return known

    def _is_written(self, segment: SegmentFile) -> bool:
        try:
            file = self._log.open_file(segment.path)
        except FileNotFoundError:
            return False
        try:
            return any(file.read_at(SIZE_FIELD, 0))
        finally:
            file.close()
