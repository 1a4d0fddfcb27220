"""Kernel: messages of a batch transaction become the bodies of stage requests, one for each broker.

The body is that of a batch (``_sends_cy``) with the number of the topic and the queue in the two fields that a batch
leaves 0; ``format/_staged_cy`` reads it.
"""

from __future__ import annotations

from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

from litemq.errors import InvalidRequest

if cython.compiled:
    from cython.cimports.litemq.client._message_cy import Message
    from cython.cimports.litemq.client._sends_cy import new_id, properties_text
    from cython.cimports.litemq.format._byte_order_h import copy, put16, put32
else:
    from litemq.client._message_cy import Message
    from litemq.client._sends_cy import new_id, properties_text
    from litemq.format.byte_order import copy, put16, put32

_ENTRY = cython.declare(cython.Py_ssize_t, 22)


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


def no_topics() -> dict[str, int]:
    """Return a table for another request."""
    return {}


@cython.cclass
class Sink:
    """The next request for one broker; ``sequence`` is its number."""

    if not cython.compiled:
        __slots__ = ("broker", "count", "out", "sequence", "size", "topics")

    def __init__(self, broker: str) -> None:
        self.broker = broker
        self.sequence = 0
        self.out = bytearray(1 << 16)
        self.clear()

    @cython.ccall
    def clear(self) -> object:
        """Begin another request."""
        self.count = 0
        self.size = 0
        self.topics = no_topics()
        return None

    def body(self) -> bytes:
        """Return what is in it."""
        return bytes(memoryview(self.out)[: self.size])

    @cython.cfunc
    @cython.exceptval(-1)
    def make_room(self, size: cython.Py_ssize_t) -> cython.int:
        """Make room for so many bytes more."""
        if self.size + size > len(self.out):
            self.out.extend(bytes(max(len(self.out), size)))
        return 0


@cython.cclass
class Target:
    """Where the messages of a topic go: its queues, each with the sink of its broker."""

    if not cython.compiled:
        __slots__ = ("queues", "sinks", "turn")

    def __init__(self, sinks: list[Sink], queues: list[int], turn: int) -> None:
        self.sinks = sinks
        self.queues = queues
        self.turn = turn


def pack(
    messages: list[Any],
    first: cython.Py_ssize_t,
    places: list[int] | None,
    targets: dict[str, Target],
    limit: cython.Py_ssize_t,
) -> tuple[int, Sink | None]:
    """Put messages from ``first`` on into the sinks of their brokers; return the first that is not in one, and why.

    It stops before a message that would make a sink larger than ``limit`` (the sink is returned: send it), and before
    one whose topic is not in ``targets`` (None is).  ``places`` has the number of each message's queue among those of
    its topic; -1, and without it: the next one.
    """
    message: Message
    target: Target
    sink: Sink
    text: bytes
    body: bytes
    p: cython.p_uchar
    at: cython.Py_ssize_t
    place: cython.Py_ssize_t
    size: cython.Py_ssize_t
    body_size: cython.Py_ssize_t
    text_size: cython.Py_ssize_t
    topic: cython.Py_ssize_t
    i: cython.Py_ssize_t
    for i in range(first, len(messages)):
        item = messages[i]
        if type(item) is not Message:
            raise InvalidRequest(f"a message must be a litemq.Message, not {type(item).__name__}")
        message = item
        found = targets.get(message.topic)
        if found is None:
            return i, None
        target = found
        place = -1 if places is None else places[i]
        if place < 0:
            place = target.turn % len(target.queues)
        sink = target.sinks[place]
        if len(sink.topics) >= 500 and message.topic not in sink.topics:
            return i, sink
        body = message.opened
        text = properties_text(message, new_id())
        body_size = len(body)
        text_size = len(text)
        size = _ENTRY + body_size + text_size
        if sink.size + size > limit and sink.size > 0:
            return i, sink
        sink.make_room(size)
        number = sink.topics.get(message.topic)
        if number is None:
            number = sink.topics[message.topic] = len(sink.topics)
        topic = number
        p = sink.out
        at = sink.size
        put32(p, at, size)
        put32(p, at + 4, topic)
        put32(p, at + 8, target.queues[place])
        put32(p, at + 12, message.flag)
        put32(p, at + 16, body_size)
        copy(p, at + 20, body, 0, body_size)
        at += 20 + body_size
        put16(p, at, text_size)
        copy(p, at + 2, text, 0, text_size)
        sink.size += size
        sink.count += 1
        if places is None or places[i] < 0:
            target.turn += 1
    return len(messages), None
