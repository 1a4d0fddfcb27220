"""Look for a sound record behind bytes that are no frame.

Only to tell damage in a log from its torn end, never to read on there: a record inside another one's body, or an old
one behind the end, may look as sound.
"""

from __future__ import annotations

from typing import Final

from litemq.format import rows
from litemq.format._scan_cy import scan
from litemq.format.record import Format
from litemq.store.frames import HEAD_SIZE, SIZE_FIELD, Kind, adds_up, read_head
from litemq.store.window import WINDOW, Window

_MAGIC_SIZE: Final = HEAD_SIZE - SIZE_FIELD


def has_sound_record(fmt: Format, window: Window, segment_start: int, at: int) -> bool:
    """Return whether a sound record begins at or behind ``at`` of a segment."""
    end = window.end_of_written(at)
    magics = [magic.to_bytes(_MAGIC_SIZE) for magic in fmt.magics]
    while at < end:
        part = window.read(at, WINDOW + HEAD_SIZE)
        for magic in magics:
            found = part.find(magic, SIZE_FIELD)
            while found >= 0:
                if is_sound(fmt, window, segment_start, at + found - SIZE_FIELD):
                    return True
                found = part.find(magic, found + 1)
        at += WINDOW
    return False


def is_sound(fmt: Format, window: Window, segment_start: int, at: int) -> bool:
    """Return whether the frame at ``at`` of a segment is a sound record that belongs there."""
    head = read_head(fmt, window.read(at, HEAD_SIZE))
    if head.kind is not Kind.RECORD or not fmt.min_size <= head.size <= window.size - at:
        return False
    if not adds_up(fmt, window.read, at, head.size):  # what only looks like a frame must not cost a long read
        return False
    frame = window.read(at, head.size)
    return scan(fmt.code, frame, 0, len(frame), segment_start + at, rows.table(1))[0] == 1
