"""Kernel: pick rows out of a batch by key, id or time, and note which offsets each queue has."""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.libc.string import memcmp
    from cython.cimports.litemq.store._queue_check_cy import entry_size, inner_count, name_key, queue_key, read_entry
else:
    from litemq.store._queue_check_cy import entry_size, inner_count, name_key, queue_key, read_entry

from litemq.format import rows as layout

_POSITION = cython.declare(cython.Py_ssize_t, layout.POSITION)
_QUEUE_ID = cython.declare(cython.Py_ssize_t, layout.QUEUE_ID)
_QUEUE_OFFSET = cython.declare(cython.Py_ssize_t, layout.QUEUE_OFFSET)
_STORE_TIME = cython.declare(cython.Py_ssize_t, layout.STORE_TIME)
_STATUS = cython.declare(cython.Py_ssize_t, layout.STATUS)
_TOPIC_AT = cython.declare(cython.Py_ssize_t, layout.TOPIC_AT)
_TOPIC_SIZE = cython.declare(cython.Py_ssize_t, layout.TOPIC_SIZE)
_ID_AT = cython.declare(cython.Py_ssize_t, layout.ID_AT)
_ID_SIZE = cython.declare(cython.Py_ssize_t, layout.ID_SIZE)
_KEYS_AT = cython.declare(cython.Py_ssize_t, layout.KEYS_AT)
_KEYS_SIZE = cython.declare(cython.Py_ssize_t, layout.KEYS_SIZE)
_KEYS_COUNT = cython.declare(cython.Py_ssize_t, layout.KEYS_COUNT)
_PROPERTIES_AT = cython.declare(cython.Py_ssize_t, layout.PROPERTIES_AT)
_PROPERTIES_SIZE = cython.declare(cython.Py_ssize_t, layout.PROPERTIES_SIZE)
_SYS_FLAG = cython.declare(cython.Py_ssize_t, layout.SYS_FLAG)
_WIDTH = cython.declare(cython.Py_ssize_t, layout.WIDTH)
_ALL_KEYS = cython.declare(bytes, b"__KEYS\x01")


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cfunc
@cython.exceptval(check=False)
def same(
    p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, size: cython.Py_ssize_t, word: bytes
) -> cython.bint:
    """Return whether the bytes are ``word``."""
    if size != len(word):
        return False
    if cython.compiled:
        return memcmp(p + at, cython.cast(cython.p_char, word), size) == 0
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        return p[at : at + size] == word


@cython.cfunc
@cython.exceptval(check=False)
def has_key(
    p: cython.pointer(cython.const[cython.uchar]), rows: cython.p_longlong, o: cython.Py_ssize_t, key: bytes
) -> cython.bint:
    """Return whether ``key`` is among the record's keys, or may be: ``__KEYS`` says more than ``KEYS`` does."""
    at: cython.Py_ssize_t = rows[o + _KEYS_AT]
    end: cython.Py_ssize_t = at + rows[o + _KEYS_SIZE]
    start: cython.Py_ssize_t
    if rows[o + _KEYS_COUNT] >= 0:
        while at < end:
            start = at + 2
            at = start + ((p[at] << 8) | p[at + 1])
            if same(p, start, at - start, key):
                return True
        return False
    while at < end:
        start = at
        while at < end and p[at] != 32:
            at += 1
        if same(p, start, at - start, key):
            return True
        at += 1
    at = rows[o + _PROPERTIES_AT]
    end = at + rows[o + _PROPERTIES_SIZE]
    while end - at > 7:
        if p[at] == 95 and same(p, at, 7, _ALL_KEYS):
            return True
        while at < end and p[at] != 2:
            at += 1
        at += 1
    return False


def find_rows(
    view: cython.const[cython.uchar][::1],
    table: cython.longlong[::1],
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    topic: bytes | None,
    key: bytes | None,
    message_id: bytes | None,
    position: cython.longlong,
    from_time: cython.longlong,
    to_time: cython.longlong,
) -> list[int]:
    """Return the rows that may be wanted: of ``topic``, with ``key``, with ``message_id`` or at ``position``, in time.

    What is None does not matter.
    """
    found: list[int] = []
    p: cython.pointer(cython.const[cython.uchar])
    rows: cython.p_longlong
    i: cython.Py_ssize_t
    o: cython.Py_ssize_t
    by_topic: cython.bint = topic is not None
    by_key: cython.bint = key is not None
    by_id: cython.bint = message_id is not None
    topic_text: bytes = topic if topic is not None else b""
    key_text: bytes = key if key is not None else b""
    id_text: bytes = message_id if message_id is not None else b""
    if cython.compiled:
        p, rows = cython.address(view[0]), cython.address(table[0])
    else:
        p, rows = view, table
    for i in range(first, count):
        o = i * _WIDTH
        if rows[o + _STORE_TIME] < from_time or rows[o + _STORE_TIME] > to_time:
            continue
        if by_topic and not same(p, rows[o + _TOPIC_AT], rows[o + _TOPIC_SIZE], topic_text):
            continue
        if by_id and rows[o + _POSITION] != position and not same(p, rows[o + _ID_AT], rows[o + _ID_SIZE], id_text):
            continue
        if by_key and not has_key(p, rows, o, key_text):
            continue
        found.append(i)
    return found


def cover_segments(
    data: cython.const[cython.uchar][::1],
    kind: cython.int,
    starts: cython.longlong[::1],
    sums: cython.longlong[::1],
    tops: cython.longlong[::1],
) -> None:
    """Add the sizes of the entries in ``data`` to their segments' sums, and note the highest end in each segment."""
    scratch: cython.longlong[::1] = layout.table(1)
    p: cython.pointer(cython.const[cython.uchar])
    s: cython.p_longlong
    e: cython.p_longlong
    at: cython.Py_ssize_t = 0
    low: cython.Py_ssize_t
    top: cython.Py_ssize_t
    middle: cython.Py_ssize_t
    size: cython.Py_ssize_t = entry_size(kind)
    if cython.compiled:
        p, s, e = cython.address(data[0]), cython.address(starts[0]), cython.address(scratch[0])
    else:
        p, s, e = data, starts, scratch
    while at + size <= len(data):
        if read_entry(p, at, kind, 0, 0, s, 0, e) and e[3] > 0 and e[0] >= s[0]:
            low = 0
            top = len(starts)
            while top - low > 1:
                middle = (low + top) >> 1
                if s[middle] <= e[0]:
                    low = middle
                else:
                    top = middle
            sums[low] += e[3]
            if e[0] + e[3] > tops[low]:
                tops[low] = e[0] + e[3]
        at += size


def note_offsets(
    view: cython.const[cython.uchar][::1],
    table: cython.longlong[::1],
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    slots: cython.longlong[::1],
    bounds: cython.longlong[::1],
) -> int:
    """Widen (lowest, next) offset in ``bounds`` of each row's queue; stop at a row whose queue is new, else ``count``.

    ``slots`` is an open hash table of (key + 1, number of the queue); records without a queue entry are passed over.
    """
    p: cython.pointer(cython.const[cython.uchar])
    rows: cython.p_longlong
    i: cython.Py_ssize_t
    o: cython.Py_ssize_t
    n: cython.longlong
    key: cython.longlong
    low: cython.longlong
    high: cython.longlong
    if cython.compiled:
        p, rows = cython.address(view[0]), cython.address(table[0])
    else:
        p, rows = view, table
    for i in range(first, count):
        o = i * _WIDTH
        if rows[o + _STATUS] == 1 or rows[o + _STATUS] == 3:
            continue
        key = queue_key(name_key(p, rows[o + _TOPIC_AT], rows[o + _TOPIC_SIZE]), rows[o + _QUEUE_ID])
        n = find_queue(slots, key)
        if n < 0:
            return i
        low = rows[o + _QUEUE_OFFSET]
        high = low + 1
        if rows[o + _SYS_FLAG] & 0x80:
            high = low + inner_count(p, rows[o + _PROPERTIES_AT], rows[o + _PROPERTIES_AT] + rows[o + _PROPERTIES_SIZE])
        if low < bounds[2 * n]:
            bounds[2 * n] = low
        if high > bounds[2 * n + 1]:
            bounds[2 * n + 1] = high
    return count


@cython.cfunc
@cython.exceptval(check=False)
def find_queue(slots: cython.longlong[::1], key: cython.longlong) -> cython.longlong:
    """Return the number of the queue with that key, -1 when it is new."""
    mask: cython.longlong = len(slots) // 2 - 1
    at: cython.longlong = key & mask
    while slots[2 * at] != 0:
        if slots[2 * at] == key + 1:
            return slots[2 * at + 1]
        at = (at + 1) & mask
    return -1


def add_queue(slots: cython.longlong[::1], key: cython.longlong, number: cython.longlong) -> None:
    """Put a queue into the table, which has room: 2^n places, at most half of them used."""
    mask: cython.longlong = len(slots) // 2 - 1
    at: cython.longlong = key & mask
    while slots[2 * at] != 0:
        at = (at + 1) & mask
    slots[2 * at] = key + 1
    slots[2 * at + 1] = number


def key_of(topic: bytes, queue_id: int) -> int:
    """Return the key of a queue, whatever its topic."""
    return queue_key(name_key(topic, 0, len(topic)), queue_id)
