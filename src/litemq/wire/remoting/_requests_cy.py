"""Kernel: split what was read into frames, and decode the headers of hot requests into the table of spans.

Hot are sends (10, 310, 320, each single or a batch) and pulls (11, 361), in both header codecs.  A row is one of them
only when its header has the known fields with sound values; anything odd makes it OTHER, and ``command`` decodes the
frame.  So nothing here has to answer for a header: it takes what it fully understands, exactly as ``command`` would.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy, memset
    from cython.cimports.litemq.format._byte_order_h import copy, find_special, i32, same, u16, u32
    from cython.cimports.litemq.format._spans_cy import Spans
    from cython.cimports.litemq.format._text_cy import is_utf8
else:
    from litemq.format._spans_cy import Spans
    from litemq.format._text_cy import is_utf8
    from litemq.format.byte_order import copy, find_special, i32, same, u16, u32

from litemq.format import spans as columns
from litemq.wire.remoting.codes import MAX_FRAME_SIZE

_KIND = cython.declare(cython.Py_ssize_t, columns.KIND)
_FRAME_AT = cython.declare(cython.Py_ssize_t, columns.FRAME_AT)
_FRAME_SIZE = cython.declare(cython.Py_ssize_t, columns.FRAME_SIZE)
_CODEC = cython.declare(cython.Py_ssize_t, columns.CODEC)
_CODE = cython.declare(cython.Py_ssize_t, columns.CODE)
_OPAQUE = cython.declare(cython.Py_ssize_t, columns.OPAQUE)
_COMMAND_FLAG = cython.declare(cython.Py_ssize_t, columns.COMMAND_FLAG)
_VERSION = cython.declare(cython.Py_ssize_t, columns.VERSION)
_BODY_AT = cython.declare(cython.Py_ssize_t, columns.BODY_AT)
_BODY_SIZE = cython.declare(cython.Py_ssize_t, columns.BODY_SIZE)
_ENTRY_COUNT = cython.declare(cython.Py_ssize_t, columns.ENTRY_COUNT)
_TOPIC_AT = cython.declare(cython.Py_ssize_t, columns.TOPIC_AT)
_TOPIC_SIZE = cython.declare(cython.Py_ssize_t, columns.TOPIC_SIZE)
_GROUP_AT = cython.declare(cython.Py_ssize_t, columns.GROUP_AT)
_GROUP_SIZE = cython.declare(cython.Py_ssize_t, columns.GROUP_SIZE)
_PROPERTIES_AT = cython.declare(cython.Py_ssize_t, columns.PROPERTIES_AT)
_PROPERTIES_SIZE = cython.declare(cython.Py_ssize_t, columns.PROPERTIES_SIZE)
_QUEUE_ID = cython.declare(cython.Py_ssize_t, columns.QUEUE_ID)
_SYS_FLAG = cython.declare(cython.Py_ssize_t, columns.SYS_FLAG)
_BORN_TIME = cython.declare(cython.Py_ssize_t, columns.BORN_TIME)
_MESSAGE_FLAG = cython.declare(cython.Py_ssize_t, columns.MESSAGE_FLAG)
_RECONSUME_TIMES = cython.declare(cython.Py_ssize_t, columns.RECONSUME_TIMES)
_OFFSET = cython.declare(cython.Py_ssize_t, columns.OFFSET)
_MAX_COUNT = cython.declare(cython.Py_ssize_t, columns.MAX_COUNT)
_MAX_BYTES = cython.declare(cython.Py_ssize_t, columns.MAX_BYTES)
_COMMIT_OFFSET = cython.declare(cython.Py_ssize_t, columns.COMMIT_OFFSET)
_SUSPEND_MS = cython.declare(cython.Py_ssize_t, columns.SUSPEND_MS)
_SUB_VERSION = cython.declare(cython.Py_ssize_t, columns.SUB_VERSION)
_SUBSCRIPTION_AT = cython.declare(cython.Py_ssize_t, columns.SUBSCRIPTION_AT)
_EXPRESSION_AT = cython.declare(cython.Py_ssize_t, columns.EXPRESSION_AT)
_RECORD_FORMAT = cython.declare(cython.Py_ssize_t, columns.RECORD_FORMAT)
_WIDTH = cython.declare(cython.Py_ssize_t, columns.WIDTH)

_OTHER = cython.declare(cython.int, columns.OTHER)
_SEND = cython.declare(cython.int, columns.SEND)
_BATCH = cython.declare(cython.int, columns.BATCH)
_MORE = cython.declare(cython.int, columns.MORE)
_PULL = cython.declare(cython.int, columns.PULL)
_ANSWER = cython.declare(cython.int, columns.ANSWER)
_FULL = cython.declare(cython.int, columns.FULL)
_BAD_FRAME = cython.declare(cython.int, columns.BAD_FRAME)
_ROW_LIMIT = cython.declare(cython.Py_ssize_t, columns.ROW_LIMIT)
_MAX_FRAME = cython.declare(cython.longlong, MAX_FRAME_SIZE)

_LEAST_32 = cython.declare(cython.longlong, -(1 << 31))
_MOST_32 = cython.declare(cython.longlong, (1 << 31) - 1)
_MOST_64 = cython.declare(cython.longlong, (1 << 63) - 1)
_LEAST_64 = cython.declare(cython.longlong, -_MOST_64 - 1)
_HALF = cython.declare(cython.ulonglong, 1 << 63)
_BINARY_FIXED = cython.declare(cython.Py_ssize_t, 21)
_ENTRY_FIXED = cython.declare(cython.Py_ssize_t, 22)
_COMPRESSED = cython.declare(cython.longlong, 0x701)

# Which fields a request may have.
_NOT_HOT = cython.declare(cython.int, 0)
_LETTERS = cython.declare(cython.int, 1)
_LONG_NAMES = cython.declare(cython.int, 2)
_PULL_NAMES = cython.declare(cython.int, 3)

_NO_FIELD = cython.declare(cython.int, -1)
_IGNORED = cython.declare(cython.int, 31)

# How a value of a JSON header stands there.
_TEXT = cython.declare(cython.int, 0)  # in the header
_BARE = cython.declare(cython.int, 1)  # a number, true or false, without quotes
_UNESCAPED = cython.declare(cython.int, 2)  # behind the table's text: it had escapes
_NULL = cython.declare(cython.int, 3)

_SEND_NAMES = (
    *("producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp"),
    *("flag", "properties", "reconsumeTimes", "unitMode", "maxReconsumeTimes", "batch"),
)
"""Of code 10.  The n-th is the n-th letter in codes 310 and 320."""
_SEND_NEEDS = cython.declare(cython.longlong, 0xFF)
_PULL_FIELDS = (
    *("consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset"),
    *("suspendTimeoutMillis", "subscription", "subVersion", "expressionType", "maxMsgBytes", "requestSource"),
    *("proxyFrowardClientId", "lmqFormat"),
)
_PULL_NEEDS = cython.declare(cython.longlong, 0x2FF)
_HARMLESS = ("bname", "lo", "n", "nsd", "oway", "ReqT")
"""What clients add to any request, and nobody has to look at."""


def _by_size(names: tuple[str, ...]) -> list[list[tuple[bytes, int]]]:
    """Return the names with their numbers, in lists by how long they are."""
    known = [*((name.encode(), number) for number, name in enumerate(names)), *((n.encode(), 31) for n in _HARMLESS)]
    return [[(name, number) for name, number in known if len(name) == size] for size in range(32)]


_LETTER_TABLE = cython.declare(list, _by_size(()))
_SEND_TABLE = cython.declare(list, _by_size(_SEND_NAMES))
_PULL_TABLE = cython.declare(list, _by_size(_PULL_FIELDS))


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


# -- frames -------------------------------------------------------------------------------------


@cython.ccall
@cython.exceptval(-1)
def split(spans: Spans, start: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Fill the table from ``spans.data[start : start + size]``; return how many bytes the frames in it take.

    ``spans.status`` says why it ended.  The size of a frame is checked as soon as its first word is there.
    """
    if spans is None:
        raise TypeError("spans must be a Spans, not None")
    at: cython.Py_ssize_t = start
    end: cython.Py_ssize_t = start + size
    total: cython.longlong
    word: cython.longlong
    p: cython.p_uchar
    spans.clear()
    if start < 0 or size < 0 or end > len(spans.data):
        raise ValueError(f"bytes {start} to {end} of a buffer of {len(spans.data)}")
    p = spans.data
    while end - at >= 4:
        total = u32(p, at) + 4
        if total > _MAX_FRAME or total < 8:
            spans.status = _BAD_FRAME
            break
        if end - at >= 8:
            word = u32(p, at + 4)
            if (word & 0xFFFFFF) > total - 8 or word >> 24 > 1:
                spans.status = _BAD_FRAME
                break
        if end - at < total:
            spans.wanted = total
            break
        if spans.count >= _ROW_LIMIT or not take_frame(spans, p, at, total):
            spans.status = _FULL
            break
        at += total
    return at - start


@cython.cfunc
@cython.exceptval(-1)
def take_frame(spans: Spans, p: cython.p_uchar, at: cython.Py_ssize_t, total: cython.Py_ssize_t) -> cython.int:
    """Add the rows of one frame; 0 when the table has no room for a batch, which is then left for the next split."""
    rows: cython.p_longlong
    i: cython.Py_ssize_t
    o: cython.Py_ssize_t = spans.count * _WIDTH
    header: cython.Py_ssize_t = u32(p, at + 4) & 0xFFFFFF
    text_size: cython.Py_ssize_t = spans.text_size
    kind: cython.int
    spans.need_rows(1)
    spans.need_text(header)  # unescaped, a text does not grow
    if cython.compiled:
        rows = cython.address(spans.rows[0])
        memset(rows + o, 0, _WIDTH * 8)
    else:
        rows = spans.rows
        for i in range(o, o + _WIDTH):
            rows[i] = 0
    rows[o + _FRAME_AT] = at
    rows[o + _FRAME_SIZE] = total
    rows[o + _CODEC] = p[at + 4]
    rows[o + _BODY_AT] = at + 8 + header
    rows[o + _BODY_SIZE] = total - 8 - header
    rows[o + _ENTRY_COUNT] = 1
    rows[o + _MAX_BYTES] = -1
    spans.seen = 0
    spans.is_batch = False
    if p[at + 4] == 1:
        kind = read_binary(spans, p, at + 8, header, rows, o)
    else:
        kind = read_json(spans, p, at + 8, header, rows, o)
    if kind == _SEND and spans.is_batch:
        return take_batch(spans, p, o, text_size)
    rows[o + _KIND] = kind
    if kind == _OTHER or kind == _ANSWER:
        forget_fields(spans, rows, o, text_size)
    spans.count += 1
    return 1


@cython.cfunc
@cython.exceptval(-1)
def forget_fields(
    spans: Spans, rows: cython.p_longlong, o: cython.Py_ssize_t, text_size: cython.Py_ssize_t
) -> cython.int:
    """Take back what was noted of a header that is left to ``command``, with its text."""
    i: cython.Py_ssize_t
    for i in range(o + _TOPIC_AT, o + _WIDTH):
        rows[i] = 0
    spans.text_size = text_size
    return 0


@cython.cfunc
@cython.exceptval(-1)
def take_batch(spans: Spans, p: cython.p_uchar, o: cython.Py_ssize_t, text_size: cython.Py_ssize_t) -> cython.int:
    """Turn the row of a batch into one for each of its entries; 0 when they do not fit into the table.

    ``text_size`` is that from before the header was read.
    """
    rows: cython.p_longlong
    q: cython.p_uchar
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t = spans.rows[o + _BODY_AT]
    end: cython.Py_ssize_t = at + spans.rows[o + _BODY_SIZE]
    size: cython.longlong
    count: cython.Py_ssize_t = 0
    text: cython.Py_ssize_t = 0
    is_sound: cython.bint = at < end and (spans.rows[o + _SYS_FLAG] & _COMPRESSED) == 0
    while is_sound and at < end:
        is_sound = False
        if end - at < _ENTRY_FIXED:
            break
        size = u32(p, at + 16)
        if size > end - at - _ENTRY_FIXED:
            break
        i = at + 20 + size
        size = u16(p, i)
        if size > 32767 or size > end - i - 2 or u32(p, at) != i + 2 + size - at or not is_utf8(p, i + 2, i + 2 + size):
            break
        at = i + 2 + size
        text += size
        count += 1
        is_sound = True
    if cython.compiled:
        rows = cython.address(spans.rows[0])
    else:
        rows = spans.rows
    if not is_sound or count > _ROW_LIMIT:
        forget_fields(spans, rows, o, text_size)
        spans.count += 1
        return 1
    if spans.count + count > _ROW_LIMIT:
        spans.text_size = text_size
        return 0
    spans.need_rows(count)
    spans.need_text(text)
    q = spans.text
    if cython.compiled:
        rows = cython.address(spans.rows[0])
    else:
        rows = spans.rows
    rows[o + _KIND] = _BATCH
    at = rows[o + _BODY_AT]
    for i in range(count):
        if i > 0:
            if cython.compiled:
                memcpy(rows + o + _WIDTH, rows + o, _WIDTH * 8)
            else:
                rows[o + _WIDTH : o + 2 * _WIDTH] = rows[o : o + _WIDTH]
            o += _WIDTH
            rows[o + _KIND] = _MORE
        rows[o + _ENTRY_COUNT] = count if i == 0 else 1
        rows[o + _MESSAGE_FLAG] = i32(p, at + 12)
        size = u32(p, at + 16)
        rows[o + _BODY_AT] = at + 20
        rows[o + _BODY_SIZE] = size
        at += 20 + size
        size = u16(p, at)
        copy(q, spans.text_size, p, at + 2, size)
        rows[o + _PROPERTIES_AT] = spans.text_size
        rows[o + _PROPERTIES_SIZE] = size
        spans.text_size += size
        at += 2 + size
    spans.count += count
    return 1


# -- fields -------------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(check=False)
def family_of(code: cython.longlong) -> cython.int:
    """Return which fields a request of this code has."""
    if code == 310 or code == 320:
        return _LETTERS
    if code == 11 or code == 361:
        return _PULL_NAMES
    if code == 10:
        return _LONG_NAMES
    return _NOT_HOT


@cython.cfunc
@cython.exceptval(-2)
def field_of(p: cython.p_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t, family: cython.int) -> cython.int:
    """Return the number of a field, _IGNORED for one that does not matter, _NO_FIELD for an unknown one."""
    table: list[list[tuple[bytes, int]]]
    name: bytes
    if family == _LETTERS:
        if size == 1:
            if 97 <= p[at] <= 109:
                return p[at] - 97
            return _IGNORED if p[at] == 110 else _NO_FIELD
        table = _LETTER_TABLE
    else:
        table = _PULL_TABLE if family == _PULL_NAMES else _SEND_TABLE
    if size >= 32:
        return _NO_FIELD
    for pair in table[size]:
        name = pair[0]
        if same(p, at, name, 0, size):
            return pair[1]
    return _NO_FIELD


@cython.cfunc
@cython.exceptval(check=False)
def is_number(
    q: cython.p_uchar,
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    least: cython.longlong,
    most: cython.longlong,
    rows: cython.p_longlong,
    cell: cython.Py_ssize_t,
) -> cython.bint:
    """Return whether the text is a decimal number in range; it goes into ``rows[cell]``."""
    value: cython.ulonglong = 0
    number: cython.longlong
    i: cython.Py_ssize_t = at
    end: cython.Py_ssize_t = at + size
    if size > 0 and q[at] == 45:
        i += 1
    if i == end or end - i > 19:
        return False
    while i < end:
        if not 48 <= q[i] <= 57:
            return False
        value = value * 10 + (q[i] - 48)
        i += 1
    if q[at] == 45:
        if value > _HALF:
            return False
        if cython.compiled:
            number = cython.cast(cython.longlong, 0 - value)
        else:
            number = -value
    else:
        if value >= _HALF:
            return False
        number = value
    if not least <= number <= most:
        return False
    rows[cell] = number
    return True


@cython.cfunc
@cython.exceptval(check=False)
def is_new_number(
    spans: Spans,
    q: cython.p_uchar,
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    field: cython.int,
    least: cython.longlong,
    most: cython.longlong,
    rows: cython.p_longlong,
    cell: cython.Py_ssize_t,
) -> cython.bint:
    """``is_number``, and the field, if it came before, had the same value."""
    before: cython.longlong = rows[cell]
    if not is_number(q, at, size, least, most, rows, cell):
        return False
    return not (spans.seen >> field) & 1 or rows[cell] == before


@cython.cfunc
@cython.exceptval(check=False)
def is_bool(q: cython.p_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.int:
    """Return 1 for true, 0 for false, -1 for anything else."""
    if size == 4 and same(q, at, b"true", 0, 4):
        return 1
    if size == 5 and same(q, at, b"false", 0, 5):
        return 0
    return -1


@cython.cfunc
@cython.exceptval(-1)
def take_text(
    spans: Spans,
    q: cython.p_uchar,
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    form: cython.int,
    field: cython.int,
    rows: cython.p_longlong,
    cell: cython.Py_ssize_t,
) -> cython.bint:
    """Keep a text; False when it is no text, or the field had another one before."""
    text: cython.p_uchar = spans.text
    if form == _BARE or not is_utf8(q, at, at + size):
        return False
    if (spans.seen >> field) & 1:
        return rows[cell + 1] == size and same(q, at, text, rows[cell], size)
    if form != _UNESCAPED:
        copy(text, spans.text_size, q, at, size)
    rows[cell] = spans.text_size
    rows[cell + 1] = size
    spans.text_size += size
    return True


@cython.cfunc
@cython.exceptval(-1)
def take_send_field(
    spans: Spans,
    q: cython.p_uchar,
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    form: cython.int,
    field: cython.int,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
) -> cython.bint:
    """Note a field of a send; False when there is something odd about it."""
    flag: cython.int
    if field == 0:
        return take_text(spans, q, at, size, form, field, rows, o + _GROUP_AT)
    if field == 1:
        return take_text(spans, q, at, size, form, field, rows, o + _TOPIC_AT)
    if field == 2:
        return form != _BARE
    if field == 4:
        return is_new_number(spans, q, at, size, field, _LEAST_32, _MOST_32, rows, o + _QUEUE_ID)
    if field == 5:
        return is_new_number(spans, q, at, size, field, _LEAST_32, _MOST_32, rows, o + _SYS_FLAG)
    if field == 6:
        return is_new_number(spans, q, at, size, field, 0, _MOST_64, rows, o + _BORN_TIME)
    if field == 7:
        return is_new_number(spans, q, at, size, field, _LEAST_32, _MOST_32, rows, o + _MESSAGE_FLAG)
    if field == 8:
        return take_text(spans, q, at, size, form, field, rows, o + _PROPERTIES_AT)
    if field == 9:
        return is_new_number(spans, q, at, size, field, 0, _MOST_32, rows, o + _RECONSUME_TIMES)
    if field == 3 or field == 11:  # queues of a new topic, retries of a retry topic: no plain send needs them
        return is_number(q, at, size, _LEAST_32, _MOST_32, rows, o + _OFFSET)
    flag = is_bool(q, at, size)
    if field == 12:
        if flag < 0 or ((spans.seen >> 12) & 1 and spans.is_batch != (flag == 1)):
            return False
        spans.is_batch = flag == 1
    return flag >= 0


@cython.cfunc
@cython.exceptval(-1)
def take_pull_field(
    spans: Spans,
    q: cython.p_uchar,
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    form: cython.int,
    field: cython.int,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
) -> cython.bint:
    """Note a field of a pull; False when there is something odd about it."""
    if field == 0:
        return take_text(spans, q, at, size, form, field, rows, o + _GROUP_AT)
    if field == 1:
        return take_text(spans, q, at, size, form, field, rows, o + _TOPIC_AT)
    if field == 2:
        return is_new_number(spans, q, at, size, field, _LEAST_32, _MOST_32, rows, o + _QUEUE_ID)
    if field == 3:
        return is_new_number(spans, q, at, size, field, _LEAST_64, _MOST_64, rows, o + _OFFSET)
    if field == 4:
        return is_new_number(spans, q, at, size, field, _LEAST_32, _MOST_32, rows, o + _MAX_COUNT)
    if field == 5:
        return is_new_number(spans, q, at, size, field, _LEAST_32, _MOST_32, rows, o + _SYS_FLAG)
    if field == 6:
        return is_new_number(spans, q, at, size, field, _LEAST_64, _MOST_64, rows, o + _COMMIT_OFFSET)
    if field == 7:
        return is_new_number(spans, q, at, size, field, _LEAST_64, _MOST_64, rows, o + _SUSPEND_MS)
    if field == 8:
        return take_text(spans, q, at, size, form, field, rows, o + _SUBSCRIPTION_AT)
    if field == 9:
        return is_new_number(spans, q, at, size, field, _LEAST_64, _MOST_64, rows, o + _SUB_VERSION)
    if field == 10:
        return take_text(spans, q, at, size, form, field, rows, o + _EXPRESSION_AT)
    if field == 11:
        return is_new_number(spans, q, at, size, field, 0, _MOST_32, rows, o + _MAX_BYTES)
    if field == 12:  # who asks in a proxy's name; not needed
        return is_number(q, at, size, _LEAST_32, _MOST_32, rows, o + _BORN_TIME)
    if field == 14 and form != _BARE and size == 6 and same(q, at, b"litemq", 0, 6):
        rows[o + _RECORD_FORMAT] = 1
        return True
    return False


@cython.cfunc
@cython.exceptval(-1)
def take_field(
    spans: Spans,
    field: cython.int,
    q: cython.p_uchar,
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    form: cython.int,
    family: cython.int,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
) -> cython.bint:
    """Note a field; False when there is something odd about it."""
    if field == _IGNORED:
        return True
    if field == _NO_FIELD:
        return False
    if family == _PULL_NAMES:
        if not take_pull_field(spans, q, at, size, form, field, rows, o):
            return False
    elif not take_send_field(spans, q, at, size, form, field, rows, o):
        return False
    if cython.compiled:
        spans.seen |= cython.cast(cython.longlong, 1) << field
    else:
        spans.seen |= 1 << field
    return True


@cython.cfunc
@cython.exceptval(check=False)
def kind_of(spans: Spans, family: cython.int, rows: cython.p_longlong, o: cython.Py_ssize_t) -> cython.int:
    """Return what a request is of which every field was taken."""
    if rows[o + _TOPIC_SIZE] == 0 or rows[o + _GROUP_SIZE] == 0:
        return _OTHER
    if family == _PULL_NAMES:
        rows[o + _BORN_TIME] = 0  # the cells of values that nobody needs
        return _PULL if (spans.seen & _PULL_NEEDS) == _PULL_NEEDS else _OTHER
    rows[o + _OFFSET] = 0
    return _SEND if (spans.seen & _SEND_NEEDS) == _SEND_NEEDS else _OTHER


# -- binary header ------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(-1)
def read_binary(
    spans: Spans,
    p: cython.p_uchar,
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
) -> cython.int:
    """Read a binary header; return the row's kind."""
    end: cython.Py_ssize_t = at + size
    c: cython.Py_ssize_t
    key: cython.Py_ssize_t
    key_size: cython.longlong
    value_size: cython.longlong
    family: cython.int
    if size < _BINARY_FIXED:
        return _OTHER
    rows[o + _CODE] = (u16(p, at) ^ 0x8000) - 0x8000
    rows[o + _VERSION] = (u16(p, at + 3) ^ 0x8000) - 0x8000
    rows[o + _OPAQUE] = i32(p, at + 5)
    rows[o + _COMMAND_FLAG] = i32(p, at + 9)
    if rows[o + _COMMAND_FLAG] & 1:
        return _ANSWER
    family = family_of(rows[o + _CODE])
    value_size = u32(p, at + 13)
    if family == _NOT_HOT or value_size > size - _BINARY_FIXED:
        return _OTHER
    c = at + 17 + value_size
    value_size = u32(p, c)
    c += 4
    if value_size > end - c:
        return _OTHER
    end = c + value_size
    while c < end:
        if end - c < 6:
            return _OTHER
        key_size = u16(p, c)
        if key_size > 32767 or key_size > end - c - 6:
            return _OTHER
        key = c + 2
        c = key + key_size
        value_size = u32(p, c)
        c += 4
        if value_size > end - c:
            return _OTHER
        if key_size > 0 and value_size > 0:
            if not take_field(spans, field_of(p, key, key_size, family), p, c, value_size, _TEXT, family, rows, o):
                return _OTHER
        c += value_size
    return kind_of(spans, family, rows, o)


# -- JSON header --------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(check=False)
def skip_blanks(p: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the place of the next byte that is no blank."""
    while at < end and (p[at] == 32 or p[at] == 10 or p[at] == 13 or p[at] == 9):
        at += 1
    return at


@cython.cfunc
@cython.exceptval(check=False)
def hex4(p: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
    """Return the number in four hex digits, -1 where there are none."""
    value: cython.int = 0
    i: cython.Py_ssize_t
    c: cython.int
    if end - at < 4:
        return -1
    for i in range(at, at + 4):
        c = p[i]
        if 48 <= c <= 57:
            c -= 48
        elif 65 <= c <= 70:
            c -= 55
        elif 97 <= c <= 102:
            c -= 87
        else:
            return -1
        value = value * 16 + c
    return value


@cython.cfunc
@cython.exceptval(check=False)
def short_escape(c: cython.int) -> cython.int:
    """Return the byte that a backslash and ``c`` stand for, -1 for none."""
    if c == 34 or c == 92 or c == 47:
        return c
    if c == 98:
        return 8
    if c == 102:
        return 12
    if c == 110:
        return 10
    if c == 114:
        return 13
    return 9 if c == 116 else -1


@cython.cfunc
@cython.exceptval(check=False)
def put_utf8(q: cython.p_uchar, at: cython.Py_ssize_t, c: cython.int) -> cython.Py_ssize_t:
    """Write a code point; return the place behind it."""
    if c < 0x80:
        q[at] = c
        return at + 1
    if c < 0x800:
        q[at] = 0xC0 | (c >> 6)
        q[at + 1] = 0x80 | (c & 0x3F)
        return at + 2
    if c < 0x10000:
        q[at] = 0xE0 | (c >> 12)
        q[at + 1] = 0x80 | ((c >> 6) & 0x3F)
        q[at + 2] = 0x80 | (c & 0x3F)
        return at + 3
    q[at] = 0xF0 | (c >> 18)
    q[at + 1] = 0x80 | ((c >> 12) & 0x3F)
    q[at + 2] = 0x80 | ((c >> 6) & 0x3F)
    q[at + 3] = 0x80 | (c & 0x3F)
    return at + 4


@cython.cfunc
@cython.exceptval(-2)
def unescape(spans: Spans, p: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write the string from ``at`` on behind the table's text; return the place behind its quote, -1 if it is odd."""
    q: cython.p_uchar = spans.text
    to: cython.Py_ssize_t = spans.text_size
    stop: cython.Py_ssize_t
    c: cython.int
    low: cython.int
    while True:
        stop = find_special(p, at, end)
        copy(q, to, p, at, stop - at)
        to += stop - at
        if stop >= end or p[stop] < 32:
            return -1
        if p[stop] == 34:
            spans.value_form = _UNESCAPED
            spans.value_at = spans.text_size
            spans.value_size = to - spans.text_size
            return stop + 1
        if end - stop < 2:
            return -1
        at = stop + 2
        if p[stop + 1] != 117:
            c = short_escape(p[stop + 1])
        else:
            c = hex4(p, at, end)
            at += 4
            if 0xD800 <= c < 0xE000:
                if c >= 0xDC00 or end - at < 6 or p[at] != 92 or p[at + 1] != 117:
                    return -1
                low = hex4(p, at + 2, end)
                if not 0xDC00 <= low < 0xE000:
                    return -1
                at += 6
                c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00)
        if c < 0:
            return -1
        to = put_utf8(q, to, c)


@cython.cfunc
@cython.exceptval(-2)
def scan_value(spans: Spans, p: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Find the string, whole number, true, false or null at ``at``; return the place behind it, -1 if it is odd."""
    stop: cython.Py_ssize_t
    c: cython.int
    if at >= end:
        return -1
    c = p[at]
    if c == 34:
        stop = find_special(p, at + 1, end)
        if stop >= end or p[stop] < 32:
            return -1
        if p[stop] == 92:
            return unescape(spans, p, at + 1, end)
        spans.value_form = _TEXT
        spans.value_at = at + 1
        spans.value_size = stop - at - 1
        return stop + 1
    spans.value_form = _BARE
    spans.value_at = at
    stop = at
    if c == 45 or 48 <= c <= 57:
        if c == 45:
            stop += 1
        at = stop
        while stop < end and 48 <= p[stop] <= 57:
            stop += 1
        if stop == at or (p[at] == 48 and stop > at + 1):
            return -1
    elif c == 116 and end - at >= 4 and same(p, at, b"true", 0, 4):
        stop += 4
    elif c == 102 and end - at >= 5 and same(p, at, b"false", 0, 5):
        stop += 5
    elif c == 110 and end - at >= 4 and same(p, at, b"null", 0, 4):
        stop += 4
        spans.value_form = _NULL
    else:
        return -1
    spans.value_size = stop - spans.value_at
    return stop


@cython.cfunc
@cython.exceptval(-2)
def skip_object(p: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the place behind the object at ``at``, whatever is in it; -1 where it does not end."""
    depth: cython.Py_ssize_t = 0
    while at < end:
        if p[at] == 123:
            depth += 1
        elif p[at] == 125:
            depth -= 1
            if depth == 0:
                return at + 1
        elif p[at] == 34:
            at = find_special(p, at + 1, end)
            while at < end and p[at] != 34:
                at = find_special(p, at + (2 if p[at] == 92 else 1), end)
        at += 1
    return -1


@cython.cfunc
@cython.exceptval(-2)
def read_ext(
    spans: Spans,
    p: cython.p_uchar,
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    family: cython.int,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Read the ext fields of the object at ``at``; return the place behind it, -1 when there is anything odd."""
    q: cython.p_uchar = spans.text
    key: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    at = skip_blanks(p, at + 1, end)
    if at < end and p[at] == 125:
        return at + 1
    while at < end and p[at] == 34:
        key = at + 1
        stop = find_special(p, key, end)
        if stop >= end or p[stop] != 34:
            return -1
        at = skip_blanks(p, stop + 1, end)
        if at >= end or p[at] != 58:
            return -1
        at = scan_value(spans, p, skip_blanks(p, at + 1, end), end)
        if at < 0:
            return -1
        if spans.value_form != _NULL and not take_field(
            spans,
            field_of(p, key, stop - key, family),
            q if spans.value_form == _UNESCAPED else p,
            spans.value_at,
            spans.value_size,
            spans.value_form,
            family,
            rows,
            o,
        ):
            return -1
        at = skip_blanks(p, at, end)
        if at >= end or (p[at] != 44 and p[at] != 125):
            return -1
        if p[at] == 125:
            return at + 1
        at = skip_blanks(p, at + 1, end)
    return -1


@cython.cfunc
@cython.exceptval(check=False)
def member_of(p: cython.p_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the column of a header's number, 0 for ``extFields``, -1 for any other member."""
    if size == 4:
        if same(p, at, b"code", 0, 4):
            return _CODE
        if same(p, at, b"flag", 0, 4):
            return _COMMAND_FLAG
    elif size == 6 and same(p, at, b"opaque", 0, 6):
        return _OPAQUE
    elif size == 7 and same(p, at, b"version", 0, 7):
        return _VERSION
    elif size == 9 and same(p, at, b"extFields", 0, 9):
        return 0
    return -1


@cython.cfunc
@cython.exceptval(-1)
def read_json(
    spans: Spans,
    p: cython.p_uchar,
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
) -> cython.int:
    """Read a JSON header; return the row's kind.

    The fields are read when they are met if the code is known by then, else at the end.
    """
    end: cython.Py_ssize_t = at + size
    stop: cython.Py_ssize_t
    key: cython.Py_ssize_t
    column: cython.Py_ssize_t
    ext: cython.Py_ssize_t = -1
    members: cython.int = 0
    is_read: cython.bint = False
    is_odd: cython.bint = False
    family: cython.int = _NOT_HOT
    at = skip_blanks(p, at, end)
    if at >= end or p[at] != 123:
        return _OTHER
    while True:
        at = skip_blanks(p, at + 1, end)
        if at >= end or p[at] != 34:
            return _OTHER
        key = at + 1
        stop = find_special(p, key, end)
        if stop >= end or p[stop] != 34:
            return _OTHER
        at = skip_blanks(p, stop + 1, end)
        if at >= end or p[at] != 58:
            return _OTHER
        column = member_of(p, key, stop - key)
        at = skip_blanks(p, at + 1, end)
        if column >= 0:
            if (members >> column) & 1:
                return _OTHER
            members |= 1 << column
        if column == 0 and at < end and p[at] == 123:
            ext = at
            stop = -1
            if family != _NOT_HOT:
                stop = read_ext(spans, p, at, end, family, rows, o)
                is_read = stop >= 0
                is_odd = not is_read
            at = stop if stop >= 0 else skip_object(p, at, end)
        else:
            at = scan_value(spans, p, at, end)
            if column == 0 and spans.value_form != _NULL:
                return _OTHER
            if at >= 0 and column > 0:
                if spans.value_form != _BARE or not is_number(
                    p, spans.value_at, spans.value_size, _LEAST_32, _MOST_32, rows, o + column
                ):
                    return _OTHER
                if column == _CODE:
                    family = family_of(rows[o + _CODE])
        if at < 0:
            return _OTHER
        at = skip_blanks(p, at, end)
        if at >= end or (p[at] != 44 and p[at] != 125):
            return _OTHER
        if p[at] == 125:
            break
    if skip_blanks(p, at + 1, end) != end:
        return _OTHER
    if rows[o + _COMMAND_FLAG] & 1:
        return _ANSWER
    if family == _NOT_HOT or is_odd or ext < 0:
        return _OTHER
    if not is_read and read_ext(spans, p, ext, end, family, rows, o) < 0:
        return _OTHER
    return kind_of(spans, family, rows, o)
