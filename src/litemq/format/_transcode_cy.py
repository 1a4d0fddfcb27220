"""Kernel: make the record that remoting clients read of one that a store holds.

Clients read RocketMQ's record without LiteMQ's internal properties (``names.INTERNAL``).  A ``litemq`` record is
written anew as such; of a ``rocketmq`` record only the properties are touched.  There ``__CRC32#``, which a store of
ours appends to each record, goes with the others: a client would hand it to the application and send it back with
the message, and as it stands at the end, leaving it out costs no more than the copy that is made anyway.

What ``put_as_rocketmq`` gives is what decoding the record and encoding its message gives, without the internal names.
The rare record that it leaves to this longer way is ``ODD``: it names a property twice, say.
"""

from __future__ import annotations

import zlib
from functools import lru_cache

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.cpython.buffer import PyBUF_READ
    from cython.cimports.cpython.memoryview import PyMemoryView_FromMemory
    from cython.cimports.libc.string import memchr, memcmp, memmove, memset
    from cython.cimports.litemq.format._byte_order_h import put16, put32, put64, u16, u32
    from cython.cimports.litemq.format._scan_cy import parse_litemq
    from cython.cimports.litemq.format._text_cy import crc32_of
else:
    from litemq.format._scan_cy import parse_litemq
    from litemq.format._text_cy import crc32_of
    from litemq.format.byte_order import put16, put32, put64, u16, u32

from litemq.format import hosts, names
from litemq.format import rows as layout

_TOPIC_AT = cython.declare(cython.Py_ssize_t, layout.TOPIC_AT)
_TOPIC_SIZE = cython.declare(cython.Py_ssize_t, layout.TOPIC_SIZE)
_ID_AT = cython.declare(cython.Py_ssize_t, layout.ID_AT)
_ID_SIZE = cython.declare(cython.Py_ssize_t, layout.ID_SIZE)
_KEYS_AT = cython.declare(cython.Py_ssize_t, layout.KEYS_AT)
_KEYS_COUNT = cython.declare(cython.Py_ssize_t, layout.KEYS_COUNT)
_TAG_AT = cython.declare(cython.Py_ssize_t, layout.TAG_AT)
_TAG_SIZE = cython.declare(cython.Py_ssize_t, layout.TAG_SIZE)
_PROPERTIES_AT = cython.declare(cython.Py_ssize_t, layout.PROPERTIES_AT)
_BODY_AT = cython.declare(cython.Py_ssize_t, layout.BODY_AT)
_BODY_SIZE = cython.declare(cython.Py_ssize_t, layout.BODY_SIZE)
_SYS_FLAG = cython.declare(cython.Py_ssize_t, layout.SYS_FLAG)
_REST_AT = cython.declare(cython.Py_ssize_t, layout.REST_AT)
_WIDTH = cython.declare(cython.Py_ssize_t, layout.WIDTH)

# A literal above 2**31 would be a Python object to the compiler.
_HALF = cython.declare(cython.longlong, 1 << 31)
_MAGIC_1 = cython.declare(cython.longlong, 0xDAA320A7)
_MAGIC_2 = cython.declare(cython.longlong, 0xDAA320AB)
_NONE = cython.declare(cython.longlong, 1 << 40)  # no sys flag
_UNREADABLE = cython.declare(cython.longlong, -(1 << 62))
_SHORT = cython.declare(cython.Py_ssize_t, 1024)  # bytes below which zlib is not worth a call
_MAX_TEXT = cython.declare(cython.Py_ssize_t, 32767)
_WIDEST_NAME = cython.declare(cython.Py_ssize_t, max(map(len, names.INTERNAL)))

ROOM = 128
"""A transcoded record has at most so many bytes more than the stored one."""

ODD = -1
"""Instead of a size: the record must take the longer way."""
_ODD = cython.declare(cython.Py_ssize_t, ODD)

_INTERNAL = cython.declare(
    tuple,  # the most frequent first
    tuple(sorted((name.encode() for name in names.INTERNAL), key=lambda name: (name[2:5] != b"CRC", name))),
)
_KEYS = cython.declare(bytes, names.KEYS.encode() + b"\x01")
_UNIQ_KEY = cython.declare(bytes, names.UNIQ_KEY.encode() + b"\x01")
_TAGS = cython.declare(bytes, names.TAGS.encode() + b"\x01")
_SHARDING_KEY = cython.declare(bytes, names.SHARDING_KEY.encode() + b"\x01")
_TRANSACTION_ID = cython.declare(bytes, names.TRANSACTION_ID.encode() + b"\x01")
_TIMER = cython.declare(bytes, names.TIMER_DELIVER_MS.encode() + b"\x01")
_NAME_KEYS = cython.declare(bytes, names.KEYS.encode())
_NAME_UNIQ_KEY = cython.declare(bytes, names.UNIQ_KEY.encode())
_NAME_TAGS = cython.declare(bytes, names.TAGS.encode())
_NAME_SHARDING_KEY = cython.declare(bytes, names.SHARDING_KEY.encode())
_NAME_TRANSACTION_ID = cython.declare(bytes, names.TRANSACTION_ID.encode())
_NAME_TIMER = cython.declare(bytes, names.TIMER_DELIVER_MS.encode())
_NAME_FLAG = cython.declare(bytes, names.FLAG.encode())
_NAME_PREPARED = cython.declare(bytes, names.PREPARED_OFFSET.encode())
_address = lru_cache(maxsize=1024)(hosts.to_bytes)  # few hosts write a log


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


# -- small readers and writers ------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def put_part(
    out: cython.p_uchar,
    o: cython.Py_ssize_t,
    p: cython.pointer(cython.const[cython.uchar]),
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Copy bytes, in the same buffer too; return the place behind them."""
    if cython.compiled:
        memmove(out + o, p + at, size)
    else:
        out[o : o + size] = p[at : at + size]
    return o + size


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def put_bytes(out: cython.p_uchar, o: cython.Py_ssize_t, data: bytes) -> cython.Py_ssize_t:
    if cython.compiled:
        memmove(out + o, cython.cast(cython.p_char, data), len(data))
    else:
        out[o : o + len(data)] = data
    return o + len(data)


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def put_zeros(out: cython.p_uchar, o: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    if cython.compiled:
        memset(out + o, 0, size)
    else:
        out[o : o + size] = bytes(size)
    return o + size


@cython.cfunc
@cython.inline
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
@cython.inline
@cython.exceptval(check=False)
def find(
    p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, end: cython.Py_ssize_t, byte: cython.int
) -> cython.Py_ssize_t:
    """Return the place of the next ``byte``; ``end`` without one."""
    if cython.compiled:
        hit: cython.pointer(cython.const[cython.void]) = memchr(p + at, byte, end - at)
        return end if hit == cython.NULL else cython.cast(cython.pointer(cython.const[cython.uchar]), hit) - p
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        place = bytes(p[at:end]).find(byte)
        return end if place < 0 else at + place


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def fits(p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.bint:
    """Return whether RocketMQ's text can hold this name or value: not empty, without its separators 1 and 2."""
    return size > 0 and find(p, at, at + size, 1) == at + size and find(p, at, at + size, 2) == at + size


@cython.cfunc
@cython.exceptval(check=False)
def number(
    p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.longlong:
    """Return the decimal number of 1 to 18 digits, a minus in front allowed; else ``_UNREADABLE``."""
    negative: cython.bint = size > 0 and p[at] == 45
    value: cython.longlong = 0
    i: cython.Py_ssize_t
    if negative:
        at += 1
        size -= 1
    if size < 1 or size > 18:
        return _UNREADABLE
    for i in range(at, at + size):
        if p[i] < 48 or p[i] > 57:
            return _UNREADABLE
        value = value * 10 + (p[i] - 48)
    return -value if negative else value


@cython.cfunc
@cython.exceptval(-1)
def is_internal(
    p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.bint:
    """Return whether a property's name is one that no client sees."""
    name: bytes
    if size < 6 or size > _WIDEST_NAME or p[at] != 95 or p[at + 1] != 95:
        return False
    for name in _INTERNAL:
        if same(p, at, size, name):
            return True
    return False


# -- rocketmq: leave out properties -------------------------------------------------------------


@cython.cfunc
@cython.exceptval(check=False)
def properties_place(
    p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Return where the size of the properties stands in a ``rocketmq`` record; -1 when its parts do not add up."""
    end: cython.Py_ssize_t = at + size
    c: cython.Py_ssize_t = at + 76
    n: cython.longlong
    magic: cython.longlong
    if size < 91 or u32(p, at) != size:
        return -1
    magic = u32(p, at + 4)
    if magic != _MAGIC_1 and magic != _MAGIC_2:
        return -1
    if p[at + 39] & 0x10:
        c += 12
    if p[at + 39] & 0x20:
        c += 12
    c += 8
    if end - c < 7:
        return -1
    n = u32(p, c)
    c += 4
    if n > end - c - 3:
        return -1
    c += n
    if magic == _MAGIC_1:
        n = p[c]
        c += 1
    else:
        n = u16(p, c)
        c += 2
    if n > end - c - 2:
        return -1
    c += n
    return c if u16(p, c) == end - c - 2 else -1


@cython.cfunc
@cython.exceptval(-1)
def strip_rocketmq(
    p: cython.pointer(cython.const[cython.uchar]),
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    out: cython.p_uchar,
    o: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Copy the record without its internal properties; return the size of the copy, 0 when the record is not sound.

    ``out`` may be ``p`` itself where ``o`` is not behind ``at``.
    """
    end: cython.Py_ssize_t = at + size
    field: cython.Py_ssize_t = properties_place(p, at, size)
    i: cython.Py_ssize_t
    from_: cython.Py_ssize_t = at
    stop: cython.Py_ssize_t
    w: cython.Py_ssize_t = o
    if field < 0:
        return 0
    i = field + 2
    while i < end:
        stop = find(p, i, end, 2)
        if p[i] == 95 and is_internal(p, i, find(p, i, stop, 1) - i):
            w = put_part(out, w, p, from_, i - from_)
            from_ = min(stop + 1, end)
        i = stop + 1
    w = put_part(out, w, p, from_, end - from_)
    if w - o != size:
        put32(out, o, w - o)
        put16(out, o + field - at, w - o - (field - at) - 2)
    return w - o


# -- litemq: write anew -------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(-1)
def put_ipv4(
    p: cython.pointer(cython.const[cython.uchar]),
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    out: cython.p_uchar,
    o: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write the 8 bytes of ``ip:port`` as ``hosts`` reads it, zeros for any other text."""
    end: cython.Py_ssize_t = at + size
    part: cython.int
    start: cython.Py_ssize_t
    value: cython.longlong
    negative: cython.bint = False
    sound: cython.bint = size >= 9
    for part in range(5):
        if not sound:
            break
        if part == 4 and p[at] == 45:
            negative = True
            at += 1
        start = at
        value = 0
        while at < end and 48 <= p[at] <= 57 and at - start < 11:
            value = value * 10 + (p[at] - 48)
            at += 1
        # No sign or zero in front of anything but digits: each host has one text.
        sound = at > start and (p[start] != 48 or (at - start == 1 and not negative))
        if part < 4:
            sound = sound and value < 256 and at < end and p[at] == (46 if part < 3 else 58)
            out[o + part] = value & 255
            at += 1
        else:
            value = -value if negative else value
            sound = sound and at == end and -_HALF <= value < _HALF
            put32(out, o + 4, value)
    if not sound:
        put_zeros(out, o, 8)
    return o + 8


@cython.cfunc
def wide_address(
    p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> bytes | None:
    """Return the 20 bytes of a host with an IPv6 address; None for any other text."""
    if size == 0 or p[at] != 91:
        return None
    if cython.compiled:
        return _address(cython.cast(cython.p_char, p)[at : at + size].decode())
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        return _address(str(p[at : at + size], "utf-8"))


@cython.cfunc
@cython.exceptval(-1)
def put_pair(
    out: cython.p_uchar,
    o: cython.Py_ssize_t,
    name: bytes,
    p: cython.pointer(cython.const[cython.uchar]),
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write ``name``, which ends with its separator, and the value; nothing when RocketMQ's text cannot hold it."""
    if not fits(p, at, size):
        return o
    o = put_part(out, put_bytes(out, o, name), p, at, size)
    out[o] = 2
    return o + 1


@cython.cfunc
@cython.exceptval(-1)
def put_keys(
    p: cython.pointer(cython.const[cython.uchar]),
    at: cython.Py_ssize_t,
    count: cython.longlong,
    out: cython.p_uchar,
    o: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write the keys that can stand between blanks, the first of which is at ``at``."""
    size: cython.Py_ssize_t
    start: cython.Py_ssize_t = o
    while count > 0:
        size = u16(p, at)
        at += 2
        if fits(p, at, size) and find(p, at, at + size, 32) == at + size:
            if o == start:
                o = put_bytes(out, o, _KEYS)
            else:
                out[o] = 32
                o += 1
            o = put_part(out, o, p, at, size)
        at += size
        count -= 1
    if o > start:
        out[o] = 2
        o += 1
    return o


@cython.cfunc
@cython.exceptval(-1)
def put_time(
    p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, out: cython.p_uchar, o: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Write the delivery time, an unsigned number of 64 bits at ``at``."""
    high: cython.ulonglong = u32(p, at)
    value: cython.ulonglong = (high << 32) | u32(p, at + 4)
    digits: bytes = b"%d" % value
    o = put_bytes(out, put_bytes(out, o, _TIMER), digits)
    out[o] = 2
    return o + 1


@cython.cfunc
@cython.exceptval(-1)
def is_kept(
    p: cython.pointer(cython.const[cython.uchar]),
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    value_at: cython.Py_ssize_t,
    value_size: cython.Py_ssize_t,
    has_time: cython.bint,
) -> cython.int:
    """Return 1 for a plain property, 0 for one that a client does not see, -2 where that is hard to tell.

    A plain property whose name is that of a field would say what the message does not.
    """
    i: cython.Py_ssize_t
    if p[at] == 95:
        if same(p, at, size, _NAME_SHARDING_KEY) or same(p, at, size, _NAME_TRANSACTION_ID):
            return 0
        return 0 if is_internal(p, at, size) else 1
    if size == 4:
        return 0 if same(p, at, 4, _NAME_KEYS) or same(p, at, 4, _NAME_TAGS) else 1
    if size == 8:
        return 0 if same(p, at, 8, _NAME_UNIQ_KEY) else 1
    if size == 16 and same(p, at, 16, _NAME_TIMER):
        if has_time:
            return 0
        if value_size > 0 and p[value_at] == 45:
            return -2
        for i in range(value_at, value_at + value_size):
            if p[i] < 48 or p[i] > 57:
                return 1  # no time: a property like any other
        return 0 if value_size < 19 else -2
    return 1


@cython.cfunc
@cython.exceptval(-1)
def is_ascending(
    p: cython.pointer(cython.const[cython.uchar]),
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    next_at: cython.Py_ssize_t,
    next_size: cython.Py_ssize_t,
) -> cython.bint:
    """Return whether the first name stands before the second in the order of their bytes."""
    if cython.compiled:
        order: cython.int = memcmp(p + at, p + next_at, min(size, next_size))
        return order < 0 or (order == 0 and size < next_size)
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        return bytes(p[at : at + size]) < bytes(p[next_at : next_at + next_size])


@cython.cfunc
@cython.exceptval(-3)
def put_properties(
    p: cython.pointer(cython.const[cython.uchar]),
    at: cython.Py_ssize_t,
    out: cython.p_uchar,
    o: cython.Py_ssize_t,
    head: cython.Py_ssize_t,
    prepared: cython.Py_ssize_t,
    has_time: cython.bint,
) -> cython.Py_ssize_t:
    """Write the plain properties, and what is a field in RocketMQ's record at ``out[head]`` there; ``ODD``: see above.

    ``prepared`` is the place of the prepared offset.
    """
    count: cython.longlong = u32(p, at - 4)
    name: cython.Py_ssize_t
    size: cython.Py_ssize_t
    value_at: cython.Py_ssize_t
    value_size: cython.Py_ssize_t
    before: cython.Py_ssize_t = -1
    before_size: cython.Py_ssize_t = 0
    value: cython.longlong
    kept: cython.int
    while count > 0:
        size = u16(p, at)
        name = at + 2
        value_size = u16(p, name + size)
        value_at = name + size + 2
        at = value_at + value_size
        count -= 1
        if before >= 0 and not is_ascending(p, before, before_size, name, size):
            return _ODD
        before = name
        before_size = size
        if size == 0:
            continue
        kept = is_kept(p, name, size, value_at, value_size, has_time)
        if kept == -2:
            return _ODD
        if kept == 0:
            if same(p, name, size, _NAME_FLAG):
                value = number(p, value_at, value_size)
                if -_HALF <= value < _HALF:
                    put32(out, head + 16, value)
            elif same(p, name, size, _NAME_PREPARED):
                if value_size > 18:
                    return _ODD
                value = number(p, value_at, value_size)
                if value > _UNREADABLE:
                    put64(out, prepared, value)
        elif fits(p, name, size) and fits(p, value_at, value_size):
            o = put_part(out, o, p, name, size)
            out[o] = 1
            o = put_part(out, o + 1, p, value_at, value_size)
            out[o] = 2
            o += 1
    return o


@cython.cfunc
@cython.exceptval(-3)
def put_as_rocketmq(
    p: cython.pointer(cython.const[cython.uchar]),
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    position: cython.longlong,
    rows: cython.p_longlong,
    out: cython.p_uchar,
    o: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write the ``litemq`` record at ``p[at]`` as clients read it to ``out[o]``, where ``size + ROOM`` bytes are free.

    Return the size, 0 when the record is damaged, or ``ODD``.  ``rows`` is room for one row.
    """
    i: cython.Py_ssize_t
    flag: cython.longlong
    rest: cython.Py_ssize_t
    sharding: cython.Py_ssize_t
    born: cython.Py_ssize_t
    store: cython.Py_ssize_t
    tail: cython.Py_ssize_t
    body: cython.Py_ssize_t
    prepared: cython.Py_ssize_t
    field: cython.Py_ssize_t
    c: cython.Py_ssize_t
    crc: cython.uint
    born_address: bytes | None
    store_address: bytes | None
    has_time: cython.bint
    if size < 109 or u32(p, at) + 4 != size:
        return 0
    if cython.compiled:
        memset(rows, 0, 8 * _WIDTH)
    else:
        for i in range(_WIDTH):
            rows[i] = 0
    rows[_SYS_FLAG] = _NONE
    if parse_litemq(p, at, at + size, position, rows, 0, -1) != 0:
        return 0
    # transaction id, status, sharding key, broadcast, born time, born host, store host, numbers
    rest = rows[_REST_AT]
    sharding = rest + 14 + u16(p, rest + 11)
    born = sharding + 2 + u16(p, sharding)
    store = born + 11 + u16(p, born + 9)
    tail = store + 2 + u16(p, store)
    if p[tail] > 127 or rows[_TOPIC_SIZE] > _MAX_TEXT:
        return _ODD
    born_address = wide_address(p, born + 11, u16(p, born + 9))
    store_address = wide_address(p, store + 2, u16(p, store))
    flag = rows[_SYS_FLAG]
    if flag == _NONE:
        flag = p[sharding - 1] << 2
        if born_address is not None:
            flag |= 0x10
        if store_address is not None:
            flag |= 0x20
    put32(out, o + 4, _MAGIC_1 if rows[_TOPIC_SIZE] <= 127 else _MAGIC_2)
    put_part(out, o + 12, p, tail, 4)  # queue id
    put32(out, o + 16, 0)  # flag
    put_part(out, o + 20, p, tail + 4, 16)  # queue offset, position
    put32(out, o + 36, flag)
    put_part(out, o + 40, p, born + 1, 8)
    c = put_host(p, born + 11, u16(p, born + 9), born_address, out, o + 48, flag & 0x10)
    c = put_part(out, c, p, tail + 24, 8)  # store time
    c = put_host(p, store + 2, u16(p, store), store_address, out, c, flag & 0x20)
    c = put_part(out, c, p, tail + 48, 4)  # reconsume times
    prepared = c
    put64(out, c, 0)
    body = rows[_BODY_AT]
    c = put_part(out, c + 8, p, body - 4, 4 + rows[_BODY_SIZE])
    if rows[_BODY_SIZE] < _SHORT:
        crc = crc32_of(p, body, body + rows[_BODY_SIZE])
    elif cython.compiled:
        crc = zlib.crc32(PyMemoryView_FromMemory(cython.cast(cython.p_char, p) + body, rows[_BODY_SIZE], PyBUF_READ))
    else:
        crc = zlib.crc32(p[body : body + rows[_BODY_SIZE]])
    put32(out, o + 8, crc & 0x7FFFFFFF)
    if rows[_TOPIC_SIZE] <= 127:
        out[c] = rows[_TOPIC_SIZE]
        c += 1
    else:
        put16(out, c, rows[_TOPIC_SIZE])
        c += 2
    field = put_part(out, c, p, rows[_TOPIC_AT], rows[_TOPIC_SIZE])
    c = field + 2
    c = put_keys(p, rows[_KEYS_AT], rows[_KEYS_COUNT], out, c)
    c = put_pair(out, c, _UNIQ_KEY, p, rows[_ID_AT], rows[_ID_SIZE])
    c = put_pair(out, c, _TAGS, p, rows[_TAG_AT], rows[_TAG_SIZE])
    c = put_pair(out, c, _SHARDING_KEY, p, sharding + 2, u16(p, sharding))
    c = put_pair(out, c, _TRANSACTION_ID, p, rest + 13, u16(p, rest + 11))
    has_time = u32(p, rest + 3) != 0 or u32(p, rest + 7) != 0
    if has_time:
        c = put_time(p, rest + 3, out, c)
    c = put_properties(p, rows[_PROPERTIES_AT], out, c, o, prepared, has_time)
    if c < 0 or c - field - 2 > _MAX_TEXT:
        return _ODD
    put16(out, field, c - field - 2)
    put32(out, o, c - o)
    return c - o


@cython.cfunc
@cython.exceptval(-1)
def put_host(
    p: cython.pointer(cython.const[cython.uchar]),
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    address: bytes | None,
    out: cython.p_uchar,
    o: cython.Py_ssize_t,
    wide: cython.bint,
) -> cython.Py_ssize_t:
    """Write a host as wide as the sys flag wants it, zeros where that cannot say it; ``address`` is an IPv6 one."""
    if not wide:
        return put_ipv4(p, at, size, out, o)
    if address is None:
        return put_zeros(out, o, 20)
    return put_bytes(out, o, address)


# -- one record at a time -----------------------------------------------------------------------


def stripped(record: bytes) -> bytes | None:
    """Return a ``rocketmq`` record without its internal properties; None when it is not sound."""
    out = bytearray(len(record))
    size: cython.Py_ssize_t = strip_rocketmq(record, 0, len(record), out, 0)
    return bytes(out[:size]) if size > 0 else None


def properties_text(record: bytes) -> bytes:
    """Return the properties of a ``rocketmq`` record as they stand there; none when it is not sound."""
    place: cython.Py_ssize_t = properties_place(record, 0, len(record))
    return record[place + 2 :] if place > 0 else b""


def as_rocketmq(record: bytes, position: int) -> bytes | int:
    """Return a ``litemq`` record as clients read it; 0 when it is damaged, ``ODD`` when it takes the longer way."""
    table: cython.longlong[::1] = layout.table(1)
    rows: cython.p_longlong
    out = bytearray(len(record) + ROOM)
    size: cython.Py_ssize_t
    if cython.compiled:
        rows = cython.address(table[0])
    else:
        rows = table
    size = put_as_rocketmq(record, 0, len(record), position, rows, out, 0)
    return bytes(out[:size]) if size > 0 else size
