"""Kernel: compare the keys in the log with the entries of the key index.

A healthy index holds its entries in log order, so that one merge of log and entries proves it.  Where that fails,
entries are collected by ranges of the log, sorted by position and hash, and looked up one by one.
Layout of entries: ``format/index_file.py``.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.litemq.format._byte_order_h import i32, i64
    from cython.cimports.litemq.format._text_cy import hash_utf8, is_utf8
    from cython.cimports.litemq.store._queue_check_cy import is_dead, queue_key, topic_key
else:
    from litemq.format._text_cy import hash_utf8, is_utf8
    from litemq.format.byte_order import i32, i64
    from litemq.store._queue_check_cy import is_dead, queue_key, topic_key

from litemq.format import rows as layout

_POSITION = cython.declare(cython.Py_ssize_t, layout.POSITION)
_QUEUE_ID = cython.declare(cython.Py_ssize_t, layout.QUEUE_ID)
_QUEUE_OFFSET = cython.declare(cython.Py_ssize_t, layout.QUEUE_OFFSET)
_STATUS = cython.declare(cython.Py_ssize_t, layout.STATUS)
_TOPIC_AT = cython.declare(cython.Py_ssize_t, layout.TOPIC_AT)
_TOPIC_SIZE = cython.declare(cython.Py_ssize_t, layout.TOPIC_SIZE)
_ID_AT = cython.declare(cython.Py_ssize_t, layout.ID_AT)
_ID_SIZE = cython.declare(cython.Py_ssize_t, layout.ID_SIZE)
_KEYS_AT = cython.declare(cython.Py_ssize_t, layout.KEYS_AT)
_KEYS_SIZE = cython.declare(cython.Py_ssize_t, layout.KEYS_SIZE)
_KEYS_COUNT = cython.declare(cython.Py_ssize_t, layout.KEYS_COUNT)
_WIDTH = cython.declare(cython.Py_ssize_t, layout.WIDTH)

ENTRY_SIZE = 20
COLLECTED_WIDTH = 3
"""Numbers of a collected entry: position, hash, whether its slot leads to it."""

ROWS_DONE, MORE_ENTRIES, IRREGULAR = range(3)
"""Why ``merge_rows`` stopped."""

# counters of ``match_rows`` and ``count_entries``
ENTRIES, MISSING, WRONG = range(3)

_GROUP = cython.declare(cython.Py_ssize_t, 256)
_NO_PURGE = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
_NO_ROW = cython.declare(cython.longlong, -1)
# Declared, because Cython computes with large literals as Python objects.
_MASK32 = cython.declare(cython.longlong, 0xFFFFFFFF)
_MASK31 = cython.declare(cython.longlong, 0x7FFFFFFF)


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


# -- the keys of a record ---------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(-1)
def key_hash(
    p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, end: cython.Py_ssize_t, topic: cython.uint
) -> cython.longlong:
    """Return the hash of ``topic#key``, where ``topic`` is that of ``topic#``; wrong UTF-8 counts as U+FFFD."""
    h: cython.longlong
    data: bytes
    if is_utf8(p, at, end):
        h = hash_utf8(p, at, end, topic)
    else:
        if cython.compiled:
            data = cython.cast(cython.p_char, p)[at:end]
        else:
            data = bytes(p[at:end])
        data = data.decode("utf-8", "replace").encode()
        h = hash_utf8(data, 0, len(data), topic)
    if h > _MASK31:
        h = (_MASK32 + 1 - h) & _MASK31
    return h


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def topic_hash(
    p: cython.pointer(cython.const[cython.uchar]), rows: cython.p_longlong, o: cython.Py_ssize_t
) -> cython.uint:
    h: cython.uint = hash_utf8(p, rows[o + _TOPIC_AT], rows[o + _TOPIC_AT] + rows[o + _TOPIC_SIZE], 0)
    return (h * 31 + 35) & _MASK32


@cython.cfunc
@cython.exceptval(-2)
def next_key(
    p: cython.pointer(cython.const[cython.uchar]),
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
    topic: cython.uint,
    place: cython.p_longlong,
) -> cython.longlong:
    """Return the hash of the record's next key, id first, -1 behind the last; ``place`` starts at -1."""
    at: cython.Py_ssize_t
    start: cython.Py_ssize_t
    end: cython.Py_ssize_t = rows[o + _KEYS_AT] + rows[o + _KEYS_SIZE]
    if place[0] < 0:
        place[0] = rows[o + _KEYS_AT]
        if rows[o + _ID_SIZE] > 0:
            return key_hash(p, rows[o + _ID_AT], rows[o + _ID_AT] + rows[o + _ID_SIZE], topic)
    at = place[0]
    while at < end:
        if rows[o + _KEYS_COUNT] >= 0:  # a list of texts, each with its u16 size
            start = at + 2
            at = start + ((p[at] << 8) | p[at + 1])
        else:  # one text, split at blanks
            while at < end and p[at] == 32:
                at += 1
            start = at
            while at < end and p[at] != 32:
                at += 1
        if at > start:
            place[0] = at
            return key_hash(p, start, at, topic)
    place[0] = at
    return -1


@cython.cfunc
@cython.exceptval(check=False)
def is_indexed(
    p: cython.pointer(cython.const[cython.uchar]),
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
    dead: cython.p_longlong,
    dead_count: cython.Py_ssize_t,
    end: cython.longlong,
) -> cython.bint:
    """Return whether the record's keys must be in the index: not rolled back, not deleted, below ``end``."""
    topic: cython.longlong
    offset: cython.longlong
    if rows[o + _STATUS] == 3 or rows[o + _POSITION] >= end:
        return False
    topic = topic_key(p, rows[o + _TOPIC_AT], rows[o + _TOPIC_SIZE])
    if topic < 0:
        return False
    # What is prepared has no place in its queue, so that no purge takes it.
    offset = rows[o + _QUEUE_OFFSET] if rows[o + _STATUS] != 1 else _NO_PURGE
    return dead_count == 0 or not (
        is_dead(dead, dead_count, topic, offset, rows[o + _POSITION])
        or is_dead(dead, dead_count, queue_key(topic, rows[o + _QUEUE_ID]), offset, rows[o + _POSITION])
    )


# -- the merge ---------------------------------------------------------------------------------


def merge_rows(
    view: cython.const[cython.uchar][::1],
    table: cython.longlong[::1],
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    dead: cython.longlong[::1],
    first_position: cython.longlong,
    end_position: cython.longlong,
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    is_last: cython.bint,
) -> tuple[int, int, int]:
    """Compare rows with the entries in ``data[at:end]``; return (next row, place of the next entry, why it stopped).

    ``is_last``: no entry follows those in ``data``, which is never empty.  Entries below ``first_position`` are passed
    over.  It stops as irregular at the first key without an entry, at an entry between two records, and at more than
    256 entries of one record.
    """
    place: cython.longlong[::1] = layout.table(1)
    p: cython.pointer(cython.const[cython.uchar])
    q: cython.pointer(cython.const[cython.uchar])
    rows: cython.p_longlong
    d: cython.p_longlong
    k: cython.p_longlong
    i: cython.Py_ssize_t = first
    o: cython.Py_ssize_t
    group: cython.Py_ssize_t
    e: cython.Py_ssize_t
    expected: cython.Py_ssize_t
    position: cython.longlong
    h: cython.longlong
    topic: cython.uint
    dead_count: cython.Py_ssize_t = len(dead) // 3 - 1
    if cython.compiled:
        p, rows, q = cython.address(view[0]), cython.address(table[0]), cython.address(data[0])
        d, k = cython.address(dead[0]), cython.address(place[0])
    else:
        p, rows, q, d, k = view, table, data, dead, place
    while i < count:
        o = i * _WIDTH
        position = rows[o + _POSITION]
        while at < end and 0 <= i64(q, at + 4) < first_position:
            at += 20
        group = at
        while group < end and i64(q, group + 4) == position:
            group += 20
        if group == end and not is_last:
            return i, at, 1
        if group - at > 20 * _GROUP or (group < end and i64(q, group + 4) < position):
            return i, at, 2
        if is_indexed(p, rows, o, d, dead_count, end_position):
            topic = topic_hash(p, rows, o)
            k[0] = _NO_ROW
            expected = at
            h = next_key(p, rows, o, topic, k)
            while h >= 0:
                if expected < group and i32(q, expected) == h:
                    expected += 20  # entries stand in the order of the keys
                else:
                    e = at
                    while e < group and i32(q, e) != h:
                        e += 20
                    if e == group:
                        return i, at, 2
                    expected = e + 20
                h = next_key(p, rows, o, topic, k)
        at = group
        i += 1
    return i, at, 0


# -- one file ---------------------------------------------------------------------------------


def mark_reachable(
    data: cython.const[cython.uchar][::1],
    first: cython.longlong,
    newest: cython.int[::1],
    reachable: cython.uchar[::1],
) -> int:
    """Go back through entries, the first of which is number ``first``; return how many no slot leads to.

    ``newest`` holds for each slot the number that its chain comes to next; later entries were done before.
    """
    p: cython.pointer(cython.const[cython.uchar])
    lost: cython.longlong = 0
    i: cython.Py_ssize_t
    h: cython.longlong
    number: cython.longlong
    before: cython.longlong
    slots: cython.longlong = len(newest)
    if cython.compiled:
        p = cython.address(data[0])
    else:
        p = data
    i = len(data) // 20 - 1
    while i >= 0:
        number = first + i
        h = i32(p, 20 * i)
        if h >= 0 and newest[h % slots] == number:
            before = i32(p, 20 * i + 16)
            newest[h % slots] = before if 0 < before < number else 0
            reachable[number >> 3] |= 1 << (number & 7)
        else:
            lost += 1
        i -= 1
    return lost


def count_astray(before: cython.const[cython.int][::1], after: cython.const[cython.int][::1]) -> int:
    """Return how many slots lead to no entry of theirs: ``mark_reachable`` has left them as they were."""
    found: cython.longlong = 0
    i: cython.Py_ssize_t
    for i in range(len(before)):
        if before[i] != 0 and before[i] == after[i]:
            found += 1
    return found


def count_entries(
    data: cython.const[cython.uchar][::1],
    first_position: cython.longlong,
    base: cython.longlong,
    end: cython.longlong,
    ignore_behind: cython.bint,
    shift: cython.int,
    counts: cython.longlong[::1],
    counters: cython.longlong[::1],
) -> None:
    """Count entries by block of the log; those below its first segment do not count, those outside are wrong."""
    p: cython.pointer(cython.const[cython.uchar])
    i: cython.Py_ssize_t
    position: cython.longlong
    mask: cython.Py_ssize_t = len(counts) - 1
    if cython.compiled:
        p = cython.address(data[0])
    else:
        p = data
    for i in range(len(data) // 20):
        position = i64(p, 20 * i + 4)
        if 0 <= position < first_position or (ignore_behind and position >= end):
            continue
        counters[0] += 1
        if position < base or position >= end:
            counters[2] += 1
        else:
            counts[((position - base) >> shift) & mask] += 1


def collect_entries(
    data: cython.const[cython.uchar][::1],
    first: cython.longlong,
    base: cython.longlong,
    end: cython.longlong,
    shift: cython.int,
    wanted: cython.const[cython.uchar][::1],
    reachable: cython.const[cython.uchar][::1],
    out: cython.longlong[::1],
    used: cython.Py_ssize_t,
) -> int:
    """Put the entries that point into wanted blocks at the end of ``out``, which has room; return how many it holds."""
    p: cython.pointer(cython.const[cython.uchar])
    i: cython.Py_ssize_t
    position: cython.longlong
    number: cython.longlong
    mask: cython.Py_ssize_t = len(wanted) - 1
    if cython.compiled:
        p = cython.address(data[0])
    else:
        p = data
    for i in range(len(data) // 20):
        position = i64(p, 20 * i + 4)
        if base <= position < end and wanted[((position - base) >> shift) & mask] and 3 * used + 3 <= len(out):
            number = first + i
            out[3 * used] = position
            out[3 * used + 1] = i32(p, 20 * i)
            out[3 * used + 2] = (reachable[number >> 3] >> (number & 7)) & 1
            used += 1
    return used


def match_rows(
    view: cython.const[cython.uchar][::1],
    table: cython.longlong[::1],
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    dead: cython.longlong[::1],
    end_position: cython.longlong,
    base: cython.longlong,
    shift: cython.int,
    wanted: cython.const[cython.uchar][::1],
    entries: cython.longlong[::1],
    used: cython.Py_ssize_t,
    cursor: cython.Py_ssize_t,
    counters: cython.longlong[::1],
) -> int:
    """Look up the keys of wanted blocks' rows in ``used`` sorted entries from ``cursor`` on; return the new cursor."""
    place: cython.longlong[::1] = layout.table(1)
    p: cython.pointer(cython.const[cython.uchar])
    rows: cython.p_longlong
    d: cython.p_longlong
    k: cython.p_longlong
    i: cython.Py_ssize_t
    o: cython.Py_ssize_t
    group: cython.Py_ssize_t
    low: cython.Py_ssize_t
    top: cython.Py_ssize_t
    middle: cython.Py_ssize_t
    position: cython.longlong
    h: cython.longlong
    topic: cython.uint
    mask: cython.Py_ssize_t = len(wanted) - 1
    dead_count: cython.Py_ssize_t = len(dead) // 3 - 1
    if cython.compiled:
        p, rows = cython.address(view[0]), cython.address(table[0])
        d, k = cython.address(dead[0]), cython.address(place[0])
    else:
        p, rows, d, k = view, table, dead, place
    for i in range(first, count):
        o = i * _WIDTH
        position = rows[o + _POSITION]
        if not wanted[((position - base) >> shift) & mask]:
            continue
        while cursor < used and entries[3 * cursor] < position:
            counters[2] += 1
            cursor += 1
        group = cursor
        while group < used and entries[3 * group] == position:
            group += 1
        if is_indexed(p, rows, o, d, dead_count, end_position):
            topic = topic_hash(p, rows, o)
            k[0] = _NO_ROW
            h = next_key(p, rows, o, topic, k)
            while h >= 0:
                low = cursor
                top = group
                while low < top:
                    middle = (low + top) >> 1
                    if entries[3 * middle + 1] <= h:
                        low = middle + 1
                    else:
                        top = middle
                # of equal ones those that a slot leads to come last
                if low == cursor or entries[3 * low - 2] != h or not entries[3 * low - 1]:
                    counters[1] += 1
                h = next_key(p, rows, o, topic, k)
        cursor = group
    return cursor
