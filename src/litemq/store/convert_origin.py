"""``__ORIGIN`` of a record names the first position of what it carries or releases (G-1, G-2): translate it.

Where a record went is remembered in a file beside the new store, 16 bytes a record, so that memory does not grow with
the log.  An origin whose record is not there any more (retention took it, its state was carried) cannot keep its
number, which may be another record's new position: the first record that names it becomes the origin, and those that
follow name that one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from pathlib import Path
from typing import Final

from litemq.format.names import ORIGIN
from litemq.store.fs import File, FileSystem
from litemq.types import Record

_MOST_WAITING: Final = 1 << 15
_PAIR: Final = 16
_MAX_DIGITS: Final = 18


def origin_of(record: Record) -> int | None:
    """Return the position that a record names as its origin; None: it names none."""
    text = record.properties.get(ORIGIN)
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        return None
    origin = int(text)
    # No broker writes one that is not earlier: a plain property of the same name.
    return origin if origin < record.position else None


class Origins:
    """Old and new positions of the records of one log, which come in log order."""

    def __init__(self, fs: FileSystem, path: Path) -> None:
        self._fs = fs
        self._path = path
        self._file: File | None = None
        self._written = 0
        self._old = array("q")
        self._new = array("q")
        self._renamed: dict[int, int] = {}
        self._orphan = -1

    def translate(self, record: Record) -> None:
        """Give the record's ``__ORIGIN``, if it has one, its meaning in the new log; call ``note`` afterwards."""
        self._orphan = -1
        origin = origin_of(record)
        if origin is None:
            return
        new = self._renamed.get(origin)
        if new is None:
            new = self._find(origin)
        if new is None:
            del record.properties[ORIGIN]
            self._orphan = origin
        else:
            record.properties[ORIGIN] = str(new)

    def note(self, record: Record, position: int) -> None:
        """Remember that the record just translated went to ``position``."""
        if self._orphan >= 0:
            self._renamed[self._orphan] = position
        self._old.append(record.position)
        self._new.append(position)
        if len(self._old) >= _MOST_WAITING:
            self._write()

    def close(self) -> None:
        """Forget everything; the file goes too."""
        if self._file is not None:
            self._file.close()
            self._fs.remove(self._path)
            self._file = None

    def _write(self) -> None:
        if self._file is None:
            self._file = self._fs.create(self._path, 0)
        pairs = array("q", bytes(_PAIR * len(self._old)))
        pairs[::2] = self._old
        pairs[1::2] = self._new
        self._file.write_at(pairs.tobytes(), _PAIR * self._written)
        self._written += len(self._old)
        self._old, self._new = array("q"), array("q")

    def _find(self, old: int) -> int | None:
        if self._old and old >= self._old[0]:
            at = bisect_left(self._old, old)
            return self._new[at] if at < len(self._old) and self._old[at] == old else None
        low, high = 0, self._written
        while low < high:
            middle = (low + high) // 2
            found, new = self._pair(middle)
            if found == old:
                return new
            if found < old:
                low = middle + 1
            else:
                high = middle
        return None

    def _pair(self, number: int) -> tuple[int, int]:
        assert self._file is not None
        pair = array("q", self._file.read_at(_PAIR, _PAIR * number))
        return pair[0], pair[1]
