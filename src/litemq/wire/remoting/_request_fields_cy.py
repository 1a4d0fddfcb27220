"""Kernel: the fields of hot requests, noted in a row of the table of spans, whatever codec they came in.

A row is of a hot kind only when its header has the known fields with sound values, none of them twice unless alike.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.litemq.format._byte_order_h import copy, same
    from cython.cimports.litemq.format._spans_cy import Spans
    from cython.cimports.litemq.format._text_cy import is_utf8
else:
    from litemq.format._spans_cy import Spans
    from litemq.format._text_cy import is_utf8
    from litemq.format.byte_order import copy, same

from litemq.format import spans as columns

NOT_HOT = 0
LETTERS = 1
LONG_NAMES = 2
PULL_NAMES = 3
END_NAMES = 4
"""Which fields a request may have."""

IN_HEADER = 0
BARE = 1
UNESCAPED = 2
NO_VALUE = 3
"""How a value stands in its header: as text; a number, true or false without quotes; as text with escapes, hence
behind the table's text; null."""

_TOPIC_AT = cython.declare(cython.Py_ssize_t, columns.TOPIC_AT)
_TOPIC_SIZE = cython.declare(cython.Py_ssize_t, columns.TOPIC_SIZE)
_GROUP_AT = cython.declare(cython.Py_ssize_t, columns.GROUP_AT)
_GROUP_SIZE = cython.declare(cython.Py_ssize_t, columns.GROUP_SIZE)
_PROPERTIES_AT = cython.declare(cython.Py_ssize_t, columns.PROPERTIES_AT)
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
_ID_AT = cython.declare(cython.Py_ssize_t, columns.ID_AT)
_ID_SIZE = cython.declare(cython.Py_ssize_t, columns.ID_SIZE)
_OTHER = cython.declare(cython.int, columns.OTHER)
_SEND = cython.declare(cython.int, columns.SEND)
_PULL = cython.declare(cython.int, columns.PULL)
_END = cython.declare(cython.int, columns.END)

_LEAST_32 = cython.declare(cython.longlong, -(1 << 31))
_MOST_32 = cython.declare(cython.longlong, (1 << 31) - 1)
_MOST_64 = cython.declare(cython.longlong, (1 << 63) - 1)
_LEAST_64 = cython.declare(cython.longlong, -_MOST_64 - 1)
_HALF = cython.declare(cython.ulonglong, 1 << 63)

_NOT_HOT = cython.declare(cython.int, NOT_HOT)
_LETTERS = cython.declare(cython.int, LETTERS)
_LONG_NAMES = cython.declare(cython.int, LONG_NAMES)
_PULL_NAMES = cython.declare(cython.int, PULL_NAMES)
_END_NAMES = cython.declare(cython.int, END_NAMES)
_BARE = cython.declare(cython.int, BARE)
_UNESCAPED = cython.declare(cython.int, UNESCAPED)

_NO_FIELD = cython.declare(cython.int, -1)
_IGNORED = cython.declare(cython.int, 31)

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
_END_FIELDS = (
    *("producerGroup", "tranStateTableOffset", "commitLogOffset", "commitOrRollback", "msgId"),
    *("fromTransactionCheck", "transactionId", "topic"),
)
"""The last three say nothing that has to be known."""
_END_NEEDS = cython.declare(cython.longlong, 0x1F)
_HARMLESS = ("bname", "lo", "n", "nsd", "oway", "ReqT")
"""What clients add to any request, and nobody has to look at."""


def _by_size(names: tuple[str, ...]) -> list[list[tuple[bytes, int]]]:
    """Return the names with their numbers, in lists by how long they are."""
    known = [*((name.encode(), number) for number, name in enumerate(names)), *((n.encode(), 31) for n in _HARMLESS)]
    return [[(name, number) for name, number in known if len(name) == size] for size in range(32)]


_LETTER_TABLE = cython.declare(list, _by_size(()))
_SEND_TABLE = cython.declare(list, _by_size(_SEND_NAMES))
_PULL_TABLE = cython.declare(list, _by_size(_PULL_FIELDS))
_END_TABLE = cython.declare(list, _by_size(_END_FIELDS))


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


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
    return _END_NAMES if code == 37 else _NOT_HOT


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
    elif family == _END_NAMES:
        table = _END_TABLE
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
def take_end_field(
    spans: Spans,
    q: cython.p_uchar,
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    form: cython.int,
    field: cython.int,
    rows: cython.p_longlong,
    o: cython.Py_ssize_t,
) -> cython.bint:
    """Note a field of a transaction's end; False when there is something odd about it."""
    if field == 0:
        return take_text(spans, q, at, size, form, field, rows, o + _GROUP_AT)
    if field == 1:
        return is_new_number(spans, q, at, size, field, _LEAST_64, _MOST_64, rows, o + _OFFSET)
    if field == 2:
        return is_new_number(spans, q, at, size, field, _LEAST_64, _MOST_64, rows, o + _COMMIT_OFFSET)
    if field == 3:
        return is_new_number(spans, q, at, size, field, _LEAST_32, _MOST_32, rows, o + _SYS_FLAG)
    if field == 4:
        return take_text(spans, q, at, size, form, field, rows, o + _ID_AT)
    return True


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
    elif family == _END_NAMES:
        if not take_end_field(spans, q, at, size, form, field, rows, o):
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
    if family == _END_NAMES:
        if rows[o + _GROUP_SIZE] == 0 or rows[o + _ID_SIZE] == 0:
            return _OTHER
        return _END if (spans.seen & _END_NEEDS) == _END_NEEDS else _OTHER
    if rows[o + _TOPIC_SIZE] == 0 or rows[o + _GROUP_SIZE] == 0:
        return _OTHER
    if family == _PULL_NAMES:
        rows[o + _BORN_TIME] = 0  # the cells of values that nobody needs
        return _PULL if (spans.seen & _PULL_NEEDS) == _PULL_NEEDS else _OTHER
    rows[o + _OFFSET] = 0
    return _SEND if (spans.seen & _SEND_NEEDS) == _SEND_NEEDS else _OTHER
