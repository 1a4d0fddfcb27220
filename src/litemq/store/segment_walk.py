"""Walk over one segment file: windows by read, the scan kernel on each, a judgement on what is not sound.

A damaged record is *torn* when it is the last one of the log and nothing but zeros follows, or when the end of the
log's last segment cuts it; every other one is *corrupt*.  The walk goes on behind a damaged record whose frame is
intact (right magic, inside the segment, and another frame, a filler, zeros or the end follows), otherwise the rest of
the segment is skipped.  Memory is one window; it grows only to the size of a record whose bytes are there.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from litemq.format import compression, rows
from litemq.format._scan_cy import scan
from litemq.format.record import Format
from litemq.store.frames import HEAD_SIZE, SIZE_FIELD, Head, Kind, adds_up, is_undecided, read_head, stated_offset
from litemq.store.log_files import MAX_START, SegmentFile
from litemq.store.window import WINDOW, Window

__all__ = ["TABLE_ROWS", "WINDOW", "Batch", "Damage", "SegmentWalk", "Window", "claimed_start", "stated_start"]

TABLE_ROWS: Final = 1024
_HOPS: Final = 64
"""Records looked at to learn where a single file starts."""

NO_END: Final = (1 << 63) - 1
"""Behind every position."""

CUT_REASON: Final = "record is cut by the end of its segment"


@dataclass(frozen=True, slots=True)
class Damage:
    """A record that cannot be sound."""

    kind: Literal["torn", "corrupt"]
    segment: str
    position: int
    reason: str
    size: int
    """Bytes that the walk left out because of it, without the zeros at the end of a segment."""
    file: SegmentFile
    start: int
    """Position of the segment's first byte."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Sound records that follow each other: rows ``first`` to ``count`` of ``table``, whose bytes are in ``view``.

    View and table are used again for the next batch.
    """

    view: memoryview
    table: array[int]
    first: int
    count: int
    segment: SegmentFile
    start: int
    """Position of the segment's first byte."""
    base: int
    """Position of the view's first byte."""
    stream: int
    """Which log; above 0 in a tmq tree only."""


class SegmentWalk:
    """One pass over one segment."""

    def __init__(
        self,
        fmt: Format,
        magic: int,
        segment: SegmentFile,
        start: int,
        window: Window,
        table: array[int],
        *,
        is_last: Callable[[], bool],
        report: Callable[[Damage], None],
        is_live: bool = False,
        stream: int = 0,
        checked_from: int | None = None,
    ) -> None:
        self.written = 0
        """Place behind the written part, as far as the walk came."""
        self.is_lost = False
        """The rest was skipped, so ``written`` says nothing about positions behind it."""
        self._fmt = fmt
        self._magic = magic
        self._segment = segment
        self._start = start
        self._window = window
        self._table = table
        self._room = len(table) // rows.WIDTH
        self._is_last = is_last
        self._report = report
        self._is_live = is_live
        self._stream = stream
        self._checked_from = rows.NEVER if checked_from is None else checked_from
        self._looked_twice = -1
        self._reason = ""

    def batches(self, first_position: int = -1, place: int = 0, end: int = NO_END) -> Iterator[Batch]:
        """Yield the sound records at or behind ``first_position``, and report every damage there.

        ``place`` is where a frame of the segment starts, and the walk with it.  It ends at the first record at or
        behind position ``end``.
        """
        at: int | None = place
        used = 0
        while at is not None and self._start + at < end:
            count, at, why = self._scan(at, used)
            used += count
            self._reason = rows.REASONS.get(why, CUT_REASON)
            if why == rows.COMPRESSED:
                if self._unfolds(used - 1):
                    # Behind the window another one would be loaded.
                    if used < self._room and at < self._window.end and self._start + at < end:
                        continue
                    why = rows.ROOM
                else:
                    used -= 1
                    at -= self._table[used * rows.WIDTH + rows.SIZE]
                    why = rows.NOT_DECOMPRESSED
            if used:  # before anything else is read into the window
                batch = self._batch(used, first_position, end)
                if batch is not None:
                    yield batch
                used = 0
            if self._start + at < end:
                at = self._next(at, why, first_position)
            else:
                self.written = at

    def _scan(self, at: int, used: int) -> tuple[int, int, int]:
        window = self._window
        if not window.start <= at < window.end:
            window.load(at)
        table = memoryview(self._table)[used * rows.WIDTH :] if used else self._table
        count, place, why = scan(
            self._fmt.code,
            window.view,
            at - window.start,
            window.end - window.start,
            self._start + window.start,
            table,
            True,
            self._magic,
            self._checked_from,
        )
        place += window.start
        if is_undecided(why, window.end - place) and window.end < window.size:
            why = rows.CUT  # the window ends here, not the segment
        return count, place, why

    def _unfolds(self, row: int) -> bool:
        at = row * rows.WIDTH
        table = self._table
        body = self._window.view[table[at + rows.BODY_AT] : table[at + rows.BODY_AT] + table[at + rows.BODY_SIZE]]
        try:
            compression.plain_body(bytes(body), table[at + rows.SYS_FLAG])
        except compression.DoesNotDecompress as error:
            self._reason = str(error)
            return False
        return True

    def _batch(self, count: int, first_position: int, end: int) -> Batch | None:
        first = 0
        table = self._table
        while count and table[(count - 1) * rows.WIDTH + rows.POSITION] >= end:
            count -= 1
        while first < count and table[first * rows.WIDTH + rows.POSITION] < first_position:
            first += 1
        if first == count:
            return None
        return Batch(
            self._window.view,
            table,
            first,
            count,
            self._segment,
            self._start,
            self._start + self._window.start,
            self._stream,
        )

    def _next(self, at: int, why: int, first_position: int) -> int | None:
        """Return where to go on, None when the segment is done."""
        self.written = at
        if why == rows.ROOM:
            return at
        if why in (rows.END, rows.FILLER):
            return None
        if why == rows.CUT:
            why = self._load_frame(at)
            if why == rows.ROOM:
                return at
        if self._is_live and self._looked_twice != at:
            self._looked_twice = at  # the writer may have been in the middle of it
            self._window.load(at)
            return at
        return self._judge(at, self._head(at), first_position, is_cut=why == rows.CUT)

    def _head(self, at: int) -> Head:
        return read_head(self._fmt, self._window.read(at, HEAD_SIZE), any_magic=self._magic < 0)

    def _load_frame(self, at: int) -> int:
        """Load the rest of a frame that the window cuts: ``ROOM``; or return why that cannot be."""
        window = self._window
        head = self._head(at)
        if head.kind in (Kind.NOTHING, Kind.FILLER):  # the window cut its first bytes
            window.load(at)
            return rows.ROOM
        if (window.start == at and window.end == window.size) or at + head.size > window.size:
            return rows.CUT
        if head.size > WINDOW:
            if head.kind is not Kind.RECORD:
                self._reason = rows.REASONS[rows.WRONG_MAGIC]
                return rows.WRONG_MAGIC
            if not adds_up(self._fmt, window.read, at, head.size):
                self._reason = rows.REASONS[rows.DOES_NOT_ADD_UP]
                return rows.DOES_NOT_ADD_UP
        window.load(at, head.size)
        return rows.ROOM

    def _judge(self, at: int, head: Head, first_position: int, *, is_cut: bool) -> int | None:
        window = self._window
        end = min(max(at + head.size, at + SIZE_FIELD), window.size)
        is_last = self._is_last()
        follow: int | None = None
        kind: Literal["torn", "corrupt"] = "corrupt"
        if is_last and (is_cut or window.is_zero(end)):
            if self._is_live:
                return None
            kind = "torn"
            end = window.end_of_written(at) if is_cut else end
        elif not is_cut and head.kind is Kind.RECORD and self._goes_on(end):
            follow = end
        else:
            end = window.end_of_written(at)
        self.written = end
        self.is_lost = follow is None
        if self._start + at >= first_position:
            self._report(
                Damage(kind, self._segment.name, self._start + at, self._reason, end - at, self._segment, self._start)
            )
        return follow

    def _goes_on(self, at: int) -> bool:
        return self._head(at).kind is not Kind.OTHER


def stated_start(fmt: Format, magic: int, window: Window) -> int | None:
    """Return where a file starts in its log by what its first sound record states; None when there is none."""
    at = 0
    table = rows.table(1)
    for _ in range(_HOPS):
        head = read_head(fmt, window.read(at, HEAD_SIZE), any_magic=magic < 0)
        if head.kind is not Kind.RECORD or at + head.size > window.size or head.size < fmt.min_size:
            return None
        if head.size > WINDOW and not adds_up(fmt, window.read, at, head.size):
            return None
        frame = memoryview(window.read(at, head.size))
        stated = stated_offset(fmt, frame)
        if at <= stated < MAX_START and scan(fmt.code, frame, 0, len(frame), stated, table, False, magic)[0]:
            return stated - at
        at += head.size
    return None


def claimed_start(fmt: Format, magic: int, window: Window) -> int:
    """Return the log offset that a whole but damaged first record states, 0 without one: better than nothing."""
    head = read_head(fmt, window.read(0, HEAD_SIZE), any_magic=magic < 0)
    if head.kind is not Kind.RECORD or not fmt.min_size <= head.size <= min(window.size, WINDOW):
        return 0
    stated = stated_offset(fmt, window.read(0, head.size))
    return stated if 0 <= stated < MAX_START else 0
