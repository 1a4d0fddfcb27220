"""The key index: which records carry a key or a message id.

``index/{yyyyMMddHHmmssSSS}``: header, hash slots, entries (``format/index_file.py``).  The current file's slots and
new entries live in memory (``IndexTail``); entries are written at 1 MiB, slots and header now and then, everything
when the file is full.  Sealed files are only read, and few of them are open at a time.  After an unclean stop the
slots are made anew from the entries, so that nothing depends on the order in which pages reached the disk.  All of it
can be rebuilt from the log.
"""

from __future__ import annotations

import sys
import threading
from array import array
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from litemq.format import index_file
from litemq.format.index_file import ENTRY_SIZE, HEADER_SIZE, IndexEntry, IndexHeader
from litemq.store._tails_cy import SLOT_PAGE, IndexEnd, IndexTail
from litemq.store.fs import File, FileSystem
from litemq.store.open_files import OpenFiles

_READ = 1 << 20
_MAX_OPEN = 16
"""Sealed files that are kept open."""


class SealedIndex:
    """A full file, read only."""

    __slots__ = ("_files", "header", "path", "slots")

    def __init__(self, path: Path, files: OpenFiles[Path], slots: int) -> None:
        self.path = path
        self.slots = slots
        self._files = files
        self.header = index_file.decode_header(self.file.read_at(HEADER_SIZE, 0).ljust(HEADER_SIZE, b"\0"))

    @property
    def file(self) -> File:
        """Return the open file; it stays open while the caller holds it."""
        return self._files.get(self.path)


class SlotWrite:
    """A copy of changed slots and the header on its way into their file; written once, by whoever comes first."""

    def __init__(self, file: File | None, parts: list[tuple[int, bytes]]) -> None:
        self._file = file
        self._parts = parts
        self._guard = threading.Lock()

    def run(self) -> None:
        """Write what is not written yet."""
        with self._guard:
            while self._file is not None and self._parts:
                place, data = self._parts[0]
                self._file.write_at(data, place)
                del self._parts[0]


class KeyIndex(IndexEnd):
    """All index files of a store, oldest first."""

    def __init__(self, fs: FileSystem, directory: Path, slots: int, entries: int, open_files: int = _MAX_OPEN) -> None:
        super().__init__(IndexTail(slots, entries))
        self._fs = fs
        self._directory = directory
        self._slots = slots
        self._entries = entries
        self._sealed: list[SealedIndex] = []
        self._sealed_files: OpenFiles[Path] = OpenFiles(min(open_files, _MAX_OPEN), fs.open)
        self._file: File | None = None
        self._path: Path | None = None
        self._written = 1
        """Number of the first entry that is only in the tail."""
        self._told = 1
        """What the header in the file calls the next number: later entries cannot be found by its slots yet."""
        self._told_time = 0
        self._told_position = 0
        self._slot_write = SlotWrite(None, [])
        self.rolls = 0

    # -- opening ---------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        return [name for name in self._fs.names(self._directory) if len(name) == 17 and name.isdigit()]

    def load(self) -> None:
        """Open the files as a clean stop left them."""
        names = self._names()
        for name in names[:-1]:
            self._seal(name)
        if names:
            self._path = self._directory / names[-1]
            self._file = self._fs.open(self._path, write=True)
            header = index_file.decode_header(self._file.read_at(HEADER_SIZE, 0).ljust(HEADER_SIZE, b"\0"))
            self._take_header(header)
            self._read_slots(self._file)
            self.tail.used_slots = header.slots_used

    def cut_at(
        self,
        position: int,
        is_sound: Callable[[IndexEntry], bool],
        *,
        time_of: Callable[[int], int | None] = lambda _position: None,
        linked: int = 0,
        indexed: int = 0,
    ) -> None:
        """Open the files after an unclean stop: entries at or behind ``position`` go, slots are made anew.

        Behind the entries that were synced anything may stand, torn entries too: first and last must be ``is_sound``.
        ``time_of``: the store time of the record at a position, None when nobody knows it.
        ``linked``: where the slots on disk led to exactly the entries with smaller numbers; they need no second look.
        ``indexed``: number of the first entry at or behind ``position``; 0 when nobody knows it.
        """
        for name in self._names():
            path = self._directory / name
            file = self._fs.open(path, write=True)
            if not self._begins_below(file, position, is_sound):
                file.close()
                self._fs.remove(path)
                continue
            if self._file is not None and self._path is not None:
                self._file.close()
                self._seal(self._path.name)
            self._path, self._file = path, file
        if self._file is not None:
            count = self._count_below(self._file, position, is_sound, indexed)
            self._relink(self._file, count, linked, time_of)

    def _begins_below(self, file: File, position: int, is_sound: Callable[[IndexEntry], bool]) -> bool:
        """Return whether the file's first entry was synced and is from before ``position``.

        A torn one may point below the log's start, where no record can tell; but the header knows where it pointed.
        """
        first = self._stored(file, 1)
        if not any(first) or first.position >= position:
            return False
        header = index_file.decode_header(file.read_at(HEADER_SIZE, 0).ljust(HEADER_SIZE, b"\0"))
        return header.begin_time != 0 and first.position == header.begin_position and is_sound(first)

    def _count_below(self, file: File, position: int, is_sound: Callable[[IndexEntry], bool], indexed: int) -> int:
        """Return the number of the first entry that is not from before ``position``."""

        def is_below(entry: IndexEntry) -> bool:
            return any(entry) and entry.position < position and is_sound(entry)

        if 1 < indexed <= self._entries:
            last, behind = self._stored(file, indexed - 1), self._stored(file, indexed)
            if is_below(last) and not (behind.position >= last.position and is_below(behind)):
                return indexed  # it is this file of which that was said
        low, high = 1, self._entries
        while low < high:  # positions rise from entry to entry
            middle = (low + high) // 2
            entry = self._stored(file, middle)
            if (entry.position == 0 and entry.hash == 0 and entry.previous == 0) or entry.position >= position:
                high = middle
            else:
                low = middle + 1
        first = self._stored(file, 1)
        while low > 2:
            before, last = self._stored(file, low - 2), self._stored(file, low - 1)
            if any(before) and first.position <= before.position <= last.position and is_below(last):
                break
            low -= 1
        return low

    def _relink(self, file: File, count: int, linked: int, time_of: Callable[[int], int | None]) -> None:
        """Keep the entries with numbers below ``count``, zero the rest, set slots and header from them."""
        file.truncate(index_file.entry_at(count, self._slots))
        file.truncate(index_file.file_size(self._slots, self._entries))
        tail = self.tail
        number = linked
        if not (1 < linked <= count and self._read_slots(file) < linked):  # greater ones: written later, or in part
            tail = self.tail = IndexTail(self._slots, self._entries)
            tail.dirty[:] = b"\1" * len(tail.dirty)
            number = 1
        while number < count:
            share = min(_READ // ENTRY_SIZE, count - number)
            tail.relink(file.read_at(share * ENTRY_SIZE, index_file.entry_at(number, self._slots)), number, share)
            number += share
        header = index_file.decode_header(file.read_at(HEADER_SIZE, 0).ljust(HEADER_SIZE, b"\0"))
        first, last = self._stored(file, 1), self._stored(file, count - 1)
        end_time = time_of(last.position)
        tail.count = count
        tail.begin_time = header.begin_time
        # Without the record, which is damaged or gone, the time is known to the second.
        tail.end_time = header.begin_time + 1000 * last.seconds if end_time is None else end_time
        tail.begin_position = first.position
        tail.end_position = last.position
        self._written = count

    def _stored(self, file: File, number: int) -> IndexEntry:
        data = file.read_at(ENTRY_SIZE, index_file.entry_at(number, self._slots))
        return index_file.decode_entry(data.ljust(ENTRY_SIZE, b"\0"))  # the length may not have reached the disk

    def _seal(self, name: str) -> None:
        path = self._directory / name
        self._sealed.append(SealedIndex(path, self._sealed_files, self._slots))

    def _take_header(self, header: IndexHeader) -> None:
        tail = self.tail = IndexTail(self._slots, self._entries)
        tail.begin_time, tail.end_time = header.begin_time, header.end_time
        tail.begin_position, tail.end_position = header.begin_position, header.end_position
        tail.used_slots, tail.count = header.slots_used, header.next_number
        self._written = header.next_number
        self._tell(header)

    def _tell(self, header: IndexHeader) -> None:
        self._told, self._told_time, self._told_position = header.next_number, header.end_time, header.end_position

    @property
    def linked(self) -> int:
        """Return the number up to which the slots in the file lead to everything, once they are synced."""
        return self._told

    def told_until(self, time: int) -> int:
        """Return the store time up to which header and slots in the files tell of everything; ``time``: of all."""
        return time if self._told == self.tail.count else self._told_time

    def _read_slots(self, file: File) -> int:
        """Take the slots as the file has them; return the greatest number among them."""
        greatest = 0
        for first in range(0, 4 * self._slots, _READ):
            data = file.read_at(min(_READ, 4 * self._slots - first), HEADER_SIZE + first)
            greatest = max(greatest, self.tail.take_slots(data, first // 4))
        return greatest

    # -- writing ---------------------------------------------------------------------------------

    def write_tail(self, now_ms: int) -> None:
        """Write new entries into the file; not synced."""
        tail = self.tail
        if not tail.used:
            return
        self._ensure_file(now_ms)
        assert self._file is not None
        data = bytes(memoryview(tail.tail)[: tail.used])
        self._file.write_at(data, index_file.entry_at(self._written, self._slots))
        self._written = tail.count
        tail.tail = bytearray()
        tail.used = 0

    def _ensure_file(self, now_ms: int) -> None:
        if self._file is None:
            self._fs.make_dirs(self._directory, sync=False)  # a checkpoint syncs all of it
            self._path = self._directory / self._new_name(now_ms)
            self._file = self._fs.create(self._path, index_file.file_size(self._slots, self._entries))
            # The begin time is the one thing that entries do not tell.  The count stays behind until the slots are
            # written: a real RocketMQ takes over a file as its header has it.
            known = IndexHeader(self.tail.begin_time, self._told_time, self.tail.begin_position, self._told_position)
            self._file.write_at(index_file.encode_header(known), 0)

    def _new_name(self, now_ms: int) -> str:
        moment = datetime.fromtimestamp(now_ms / 1000)  # noqa: DTZ006 - RocketMQ names index files in local time
        name = f"{moment:%Y%m%d%H%M%S}{now_ms % 1000:03d}"
        # Local time may run back, a clock too: then the name is only the next one, so that files stay in order.
        return max([name, *(f"{int(last) + 1:017d}" for last in self._names()[-1:])])

    def header(self) -> IndexHeader:
        """Return the current file's header."""
        tail = self.tail
        return IndexHeader(
            tail.begin_time, tail.end_time, tail.begin_position, tail.end_position, tail.used_slots, tail.count
        )

    def write_slots(self, now_ms: int) -> None:
        """Write entries, changed slots and the header; not synced."""
        self.copy_slots(now_ms).run()

    def copy_slots(self, now_ms: int) -> SlotWrite:
        """Write entries; return changed slots and the header as a copy that another thread may write."""
        self._slot_write.run()  # the copy before this one, unless it was written already
        self.write_tail(now_ms)
        self._slot_write = SlotWrite(self._file, self._take_parts() if self._file is not None else [])
        return self._slot_write

    def _take_parts(self) -> list[tuple[int, bytes]]:
        """Return (place, bytes) of the slots that changed, and of the header last."""
        tail = self.tail
        parts: list[tuple[int, bytes]] = []
        page = 0
        while (page := tail.dirty.find(1, page)) >= 0:
            stop = tail.dirty.find(0, page)
            stop = min(len(tail.dirty) if stop < 0 else stop, page + 256)
            at, end = 4 * SLOT_PAGE * page, min(4 * SLOT_PAGE * stop, 4 * self._slots)
            part = array("i", bytes(memoryview(tail.slots)[at:end]))
            if sys.byteorder == "little":
                part.byteswap()
            parts.append((HEADER_SIZE + at, part.tobytes()))
            tail.dirty[page:stop] = bytes(stop - page)
            page = stop
        self._tell(self.header())
        return [*parts, (0, index_file.encode_header(self.header()))]

    def roll(self, now_ms: int) -> None:
        """Close the full file and go on with a new one."""
        self.write_slots(now_ms)
        assert self._file is not None
        assert self._path is not None
        self._seal(self._path.name)
        self._file.close()
        keys_done = self.tail.keys_done
        before = self.tail
        self.tail = IndexTail(self._slots, self._entries)
        self.tail.keys_done = keys_done
        self.tail.begin_time = self.tail.end_time = before.end_time
        self.tail.begin_position = self.tail.end_position = before.end_position
        self._file = self._path = None
        self._written = self._told = 1
        self.rolls += 1

    def drop_below(self, position: int) -> int:
        """Remove sealed files whose entries all point below ``position``; return how many."""
        dropped = 0
        while self._sealed and self._sealed[0].header.end_position < position:
            sealed = self._sealed.pop(0)
            self._sealed_files.drop(sealed.path)
            self._fs.remove(sealed.path)
            dropped += 1
        return dropped

    # -- looking up ------------------------------------------------------------------------------

    def positions(self, topic: str, key: str) -> Iterator[int]:
        """Yield the positions that may carry ``key``, newest first; the caller reads the record and compares."""
        for position, _ in self.entries(topic, key):
            yield position

    def entries(self, topic: str, key: str) -> Iterator[tuple[int, int]]:
        """Yield positions as ``positions`` does, each with its store time, which may be up to a second too early."""
        wanted = index_file.key_hash(index_file.key_text(topic, key))
        begin = self.tail.begin_time
        for entry in self._current(wanted):
            yield entry.position, begin + 1000 * entry.seconds
        for sealed in reversed(self._sealed):
            begin = sealed.header.begin_time
            for _, entry in index_file.chain(sealed.file.read_at, sealed.header, sealed.slots, wanted):
                if entry.hash == wanted:
                    yield entry.position, begin + 1000 * entry.seconds

    def _current(self, wanted: int) -> Iterator[IndexEntry]:
        number = self.tail.slot(wanted % self._slots)
        while 0 < number < self.tail.count:
            if number >= self._written:
                entry = index_file.decode_entry(memoryview(self.tail.tail), ENTRY_SIZE * (number - self._written))
            else:
                assert self._file is not None
                data = self._file.read_at(ENTRY_SIZE, index_file.entry_at(number, self._slots))
                entry = index_file.decode_entry(data)
            if entry.hash == wanted:
                yield entry
            if entry.previous >= number:
                return
            number = entry.previous

    def close(self) -> None:
        """Close all files; nothing is written by this."""
        self._sealed_files.clear()
        if self._file is not None:
            self._file.close()
