"""Kernel: take the fields of a ``litemq`` record apart; layout: ``litemq.py``.

The record was checked by ``scan``, so that no length is compared with anything here.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8
    from cython.cimports.litemq.format._byte_order_h import i64, u16, u32
else:
    from litemq.format.byte_order import i64, u16, u32


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cfunc
def u64(p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t) -> object:
    value: cython.longlong = i64(p, at)
    return value if value >= 0 else value + (1 << 64)


@cython.cfunc
def text(p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t) -> str:
    """Return the text behind its u16 length at ``at``."""
    size: cython.Py_ssize_t = u16(p, at)
    if cython.compiled:
        return PyUnicode_DecodeUTF8(cython.cast(cython.p_char, p) + at + 2, size, cython.NULL)
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        return str(p[at + 2 : at + 2 + size], "utf-8")


@cython.cfunc
def texts(
    p: cython.pointer(cython.const[cython.uchar]), at: cython.Py_ssize_t, count: cython.longlong
) -> tuple[str, ...]:
    """Return ``count`` texts, the first of which stands at ``at``."""
    found: list[str] = []
    while count > 0:
        found.append(text(p, at))
        at += 2 + u16(p, at)
        count -= 1
    return tuple(found)


def litemq_fields(
    view: cython.const[cython.uchar][::1],
    id_at: cython.Py_ssize_t,
    topic_at: cython.Py_ssize_t,
    keys_at: cython.Py_ssize_t,
    properties_at: cython.Py_ssize_t,
    rest_at: cython.Py_ssize_t,
) -> tuple[
    tuple[tuple[str, ...], tuple[str, ...], dict[str, str]],
    tuple[int, int, int, int, bool],
    tuple[str, str, str, str, str, str],
    tuple[int, int, int, int, int, int, int, int, int],
]:
    """Return the fields of a record in four groups; the places are those of its row, lists behind their counts.

    (tags, keys, properties), (type, priority, reliability, status, broadcast),
    (message id, topic, transaction id, sharding key, born host, store host),
    (queue id, queue offset, log offset, store time, consume start, consume end, count, delay time, born time)
    """
    p: cython.pointer(cython.const[cython.uchar])
    at: cython.Py_ssize_t = properties_at
    tags_at: cython.Py_ssize_t
    sharding_at: cython.Py_ssize_t
    born_at: cython.Py_ssize_t
    store_at: cython.Py_ssize_t
    count: cython.longlong
    properties: dict[str, str] = {}
    if cython.compiled:
        p = cython.address(view[0])
    else:
        p = view
    count = u32(p, at - 4)
    while count > 0:
        name = text(p, at)
        at += 2 + u16(p, at)
        properties[name] = text(p, at)
        at += 2 + u16(p, at)
        count -= 1
    tags_at = topic_at + u16(p, topic_at - 2) + 4
    sharding_at = rest_at + 11 + 2 + u16(p, rest_at + 11) + 1
    born_at = sharding_at + 2 + u16(p, sharding_at)
    store_at = born_at + 9 + 2 + u16(p, born_at + 9)
    at = store_at + 2 + u16(p, store_at)
    return (
        (texts(p, tags_at, u32(p, tags_at - 4)), texts(p, keys_at, u32(p, keys_at - 4)), properties),
        (p[rest_at], p[rest_at + 1], p[rest_at + 2], p[sharding_at - 1], p[born_at] != 0),
        (
            text(p, id_at - 2),
            text(p, topic_at - 2),
            text(p, rest_at + 11),
            text(p, sharding_at),
            text(p, born_at + 9),
            text(p, store_at),
        ),
        (
            u32(p, at),
            i64(p, at + 4),
            i64(p, at + 12),
            u64(p, at + 24),
            u64(p, at + 32),
            u64(p, at + 40),
            u32(p, at + 48),
            u64(p, rest_at + 3),
            u64(p, born_at + 1),
        ),
    )
