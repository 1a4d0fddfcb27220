"""Kernel: sort rows of numbers in place.

Heap sort: no memory beside the rows, and no input that makes it slow.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_less(
    a: cython.p_longlong,
    width: cython.Py_ssize_t,
    keys: cython.Py_ssize_t,
    left: cython.Py_ssize_t,
    right: cython.Py_ssize_t,
) -> cython.bint:
    i: cython.Py_ssize_t
    for i in range(keys):
        if a[left * width + i] != a[right * width + i]:
            return a[left * width + i] < a[right * width + i]
    return False


@cython.cfunc
@cython.exceptval(check=False)
def sift(
    a: cython.p_longlong,
    width: cython.Py_ssize_t,
    keys: cython.Py_ssize_t,
    root: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.void:
    """Let the row at ``root`` sink to its place in a heap of ``end`` rows."""
    child: cython.Py_ssize_t
    i: cython.Py_ssize_t
    t: cython.longlong
    while True:
        child = 2 * root + 1
        if child >= end:
            return
        if child + 1 < end and is_less(a, width, keys, child, child + 1):
            child += 1
        if not is_less(a, width, keys, root, child):
            return
        for i in range(width):
            t = a[root * width + i]
            a[root * width + i] = a[child * width + i]
            a[child * width + i] = t
        root = child


def sort_rows(
    table: cython.longlong[::1], width: cython.Py_ssize_t, keys: cython.Py_ssize_t, count: cython.Py_ssize_t
) -> None:
    """Sort ``count`` rows of ``width`` numbers by the first ``keys`` of them, in place, whatever is in them."""
    a: cython.p_longlong
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    t: cython.longlong
    if count < 2:
        return
    if cython.compiled:
        a = cython.address(table[0])
    else:
        a = table
    i = count // 2 - 1
    while i >= 0:
        sift(a, width, keys, i, count)
        i -= 1
    i = count - 1
    while i > 0:
        for k in range(width):
            t = a[k]
            a[k] = a[i * width + k]
            a[i * width + k] = t
        sift(a, width, keys, 0, i)
        i -= 1
