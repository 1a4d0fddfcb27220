"""Plain twin of ``_columns_c``: each row becomes a record, and its values are appended one by one."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from litemq.format import rows as r

if TYPE_CHECKING:
    from litemq.format.columns import Value
    from litemq.types import Record

Buffers = tuple["bytearray | bytes | None", ...]
Chooser = Callable[[bytes, int], "tuple[int, int, int] | None"]

_PREPARED = 1
_ROLLED_BACK = 3


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return False


def pick(
    view: memoryview,
    table: array[int],
    first: int,
    count: int,
    end: int,
    choose: Chooser | None,
    cache: dict[tuple[bytes, int], tuple[int, int, int] | None],
    placed_only: bool,
    from_time: int,
    to_time: int,
    picked: array[int],
) -> int:
    """Note the rows that are wanted in ``picked`` and return how many.

    A row counts when it lies before ``end``, is stored in ``from_time`` to ``to_time`` (the end is not part of it),
    and when ``choose(topic, queue id)`` gives (lowest offset, offset behind the last, lowest position) that it fits.
    With ``placed_only`` prepared and rolled-back records do not count.
    """
    found = 0
    for row in range(first, count):
        at = row * r.WIDTH
        position = table[at + r.POSITION]
        if position >= end:
            break
        if not from_time <= table[at + r.STORE_TIME] < to_time:
            continue
        is_placed = table[at + r.STATUS] not in (_PREPARED, _ROLLED_BACK)
        if placed_only and not is_placed:
            continue
        if choose is not None:
            topic = bytes(view[table[at + r.TOPIC_AT] : table[at + r.TOPIC_AT] + table[at + r.TOPIC_SIZE]])
            key = (topic, table[at + r.QUEUE_ID])
            if key not in cache:
                cache[key] = choose(*key)
            bounds = cache[key]
            if bounds is None or position < bounds[2]:
                continue
            if is_placed and not bounds[0] <= table[at + r.QUEUE_OFFSET] < bounds[1]:
                continue
        picked[found] = row
        found += 1
    return found


class Columns:
    """The wanted columns of records, growing row by row."""

    def __init__(self, code: int, names: Sequence[str]) -> None:
        from litemq.format.columns import KINDS  # which imports this module
        from litemq.format.record import FORMATS

        self.rows = 0
        self.bytes = 0
        self.odd = 0
        self._format = next(known for known in FORMATS.values() if known.code == code)
        order = list(KINDS)
        self._names = list(names)
        self._kinds = [KINDS[name] for name in names]
        self._indexes = [order.index(name) for name in names]
        self._values: list[list[Value]] = [[] for _ in names]

    def add(
        self,
        view: memoryview,
        table: array[int],
        picked: array[int],
        start: int,
        count: int,
        max_rows: int,
        max_bytes: int,
    ) -> int:
        """Take rows ``picked[start:count]``, up to the limits of a batch; return where it stopped.

        A row that is larger than ``max_bytes`` by itself is taken as the last one of its batch.
        """
        from litemq.format.record import decode_row

        while start < count and self.rows < max_rows and (self.rows == 0 or self.bytes < max_bytes):
            row = picked[start]
            start += 1
            self.add_record(decode_row(self._format, view, table, row, ""))
        return start

    def add_record(self, record: Record) -> None:
        """Take one decoded record; an unfolded body counts with what it came to."""
        from litemq.format.columns import values_of

        values = values_of(record)
        self.odd += 1
        self.rows += 1
        self.bytes += record.size - len(record.stored_body) + len(record.body)
        for number, index in enumerate(self._indexes):
            self._values[number].append(values[index])

    def finish(self) -> dict[str, Buffers]:
        """Return the buffers of all columns, and begin anew."""
        found = {
            name: buffers_of(kind, values)
            for name, kind, values in zip(self._names, self._kinds, self._values, strict=True)
        }
        self.rows = self.bytes = 0
        self._values = [[] for _ in self._names]
        return found


def buffers_of(kind: str, values: Sequence[Value]) -> Buffers:
    """Return the buffers of a column of these values."""
    if kind in ("int", "long", "time"):
        letter = "i" if kind == "int" else "q"
        return _validity(values), struct.pack(f"<{len(values)}{letter}", *(value or 0 for value in values))
    if kind == "texts":
        lists: list[tuple[str, ...]] = list(values)  # type: ignore[arg-type]
        return _offsets(map(len, lists)), *_texts([text for one in lists for text in one])
    if kind == "map":
        maps: list[dict[str, str]] = list(values)  # type: ignore[arg-type]
        keys = [key for one in maps for key in one]
        inner = [value for one in maps for value in one.values()]
        return _offsets(map(len, maps)), *_texts(keys), *_texts(inner)
    return _validity(values), *_texts(values)


def _texts(values: Sequence[Value]) -> tuple[bytes, bytes]:
    parts = [value.encode() if isinstance(value, str) else value or b"" for value in values]
    return _offsets(map(len, parts)), b"".join(parts)  # type: ignore[arg-type]


def _offsets(sizes: object) -> bytes:
    ends = [0]
    for size in sizes:  # type: ignore[attr-defined]
        ends.append(ends[-1] + size)
    return struct.pack(f"<{len(ends)}i", *ends)


def _validity(values: Sequence[Value]) -> bytes | None:
    if None not in values:
        return None
    bits = bytearray(-(-len(values) // 8))
    for at, value in enumerate(values):
        if value is not None:
            bits[at >> 3] |= 1 << (at & 7)
    return bytes(bits)
