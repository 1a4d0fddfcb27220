"""Kernels over text and bytes: Java's string hash, UTF-8 check, CRC-32C and CRC-32.

The ``…_utf8`` and ``…_of`` functions work on a part of a buffer and are called by other kernels; the rest is for
everybody.  One source for both builds: compiled, ``p`` is a pointer, plain, it is the buffer itself.
"""

from __future__ import annotations

import zlib

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy
    from cython.cimports.litemq.format._crc32_h import litemq_crc32, litemq_crc32_init, litemq_crc32_join
    from cython.cimports.litemq.format._crc32c_h import litemq_crc32c, litemq_crc32c_init

    litemq_crc32_init()
    litemq_crc32c_init()
else:
    import google_crc32c

# A literal above 2**31 would be a Python object to the compiler.
_MASK = cython.declare(cython.uint, 0xFFFFFFFF)
_HIGH_BITS = cython.declare(cython.ulonglong, 0x8080808080808080)


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cfunc
@cython.exceptval(check=False)
def hash_utf8(
    p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, end: cython.Py_ssize_t, h: cython.uint
) -> cython.uint:
    """Go on with Java's ``String.hashCode`` from ``h`` over the UTF-16 units of sound UTF-8."""
    c: cython.uint
    while at < end:
        c = p[at]
        if c < 0x80:
            h = (h * 31 + c) & _MASK
            at += 1
        elif c < 0xE0:
            h = (h * 31 + (((c & 0x1F) << 6) | (p[at + 1] & 0x3F))) & _MASK
            at += 2
        elif c < 0xF0:
            h = (h * 31 + (((c & 0x0F) << 12) | ((p[at + 1] & 0x3F) << 6) | (p[at + 2] & 0x3F))) & _MASK
            at += 3
        else:
            c = ((c & 0x07) << 18) | ((p[at + 1] & 0x3F) << 12) | ((p[at + 2] & 0x3F) << 6) | (p[at + 3] & 0x3F)
            c -= 0x10000
            h = (h * 31 + (0xD800 + (c >> 10))) & _MASK
            h = (h * 31 + (0xDC00 + (c & 0x3FF))) & _MASK
            at += 4
    return h


@cython.cfunc
@cython.exceptval(check=False)
def is_utf8(
    p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.bint:
    """Return whether the bytes are UTF-8 as the standard wants it: shortest forms, no surrogates."""
    c: cython.uint
    d: cython.uint
    word: cython.ulonglong = 0
    if not cython.compiled:
        try:
            bytes(p[at:end]).decode()
        except UnicodeDecodeError:
            return False
        return True
    if cython.compiled:
        while end - at >= 8:  # most texts are ASCII throughout
            memcpy(cython.address(word), p + at, 8)
            if word & _HIGH_BITS:
                break
            at += 8
    while at < end:
        c = p[at]
        if c < 0x80:
            at += 1
            continue
        if c < 0xC2 or c > 0xF4:
            return False
        if at + 1 >= end:
            return False
        d = p[at + 1]
        if c < 0xE0:
            if (d & 0xC0) != 0x80:
                return False
            at += 2
            continue
        if at + 2 >= end or (p[at + 2] & 0xC0) != 0x80:
            return False
        if c < 0xF0:
            if (d & 0xC0) != 0x80 or (c == 0xE0 and d < 0xA0) or (c == 0xED and d > 0x9F):
                return False
            at += 3
            continue
        if at + 3 >= end or (p[at + 3] & 0xC0) != 0x80:
            return False
        if (d & 0xC0) != 0x80 or (c == 0xF0 and d < 0x90) or (c == 0xF4 and d > 0x8F):
            return False
        at += 4
    return True


@cython.cfunc
@cython.exceptval(0, check=True)
def crc32c_of(
    p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, end: cython.Py_ssize_t, crc: cython.uint
) -> cython.uint:
    """Go on with CRC-32C from ``crc`` over a part of a buffer."""
    if cython.compiled:
        return litemq_crc32c(crc, p + at, end - at)
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        return google_crc32c.extend(crc, bytes(p[at:end]))


@cython.cfunc
@cython.exceptval(0, check=True)
def crc32_around(
    p: cython.pointer(cython.const[cython.uchar]),
    at: cython.Py_ssize_t,
    body: cython.Py_ssize_t,
    behind: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    body_crc: cython.uint,
) -> cython.uint:
    """Return the CRC-32 of ``p[at:end]``, of which ``p[body:behind]`` has the CRC-32 ``body_crc``."""
    if cython.compiled:
        crc: cython.uint = litemq_crc32_join(litemq_crc32(0, p + at, body - at), body_crc, behind - body)
        return litemq_crc32(crc, p + behind, end - behind)
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        return zlib.crc32(p[at:end])


@cython.cfunc
@cython.exceptval(0, check=True)
def crc32_of(
    p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.uint:
    """Return the CRC-32 of a short part of a buffer: over a kilobyte, ``zlib`` is faster in spite of the call."""
    if cython.compiled:
        return litemq_crc32(0, p + at, end - at)
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        return zlib.crc32(p[at:end])


def crc32c(data: bytes, crc: int = 0) -> int:
    """Return the CRC-32C of ``data``, going on from ``crc``."""
    return crc32c_of(data, 0, len(data), crc)


def java_hash(text: str) -> int:
    """Return Java's ``String.hashCode`` of ``text`` as an unsigned 32-bit number."""
    data = text.encode("utf-8", "replace")
    return hash_utf8(data, 0, len(data), 0)


def is_valid_utf8(data: bytes) -> bool:
    """Return whether ``data`` is UTF-8."""
    return bool(is_utf8(data, 0, len(data)))
