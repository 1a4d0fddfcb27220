"""Kernel: the bytes of one connection, in and out.

A connection reads into a buffer that all connections of its server share; only the beginning of a frame that has not
arrived yet is kept, in a buffer that grows with the bytes that did arrive, never with what a peer announces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

from litemq.errors import BadFrame
from litemq.wire.remoting.codes import MAX_FRAME_SIZE

if TYPE_CHECKING:
    import asyncio

READ_SIZE = 1 << 18
"""Bytes that one read may bring."""

_READ_SIZE = cython.declare(cython.Py_ssize_t, READ_SIZE)
_MAX_FRAME = cython.declare(cython.Py_ssize_t, MAX_FRAME_SIZE)


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cclass
class Receiver:
    """Collects frames, and writes.

    ``transport`` is None before the connection and after its end.  ``is_alive`` is set by everything that arrives, and
    taken back by whoever looks for idle connections.  ``is_paused`` while the peer leaves too much unread.
    """

    if not cython.compiled:
        __slots__ = (
            *("beginning", "is_alive", "is_paused", "kept", "reads_own", "shared", "shared_view", "transport"),
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
        if used == size:
            if self.kept:
                self.keep(b"")
        elif used or not self.reads_own:
            self.keep(memoryview(buffer)[used:size])
        else:
            self.kept = size

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
    def check_unread(self) -> cython.int:
        """Close the connection when its peer leaves too much unread."""
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def write(self, data: object) -> cython.int:
        """Send bytes; nothing happens when the connection is gone."""
        transport: object = self.transport
        if transport is None or transport.is_closing():  # type: ignore[attr-defined] # object, to the compiler
            return 0
        transport.write(data)  # type: ignore[attr-defined]
        if self.is_paused:
            self.check_unread()
        return 0
