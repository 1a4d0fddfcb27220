"""The files of a key index as ``verify`` takes them: how many slots each has, and which entries its slots lead to."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from litemq.format import index_file
from litemq.format.index_file import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE, IndexHeader
from litemq.store import _index_check_cy as kernel
from litemq.store.fs import File, FileSystem
from litemq.store.index_slots import likely_slot_count
from litemq.store.log_walk import Log

_CHUNK: Final = ENTRY_SIZE * 50_000
_STEP: Final = _CHUNK // ENTRY_SIZE
_SLOT_CHUNK: Final = 1 << 20
_DEFAULT_SIZE: Final = index_file.file_size(index_file.DEFAULT_SLOTS, index_file.DEFAULT_ENTRIES)


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One file whose slot count is known."""

    path: Path
    slots: int
    count: int
    """Entries and the unused number 0."""
    begin_position: int
    end_position: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """What one file turned out to be."""

    file: IndexFile | None = None
    wrong: int = 0
    """Entries of a file that cannot be read: all of them are wrong."""
    is_regular: bool = True
    """Whether slots lead to all of its entries."""
    is_partial: bool = False
    """A file that is being written does not even show how many slots it has: nothing can be asked of the index."""


def has_index(fs: FileSystem, store: Path | None) -> bool:
    """Return whether the store has a key index at all."""
    return store is not None and fs.is_dir(store / "index")


def index_paths(log: Log) -> list[Path]:
    """Return the files of a store's key index by their names."""
    folder = (log.store or Path()) / "index"
    names = (name for name in log.fs.names(folder) if name.isascii() and name.isdigit())
    return [folder / name for name in names if not log.fs.is_dir(folder / name)]


def load(log: Log, path: Path) -> Loaded:
    """Find out how many slots a file has, and whether they lead to its entries."""
    file = log.fs.open(path)
    try:
        size = file.size()
        if size < HEADER_SIZE:
            return Loaded()
        header = index_file.decode_header(file.read_at(HEADER_SIZE, 0))
        slots = likely_slot_count(size, header, file.read_at)
        if log.live is not None:
            return _load_live(path, file, header, slots)
        found = _with_slots(log, path, size, header, slots)
        if found is None and slots:  # not that many slots, then
            found = _with_slots(log, path, size, header, index_file.slot_count(size, header, file.read_at))
    finally:
        file.close()
    return found or Loaded(wrong=min(header.next_number - 1, size // ENTRY_SIZE))


def _with_slots(log: Log, path: Path, size: int, header: IndexHeader, slots: int | None) -> Loaded | None:
    """Take a file with so many slots; None: it has not so many."""
    if not slots:
        return None if slots is None else Loaded()
    count = min(header.next_number, index_file.entry_count(size, slots))
    index = IndexFile(path, slots, count, header.begin_position, header.end_position)
    lost, astray, _ = reach(log, index)
    if astray and size != _DEFAULT_SIZE:
        return None
    return Loaded(index, is_regular=not lost)


def _load_live(path: Path, file: File, header: IndexHeader, slots: int | None) -> Loaded:
    """Take a file that is being written: its header and slots come later than its entries."""
    if not slots:
        return Loaded(is_partial=True)
    first = index_file.entry_at(0, slots)
    count = 0
    for start, end in file.data_ranges(first):
        for at in range(start, end, _CHUNK):
            written = len(file.read_at(min(_CHUNK, end - at), at).rstrip(b"\0"))
            if written:
                count = -(-(at + written - first) // ENTRY_SIZE)
    return Loaded(IndexFile(path, slots, max(1, count), header.begin_position, header.end_position))


def reach(log: Log, index: IndexFile) -> tuple[int, int, bytearray]:
    """Return how many entries no slot leads to, how many slots lead astray, and a bit for each entry reached."""
    if log.live is not None:  # the owner has the slots in memory, and makes them anew from the entries
        return 0, 0, bytearray(b"\xff" * (index.count // 8 + 1))
    reachable = bytearray(index.count // 8 + 1)
    lost = 0
    file = log.fs.open(index.path)
    try:
        newest = _slots(file, index.slots)
        before = array("i", newest)
        for first in range(1 + (index.count - 2) // _STEP * _STEP, 0, -_STEP):
            data = file.read_at(ENTRY_SIZE * min(_STEP, index.count - first), index_file.entry_at(first, index.slots))
            lost += kernel.mark_reachable(data, first, newest, reachable)
    finally:
        file.close()
    return lost, kernel.count_astray(before, newest), reachable


def _slots(file: File, slots: int) -> array[int]:
    numbers = array("i", bytes(SLOT_SIZE * slots))
    with memoryview(numbers) as view, view.cast("B") as raw:
        for at in range(0, len(raw), _SLOT_CHUNK):
            data = file.read_at(min(_SLOT_CHUNK, len(raw) - at), HEADER_SIZE + at)
            raw[at : at + len(data)] = data
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def chunks(fs: FileSystem, index: IndexFile, start: int = 1, end: int | None = None) -> Iterator[tuple[bytes, int]]:
    """Yield entries ``start`` to before ``end`` in pieces, each with the number of its first one."""
    try:
        file = fs.open(index.path)
    except FileNotFoundError:  # removed meanwhile by the broker that owns it
        return
    end = index.count if end is None else end
    try:
        for first in range(start, end, _STEP):
            data = file.read_at(ENTRY_SIZE * min(_STEP, end - first), index_file.entry_at(first, index.slots))
            if len(data) >= ENTRY_SIZE:
                yield data, first
    finally:
        file.close()


def entry_behind(fs: FileSystem, index: IndexFile, position: int) -> int:
    """Return the number of the first entry that points at or behind ``position``, where positions rise."""
    low, high = 1, index.count
    try:
        file = fs.open(index.path)
    except FileNotFoundError:
        return high
    try:
        while low < high:
            middle = (low + high) // 2
            data = file.read_at(ENTRY_SIZE, index_file.entry_at(middle, index.slots)).ljust(ENTRY_SIZE, b"\0")
            if index_file.decode_entry(data, 0).position >= position:
                high = middle
            else:
                low = middle + 1
    finally:
        file.close()
    return low
