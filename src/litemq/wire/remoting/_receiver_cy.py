"""Kernel: the bytes of one connection, in and out.

A connection reads into a buffer that all connections of its server share; only the beginning of a frame that has not
arrived yet is kept, in a buffer that grows with the bytes that did arrive, never with what a peer announces.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

from litemq.errors import BadFrame
from litemq.wire.remoting.codes import MAX_FRAME_SIZE

if cython.compiled:
    from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
    from cython.cimports.litemq.wire.remoting._sched_h import sched_yield
    from cython.cimports.posix.unistd import read, write

if TYPE_CHECKING:
    import asyncio

    Bytes = bytes | bytearray | memoryview

READ_SIZE = 1 << 18
"""Bytes that one read may bring."""

_READ_SIZE = cython.declare(cython.Py_ssize_t, READ_SIZE)
_MAX_FRAME = cython.declare(cython.Py_ssize_t, MAX_FRAME_SIZE)


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cfunc
@cython.exceptval(check=False)
def read_some(fd: cython.int, buffer: bytearray) -> cython.Py_ssize_t:
    """Read what is there; 0 or -1 when there was nothing, the end or an error."""
    got: cython.Py_ssize_t = -1
    if cython.compiled:
        p: cython.p_uchar = buffer
        got = read(fd, p, _READ_SIZE)  # never waits, so nobody waits for the interpreter
    else:
        with suppress(OSError):
            got = os.readv(fd, [buffer])
    return got


@cython.cfunc
@cython.exceptval(-2)
def write_some(fd: cython.int, data: Bytes) -> cython.Py_ssize_t:
    """Write what the socket takes at once; -1 when it takes nothing."""
    wrote: cython.Py_ssize_t = -1
    if cython.compiled:
        view = cython.declare(Py_buffer)
        PyObject_GetBuffer(data, cython.address(view), PyBUF_SIMPLE)
        with cython.nogil:
            wrote = write(fd, view.buf, view.len)
        PyBuffer_Release(cython.address(view))
    else:
        with suppress(OSError):
            wrote = os.write(fd, data)
    return wrote


@cython.ccall
@cython.exceptval(-1)
def read_first(receivers: list[Any], turns: cython.int) -> cython.int:
    """Look at connections, each up to ``turns`` times, and take in what one look finds, without waiting for the loop.

    Whoever shares our CPU may go on between two looks: it may be the one that we are waiting for.
    """
    receiver: Receiver
    got: cython.Py_ssize_t
    ready = [receiver for receiver in receivers if receiver.may_read_now()]
    if not ready:
        give_way()
        return 0
    while turns > 0:
        turns -= 1
        for receiver in ready:
            got = read_some(receiver.descriptor, receiver.shared)
            if got > 0:
                receiver.has_just_come = True
                try:
                    receiver.serve_safely(got)
                finally:
                    receiver.has_just_come = False
                return 1
            if got == 0:
                return 0
        give_way()
    return 0


@cython.ccall
@cython.exceptval(check=False)
def give_way() -> cython.int:
    """Let another thread of this CPU run, if there is one."""
    if cython.compiled:
        with cython.nogil:
            sched_yield()
    else:
        os.sched_yield()
    return 0


@cython.cclass
class Receiver:
    """Collects frames, and writes.

    ``transport`` is None before the connection and after its end.  ``is_alive`` is set by everything that arrives, and
    taken back by whoever looks for idle connections.  ``is_paused`` while the peer leaves too much unread.
    """

    if not cython.compiled:
        __slots__ = (
            *("beginning", "descriptor", "has_just_come", "is_alive", "is_behind", "is_paused", "kept", "reads_own"),
            *("shared", "shared_view", "transport"),
        )

    def __init__(self, shared: bytearray, shared_view: memoryview) -> None:
        """``shared_view`` is one of all ``shared`` bytes."""
        self.transport: asyncio.Transport | None = None
        self.shared = shared
        self.shared_view = shared_view
        self.beginning = bytearray()
        """Of a frame; its first ``kept`` bytes count."""
        self.kept = 0
        self.reads_own = False
        """Whether the next bytes are read right behind it."""
        self.is_alive = True
        self.is_paused = False
        self.is_behind = False
        """Whether whole frames wait to be served, see ``later``; nothing is read meanwhile."""
        self.has_just_come = False
        """Whether the bytes that are being served came a moment ago: who sent them has had no time to go to sleep."""
        self.descriptor = -1
        """The socket's, when its bytes may be read and written past the transport; -1 else."""

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go: the shared buffer, behind what is kept; or a long frame's own buffer."""
        kept: cython.Py_ssize_t = self.kept
        if kept == 0:
            return self.shared_view
        if kept < _READ_SIZE // 2:
            self.shared[:kept] = self.beginning
            return self.shared_view[kept:]
        if not self.reads_own or len(self.beginning) - kept < _READ_SIZE // 4:
            # Twice as much each time, so that what arrived is not copied again and again.
            grown = bytearray(min(2 * kept, _MAX_FRAME) + _READ_SIZE)
            grown[:kept] = memoryview(self.beginning)[:kept]
            self.beginning = grown
            self.reads_own = True
        return memoryview(self.beginning)[kept:]

    def buffer_updated(self, nbytes: cython.Py_ssize_t) -> None:
        """Take in the bytes that arrived."""
        self.is_alive = True
        size: cython.Py_ssize_t = self.kept + nbytes
        used: cython.Py_ssize_t
        buffer: bytearray = self.beginning if self.reads_own else self.shared
        try:
            used = self.take(buffer, size)
        except BadFrame as error:
            self.reject(error)
            return
        except BaseException:
            self.is_behind = False  # the connection ends, and what was served must not be served again
            raise
        if used == size:
            if self.kept:
                self.keep(b"")
        elif used or not self.reads_own:
            self.keep(memoryview(buffer)[used:size])
        else:
            self.kept = size

    @cython.ccall
    @cython.exceptval(-1)
    def may_read_now(self) -> cython.bint:
        """Return whether bytes may be read past the loop; the end of a connection and errors are left to it."""
        transport: object = self.transport
        return (
            self.descriptor >= 0
            and self.kept == 0
            and transport is not None
            and not transport.is_closing()  # type: ignore[attr-defined] # object, to the compiler
            and transport.is_reading()  # type: ignore[attr-defined]
        )

    @cython.ccall
    @cython.exceptval(-1)
    def go_on(self) -> cython.int:
        """Serve what was left for later; some of it may be left again."""
        if self.is_behind:
            self.is_behind = False
            self.get_buffer(-1)  # puts it where bytes are served from
            self.serve_safely(0)
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def serve_safely(self, got: cython.Py_ssize_t) -> cython.int:
        """Take bytes in as the loop does, which ends a connection whose bytes cannot be served."""
        transport: object = self.transport
        try:
            self.buffer_updated(got)
        except BaseException:
            if transport is not None:
                transport.abort()  # type: ignore[attr-defined] # object, to the compiler
            raise
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def keep(self, beginning: object) -> cython.int:
        """Keep the beginning of a frame until the rest arrives."""
        self.beginning = bytearray(beginning)  # type: ignore[call-overload] # bytes or a view of them
        self.kept = len(self.beginning)
        self.reads_own = False
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def take(self, buffer: bytearray, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Serve the whole frames of ``buffer[:size]``; return how many bytes they take.

        Raises:
            BadFrame: the bytes are no frames.
        """
        return size

    @cython.ccall
    @cython.exceptval(-1)
    def reject(self, error: BadFrame) -> cython.int:
        """Close the connection: what came is no frame."""
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def later(self) -> cython.bint:
        """Have ``go_on`` called when the loop has looked after the others; False: it cannot be."""
        return False

    @cython.ccall
    @cython.exceptval(-1)
    def check_unread(self) -> cython.int:
        """Close the connection when its peer leaves too much unread."""
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def write(self, data: Bytes) -> cython.int:
        """Send bytes; nothing happens when the connection is gone."""
        transport: object = self.transport
        if transport is None or transport.is_closing():  # type: ignore[attr-defined] # object, to the compiler
            return 0
        if self.descriptor >= 0 and len(data) > 0 and not transport.get_write_buffer_size():  # type: ignore[attr-defined]
            wrote: cython.Py_ssize_t = write_some(self.descriptor, data)
            if wrote == len(data):
                return 0
            if wrote > 0:
                data = memoryview(data)[wrote:]
        transport.write(data)  # type: ignore[attr-defined]
        if self.is_paused:
            self.check_unread()
        return 0
