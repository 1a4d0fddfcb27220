"""What the first bytes of a frame say, before anything of it is believed.

    litemq     u32 size of what follows, u32 magic; size 0xFFFFFFFF: filler
    the rest   u32 size of the whole, u32 magic; rocketmq: a magic of its own for a filler
    all        size 0: nothing is written from here on

``scan`` looks into records; this module only helps a walker to decide where to go on behind a damaged one, where
a file begins, and whether a record that is larger than a window is worth its memory.  Layouts: ``format/``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from litemq.format import litemq, rocketmq, rows
from litemq.format.record import BLUEPRINT, LITEMQ, ROCKETMQ, Format

HEAD_SIZE: Final = 8
SIZE_FIELD: Final = 4

_STATED_AT: Final = {"litemq": -40, "rocketmq": 28, "blueprint": 28, "tmq": 12}
"""Where a record states its own log offset; below zero: from its end."""

Reader = Callable[[int, int], bytes]
"""(place, size) → up to that many bytes; fewer only at the end of the file."""


class Kind(Enum):
    """What stands at a place of a segment."""

    NOTHING = "unwritten space, or the end of the file"
    RECORD = "a frame with the right magic"
    FILLER = "a filler to the end of the segment"
    BEGUN = "too few bytes to show a magic"
    OTHER = "anything else"


@dataclass(frozen=True, slots=True)
class Head:
    """The first bytes of a frame."""

    kind: Kind
    size: int
    """Of the whole frame as it states it; what is left of the file when it does not even state that."""


def read_head(fmt: Format, data: bytes, *, any_magic: bool = False) -> Head:
    """Return what ``data`` says, up to eight bytes: fewer only at the end of the file."""
    if not any(data[:SIZE_FIELD]):
        return Head(Kind.NOTHING, 0)
    if len(data) < SIZE_FIELD:
        return Head(Kind.BEGUN, len(data))
    size = int.from_bytes(data[:SIZE_FIELD])
    if fmt is LITEMQ:
        if size == litemq.FILLER:
            return Head(Kind.FILLER, size)
        size += SIZE_FIELD
    if len(data) < HEAD_SIZE:
        return Head(Kind.BEGUN, size)
    magic = int.from_bytes(data[SIZE_FIELD:HEAD_SIZE])
    if fmt is ROCKETMQ and magic == rocketmq.FILLER_MAGIC:
        return Head(Kind.FILLER, size)
    known = size >= fmt.min_size if any_magic else magic in fmt.magics
    return Head(Kind.RECORD if known else Kind.OTHER, size)


def is_undecided(why: int, left: int) -> bool:
    """Return whether a scan stopped ``left`` bytes before the end of those it was given for want of a size field.

    What follows is known only when more are loaded: zeros among so few are no end, and a filler looks like a record.
    """
    return why in (rows.END, rows.CUT) and left < SIZE_FIELD


def stated_offset(fmt: Format, frame: bytes | memoryview) -> int:
    """Return the log offset that a whole frame states."""
    at = _STATED_AT[fmt.name] % len(frame)
    return int.from_bytes(frame[at : at + 8], signed=True)


def adds_up(fmt: Format, read: Reader, at: int, size: int) -> bool:
    """Return whether the parts of the frame at ``at`` can add up to ``size``, from a few small reads.

    A torn or hostile size field must not cost memory; ``scan`` decides about what passes here.
    """
    if fmt is LITEMQ:  # states its whole size once more, 32 bytes before its end
        return int.from_bytes(read(at + size - 32, 4)) == size
    end = at + size
    if fmt is ROCKETMQ:
        head = read(at, 40)
        ipv6_hosts = (head[39] >> 4 & 1) + (head[39] >> 5 & 1)
        place = _behind(read, at + 84 + 12 * ipv6_hosts, 4, end)
        place = _behind(read, place, 1 if int.from_bytes(head[4:8]) == rocketmq.MAGIC_V1 else 2, end)
    elif fmt is BLUEPRINT:
        place = _behind(read, at + 56, 1, end)
        place = _behind(read, place, 4, end)
    else:
        place = _behind(read, at + 28, 4, end) + 8
        place = _behind(read, place, 4, end)
        place = _behind(read, place, 4, end)
    return _behind(read, place, 2, end) == end


def _behind(read: Reader, place: int, width: int, end: int) -> int:
    """Return the place behind a size field and the bytes it counts; behind ``end`` when they do not fit."""
    if place + width > end:
        return end + 1
    return place + width + int.from_bytes(read(place, width))
