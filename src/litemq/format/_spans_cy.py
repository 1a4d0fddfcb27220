"""Kernel: the table of what one socket read brought; columns: ``spans``.

One ``Spans`` serves all connections of a loop, one read after the other: there is no object per message.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

from litemq.format import hosts
from litemq.format import spans as columns

_KIND = cython.declare(cython.Py_ssize_t, columns.KIND)
_ENTRY_COUNT = cython.declare(cython.Py_ssize_t, columns.ENTRY_COUNT)
_ID_AT = cython.declare(cython.Py_ssize_t, columns.ID_AT)
_ID_SIZE = cython.declare(cython.Py_ssize_t, columns.ID_SIZE)
_POSITION = cython.declare(cython.Py_ssize_t, columns.POSITION)
_STORED_SIZE = cython.declare(cython.Py_ssize_t, columns.STORED_SIZE)
_QUEUE_OFFSET = cython.declare(cython.Py_ssize_t, columns.QUEUE_OFFSET)
_WIDTH = cython.declare(cython.Py_ssize_t, columns.WIDTH)
_FEW_ROWS = cython.declare(cython.Py_ssize_t, 256)
_LITTLE_TEXT = cython.declare(cython.Py_ssize_t, 1 << 16)
_MUCH_TEXT = cython.declare(cython.Py_ssize_t, 1 << 20)


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cclass
class Peer:
    """Who sent what was read: ``ip:port`` as text and as RocketMQ's bytes, which are empty for any other text."""

    if not cython.compiled:
        __slots__ = ("address", "host", "text")

    def __init__(self, host: str) -> None:
        self.host = host
        self.text = host.encode()
        self.address = hosts.to_bytes(host) or b""


NOBODY = Peer("0.0.0.0:0")


@cython.cclass
class Spans:
    """Rows of one split, with the buffers that their places lie in.

    ``data`` is the buffer that was read, ``peer`` whose bytes it holds: set both before a split.  ``status`` says why
    the split ended, ``wanted`` how many bytes the frame has whose beginning is left over (0: not known yet).
    ``store_address`` is the store's host as RocketMQ's bytes; the store fills it in with the first send that it takes.
    """

    if not cython.compiled:
        __slots__ = (
            *("count", "data", "is_batch", "limit", "peer", "rows", "seen", "status", "store_address", "table"),
            *("text", "text_size", "value_at", "value_form", "value_size", "wanted"),
        )

    def __init__(self) -> None:
        self.data = bytearray()
        self.peer = NOBODY
        self.store_address = bytes(8)
        self.text = bytearray(_LITTLE_TEXT)
        self.text_size = 0
        self.limit = _FEW_ROWS
        self.table = columns.table(_FEW_ROWS)
        self.rows = self.table
        self.count = 0
        self.status = 0
        self.wanted = 0
        self.seen = 0
        self.is_batch = False
        self.value_form = 0
        self.value_at = 0
        self.value_size = 0

    # -- for kernels -----------------------------------------------------------------------------

    @cython.ccall
    @cython.exceptval(-1)
    def clear(self) -> cython.int:
        """Forget all rows, and memory that only a rare read needs."""
        self.count = 0
        self.status = 0
        self.wanted = 0
        self.text_size = 0
        if len(self.text) > _MUCH_TEXT:
            self.text = bytearray(_LITTLE_TEXT)
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def need_rows(self, count: cython.Py_ssize_t) -> cython.int:
        """Make room for ``count`` rows more."""
        more: cython.Py_ssize_t
        if self.count + count > self.limit:
            more = max(self.limit, count)
            self.table = self.table + columns.table(more)
            self.rows = self.table
            self.limit += more
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def need_text(self, size: cython.Py_ssize_t) -> cython.int:
        """Make room for ``size`` bytes of text more."""
        if self.text_size + size > len(self.text):
            # A new one: the old cannot grow while somebody looks at it.
            self.text = self.text + bytes(max(len(self.text), size))
        return 0

    def note_id(self, row: int, at: int, size: int) -> None:
        """Say where in the table's text the UNIQ_KEY of a send stands."""
        if not (0 <= row < self.count and 0 <= at and 0 <= size and at + size <= len(self.text)):
            raise IndexError(f"row {row}, text {at} to {at + size} of a table of {self.count} rows")
        self.rows[row * _WIDTH + _ID_AT] = at
        self.rows[row * _WIDTH + _ID_SIZE] = size

    def note_stored(self, row: int, position: int, size: int, queue_offset: int) -> None:
        """Say where a send went that the store's kernel did not take."""
        if not 0 <= row < self.count:
            raise IndexError(f"row {row} of a table of {self.count} rows")
        self.rows[row * _WIDTH + _POSITION] = position
        self.rows[row * _WIDTH + _STORED_SIZE] = size
        self.rows[row * _WIDTH + _QUEUE_OFFSET] = queue_offset

    # -- for everybody ---------------------------------------------------------------------------

    def cell(self, row: int, column: int) -> int:
        """Return one number of the table."""
        if not (0 <= row < self.count and 0 <= column < _WIDTH):
            raise IndexError(f"row {row}, column {column} of a table of {self.count} rows")
        return self.rows[row * _WIDTH + column]

    def kind(self, row: int) -> int:
        """Return what a row is."""
        return self.cell(row, _KIND)

    def words(self, row: int, column: int) -> bytes:
        """Return the text whose ``…_AT`` column is given: a topic, a group, properties …"""
        at = self.cell(row, column)
        return bytes(memoryview(self.text)[at : at + self.cell(row, column + 1)])

    def part(self, row: int, column: int) -> memoryview:
        """Return the frame or the body whose ``…_AT`` column is given, in the buffer that was read."""
        at = self.cell(row, column)
        return memoryview(self.data)[at : at + self.cell(row, column + 1)]

    def behind(self, row: int) -> int:
        """Return the row of the next request: behind all entries when ``row`` begins a batch."""
        return row + self.cell(row, _ENTRY_COUNT)

    def row(self, row: int) -> dict[str, int]:
        """Return a row with the names of its columns, for tests and for people."""
        return {name: self.cell(row, column) for column, name in enumerate(columns.COLUMNS)}
