"""How many slots an index file has, found from a few of them.

``format/index_file.py`` looks at every slot of every candidate, which is right and slow for a file of a million slots.
Here the slots that are looked at are few, and the caller, who goes through the whole file anyway, says whether all of
them agree.
"""

from __future__ import annotations

import itertools
import sys
from array import array
from collections.abc import Iterator
from typing import Final

from litemq.format import index_file
from litemq.format.index_file import (
    DEFAULT_ENTRIES,
    DEFAULT_SLOTS,
    ENTRY_SIZE,
    HEADER_SIZE,
    SLOT_SIZE,
    IndexHeader,
    Read,
)

_SMALL: Final = 1 << 16
"""Files below this size are looked at in full."""
_SAMPLE: Final = 64
_CHUNK: Final = 1 << 18


def likely_slot_count(size: int, header: IndexHeader, read: Read) -> int | None:
    """Return how many slots the file has if it is sound; None when no number can be right, 0 when any would do."""
    if size < _SMALL or size == index_file.file_size(DEFAULT_SLOTS, DEFAULT_ENTRIES) or header.next_number <= 1:
        return index_file.slot_count(size, header, read)
    room = size - HEADER_SIZE
    most = (room - ENTRY_SIZE * header.next_number) // SLOT_SIZE
    if room % SLOT_SIZE or most < 1:
        return None
    sample: list[tuple[int, int]] = []
    for start, numbers in _slots(read, most):
        # Slots hold numbers of entries and hashes rarely do: the first word that cannot be a slot bounds the search.
        if max(numbers) >= header.next_number or min(numbers) < 0:
            most = start + next(i for i, number in enumerate(numbers) if not 0 <= number < header.next_number)
            numbers = numbers[: most - start]
        if len(sample) < _SAMPLE:
            used = ((start + i, number) for i, number in enumerate(numbers) if number)
            sample += itertools.islice(used, _SAMPLE - len(sample))
        if most < start + _CHUNK:
            break
    if not sample:
        return None
    step = ENTRY_SIZE // SLOT_SIZE
    most -= (most - room // SLOT_SIZE) % step
    for slots in range(most, sample[-1][0], -step):
        if all(_leads_to(read, slot, number, slots) for slot, number in sample):
            return slots
    return index_file.slot_count(size, header, read)


def _slots(read: Read, most: int) -> Iterator[tuple[int, array[int]]]:
    for start in range(0, most, _CHUNK):
        data = bytes(read(SLOT_SIZE * min(_CHUNK, most - start), index_file.slot_at(start)))
        numbers = array("i", data[: len(data) & -SLOT_SIZE])
        if not numbers:
            return
        if sys.byteorder == "little":
            numbers.byteswap()
        yield start, numbers


def _leads_to(read: Read, slot: int, number: int, slots: int) -> bool:
    data = read(ENTRY_SIZE, index_file.entry_at(number, slots))
    if len(data) < ENTRY_SIZE:
        return False
    found = index_file.decode_entry(data).hash
    return found >= 0 and found % slots == slot
