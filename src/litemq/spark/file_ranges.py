"""Read ranges of store files: runs of rows, and what is damaged between them.

A *log range* is walked from frame to frame, as ``store dump`` does, and rows of other topics are passed over.  A *queue
range* goes by the entries of a ConsumeQueue, so that a small topic costs what it holds.  Both give a record only after
its whole frame was decoded at a place that is one: what looks like a record inside a body is never looked at.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Final

from litemq.format import compression, rows
from litemq.format._scan_cy import scan
from litemq.format.queue_entry import QueueEntry
from litemq.format.record import TMQ, Format
from litemq.spark.backend import Damaged, Rows
from litemq.spark.log_cuts import is_of, next_known
from litemq.spark.queue_entries import CHUNK
from litemq.spark.ranges import NO_END, LogRange, QueueRange
from litemq.store.frames import HEAD_SIZE, Kind, read_head
from litemq.store.segment_walk import Damage

if TYPE_CHECKING:
    from litemq.spark.files import FileBackend

_MAX_RUN: Final = 8 << 20
_GAP: Final = 2
"""A run of reads may be so many times as long as the records that are wanted of it."""


def log_rows(backend: FileBackend, part: LogRange) -> Iterator[Rows | Damaged]:
    """Yield what the walk over part of a log finds, and what queue entries lead to where it loses its way.

    So the same records are found however the log is cut: a part never reaches beyond its segment.
    """
    start: int | None = part.start
    while start is not None:
        start = yield from _walk(backend, part._replace(start=start))


def _walk(backend: FileBackend, part: LogRange) -> Generator[Rows | Damaged, None, int | None]:
    """Yield what one walk finds; return where to walk on when it lost its way before the part's end."""
    log = backend.log
    damages: list[Damage] = []

    def report(damage: Damage) -> None:
        if part.start <= damage.position < part.end:
            damages.append(damage)

    exact = part.start >= 0
    at = part.start if exact else log.files.streams[part.stream].named_start
    runs = log.batches(
        part.start if exact else None,
        streams=range(part.stream, part.stream + 1),
        on_damage=report,
        is_exact=exact,
    )
    for batch in runs:
        place = yield from _told(backend, part, damages)
        if place is not None:
            return place
        if batch.table[batch.first * rows.WIDTH + rows.POSITION] >= part.end:
            break
        yield Rows(batch.view, batch.table, batch.first, batch.count, batch.base, part.end)
        last = (batch.count - 1) * rows.WIDTH
        at = batch.table[last + rows.POSITION] + batch.table[last + rows.SIZE]
        if at >= part.end:
            return None
    at = max([at, *(damage.position + damage.size for damage in damages)])
    place = yield from _told(backend, part, damages)
    if place is None:
        place = _behind_hole(backend, part, at)
        end = part.end if place is None and _is_inside(backend, part.end) else place
        if end is not None and at < end:
            yield Damaged(at, end - at, "nothing is written here, and records are behind it", _name_at(backend, at))
    return place


def _told(backend: FileBackend, part: LogRange, damages: list[Damage]) -> Generator[Damaged, None, int | None]:
    """Yield damages; return the first record in one that queue entries lead to, where the walk passes it over."""
    while damages:
        damage = damages.pop(0)
        end = min(damage.position + damage.size, part.end, backend.trusted)
        place = next_known(backend, damage.position + 1, end) if not part.stream else None
        if place is not None or damage.kind != "torn":  # a log's unfinished end: nothing that was there is missing
            size = damage.size if place is None else place - damage.position
            yield Damaged(damage.position, size, damage.reason, damage.segment)
        if place is not None:
            return place
    return None


def _behind_hole(backend: FileBackend, part: LogRange, at: int) -> int | None:
    """Return the first record that queue entries lead to behind ``at``, where a walk took the log to end."""
    end = min(part.end, backend.trusted)
    if part.stream or at >= end or backend.format is None:
        return None
    if read_head(backend.format, backend.read_at(at, HEAD_SIZE)).kind is Kind.FILLER:
        return None
    return next_known(backend, at, end)


def _is_inside(backend: FileBackend, place: int) -> bool:
    """Return whether a part ends there because a record starts in the middle of a segment."""
    segments = backend.log.files.streams[0].segments
    return place < backend.end and segments[backend.segment_of(place)].number != place


def _name_at(backend: FileBackend, position: int) -> str:
    return backend.log.files.streams[0].segments[max(0, backend.segment_of(position))].name


def queue_rows(backend: FileBackend, part: QueueRange) -> Iterator[Rows | Damaged]:
    """Yield what the entries of a queue lead to."""
    entries = backend.queues()[part.topic, part.queue_id]
    layout = backend.layout
    for start in range(part.start, part.end, CHUNK):
        count = min(CHUNK, part.end - start)
        data = entries.read(start, count)
        places = [layout.decode(data, at) for at in range(0, count * layout.size, layout.size)]
        at = 0
        while at < count:
            stop = _run(backend, places, at)
            yield from _read_run(backend, part, start + at, places[at:stop])
            at = stop


def _run(backend: FileBackend, places: list[QueueEntry], at: int) -> int:
    """Return behind which entry one read ends: gaps are read over while that costs less than it saves."""
    first = places[at]
    if not first.is_written or first.is_before_start:
        return at + 1
    segment, wanted, end = backend.segment_of(first.position), first.size, first.position + first.size
    stop = at + 1
    while stop < len(places):
        entry = places[stop]
        if not entry.is_written or entry.position < end or backend.segment_of(entry.position) != segment:
            break
        span = entry.position + entry.size - first.position
        if span > _MAX_RUN or span > _GAP * (wanted + entry.size):
            break
        wanted += entry.size
        end = entry.position + entry.size
        stop += 1
    return stop


def _read_run(
    backend: FileBackend, part: QueueRange, offset: int, places: list[QueueEntry]
) -> Iterator[Rows | Damaged]:
    fmt = backend.format
    assert fmt is not None
    first = places[0]
    if first.is_before_start:
        return
    number = backend.segment_of(first.position)
    size = places[-1].position + places[-1].size - first.position
    data = b""
    if first.is_written and number >= 0:
        segment = backend.log.files.streams[0].segments[number]
        data = backend.read_segment(segment, first.position - (segment.number or 0), size)
    view = memoryview(data)
    table = rows.table(len(places))
    found = 0
    for index, entry in enumerate(places):
        at = entry.position - first.position
        row = memoryview(table)[found * rows.WIDTH :]
        checked = rows.NEVER if backend.log.checked_from is None else backend.log.checked_from
        end = min(at + max(entry.size, 0), len(data))
        count, _, why = scan(fmt.code, view, at, end, first.position, row, False, fmt.magic, checked)
        if count == 1 and is_of(data, table, found, part.topic, part.queue_id, offset + index):
            reason = _folded(fmt, view, table, found)
        else:
            nobody = f"entry {offset + index} of queue {part.topic}/{part.queue_id} leads to no such record"
            reason = rows.REASONS.get(why, nobody)
        if reason:
            if found:
                yield Rows(view, table, 0, found, first.position, NO_END)
                table, found = rows.table(len(places)), 0
            yield Damaged(entry.position, entry.size, reason, f"queue {part.topic}/{part.queue_id}")
        else:
            found += 1
    if found:
        yield Rows(view, table, 0, found, first.position, NO_END)


def _folded(fmt: Format, view: memoryview, table: array[int], row: int) -> str:
    """Return why a compressed body cannot be unfolded; nothing when it can, or is not compressed."""
    at = row * rows.WIDTH
    if fmt is TMQ or not table[at + rows.SYS_FLAG] & 1:
        return ""
    body = view[table[at + rows.BODY_AT] : table[at + rows.BODY_AT] + table[at + rows.BODY_SIZE]]
    try:
        compression.plain_body(bytes(body), table[at + rows.SYS_FLAG])
    except compression.DoesNotDecompress as error:
        return str(error)
    return ""
