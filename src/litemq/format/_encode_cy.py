"""Kernel: write messages as records of the two formats that a store writes, ``litemq`` and ``rocketmq``.

Two steps, because the place of a record depends on its size: ``plan_…`` finds the exact size and settles everything
that is not a plain copy, ``put_…`` writes the bytes and the row for the dispatcher.  A plain message (no properties,
no flags) costs no Python object beyond itself.  Layouts: ``litemq.py``, ``rocketmq.py``.
"""

from __future__ import annotations

import json
import zlib

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize
    from cython.cimports.libc.string import memcpy, memset
    from cython.cimports.litemq._message_cy import Message
    from cython.cimports.litemq.format._byte_order_h import put16, put32, put64
    from cython.cimports.litemq.format._scan_cy import note_rocketmq_properties
    from cython.cimports.litemq.format._text_cy import crc32_around, crc32_of, crc32c_of, hash_utf8
else:
    from litemq._message_cy import Message
    from litemq.format._scan_cy import note_rocketmq_properties
    from litemq.format._text_cy import crc32_around, crc32_of, crc32c_of, hash_utf8
    from litemq.format.byte_order import put16, put32, put64

from litemq._message_cy import refuse
from litemq.errors import InvalidRequest, RecordTooLarge
from litemq.format import hosts, names, reserved, well_known
from litemq.format import rows as layout

_POSITION = cython.declare(cython.Py_ssize_t, layout.POSITION)
_SIZE = cython.declare(cython.Py_ssize_t, layout.SIZE)
_CHECKED = cython.declare(cython.Py_ssize_t, layout.CHECKED)
_QUEUE_ID = cython.declare(cython.Py_ssize_t, layout.QUEUE_ID)
_QUEUE_OFFSET = cython.declare(cython.Py_ssize_t, layout.QUEUE_OFFSET)
_TAG_HASH = cython.declare(cython.Py_ssize_t, layout.TAG_HASH)
_STORE_TIME = cython.declare(cython.Py_ssize_t, layout.STORE_TIME)
_STATUS = cython.declare(cython.Py_ssize_t, layout.STATUS)
_TOPIC_AT = cython.declare(cython.Py_ssize_t, layout.TOPIC_AT)
_TOPIC_SIZE = cython.declare(cython.Py_ssize_t, layout.TOPIC_SIZE)
_ID_AT = cython.declare(cython.Py_ssize_t, layout.ID_AT)
_ID_SIZE = cython.declare(cython.Py_ssize_t, layout.ID_SIZE)
_KEYS_AT = cython.declare(cython.Py_ssize_t, layout.KEYS_AT)
_KEYS_SIZE = cython.declare(cython.Py_ssize_t, layout.KEYS_SIZE)
_KEYS_COUNT = cython.declare(cython.Py_ssize_t, layout.KEYS_COUNT)
_ORIGIN = cython.declare(cython.Py_ssize_t, layout.ORIGIN)
_WIDTH = cython.declare(cython.Py_ssize_t, layout.WIDTH)

_MAGIC_ROCKETMQ_1 = cython.declare(cython.longlong, 0xDAA320A7)
_MAGIC_ROCKETMQ_2 = cython.declare(cython.longlong, 0xDAA320AB)
_HEX = cython.declare(bytes, b"0123456789abcdef")
_NAME_CRC32C = cython.declare(str, names.CRC32C)
_LITEMQ_FIXED = cython.declare(
    cython.Py_ssize_t, 109
)  # every field of the layout but the contents of texts, lists and body
_CRC_PROPERTY = cython.declare(cython.Py_ssize_t, 20)
_NAME_CRC32 = cython.declare(bytes, names.CRC32.encode() + b"\x01")
_CRC32_PROPERTY = cython.declare(cython.Py_ssize_t, 20)  # the name, byte 1, ten digits, byte 2
_SHORT = cython.declare(cython.Py_ssize_t, 1024)  # bytes below which zlib is not worth a call
_ROCKETMQ_FIXED = cython.declare(
    cython.Py_ssize_t, 74
)  # every field but the hosts, the topic with its length, and the contents of body and properties
_ADDRESSES: dict[str, bytes | None] = {}
_MAX_ADDRESSES = 4096


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cclass
class Plan:
    """What ``plan_…`` settles for one message; one object serves a whole batch."""

    if not cython.compiled:
        __slots__ = ("born_host", "checksum", "extra", "plain", "size", "sys_flag", "text")

    def __init__(self) -> None:
        self.size = 0
        self.sys_flag = 0
        self.checksum = 0
        self.plain = True
        self.born_host = b""
        self.text = b""
        self.extra: list[tuple[str, str]] = []


# -- texts --------------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def text_size(text: str, what: str) -> cython.Py_ssize_t:
    """Return the bytes that ``text`` takes; more than a u16 can say is refused."""
    size: cython.Py_ssize_t = 0
    if cython.compiled:
        PyUnicode_AsUTF8AndSize(text, cython.address(size))
    else:
        if type(text) is not str:
            raise TypeError("a text must be str")
        size = len(text.encode())
    if size > 65535:
        raise RecordTooLarge(what=what, size=size, limit=65535)
    return size


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def put_bytes(p: cython.p_uchar, at: cython.Py_ssize_t, data: bytes) -> cython.Py_ssize_t:
    if cython.compiled:
        memcpy(p + at, cython.cast(cython.p_char, data), len(data))
    else:
        p[at : at + len(data)] = data
    return at + len(data)


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def put_text(p: cython.p_uchar, at: cython.Py_ssize_t, text: str) -> cython.Py_ssize_t:
    """Write a u16 length and the text; return the place behind it."""
    size: cython.Py_ssize_t = 0
    if cython.compiled:
        data: cython.pointer(cython.const[cython.char]) = PyUnicode_AsUTF8AndSize(text, cython.address(size))
        memcpy(p + at + 2, data, size)
    else:
        encoded = text.encode()
        size = len(encoded)
        p[at + 2 : at + 2 + size] = encoded
    put16(p, at, size)
    return at + 2 + size


@cython.cfunc
def address_of(text: str) -> bytes | None:
    """Return RocketMQ's bytes of ``ip:port`` (8, or 20 for IPv6), None for any other text."""
    if text in _ADDRESSES:
        return _ADDRESSES[text]
    if len(_ADDRESSES) >= _MAX_ADDRESSES:
        _ADDRESSES.clear()
    answer = _ADDRESSES[text] = hosts.to_bytes(text)
    return answer


@cython.cfunc
@cython.exceptval(-1)
def derived_sys_flag(message: Message, store_host: str) -> cython.int:
    """Return the sys flag that a reader derives from status and hosts."""
    flag: cython.int = message.status << 2
    address: bytes | None
    if message.born_host[:1] == "[":
        address = address_of(message.born_host)
        if address is not None and len(address) == 20:
            flag |= 0x10
    if store_host[:1] == "[":
        address = address_of(store_host)
        if address is not None and len(address) == 20:
            flag |= 0x20
    return flag


@cython.cfunc
@cython.exceptval(-1)
def check_texts(message: Message) -> cython.int:
    """Refuse tags, keys and properties with something else than texts: some would become other texts, or nothing."""
    for item in message.tags:
        if type(item) is not str:
            refuse({name: getattr(message, name) for name in Message.__slots__})
    for item in message.keys:
        if type(item) is not str:
            refuse({name: getattr(message, name) for name in Message.__slots__})
    for key, value in message.properties.items():
        if type(key) is not str or type(value) is not str:
            refuse({name: getattr(message, name) for name in Message.__slots__})
    return 0


@cython.cfunc
@cython.exceptval(-1)
def note_origin(message: Message, rows: cython.p_longlong, o: cython.Py_ssize_t) -> cython.int:
    origin = message.properties.get(names.ORIGIN)
    if origin is not None and origin.isascii() and origin.isdigit() and len(origin) <= 18:
        rows[o + _ORIGIN] = int(origin)
    return 0


@cython.cfunc
@cython.exceptval(-1)
def start_row(
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
    message: Message,
    size: cython.Py_ssize_t,
    position: cython.longlong,
    queue_offset: cython.longlong,
    store_time: cython.longlong,
) -> cython.int:
    i: cython.Py_ssize_t
    if cython.compiled:
        memset(rows + o, 0, _WIDTH * 8)
    else:
        for i in range(o, o + _WIDTH):
            rows[i] = 0
    rows[o + _POSITION] = position
    rows[o + _SIZE] = size
    rows[o + _CHECKED] = 1
    rows[o + _QUEUE_ID] = message.queue_id
    rows[o + _QUEUE_OFFSET] = queue_offset
    rows[o + _STORE_TIME] = store_time
    rows[o + _STATUS] = message.status
    rows[o + _ORIGIN] = -1
    return 0


# -- litemq -------------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(-1)
def plan_litemq(message: Message, store_host: str, plan: Plan) -> cython.int:
    """Settle size and properties of ``message`` as a ``litemq`` record."""
    size: cython.Py_ssize_t = _LITEMQ_FIXED + _CRC_PROPERTY + len(message.body)
    name: str
    value: str
    if not 0 <= message.queue_id <= 0x7FFFFFFF:
        raise InvalidRequest(f"queue_id is {message.queue_id}, it must be 0 to {0x7FFFFFFF}")
    size += text_size(message.message_id, "message id") + text_size(message.topic, "topic")
    size += text_size(message.transaction_id, "transaction id") + text_size(message.sharding_key, "sharding key")
    size += text_size(message.born_host, "born host") + text_size(store_host, "store host")
    for name in message.tags:
        size += 2 + text_size(name, "tag")
    for name in message.keys:
        size += 2 + text_size(name, "key")
    plan.plain = (
        len(message.properties) == 0 and message.flag == 0 and message.prepared_offset == 0 and message.sys_flag is None
    )
    if not plan.plain:
        check_texts(message)
        plan.extra = litemq_properties(message, derived_sys_flag(message, store_host))
        for name, value in plan.extra:
            size += 4 + text_size(name, "property name") + text_size(value, "property value")
    plan.size = size
    return 0


def litemq_properties(message: Message, derived: int) -> list[tuple[str, str]]:
    """Return what the property field holds, sorted, without the checksum."""
    # A plain property that a reader would take for a reserved one is left out: it would change the message.
    properties = {
        name: value
        for name, value in message.properties.items()
        if name not in names.CHECKSUMS
        and not (name in names.RESERVED_IN_LITEMQ and reserved.is_read_in_litemq(name, value))
    }
    if message.flag:
        properties[names.FLAG] = str(message.flag)
    if message.sys_flag is not None and message.sys_flag != derived:
        properties[names.SYS_FLAG] = str(message.sys_flag)
    if message.prepared_offset:
        properties[names.PREPARED_OFFSET] = str(message.prepared_offset)
    return sorted(properties.items())


@cython.cfunc
@cython.exceptval(-1)
def put_litemq(
    p: cython.p_uchar,
    at: cython.Py_ssize_t,
    message: Message,
    plan: Plan,
    position: cython.longlong,
    queue_offset: cython.longlong,
    store_time: cython.longlong,
    store_host: str,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
) -> cython.int:
    """Write the planned record at ``p[at]`` and its row at ``rows[o]``."""
    size: cython.Py_ssize_t = plan.size
    c: cython.Py_ssize_t
    i: cython.Py_ssize_t
    digits: cython.Py_ssize_t = -1
    crc: cython.uint
    name: str
    value: str
    start_row(rows, o, message, size, position, queue_offset, store_time)
    put32(p, at, size - 4)
    put32(p, at + 4, 0x4C4D5101)
    c = put_text(p, at + 8, message.message_id)
    rows[o + _ID_AT] = at + 10
    rows[o + _ID_SIZE] = c - at - 10
    rows[o + _TOPIC_AT] = c + 2
    c = put_text(p, c, message.topic)
    rows[o + _TOPIC_SIZE] = c - rows[o + _TOPIC_AT]
    put32(p, c, len(message.tags))
    c += 4
    i = c
    for name in message.tags:
        c = put_text(p, c, name)
        if rows[o + _TAG_HASH] == 0 and i >= 0:
            rows[o + _TAG_HASH] = hash_utf8(p, i + 2, c, 0)
            i = -1
    put32(p, c, len(message.keys))
    c += 4
    rows[o + _KEYS_AT] = c
    for name in message.keys:
        c = put_text(p, c, name)
    rows[o + _KEYS_SIZE] = c - rows[o + _KEYS_AT]
    rows[o + _KEYS_COUNT] = len(message.keys)
    if plan.plain:
        put32(p, c, 1)
        digits = put_text(p, c + 4, _NAME_CRC32C) + 2
        c = put_zero_digits(p, digits)
    else:
        note_origin(message, rows, o)
        put32(p, c, len(plan.extra) + 1)
        c += 4
        for name, value in plan.extra:
            if digits < 0 and name > _NAME_CRC32C:
                digits = put_text(p, c, _NAME_CRC32C) + 2
                c = put_zero_digits(p, digits)
            c = put_text(p, put_text(p, c, name), value)
        if digits < 0:
            digits = put_text(p, c, _NAME_CRC32C) + 2
            c = put_zero_digits(p, digits)
    put32(p, c, len(message.body))
    c = put_bytes(p, c + 4, message.body)
    p[c] = message.type
    p[c + 1] = message.priority
    p[c + 2] = message.reliability
    put64(p, c + 3, message.delay_time)
    c = put_text(p, c + 11, message.transaction_id)
    p[c] = message.status
    c = put_text(p, c + 1, message.sharding_key)
    p[c] = 1 if message.broadcast else 0
    put64(p, c + 1, message.born_time)
    c = put_text(p, c + 9, message.born_host)
    c = put_text(p, c, store_host)
    put32(p, c, message.queue_id)
    put64(p, c + 4, queue_offset)
    put64(p, c + 12, position)
    put32(p, c + 20, size)
    put64(p, c + 24, store_time)
    put64(p, c + 32, message.consume_start_time)
    put64(p, c + 40, message.consume_end_time)
    put32(p, c + 48, message.reconsume_times)
    if c + 52 != at + size:
        raise InvalidRequest("a message changed while it was written")
    crc = crc32c_of(p, at, at + size, 0)
    for i in range(8):
        p[digits + i] = _HEX[(crc >> (28 - 4 * i)) & 15]
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def put_zero_digits(p: cython.p_uchar, digits: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write the checksum's value as the checksum sees it: a length and eight zeros."""
    i: cython.Py_ssize_t
    put16(p, digits - 2, 8)
    for i in range(digits, digits + 8):
        p[i] = 48
    return digits + 8


# -- rocketmq -----------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(-1)
def plan_rocketmq(
    message: Message, store_host: str, store_address: bytes, plan: Plan, checked: cython.bint
) -> cython.int:
    """Settle size, hosts, sys flag and properties of ``message`` as a ``rocketmq`` record.

    ``checked``: a checksum of the whole record stands at its end, within what properties may take.
    """
    check_texts(message)
    flag: cython.int = derived_sys_flag(message, store_host)
    topic: cython.Py_ssize_t = text_size(message.topic, "topic")
    wide_born: cython.bint
    pairs: list[tuple[str, str]] = []
    if not 0 <= message.queue_id <= 0x7FFFFFFF:
        raise InvalidRequest(f"queue_id is {message.queue_id}, it must be 0 to {0x7FFFFFFF}")
    if message.sys_flag is not None:
        flag = message.sys_flag
    # This record's store host is ours, whatever a forwarded message's flag said of its own.
    flag = flag & ~0x20 | (0x20 if len(store_address) == 20 else 0)
    plan.sys_flag = flag
    address: bytes | None = address_of(message.born_host)
    wide_born = flag & 0x10 != 0
    if address is None or (len(address) == 20) != wide_born:
        address = bytes(20) if wide_born else bytes(8)
        pairs.append((names.BORN_HOST, message.born_host))
    plan.born_host = address
    if address_of(store_host) != store_address:
        pairs.append((names.STORE_HOST, store_host))
    if topic > 32767:
        raise RecordTooLarge(what="topic", size=topic, limit=32767)
    plan.text = rocketmq_text(message, flag, pairs)
    plan.checksum = _CRC32_PROPERTY if checked else 0
    if len(plan.text) + plan.checksum > 32767:
        what = "properties with their checksum" if checked else "properties"
        raise RecordTooLarge(what=what, size=len(plan.text) + plan.checksum, limit=32767)
    plan.size = _ROCKETMQ_FIXED + len(address) + len(store_address) + len(message.body)
    plan.size += topic + (1 if topic <= 127 else 2) + len(plan.text) + plan.checksum
    return 0


def rocketmq_text(message: Message, flag: int, pairs: list[tuple[str, str]]) -> bytes:
    """Return RocketMQ's property text of ``message``; ``pairs`` are reserved ones settled before."""
    found: dict[str, str] = {}
    if message.keys:
        clean = [key for key in message.keys if key and " " not in key and _fits(key)]
        if clean:
            found[names.KEYS] = " ".join(clean)
        if len(clean) != len(message.keys):
            found[names.ALL_KEYS] = json.dumps(message.keys, ensure_ascii=False)
    if message.message_id:
        found[names.UNIQ_KEY] = message.message_id
    if message.tags:
        found[names.TAGS] = message.tags[0]
        if len(message.tags) > 1 or not message.tags[0] or not _fits(message.tags[0]):
            found[names.ALL_TAGS] = json.dumps(message.tags, ensure_ascii=False)
    if message.sharding_key:
        found[names.SHARDING_KEY] = message.sharding_key
    if message.transaction_id:
        found[names.TRANSACTION_ID] = message.transaction_id
    if message.delay_time:
        found[names.TIMER_DELIVER_MS] = str(message.delay_time)
    if message.priority:
        found[names.PRIORITY] = str(message.priority)
    if message.reliability:
        found[names.RELIABILITY] = str(message.reliability)
    if message.status != (flag >> 2) & 3:
        found[names.STATUS] = names.STATUS_NAMES[message.status]
    if message.broadcast:
        found[names.BROADCAST] = "1"
    if message.consume_start_time:
        found[names.CONSUME_START_TIME] = str(message.consume_start_time)
    if message.consume_end_time:
        found[names.CONSUME_END_TIME] = str(message.consume_end_time)
    for name, value in message.properties.items():
        # A plain property that a reader would take for something else is left out: it would change the message.
        if name in found or name in names.CHECKSUMS:
            continue
        if name not in names.TAKEN_IN_ROCKETMQ or not well_known.is_read_in_rocketmq(name, value):
            found[name] = value
    found.update(pairs)
    found = {name: value for name, value in found.items() if name and value and _fits(name) and _fits(value)}
    if message.type or names.TRAN_MSG in found or names.SHARDING_KEY in found or _has_delay(found):
        if names.TYPE_NAMES[message.type] != derived_type(found):
            found[names.TYPE] = names.TYPE_NAMES[message.type]
    return b"".join([b"%b\x01%b\x02" % (name.encode(), value.encode()) for name, value in found.items()])


def derived_type(properties: dict[str, str]) -> str:
    """Return the type that a reader of RocketMQ's properties sees."""
    if properties.get(names.TRAN_MSG) == "true":
        return "transaction"
    if _has_delay(properties):
        return "delay"
    return "order" if properties.get(names.SHARDING_KEY) else "normal"


def _has_delay(properties: dict[str, str]) -> bool:
    return any(name in properties for name in names.DELAY_PROPERTIES)


def _fits(text: str) -> bool:
    """Return whether RocketMQ's text can hold it: bytes 1 and 2 are its separators."""
    return "\x01" not in text and "\x02" not in text


@cython.cfunc
@cython.exceptval(-1)
def put_rocketmq(
    p: cython.p_uchar,
    at: cython.Py_ssize_t,
    message: Message,
    plan: Plan,
    position: cython.longlong,
    queue_offset: cython.longlong,
    store_time: cython.longlong,
    store_address: bytes,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
) -> cython.int:
    """Write the planned record at ``p[at]`` and its row at ``rows[o]``."""
    c: cython.Py_ssize_t
    body: cython.Py_ssize_t
    behind: cython.Py_ssize_t
    end: cython.Py_ssize_t = at + plan.size
    crc: cython.uint
    topic: bytes = message.topic.encode()
    start_row(rows, o, message, plan.size, position, queue_offset, store_time)
    rows[o + layout.STATUS] = (plan.sys_flag >> 2) & 3
    put32(p, at, plan.size)
    put32(p, at + 4, _MAGIC_ROCKETMQ_1 if len(topic) <= 127 else _MAGIC_ROCKETMQ_2)
    put32(p, at + 12, message.queue_id)
    put32(p, at + 16, message.flag)
    put64(p, at + 20, queue_offset)
    put64(p, at + 28, position)
    put32(p, at + 36, plan.sys_flag)
    put64(p, at + 40, message.born_time)
    c = put_bytes(p, at + 48, plan.born_host)
    put64(p, c, store_time)
    c = put_bytes(p, c + 8, store_address)
    put32(p, c, message.reconsume_times)
    put64(p, c + 4, message.prepared_offset)
    put32(p, c + 12, len(message.body))
    body = c + 16
    c = behind = put_bytes(p, body, message.body)
    if behind - body < _SHORT:
        crc = crc32_of(p, body, behind)
    else:
        crc = zlib.crc32(message.body)
    put32(p, at + 8, crc & 0x7FFFFFFF)
    if len(topic) <= 127:
        p[c] = len(topic)
        c += 1
    else:
        put16(p, c, len(topic))
        c += 2
    rows[o + _TOPIC_AT] = c
    rows[o + _TOPIC_SIZE] = len(topic)
    c = put_bytes(p, c, topic)
    put16(p, c, len(plan.text) + plan.checksum)
    put_bytes(p, c + 2, plan.text)
    if c + 2 + len(plan.text) + plan.checksum != end:
        raise InvalidRequest("a message changed while it was written")
    if plan.checksum > 0:
        put_crc32(p, end - _CRC32_PROPERTY, crc32_around(p, at, body, behind, end - _CRC32_PROPERTY, crc))
    note_rocketmq_properties(p, c + 2, end - plan.checksum, rows, o)
    return 0


@cython.cfunc
@cython.exceptval(-1)
def put_crc32(p: cython.p_uchar, at: cython.Py_ssize_t, crc: cython.uint) -> cython.int:
    """Write RocketMQ's checksum of a record: 31 bits as ten decimal digits, the least significant first."""
    i: cython.Py_ssize_t
    at = put_bytes(p, at, _NAME_CRC32)
    crc &= 0x7FFFFFFF
    for i in range(at, at + 10):
        p[i] = 48 + crc % 10
        crc //= 10
    p[at + 10] = 2
    return 0


# -- one record at a time, for converters and tests ---------------------------------------------


def encode(
    code: int,
    message: Message,
    *,
    position: int,
    queue_offset: int,
    store_time: int,
    store_host: str,
    checked: bool = False,
) -> bytes:
    """Return ``message`` as one record of format ``code`` (0 litemq, 1 rocketmq: with its checksum if ``checked``)."""
    plan = Plan()
    table: cython.longlong[::1] = layout.table(1)
    p: cython.p_uchar
    rows: cython.p_longlong
    address: bytes = b""
    if code == 0:
        plan_litemq(message, store_host, plan)
    else:
        address = store_address_of(message, store_host)
        plan_rocketmq(message, store_host, address, plan, checked)
    out = bytearray(plan.size)
    p = out
    if cython.compiled:
        rows = cython.address(table[0])
    else:
        rows = table
    if code == 0:
        put_litemq(p, 0, message, plan, position, queue_offset, store_time, store_host, rows, 0)
    else:
        put_rocketmq(p, 0, message, plan, position, queue_offset, store_time, address, rows, 0)
    return bytes(out)


def store_address_of(message: Message, store_host: str) -> bytes:
    """Return the store host's bytes as the sys flag wants them; zeros where bytes cannot say it."""
    flag = message.sys_flag if message.sys_flag is not None else derived_sys_flag(message, store_host)
    width = 20 if flag & 0x20 else 8
    address = address_of(store_host)
    return address if address is not None and len(address) == width else bytes(width)
