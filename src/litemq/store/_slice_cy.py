"""Kernel: one pull, from the entries of a queue to the records that an answer holds.

``choose`` walks over entries and picks those whose tag is wanted, ``fetch`` reads their records in few calls and puts
them behind each other into one buffer, behind free bytes for the answer's header.
No Python object is made for a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize, PyByteArray_Resize
    from cython.cimports.libc.string import memchr, memcpy, memmove, memset
    from cython.cimports.litemq.format._byte_order_h import i64, u32
    from cython.cimports.litemq.format._transcode_cy import properties_place, put_as_rocketmq, strip_rocketmq
    from cython.cimports.litemq.store._fs_cy import Descriptor
else:
    from litemq.format._transcode_cy import properties_place, put_as_rocketmq, strip_rocketmq
    from litemq.format.byte_order import i64, u32
    from litemq.store._fs_cy import Descriptor

from array import array

from litemq.format import rows as layout
from litemq.format._transcode_cy import ROOM

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from litemq.store.segments import Segment

_ROOM = cython.declare(cython.Py_ssize_t, ROOM)
_MAX_CHOSEN = cython.declare(cython.Py_ssize_t, 1024)
_SPAN_FACTOR = cython.declare(cython.Py_ssize_t, 4)
_SMALL_GAP = cython.declare(cython.longlong, 16 << 10)  # to copy it costs about as much as another call
_MAX_SPAN = cython.declare(cython.longlong, 1 << 18)
_SMALL_SPAN = cython.declare(cython.Py_ssize_t, 8 << 10)  # for less no block is read
_BLOCK = cython.declare(cython.longlong, 128 << 10)
_MAX_BLOCKS = cython.declare(cython.Py_ssize_t, 64)
_KEPT_SCRATCH = cython.declare(cython.Py_ssize_t, 1 << 20)
_CHUNK = cython.declare(cython.Py_ssize_t, 256)
_MAX_SCAN = cython.declare(cython.Py_ssize_t, 1 << 16)
_MAX_RECORD = cython.declare(cython.longlong, 1 << 27)  # a larger entry is garbage, or stands for no message
# A literal above 2**31 would be a Python object to the compiler.
_MASK = cython.declare(cython.longlong, (1 << 32) - 1)
_MAX_POSITION = cython.declare(cython.longlong, 1 << 62)  # behind it sums overflow; no log gets there
_MIN_RECORD = cython.declare(cython.Py_ssize_t, 91)
_MAGIC_LITEMQ = cython.declare(cython.longlong, 0x4C4D5101)


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cfunc
@cython.inline
def room_for(size: cython.Py_ssize_t) -> bytearray:
    """Return ``size`` bytes that may hold anything."""
    if cython.compiled:
        return PyByteArray_FromStringAndSize(cython.NULL, size)
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        return bytearray(size)


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def resize(buffer: bytearray, size: cython.Py_ssize_t) -> cython.int:
    """Cut or lengthen ``buffer``; new bytes may hold anything."""
    if cython.compiled:
        PyByteArray_Resize(buffer, size)
    elif size <= len(buffer):
        del buffer[size:]
    else:
        buffer.extend(bytes(size - len(buffer)))
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def find_mark(p: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the end of the pair of RocketMQ's properties at ``at``."""
    if cython.compiled:
        hit: cython.p_void = memchr(p + at, 2, end - at)
        return end if hit == cython.NULL else cython.cast(cython.p_uchar, hit) - p
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        place = p.find(2, at, end)
        return end if place < 0 else place


@cython.cfunc
def tag_of(p: cython.p_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t, is_rocketmq: cython.bint) -> bytes:
    """Return the first tag of the record at ``at``; empty without one."""
    end: cython.Py_ssize_t = at + size
    stop: cython.Py_ssize_t
    tag: cython.Py_ssize_t = at
    tag_size: cython.Py_ssize_t = 0
    if is_rocketmq:
        at = properties_place(p, at, size)
        if at < 0:
            return b""
        at += 2
        while at < end:
            stop = find_mark(p, at, end)
            # of two such pairs readers take the last
            if (
                stop - at > 5
                and p[at] == 84
                and p[at + 1] == 65
                and p[at + 2] == 71
                and p[at + 3] == 83
                and p[at + 4] == 1
            ):
                tag = at + 5
                tag_size = stop - tag
            at = stop + 1
    else:  # behind the message id and the topic stand the tags, with their count before them
        at += 10 + ((p[at + 8] << 8) | p[at + 9])
        if at + 2 <= end:
            at += 2 + ((p[at] << 8) | p[at + 1])
        if at + 6 <= end and u32(p, at) > 0:
            tag = at + 6
            tag_size = min((p[at + 4] << 8) | p[at + 5], end - tag)
    if cython.compiled:
        return cython.cast(cython.p_char, p)[tag : tag + tag_size]
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        return bytes(p[tag : tag + tag_size])


def count_below(entries: cython.const[cython.uchar][::1], stride: cython.Py_ssize_t, end: cython.longlong) -> int:
    """Return how many of the entries, which are sorted by position, point before ``end``."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = len(entries) // stride
    middle: cython.Py_ssize_t
    p: cython.pointer(cython.const[cython.uchar])
    if high == 0:
        return 0
    if cython.compiled:
        p = cython.address(entries[0])
    else:
        p = entries
    while low < high:
        middle = (low + high) // 2
        if i64(p, middle * stride) < end:
            low = middle + 1
        else:
            high = middle
    return low


@cython.cclass
class Pulled:
    """What one pull gives: ``count`` records behind each other in ``buffer[start:start + size]``.

    The ``start`` bytes before them are free for whoever sends the buffer.  ``next_offset`` is where the next pull
    goes on.
    """

    if not cython.compiled:
        __slots__ = (
            "buffer",
            "count",
            "is_rocketmq",
            "max_offset",
            "min_offset",
            "next_offset",
            "size",
            "start",
            "status",
        )

    def __init__(
        self,
        buffer: bytearray,
        start: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        next_offset: cython.longlong,
        min_offset: cython.longlong,
        max_offset: cython.longlong,
        status: object,
        is_rocketmq: cython.bint,
    ) -> None:
        self.buffer = buffer
        self.start = start
        self.size = len(buffer) - start
        self.count = count
        self.next_offset = next_offset
        self.min_offset = min_offset
        self.max_offset = max_offset
        self.status = status
        self.is_rocketmq = is_rocketmq

    @property
    def data(self) -> bytes:
        """Return a copy of the records."""
        return bytes(self.buffer[self.start :])

    def places(self) -> list[tuple[int, int]]:
        """Return (place in ``buffer``, size) of each record."""
        p: cython.p_uchar = self.buffer
        at: cython.Py_ssize_t = self.start
        size: cython.Py_ssize_t
        found = []
        while at < len(self.buffer):
            size = u32(p, at) + (0 if self.is_rocketmq else 4)
            found.append((at, size))
            at += size
        return found

    def keep(self, wanted: list[bool]) -> None:
        """Leave only the records in the buffer that are wanted; there is one answer for each."""
        if len(wanted) != self.count:
            raise ValueError(f"{len(wanted)} answers about {self.count} records")
        self.keep_some(False, wanted, frozenset())

    def keep_tags(self, tags: frozenset[bytes]) -> None:
        """Leave only the records in the buffer whose first tag is one of ``tags``: a hash may be that of another."""
        self.keep_some(True, [], tags)

    @cython.cfunc
    @cython.exceptval(-1)
    def keep_some(
        self,
        by_tag: cython.bint,
        wanted: list,  # type: ignore[type-arg] # the .pxd wants it bare
        tags: frozenset,  # type: ignore[type-arg] # the .pxd wants it bare
    ) -> cython.int:
        p: cython.p_uchar = self.buffer
        at: cython.Py_ssize_t = self.start
        o: cython.Py_ssize_t = self.start
        end: cython.Py_ssize_t = self.start + self.size
        number: cython.Py_ssize_t = 0
        kept: cython.Py_ssize_t = 0
        size: cython.Py_ssize_t
        while at < end:
            size = u32(p, at) + (0 if self.is_rocketmq else 4)
            if tag_of(p, at, size, self.is_rocketmq) in tags if by_tag else wanted[number]:
                if o != at:
                    if cython.compiled:
                        memmove(p + o, p + at, size)
                    else:
                        p[o : o + size] = p[at : at + size]
                o += size
                kept += 1
            at += size
            number += 1
        if o != end:
            resize(self.buffer, o)
        self.size = o - self.start
        self.count = kept
        return 0


@cython.cclass
class Slicer:
    """Collects the records of one pull; ``begin`` makes it ready for the next.  One thread uses it at a time.

    Records of several queues lie among each other, so what one pull would read over is what those of the other queues
    want.  Therefore a backlog is read in whole blocks, and the last ones are kept: appended bytes never change.
    ``window`` is the block that was used last, from ``window_start`` to ``window_end`` of the log.
    """

    if not cython.compiled:
        __slots__ = (
            "blocks",
            "buffer",
            "chosen",
            "chosen_bytes",
            "count",
            "end",
            "hash_count",
            "hashes",
            "head_room",
            "is_full",
            "is_litemq",
            "log_end",
            "max_bytes",
            "max_count",
            "odd",
            "offset",
            "reads_blocks",
            "rows",
            "scan_end",
            "scratch",
            "source",
            "source_start",
            "stride",
            "strips",
            "takes_all",
            "transcodes",
            "used",
            "wanted",
            "window",
            "window_end",
            "window_start",
        )

    def __init__(self, is_litemq: bool, stride: int, odd: Callable[[bytes, int], bytes | None]) -> None:
        """``odd`` transcodes a record that the kernel leaves: (record, position) → record."""
        self.is_litemq = is_litemq
        self.odd = odd
        self.stride = stride
        self.wanted = array("q", bytes(8 * 3 * 64))
        self.hashes = array("q", bytes(8 * 4))
        self.rows = layout.table(1)
        self.scratch = bytearray()
        self.log_end = 0
        self.blocks: dict[int, bytearray] = {}
        self.window = bytearray()
        self.window_start = 0
        self.window_end = 0
        self.source = self.scratch
        self.source_start = 0
        self.buffer: bytearray | None = None

    @cython.ccall
    @cython.exceptval(-1)
    def begin(
        self,
        offset: cython.longlong,
        end: cython.longlong,
        tag_hashes: Collection[int] | None,
        max_count: cython.longlong,
        max_bytes: cython.longlong,
        max_scan: cython.longlong,
        head_room: cython.Py_ssize_t,
        as_rocketmq: cython.bint,
    ) -> cython.int:
        """Begin a pull of the entries from ``offset`` on to ``end``; ``tag_hashes`` None takes all of them."""
        self.offset = offset
        self.end = end
        self.max_count = max(max_count, 1)
        self.max_bytes = max_bytes
        self.scan_end = offset + min(end - offset, max(max_scan, self.max_count), _MAX_SCAN)
        self.head_room = head_room
        self.used = head_room
        self.count = 0
        self.is_full = False
        self.reads_blocks = False
        self.transcodes = self.is_litemq and as_rocketmq
        self.strips = not self.is_litemq and as_rocketmq
        self.takes_all = tag_hashes is None
        self.hash_count = 0
        self.buffer = None
        if tag_hashes is not None:
            if len(tag_hashes) > len(self.hashes):
                self.hashes = array("q", bytes(8 * len(tag_hashes)))
            for value in tag_hashes:
                self.hashes[self.hash_count] = value & _MASK
                self.hash_count += 1
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def missing(self) -> cython.Py_ssize_t:
        """Return how many entries from ``offset`` on are worth a look at once; 0 when the pull is complete."""
        if self.is_full or self.count >= self.max_count or self.offset >= self.scan_end:
            return 0
        if self.takes_all:
            return min(self.scan_end - self.offset, self.max_count - self.count)
        return min(self.scan_end - self.offset, _CHUNK)

    @cython.ccall
    @cython.exceptval(-1)
    def choose(self, entries: bytearray, place: cython.Py_ssize_t, count: cython.Py_ssize_t) -> cython.int:
        """Look at the ``count`` entries from ``entries[place]`` on, whose first is that of ``offset``."""
        p: cython.p_uchar = entries
        i: cython.Py_ssize_t
        position: cython.longlong
        size: cython.longlong
        tag: cython.longlong
        total: cython.Py_ssize_t = self.used - self.head_room
        limit: cython.Py_ssize_t = min(self.max_count - self.count, _MAX_CHOSEN)
        if 3 * limit > len(self.wanted):
            self.wanted = array("q", bytes(8 * 3 * limit))
        self.chosen = 0
        self.chosen_bytes = 0
        while count > 0 and self.chosen < limit and self.offset < self.scan_end:
            position = i64(p, place)
            size = u32(p, place + 8)
            if self.takes_all:
                i = 0
            else:
                tag = u32(p, place + (12 if self.stride == 24 else 16))
                i = 0
                while i < self.hash_count and self.hashes[i] != tag:
                    i += 1
            if (self.takes_all or i < self.hash_count) and 0 < size <= _MAX_RECORD and 0 <= position < _MAX_POSITION:
                if total + self.chosen_bytes + size > self.max_bytes and (self.chosen > 0 or self.count > 0):
                    # What is sent may be smaller than what is stored: only the record alone can tell.
                    if self.chosen > 0:
                        return 0
                    if not (self.transcodes or self.strips):
                        self.is_full = True
                        return 0
                    limit = 1
                self.wanted[3 * self.chosen] = position
                self.wanted[3 * self.chosen + 1] = size
                self.wanted[3 * self.chosen + 2] = self.offset
                self.chosen += 1
                self.chosen_bytes += size
            self.offset += 1
            place += self.stride
            count -= 1
        return 0

    def first_position(self) -> int:
        """Return where the first record lies that was chosen; -1 when none was."""
        return self.wanted[0] if self.chosen > 0 else -1

    @cython.ccall
    @cython.exceptval(-1)
    def fetch(self, find: Callable[[int], Segment | None], nowait: cython.bint) -> cython.int:
        """Read what was chosen; return 0 when ``nowait`` and a part of it is not in memory.

        ``offset`` is then that of the first record that was not read.
        """
        i: cython.Py_ssize_t = 0
        k: cython.Py_ssize_t
        last: cython.Py_ssize_t
        size: cython.Py_ssize_t
        first: cython.longlong
        end: cython.longlong
        start: cython.longlong = 0
        segment_end: cython.longlong = 0
        file: object = None
        while i < self.chosen:
            first = self.wanted[3 * i]
            end = first + self.wanted[3 * i + 1]
            if first >= self.window_start and end <= self.window_end:
                last = i + 1
                while (
                    last < self.chosen
                    and self.wanted[3 * last] >= first
                    and self.wanted[3 * last] + self.wanted[3 * last + 1] <= self.window_end
                ):
                    last += 1
                self.source = self.window
                self.source_start = self.window_start
            else:
                if not start <= first < segment_end:  # else it is the segment of the run before
                    segment = find(first)
                    if segment is None:
                        i += 1
                        continue
                    file = segment.file
                    start = segment.start
                    segment_end = start + segment.size
                if end > segment_end:
                    i += 1
                    continue
                last = self.run_end(i, segment_end)
                k = self.find_block(i, last, file, start, segment_end, nowait)
                if k == 1:
                    continue  # with the window set to it
                if k == 2:
                    last = i + 1
                if not self.read_run(i, last, file, start, nowait):
                    self.offset = self.wanted[3 * i + 2]
                    return 0
            self.reserve(self.chosen_bytes + (_ROOM * self.chosen if self.transcodes else 0))
            for k in range(i, last):
                size = self.put(self.wanted[3 * k] - self.source_start, self.wanted[3 * k + 1], self.wanted[3 * k])
                self.chosen_bytes -= self.wanted[3 * k + 1]
                if size == 0:
                    continue
                if self.count > 0 and self.used - self.head_room + size > self.max_bytes:
                    self.offset = self.wanted[3 * k + 2]
                    self.is_full = True
                    return 1
                self.used += size
                self.count += 1
            i = last
        return 1

    @cython.cfunc
    @cython.exceptval(-1)
    def run_end(self, i: cython.Py_ssize_t, segment_end: cython.longlong) -> cython.Py_ssize_t:
        """Return behind which of the chosen records the run that begins with the ``i``-th ends: one call reads it."""
        last: cython.Py_ssize_t = i + 1
        first: cython.longlong = self.wanted[3 * i]
        end: cython.longlong = first + self.wanted[3 * i + 1]
        bytes_wanted: cython.longlong = self.wanted[3 * i + 1]
        place: cython.longlong
        size: cython.longlong
        span: cython.longlong
        while last < self.chosen:
            place = self.wanted[3 * last]
            size = self.wanted[3 * last + 1]
            span = place + size - first
            if place < end or place + size > segment_end:
                break
            if span > _SPAN_FACTOR * (bytes_wanted + size) and (place - end > _SMALL_GAP or span > _MAX_SPAN):
                break
            bytes_wanted += size
            end = place + size
            last += 1
        return last

    @cython.cfunc
    @cython.exceptval(-1)
    def find_block(
        self,
        i: cython.Py_ssize_t,
        last: cython.Py_ssize_t,
        file: object,
        start: cython.longlong,
        segment_end: cython.longlong,
        nowait: cython.bint,
    ) -> cython.int:
        """Make the block that holds the ``i``-th of the chosen records the window, where that is worth while.

        Return 1 when it is, 0 when the record is to be read otherwise, 2 when it alone is, because what follows is in
        the next block.
        """
        first: cython.longlong = self.wanted[3 * i]
        block_start: cython.longlong = first - (first - start) % _BLOCK
        block_end: cython.longlong = block_start + _BLOCK
        span: cython.longlong
        bytes_wanted: cython.longlong = 0
        got: cython.Py_ssize_t
        k: cython.Py_ssize_t
        if first + self.wanted[3 * i + 1] > block_end:
            return 2 if block_start in self.blocks else 0
        if block_end > segment_end or block_end > self.log_end:
            return 0
        found: bytearray | None = self.blocks.get(block_start)
        if found is None:
            span = self.wanted[3 * last - 3] + self.wanted[3 * last - 2] - first
            for k in range(i, last):
                bytes_wanted += self.wanted[3 * k + 1]
            if span >= _SMALL_SPAN and (self.transcodes or span > 2 * bytes_wanted):
                self.reads_blocks = True  # from here on to the end of the pull
            if not self.reads_blocks:
                return 0
            found = room_for(_BLOCK)
            got = self.read(file, found, 0, _BLOCK, block_start - start, nowait)
            if got < _BLOCK:
                return 0  # a part of it is not in memory: what is wanted may be
            self.blocks[block_start] = found
            if len(self.blocks) > _MAX_BLOCKS:
                self.blocks.pop(next(iter(self.blocks)))
        self.window = found
        self.window_start = block_start
        self.window_end = block_end
        return 1

    @cython.cfunc
    @cython.exceptval(-2)
    def read(
        self,
        file: object,
        target: bytearray,
        at: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
        place: cython.longlong,
        nowait: cython.bint,
    ) -> cython.Py_ssize_t:
        """Read from a file into ``target[at:]``; return how many bytes came, -1 when they are not in memory."""
        if isinstance(file, Descriptor):
            return cython.cast(Descriptor, file).read_part(target, at, size, place, nowait)
        return file.read_into(  # type: ignore[attr-defined] # another File
            memoryview(target)[at : at + size], place, nowait=nowait
        )

    @cython.cfunc
    @cython.exceptval(-1)
    def read_run(
        self, i: cython.Py_ssize_t, last: cython.Py_ssize_t, file: object, start: cython.longlong, nowait: cython.bint
    ) -> cython.int:
        """Read a run of the chosen records, to where ``source`` is afterwards; 0 when they are not in memory."""
        first: cython.longlong = self.wanted[3 * i]
        span: cython.Py_ssize_t = self.wanted[3 * last - 3] + self.wanted[3 * last - 2] - first
        base: cython.Py_ssize_t = 0
        got: cython.Py_ssize_t
        p: cython.p_uchar
        if self.transcodes:
            if len(self.scratch) < span:
                self.scratch = room_for(span)
            self.source = self.scratch
        else:  # right where they are sent from
            self.source = self.reserve(max(span, self.chosen_bytes))
            base = self.used
        self.source_start = first - base
        got = self.read(file, self.source, base, span, first - start, nowait)
        if got < 0:
            return 0
        if got < span:  # the file is shorter than it should be
            p = self.source
            if cython.compiled:
                memset(p + base + got, 0, span - got)
            else:
                p[base + got : base + span] = bytes(span - got)
        return 1

    @cython.cfunc
    def reserve(self, size: cython.Py_ssize_t) -> bytearray:
        """Return the buffer with ``size`` bytes free behind those that are used."""
        if self.buffer is None:
            self.buffer = room_for(self.used + size)
        elif len(self.buffer) < self.used + size:
            resize(self.buffer, self.used + size)
        return self.buffer

    @cython.cfunc
    @cython.exceptval(-1)
    def put(self, at: cython.Py_ssize_t, size: cython.Py_ssize_t, position: cython.longlong) -> cython.Py_ssize_t:
        """Move the record at ``source[at]`` behind the last one of the buffer; 0 when it is damaged."""
        p: cython.p_uchar = self.buffer
        source: cython.p_uchar = self.source
        rows: cython.p_longlong
        answer: cython.Py_ssize_t
        if self.strips:
            return strip_rocketmq(source, at, size, p, self.used)
        if self.transcodes:
            if cython.compiled:
                rows = cython.address(self.rows[0])
            else:
                rows = self.rows
            answer = put_as_rocketmq(source, at, size, position, rows, p, self.used)
            if answer >= 0:
                return answer
            whole = self.odd(bytes(self.source[at : at + size]), position)
            if whole is None or len(whole) > size + _ROOM:
                return 0
            record: bytes = whole
            if cython.compiled:
                memcpy(p + self.used, cython.cast(cython.p_char, record), len(record))
            else:
                p[self.used : self.used + len(record)] = record
            return len(record)
        if size < _MIN_RECORD:
            return 0
        if self.is_litemq:
            if u32(source, at) + 4 != size or u32(source, at + 4) != _MAGIC_LITEMQ:
                return 0
        elif u32(source, at) != size:
            return 0
        if cython.compiled:
            memmove(p + self.used, source + at, size)
        else:
            p[self.used : self.used + size] = source[at : at + size]
        return size

    @cython.ccall
    def finish(self, status: object, low: cython.longlong, high: cython.longlong) -> Pulled:
        """Hand over what was collected."""
        buffer: bytearray | None = self.buffer
        self.buffer = None
        if buffer is None:
            buffer = bytearray(self.used)
        elif len(buffer) != self.used:
            resize(buffer, self.used)
        if len(self.scratch) > _KEPT_SCRATCH:
            self.scratch = bytearray()
        return Pulled(
            buffer, self.head_room, self.count, self.offset, low, high, status, self.transcodes or not self.is_litemq
        )
