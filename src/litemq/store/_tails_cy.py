"""Kernel: the growing ends of what is derived from the log, in memory.

``QueueTail`` is that of one ConsumeQueue, ``IndexTail`` the current file of the key index.  Nothing here touches a
file: their owners (``consume_queue``, ``key_index``) write them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy
    from cython.cimports.litemq.format._byte_order_h import put32, put64
else:
    from litemq.format.byte_order import put32, put64

from litemq.format._text_cy import java_hash

if TYPE_CHECKING:
    from litemq.store.queue_files import QueueFiles

_TAIL_LIMIT = cython.declare(cython.Py_ssize_t, 4096)
INDEX_TAIL_LIMIT = 1 << 20
"""Bytes of new index entries that are worth a write."""

SLOT_PAGE = 1024
"""Slots that are written together: one flag of ``IndexTail.dirty``."""


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cclass
class QueueTail:
    """The growing end of one ConsumeQueue: the next offset, and entries not yet in a file.

    ``staged`` counts messages that have an offset but are not written yet.  While ``watch`` is a list, the next entry
    puts the tail into it and ends the watch: who waits for new messages is told of queues, not of each message.
    ``opened_at`` is the next offset of the moment when the queue was opened.  Once it ``is_gone``, its topic was
    deleted: whoever keeps the tail must ask for the queue anew.
    """

    if not cython.compiled:
        __slots__ = (
            "entry_size",
            "files",
            "is_gone",
            "key_hash",
            "last_position",
            "next_offset",
            "opened_at",
            "queue_id",
            "staged",
            "tail",
            "topic",
            "used",
            "watch",
        )

    def __init__(self, topic: str, queue_id: int, entry_size: int, next_offset: int, files: QueueFiles) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.entry_size = entry_size
        self.next_offset = next_offset
        self.opened_at = next_offset
        self.staged = 0
        self.last_position = -1
        self.key_hash = java_hash(topic + "#")
        self.tail = bytearray()
        self.used = 0
        self.files = files
        self.watch: list[QueueTail] | None = None
        self.is_gone = False

    @cython.cfunc
    @cython.exceptval(-1)
    def add(
        self,
        position: cython.longlong,
        size: cython.longlong,
        tag: cython.longlong,
        time: cython.longlong,
        dirty: list,  # type: ignore[type-arg] # the .pxd wants it bare
        full: list,  # type: ignore[type-arg] # the .pxd wants it bare
    ) -> cython.int:
        """Add the entry of ``next_offset``; note the tail when it becomes dirty, and when it should be written."""
        p: cython.p_uchar
        at: cython.Py_ssize_t = self.used
        if at + self.entry_size > len(self.tail):
            self.tail.extend(bytes(max(10 * self.entry_size, len(self.tail))))
        if at == 0:
            dirty.append(self)
        p = self.tail
        put64(p, at, position)
        put32(p, at + 8, size)
        if self.entry_size == 24:
            put32(p, at + 12, tag)
            put64(p, at + 16, time)
        else:
            put64(p, at + 12, tag)
        self.used = at + self.entry_size
        if self.used >= _TAIL_LIMIT and at < _TAIL_LIMIT:
            full.append(self)
        self.next_offset += 1
        self.last_position = position
        if self.watch is not None:
            self.watch.append(self)
            self.watch = None
        return 0

    def add_entry(self, position: int, size: int, tag: int, time: int) -> None:
        """Add one entry by hand: fillers, and tests."""
        self.add(position, size, tag, time, [], [])

    def take(self) -> bytes:
        """Hand over the entries not yet in a file; the tail is empty afterwards."""
        data = bytes(memoryview(self.tail)[: self.used])
        self.tail = bytearray()
        self.used = 0
        return data


@cython.cclass
class IndexTail:
    """The current file of the key index: its slots and header in memory, new entries in a tail.

    ``slots`` are native 32-bit numbers; the allocator gives zero pages that cost nothing until touched.
    ``keys_done`` remembers how far a record's keys came when the file was full.
    """

    if not cython.compiled:
        __slots__ = (
            "begin_position",
            "begin_time",
            "count",
            "dirty",
            "end_position",
            "end_time",
            "entry_limit",
            "keys_done",
            "slot_count",
            "slots",
            "tail",
            "used",
            "used_slots",
        )

    def __init__(self, slot_count: int, entry_limit: int) -> None:
        self.slot_count = slot_count
        self.entry_limit = entry_limit
        self.slots = bytearray(4 * slot_count)
        self.dirty = bytearray(-(-slot_count // SLOT_PAGE))
        self.count = 1
        self.used_slots = 0
        self.begin_time = 0
        self.end_time = 0
        self.begin_position = 0
        self.end_position = 0
        self.tail = bytearray()
        self.used = 0
        self.keys_done = 0

    @cython.cfunc
    @cython.exceptval(-1)
    def add(self, h: cython.uint, position: cython.longlong, time: cython.longlong) -> cython.int:
        """Add one entry; 0 when the file is full."""
        slot: cython.longlong
        before: cython.longlong
        seconds: cython.longlong = 0
        p: cython.p_uchar
        at: cython.Py_ssize_t
        if self.count >= self.entry_limit:
            return 0
        if h >> 31:  # Java's absolute value; the one number without one becomes 0
            h = (-h) & 0x7FFFFFFF
        slot = h % self.slot_count
        before = slot_value(self.slots, slot)
        if before <= 0 or before >= self.count:
            before = 0
            self.used_slots += 1
        if self.count <= 1:
            self.begin_time = time
            self.begin_position = position
        elif self.begin_time > 0:
            seconds = (time - self.begin_time) // 1000
            seconds = 0 if seconds < 0 else (0x7FFFFFFF if seconds > 0x7FFFFFFF else seconds)
        at = self.used
        if at + 20 > len(self.tail):
            self.tail.extend(bytes(max(4096, len(self.tail))))
        p = self.tail
        put32(p, at, h)
        put64(p, at + 4, position)
        put32(p, at + 12, seconds)
        put32(p, at + 16, before)
        self.used = at + 20
        set_slot(self.slots, slot, self.count)
        self.dirty[slot // 1024] = 1
        self.count += 1
        self.end_time = time
        self.end_position = position
        return 1

    def add_entry(self, h: int, position: int, time: int) -> bool:
        """Add one entry by hand, for rebuilds and tests."""
        return self.add(h, position, time) == 1

    def slot(self, number: int) -> int:
        """Return the newest entry of a slot."""
        return slot_value(self.slots, number)

    def set_slot(self, number: int, value: int) -> None:
        """Set a slot by hand."""
        set_slot(self.slots, number, value)
        self.dirty[number // SLOT_PAGE] = 1

    def relink(self, entries: cython.const[cython.uchar][::1], first: cython.longlong, count: cython.longlong) -> None:
        """Set the slots from ``count`` stored entries whose first number is ``first``."""
        i: cython.longlong
        h: cython.uint
        at: cython.Py_ssize_t
        slot: cython.longlong
        for i in range(count):
            at = 20 * i
            h = (
                (cython.cast(cython.uint, entries[at]) << 24)
                | (entries[at + 1] << 16)
                | (entries[at + 2] << 8)
                | entries[at + 3]
            )
            slot = h % self.slot_count
            if slot_value(self.slots, slot) == 0:
                self.used_slots += 1
            set_slot(self.slots, slot, first + i)
            self.dirty[slot // 1024] = 1

    def take_slots(self, data: cython.const[cython.uchar][::1], first: cython.longlong) -> int:
        """Set the slots from ``first`` on as a file has them; return the greatest number among them."""
        i: cython.longlong
        value: cython.longlong
        greatest: cython.longlong = 0
        for i in range(len(data) // 4):
            value = (
                (cython.cast(cython.longlong, data[4 * i]) << 24)
                | (data[4 * i + 1] << 16)
                | (data[4 * i + 2] << 8)
                | data[4 * i + 3]
            )
            if value == 0:
                continue  # zero pages that were never touched stay so
            greatest = max(greatest, value)
            self.used_slots += 1
            set_slot(self.slots, first + i, value if value < 0x7FFFFFFF else 0)
        return greatest


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def slot_value(slots: bytearray, number: cython.longlong) -> cython.longlong:
    if cython.compiled:
        value: cython.int = 0
        p: cython.p_uchar = slots
        memcpy(cython.address(value), p + 4 * number, 4)
        return value
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        return int.from_bytes(slots[4 * number : 4 * number + 4], "little", signed=True)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def set_slot(slots: bytearray, number: cython.longlong, value: cython.int) -> cython.void:
    if cython.compiled:
        p: cython.p_uchar = slots
        memcpy(p + 4 * number, cython.address(value), 4)
    else:
        slots[4 * number : 4 * number + 4] = value.to_bytes(4, "little", signed=True)


@cython.cclass
class IndexEnd:
    """Where new keys go: the base of ``KeyIndex``, so that the append kernel finds the file that is current."""

    if not cython.compiled:
        __slots__ = ("tail",)

    def __init__(self, tail: IndexTail) -> None:
        self.tail = tail
