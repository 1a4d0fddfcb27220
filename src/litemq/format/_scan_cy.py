"""Kernel: walk over log bytes, check every record, fill one row of ``rows`` for each.

The only place that reads record bytes: recovery, verify, dump and decode all come through here.  Nothing is
allocated and nothing is trusted: a length is compared with the bytes that are there before it is followed.
One source for both builds: compiled, ``p`` and ``rows`` are pointers, plain, they are the buffer and the array.
"""

from __future__ import annotations

import zlib

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.libc.string import memcmp
    from cython.cimports.litemq.format._byte_order_h import i32, i64, u16, u32
    from cython.cimports.litemq.format._text_cy import crc32_around, crc32_of, crc32c_of, hash_utf8, is_utf8
else:
    from litemq.format._text_cy import crc32_around, crc32_of, crc32c_of, hash_utf8, is_utf8
    from litemq.format.byte_order import i32, i64, u16, u32

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
_ID_AT = cython.declare(cython.Py_ssize_t, layout.ID_AT)
_ID_SIZE = cython.declare(cython.Py_ssize_t, layout.ID_SIZE)
_KEYS_AT = cython.declare(cython.Py_ssize_t, layout.KEYS_AT)
_KEYS_SIZE = cython.declare(cython.Py_ssize_t, layout.KEYS_SIZE)
_KEYS_COUNT = cython.declare(cython.Py_ssize_t, layout.KEYS_COUNT)
_TAG_AT = cython.declare(cython.Py_ssize_t, layout.TAG_AT)
_TAG_SIZE = cython.declare(cython.Py_ssize_t, layout.TAG_SIZE)
_PROPERTIES_AT = cython.declare(cython.Py_ssize_t, layout.PROPERTIES_AT)
_PROPERTIES_SIZE = cython.declare(cython.Py_ssize_t, layout.PROPERTIES_SIZE)
_BODY_AT = cython.declare(cython.Py_ssize_t, layout.BODY_AT)
_BODY_SIZE = cython.declare(cython.Py_ssize_t, layout.BODY_SIZE)
_SYS_FLAG = cython.declare(cython.Py_ssize_t, layout.SYS_FLAG)
_REST_AT = cython.declare(cython.Py_ssize_t, layout.REST_AT)
_VERSION = cython.declare(cython.Py_ssize_t, layout.VERSION)
_ORIGIN = cython.declare(cython.Py_ssize_t, layout.ORIGIN)
_WIDTH = cython.declare(cython.Py_ssize_t, layout.WIDTH)

_ROOM = cython.declare(cython.int, layout.ROOM)
_END = cython.declare(cython.int, layout.END)
_FILLER = cython.declare(cython.int, layout.FILLER)
_CUT = cython.declare(cython.int, layout.CUT)
_COMPRESSED = cython.declare(cython.int, layout.COMPRESSED)
_WRONG_MAGIC = cython.declare(cython.int, layout.WRONG_MAGIC)
_TOO_SMALL = cython.declare(cython.int, layout.TOO_SMALL)
_DOES_NOT_ADD_UP = cython.declare(cython.int, layout.DOES_NOT_ADD_UP)
_WRONG_CHECKSUM = cython.declare(cython.int, layout.WRONG_CHECKSUM)
_NOT_UTF8 = cython.declare(cython.int, layout.NOT_UTF8)
_BAD_CODE = cython.declare(cython.int, layout.BAD_CODE)
_WRONG_OFFSET = cython.declare(cython.int, layout.WRONG_OFFSET)
_BAD_DIGITS = cython.declare(cython.int, layout.BAD_DIGITS)
_TWO_CHECKSUMS = cython.declare(cython.int, layout.TWO_CHECKSUMS)
_NO_CHECKSUM = cython.declare(cython.int, layout.NO_CHECKSUM)

LITEMQ, ROCKETMQ, BLUEPRINT, TMQ = range(4)
"""Codes of the formats for ``scan``."""

# A literal above 2**31 would be a Python object to the compiler.
_HALF = cython.declare(cython.longlong, 1 << 31)
_WHOLE = cython.declare(cython.longlong, 1 << 32)
_MAGIC_ROCKETMQ_1 = cython.declare(cython.longlong, 0xDAA320A7)
_MAGIC_ROCKETMQ_2 = cython.declare(cython.longlong, 0xDAA320AB)
_MAGIC_BLANK = cython.declare(cython.longlong, 0xCBD43194)
_MAGIC_BLUEPRINT = cython.declare(cython.longlong, 0xAABBCCDD)
_LITEMQ_FILLER = cython.declare(cython.longlong, 0xFFFFFFFF)

_UNREADABLE = cython.declare(cython.longlong, -(1 << 62))
_NAME_CRC32C = cython.declare(bytes, b"__CRC32C")
_NAME_SYS_FLAG = cython.declare(bytes, b"__SYS_FLAG")
_NAME_ORIGIN = cython.declare(bytes, b"__ORIGIN")
_NAME_UNIQ_KEY = cython.declare(bytes, b"UNIQ_KEY")
_NAME_KEYS = cython.declare(bytes, b"KEYS")
_NAME_TAGS = cython.declare(bytes, b"TAGS")
_NAME_DELAY = cython.declare(bytes, b"DELAY")
_NAME_CRC32 = cython.declare(bytes, b"__CRC32#\x01")
_SCHEDULE_TOPIC = cython.declare(bytes, b"SCHEDULE_TOPIC_XXXX")
_ZERO_DIGITS = cython.declare(bytes, b"00000000")
_SHORT = cython.declare(cython.Py_ssize_t, 1024)  # bytes below which zlib is not worth a call

DELAY_LEVELS_MS = (
    *(1_000, 5_000, 10_000, 30_000),
    *(60_000 * minutes for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
    *(3_600_000, 7_200_000),
)
"""RocketMQ's delay levels 1 to 18."""


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


# -- small readers ------------------------------------------------------------------------------


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
@cython.exceptval(check=False)
def number(
    p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.longlong:
    """Return the decimal number, or ``_UNREADABLE``: 1 to 18 digits, a minus in front allowed."""
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
@cython.exceptval(check=False)
def skip_text(
    p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Return the place behind a u16 length and its text; minus the reason when it is not sound."""
    size: cython.Py_ssize_t
    if end - at < 2:
        return -_DOES_NOT_ADD_UP
    size = u16(p, at)
    if size > end - at - 2:
        return -_DOES_NOT_ADD_UP
    if not is_utf8(p, at + 2, at + 2 + size):
        return -_NOT_UTF8
    return at + 2 + size


@cython.cfunc
@cython.exceptval(check=False)
def skip_texts(
    p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Return the place behind a u32 count and that many texts; minus the reason when they are not sound."""
    count: cython.longlong
    if end - at < 4:
        return -_DOES_NOT_ADD_UP
    count = u32(p, at)
    at += 4
    while count > 0:
        at = skip_text(p, at, end)
        if at < 0:
            return at
        count -= 1
    return at


# -- properties as RocketMQ writes them ---------------------------------------------------------


@cython.cfunc
@cython.exceptval(-1)
def hash_any(
    p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.longlong:
    """Return Java's hash of a text that may hold wrong UTF-8 (each such place counts as U+FFFD)."""
    if is_utf8(p, at, end):
        return hash_utf8(p, at, end, 0)
    data: bytes
    if cython.compiled:
        data = cython.cast(cython.p_char, p)[at:end]
    else:
        data = bytes(p[at:end])
    data = data.decode("utf-8", "replace").encode()
    return hash_utf8(data, 0, len(data), 0)


@cython.cfunc
@cython.exceptval(-1)
def read_properties(
    p: cython.pointer(cython.const[cython.uchar]),
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
) -> cython.longlong:
    """Note where id, keys, tag and origin stand; return the delay level (0 without)."""
    stop: cython.Py_ssize_t
    split: cython.Py_ssize_t
    name: cython.Py_ssize_t
    value: cython.longlong
    level: cython.longlong = 0
    while at < end:
        stop = at
        split = -1
        while stop < end and p[stop] != 2:
            if split < 0 and p[stop] == 1:
                split = stop
            stop += 1
        if split > at and split + 1 < stop:
            name = split - at
            if name == 4:
                if same(p, at, 4, _NAME_KEYS):
                    rows[o + _KEYS_AT] = split + 1
                    rows[o + _KEYS_SIZE] = stop - split - 1
                elif same(p, at, 4, _NAME_TAGS):
                    rows[o + _TAG_AT] = split + 1
                    rows[o + _TAG_SIZE] = stop - split - 1
            elif name == 8:
                if same(p, at, 8, _NAME_UNIQ_KEY):
                    rows[o + _ID_AT] = split + 1
                    rows[o + _ID_SIZE] = stop - split - 1
                elif same(p, at, 8, _NAME_ORIGIN):
                    value = number(p, split + 1, stop - split - 1)
                    if value >= 0:
                        rows[o + _ORIGIN] = value
            elif name == 5 and same(p, at, 5, _NAME_DELAY):
                value = number(p, split + 1, stop - split - 1)
                level = value if value > 0 else 0
        at = stop + 1
    if rows[o + _TAG_SIZE] > 0:
        value = hash_any(p, rows[o + _TAG_AT], rows[o + _TAG_AT] + rows[o + _TAG_SIZE])
        rows[o + _TAG_HASH] = value - _WHOLE if value >= _HALF else value
    return level


@cython.cfunc
@cython.exceptval(-1)
def note_rocketmq_properties(
    p: cython.pointer(cython.const[cython.uchar]),
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
) -> cython.int:
    """Fill the columns that come from RocketMQ's properties; topic and store time are there already."""
    level: cython.longlong
    rows[o + _KEYS_COUNT] = -1
    level = read_properties(p, at, end, rows, o)
    if level > 0 and same(p, rows[o + _TOPIC_AT], rows[o + _TOPIC_SIZE], _SCHEDULE_TOPIC):
        # RocketMQ's delay queues hold the delivery time where others hold the tag's hash.
        rows[o + _TAG_HASH] = rows[o + _STORE_TIME] + DELAY_LEVELS_MS[min(level, 18) - 1]
    return 0


# -- one record of each format: status 0 = sound ------------------------------------------------


@cython.cfunc
@cython.exceptval(-1)
def parse_litemq(
    p: cython.pointer(cython.const[cython.uchar]),
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    position: cython.longlong,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
    checked_from: cython.longlong,
) -> cython.int:
    """Check the frame at ``at`` that ends at ``end``; layout: ``litemq.py``."""
    c: cython.Py_ssize_t
    name: cython.Py_ssize_t
    size: cython.Py_ssize_t
    digits: cython.Py_ssize_t = -1
    i: cython.Py_ssize_t
    count: cython.longlong
    value: cython.longlong
    crc: cython.uint
    stored: cython.uint = 0
    if u32(p, at + 4) != 0x4C4D5101:
        return _WRONG_MAGIC
    if end - at < 109:
        return _TOO_SMALL
    c = skip_text(p, at + 8, end)
    if c < 0:
        return -c
    rows[o + _ID_AT] = at + 10
    rows[o + _ID_SIZE] = c - at - 10
    rows[o + _TOPIC_AT] = c + 2
    c = skip_text(p, c, end)
    if c < 0:
        return -c
    rows[o + _TOPIC_SIZE] = c - rows[o + _TOPIC_AT]
    i = c + 4
    c = skip_texts(p, c, end)
    if c < 0:
        return -c
    if c > i:
        rows[o + _TAG_AT] = i + 2
        rows[o + _TAG_SIZE] = u16(p, i)
        rows[o + _TAG_HASH] = hash_utf8(p, i + 2, i + 2 + u16(p, i), 0)
    i = c + 4
    c = skip_texts(p, c, end)
    if c < 0:
        return -c
    rows[o + _KEYS_AT] = i
    rows[o + _KEYS_SIZE] = c - i
    rows[o + _KEYS_COUNT] = u32(p, i - 4)
    # properties
    if end - c < 4:
        return _DOES_NOT_ADD_UP
    count = u32(p, c)
    c += 4
    rows[o + _PROPERTIES_AT] = c
    while count > 0:
        name = c + 2
        c = skip_text(p, c, end)
        if c < 0:
            return -c
        size = c - name
        i = c + 2
        c = skip_text(p, c, end)
        if c < 0:
            return -c
        if size == 8 and same(p, name, 8, _NAME_CRC32C):
            if digits >= 0:
                return _TWO_CHECKSUMS
            if c - i != 8:
                return _BAD_DIGITS
            digits = i
        elif size == 10 and same(p, name, 10, _NAME_SYS_FLAG):
            value = number(p, i, c - i)
            if -_HALF <= value < _HALF:
                rows[o + _SYS_FLAG] = value
        elif size == 8 and same(p, name, 8, _NAME_ORIGIN):
            value = number(p, i, c - i)
            if value >= 0:
                rows[o + _ORIGIN] = value
        count -= 1
    rows[o + _PROPERTIES_SIZE] = c - rows[o + _PROPERTIES_AT]
    # body
    if end - c < 4:
        return _DOES_NOT_ADD_UP
    value = u32(p, c)
    if value > end - c - 4:
        return _DOES_NOT_ADD_UP
    rows[o + _BODY_AT] = c + 4
    rows[o + _BODY_SIZE] = value
    c += 4 + value
    # type, priority, reliability, delay time, transaction id, status, sharding key, broadcast, born time, hosts
    rows[o + _REST_AT] = c
    if end - c < 11:
        return _DOES_NOT_ADD_UP
    if p[c] > 4 or p[c + 2] > 3:
        return _BAD_CODE
    c = skip_text(p, c + 11, end)
    if c < 0:
        return -c
    if end - c < 1:
        return _DOES_NOT_ADD_UP
    if p[c] > 3:
        return _BAD_CODE
    rows[o + _STATUS] = p[c]
    c = skip_text(p, c + 1, end)
    if c < 0:
        return -c
    if end - c < 9:
        return _DOES_NOT_ADD_UP
    if p[c] > 1:
        return _BAD_CODE
    c = skip_text(p, c + 9, end)
    if c < 0:
        return -c
    c = skip_text(p, c, end)
    if c < 0:
        return -c
    # queue id, queue offset, log offset, store size, store time, consume start, end, count: 52 bytes
    if end - c != 52:
        return _DOES_NOT_ADD_UP
    if u32(p, c + 20) != end - at:
        return _DOES_NOT_ADD_UP
    rows[o + _QUEUE_ID] = u32(p, c)
    rows[o + _QUEUE_OFFSET] = i64(p, c + 4)
    rows[o + _STORE_TIME] = i64(p, c + 24)
    rows[o + _VERSION] = 1
    if digits >= 0:
        for i in range(digits, digits + 8):
            if 48 <= p[i] <= 57:
                stored = (stored << 4) | (p[i] - 48)
            elif 97 <= p[i] <= 102:
                stored = (stored << 4) | (p[i] - 87)
            else:
                return _BAD_DIGITS
        crc = crc32c_of(p, at, digits, 0)
        crc = crc32c_of(_ZERO_DIGITS, 0, 8, crc)
        crc = crc32c_of(p, digits + 8, end, crc)
        if crc != stored:
            return _WRONG_CHECKSUM
        rows[o + _CHECKED] = 1
    elif 0 <= checked_from <= position:
        return _NO_CHECKSUM
    if i64(p, c + 12) != position:
        return _WRONG_OFFSET
    return 0


@cython.cfunc
@cython.exceptval(-1)
def crc32_record(
    p: cython.pointer(cython.const[cython.uchar]),
    at: cython.Py_ssize_t,
    body: cython.Py_ssize_t,
    behind: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    body_crc: cython.uint,
) -> cython.int:
    """Check RocketMQ's ``__CRC32#`` when it is the record's last 20 bytes: 1 right, 0 none, else the reason."""
    digits: cython.Py_ssize_t = end - 11
    value: cython.longlong = 0
    i: cython.Py_ssize_t
    if end - behind < 22 or not same(p, end - 20, 9, _NAME_CRC32):
        return 0
    if p[end - 1] != 2:
        return _WRONG_CHECKSUM
    i = digits + 9
    while i >= digits:
        if p[i] < 48 or p[i] > 57:
            return _WRONG_CHECKSUM
        value = value * 10 + (p[i] - 48)
        i -= 1
    return 1 if (crc32_around(p, at, body, behind, end - 20, body_crc) & 0x7FFFFFFF) == value else _WRONG_CHECKSUM


@cython.cfunc
@cython.exceptval(-1)
def parse_rocketmq(
    p: cython.pointer(cython.const[cython.uchar]),
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    position: cython.longlong,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
    view: memoryview,
    checked_from: cython.longlong,
) -> cython.int:
    """Check the record at ``at`` that ends at ``end``; layout: ``rocketmq.py``."""
    magic: cython.longlong = u32(p, at + 4)
    flags: cython.longlong
    c: cython.Py_ssize_t
    size: cython.longlong
    store_time_at: cython.Py_ssize_t
    body: cython.Py_ssize_t
    behind: cython.Py_ssize_t
    crc: cython.uint = 0
    check: cython.int
    if magic != _MAGIC_ROCKETMQ_1 and magic != _MAGIC_ROCKETMQ_2:
        return _WRONG_MAGIC
    if end - at < 91:
        return _TOO_SMALL
    flags = i32(p, at + 36)
    rows[o + _SYS_FLAG] = flags
    rows[o + _STATUS] = (flags >> 2) & 3
    c = at + 48 + (20 if flags & 0x10 else 8)
    store_time_at = c
    c += 8 + (20 if flags & 0x20 else 8) + 12
    if end - c < 4:
        return _DOES_NOT_ADD_UP
    size = u32(p, c)
    if size > end - c - 4:
        return _DOES_NOT_ADD_UP
    rows[o + _REST_AT] = c
    rows[o + _BODY_AT] = body = c + 4
    rows[o + _BODY_SIZE] = size
    c += 4 + size
    behind = c
    if magic == _MAGIC_ROCKETMQ_1:
        if end - c < 1:
            return _DOES_NOT_ADD_UP
        size = p[c]
        if size > 127:
            return _DOES_NOT_ADD_UP
        c += 1
        rows[o + _VERSION] = 1
    else:
        if end - c < 2:
            return _DOES_NOT_ADD_UP
        size = u16(p, c)
        if size > 32767:
            return _DOES_NOT_ADD_UP
        c += 2
        rows[o + _VERSION] = 2
    if size > end - c:
        return _DOES_NOT_ADD_UP
    rows[o + _TOPIC_AT] = c
    rows[o + _TOPIC_SIZE] = size
    c += size
    if end - c < 2:
        return _DOES_NOT_ADD_UP
    size = u16(p, c)
    if size > 32767 or size != end - c - 2:
        return _DOES_NOT_ADD_UP
    rows[o + _PROPERTIES_AT] = c + 2
    rows[o + _PROPERTIES_SIZE] = size
    if not is_utf8(p, rows[o + _TOPIC_AT], rows[o + _TOPIC_AT] + rows[o + _TOPIC_SIZE]):
        return _NOT_UTF8
    if behind - body < _SHORT:
        crc = crc32_of(p, body, behind)
    else:
        crc = zlib.crc32(view[body:behind])
    if (crc & 0x7FFFFFFF) != u32(p, at + 8):
        return _WRONG_CHECKSUM
    check = crc32_record(p, at, body, behind, end, crc)
    if check > 1:
        return check
    if check == 0 and 0 <= checked_from <= position:
        return _NO_CHECKSUM
    rows[o + _CHECKED] = 1
    if i64(p, at + 28) != position:
        return _WRONG_OFFSET
    rows[o + _QUEUE_ID] = i32(p, at + 12)
    rows[o + _QUEUE_OFFSET] = i64(p, at + 20)
    rows[o + _STORE_TIME] = i64(p, store_time_at)
    note_rocketmq_properties(p, c + 2, end, rows, o)
    return 0


@cython.cfunc
@cython.exceptval(-1)
def parse_blueprint(
    p: cython.pointer(cython.const[cython.uchar]),
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    position: cython.longlong,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
    view: memoryview,
) -> cython.int:
    """Check the record at ``at`` that ends at ``end``; layout: ``blueprint.py``."""
    c: cython.Py_ssize_t
    size: cython.longlong
    if u32(p, at + 4) != _MAGIC_BLUEPRINT:
        return _WRONG_MAGIC
    if end - at < 63:
        return _TOO_SMALL
    size = p[at + 56]
    c = at + 57
    rows[o + _TOPIC_AT] = c
    rows[o + _TOPIC_SIZE] = size
    c += size
    if end - c < 4:
        return _DOES_NOT_ADD_UP
    size = u32(p, c)
    if size > end - c - 4:
        return _DOES_NOT_ADD_UP
    rows[o + _BODY_AT] = c + 4
    rows[o + _BODY_SIZE] = size
    c += 4 + size
    if end - c < 2 or u16(p, c) != end - c - 2:
        return _DOES_NOT_ADD_UP
    rows[o + _PROPERTIES_AT] = c + 2
    rows[o + _PROPERTIES_SIZE] = end - c - 2
    if not is_utf8(p, at + 57, at + 57 + rows[o + _TOPIC_SIZE]) or not is_utf8(p, c + 2, end):
        return _NOT_UTF8
    if zlib.crc32(view[rows[o + _BODY_AT] : rows[o + _BODY_AT] + rows[o + _BODY_SIZE]]) != u32(p, at + 8):
        return _WRONG_CHECKSUM
    rows[o + _CHECKED] = 1
    if i64(p, at + 28) != position:
        return _WRONG_OFFSET
    rows[o + _QUEUE_ID] = u32(p, at + 12)
    rows[o + _QUEUE_OFFSET] = i64(p, at + 20)
    rows[o + _SYS_FLAG] = i32(p, at + 36)
    rows[o + _STATUS] = (rows[o + _SYS_FLAG] >> 2) & 3
    rows[o + _STORE_TIME] = i64(p, at + 48)
    rows[o + _KEYS_COUNT] = -1
    read_properties(p, c + 2, end, rows, o)
    return 0


@cython.cfunc
@cython.exceptval(-1)
def parse_tmq(
    p: cython.pointer(cython.const[cython.uchar]),
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
    magic: cython.longlong,
) -> cython.int:
    """Check the record at ``at`` that ends at ``end``; ``magic`` -1 takes any; layout: ``tmq.py``."""
    c: cython.Py_ssize_t
    size: cython.longlong
    if magic >= 0 and u32(p, at + 4) != magic:
        return _WRONG_MAGIC
    if end - at < 50:
        return _TOO_SMALL
    rows[o + _QUEUE_ID] = u32(p, at + 8)
    rows[o + _QUEUE_OFFSET] = i64(p, at + 20)
    size = u32(p, at + 28)
    c = at + 32
    if size > end - c - 8:
        return _DOES_NOT_ADD_UP
    if not is_utf8(p, c, c + size):
        return _NOT_UTF8
    rows[o + _REST_AT] = c + size
    rows[o + _STORE_TIME] = i64(p, c + size)
    c += size + 8
    if end - c < 4:
        return _DOES_NOT_ADD_UP
    size = u32(p, c)
    if size > end - c - 4:
        return _DOES_NOT_ADD_UP
    rows[o + _BODY_AT] = c + 4
    rows[o + _BODY_SIZE] = size
    c += 4 + size
    if end - c < 4:
        return _DOES_NOT_ADD_UP
    size = u32(p, c)
    if size > end - c - 4:
        return _DOES_NOT_ADD_UP
    rows[o + _TOPIC_AT] = c + 4
    rows[o + _TOPIC_SIZE] = size
    if not is_utf8(p, c + 4, c + 4 + size):
        return _NOT_UTF8
    c += 4 + size
    if end - c < 2 or u16(p, c) != end - c - 2:
        return _DOES_NOT_ADD_UP
    if not is_utf8(p, c + 2, end):
        return _NOT_UTF8
    rows[o + _PROPERTIES_AT] = c + 2
    rows[o + _PROPERTIES_SIZE] = end - c - 2
    rows[o + _KEYS_COUNT] = -1
    read_properties(p, c + 2, end, rows, o)
    rows[o + _ID_AT] = at + 32
    rows[o + _ID_SIZE] = u32(p, at + 28)
    return 0


# -- the walk -----------------------------------------------------------------------------------


def scan(
    code: cython.int,
    view: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    base: cython.longlong,
    table: cython.longlong[::1],
    stop_at_compressed: cython.bint = False,
    magic: cython.longlong = 0x544D5101,
    checked_from: cython.longlong = layout.NEVER,
) -> tuple[int, int, int]:
    """Walk over the frames in ``view[start:end]`` and return (rows filled, place, why it stopped).

    ``base`` is the log position of ``view[0]``.  With ``CUT`` the place is that of a frame which needs bytes beyond
    ``end``; with a reason of ``DAMAGE`` or above, that of the damaged frame; with ``COMPRESSED`` the place behind
    the last row, whose body the caller wants to see.  ``magic`` is tmq's, -1 takes any.  A record at or behind
    ``checked_from`` that has no checksum of the whole of it is damaged: its writer gives one to every record; with
    ``rows.NEVER`` there is no such place.
    """
    p: cython.pointer(cython.const[cython.uchar])
    rows: cython.p_longlong
    at: cython.Py_ssize_t = start
    o: cython.Py_ssize_t = 0
    last: cython.Py_ssize_t = len(table) - _WIDTH
    i: cython.Py_ssize_t
    size: cython.longlong
    status: cython.int = _ROOM
    if end - start <= 0:
        return 0, start, layout.END
    raw: memoryview | None = memoryview(view) if code == 1 or code == 2 else None
    if cython.compiled:
        p = cython.address(view[0])
        rows = cython.address(table[0])
    else:
        p = view
        rows = table
    while o <= last:
        if end - at < 4:
            status = _END
            for i in range(at, end):
                if p[i] != 0:
                    status = _CUT
            break
        size = u32(p, at)
        if size == 0:
            status = _END
            break
        if code == 0:
            if size == _LITEMQ_FILLER:
                status = _FILLER
                break
            size += 4
        elif code == 1 and end - at >= 8 and u32(p, at + 4) == _MAGIC_BLANK:
            status = _FILLER
            break
        if size < 8:
            status = _TOO_SMALL
            break
        if size > end - at:
            status = _CUT
            break
        for i in range(o, o + _WIDTH):
            rows[i] = 0
        rows[o + _ORIGIN] = -1
        rows[o + _POSITION] = base + at
        rows[o + _SIZE] = size
        if code == 0:
            status = parse_litemq(p, at, at + size, base + at, rows, o, checked_from)
        elif code == 1:
            status = parse_rocketmq(p, at, at + size, base + at, rows, o, raw, checked_from)
        elif code == 2:
            status = parse_blueprint(p, at, at + size, base + at, rows, o, raw)
        else:
            status = parse_tmq(p, at, at + size, rows, o, magic)
        if status != 0:
            break
        o += _WIDTH
        at += size
        if stop_at_compressed and rows[o - _WIDTH + _SYS_FLAG] & 1:
            status = _COMPRESSED
            break
    return o // _WIDTH, at, status


def scan_apart(
    code: cython.int,
    view: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    table: cython.longlong[::1],
) -> tuple[int, int, int]:
    """Do as ``scan`` for records that were picked out of a log: each stands where it says itself.

    Places in the table are those in ``view``, positions those in the log.
    """
    p: cython.pointer(cython.const[cython.uchar])
    rows: cython.p_longlong
    at: cython.Py_ssize_t = start
    o: cython.Py_ssize_t = 0
    last: cython.Py_ssize_t = len(table) - _WIDTH
    i: cython.Py_ssize_t
    size: cython.longlong
    position: cython.longlong
    status: cython.int = _ROOM
    if end - start <= 0:
        return 0, start, layout.END
    raw: memoryview | None = memoryview(view) if code == 1 or code == 2 else None
    if cython.compiled:
        p = cython.address(view[0])
        rows = cython.address(table[0])
    else:
        p = view
        rows = table
    while o <= last:
        if at == end:
            status = _END
            break
        if end - at < 4:
            status = _CUT
            break
        size = u32(p, at)
        if code == 0:
            size += 4
        if size < 64:
            status = _TOO_SMALL
            break
        if size > end - at:
            status = _CUT
            break
        position = i64(p, at + size - 40) if code == 0 else i64(p, at + 28)
        for i in range(o, o + _WIDTH):
            rows[i] = 0
        rows[o + _ORIGIN] = -1
        rows[o + _POSITION] = position
        rows[o + _SIZE] = size
        if code == 0:
            status = parse_litemq(p, at, at + size, position, rows, o, layout.NEVER)
        elif code == 1:
            status = parse_rocketmq(p, at, at + size, position, rows, o, raw, layout.NEVER)
        else:
            status = parse_blueprint(p, at, at + size, position, rows, o, raw)
        if status != 0:
            break
        o += _WIDTH
        at += size
    return o // _WIDTH, at, status
