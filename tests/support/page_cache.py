"""One file as a power cut sees it: the bytes that reads return, those that the disk has for sure, and the way there.

    cache     what the process reads
    disk      what survives a power cut for certain
    pending   changes since the last sync, oldest first

After a cut every 512-byte sector holds some state that it had since the last sync, each sector its own one, so blocks
arrive in any order; at one sector, or at the end of a run of them, a write may also be torn at any byte.  The length
is journalled apart from the data: it is any of those that the file had, and where the data did not arrive in time, new
bytes are zeros.  A cut that shortened the file is never followed by bytes that it cut off.
"""

from __future__ import annotations

from random import Random
from typing import Literal, NamedTuple

SECTOR = 512

Fate = Literal["lost", "kept", "ordered", "scattered", "recent"]
"""How the pending changes of one file meet the cut: none, all, the first ones, each sector or each change by itself."""

PARTIAL: tuple[Fate, ...] = ("ordered", "scattered", "recent")
ANY: tuple[Fate, ...] = ("lost", "kept", *PARTIAL, *PARTIAL)

_RECENT = 3


class Change(NamedTuple):
    """``data`` replaces the bytes from ``position`` to ``end``; None: zeros do.  Afterwards the file has ``length``."""

    position: int
    end: int
    data: bytes | None
    length: int
    cuts: bool = False


class PageCache:
    """The content of one file."""

    __slots__ = ("cache", "disk", "pending")

    def __init__(self, content: bytes | bytearray = b"") -> None:
        self.cache = bytearray(content)
        self.disk = bytearray(content)
        self.pending: list[Change] = []

    def write(self, position: int, data: bytes) -> None:
        if not data:
            return
        end = position + len(data)
        if position > len(self.cache):
            self.cache.extend(bytes(position - len(self.cache)))
        self.cache[position:end] = data
        self.pending.append(Change(position, end, data, len(self.cache)))

    def zero(self, position: int, size: int) -> None:
        end = min(position + size, len(self.cache))
        if position < end:
            self.cache[position:end] = bytes(end - position)
            self.pending.append(Change(position, end, None, len(self.cache)))

    def truncate(self, size: int) -> None:
        before = len(self.cache)
        if size < before:
            del self.cache[size:]
            self.pending.append(Change(size, before, None, size, cuts=True))
        elif size > before:
            self.cache.extend(bytes(size - before))
            self.pending.append(Change(before, before, None, size))

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.disk, change)
            _fit(self.disk, change.length)
        self.pending.clear()

    def fail_sync(self, rng: Random) -> None:
        """Fail as Linux does: some dirty pages were written, the others count as clean and are never written again."""
        self.disk = self.after_power_cut(rng, rng.choice(ANY))
        self.pending.clear()

    def after_power_cut(self, rng: Random, fate: Fate) -> bytearray:
        """Return what a new start of the machine finds."""
        changes = self.pending
        if not changes or fate == "lost":
            return bytearray(self.disk)
        image = bytearray(self.disk)
        _fit(image, max(len(image), max(max(change.end, change.length) for change in changes)))
        if fate == "kept":
            journalled = len(changes)
            for change in changes:
                _apply(image, change)
        elif fate == "ordered":
            arrived = rng.randrange(len(changes))
            journalled = rng.choice((arrived, arrived + 1, len(changes)))
            arrived = max(arrived, _last_cut(changes[:journalled]))
            for change in changes[:arrived]:
                _apply(image, change)
            for torn in changes[arrived : arrived + 1]:
                _apply(image, torn, upto=rng.randint(torn.position, torn.end))
        else:
            journalled = rng.randint(0, len(changes))
            oldest = max(0, len(changes) - _RECENT) if fate == "recent" else 0
            _scatter(image, changes, oldest, journalled, rng)
        _fit(image, changes[journalled - 1].length if journalled else len(self.disk))
        return image


def _scatter(image: bytearray, changes: list[Change], oldest: int, journalled: int, rng: Random) -> None:
    """Give every sector the first so many changes, and perhaps the head of the next one."""
    arrived: dict[int, int] = {}
    for number, change in enumerate(changes):
        first, last = change.position // SECTOR, (change.end - 1) // SECTOR
        for sector in range(first, last + 1):
            count = arrived.get(sector)
            if count is None:
                count = arrived[sector] = rng.randint(oldest, len(changes))
            start = max(change.position, sector * SECTOR)
            end = min(change.end, sector * SECTOR + SECTOR)
            if number < count or (change.cuts and number < journalled):
                _apply(image, change, start, end)
                arrived[sector] = max(count, number + 1)
            elif number == count:
                _apply(image, change, start, rng.choice((start, rng.randint(start, end))))


def _last_cut(changes: list[Change]) -> int:
    """Return how many changes there are up to the last one that shortened the file."""
    return max((number + 1 for number, change in enumerate(changes) if change.cuts), default=0)


def _apply(image: bytearray, change: Change, start: int | None = None, upto: int | None = None) -> None:
    start = change.position if start is None else start
    end = change.end if upto is None else upto
    if end <= start:
        return
    if len(image) < start:
        image.extend(bytes(start - len(image)))
    if change.data is None:
        image[start:end] = bytes(end - start)
    else:
        image[start:end] = change.data[start - change.position : end - change.position]


def _fit(image: bytearray, length: int) -> None:
    if length < len(image):
        del image[length:]
    else:
        image.extend(bytes(length - len(image)))
