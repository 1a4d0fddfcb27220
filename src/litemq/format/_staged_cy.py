"""Kernel: messages of a batch transaction, from the bytes in which they are staged to the messages that are stored.

An entry is one of a batch (request 320), whose two fields that a batch leaves 0 say where the message goes:

    size i32, topic i32 (number in the frame's list), queue i32 (-1: the broker chooses), flag i32,
    body length i32, body, properties length i16, properties
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

from litemq.errors import BadBody, BadField, NotSupported, RecordTooLarge
from litemq.format import names

if cython.compiled:
    from cython.cimports.litemq._message_cy import Message
    from cython.cimports.litemq.format._text_cy import hash_utf8
else:
    from litemq._message_cy import Message
    from litemq.format._text_cy import hash_utf8

ENTRY_SIZE = 22
"""Bytes of an entry beside body and properties."""
_ENTRY = cython.declare(cython.Py_ssize_t, 22)
_UNSURE = frozenset({names.DELAY, names.TIMER_DELAY_MS, names.TIMER_DELAY_SEC, names.TIMER_DELIVER_MS, names.TRAN_MSG})
_DROPPED = names.INTERNAL | {"POP_CK"}


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def be32(p: cython.p_uchar, at: cython.Py_ssize_t) -> cython.longlong:
    """Return a signed 32-bit number."""
    value: cython.longlong = p[at]
    value = value << 24 | p[at + 1] << 16 | p[at + 2] << 8 | p[at + 3]
    return value - 0x100000000 if value > 0x7FFFFFFF else value


def check(data: bytes, queue_counts: list[int], max_body: cython.Py_ssize_t, max_text: cython.Py_ssize_t) -> int:
    """Return how many messages ``data`` holds: all of them can be stored when the transaction commits.

    ``queue_counts`` has the queues of each topic of the frame.

    Raises:
        BadBody: the bytes are no messages; says at which byte.
        BadField: a message names a topic that the frame does not, or a queue that its topic has not.
        RecordTooLarge: a message has too large a body, or too many properties.
        NotSupported: a message is delayed, or transactional by itself.
    """
    p: cython.p_uchar = data
    end: cython.Py_ssize_t = len(data)
    at: cython.Py_ssize_t = 0
    size: cython.longlong
    topic: cython.longlong
    queue: cython.longlong
    body_size: cython.longlong
    text_at: cython.Py_ssize_t
    text_size: cython.Py_ssize_t
    name: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    letter: cython.int
    high: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    topics: cython.Py_ssize_t = len(queue_counts)
    queues: cython.longlong
    while at < end:
        if end - at < _ENTRY:
            raise BadBody(f"{end - at} bytes at byte {at}, behind message {count}, are no message")
        size = be32(p, at)
        body_size = be32(p, at + 16)
        if size < _ENTRY or size > end - at or body_size < 0 or body_size > size - _ENTRY:
            raise BadBody(f"message {count} at byte {at} of {end} has no sound sizes: {size}, body {body_size}")
        text_at = at + 20 + body_size
        text_size = p[text_at] << 8 | p[text_at + 1]
        if text_at + 2 + text_size != at + size:
            raise BadBody(
                f"message {count} at byte {at} of {end}: its properties have {text_size} bytes, which is wrong"
            )
        topic = be32(p, at + 4)
        if topic < 0 or topic >= topics:
            raise BadField(f"message {count} names topic {topic}, the request has {topics}")
        queue = be32(p, at + 8)
        queues = queue_counts[topic]
        if queue < -1 or queue >= queues:
            raise BadField(f"message {count} names queue {queue} of topic {topic}, which has {queues}")
        if body_size > max_body:
            raise RecordTooLarge(what=f"the body of message {count}", size=body_size, limit=max_body)
        if text_size > max_text:
            raise RecordTooLarge(what=f"the properties of message {count}", size=text_size, limit=max_text)
        text_at += 2
        stop = text_at
        name = text_at
        high = 0
        while stop < text_at + text_size:
            letter = p[stop]
            if letter >= 0x80:
                high += 1
            elif letter == 2:
                name = stop + 1
            elif letter == 1 and (p[name] == 0x44 or p[name] == 0x54):  # D or T
                refuse(part(p, name, stop), count)
                while stop + 1 < text_at + text_size and p[stop + 1] != 2:
                    stop += 1
                    if p[stop] >= 0x80:
                        high += 1
            stop += 1
        if text_size + 2 * high > max_text:  # a byte that is no UTF-8 is stored as three
            text_size = len(part(p, text_at, text_at + text_size).encode())
            if text_size > max_text:
                raise RecordTooLarge(what=f"the properties of message {count}", size=text_size, limit=max_text)
        at += size
        count += 1
    return count


@cython.cfunc
@cython.exceptval(-1)
def refuse(name: str, number: cython.Py_ssize_t) -> cython.int:
    """Refuse a message that could not be published at the commit."""
    if name in _UNSURE:
        raise NotSupported(
            f"message {number} has the property {name}: a batch transaction takes no delayed or transactional messages"
        )
    return 0


@cython.cfunc
@cython.inline
def part(p: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> str:
    """Return a part of the bytes as text."""
    if cython.compiled:
        return cython.cast(cython.p_char, p)[at:end].decode("utf-8", "replace")
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        return bytes(p[at:end]).decode("utf-8", "replace")


@cython.cfunc
@cython.inline
def raw(p: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> bytes:
    """Return a copy of a part of the bytes."""
    if cython.compiled:
        return cython.cast(cython.p_char, p)[at:end]
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        return bytes(p[at:end])


def skip(data: bytes, at: cython.Py_ssize_t, count: cython.Py_ssize_t) -> int:
    """Return where the message stands that is ``count`` behind the one at ``at``."""
    p: cython.p_uchar = data
    i: cython.Py_ssize_t
    for i in range(count):  # noqa: B007 - a C loop
        at += be32(p, at)
    return at


@cython.cfunc
def queue_of(
    queue: cython.longlong, count: cython.longlong, sharding_key: str, turn: cython.longlong
) -> cython.longlong:
    """Return the queue of a message: its own, its key's as Java chooses it, or the next one."""
    value: cython.longlong
    if queue >= 0:
        return queue % count  # the topic may have fewer by now
    if sharding_key:
        data: bytes = sharding_key.encode("utf-8", "replace")
        p: cython.p_uchar = data
        value = hash_utf8(p, 0, len(data), 0)
        if value > 0x7FFFFFFF:
            value = 0x100000000 - value
        return value % count
    return turn % count


def messages(
    data: bytes,
    at: cython.Py_ssize_t,
    number: cython.Py_ssize_t,
    most: cython.Py_ssize_t,
    most_bytes: cython.Py_ssize_t,
    topics: tuple[str, ...],
    queue_counts: list[int],
    origin: cython.longlong,
    born_time: int,
    born_host: str,
    own: dict[str, str],
    new_id: Callable[[], str],
) -> tuple[list[Any], int, int]:
    """Return messages from the one at ``at`` on, which is ``number`` of its record; where the next stands; its number.

    At most ``most``, and no more than ``most_bytes`` unless the first is larger.  Those of a topic without queues (it
    was deleted) are passed over.  ``own`` are properties that every stored message gets.
    """
    p: cython.p_uchar = data
    end: cython.Py_ssize_t = len(data)
    begin: cython.Py_ssize_t = at
    size: cython.longlong
    topic: cython.longlong
    text_at: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    name_at: cython.Py_ssize_t
    value_at: cython.Py_ssize_t
    count: cython.longlong
    message: Message
    left: dict[str, str]
    found: list[Any] = []
    while at < end and most > 0:
        size = be32(p, at)
        if at + size - begin > most_bytes and at > begin:
            break
        most -= 1
        topic = be32(p, at + 4)
        count = queue_counts[topic]
        if count <= 0:
            at += size
            number += 1
            continue
        text_at = at + 20 + be32(p, at + 16)
        message_id: str = ""
        tag: str = ""
        keys: str = ""
        sharding_key: str = ""
        left = {}
        stop = text_at + 2
        while stop < at + size:
            name_at = stop
            while stop < at + size and p[stop] != 1 and p[stop] != 2:
                stop += 1
            if stop >= at + size:
                break
            if p[stop] == 2:  # no value
                stop += 1
                continue
            value_at = stop + 1
            stop = value_at
            while stop < at + size and p[stop] != 2:
                stop += 1
            if value_at > name_at + 1 and stop > value_at:
                name: str = part(p, name_at, value_at - 1)
                value: str = part(p, value_at, stop)
                if name == "UNIQ_KEY":
                    message_id = value
                elif name == "TAGS":
                    tag = value
                elif name == "KEYS":
                    keys = value
                elif name == "__SHARDINGKEY":
                    sharding_key = value
                elif name not in _DROPPED:
                    left[name] = value
            stop += 1
        left.update(own)
        left["__ORIGIN"] = str(origin + number)
        message = Message.__new__(Message)
        message.topic = topics[topic]
        message.body = raw(p, at + 20, text_at)
        message.queue_id = queue_of(be32(p, at + 8), count, sharding_key, origin + number)
        message.message_id = message_id if message_id else new_id()
        message.tags = (tag,) if tag else ()
        message.keys = tuple([key for key in keys.split(" ") if key]) if keys else ()
        message.properties = left
        message.type = 4 if sharding_key else 0
        message.priority = 0
        message.reliability = 0
        message.delay_time = 0
        message.transaction_id = ""
        message.status = 0
        message.sharding_key = sharding_key
        message.broadcast = False
        message.born_time = born_time
        message.born_host = born_host
        message.flag = be32(p, at + 12)
        message.sys_flag = None
        message.reconsume_times = 0
        message.prepared_offset = 0
        message.consume_start_time = 0
        message.consume_end_time = 0
        found.append(message)
        at += size
        number += 1
    return found, at, number
