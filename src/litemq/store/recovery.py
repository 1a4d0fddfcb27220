"""Recovery: find the log's end after a stop, clean or not, and bring the derived files in step with it.

The log is scanned from the position up to which derived files are known to be on disk (the checkpoint).  Damage
behind the flushed position is a torn tail: its bytes are saved under ``repair/`` and cut off.  Damage before it is
stepped over and reported; a store never refuses to start over a damaged record.  Without a flushed position of ours
damage is a torn tail when no sound record follows it.  After an unclean stop everything behind the end is zeroed
before the first append, so that no old record can come back.  Where all records have checksums (``checked_from``,
never before the flushed position) one without is torn, too.

Damage that is no frame hides the rest of its segment from every later scan, so the log goes on in the next one.

    crash while …            leaves                                     the next recovery
    saving a torn tail       a part of the copy; the tail untouched     saves again
    zeroing                  some of the tail                           cuts the rest
    removing segments        some of them                               removes the rest
    feeding queues           entries behind the checkpoint              cuts and feeds again
    a flush failed           pages that count as clean and are not      writes them again
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

from litemq.format import rows
from litemq.format._scan_cy import scan
from litemq.format.record import Format
from litemq.store.dispatcher import Dispatcher
from litemq.store.frames import Kind, adds_up, is_undecided, read_head
from litemq.store.fs import FileSystem
from litemq.store.resync import has_sound_record
from litemq.store.segment_walk import Window
from litemq.store.segments import Segment, Segments

logger = logging.getLogger(__name__)

WINDOW_BYTES = 4 << 20
_TABLE_ROWS = 4096
_MAX_REPORTED = 1000
_NEWEST = 64


@dataclass(slots=True)
class Recovered:
    """What recovery found and did."""

    end: int = 0
    """Where the log goes on."""
    records: int = 0
    """Records that were scanned."""
    scanned_bytes: int = 0
    last_time: int = 0
    """Newest store time that was scanned."""
    newest: list[int] = field(default_factory=list)
    """Positions of the last records that were scanned, at most 64: of an append only a first part may be there."""
    is_hidden: bool = False
    """Whether the end lies behind damage of its segment that is no frame: nothing more may be written there."""
    cut: list[tuple[int, int]] = field(default_factory=list)
    """(position, bytes) of what was saved under ``repair/`` and cut off."""
    damaged: list[tuple[int, str]] = field(default_factory=list)
    """(position, reason) of damage that was stepped over, at most 1000."""


class Recovery:
    """One pass over the part of the log that derived files do not cover."""

    def __init__(
        self,
        fs: FileSystem,
        root: Path,
        segments: Segments,
        fmt: Format,
        dispatcher: Dispatcher,
        *,
        flushed: int | None,
        checked_from: int | None = None,
    ) -> None:
        self._fs = fs
        self._root = root
        self._segments = segments
        self._format = fmt
        self._dispatcher = dispatcher
        self._flushed = flushed
        self._checked_from = rows.NEVER if checked_from is None else checked_from
        self._found = Recovered()
        self._buffer = bytearray(WINDOW_BYTES)
        self._table = rows.table(_TABLE_ROWS)
        self._gap_at = -1
        self._has_torn_end = False

    def run(self, start: int, *, clean: bool, noted: int = 0) -> Recovered:
        """Scan from ``start`` to the end; cut what is torn, and after an unclean stop zero what lies behind.

        ``noted``: up to there the last run knew the log to be flushed, as far as its page cache is still the one.
        """
        found = self._found
        found.end = position = start  # where nothing follows, the log ends: it may fill its last segment exactly
        segment = self._segments.find(position)
        while segment is not None:
            end = self._scan(segment, position)
            if end is not None:
                found.end = end
                break
            found.end = position = segment.end
            segment = self._next(segment)
            if segment is not None and segment.start > position:
                self._report(position, f"the log goes on at {segment.start}: segments are missing")
                position = segment.start
        if not clean:
            self._write_again(max(noted, start if self._flushed is None else self._flushed), found.end)
        is_foreign = self._flushed is None
        if not clean or is_foreign or self._has_torn_end or self._segments.last.start > found.end:
            self._cut(found.end)  # also a file that was made ahead of time, which is no last one
        return found

    def _next(self, segment: Segment) -> Segment | None:
        """Return the segment with which the log goes on; missing ones are stepped over before the flushed position."""
        later = self._segments.find(segment.end)
        if later is None:
            later = next((other for other in self._segments if other.start > segment.start), None)
            if later is not None and self._flushed is not None and later.start >= self._flushed:
                return None
        return later

    # -- scanning --------------------------------------------------------------------------------

    def _scan(self, segment: Segment, position: int) -> int | None:
        """Feed the segment's records from ``position`` on; return the log's end when it is here, else None."""
        self._found.is_hidden = False
        window = Window(segment.file, segment.size, self._buffer)
        at = position - segment.start
        window.load(at)
        while True:
            count, place, why = scan(
                self._format.code,
                window.view,
                at - window.start,
                window.end - window.start,
                segment.start + window.start,
                self._table,
                checked_from=self._checked_from,
            )
            if count:
                self._feed(window, count)
            at = window.start + place
            if why == rows.ROOM:
                continue
            if is_undecided(why, window.end - at) and window.end < window.size:
                window.load(at)
                continue
            if why == rows.CUT and window.end < window.size:
                head = read_head(self._format, window.read(at, 8))
                if head.size <= window.size - at and self._is_worth(window, at, head.size):
                    window.load(at, head.size)
                    continue
            if why == rows.FILLER:
                return None
            after = self._after(segment, window, at, why)
            if after is None:
                return None
            if after == at:
                return segment.start + at
            self._found.scanned_bytes += after - at
            at = after
            window.load(at)

    def _is_worth(self, window: Window, at: int, size: int) -> bool:
        """Return whether a frame is worth its memory: a torn size field may say anything."""
        return size <= WINDOW_BYTES or adds_up(self._format, window.read, at, size)

    def _feed(self, window: Window, count: int) -> None:
        table = self._table
        last = (count - 1) * rows.WIDTH
        found = self._found
        found.records += count
        found.scanned_bytes += table[last + rows.POSITION] + table[last + rows.SIZE] - table[rows.POSITION]
        found.last_time = max(found.last_time, table[last + rows.STORE_TIME])
        first = max(count - _NEWEST, 0) * rows.WIDTH
        found.newest = [*found.newest, *table[first + rows.POSITION : last + rows.WIDTH : rows.WIDTH]][-_NEWEST:]
        self._dispatcher.feed(window.view, table, count, self._gap_at)

    def _after(self, segment: Segment, window: Window, at: int, why: int) -> int | None:
        """Return where the scan goes on in this segment: ``at`` itself is the log's end, None the next segment."""
        position = segment.start + at
        if why == rows.END:
            left = segment.size - at
            if left < 4 and self._next(segment) is not None:
                return None
            if not self._is_hole(segment, window, at):
                return at
            self._report(position, "a hole of zeros, and records behind it")
        elif self._is_torn(segment, window, at):
            self._has_torn_end = True
            return at
        else:
            self._report(position, rows.REASONS.get(why, "the frame reaches beyond its segment"))
            head = read_head(self._format, window.read(at, 8))
            behind = at + head.size
            if head.kind is Kind.RECORD and behind <= self._sure_end(segment) and self._goes_on(window, behind):
                return behind
        if self._flushed is not None and position < self._flushed <= segment.end:
            self._found.is_hidden = True
            return self._flushed - segment.start  # a record begins there, whatever lies between
        return None

    def _sure_end(self, segment: Segment) -> int:
        """Return the last place of a segment at which a frame may end that begins before the flushed position."""
        return segment.size if self._flushed is None else min(segment.size, self._flushed - segment.start)

    def _is_torn(self, segment: Segment, window: Window, at: int) -> bool:
        """Return whether damage at ``at`` is an unfinished write, to be cut off."""
        if self._flushed is not None:
            return segment.start + at >= self._flushed
        # Not our checkpoint: torn when nothing sound follows in the last segment that holds anything.
        return not self._is_followed(segment) and not self._goes_on_somewhere(segment, window, at)

    def _is_hole(self, segment: Segment, window: Window, at: int) -> bool:
        """Return whether the log goes on behind zeros that begin at ``at``."""
        if self._flushed is not None:
            return segment.start + at < self._flushed
        return self._is_followed(segment) or self._goes_on_somewhere(segment, window, at)

    def _goes_on_somewhere(self, segment: Segment, window: Window, at: int) -> bool:
        return has_sound_record(self._format, window, segment.start, at + 1)

    def _is_followed(self, segment: Segment) -> bool:
        """Return whether a later segment holds anything: RocketMQ makes one ahead of time."""
        later = self._next(segment)
        return later is not None and not Window(later.file, later.size, bytearray()).is_zero(0)

    def _goes_on(self, window: Window, at: int) -> bool:
        return read_head(self._format, window.read(at, 8)).kind in (Kind.NOTHING, Kind.RECORD, Kind.FILLER)

    def _report(self, position: int, reason: str) -> None:
        self._gap_at = position
        logger.warning("damaged record skipped: position=%d reason=%s", position, reason)
        if len(self._found.damaged) < _MAX_REPORTED:
            self._found.damaged.append((position, reason))

    # -- cutting ---------------------------------------------------------------------------------

    def _write_again(self, start: int, end: int) -> None:
        """Write what the last run may not have brought to disk once more.

        A flush that failed leaves pages that read well and count as clean: no later sync would bring them to disk.
        The flush that ends the opening syncs what is written here.
        """
        self._segments.sync_names()  # the last run may have died between a rename and its sync
        for segment in self._segments.between(start, end):
            first, last = max(start, segment.start) - segment.start, min(end, segment.end) - segment.start
            for at in range(first, last, WINDOW_BYTES):
                segment.file.write_at(segment.file.read_at(min(WINDOW_BYTES, last - at), at), at)

    def _cut(self, end: int) -> None:
        """Save what lies behind ``end``, then make sure that nothing of it can come back."""
        segment = self._segments.find(end)
        for other in self._segments:
            if other.start > end:
                self._save(other, 0)
        if segment is not None:
            self._save(segment, end - segment.start)
        self._segments.drop_after(end + 1)
        if segment is not None:
            segment.file.zero(end - segment.start, segment.end - end)
            segment.file.sync()

    def _save(self, segment: Segment, at: int) -> None:
        window = Window(segment.file, segment.size, self._buffer)
        stop = window.end_of_written(at)
        if stop == at:
            return
        folder = self._root / "repair"
        self._fs.make_dirs(folder)
        path = folder / f"{segment.start + at:020d}"
        self._fs.remove(path)
        copy = self._fs.create(path, 0)
        try:
            for place in range(at, stop, WINDOW_BYTES):
                copy.write_at(window.read(place, min(WINDOW_BYTES, stop - place)), place - at)
            copy.sync()
        finally:
            copy.close()
        self._fs.sync_dir(folder)
        self._found.cut.append((segment.start + at, stop - at))
        logger.warning("torn tail cut: position=%d bytes=%d saved=%s", segment.start + at, stop - at, path.name)
