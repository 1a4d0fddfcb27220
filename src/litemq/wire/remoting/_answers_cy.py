"""Kernel: encode the answers to sends from the table of spans, in the codec of each request."""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.litemq.format._byte_order_h import (
        copy,
        find_special,
        move,
        put16,
        put32,
        put64,
        put_decimal,
        put_hex,
    )
    from cython.cimports.litemq.format._spans_cy import Spans
else:
    from litemq.format._spans_cy import Spans
    from litemq.format.byte_order import copy, find_special, move, put16, put32, put64, put_decimal, put_hex

from litemq.format import spans as columns
from litemq.wire.remoting.codes import LANGUAGES, PYTHON, VERSION

_KIND = cython.declare(cython.Py_ssize_t, columns.KIND)
_CODEC = cython.declare(cython.Py_ssize_t, columns.CODEC)
_OPAQUE = cython.declare(cython.Py_ssize_t, columns.OPAQUE)
_COMMAND_FLAG = cython.declare(cython.Py_ssize_t, columns.COMMAND_FLAG)
_ENTRY_COUNT = cython.declare(cython.Py_ssize_t, columns.ENTRY_COUNT)
_QUEUE_ID = cython.declare(cython.Py_ssize_t, columns.QUEUE_ID)
_POSITION = cython.declare(cython.Py_ssize_t, columns.POSITION)
_STORED_SIZE = cython.declare(cython.Py_ssize_t, columns.STORED_SIZE)
_QUEUE_OFFSET = cython.declare(cython.Py_ssize_t, columns.QUEUE_OFFSET)
_ID_AT = cython.declare(cython.Py_ssize_t, columns.ID_AT)
_ID_SIZE = cython.declare(cython.Py_ssize_t, columns.ID_SIZE)
_WIDTH = cython.declare(cython.Py_ssize_t, columns.WIDTH)
_SEND = cython.declare(cython.longlong, columns.SEND)
_BATCH = cython.declare(cython.longlong, columns.BATCH)
_MORE = cython.declare(cython.longlong, columns.MORE)

_VERSION = cython.declare(cython.longlong, VERSION)
_LANGUAGE = cython.declare(cython.int, PYTHON)
_LITTLE = cython.declare(cython.Py_ssize_t, 1 << 16)
_MUCH = cython.declare(cython.Py_ssize_t, 1 << 20)
_REST = cython.declare(cython.Py_ssize_t, 512)  # all of an answer but ids


def _pair(name: bytes, value: bytes) -> bytes:
    """Return a binary field."""
    return len(name).to_bytes(2, "big") + name + len(value).to_bytes(4, "big") + value


# The fields in the order of their names, as the official broker's JSON has them.
_MSG_REGION = "DefaultRegion"
_TRACE_ON = "true"
_BINARY_HEAD = cython.declare(
    bytes, _pair(b"MSG_REGION", _MSG_REGION.encode()) + _pair(b"TRACE_ON", _TRACE_ON.encode())
)
_BINARY_ID = cython.declare(bytes, b"\x00\x05msgId")
_BINARY_QUEUE = cython.declare(bytes, b"\x00\x07queueId")
_BINARY_OFFSET = cython.declare(bytes, b"\x00\x0bqueueOffset")
_BINARY_TRANSACTION = cython.declare(bytes, b"\x00\x0dtransactionId")
_JSON_CODE = cython.declare(bytes, b'{"code":')
_JSON_HEAD = cython.declare(
    bytes, f',"extFields":{{"MSG_REGION":"{_MSG_REGION}","TRACE_ON":"{_TRACE_ON}","msgId":"'.encode()
)
_JSON_QUEUE = cython.declare(bytes, b'","queueId":"')
_JSON_OFFSET = cython.declare(bytes, b'","queueOffset":"')
_JSON_TRANSACTION = cython.declare(bytes, b'","transactionId":"')
_JSON_OPAQUE = cython.declare(bytes, f'"}},"flag":1,"language":"{LANGUAGES[PYTHON]}","opaque":'.encode())
_JSON_TAIL = cython.declare(bytes, f',"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'.encode())


_PULL_JSON_HEAD = cython.declare(bytes, b',"extFields":{"suggestWhichBrokerId":"0","nextBeginOffset":"')
_PULL_JSON_LOW = cython.declare(bytes, b'","minOffset":"')
_PULL_JSON_HIGH = cython.declare(bytes, b'","maxOffset":"')
_PULL_BINARY_HEAD = cython.declare(bytes, _pair(b"suggestWhichBrokerId", b"0") + b"\x00\x0fnextBeginOffset")
_PULL_BINARY_LOW = cython.declare(bytes, b"\x00\x09minOffset")
_PULL_BINARY_HIGH = cython.declare(bytes, b"\x00\x09maxOffset")


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cclass
class Outbox:
    """Frames on their way out; ``take`` hands them over as one piece."""

    if not cython.compiled:
        __slots__ = ("data", "size")

    def __init__(self) -> None:
        self.data = bytearray(_LITTLE)
        self.size = 0

    @cython.cfunc
    @cython.exceptval(-1)
    def room(self, size: cython.Py_ssize_t) -> cython.int:
        """Make room for ``size`` bytes more."""
        if self.size + size > len(self.data):
            self.data = self.data + bytes(max(len(self.data), size))
        return 0

    def __len__(self) -> int:
        return self.size

    def add(self, frame: bytes) -> None:
        """Add a frame that was encoded elsewhere."""
        self.room(len(frame))
        copy(self.data, self.size, frame, 0, len(frame))
        self.size += len(frame)

    @cython.ccall
    def take(self) -> bytes:
        """Return all frames; the box is empty afterwards."""
        if cython.compiled:
            p: cython.p_uchar = self.data
            answer: bytes = cython.cast(cython.p_char, p)[: self.size]
        else:
            answer = bytes(self.data[: self.size])
        self.size = 0
        if len(self.data) > _MUCH:
            self.data = bytearray(_LITTLE)
        return answer


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def put(p: cython.p_uchar, at: cython.Py_ssize_t, words: bytes) -> cython.Py_ssize_t:
    """Write fixed words; return the place behind them."""
    copy(p, at, words, 0, len(words))
    return at + len(words)


@cython.cfunc
@cython.exceptval(check=False)
def put_ids(
    p: cython.p_uchar,
    at: cython.Py_ssize_t,
    address: bytes,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write the offset ids of ``count`` rows, joined by commas; return the place behind them."""
    i: cython.Py_ssize_t
    size: cython.Py_ssize_t = len(address)
    for i in range(count):
        if i > 0:
            p[at] = 44
            at += 1
        at = put_hex(p, at, address, 0, size)
        # The position's bytes first stand behind the place of their digits.
        put64(p, at + 16, rows[o + _POSITION])
        at = put_hex(p, at, p, at + 16, 8)
        o += _WIDTH
    return at


@cython.cfunc
@cython.exceptval(check=False)
def put_escaped(
    p: cython.p_uchar,
    at: cython.Py_ssize_t,
    text: cython.p_uchar,
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write a text as the inside of a JSON string; return the place behind it."""
    end: cython.Py_ssize_t = start + size
    stop: cython.Py_ssize_t
    while True:
        stop = find_special(text, start, end)
        copy(p, at, text, start, stop - start)
        at += stop - start
        if stop >= end:
            return at
        p[at] = 92
        if text[stop] < 32:
            p[at + 1] = 117
            p[at + 2] = 48
            p[at + 3] = 48
            at = put_hex(p, at + 4, text, stop, 1)
        else:
            p[at + 1] = text[stop]
            at += 2
        start = stop + 1


@cython.cfunc
@cython.exceptval(check=False)
def put_number(p: cython.p_uchar, at: cython.Py_ssize_t, value: cython.longlong) -> cython.Py_ssize_t:
    """Write a number as the value of a binary field; return the place behind it."""
    end: cython.Py_ssize_t = put_decimal(p, at + 4, value)
    put32(p, at, end - at - 4)
    return end


@cython.cfunc
@cython.exceptval(check=False)
def put_binary(
    p: cython.p_uchar,
    start: cython.Py_ssize_t,
    text: cython.p_uchar,
    address: bytes,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
    code: cython.longlong,
) -> cython.Py_ssize_t:
    """Write an answer with a binary header; return the place behind it."""
    at: cython.Py_ssize_t
    ids: cython.Py_ssize_t
    size: cython.Py_ssize_t
    put16(p, start + 8, code)
    p[start + 10] = _LANGUAGE
    put16(p, start + 11, _VERSION)
    put32(p, start + 13, rows[o + _OPAQUE])
    put32(p, start + 17, 1)
    put32(p, start + 21, 0)
    at = put(p, put(p, start + 29, _BINARY_HEAD), _BINARY_ID)
    ids = at + 4
    at = put_ids(p, ids, address, rows, o, rows[o + _ENTRY_COUNT])
    put32(p, ids - 4, at - ids)
    at = put_number(p, put(p, at, _BINARY_QUEUE), rows[o + _QUEUE_ID])
    at = put_number(p, put(p, at, _BINARY_OFFSET), rows[o + _QUEUE_OFFSET])
    size = rows[o + _ID_SIZE]
    if rows[o + _KIND] == _SEND and size > 0:
        at = put(p, at, _BINARY_TRANSACTION)
        put32(p, at, size)
        copy(p, at + 4, text, rows[o + _ID_AT], size)
        at += 4 + size
    put32(p, start + 25, at - start - 29)
    put32(p, start, at - start - 4)
    put32(p, start + 4, (1 << 24) | (at - start - 8))
    return at


@cython.cfunc
@cython.exceptval(check=False)
def put_json(
    p: cython.p_uchar,
    start: cython.Py_ssize_t,
    text: cython.p_uchar,
    address: bytes,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
    code: cython.longlong,
) -> cython.Py_ssize_t:
    """Write an answer with a JSON header; return the place behind it."""
    at: cython.Py_ssize_t = put_decimal(p, put(p, start + 8, _JSON_CODE), code)
    at = put_ids(p, put(p, at, _JSON_HEAD), address, rows, o, rows[o + _ENTRY_COUNT])
    at = put_decimal(p, put(p, at, _JSON_QUEUE), rows[o + _QUEUE_ID])
    at = put_decimal(p, put(p, at, _JSON_OFFSET), rows[o + _QUEUE_OFFSET])
    if rows[o + _KIND] == _SEND and rows[o + _ID_SIZE] > 0:
        at = put_escaped(p, put(p, at, _JSON_TRANSACTION), text, rows[o + _ID_AT], rows[o + _ID_SIZE])
    at = put_decimal(p, put(p, at, _JSON_OPAQUE), rows[o + _OPAQUE])
    at = put(p, at, _JSON_TAIL)
    put32(p, start, at - start - 4)
    put32(p, start + 4, at - start - 8)
    return at


@cython.ccall
@cython.exceptval(-1)
def sends(
    spans: Spans, first: cython.Py_ssize_t, last: cython.Py_ssize_t, out: Outbox, code: cython.longlong = 0
) -> cython.int:
    """Add the answers to the stored sends in rows ``first`` to ``last``: one each, one a batch, none to a oneway.

    ``code`` is 0, or 10 when they were not flushed in time.

    Raises:
        ValueError: a row is no send, or was not stored.
    """
    if spans is None or out is None:
        raise TypeError("spans must be a Spans and out an Outbox, not None")
    rows: cython.p_longlong
    text: cython.p_uchar = spans.text
    o: cython.Py_ssize_t
    i: cython.Py_ssize_t = first
    count: cython.Py_ssize_t
    if first < 0 or last > spans.count:
        raise ValueError(f"rows {first} to {last} of a table of {spans.count}")
    if cython.compiled:
        rows = cython.address(spans.rows[0])
    else:
        rows = spans.rows
    while i < last:
        o = i * _WIDTH
        count = rows[o + _ENTRY_COUNT]
        if (rows[o + _KIND] != _SEND and rows[o + _KIND] != _BATCH) or rows[o + _STORED_SIZE] == 0 or i + count > last:
            raise ValueError(f"row {i} is no send that was stored")
        i += count
        if rows[o + _COMMAND_FLAG] & 2:
            continue
        out.room(_REST + 6 * rows[o + _ID_SIZE] + count * (2 * len(spans.store_address) + 17))
        if rows[o + _CODEC] == 1:
            out.size = put_binary(out.data, out.size, text, spans.store_address, rows, o, code)
        else:
            out.size = put_json(out.data, out.size, text, spans.store_address, rows, o, code)
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def put_pull_head(
    p: cython.p_uchar,
    room: cython.Py_ssize_t,
    body_size: cython.Py_ssize_t,
    codec: cython.longlong,
    code: cython.longlong,
    opaque: cython.longlong,
    next_offset: cython.longlong,
    low: cython.longlong,
    high: cython.longlong,
) -> cython.Py_ssize_t:
    """Write the head of an answer to a pull so that it ends at ``room``, at least 400 bytes; return where it begins.

    ``low`` and ``high`` are the queue's least and greatest offset.
    """
    at: cython.Py_ssize_t
    if codec == 1:
        put16(p, 8, code)
        p[10] = _LANGUAGE
        put16(p, 11, _VERSION)
        put32(p, 13, opaque)
        put32(p, 17, 1)
        put32(p, 21, 0)
        at = put_number(p, put(p, 29, _PULL_BINARY_HEAD), next_offset)
        at = put_number(p, put(p, at, _PULL_BINARY_LOW), low)
        at = put_number(p, put(p, at, _PULL_BINARY_HIGH), high)
        put32(p, 25, at - 29)
    else:
        at = put_decimal(p, put(p, 8, _JSON_CODE), code)
        at = put_decimal(p, put(p, at, _PULL_JSON_HEAD), next_offset)
        at = put_decimal(p, put(p, at, _PULL_JSON_LOW), low)
        at = put_decimal(p, put(p, at, _PULL_JSON_HIGH), high)
        at = put_decimal(p, put(p, at, _JSON_OPAQUE), opaque)
        at = put(p, at, _JSON_TAIL)
    put32(p, 0, at - 4 + body_size)
    put32(p, 4, (codec << 24) | (at - 8))
    move(p, room - at, 0, at)
    return room - at
