"""Kernel: compare what the log says should be in ConsumeQueues with what is in them.

Record and entry become the same seven numbers (``POSITION`` … ``COUNT``).  A healthy store is proven without keeping
any of them: the sum of their fingerprints over each block of the log is the same from both sides.  Only for blocks
where it differs are entries collected, sorted by position and matched with the records one by one.
Layouts of entries: ``format/queue_entry.py``.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.libc.string import memcmp
    from cython.cimports.litemq.format._byte_order_h import i32, i64, u32
else:
    from litemq.format.byte_order import i32, i64, u32

from litemq.format import rows as layout

_POSITION = cython.declare(cython.Py_ssize_t, layout.POSITION)
_SIZE = cython.declare(cython.Py_ssize_t, layout.SIZE)
_CHECKED = cython.declare(cython.Py_ssize_t, layout.CHECKED)
_QUEUE_ID = cython.declare(cython.Py_ssize_t, layout.QUEUE_ID)
_QUEUE_OFFSET = cython.declare(cython.Py_ssize_t, layout.QUEUE_OFFSET)
_TAG_HASH = cython.declare(cython.Py_ssize_t, layout.TAG_HASH)
_STORE_TIME = cython.declare(cython.Py_ssize_t, layout.STORE_TIME)
_STATUS = cython.declare(cython.Py_ssize_t, layout.STATUS)
_TOPIC_AT = cython.declare(cython.Py_ssize_t, layout.TOPIC_AT)
_TOPIC_SIZE = cython.declare(cython.Py_ssize_t, layout.TOPIC_SIZE)
_PROPERTIES_AT = cython.declare(cython.Py_ssize_t, layout.PROPERTIES_AT)
_PROPERTIES_SIZE = cython.declare(cython.Py_ssize_t, layout.PROPERTIES_SIZE)
_WIDTH = cython.declare(cython.Py_ssize_t, layout.WIDTH)

ENTRY_WIDTH = 7
"""Numbers of one entry: position, queue, offset in it, size, tag hash, store time, messages (batch units only)."""

LITEMQ, ROCKETMQ, TMQ, BATCH = range(4)
"""Kinds of entries."""

BLOCK_SHIFT = 24
"""The log is summed up in blocks of 16 MiB; a table of 2^n sums is used again from its start in a longer log."""

# counters of ``sum_entries`` and ``match_rows``
ENTRIES, MISSING, WRONG, DANGLING = range(4)

_ENTRY_WIDTH = cython.declare(cython.Py_ssize_t, ENTRY_WIDTH)
_BLOCK_SHIFT = cython.declare(cython.int, BLOCK_SHIFT)
_MASK = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_MASK63 = cython.declare(cython.ulonglong, 0x7FFFFFFFFFFFFFFF)
# Declared, because Cython multiplies large literals as Python objects.
_MIX_1 = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)
_MIX_2 = cython.declare(cython.ulonglong, 0xD6E8FEB86659FD93)
_FNV_PRIME = cython.declare(cython.ulonglong, 0x100000001B3)
_NO_ENTRY_SIZE = cython.declare(cython.longlong, 0x7FFFFFFF)
_LOWEST_TAG = cython.declare(cython.longlong, -0x80000000)
_INNER_NUM = cython.declare(bytes, b"INNER_NUM\x01")


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


# -- numbers ---------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def fold(h: cython.ulonglong, v: cython.longlong) -> cython.ulonglong:
    """Mix one more number into a fingerprint."""
    h = ((h ^ (cython.cast(cython.ulonglong, v) & _MASK)) * _MIX_1) & _MASK
    return h ^ (h >> 29)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def fingerprint(e: cython.p_longlong, at: cython.Py_ssize_t) -> cython.ulonglong:
    h: cython.ulonglong = 0x2545F4914F6CDD1D
    i: cython.Py_ssize_t
    for i in range(at, at + _ENTRY_WIDTH):
        h = fold(h, e[i])
    h = (h * _MIX_2) & _MASK
    return h ^ (h >> 32)


@cython.cfunc
@cython.exceptval(check=False)
def name_key(
    p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.longlong:
    """Return a number for a name."""
    h: cython.ulonglong = 0xCBF29CE484222325
    i: cython.Py_ssize_t
    for i in range(at, at + size):
        h = ((h ^ p[i]) * _FNV_PRIME) & _MASK
    return (h ^ (h >> 32)) & _MASK63


@cython.cfunc
@cython.exceptval(check=False)
def topic_key(
    p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.longlong:
    """Return a number for a topic; -1 for one that cannot be a folder name and so has no queues."""
    i: cython.Py_ssize_t
    if size < 1 or size > 255 or (p[at] == 46 and (size == 1 or (size == 2 and p[at + 1] == 46))):
        return -1
    for i in range(at, at + size):
        if p[i] == 47 or p[i] == 0:
            return -1
    return name_key(p, at, size)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def queue_key(topic: cython.longlong, queue_id: cython.longlong) -> cython.longlong:
    return fold(cython.cast(cython.ulonglong, topic), queue_id + 1) & _MASK63


@cython.cfunc
@cython.exceptval(check=False)
def find_key(
    keys: cython.p_longlong, width: cython.Py_ssize_t, count: cython.Py_ssize_t, key: cython.longlong
) -> cython.Py_ssize_t:
    """Return the row of ``key`` in rows sorted by their first number, -1 when it is not there."""
    low: cython.Py_ssize_t = 0
    middle: cython.Py_ssize_t
    while low < count:
        middle = (low + count) >> 1
        if keys[middle * width] < key:
            low = middle + 1
        elif keys[middle * width] > key:
            count = middle
        else:
            return middle
    return -1


@cython.cfunc
@cython.exceptval(check=False)
def inner_count(
    p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.longlong:
    """Return how many messages the record's property ``INNER_NUM`` says it holds, 1 without."""
    value: cython.longlong
    found: cython.bint
    while end - at > 10:
        if cython.compiled:
            found = memcmp(p + at, cython.cast(cython.p_char, _INNER_NUM), 10) == 0
        else:
            found = p[at : at + 10] == _INNER_NUM
        if found:
            value = 0
            at += 10
            while at < end and 48 <= p[at] <= 57 and value < 100000:
                value = value * 10 + (p[at] - 48)
                at += 1
            return value
        while at < end and p[at] != 2:
            at += 1
        at += 1
    return 1


@cython.cfunc
@cython.exceptval(check=False)
def is_dead(
    dead: cython.p_longlong,
    count: cython.Py_ssize_t,
    key: cython.longlong,
    offset: cython.longlong,
    position: cython.longlong,
) -> cython.bint:
    """Return whether a deletion covers the record; rows of ``dead``: key, first offset and first position alive."""
    row: cython.Py_ssize_t = find_key(dead, 3, count, key)
    return row >= 0 and (offset < dead[3 * row + 1] or position < dead[3 * row + 2])


# -- both sides as seven numbers ---------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(check=False)
def expect(
    p: cython.pointer(cython.const[cython.uchar]),
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
    kind: cython.int,
    queue: cython.longlong,
    dead: cython.p_longlong,
    dead_count: cython.Py_ssize_t,
    batch: cython.p_longlong,
    batch_count: cython.Py_ssize_t,
    e: cython.p_longlong,
) -> cython.bint:
    """Fill ``e`` with the entry that the record of a row should have; False when it should have none."""
    topic: cython.longlong
    e[0] = rows[o + _POSITION]
    e[3] = rows[o + _SIZE]
    e[4] = rows[o + _TAG_HASH]
    e[5] = 0
    e[6] = 0
    if kind == 2:  # tmq: the folder is the queue, and entries hold neither offset nor tag
        e[1] = queue
        e[2] = 0
        e[4] = 0
        return True
    topic = topic_key(p, rows[o + _TOPIC_AT], rows[o + _TOPIC_SIZE])
    e[1] = queue_key(topic, rows[o + _QUEUE_ID])
    e[2] = rows[o + _QUEUE_OFFSET]
    if kind == 0:
        e[5] = rows[o + _STORE_TIME]
    elif batch_count > 0 and find_key(batch, 1, batch_count, topic) >= 0:
        e[5] = rows[o + _STORE_TIME]
        e[6] = inner_count(p, rows[o + _PROPERTIES_AT], rows[o + _PROPERTIES_AT] + rows[o + _PROPERTIES_SIZE])
    if topic < 0 or (rows[o + _STATUS] != 0 and rows[o + _STATUS] != 2):
        return False
    return dead_count == 0 or not (
        is_dead(dead, dead_count, topic, e[2], e[0]) or is_dead(dead, dead_count, e[1], e[2], e[0])
    )


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def entry_size(kind: cython.int) -> cython.Py_ssize_t:
    return 46 if kind == 3 else (20 if kind == 1 else 24)


@cython.cfunc
@cython.exceptval(check=False)
def read_entry(
    p: cython.pointer(cython.const[cython.uchar]),
    at: cython.Py_ssize_t,
    kind: cython.int,
    queue: cython.longlong,
    number: cython.longlong,
    starts: cython.p_longlong,
    start_count: cython.Py_ssize_t,
    e: cython.p_longlong,
) -> cython.bint:
    """Fill ``e`` with the entry at ``at``; False when there is none: nothing written, or no message."""
    i: cython.Py_ssize_t
    written: cython.bint = False
    for i in range(at, at + entry_size(kind)):
        if p[i] != 0:
            written = True
            break
    if not written:
        return False
    e[1] = queue
    e[2] = number
    e[5] = 0
    e[6] = 0
    if kind == 2:
        i = u32(p, at)
        e[0] = starts[i] + u32(p, at + 4) if i < start_count else -1
        e[2] = 0
        e[3] = u32(p, at + 16)
        e[4] = 0
        return True
    e[0] = i64(p, at)
    e[3] = i32(p, at + 8)
    if e[3] == _NO_ENTRY_SIZE:
        return False
    if kind == 0:
        e[4] = u32(p, at + 12)
        e[5] = i64(p, at + 16)
    else:
        e[4] = i64(p, at + 12)
        if kind == 3:
            e[5] = i64(p, at + 20)
            e[2] = i64(p, at + 28)
            e[6] = (p[at + 36] << 8) | p[at + 37]
    return True


# -- sums ---------------------------------------------------------------------------------


def tally(table: cython.longlong[::1], first: cython.Py_ssize_t, count: cython.Py_ssize_t) -> tuple[int, int]:
    """Return (bytes, records with a checksum) of rows ``first`` to ``count``."""
    size: cython.longlong = 0
    checked: cython.longlong = 0
    i: cython.Py_ssize_t
    for i in range(first, count):
        size += table[i * _WIDTH + _SIZE]
        checked += table[i * _WIDTH + _CHECKED]
    return size, checked


def highest_position(data: cython.const[cython.uchar][::1], kind: cython.int, starts: cython.longlong[::1]) -> int:
    """Return the highest position in the entries in ``data``, -1 without one."""
    scratch: cython.longlong[::1] = layout.table(1)
    p: cython.pointer(cython.const[cython.uchar])
    s: cython.p_longlong
    e: cython.p_longlong
    highest: cython.longlong = -1
    at: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t = entry_size(kind)
    if cython.compiled:
        p, s, e = cython.address(data[0]), cython.address(starts[0]), cython.address(scratch[0])
    else:
        p, s, e = data, starts, scratch
    while at + size <= len(data):
        if read_entry(p, at, kind, 0, 0, s, len(starts), e) and e[0] > highest:
            highest = e[0]
        at += size
    return highest


def next_of_topic(
    view: cython.const[cython.uchar][::1],
    table: cython.longlong[::1],
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    topic: bytes,
) -> int:
    """Return the first row from ``first`` on whose record has that topic, ``count`` when there is none."""
    i: cython.Py_ssize_t
    o: cython.Py_ssize_t
    size: cython.Py_ssize_t = len(topic)
    p: cython.pointer(cython.const[cython.uchar])
    if cython.compiled:
        p = cython.address(view[0])
    else:
        p = view
    for i in range(first, count):
        o = i * _WIDTH
        if table[o + _TOPIC_SIZE] == size:
            if cython.compiled:
                if memcmp(p + table[o + _TOPIC_AT], cython.cast(cython.p_char, topic), size) == 0:
                    return i
            elif p[table[o + _TOPIC_AT] : table[o + _TOPIC_AT] + size] == topic:
                return i
    return count


def key_of_topic(topic: bytes) -> int:
    """Return the number that stands for a topic, -1 for one without queues."""
    return topic_key(topic, 0, len(topic))


def key_of_queue(topic: bytes, queue_id: int) -> int:
    """Return the number that stands for a queue."""
    return queue_key(topic_key(topic, 0, len(topic)), queue_id)


def sum_rows(
    view: cython.const[cython.uchar][::1],
    table: cython.longlong[::1],
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    kind: cython.int,
    queue: cython.longlong,
    dead: cython.longlong[::1],
    batch: cython.longlong[::1],
    base: cython.longlong,
    end: cython.longlong,
    sums: cython.ulonglong[::1],
) -> None:
    """Add the expected entries of rows below position ``end`` to the sums of their blocks.

    ``dead`` and ``batch`` have a row at their end that does not count, so that neither is ever empty.
    """
    scratch: cython.longlong[::1] = layout.table(1)
    p: cython.pointer(cython.const[cython.uchar])
    rows: cython.p_longlong
    d: cython.p_longlong
    b: cython.p_longlong
    e: cython.p_longlong
    i: cython.Py_ssize_t
    block: cython.Py_ssize_t
    mask: cython.Py_ssize_t = len(sums) - 1
    dead_count: cython.Py_ssize_t = len(dead) // 3 - 1
    batch_count: cython.Py_ssize_t = len(batch) - 1
    if cython.compiled:
        p, rows, e = cython.address(view[0]), cython.address(table[0]), cython.address(scratch[0])
        d, b = cython.address(dead[0]), cython.address(batch[0])
    else:
        p, rows, e, d, b = view, table, scratch, dead, batch
    for i in range(first, count):
        if expect(p, rows, i * _WIDTH, kind, queue, d, dead_count, b, batch_count, e) and e[0] < end:
            block = ((e[0] - base) >> _BLOCK_SHIFT) & mask
            sums[block] = (sums[block] + fingerprint(e, 0)) & _MASK


def sum_entries(
    data: cython.const[cython.uchar][::1],
    kind: cython.int,
    queue: cython.longlong,
    topic: cython.longlong,
    number: cython.longlong,
    starts: cython.longlong[::1],
    dead: cython.longlong[::1],
    first_position: cython.longlong,
    base: cython.longlong,
    end: cython.longlong,
    ignore_behind: cython.bint,
    sums: cython.ulonglong[::1],
    counts: cython.longlong[::1],
    counters: cython.longlong[::1],
) -> None:
    """Take the entries in ``data``, the first of which is ``number`` of its queue, off the sums of their blocks.

    Entries below the log's first segment do not count; behind its ``end`` they dangle, or do not count either while
    somebody is writing.
    """
    scratch: cython.longlong[::1] = layout.table(1)
    p: cython.pointer(cython.const[cython.uchar])
    s: cython.p_longlong
    d: cython.p_longlong
    e: cython.p_longlong
    at: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t = entry_size(kind)
    block: cython.Py_ssize_t
    mask: cython.Py_ssize_t = len(sums) - 1
    dead_count: cython.Py_ssize_t = len(dead) // 3 - 1
    if cython.compiled:
        p, s, d = cython.address(data[0]), cython.address(starts[0]), cython.address(dead[0])
        e = cython.address(scratch[0])
    else:
        p, s, d, e = data, starts, dead, scratch
    while at + size <= len(data):
        if read_entry(p, at, kind, queue, number, s, len(starts), e) and not (
            0 <= e[0] < first_position
            or (ignore_behind and e[0] >= end)
            or (
                dead_count > 0
                and (is_dead(d, dead_count, topic, e[2], e[0]) or is_dead(d, dead_count, queue, e[2], e[0]))
            )
        ):
            counters[0] += 1
            if e[0] < base or e[0] >= end:
                counters[3] += 1
            else:
                block = ((e[0] - base) >> _BLOCK_SHIFT) & mask
                counts[block] += 1
                sums[block] = (sums[block] - fingerprint(e, 0)) & _MASK
        at += size
        number += 1


# -- one by one ---------------------------------------------------------------------------------


def collect_entries(
    data: cython.const[cython.uchar][::1],
    kind: cython.int,
    queue: cython.longlong,
    topic: cython.longlong,
    number: cython.longlong,
    starts: cython.longlong[::1],
    dead: cython.longlong[::1],
    base: cython.longlong,
    end: cython.longlong,
    wanted: cython.const[cython.uchar][::1],
    out: cython.longlong[::1],
    used: cython.Py_ssize_t,
) -> int:
    """Put the entries that point into wanted blocks at the end of ``out``, which has room; return how many it holds."""
    scratch: cython.longlong[::1] = layout.table(1)
    p: cython.pointer(cython.const[cython.uchar])
    s: cython.p_longlong
    d: cython.p_longlong
    e: cython.p_longlong
    at: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    size: cython.Py_ssize_t = entry_size(kind)
    mask: cython.Py_ssize_t = len(wanted) - 1
    dead_count: cython.Py_ssize_t = len(dead) // 3 - 1
    if cython.compiled:
        p, s, d = cython.address(data[0]), cython.address(starts[0]), cython.address(dead[0])
        e = cython.address(scratch[0])
    else:
        p, s, d, e = data, starts, dead, scratch
    while at + size <= len(data) and (used + 1) * _ENTRY_WIDTH <= len(out):
        if (
            read_entry(p, at, kind, queue, number, s, len(starts), e)
            and base <= e[0] < end
            and wanted[((e[0] - base) >> _BLOCK_SHIFT) & mask]
            and not (
                dead_count > 0
                and (is_dead(d, dead_count, topic, e[2], e[0]) or is_dead(d, dead_count, queue, e[2], e[0]))
            )
        ):
            for i in range(_ENTRY_WIDTH):
                out[used * _ENTRY_WIDTH + i] = e[i]
            used += 1
        at += size
        number += 1
    return used


def match_rows(
    view: cython.const[cython.uchar][::1],
    table: cython.longlong[::1],
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    kind: cython.int,
    queue: cython.longlong,
    dead: cython.longlong[::1],
    batch: cython.longlong[::1],
    base: cython.longlong,
    end: cython.longlong,
    wanted: cython.const[cython.uchar][::1],
    entries: cython.longlong[::1],
    used: cython.Py_ssize_t,
    cursor: cython.Py_ssize_t,
    counters: cython.longlong[::1],
    has_extension: cython.bint,
) -> int:
    """Match rows with ``used`` entries sorted by position, from ``cursor`` on; return the cursor behind them.

    ``has_extension``: a tag far below zero is the address of an extension, not a hash.
    """
    scratch: cython.longlong[::1] = layout.table(1)
    p: cython.pointer(cython.const[cython.uchar])
    rows: cython.p_longlong
    d: cython.p_longlong
    b: cython.p_longlong
    e: cython.p_longlong
    i: cython.Py_ssize_t
    o: cython.Py_ssize_t
    expected: cython.bint
    found: cython.bint
    mask: cython.Py_ssize_t = len(wanted) - 1
    dead_count: cython.Py_ssize_t = len(dead) // 3 - 1
    batch_count: cython.Py_ssize_t = len(batch) - 1
    if cython.compiled:
        p, rows, e = cython.address(view[0]), cython.address(table[0]), cython.address(scratch[0])
        d, b = cython.address(dead[0]), cython.address(batch[0])
    else:
        p, rows, e, d, b = view, table, scratch, dead, batch
    for i in range(first, count):
        expected = expect(p, rows, i * _WIDTH, kind, queue, d, dead_count, b, batch_count, e)
        if e[0] >= end or not wanted[((e[0] - base) >> _BLOCK_SHIFT) & mask]:
            continue
        found = False
        while cursor < used and entries[cursor * _ENTRY_WIDTH] <= e[0]:
            o = cursor * _ENTRY_WIDTH
            cursor += 1
            if entries[o] < e[0]:
                counters[3] += 1
            elif not expected or entries[o + 1] != e[1] or entries[o + 2] != e[2]:
                counters[2] += 1  # it is another record's place, or the record should have none
            else:
                found = True
                if (
                    entries[o + 3] != e[3]
                    or entries[o + 5] != e[5]
                    or entries[o + 6] != e[6]
                    or (entries[o + 4] != e[4] and not (has_extension and entries[o + 4] < _LOWEST_TAG))
                ):
                    counters[2] += 1
        if expected and not found:
            counters[1] += 1
    return cursor
