"""Kernel: write plain sends as records of ``litemq`` and ``rocketmq``, straight from the table of spans.

The bytes are exactly those that ``_encode_cy`` writes for the message that a Python caller would make of the request;
what is not plain enough for that is told apart by ``plan``.  Layouts: ``litemq.py``, ``rocketmq.py``.
"""

from __future__ import annotations

import zlib

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.libc.string import memset
    from cython.cimports.litemq.format._byte_order_h import (
        copy,
        find,
        is_before,
        put16,
        put32,
        put64,
        put_decimal,
        same,
    )
    from cython.cimports.litemq.format._encode_cy import put_crc32
    from cython.cimports.litemq.format._spans_cy import Spans
    from cython.cimports.litemq.format._text_cy import crc32_around, crc32_of, crc32c_of, hash_utf8
else:
    from litemq.format._encode_cy import put_crc32
    from litemq.format._spans_cy import Spans
    from litemq.format._text_cy import crc32_around, crc32_of, crc32c_of, hash_utf8
    from litemq.format.byte_order import copy, find, is_before, put16, put32, put64, put_decimal, same

from litemq.format import hosts, names, plain_names, properties
from litemq.format import rows as layout
from litemq.format import spans as columns
from litemq.format.reserved import is_text
from litemq.types import MessageType

# The columns of spans.
_BODY_AT = cython.declare(cython.Py_ssize_t, columns.BODY_AT)
_BODY_SIZE = cython.declare(cython.Py_ssize_t, columns.BODY_SIZE)
_TOPIC_AT = cython.declare(cython.Py_ssize_t, columns.TOPIC_AT)
_TOPIC_SIZE = cython.declare(cython.Py_ssize_t, columns.TOPIC_SIZE)
_PROPERTIES_AT = cython.declare(cython.Py_ssize_t, columns.PROPERTIES_AT)
_PROPERTIES_SIZE = cython.declare(cython.Py_ssize_t, columns.PROPERTIES_SIZE)
_QUEUE_ID = cython.declare(cython.Py_ssize_t, columns.QUEUE_ID)
_SYS_FLAG = cython.declare(cython.Py_ssize_t, columns.SYS_FLAG)
_BORN_TIME = cython.declare(cython.Py_ssize_t, columns.BORN_TIME)
_MESSAGE_FLAG = cython.declare(cython.Py_ssize_t, columns.MESSAGE_FLAG)
_RECONSUME_TIMES = cython.declare(cython.Py_ssize_t, columns.RECONSUME_TIMES)
_ID_AT = cython.declare(cython.Py_ssize_t, columns.ID_AT)
_ID_SIZE = cython.declare(cython.Py_ssize_t, columns.ID_SIZE)

# The columns of a record's row.
_ROW_POSITION = cython.declare(cython.Py_ssize_t, layout.POSITION)
_ROW_SIZE = cython.declare(cython.Py_ssize_t, layout.SIZE)
_ROW_CHECKED = cython.declare(cython.Py_ssize_t, layout.CHECKED)
_ROW_QUEUE_ID = cython.declare(cython.Py_ssize_t, layout.QUEUE_ID)
_ROW_QUEUE_OFFSET = cython.declare(cython.Py_ssize_t, layout.QUEUE_OFFSET)
_ROW_STORE_TIME = cython.declare(cython.Py_ssize_t, layout.STORE_TIME)
_ROW_TAG_HASH = cython.declare(cython.Py_ssize_t, layout.TAG_HASH)
_ROW_TOPIC_AT = cython.declare(cython.Py_ssize_t, layout.TOPIC_AT)
_ROW_TOPIC_SIZE = cython.declare(cython.Py_ssize_t, layout.TOPIC_SIZE)
_ROW_ID_AT = cython.declare(cython.Py_ssize_t, layout.ID_AT)
_ROW_ID_SIZE = cython.declare(cython.Py_ssize_t, layout.ID_SIZE)
_ROW_KEYS_AT = cython.declare(cython.Py_ssize_t, layout.KEYS_AT)
_ROW_KEYS_SIZE = cython.declare(cython.Py_ssize_t, layout.KEYS_SIZE)
_ROW_KEYS_COUNT = cython.declare(cython.Py_ssize_t, layout.KEYS_COUNT)
_ROW_ORIGIN = cython.declare(cython.Py_ssize_t, layout.ORIGIN)
_ROW_WIDTH = cython.declare(cython.Py_ssize_t, layout.WIDTH)

_LITEMQ_FIXED = cython.declare(cython.Py_ssize_t, 109)
_ROCKETMQ_FIXED = cython.declare(cython.Py_ssize_t, 74)
_CHECKSUM_SIZE = cython.declare(cython.Py_ssize_t, 20)
_MAX_TEXT = cython.declare(cython.Py_ssize_t, 32767)
_MAX_PAIRS = cython.declare(cython.Py_ssize_t, plain_names.MAX_PAIRS)
_MAX_DIGITS = 11
_SHORT = cython.declare(cython.Py_ssize_t, 1024)
_MAGIC_1 = cython.declare(cython.longlong, 0xDAA320A7)
_MAGIC_2 = cython.declare(cython.longlong, 0xDAA320AB)
_HALF = cython.declare(cython.longlong, 1 << 31)
_WHOLE = cython.declare(cython.longlong, 1 << 32)
_ORDER = cython.declare(cython.int, int(MessageType.ORDER))
_KEPT_FLAGS = cython.declare(cython.longlong, 0x703)  # compressed, its type, several tags
_HOST_FLAGS = cython.declare(cython.longlong, 0x30)
_HEX = cython.declare(bytes, b"0123456789abcdef")

_KEYS = cython.declare(bytes, names.KEYS.encode())
_TAGS = cython.declare(bytes, names.TAGS.encode())
_UNIQ_KEY = cython.declare(bytes, names.UNIQ_KEY.encode())
_SHARDING_KEY = cython.declare(bytes, names.SHARDING_KEY.encode())
_KEYS_SIZE = cython.declare(cython.Py_ssize_t, len(names.KEYS))
_TAGS_SIZE = cython.declare(cython.Py_ssize_t, len(names.TAGS))
_UNIQ_KEY_SIZE = cython.declare(cython.Py_ssize_t, len(names.UNIQ_KEY))
_SHARDING_KEY_SIZE = cython.declare(cython.Py_ssize_t, len(names.SHARDING_KEY))


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cfunc
@cython.exceptval(check=False)
def put_text(
    p: cython.p_uchar, at: cython.Py_ssize_t, text: cython.p_uchar, start: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Write a u16 length and the text; return the place behind it."""
    put16(p, at, size)
    copy(p, at + 2, text, start, size)
    return at + 2 + size


@cython.cfunc
@cython.exceptval(check=False)
def put_pair(
    p: cython.p_uchar,
    at: cython.Py_ssize_t,
    name: bytes,
    text: cython.p_uchar,
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write a pair of RocketMQ's text; return the place of its value."""
    copy(p, at, name, 0, len(name))
    at += len(name)
    p[at] = 1
    copy(p, at + 1, text, start, size)
    p[at + 1 + size] = 2
    return at + 1


@cython.cfunc
@cython.exceptval(check=False)
def count_keys(p: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return how many keys a text holds; 0 when they are not divided by single blanks."""
    count: cython.Py_ssize_t = 1
    if p[at] == 32 or p[end - 1] == 32:
        return 0
    while True:
        at = find(p, at, end, 32)
        if at >= end:
            return count
        if p[at + 1] == 32:
            return 0
        count += 1
        at += 1


@cython.cclass
class SpanWriter:
    """Writes the sends of one store: ``plan`` settles the size of one, then ``put`` writes it.

    Every record gets the pairs ``own`` behind the properties that were sent.
    """

    if not cython.compiled:
        __slots__ = (
            *("cells", "checksum_at", "checksum_cell", "code", "count", "exact", "extra", "extra_cells"),
            *(
                "extra_count",
                "flag_cell",
                "id_at",
                "id_size",
                "keys_at",
                "keys_count",
                "keys_size",
                "own_size",
                "own_text",
                "prefixes",
            ),
            *("sharding_at", "sharding_size", "size", "store_address", "store_host", "sys_flag", "sys_flag_cell"),
            *("tag_at", "tag_size", "text_size"),
        )

    def __init__(self, code: int, store_host: str, own: tuple[tuple[str, str], ...]) -> None:
        if not cython.compiled:
            self.extra_cells = [0] * 24
            self.cells = [0] * 192
        self.code = code
        self.store_host = store_host.encode()
        self.store_address = hosts.to_bytes(store_host) or bytes(8)
        check_own(own)
        pairs = list(own)
        if hosts.to_bytes(store_host) is None:
            pairs.append((names.STORE_HOST, store_host))
        self.own_text = properties.write(pairs)
        self.own_size = len(self.own_text)
        self.exact = [[name.encode() for name in sorted(plain_names.EXACT) if ord(name[0]) == c] for c in range(256)]
        self.prefixes = [[name.encode() for name in plain_names.PREFIXES if ord(name[0]) == c] for c in range(256)]
        self.set_extra(own)
        self.count = self.size = self.text_size = self.sys_flag = self.checksum_at = 0
        self.keys_at = self.keys_size = self.keys_count = self.id_at = self.id_size = 0
        self.tag_at = self.tag_size = self.sharding_at = self.sharding_size = 0

    def set_extra(self, own: tuple[tuple[str, str], ...]) -> None:
        """Lay out what a ``litemq`` record has beside the properties that were sent, sorted by name.

        A cell is the place and size of a name and those of its value; the flags' values are filled in when a message
        has them, and left out (size 0) when it has none.
        """
        room = "0" * _MAX_DIGITS
        pairs = sorted([*own, (names.CRC32C, "00000000"), (names.FLAG, room), (names.SYS_FLAG, room)])
        self.extra = bytearray()
        self.extra_count = len(pairs)
        for number, (name, value) in enumerate(pairs):
            cell = 4 * number
            for text in (name.encode(), value.encode()):
                self.extra_cells[cell] = len(self.extra)
                self.extra_cells[cell + 1] = len(text)
                self.extra += text
                cell += 2
            if name == names.CRC32C:
                self.checksum_cell = 4 * number
            elif name == names.FLAG:
                self.flag_cell = 4 * number
            elif name == names.SYS_FLAG:
                self.sys_flag_cell = 4 * number

    # -- planning --------------------------------------------------------------------------------

    @cython.cfunc
    @cython.exceptval(-1)
    def plan(self, spans: Spans, o: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the size of the record of the send in ``spans.rows[o]``, 0 when it is not plain.

        Topic, queue and sizes of a store are its own business.
        """
        p: cython.p_uchar = spans.text
        at: cython.Py_ssize_t = spans.rows[o + _PROPERTIES_AT]
        end: cython.Py_ssize_t = at + spans.rows[o + _PROPERTIES_SIZE]
        born: cython.Py_ssize_t = len(spans.peer.address)
        flag: cython.longlong = spans.rows[o + _SYS_FLAG]
        topic: cython.Py_ssize_t = spans.rows[o + _TOPIC_SIZE]
        body: cython.Py_ssize_t = spans.rows[o + _BODY_SIZE]
        # The table speaks of these buffers, but their owner may have set others.
        if end > len(spans.text) or spans.rows[o + _TOPIC_AT] + topic > len(spans.text):
            return 0
        if spans.rows[o + _BODY_AT] + body > len(spans.data):
            return 0
        if flag & ~(_KEPT_FLAGS | _HOST_FLAGS) or born == 0 or not self.read_properties(p, at, end):
            return 0
        flag &= _KEPT_FLAGS
        self.sys_flag = flag | (0x10 if born == 20 else 0) | (0x20 if len(self.store_address) == 20 else 0)
        spans.rows[o + _ID_AT] = self.id_at
        spans.rows[o + _ID_SIZE] = self.id_size
        if self.code == 0:
            self.size = _LITEMQ_FIXED + topic + body
            self.set_number(self.flag_cell, spans.rows[o + _MESSAGE_FLAG])
            self.set_number(self.sys_flag_cell, self.sys_flag if flag else 0)
            self.plan_litemq(spans, p)
        else:
            self.size = _ROCKETMQ_FIXED + born + len(self.store_address) + body + topic + (1 if topic <= 127 else 2)
            self.size += self.text_size + _CHECKSUM_SIZE
        return self.size

    @cython.cfunc
    @cython.exceptval(-1)
    def set_number(self, cell: cython.Py_ssize_t, number: cython.longlong) -> cython.int:
        """Fill in the value of a flag's property; 0 leaves the property out."""
        at: cython.Py_ssize_t = self.extra_cells[cell + 2]
        self.extra_cells[cell + 3] = put_decimal(self.extra, at, number) - at if number != 0 else 0
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def plan_litemq(self, spans: Spans, p: cython.p_uchar) -> cython.int:
        """Add what texts, lists and properties of a ``litemq`` record take; sort the properties."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        j: cython.Py_ssize_t
        name: cython.Py_ssize_t
        size: cython.Py_ssize_t
        value: cython.Py_ssize_t
        value_size: cython.Py_ssize_t
        self.size += self.id_size + self.sharding_size + len(spans.peer.text) + len(self.store_host)
        if self.tag_size > 0:
            self.size += 2 + self.tag_size
        if self.keys_count > 0:
            self.size += self.keys_size + self.keys_count + 1  # for each a length of two bytes, but no blanks
        for i in range(self.count):
            k = 4 * i
            name = self.cells[k]
            size = self.cells[k + 1]
            value = self.cells[k + 2]
            value_size = self.cells[k + 3]
            self.size += 4 + size + value_size
            while k > 0 and is_before(p, name, size, p, self.cells[k - 4], self.cells[k - 3]):
                for j in range(4):
                    self.cells[k + j] = self.cells[k + j - 4]
                k -= 4
            self.cells[k] = name
            self.cells[k + 1] = size
            self.cells[k + 2] = value
            self.cells[k + 3] = value_size
        for i in range(self.extra_count):
            if self.extra_cells[4 * i + 3] > 0:
                self.size += 4 + self.extra_cells[4 * i + 1] + self.extra_cells[4 * i + 3]
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def read_properties(self, p: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        """Find the pairs of RocketMQ's text; False when they are not those of a plain send."""
        stop: cython.Py_ssize_t
        middle: cython.Py_ssize_t
        self.count = 0
        self.keys_size = self.keys_count = self.id_size = self.tag_size = self.sharding_size = 0
        self.text_size = self.own_size
        while at < end:
            stop = find(p, at, end, 2)
            middle = find(p, at, stop, 1)
            if middle == at or middle + 1 >= stop or find(p, middle + 1, stop, 1) < stop:
                return False
            if not self.take_pair(p, at, middle - at, middle + 1, stop - middle - 1):
                return False
            self.text_size += stop - at + 1
            at = stop + 1
        return self.id_size > 0 and self.text_size + _CHECKSUM_SIZE <= _MAX_TEXT

    @cython.cfunc
    @cython.exceptval(-1)
    def take_pair(
        self,
        p: cython.p_uchar,
        at: cython.Py_ssize_t,
        name_size: cython.Py_ssize_t,
        value: cython.Py_ssize_t,
        value_size: cython.Py_ssize_t,
    ) -> cython.bint:
        """Note a pair; False when its name came before or means something, or its value is not plain."""
        k: cython.Py_ssize_t
        if name_size == _TAGS_SIZE and same(p, at, _TAGS, 0, name_size):
            if self.tag_size > 0:
                return False
            self.tag_at = value
            self.tag_size = value_size
            return True
        if name_size == _KEYS_SIZE and same(p, at, _KEYS, 0, name_size):
            if self.keys_size > 0:
                return False
            self.keys_at = value
            self.keys_size = value_size
            self.keys_count = count_keys(p, value, value + value_size)
            return self.keys_count > 0
        if name_size == _UNIQ_KEY_SIZE and same(p, at, _UNIQ_KEY, 0, name_size):
            if self.id_size > 0:
                return False
            self.id_at = value
            self.id_size = value_size
            return True
        if name_size == _SHARDING_KEY_SIZE and same(p, at, _SHARDING_KEY, 0, name_size):
            if self.sharding_size > 0:
                return False
            self.sharding_at = value
            self.sharding_size = value_size
            return True
        if self.count >= _MAX_PAIRS or self.is_special(p, at, name_size):
            return False
        for k in range(0, 4 * self.count, 4):
            if self.cells[k + 1] == name_size and same(p, at, p, self.cells[k], name_size):
                return False
        k = 4 * self.count
        self.cells[k] = at
        self.cells[k + 1] = name_size
        self.cells[k + 2] = value
        self.cells[k + 3] = value_size
        self.count += 1
        return True

    @cython.cfunc
    @cython.exceptval(-1)
    def is_special(self, p: cython.p_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.bint:
        """Return whether the name must be looked at; see ``plain_names``."""
        name: bytes
        for name in cython.cast(list, self.exact[p[at]]):
            if len(name) == size and same(p, at, name, 0, size):
                return True
        for name in cython.cast(list, self.prefixes[p[at]]):
            if len(name) <= size and same(p, at, name, 0, len(name)):
                return True
        return False

    # -- writing ---------------------------------------------------------------------------------

    @cython.cfunc
    @cython.exceptval(-1)
    def put(
        self,
        p: cython.p_uchar,
        at: cython.Py_ssize_t,
        spans: Spans,
        s: cython.Py_ssize_t,
        position: cython.longlong,
        queue_offset: cython.longlong,
        store_time: cython.longlong,
        rows: cython.p_longlong,
        o: cython.Py_ssize_t,
    ) -> cython.int:
        """Write the planned record at ``p[at]`` and its row at ``rows[o]``."""
        i: cython.Py_ssize_t
        if cython.compiled:
            memset(rows + o, 0, _ROW_WIDTH * 8)
        else:
            for i in range(o, o + _ROW_WIDTH):
                rows[i] = 0
        rows[o + _ROW_POSITION] = position
        rows[o + _ROW_SIZE] = self.size
        rows[o + _ROW_CHECKED] = 1
        rows[o + _ROW_QUEUE_ID] = spans.rows[s + _QUEUE_ID]
        rows[o + _ROW_QUEUE_OFFSET] = queue_offset
        rows[o + _ROW_STORE_TIME] = store_time
        rows[o + _ROW_ORIGIN] = -1
        if self.code == 0:
            return self.put_litemq(p, at, spans, s, position, queue_offset, store_time, rows, o)
        return self.put_rocketmq(p, at, spans, s, position, queue_offset, store_time, rows, o)

    @cython.cfunc
    @cython.exceptval(-1)
    def put_rocketmq(
        self,
        p: cython.p_uchar,
        at: cython.Py_ssize_t,
        spans: Spans,
        s: cython.Py_ssize_t,
        position: cython.longlong,
        queue_offset: cython.longlong,
        store_time: cython.longlong,
        rows: cython.p_longlong,
        o: cython.Py_ssize_t,
    ) -> cython.int:
        """Write a ``rocketmq`` record, with the checksum of the whole of it."""
        text: cython.p_uchar = spans.text
        c: cython.Py_ssize_t
        k: cython.Py_ssize_t
        body: cython.Py_ssize_t
        behind: cython.Py_ssize_t
        size: cython.Py_ssize_t = spans.rows[s + _TOPIC_SIZE]
        value: cython.longlong
        crc: cython.uint
        put32(p, at, self.size)
        put32(p, at + 4, _MAGIC_1 if size <= 127 else _MAGIC_2)
        put32(p, at + 12, spans.rows[s + _QUEUE_ID])
        put32(p, at + 16, spans.rows[s + _MESSAGE_FLAG])
        put64(p, at + 20, queue_offset)
        put64(p, at + 28, position)
        put32(p, at + 36, self.sys_flag)
        put64(p, at + 40, spans.rows[s + _BORN_TIME])
        copy(p, at + 48, spans.peer.address, 0, len(spans.peer.address))
        c = at + 48 + len(spans.peer.address)
        put64(p, c, store_time)
        copy(p, c + 8, self.store_address, 0, len(self.store_address))
        c += 8 + len(self.store_address)
        put32(p, c, spans.rows[s + _RECONSUME_TIMES])
        put64(p, c + 4, 0)
        put32(p, c + 12, spans.rows[s + _BODY_SIZE])
        body = c + 16
        behind = body + spans.rows[s + _BODY_SIZE]
        copy(p, body, spans.data, spans.rows[s + _BODY_AT], behind - body)
        if behind - body < _SHORT:
            crc = crc32_of(p, body, behind)
        else:
            k = spans.rows[s + _BODY_AT]
            crc = zlib.crc32(memoryview(spans.data)[k : k + (behind - body)])
        put32(p, at + 8, crc & 0x7FFFFFFF)
        c = behind
        if size <= 127:
            p[c] = size
            c += 1
        else:
            put16(p, c, size)
            c += 2
        rows[o + _ROW_TOPIC_AT] = c
        rows[o + _ROW_TOPIC_SIZE] = size
        copy(p, c, text, spans.rows[s + _TOPIC_AT], size)
        c += size
        put16(p, c, self.text_size + _CHECKSUM_SIZE)
        c += 2
        rows[o + _ROW_KEYS_COUNT] = -1
        if self.keys_size > 0:
            rows[o + _ROW_KEYS_AT] = put_pair(p, c, _KEYS, text, self.keys_at, self.keys_size)
            rows[o + _ROW_KEYS_SIZE] = self.keys_size
            c = rows[o + _ROW_KEYS_AT] + self.keys_size + 1
        rows[o + _ROW_ID_AT] = put_pair(p, c, _UNIQ_KEY, text, self.id_at, self.id_size)
        rows[o + _ROW_ID_SIZE] = self.id_size
        c = rows[o + _ROW_ID_AT] + self.id_size + 1
        if self.tag_size > 0:
            c = put_pair(p, c, _TAGS, text, self.tag_at, self.tag_size) + self.tag_size + 1
            value = hash_utf8(text, self.tag_at, self.tag_at + self.tag_size, 0)
            rows[o + _ROW_TAG_HASH] = value - _WHOLE if value >= _HALF else value
        if self.sharding_size > 0:
            c = put_pair(p, c, _SHARDING_KEY, text, self.sharding_at, self.sharding_size) + self.sharding_size + 1
        for k in range(0, 4 * self.count, 4):
            size = self.cells[k + 1] + 1 + self.cells[k + 3]  # name, byte 1 and value stand as they were sent
            copy(p, c, text, self.cells[k], size)
            p[c + size] = 2
            c += size + 1
        copy(p, c, self.own_text, 0, self.own_size)
        c += self.own_size
        put_crc32(p, c, crc32_around(p, at, body, behind, c, crc))
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def put_litemq(
        self,
        p: cython.p_uchar,
        at: cython.Py_ssize_t,
        spans: Spans,
        s: cython.Py_ssize_t,
        position: cython.longlong,
        queue_offset: cython.longlong,
        store_time: cython.longlong,
        rows: cython.p_longlong,
        o: cython.Py_ssize_t,
    ) -> cython.int:
        """Write a ``litemq`` record."""
        text: cython.p_uchar = spans.text
        c: cython.Py_ssize_t
        i: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        digits: cython.Py_ssize_t
        size: cython.Py_ssize_t
        crc: cython.uint
        put32(p, at, self.size - 4)
        put32(p, at + 4, 0x4C4D5101)
        rows[o + _ROW_ID_AT] = at + 10
        rows[o + _ROW_ID_SIZE] = self.id_size
        c = put_text(p, at + 8, text, self.id_at, self.id_size)
        rows[o + _ROW_TOPIC_AT] = c + 2
        rows[o + _ROW_TOPIC_SIZE] = spans.rows[s + _TOPIC_SIZE]
        c = put_text(p, c, text, spans.rows[s + _TOPIC_AT], spans.rows[s + _TOPIC_SIZE])
        put32(p, c, 1 if self.tag_size > 0 else 0)
        c += 4
        if self.tag_size > 0:
            c = put_text(p, c, text, self.tag_at, self.tag_size)
            rows[o + _ROW_TAG_HASH] = hash_utf8(text, self.tag_at, self.tag_at + self.tag_size, 0)
        put32(p, c, self.keys_count)
        c += 4
        rows[o + _ROW_KEYS_AT] = c
        rows[o + _ROW_KEYS_COUNT] = self.keys_count
        i = self.keys_at
        while self.keys_count > 0 and i < self.keys_at + self.keys_size:
            stop = find(text, i, self.keys_at + self.keys_size, 32)
            c = put_text(p, c, text, i, stop - i)
            i = stop + 1
        rows[o + _ROW_KEYS_SIZE] = c - rows[o + _ROW_KEYS_AT]
        digits = c
        c = self.put_properties(p, c, text)
        digits += self.checksum_at
        size = spans.rows[s + _BODY_SIZE]
        put32(p, c, size)
        copy(p, c + 4, spans.data, spans.rows[s + _BODY_AT], size)
        c += 4 + size
        p[c] = _ORDER if self.sharding_size > 0 else 0
        p[c + 1] = 0
        p[c + 2] = 0
        put64(p, c + 3, 0)
        put16(p, c + 11, 0)
        p[c + 13] = 0
        c = put_text(p, c + 14, text, self.sharding_at, self.sharding_size)
        p[c] = 0
        put64(p, c + 1, spans.rows[s + _BORN_TIME])
        c = put_text(p, c + 9, spans.peer.text, 0, len(spans.peer.text))
        c = put_text(p, c, self.store_host, 0, len(self.store_host))
        put32(p, c, spans.rows[s + _QUEUE_ID])
        put64(p, c + 4, queue_offset)
        put64(p, c + 12, position)
        put32(p, c + 20, self.size)
        put64(p, c + 24, store_time)
        put64(p, c + 32, 0)
        put64(p, c + 40, 0)
        put32(p, c + 48, spans.rows[s + _RECONSUME_TIMES])
        crc = crc32c_of(p, at, at + self.size, 0)
        for i in range(8):
            p[digits + i] = _HEX[(crc >> (28 - 4 * i)) & 15]
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def put_properties(self, p: cython.p_uchar, at: cython.Py_ssize_t, text: cython.p_uchar) -> cython.Py_ssize_t:
        """Write the property field, sorted; return the place behind it, and note where the checksum's digits stand."""
        extra: cython.p_uchar = self.extra
        start: cython.Py_ssize_t = at
        k: cython.Py_ssize_t = 0
        e: cython.Py_ssize_t = 0
        count: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = 4 * self.count
        extra_end: cython.Py_ssize_t = 4 * self.extra_count
        at += 4
        while True:
            while e < extra_end and self.extra_cells[e + 3] == 0:
                e += 4
            if e >= extra_end and k >= end:
                break
            count += 1
            if e >= extra_end or (
                k < end
                and is_before(
                    text, self.cells[k], self.cells[k + 1], extra, self.extra_cells[e], self.extra_cells[e + 1]
                )
            ):
                at = put_text(p, at, text, self.cells[k], self.cells[k + 1])
                at = put_text(p, at, text, self.cells[k + 2], self.cells[k + 3])
                k += 4
            else:
                at = put_text(p, at, extra, self.extra_cells[e], self.extra_cells[e + 1])
                if e == self.checksum_cell:
                    self.checksum_at = at + 2 - start
                at = put_text(p, at, extra, self.extra_cells[e + 2], self.extra_cells[e + 3])
                e += 4
        put32(p, start, count)
        return at


def check_own(own: tuple[tuple[str, str], ...]) -> None:
    """Refuse pairs for every record that are not a broker's, or that a text cannot hold."""
    for name, value in own:
        if name not in plain_names.ADDED or not properties.can_hold(name, value) or not is_text(value):
            raise ValueError(f"{name!r} = {value!r} cannot be a property of every record")
    if len({name for name, _ in own}) < len(own):
        raise ValueError("a property of every record is named twice")
