"""Kernel: split what was read into frames, and decode the headers of hot requests into the table of spans.

Hot are sends (10, 310, 320, each single or a batch), pulls (11, 361) and ends of transactions (37), in both header
codecs.  A row is one of them
only when its header has the known fields with sound values; anything odd makes it OTHER, and ``command`` decodes the
frame.  So nothing here has to answer for a header: it takes what it fully understands, exactly as ``command`` would.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy, memset
    from cython.cimports.litemq.format._byte_order_h import copy, i32, u16, u32
    from cython.cimports.litemq.format._spans_cy import Spans
    from cython.cimports.litemq.format._text_cy import is_utf8
    from cython.cimports.litemq.wire.remoting._json_header_cy import read_json
    from cython.cimports.litemq.wire.remoting._request_fields_cy import family_of, field_of, kind_of, take_field
else:
    from litemq.format._spans_cy import Spans
    from litemq.format._text_cy import is_utf8
    from litemq.format.byte_order import copy, i32, u16, u32
    from litemq.wire.remoting._json_header_cy import read_json
    from litemq.wire.remoting._request_fields_cy import family_of, field_of, kind_of, take_field

from litemq.format import spans as columns
from litemq.wire.remoting._request_fields_cy import IN_HEADER, NOT_HOT
from litemq.wire.remoting.codes import MAX_BATCH_SIZE, MAX_FRAME_SIZE

_KIND = cython.declare(cython.Py_ssize_t, columns.KIND)
_FRAME_AT = cython.declare(cython.Py_ssize_t, columns.FRAME_AT)
_FRAME_SIZE = cython.declare(cython.Py_ssize_t, columns.FRAME_SIZE)
_CODEC = cython.declare(cython.Py_ssize_t, columns.CODEC)
_CODE = cython.declare(cython.Py_ssize_t, columns.CODE)
_OPAQUE = cython.declare(cython.Py_ssize_t, columns.OPAQUE)
_COMMAND_FLAG = cython.declare(cython.Py_ssize_t, columns.COMMAND_FLAG)
_VERSION = cython.declare(cython.Py_ssize_t, columns.VERSION)
_BODY_AT = cython.declare(cython.Py_ssize_t, columns.BODY_AT)
_BODY_SIZE = cython.declare(cython.Py_ssize_t, columns.BODY_SIZE)
_ENTRY_COUNT = cython.declare(cython.Py_ssize_t, columns.ENTRY_COUNT)
_TOPIC_AT = cython.declare(cython.Py_ssize_t, columns.TOPIC_AT)
_PROPERTIES_AT = cython.declare(cython.Py_ssize_t, columns.PROPERTIES_AT)
_PROPERTIES_SIZE = cython.declare(cython.Py_ssize_t, columns.PROPERTIES_SIZE)
_SYS_FLAG = cython.declare(cython.Py_ssize_t, columns.SYS_FLAG)
_MESSAGE_FLAG = cython.declare(cython.Py_ssize_t, columns.MESSAGE_FLAG)
_MAX_BYTES = cython.declare(cython.Py_ssize_t, columns.MAX_BYTES)
_WIDTH = cython.declare(cython.Py_ssize_t, columns.WIDTH)
_OTHER = cython.declare(cython.int, columns.OTHER)
_SEND = cython.declare(cython.int, columns.SEND)
_BATCH = cython.declare(cython.int, columns.BATCH)
_MORE = cython.declare(cython.int, columns.MORE)
_ANSWER = cython.declare(cython.int, columns.ANSWER)
_FULL = cython.declare(cython.int, columns.FULL)
_BAD_FRAME = cython.declare(cython.int, columns.BAD_FRAME)
_ROW_LIMIT = cython.declare(cython.Py_ssize_t, columns.ROW_LIMIT)

_MAX_FRAME = cython.declare(cython.longlong, MAX_FRAME_SIZE)
_MAX_BATCH = cython.declare(cython.longlong, MAX_BATCH_SIZE)
_BINARY_FIXED = cython.declare(cython.Py_ssize_t, 21)
_ENTRY_FIXED = cython.declare(cython.Py_ssize_t, 22)
_COMPRESSED = cython.declare(cython.longlong, 0x701)

_NOT_HOT = cython.declare(cython.int, NOT_HOT)
_IN_HEADER = cython.declare(cython.int, IN_HEADER)


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


# -- frames -------------------------------------------------------------------------------------


@cython.ccall
@cython.exceptval(-1)
def split(spans: Spans, start: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Fill the table from ``spans.data[start : start + size]``; return how many bytes the frames in it take.

    ``spans.status`` says why it ended.  The size of a frame is checked as soon as its first word is there.
    """
    if spans is None:
        raise TypeError("spans must be a Spans, not None")
    at: cython.Py_ssize_t = start
    end: cython.Py_ssize_t = start + size
    total: cython.longlong
    word: cython.longlong
    p: cython.p_uchar
    spans.clear()
    if start < 0 or size < 0 or end > len(spans.data):
        raise ValueError(f"bytes {start} to {end} of a buffer of {len(spans.data)}")
    p = spans.data
    while end - at >= 4:
        total = u32(p, at) + 4
        if total > _MAX_FRAME or total < 8:
            spans.status = _BAD_FRAME
            break
        if end - at >= 8:
            word = u32(p, at + 4)
            if (word & 0xFFFFFF) > total - 8 or word >> 24 > 1:
                spans.status = _BAD_FRAME
                break
        if end - at < total:
            spans.wanted = total
            break
        if spans.count >= _ROW_LIMIT or not take_frame(spans, p, at, total):
            spans.status = _FULL
            break
        at += total
    return at - start


@cython.cfunc
@cython.exceptval(-1)
def take_frame(spans: Spans, p: cython.p_uchar, at: cython.Py_ssize_t, total: cython.Py_ssize_t) -> cython.int:
    """Add the rows of one frame; 0 when the table has no room for a batch, which is then left for the next split."""
    rows: cython.p_longlong
    i: cython.Py_ssize_t
    o: cython.Py_ssize_t = spans.count * _WIDTH
    header: cython.Py_ssize_t = u32(p, at + 4) & 0xFFFFFF
    text_size: cython.Py_ssize_t = spans.text_size
    kind: cython.int
    spans.need_rows(1)
    spans.need_text(header)  # unescaped, a text does not grow
    if cython.compiled:
        rows = cython.address(spans.rows[0])
        memset(rows + o, 0, _WIDTH * 8)
    else:
        rows = spans.rows
        for i in range(o, o + _WIDTH):
            rows[i] = 0
    rows[o + _FRAME_AT] = at
    rows[o + _FRAME_SIZE] = total
    rows[o + _CODEC] = p[at + 4]
    rows[o + _BODY_AT] = at + 8 + header
    rows[o + _BODY_SIZE] = total - 8 - header
    rows[o + _ENTRY_COUNT] = 1
    rows[o + _MAX_BYTES] = -1
    spans.seen = 0
    spans.is_batch = False
    if p[at + 4] == 1:
        kind = read_binary(spans, p, at + 8, header, rows, o)
    else:
        kind = read_json(spans, p, at + 8, header, rows, o)
    if kind == _SEND and spans.is_batch:
        return take_batch(spans, p, o, text_size)
    rows[o + _KIND] = kind
    if kind == _OTHER or kind == _ANSWER:
        forget_fields(spans, rows, o, text_size)
    spans.count += 1
    return 1


@cython.cfunc
@cython.exceptval(-1)
def forget_fields(
    spans: Spans, rows: cython.p_longlong, o: cython.Py_ssize_t, text_size: cython.Py_ssize_t
) -> cython.int:
    """Take back what was noted of a header that is left to ``command``, with its text."""
    i: cython.Py_ssize_t
    for i in range(o + _TOPIC_AT, o + _WIDTH):
        rows[i] = 0
    spans.text_size = text_size
    return 0


@cython.cfunc
@cython.exceptval(-1)
def take_batch(spans: Spans, p: cython.p_uchar, o: cython.Py_ssize_t, text_size: cython.Py_ssize_t) -> cython.int:
    """Turn the row of a batch into one for each of its entries; 0 when they do not fit into the table.

    ``text_size`` is that from before the header was read.
    """
    rows: cython.p_longlong
    q: cython.p_uchar
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t = spans.rows[o + _BODY_AT]
    end: cython.Py_ssize_t = at + spans.rows[o + _BODY_SIZE]
    size: cython.longlong
    count: cython.Py_ssize_t = 0
    text: cython.Py_ssize_t = 0
    is_sound: cython.bint = at < end <= at + _MAX_BATCH and (spans.rows[o + _SYS_FLAG] & _COMPRESSED) == 0
    while is_sound and at < end:
        is_sound = False
        if end - at < _ENTRY_FIXED:
            break
        size = u32(p, at + 16)
        if size > end - at - _ENTRY_FIXED:
            break
        i = at + 20 + size
        size = u16(p, i)
        if size > 32767 or size > end - i - 2 or u32(p, at) != i + 2 + size - at or not is_utf8(p, i + 2, i + 2 + size):
            break
        at = i + 2 + size
        text += size
        count += 1
        is_sound = True
    if cython.compiled:
        rows = cython.address(spans.rows[0])
    else:
        rows = spans.rows
    if not is_sound or count > _ROW_LIMIT:
        forget_fields(spans, rows, o, text_size)
        spans.count += 1
        return 1
    if spans.count + count > _ROW_LIMIT:
        spans.text_size = text_size
        return 0
    spans.need_rows(count)
    spans.need_text(text)
    q = spans.text
    if cython.compiled:
        rows = cython.address(spans.rows[0])
    else:
        rows = spans.rows
    rows[o + _KIND] = _BATCH
    at = rows[o + _BODY_AT]
    for i in range(count):
        if i > 0:
            if cython.compiled:
                memcpy(rows + o + _WIDTH, rows + o, _WIDTH * 8)
            else:
                rows[o + _WIDTH : o + 2 * _WIDTH] = rows[o : o + _WIDTH]
            o += _WIDTH
            rows[o + _KIND] = _MORE
        rows[o + _ENTRY_COUNT] = count if i == 0 else 1
        rows[o + _MESSAGE_FLAG] = i32(p, at + 12)
        size = u32(p, at + 16)
        rows[o + _BODY_AT] = at + 20
        rows[o + _BODY_SIZE] = size
        at += 20 + size
        size = u16(p, at)
        copy(q, spans.text_size, p, at + 2, size)
        rows[o + _PROPERTIES_AT] = spans.text_size
        rows[o + _PROPERTIES_SIZE] = size
        spans.text_size += size
        at += 2 + size
    spans.count += count
    return 1


# -- binary header ------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(-1)
def read_binary(
    spans: Spans,
    p: cython.p_uchar,
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
) -> cython.int:
    """Read a binary header; return the row's kind."""
    end: cython.Py_ssize_t = at + size
    c: cython.Py_ssize_t
    key: cython.Py_ssize_t
    key_size: cython.longlong
    value_size: cython.longlong
    family: cython.int
    if size < _BINARY_FIXED:
        return _OTHER
    rows[o + _CODE] = (u16(p, at) ^ 0x8000) - 0x8000
    rows[o + _VERSION] = (u16(p, at + 3) ^ 0x8000) - 0x8000
    rows[o + _OPAQUE] = i32(p, at + 5)
    rows[o + _COMMAND_FLAG] = i32(p, at + 9)
    if rows[o + _COMMAND_FLAG] & 1:
        return _ANSWER
    family = family_of(rows[o + _CODE])
    value_size = u32(p, at + 13)
    if family == _NOT_HOT or value_size > size - _BINARY_FIXED:
        return _OTHER
    c = at + 17 + value_size
    value_size = u32(p, c)
    c += 4
    if value_size > end - c:
        return _OTHER
    end = c + value_size
    while c < end:
        if end - c < 6:
            return _OTHER
        key_size = u16(p, c)
        if key_size > 32767 or key_size > end - c - 6:
            return _OTHER
        key = c + 2
        c = key + key_size
        value_size = u32(p, c)
        c += 4
        if value_size > end - c:
            return _OTHER
        if key_size > 0 and value_size > 0:
            if not take_field(spans, field_of(p, key, key_size, family), p, c, value_size, _IN_HEADER, family, rows, o):
                return _OTHER
        c += value_size
    return kind_of(spans, family, rows, o)
