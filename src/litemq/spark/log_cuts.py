"""Where a log can be cut: places where records start, found without looking into bodies.

Queue entries lead to some as far as they go, from a segment's start one gets from size field to size field to others.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from litemq.format import rows
from litemq.format._scan_cy import scan
from litemq.format.queue_entry import QueueEntry
from litemq.store.frames import HEAD_SIZE, Kind, read_head
from litemq.store.log_files import SegmentFile

if TYPE_CHECKING:
    from litemq.spark.files import FileBackend

_HOP_WINDOW: Final = 1 << 20


def places(backend: FileBackend, stream: int, step: int) -> list[int]:
    """Return places about ``step`` bytes apart where records start, in one log."""
    found = backend.log.files.streams[stream]
    if backend.format is None or found.is_ordinal or backend.log.files.kind == "file":
        return []
    answer: list[int] = []
    for index, segment in enumerate(found.segments):
        start = segment.number or 0
        if index:
            answer.append(start)
        end = min(start + backend.size_of(segment), backend.end)
        if end - start > step:
            answer += _inside(backend, segment, start, end, step)
    return [place for place in answer if place < backend.end]


def _inside(backend: FileBackend, segment: SegmentFile, start: int, end: int, step: int) -> Iterator[int]:
    known = min(end, backend.trusted) if backend.queues() else start
    target = start + step
    while target < known:
        place = next_known(backend, target, known)
        if place is None:
            break
        yield place
        target = max(target + step, place + 1)
    if known < end:
        yield from _hops(backend, segment, start, end, step, target)


def next_known(backend: FileBackend, position: int, end: int) -> int | None:
    """Return where the first record at or behind ``position`` starts, of those that queue entries lead to."""
    best: int | None = None
    for (topic, queue_id), entries in backend.queues().items():
        for offset in range(entries.first_at(position, entries.first, entries.end), entries.end):
            entry = entries.entry(offset)
            if entry.position >= (end if best is None else best):
                break
            if entry.is_written and _is_its_record(backend, topic, queue_id, offset, entry):
                best = entry.position
                break
    return best


def _is_its_record(backend: FileBackend, topic: str, queue_id: int, offset: int, entry: QueueEntry) -> bool:
    """Return whether a whole record stands where an entry says, and is the one of that queue and offset."""
    data = backend.read_frame(entry.position)
    table = rows.table(1)
    if not data or backend.format is None:
        return False
    if not scan(backend.format.code, data, 0, len(data), entry.position, table)[0]:
        return False
    return is_of(data, table, 0, topic, queue_id, offset)


def _hops(backend: FileBackend, segment: SegmentFile, start: int, end: int, step: int, target: int) -> Iterator[int]:
    """Yield boundaries found from the segment's start on, from size field to size field."""
    fmt = backend.format
    assert fmt is not None
    file = backend.open_segment(segment.path)
    try:
        at, base, data = 0, 0, b""
        while start + at < end:
            if at + HEAD_SIZE > base + len(data):
                base, data = at, file.read_at(_HOP_WINDOW, at)
            head = read_head(fmt, data[at - base : at - base + HEAD_SIZE])
            if head.kind is not Kind.RECORD or head.size < fmt.min_size:
                return
            if start + at >= target:
                yield start + at
                target = max(target + step, start + at + 1)
            at += head.size
    finally:
        file.close()


def is_of(data: bytes, table: array[int], row: int, topic: str, queue_id: int, offset: int) -> bool:
    """Return whether a row is the message of a queue and offset."""
    at = row * rows.WIDTH
    start = table[at + rows.TOPIC_AT]
    return (
        data[start : start + table[at + rows.TOPIC_SIZE]] == topic.encode("utf-8", "surrogateescape")
        and table[at + rows.QUEUE_ID] == queue_id
        and table[at + rows.QUEUE_OFFSET] == offset
    )
