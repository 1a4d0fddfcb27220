"""The key index file, as RocketMQ writes it: key → positions, big-endian.

    header, 40 bytes                                     then slots, 4 bytes each
      at  size  field                                      number of the slot's newest entry, 0 = none
       0     8  begin time      store time of the first    then entries, 20 bytes each; number 0 is never used
       8     8  end time        … of the newest entry        at  size  field
      16     8  begin position                                0     4  hash      of the key text
      24     8  end position                                  4     8  position  of the record
      32     4  slots used                                   12     4  seconds   between begin time and store time
      36     4  next number     entries + 1                  16     4  previous  older entry of the same slot, 0 = none

Key text: ``topic#key``.  Hash: Java's ``String.hashCode``, made positive; slot: hash mod slots.  How many slots a file
has is not in the file: ``slot_count`` finds it out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from litemq.format._text_cy import java_hash

DEFAULT_SLOTS: Final = 5_000_000
DEFAULT_ENTRIES: Final = 20_000_000

_HEADER = struct.Struct(">4q2i")
_SLOT = struct.Struct(">i")
_ENTRY = struct.Struct(">iqii")
HEADER_SIZE: Final = _HEADER.size
SLOT_SIZE: Final = _SLOT.size
ENTRY_SIZE: Final = _ENTRY.size

Buffer = bytes | bytearray | memoryview
Read = Callable[[int, int], Buffer]
"""Return up to so many bytes (first) of the file from a place (second)."""


class IndexHeader(NamedTuple):
    """The first 40 bytes.  ``next_number`` (RocketMQ's index count) starts at 1: entry number 0 is never used."""

    begin_time: int = 0
    end_time: int = 0
    begin_position: int = 0
    end_position: int = 0
    slots_used: int = 0
    next_number: int = 1


class IndexEntry(NamedTuple):
    """One entry; ``previous`` is the number of an older entry of the same slot, 0 = none."""

    hash: int
    position: int
    seconds: int
    previous: int


def encode_header(header: IndexHeader) -> bytes:
    """Return the 40 bytes."""
    return _HEADER.pack(*header)


def decode_header(buf: Buffer) -> IndexHeader:
    """Return the header; a next number below 1 reads as 1."""
    header = IndexHeader(*_HEADER.unpack_from(buf))
    return header if header.next_number >= 1 else header._replace(next_number=1)


def encode_entry(entry: IndexEntry) -> bytes:
    """Return the 20 bytes."""
    return _ENTRY.pack(*entry)


def decode_entry(buf: Buffer, at: int = 0) -> IndexEntry:
    """Return the entry in the 20 bytes at ``at``."""
    return IndexEntry(*_ENTRY.unpack_from(buf, at))


def encode_slot(number: int) -> bytes:
    """Return the 4 bytes."""
    return _SLOT.pack(number)


def decode_slot(buf: Buffer, at: int = 0) -> int:
    """Return the number in the 4 bytes at ``at``."""
    number: int = _SLOT.unpack_from(buf, at)[0]
    return number


def file_size(slots: int, entries: int) -> int:
    """Return the size of a whole index file."""
    return HEADER_SIZE + SLOT_SIZE * slots + ENTRY_SIZE * entries


def slot_at(slot: int) -> int:
    """Return the place of a slot in the file."""
    return HEADER_SIZE + SLOT_SIZE * slot


def entry_at(number: int, slots: int) -> int:
    """Return the place of an entry in a file with ``slots`` slots."""
    return HEADER_SIZE + SLOT_SIZE * slots + ENTRY_SIZE * number


def entry_count(size: int, slots: int) -> int:
    """Return how many entries, the unused one included, a file of ``size`` bytes with ``slots`` slots has room for."""
    return max(0, (size - HEADER_SIZE - SLOT_SIZE * slots) // ENTRY_SIZE)


def key_text(topic: str, key: str) -> str:
    """Return the text that is hashed for a key."""
    return f"{topic}#{key}"


def key_hash(text: str) -> int:
    """Return the hash of a key text: Java's, made positive; the one value without a positive twin becomes 0."""
    value = java_hash(text)
    return value if value < 0x80000000 else (0x100000000 - value) & 0x7FFFFFFF


# -- reading whole files ------------------------------------------------------------------------------------------


def chain(read: Read, header: IndexHeader, slots: int, wanted: int) -> Iterator[tuple[int, IndexEntry]]:
    """Yield number and entry of each entry in the slot of hash ``wanted``, newest first, other hashes too.

    A chain only ever leads to older, smaller numbers; one that does not ends there, so that none can go round.
    """
    data = read(SLOT_SIZE, slot_at(wanted % slots))
    number = decode_slot(data) if len(data) == SLOT_SIZE else 0
    before = header.next_number
    while 0 < number < before:
        data = read(ENTRY_SIZE, entry_at(number, slots))
        if len(data) < ENTRY_SIZE:
            return
        entry = decode_entry(data)
        yield number, entry
        before, number = number, entry.previous


def slot_count(size: int, header: IndexHeader, read: Read) -> int | None:
    """Return how many slots a file of ``size`` bytes has; None when no number makes sense of it.

    A file of the default size has the default number; otherwise it is the one with which every used slot leads to an
    entry of that slot.  0 when the file has no entry and any number would do.
    """
    if size == file_size(DEFAULT_SLOTS, DEFAULT_ENTRIES):
        return DEFAULT_SLOTS
    room = size - HEADER_SIZE
    if room < 0 or room % SLOT_SIZE or header.next_number > room // ENTRY_SIZE:
        return None
    if header.next_number == 1:
        return 0
    # Slots hold numbers of entries and hashes rarely do: the first word that cannot be a slot bounds the search.
    most = (room - ENTRY_SIZE * header.next_number) // SLOT_SIZE
    first, most = _slot_bounds(read, header.next_number, most)
    if first is None:
        return None
    place, number = first
    # Fewer slots than there are can look right by chance, with few of them used: so go down.
    step = ENTRY_SIZE // SLOT_SIZE
    most -= (most - room // SLOT_SIZE) % step
    # An entry of zeros is hardly one (position 0 and hash 0), but may be: believe in it when nothing else is found.
    for zeros in (False, True):
        for slots in range(most, place, -step):
            if _leads_to(read, place, number, slots, zeros) and _is_consistent(read, header.next_number, slots, zeros):
                return slots
    return None


def _slot_bounds(read: Read, next_number: int, most: int) -> tuple[tuple[int, int] | None, int]:
    """Return the first used slot (its number, and the entry's) and how many slots there can be at most."""
    first: tuple[int, int] | None = None
    for slot, number in _slots(read, most):
        if not 0 <= number < next_number:
            return first, slot
        if first is None and number:
            first = slot, number
    return first, most


def _is_consistent(read: Read, next_number: int, slots: int, zeros: bool) -> bool:
    return all(
        0 <= number < next_number and (not number or _leads_to(read, slot, number, slots, zeros))
        for slot, number in _slots(read, slots)
    )


def _leads_to(read: Read, slot: int, number: int, slots: int, zeros: bool) -> bool:
    """Return whether entry ``number`` belongs into ``slot``; ``zeros`` says whether one of zeros will do."""
    data = read(ENTRY_SIZE, entry_at(number, slots))
    if len(data) < ENTRY_SIZE:
        return False
    entry = decode_entry(data)
    return entry.hash >= 0 and entry.hash % slots == slot and (zeros or any(entry))


def _slots(read: Read, slots: int) -> Iterator[tuple[int, int]]:
    """Yield each slot and what it holds, reading a window at a time; empty stretches are passed over."""
    for start in range(0, slots, _WINDOW):
        size = SLOT_SIZE * min(_WINDOW, slots - start)
        data = bytes(read(size, slot_at(start)))
        if len(data) < size or data.count(0) < size:
            yield from enumerate(struct.unpack(f">{len(data) // SLOT_SIZE}i", data[: len(data) & -SLOT_SIZE]), start)


_WINDOW: Final = 1 << 12
"""Slots looked at in one read."""
