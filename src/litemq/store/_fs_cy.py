"""Kernel: write and read bytes at a place of a file, all of them.

The system call alone costs about 1 µs for a small record; through ``os.pwrite`` it costs a third more.  A pull may
read many small records, each with a call of its own: through ``os.preadv`` such a call costs several times the read.
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
    from cython.cimports.litemq.store._read_at_h import litemq_read_at
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

    @cython.ccall
    @cython.exceptval(-2, check=True)
    def read_part(
        self,
        target: bytearray,
        at: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
        position: cython.longlong,
        nowait: cython.bint,
    ) -> cython.Py_ssize_t:
        """Fill ``target[at : at + size]`` and return how many bytes came, fewer only at the end of the file.

        -1 when ``nowait`` and they are not in memory.
        """
        got: cython.Py_ssize_t
        fd: cython.int = self.fd
        if at < 0 or size < 0 or at + size > len(target):
            raise ValueError(f"{size} bytes at {at} of a buffer of {len(target)}")
        if cython.compiled:
            p: cython.p_uchar = target
            if nowait:
                got = litemq_read_at(fd, p + at, size, position, 1)
            else:  # it may take long
                with cython.nogil:
                    got = litemq_read_at(fd, p + at, size, position, 0)
            if got < -1:
                raise OSError(-1 - got, os.strerror(-1 - got))
            return got
        else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
            return self.read_into(memoryview(target)[at : at + size], position, nowait=nowait)  # type: ignore[attr-defined] # of OsFile


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
