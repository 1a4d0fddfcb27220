"""Receipts: which messages of one queue a group holds, until when, and how often it got them.

Sans-IO, and of one group and one queue.  A message is *new* (from ``next`` on), *held* (handed out, and nobody else
gets it until its time is over), *ready* (its time is over: it is handed out again) or *done*.  Each delivery has the
time at which it was handed out as its generation: a receipt names it, and is worth nothing when the message has another
by now.  Two deliveries of a message never have the same one: the first must have ended before the second begins, and
the time that this module is given never runs back.

A held message takes 22 bytes, in blocks of parallel arrays that are sorted by offset.  What is done takes nothing:
everything below ``next`` that is in no block.
"""

from __future__ import annotations

import sys
from array import array
from base64 import b64decode, b64encode
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from heapq import heappop, heappush
from typing import NamedTuple

_BITS = 10
_MASK = (1 << _BITS) - 1
_READY = 1 << 62
"""Instead of a time: it is over, and the message waits for the next who asks."""
_DEAD = _READY + 1
"""… and it was handed out as often as it may be."""
_MOST_ATTEMPTS = 0xFFFF
_SLACK = 1_024
_BLOCKS_AT_ONCE = 16
"""Blocks that one ``expire`` looks at: some milliseconds."""

Dump = dict[str, str | int | list[int]]
_COLUMNS = (("index", "H"), ("generations", "q"), ("until", "q"), ("attempts", "H"))


class Standing(Enum):
    """What a receipt is worth."""

    GOOD = "good"
    NOT_HELD = "not held"
    """Acknowledged already, dead, or never handed out."""
    DELIVERED_AGAIN = "delivered again"


class Held(NamedTuple):
    """A message that a group holds; ``until_ms`` is 0 when its time is over."""

    offset: int
    generation: int
    until_ms: int
    attempt: int
    holder: int = 0
    """Number of who got it, 0 where that is not known: records and snapshots do not tell."""


class _Block:
    """Held messages with neighbouring offsets; ``bound``: none of their times is over before."""

    __slots__ = ("attempts", "bound", "generations", "holders", "index", "until")

    def __init__(self) -> None:
        self.index = array("H")
        self.generations = array("q")
        self.until = array("q")
        self.attempts = array("H")
        self.holders = array("H")
        self.bound = _READY

    def find(self, index: int) -> int:
        """Return the row of an offset; -1 when it is not held."""
        row = bisect_left(self.index, index)
        return row if row < len(self.index) and self.index[row] == index else -1

    def put(self, index: int, generation: int, until_ms: int, attempt: int, holder: int) -> bool:
        """Add a message, or deliver it again; return whether it was new here."""
        row = bisect_left(self.index, index)
        if row < len(self.index) and self.index[row] == index:
            self.generations[row], self.until[row], self.attempts[row] = generation, until_ms, attempt
            self.holders[row] = holder
            return False
        self.index.insert(row, index)
        self.generations.insert(row, generation)
        self.until.insert(row, until_ms)
        self.attempts.insert(row, attempt)
        self.holders.insert(row, holder)
        return True

    def drop(self, row: int, end: int = 0) -> None:
        """Take out one row, or those up to ``end``."""
        end = end or row + 1
        del self.index[row:end], self.generations[row:end], self.until[row:end]
        del self.attempts[row:end], self.holders[row:end]


class PopQueue:
    """What one group holds of one queue."""

    __slots__ = ("_blocks", "_due", "_lowest", "_ready", "count", "dead", "is_busy", "next", "ready_count", "told")

    def __init__(self, next_offset: int) -> None:
        self.next = next_offset
        """The first offset that was never handed out."""
        self.count = 0
        """Messages held, those that are ready included."""
        self.ready_count = 0
        """Messages whose time is over, the dead ones included."""
        self.dead: deque[int] = deque()
        """Offsets whose last attempt has failed: for ``take_dead``, dead letters, and ``finish``."""
        self.told = -1
        """The floor that was noted as the group's progress; kept here for whoever notes it."""
        self.is_busy = False
        """Whether somebody is about to hand out messages of it; kept here for whoever asks."""
        self._blocks: dict[int, _Block] = {}
        self._lowest = -1
        self._due: list[tuple[int, int]] = []
        self._ready: deque[int] = deque()

    @property
    def floor(self) -> int:
        """Return the lowest offset that is not done: the group's progress."""
        if not self.count:
            return self.next
        return (self._lowest << _BITS) + self._blocks[self._lowest].index[0]

    @property
    def due_ms(self) -> int:
        """Return a time before which ``expire`` has nothing to do."""
        return self._due[0][0] if self._due else _READY

    @property
    def is_blocked(self) -> bool:
        """Return whether a message is held whose time is not over: an ordered group gets nothing else till then."""
        return self.count > self.ready_count

    # -- handing out -----------------------------------------------------------------------------

    def expire(self, now_ms: int, max_attempts: int) -> None:
        """Make those ready whose time is over, or ``dead`` those that have had so many attempts.

        Of very many it takes some: then ``due_ms`` is still over.
        """
        for _ in range(_BLOCKS_AT_ONCE):
            if not self._due or self._due[0][0] > now_ms:
                break
            bound, number = heappop(self._due)
            block = self._blocks.get(number)
            if block is not None and block.bound == bound:
                self._expire_block(number, block, now_ms, max_attempts)
        if len(self._ready) > 2 * self.ready_count + _SLACK:
            self._ready = deque(dict.fromkeys(offset for offset in self._ready if self._is_ready(offset)))
        if len(self.dead) > 2 * self.ready_count + _SLACK:
            self.dead = deque(dict.fromkeys(offset for offset in self.dead if self._is_ready(offset, _DEAD)))

    def _expire_block(self, number: int, block: _Block, now_ms: int, max_attempts: int) -> None:
        lowest = _READY
        for row, until in enumerate(block.until):
            if until <= now_ms:
                is_dead = block.attempts[row] >= max_attempts
                block.until[row] = _DEAD if is_dead else _READY
                self.ready_count += 1
                (self.dead if is_dead else self._ready).append((number << _BITS) + block.index[row])
            elif until < lowest:
                lowest = until
        block.bound = lowest
        if lowest < _READY:
            heappush(self._due, (lowest, number))

    def ready(self, count: int, now_ms: int) -> list[int]:
        """Return up to ``count`` offsets to hand out again, in order; ``deliver`` follows."""
        found: dict[int, int] = {}
        left = len(self._ready)
        while left and len(found) < count:
            left -= 1
            offset = self._ready.popleft()
            if offset in found or not self._is_ready(offset):
                continue
            if self.attempt(offset)[1] >= now_ms:  # delivered after that time: by somebody who was faster
                self._ready.append(offset)
                continue
            found[offset] = offset
        self._ready.extendleft(reversed(found))
        return sorted(found)

    def take_dead(self, count: int) -> list[int]:
        """Take up to ``count`` offsets out of ``dead``: those that nobody has been given more time for since."""
        found: dict[int, None] = {}
        while self.dead and len(found) < count:
            offset = self.dead.popleft()
            if self._is_ready(offset, _DEAD):
                found[offset] = None
        return list(found)

    def _is_ready(self, offset: int, how: int = _READY) -> bool:
        block = self._blocks.get(offset >> _BITS)
        row = block.find(offset & _MASK) if block is not None else -1
        return block is not None and row >= 0 and block.until[row] == how

    def attempt(self, offset: int) -> tuple[int, int]:
        """Return how often a message was handed out, and when last; zeros when it is not held."""
        block = self._blocks.get(offset >> _BITS)
        row = block.find(offset & _MASK) if block is not None else -1
        return (block.attempts[row], block.generations[row]) if block is not None and row >= 0 else (0, 0)

    def deliver(self, offsets: Sequence[int], now_ms: int, until_ms: int, holder: int = 0) -> None:
        """Hand out messages, those that are held once more."""
        until_ms = max(until_ms, now_ms + 1)
        for offset in offsets:
            number = offset >> _BITS
            block = self._blocks.get(number)
            if block is None:
                block = self._blocks[number] = _Block()
                if self._lowest < 0 or number < self._lowest:
                    self._lowest = number
            row = block.find(offset & _MASK)
            attempt = 1
            if row >= 0:
                attempt = min(block.attempts[row] + 1, _MOST_ATTEMPTS)
                self.ready_count -= block.until[row] >= _READY
            self.count += block.put(offset & _MASK, now_ms, until_ms, attempt, holder)
            self._lower(number, block, until_ms)

    def _lower(self, number: int, block: _Block, until_ms: int) -> None:
        if until_ms < block.bound:
            block.bound = until_ms
            heappush(self._due, (until_ms, number))
            if len(self._due) > 4 * len(self._blocks) + _SLACK:  # most of them are old bounds
                self._due = sorted((block.bound, number) for number, block in self._blocks.items())

    def hand_out(self, offsets: Sequence[int], next_offset: int, now_ms: int, until_ms: int, holder: int = 0) -> None:
        """Hand out new messages; those up to ``next_offset`` that are not among them are not wanted, and done."""
        self.deliver(offsets, now_ms, until_ms, holder)
        self.next = next_offset

    # -- receipts --------------------------------------------------------------------------------

    def acknowledge(self, offset: int, generation: int) -> Standing:
        """Be done with a message, if the receipt is that of its last delivery."""
        block, row, standing = self._look_up(offset, generation)
        if block is not None:
            self._remove(offset >> _BITS, block, row)
        return standing

    def check(self, offset: int, generation: int) -> Standing:
        """Return what a receipt is worth."""
        return self._look_up(offset, generation)[2]

    def change(self, offset: int, generation: int, now_ms: int, until_ms: int) -> int:
        """Let a delivery last until another time; return its new generation, 0 when the receipt is not good."""
        if self.check(offset, generation) is not Standing.GOOD:
            return 0
        changed = max(now_ms, generation + 1)
        until_ms = max(until_ms, changed + 1)
        self.set(offset, changed, until_ms)
        return changed

    def set(self, offset: int, generation: int, until_ms: int) -> None:
        """Give a held message another generation and time."""
        block = self._blocks.get(offset >> _BITS)
        row = block.find(offset & _MASK) if block is not None else -1
        if block is None or row < 0:
            return
        self.ready_count -= block.until[row] >= _READY
        block.generations[row], block.until[row] = generation, until_ms
        self._lower(offset >> _BITS, block, until_ms)

    def finish(self, offset: int) -> bool:
        """Be done with a message whoever holds it; return whether it was held."""
        block = self._blocks.get(offset >> _BITS)
        row = block.find(offset & _MASK) if block is not None else -1
        if block is None or row < 0:
            return False
        self._remove(offset >> _BITS, block, row)
        return True

    def _look_up(self, offset: int, generation: int) -> tuple[_Block | None, int, Standing]:
        block = self._blocks.get(offset >> _BITS)
        row = block.find(offset & _MASK) if block is not None else -1
        if block is None or row < 0:
            return None, -1, Standing.NOT_HELD
        if block.generations[row] != generation:
            return None, -1, Standing.DELIVERED_AGAIN
        return block, row, Standing.GOOD

    def _remove(self, number: int, block: _Block, row: int) -> None:
        self.ready_count -= block.until[row] >= _READY
        block.drop(row)
        self.count -= 1
        if not block.index:
            self._drop_block(number)

    def _drop_block(self, number: int) -> None:
        del self._blocks[number]
        if number == self._lowest:
            self._lowest = min(self._blocks, default=-1)

    # -- other ways on ---------------------------------------------------------------------------

    def advance(self, offset: int) -> None:
        """Be done with everything below ``offset``."""
        for number in [number for number in self._blocks if number <= offset >> _BITS]:
            block = self._blocks[number]
            whole = number < offset >> _BITS
            end = len(block.index) if whole else bisect_left(block.index, offset & _MASK)
            if end:
                self.ready_count -= sum(until >= _READY for until in block.until[:end])
                self.count -= end
                block.drop(0, end)
            if not block.index:
                self._drop_block(number)
        self.next = max(self.next, offset)

    def reset(self, offset: int) -> None:
        """Forget what is held, and go on with ``offset``."""
        self.next = offset
        self.count = self.ready_count = 0
        self._blocks.clear()
        self._due.clear()
        self._ready.clear()
        self.dead.clear()
        self._lowest = -1

    # -- looking, keeping ------------------------------------------------------------------------

    def held(self, first: int = 0) -> Iterator[Held]:
        """Yield what is held, by offset, from ``first`` on."""
        for number in sorted(number for number in self._blocks if number >= first >> _BITS):
            block = self._blocks[number]
            start = bisect_left(block.index, first & _MASK) if number == first >> _BITS else 0
            for row in range(start, len(block.index)):
                until = block.until[row]
                yield Held(
                    (number << _BITS) + block.index[row],
                    block.generations[row],
                    0 if until >= _READY else until,
                    block.attempts[row],
                    block.holders[row],
                )

    def holders(self) -> Iterator[int]:
        """Yield the numbers of all who hold something, some of them more than once."""
        for block in self._blocks.values():
            yield from frozenset(block.holders)

    @property
    def newest(self) -> int:
        """Return the generation of the last delivery of what is held; 0 when nothing is."""
        return max((max(block.generations) for block in self._blocks.values()), default=0)

    def restore(self, held: Held) -> None:
        """Take in a held message as ``held`` told it."""
        self.deliver((held.offset,), held.generation, held.until_ms)
        block = self._blocks[held.offset >> _BITS]
        block.attempts[block.find(held.offset & _MASK)] = min(held.attempt, _MOST_ATTEMPTS)

    def dump(self) -> Dump:
        """Return everything as JSON can hold it: the columns of all blocks behind each other, little-endian."""
        numbers = sorted(self._blocks)
        told: Dump = {"next": self.next, "blocks": numbers}
        told["counts"] = [len(self._blocks[number].index) for number in numbers]
        for name, _ in _COLUMNS:
            told[name] = b64encode(
                b"".join([_little(getattr(self._blocks[number], name)).tobytes() for number in numbers])
            ).decode()
        return told

    @classmethod
    def load(cls, told: Mapping[str, object]) -> PopQueue:
        """Return what ``dump`` told.

        Raises:
            ValueError: it is nothing that ``dump`` tells.
        """
        after, numbers, counts = told.get("next"), told.get("blocks"), told.get("counts")
        if not isinstance(after, int) or not isinstance(numbers, list) or not isinstance(counts, list):
            raise ValueError("there are no blocks")
        columns: list[array[int]] = []
        for name, code in _COLUMNS:
            text = told.get(name)
            if not isinstance(text, str):
                raise ValueError(f"there is no column {name}")
            column = array(code)
            column.frombytes(b64decode(text, validate=True))
            columns.append(_little(column))
        if any(len(column) != sum(counts) for column in columns):
            raise ValueError("the columns have different lengths")
        queue = cls(after)
        at = 0
        for number, count in zip(numbers, counts, strict=True):
            block = queue._blocks[number] = _Block()
            for (name, _), column in zip(_COLUMNS, columns, strict=True):
                setattr(block, name, column[at : at + count])
            block.holders = array("H", bytes(2 * count))
            for row, until in enumerate(block.until):
                if until >= _READY:
                    block.until[row] = 0
            block.bound = min(block.until, default=_READY)
            heappush(queue._due, (block.bound, number))
            queue.count += count
            at += count
        queue._lowest = min(queue._blocks, default=-1)
        return queue


def _little(column: array[int]) -> array[int]:
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column
