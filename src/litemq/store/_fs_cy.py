"""Kernel: write bytes at a place of a file, all of them.

The system call alone costs about 1 µs for a small record; through ``os.pwrite`` it costs a third more.
"""

from __future__ import annotations

import errno
import os

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.libc.errno import EINTR
    from cython.cimports.libc.errno import errno as last_error
    from cython.cimports.posix.unistd import pwrite

_NO_GIL_SIZE = cython.declare(cython.Py_ssize_t, 1 << 16)


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cclass
class Descriptor:
    """An open file descriptor, -1 when it was closed: the base of ``OsFile``, so that a write costs no Python call."""

    if not cython.compiled:
        __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def write_at(self, data: object, position: cython.longlong) -> None:
        """Write all of ``data``; an ``OSError`` leaves any part of it written."""
        if cython.compiled:
            if isinstance(data, bytes):
                write_part(self.fd, cython.cast(cython.p_char, data), len(data), position)
            else:
                view: cython.const[cython.uchar][::1] = data
                if len(view):
                    write_part(self.fd, cython.cast(cython.p_char, cython.address(view[0])), len(view), position)
        else:
            rest = memoryview(data)  # type: ignore[arg-type] # any buffer: the compiled branch checks
            while rest:
                count = os.pwrite(self.fd, rest, position)
                if count == 0:
                    raise OSError(errno.EIO, "write made no progress")
                rest = rest[count:]
                position += count


@cython.cfunc
@cython.exceptval(-1)
def write_part(
    fd: cython.int, p: cython.pointer(cython.const[cython.char]), size: cython.Py_ssize_t, position: cython.longlong
) -> cython.int:
    """Write ``size`` bytes from ``p``; the interpreter is let go only for what may take long."""
    count: cython.Py_ssize_t
    if cython.compiled:
        while size > 0:
            if size < _NO_GIL_SIZE:
                count = pwrite(fd, p, size, position)
            else:
                with cython.nogil:
                    count = pwrite(fd, p, size, position)
            if count < 0:
                if last_error == EINTR:
                    continue
                raise OSError(last_error, os.strerror(last_error))
            if count == 0:
                raise OSError(errno.EIO, "write made no progress")
            p += count
            size -= count
            position += count
    return 0
