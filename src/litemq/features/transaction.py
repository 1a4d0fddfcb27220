"""Which transactions are not ended yet: half messages by their offset in the half queue, and when each is asked about.

Sans-IO.  Blocks of 4096 offsets hold only what is pending, 13 bytes each; a block without any is dropped.  So memory
and the work of a pass depend on what is pending, never on history: a transaction that is stuck for days costs itself
and one block.  Each block knows a time before which none of its entries is due.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Final

BLOCK: Final = 4096
MAX_CHECKS: Final = 255
"""What one byte counts to."""

MAX_GROUPS: Final = 65_535
_NEVER: Final = 1 << 62
_COUNT: Final = struct.Struct("<H")


@dataclass(frozen=True, slots=True)
class Entry:
    """One pending half message."""

    offset: int
    due_ms: int
    checks: int
    group: str
    """Its producer group; empty when it is not known here."""


class _Block:
    """The pending entries of one block, side by side and in the order of their offsets."""

    __slots__ = ("checks", "dues", "earliest", "groups", "indexes", "packed")

    def __init__(self) -> None:
        self.indexes = array("H")
        self.dues = array("q")
        self.checks = array("B")
        self.groups = array("H")
        self.earliest = _NEVER
        """None of them is due before."""
        self.packed = ""
        """What a snapshot says of the block, while that is true."""

    def put(self, index: int, due_ms: int, checks: int, group: int) -> bool:
        """Add an entry, or change the one that is there; return whether it is new."""
        at = len(self.indexes)
        if at and self.indexes[-1] >= index:
            at = bisect_left(self.indexes, index)
            if self.indexes[at] == index:
                self.dues[at], self.checks[at], self.groups[at] = due_ms, checks, group
                self._note(due_ms)
                return False
        self.indexes.insert(at, index)
        self.dues.insert(at, due_ms)
        self.checks.insert(at, checks)
        self.groups.insert(at, group)
        self._note(due_ms)
        return True

    def _note(self, due_ms: int) -> None:
        self.earliest = min(self.earliest, due_ms)
        self.packed = ""

    def find(self, index: int) -> int:
        """Return where an entry stands; -1 when it is not pending."""
        at = bisect_left(self.indexes, index)
        return at if at < len(self.indexes) and self.indexes[at] == index else -1

    def remove(self, index: int) -> bool:
        """Take an entry out; return whether it was there."""
        at = self.find(index)
        if at < 0:
            return False
        for column in (self.indexes, self.dues, self.checks, self.groups):
            del column[at]
        self.packed = ""
        return True

    def pack(self) -> str:
        """Return the block as text."""
        if not self.packed:
            columns = (self.indexes, self.dues, self.checks, self.groups)
            data = _COUNT.pack(len(self.indexes)) + b"".join(column.tobytes() for column in columns)
            self.packed = base64.b64encode(zlib.compress(data, 1)).decode("ascii")
        return self.packed


def _unpacked(text: str) -> _Block | None:
    """Return the block that a text holds; None when it holds none."""
    try:
        data = zlib.decompress(base64.b64decode(text, validate=True))
        (count,) = _COUNT.unpack_from(data)
        block = _Block()
        at = _COUNT.size
        for column in (block.indexes, block.dues, block.checks, block.groups):
            column.frombytes(data[at : at + count * column.itemsize])
            at += count * column.itemsize
    except (binascii.Error, zlib.error, struct.error, ValueError):
        return None
    is_whole = at == len(data) and 0 < count <= BLOCK and block.indexes[-1] < BLOCK
    if not is_whole or any(a >= b for a, b in pairwise(block.indexes)):
        return None
    block.earliest = min(block.dues)
    return block


class Pending:
    """All pending half messages of a broker."""

    def __init__(self) -> None:
        self._blocks: dict[int, _Block] = {}
        self._count = 0
        self._earliest = _NEVER
        self._names = [""]
        self._numbers = {"": 0}

    def __len__(self) -> int:
        return self._count

    @property
    def block_count(self) -> int:
        """Return how many blocks there are: what a pass has to do with."""
        return len(self._blocks)

    # -- what happens ----------------------------------------------------------------------------

    def add(self, offset: int, due_ms: int, *, checks: int = 0, group: str = "") -> None:
        """Note a half message, or note it anew; it is asked about at ``due_ms``."""
        number, index = divmod(offset, BLOCK)
        block = self._blocks.get(number)
        if block is None:
            block = self._blocks[number] = _Block()
        self._count += block.put(index, due_ms, min(checks, MAX_CHECKS), self._number(group))
        self._earliest = min(self._earliest, due_ms)

    def end(self, offset: int) -> bool:
        """Forget a half message; return whether it was pending."""
        number, index = divmod(offset, BLOCK)
        block = self._blocks.get(number)
        if block is None or not block.remove(index):
            return False
        self._count -= 1
        if not block.indexes:
            del self._blocks[number]
            if not self._blocks:  # nobody names a group any more
                self._names, self._numbers = [""], {"": 0}
        return True

    def checked(self, offset: int, next_due_ms: int) -> None:
        """Note that somebody was asked; the next time is at ``next_due_ms``."""
        self._set_due(offset, next_due_ms, 1)

    def postpone(self, offset: int, due_ms: int) -> None:
        """Put the next time off without counting."""
        self._set_due(offset, due_ms, 0)

    def _set_due(self, offset: int, due_ms: int, checks: int) -> None:
        number, index = divmod(offset, BLOCK)
        block = self._blocks.get(number)
        at = block.find(index) if block is not None else -1
        if block is not None and at >= 0:
            block.put(index, due_ms, min(block.checks[at] + checks, MAX_CHECKS), block.groups[at])
            self._earliest = min(self._earliest, due_ms)

    # -- what is known ---------------------------------------------------------------------------

    def is_pending(self, offset: int) -> bool:
        """Return whether a half message is not ended."""
        number, index = divmod(offset, BLOCK)
        block = self._blocks.get(number)
        return block is not None and block.find(index) >= 0

    def find(self, offset: int) -> Entry | None:
        """Return what is known of a half message; None when it is not pending."""
        number, index = divmod(offset, BLOCK)
        block = self._blocks.get(number)
        at = block.find(index) if block is not None else -1
        return self._entry(number, block, at) if block is not None and at >= 0 else None

    def due(self, now_ms: int, most: int) -> list[Entry]:
        """Return what is to be asked about, at most ``most``: blocks that have waited longest come first.

        They are due until they are ``checked``, put off or ended.
        """
        if now_ms < self._earliest:
            return []
        found: list[Entry] = []
        waiting = [(block.earliest, number) for number, block in self._blocks.items() if block.earliest <= now_ms]
        heapify(waiting)
        while waiting and len(found) < most:
            earliest, number = heappop(waiting)
            block = self._blocks[number]
            block.earliest = min(block.dues)  # what it was before may have ended or been put off
            if block.earliest > earliest:
                if block.earliest <= now_ms:
                    heappush(waiting, (block.earliest, number))
                continue
            ready = [at for at, due_ms in enumerate(block.dues) if due_ms <= now_ms]
            found.extend(self._entry(number, block, at) for at in ready[: most - len(found)])
        self._earliest = min((block.earliest for block in self._blocks.values()), default=_NEVER)
        return found

    def first_from(self, offset: int) -> Entry | None:
        """Return the first pending half message from ``offset`` on."""
        number, index = divmod(offset, BLOCK)
        for each in sorted(other for other in self._blocks if other >= number):
            block = self._blocks[each]
            at = bisect_left(block.indexes, index) if each == number else 0
            if at < len(block.indexes):
                return self._entry(each, block, at)
        return None

    def entries(self, first: int = 0) -> Iterator[Entry]:
        """Yield everything that is pending, by offset, from ``first`` on; nothing may change meanwhile."""
        from_block, index = divmod(first, BLOCK)
        for number in sorted(number for number in self._blocks if number >= from_block):
            block = self._blocks[number]
            start = bisect_left(block.indexes, index) if number == from_block else 0
            for at in range(start, len(block.indexes)):
                yield self._entry(number, block, at)

    def _entry(self, number: int, block: _Block, at: int) -> Entry:
        group = block.groups[at]
        name = self._names[group] if group < len(self._names) else ""
        return Entry(number * BLOCK + block.indexes[at], block.dues[at], block.checks[at], name)

    def _number(self, group: str) -> int:
        number = self._numbers.get(group)
        if number is None:
            if len(self._names) > MAX_GROUPS:
                return 0
            number = self._numbers[group] = len(self._names)
            self._names.append(group)
        return number

    # -- snapshot --------------------------------------------------------------------------------

    def export(self) -> tuple[list[str], dict[str, str]]:
        """Return names of groups, and blocks by number; only blocks that changed since the last time cost anything."""
        return list(self._names), {str(number): block.pack() for number, block in self._blocks.items()}

    def load(self, names: list[str], blocks: Mapping[str, str]) -> bool:
        """Take in what ``export`` gave; return False, and stay empty, when it is damaged."""
        loaded: dict[int, _Block] = {}
        for number, text in blocks.items():
            block = _unpacked(text)
            if block is None or not number.isascii() or not number.isdigit() or max(block.groups) >= len(names):
                return False
            loaded[int(number)] = block
        self._blocks = loaded
        self._count = sum(len(block.indexes) for block in loaded.values())
        self._earliest = min((block.earliest for block in loaded.values()), default=_NEVER)
        self._names = list(names) or [""]
        self._numbers = {name: number for number, name in enumerate(self._names)}
        return True
