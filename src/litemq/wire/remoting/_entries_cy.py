"""Kernel: the ext fields of a binary header."""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

from litemq.errors import BadFrame


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


def entries(data: bytes) -> dict[str, str]:
    """Return the ext fields; of a key that comes twice the last one counts, what is empty is left out.

    Raises:
        BadFrame: a field reaches beyond the header.
    """
    found: dict[str, str] = {}
    p: cython.p_uchar = data
    end: cython.Py_ssize_t = len(data)
    at: cython.Py_ssize_t = 0
    key_at: cython.Py_ssize_t
    key_size: cython.Py_ssize_t
    size: cython.Py_ssize_t
    while at < end:
        key_at = at + 2
        if key_at > end:
            raise BadFrame("an ext field reaches beyond its header")
        key_size = p[at] << 8 | p[at + 1]
        at = key_at + key_size + 4
        if key_size > 0x7FFF or at > end:
            raise BadFrame("an ext field reaches beyond its header")
        size = p[at - 4]
        size = size << 24 | p[at - 3] << 16 | p[at - 2] << 8 | p[at - 1]
        if size > end - at:
            raise BadFrame("an ext field reaches beyond its header")
        if key_size and size:
            found[text(p, key_at, key_size)] = text(p, at, size)
        at += size
    return found


@cython.cfunc
@cython.inline
def text(p: cython.p_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> str:
    """Return a part of the header as text."""
    if cython.compiled:
        return cython.cast(cython.p_char, p)[at : at + size].decode("utf-8", "replace")
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        return bytes(p[at : at + size]).decode("utf-8", "replace")
