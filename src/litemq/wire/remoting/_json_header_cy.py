"""Kernel: the JSON headers of requests, without an object for them or for anything in them."""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.litemq.format._byte_order_h import copy, find_special, same
    from cython.cimports.litemq.format._spans_cy import Spans
    from cython.cimports.litemq.wire.remoting._request_fields_cy import (
        family_of,
        field_of,
        is_number,
        kind_of,
        take_field,
    )
else:
    from litemq.format._spans_cy import Spans
    from litemq.format.byte_order import copy, find_special, same
    from litemq.wire.remoting._request_fields_cy import family_of, field_of, is_number, kind_of, take_field

from litemq.format import spans as columns
from litemq.wire.remoting._request_fields_cy import BARE, IN_HEADER, NO_VALUE, NOT_HOT, UNESCAPED

_CODE = cython.declare(cython.Py_ssize_t, columns.CODE)
_OPAQUE = cython.declare(cython.Py_ssize_t, columns.OPAQUE)
_COMMAND_FLAG = cython.declare(cython.Py_ssize_t, columns.COMMAND_FLAG)
_VERSION = cython.declare(cython.Py_ssize_t, columns.VERSION)
_OTHER = cython.declare(cython.int, columns.OTHER)
_ANSWER = cython.declare(cython.int, columns.ANSWER)

_LEAST_32 = cython.declare(cython.longlong, -(1 << 31))
_MOST_32 = cython.declare(cython.longlong, (1 << 31) - 1)

_NOT_HOT = cython.declare(cython.int, NOT_HOT)
_IN_HEADER = cython.declare(cython.int, IN_HEADER)
_BARE = cython.declare(cython.int, BARE)
_UNESCAPED = cython.declare(cython.int, UNESCAPED)
_NO_VALUE = cython.declare(cython.int, NO_VALUE)


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cfunc
@cython.exceptval(check=False)
def skip_blanks(p: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the place of the next byte that is no blank."""
    while at < end and (p[at] == 32 or p[at] == 10 or p[at] == 13 or p[at] == 9):
        at += 1
    return at


@cython.cfunc
@cython.exceptval(check=False)
def hex4(p: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
    """Return the number in four hex digits, -1 where there are none."""
    value: cython.int = 0
    i: cython.Py_ssize_t
    c: cython.int
    if end - at < 4:
        return -1
    for i in range(at, at + 4):
        c = p[i]
        if 48 <= c <= 57:
            c -= 48
        elif 65 <= c <= 70:
            c -= 55
        elif 97 <= c <= 102:
            c -= 87
        else:
            return -1
        value = value * 16 + c
    return value


@cython.cfunc
@cython.exceptval(check=False)
def short_escape(c: cython.int) -> cython.int:
    """Return the byte that a backslash and ``c`` stand for, -1 for none."""
    if c == 34 or c == 92 or c == 47:
        return c
    if c == 98:
        return 8
    if c == 102:
        return 12
    if c == 110:
        return 10
    if c == 114:
        return 13
    return 9 if c == 116 else -1


@cython.cfunc
@cython.exceptval(check=False)
def put_utf8(q: cython.p_uchar, at: cython.Py_ssize_t, c: cython.int) -> cython.Py_ssize_t:
    """Write a code point; return the place behind it."""
    if c < 0x80:
        q[at] = c
        return at + 1
    if c < 0x800:
        q[at] = 0xC0 | (c >> 6)
        q[at + 1] = 0x80 | (c & 0x3F)
        return at + 2
    if c < 0x10000:
        q[at] = 0xE0 | (c >> 12)
        q[at + 1] = 0x80 | ((c >> 6) & 0x3F)
        q[at + 2] = 0x80 | (c & 0x3F)
        return at + 3
    q[at] = 0xF0 | (c >> 18)
    q[at + 1] = 0x80 | ((c >> 12) & 0x3F)
    q[at + 2] = 0x80 | ((c >> 6) & 0x3F)
    q[at + 3] = 0x80 | (c & 0x3F)
    return at + 4


@cython.cfunc
@cython.exceptval(-2)
def unescape(spans: Spans, p: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write the string from ``at`` on behind the table's text; return the place behind its quote, -1 if it is odd."""
    q: cython.p_uchar = spans.text
    to: cython.Py_ssize_t = spans.text_size
    stop: cython.Py_ssize_t
    c: cython.int
    low: cython.int
    while True:
        stop = find_special(p, at, end)
        copy(q, to, p, at, stop - at)
        to += stop - at
        if stop >= end or p[stop] < 32:
            return -1
        if p[stop] == 34:
            spans.value_form = _UNESCAPED
            spans.value_at = spans.text_size
            spans.value_size = to - spans.text_size
            return stop + 1
        if end - stop < 2:
            return -1
        at = stop + 2
        if p[stop + 1] != 117:
            c = short_escape(p[stop + 1])
        else:
            c = hex4(p, at, end)
            at += 4
            if 0xD800 <= c < 0xE000:
                if c >= 0xDC00 or end - at < 6 or p[at] != 92 or p[at + 1] != 117:
                    return -1
                low = hex4(p, at + 2, end)
                if not 0xDC00 <= low < 0xE000:
                    return -1
                at += 6
                c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00)
        if c < 0:
            return -1
        to = put_utf8(q, to, c)


@cython.cfunc
@cython.exceptval(-2)
def scan_value(spans: Spans, p: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Find the string, whole number, true, false or null at ``at``; return the place behind it, -1 if it is odd."""
    stop: cython.Py_ssize_t
    c: cython.int
    if at >= end:
        return -1
    c = p[at]
    if c == 34:
        stop = find_special(p, at + 1, end)
        if stop >= end or p[stop] < 32:
            return -1
        if p[stop] == 92:
            return unescape(spans, p, at + 1, end)
        spans.value_form = _IN_HEADER
        spans.value_at = at + 1
        spans.value_size = stop - at - 1
        return stop + 1
    spans.value_form = _BARE
    spans.value_at = at
    stop = at
    if c == 45 or 48 <= c <= 57:
        if c == 45:
            stop += 1
        at = stop
        while stop < end and 48 <= p[stop] <= 57:
            stop += 1
        if stop == at or (p[at] == 48 and stop > at + 1):
            return -1
    elif c == 116 and end - at >= 4 and same(p, at, b"true", 0, 4):
        stop += 4
    elif c == 102 and end - at >= 5 and same(p, at, b"false", 0, 5):
        stop += 5
    elif c == 110 and end - at >= 4 and same(p, at, b"null", 0, 4):
        stop += 4
        spans.value_form = _NO_VALUE
    else:
        return -1
    spans.value_size = stop - spans.value_at
    return stop


@cython.cfunc
@cython.exceptval(-2)
def skip_object(p: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the place behind the object at ``at``, whatever is in it; -1 where it does not end."""
    depth: cython.Py_ssize_t = 0
    while at < end:
        if p[at] == 123:
            depth += 1
        elif p[at] == 125:
            depth -= 1
            if depth == 0:
                return at + 1
        elif p[at] == 34:
            at = find_special(p, at + 1, end)
            while at < end and p[at] != 34:
                at = find_special(p, at + (2 if p[at] == 92 else 1), end)
        at += 1
    return -1


@cython.cfunc
@cython.exceptval(-2)
def read_ext(
    spans: Spans,
    p: cython.p_uchar,
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    family: cython.int,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Read the ext fields of the object at ``at``; return the place behind it, -1 when there is anything odd."""
    q: cython.p_uchar = spans.text
    key: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    at = skip_blanks(p, at + 1, end)
    if at < end and p[at] == 125:
        return at + 1
    while at < end and p[at] == 34:
        key = at + 1
        stop = find_special(p, key, end)
        if stop >= end or p[stop] != 34:
            return -1
        at = skip_blanks(p, stop + 1, end)
        if at >= end or p[at] != 58:
            return -1
        at = scan_value(spans, p, skip_blanks(p, at + 1, end), end)
        if at < 0:
            return -1
        if spans.value_form != _NO_VALUE and not take_field(
            spans,
            field_of(p, key, stop - key, family),
            q if spans.value_form == _UNESCAPED else p,
            spans.value_at,
            spans.value_size,
            spans.value_form,
            family,
            rows,
            o,
        ):
            return -1
        at = skip_blanks(p, at, end)
        if at >= end or (p[at] != 44 and p[at] != 125):
            return -1
        if p[at] == 125:
            return at + 1
        at = skip_blanks(p, at + 1, end)
    return -1


@cython.cfunc
@cython.exceptval(check=False)
def member_of(p: cython.p_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the column of a header's number, 0 for ``extFields``, -1 for any other member."""
    if size == 4:
        if same(p, at, b"code", 0, 4):
            return _CODE
        if same(p, at, b"flag", 0, 4):
            return _COMMAND_FLAG
    elif size == 6 and same(p, at, b"opaque", 0, 6):
        return _OPAQUE
    elif size == 7 and same(p, at, b"version", 0, 7):
        return _VERSION
    elif size == 9 and same(p, at, b"extFields", 0, 9):
        return 0
    return -1


@cython.cfunc
@cython.exceptval(-1)
def read_json(
    spans: Spans,
    p: cython.p_uchar,
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
) -> cython.int:
    """Read a JSON header; return the row's kind.

    The fields are read when they are met if the code is known by then, else at the end.
    """
    end: cython.Py_ssize_t = at + size
    stop: cython.Py_ssize_t
    key: cython.Py_ssize_t
    column: cython.Py_ssize_t
    ext: cython.Py_ssize_t = -1
    members: cython.int = 0
    is_read: cython.bint = False
    is_odd: cython.bint = False
    family: cython.int = _NOT_HOT
    at = skip_blanks(p, at, end)
    if at >= end or p[at] != 123:
        return _OTHER
    while True:
        at = skip_blanks(p, at + 1, end)
        if at >= end or p[at] != 34:
            return _OTHER
        key = at + 1
        stop = find_special(p, key, end)
        if stop >= end or p[stop] != 34:
            return _OTHER
        at = skip_blanks(p, stop + 1, end)
        if at >= end or p[at] != 58:
            return _OTHER
        column = member_of(p, key, stop - key)
        at = skip_blanks(p, at + 1, end)
        if column >= 0:
            if (members >> column) & 1:
                return _OTHER
            members |= 1 << column
        if column == 0 and at < end and p[at] == 123:
            ext = at
            stop = -1
            if family != _NOT_HOT:
                stop = read_ext(spans, p, at, end, family, rows, o)
                is_read = stop >= 0
                is_odd = not is_read
            at = stop if stop >= 0 else skip_object(p, at, end)
        else:
            at = scan_value(spans, p, at, end)
            if column == 0 and spans.value_form != _NO_VALUE:
                return _OTHER
            if at >= 0 and column > 0:
                if spans.value_form != _BARE or not is_number(
                    p, spans.value_at, spans.value_size, _LEAST_32, _MOST_32, rows, o + column
                ):
                    return _OTHER
                if column == _CODE:
                    family = family_of(rows[o + _CODE])
        if at < 0:
            return _OTHER
        at = skip_blanks(p, at, end)
        if at >= end or (p[at] != 44 and p[at] != 125):
            return _OTHER
        if p[at] == 125:
            break
    if skip_blanks(p, at + 1, end) != end:
        return _OTHER
    if rows[o + _COMMAND_FLAG] & 1:
        return _ANSWER
    if family == _NOT_HOT or is_odd or ext < 0:
        return _OTHER
    if not is_read and read_ext(spans, p, ext, end, family, rows, o) < 0:
        return _OTHER
    return kind_of(spans, family, rows, o)
