"""Bodies of records of ``LITEMQ_SYS_POP``: what became of messages that groups hold by receipts.

All numbers are big-endian.  One byte, 1, for the version, then one or more entries:

    at  size  field
     0     1  kind
     1     2  size of the group's name, then the name, UTF-8
     …     2  size of the topic's name, then the name
     …     4  queue id
     …     4  count of numbers, then the numbers, 8 bytes each

    kind            numbers
    1  handed out   next offset never handed out, pop time, visible again at, then the offsets
    2  acknowledged pairs of offset and pop time
    3  changed      offset, pop time, new pop time, visible again at
    4  finished     offsets: dead letters, and messages that are gone
    5  begun        next offset; whatever the group held of the queue is forgotten
    6  forgotten    none; everything of the group, or of the topic where the group's name is empty
    7  held         next offset never handed out, then groups of four: offset, pop time, visible again at, attempts;
                    nothing else is held: said again before the segments go that said it first
    8  held, too    as 7, what is held beside the entries before

An offset of kind 1 that is held already was delivered once more.  The pop time of a delivery is its identity.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

VERSION = 1


class Kind(IntEnum):
    """What an entry says."""

    HANDED_OUT = 1
    ACKNOWLEDGED = 2
    CHANGED = 3
    FINISHED = 4
    BEGUN = 5
    FORGOTTEN = 6
    HELD = 7
    HELD_TOO = 8


class PopEntry(NamedTuple):
    """One entry of a record."""

    kind: int
    group: str
    topic: str
    queue_id: int
    numbers: Sequence[int]


_SIZE = struct.Struct(">H")
_COUNTS = struct.Struct(">iI")


def encode(entries: Iterable[PopEntry]) -> bytes:
    """Return the body of a record."""
    parts = [bytes((VERSION,))]
    for kind, group, topic, queue_id, numbers in entries:
        name, of = group.encode(), topic.encode()
        head = _COUNTS.pack(queue_id, len(numbers))
        parts += (bytes((kind,)), _SIZE.pack(len(name)), name, _SIZE.pack(len(of)), of, head)
        parts.append(struct.pack(f">{len(numbers)}q", *numbers))
    return b"".join(parts)


def decode(body: bytes) -> Iterator[PopEntry]:
    """Yield the entries of a body; those of another version are none of ours.

    Raises:
        ValueError: the body ends within an entry, or a name is no text.
    """
    if not body or body[0] != VERSION:
        return
    at = 1
    while at < len(body):
        kind = body[at]
        group, at = _name(body, at + 1)
        topic, at = _name(body, at)
        try:
            queue_id, count = _COUNTS.unpack_from(body, at)
            numbers = struct.unpack_from(f">{count}q", body, at + _COUNTS.size)
        except struct.error as error:
            raise ValueError(f"an entry does not end: {error}") from error
        at += _COUNTS.size + 8 * count
        yield PopEntry(kind, group, topic, queue_id, numbers)


def _name(body: bytes, at: int) -> tuple[str, int]:
    end = at + 2 + int.from_bytes(body[at : at + 2], "big")
    if end > len(body) or at + 2 > len(body):
        raise ValueError("a name does not end")
    return body[at + 2 : end].decode(), end
