"""Kernel: transactions straight from the table of spans: the prepared sends and the ends that one read brought.

Only what is ordinary: the others are decoded and served one by one, with the same records and the same answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.litemq.format._spans_cy import Spans
    from cython.cimports.litemq.wire.remoting._answers_cy import Outbox, sends
else:
    from litemq.format._spans_cy import Spans
    from litemq.wire.remoting._answers_cy import Outbox, sends

from litemq.broker.faces.remoting.transactions import DECISIONS
from litemq.broker.half_log import Decision
from litemq.broker.messages import Sending, needs_look
from litemq.broker.transaction_runs import TransactionRun
from litemq.broker.transactions import Ending
from litemq.errors import LiteMQError
from litemq.format import names, properties
from litemq.format import spans as columns
from litemq.types import Appended, Status
from litemq.wire.remoting.codes import FLAG_ONEWAY
from litemq.wire.remoting.command import Response, encode_response
from litemq.wire.remoting.status import answer_to

if TYPE_CHECKING:
    from litemq.broker.broker import Broker

_KIND = cython.declare(cython.Py_ssize_t, columns.KIND)
_CODEC = cython.declare(cython.Py_ssize_t, columns.CODEC)
_OPAQUE = cython.declare(cython.Py_ssize_t, columns.OPAQUE)
_COMMAND_FLAG = cython.declare(cython.Py_ssize_t, columns.COMMAND_FLAG)
_BODY_AT = cython.declare(cython.Py_ssize_t, columns.BODY_AT)
_TOPIC_AT = cython.declare(cython.Py_ssize_t, columns.TOPIC_AT)
_GROUP_AT = cython.declare(cython.Py_ssize_t, columns.GROUP_AT)
_PROPERTIES_AT = cython.declare(cython.Py_ssize_t, columns.PROPERTIES_AT)
_PROPERTIES_SIZE = cython.declare(cython.Py_ssize_t, columns.PROPERTIES_SIZE)
_QUEUE_ID = cython.declare(cython.Py_ssize_t, columns.QUEUE_ID)
_SYS_FLAG = cython.declare(cython.Py_ssize_t, columns.SYS_FLAG)
_BORN_TIME = cython.declare(cython.Py_ssize_t, columns.BORN_TIME)
_MESSAGE_FLAG = cython.declare(cython.Py_ssize_t, columns.MESSAGE_FLAG)
_RECONSUME_TIMES = cython.declare(cython.Py_ssize_t, columns.RECONSUME_TIMES)
_OFFSET = cython.declare(cython.Py_ssize_t, columns.OFFSET)
_COMMIT_OFFSET = cython.declare(cython.Py_ssize_t, columns.COMMIT_OFFSET)
_ID_AT = cython.declare(cython.Py_ssize_t, columns.ID_AT)
_WIDTH = cython.declare(cython.Py_ssize_t, columns.WIDTH)
_SEND = cython.declare(cython.longlong, columns.SEND)
_END = cython.declare(cython.longlong, columns.END)
_STATUS_BITS = cython.declare(cython.longlong, 3 << names.FLAG_STATUS_SHIFT)
_PREPARED = cython.declare(cython.longlong, Status.PREPARED << names.FLAG_STATUS_SHIFT)
_ONEWAY = cython.declare(cython.longlong, FLAG_ONEWAY)
_ID = cython.declare(bytes, f"{names.UNIQ_KEY}\x01".encode())
_MAX_PROPERTIES = cython.declare(cython.Py_ssize_t, 16_384)
"""Bytes of a prepared send that is taken here: what is stored in its place says more."""


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.ccall
@cython.exceptval(-1)
def is_transactional(spans: Spans, row: cython.Py_ssize_t) -> cython.bint:
    """Return whether a row is a prepared send, or ends a transaction."""
    kind: cython.longlong = spans.rows[row * _WIDTH + _KIND]
    if kind == _SEND:
        return (spans.rows[row * _WIDTH + _SYS_FLAG] & _STATUS_BITS) == _PREPARED
    return kind == _END


class TransactionRows:
    """Serves runs of such rows."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._plain = broker.store.plain.table

    def serve(self, spans: Spans, first: cython.Py_ssize_t, outbox: Outbox) -> int:
        """Serve rows from ``first`` on; return how many, 0: the first is not ordinary, and nothing happened.

        The answers are in ``outbox``; they promise what is in the log until now.
        """
        broker = self._broker
        if broker.durability.waits and broker.durability.is_full:
            return 0
        run = TransactionRun(broker.store, broker.transactions)
        halves: list[tuple[int, int]] = []
        ends: list[int] = []
        row: cython.Py_ssize_t = first
        number: int
        while row < spans.count and is_transactional(spans, row):
            if spans.rows[row * _WIDTH + _KIND] == _END:
                if not self._end(run, spans, row):
                    break
                ends.append(row)
            else:
                number = self._begin(run, spans, row)
                if number < 0:
                    break
                halves.append((row, number))
            row += 1
        if row == first:
            return 0
        try:
            appended = run.append()
        except LiteMQError as error:
            if not error.appended:
                return 0  # Python's way meets the same error for each
            _refuse(error, spans, [at for at, _ in halves], ends, outbox)
            return row - first
        for at, number in halves:
            _answer(spans, at, appended[number], outbox)
        _acknowledge(Response(), spans, ends, outbox)
        return row - first

    def _end(self, run: TransactionRun, spans: Spans, row: cython.Py_ssize_t) -> bool:
        """Take an end into the run; False: it is not ordinary."""
        o: cython.Py_ssize_t = row * _WIDTH
        decision = DECISIONS.get(spans.rows[o + _SYS_FLAG])
        if decision is None or decision is Decision.UNKNOWN:
            return False
        group = spans.words(row, _GROUP_AT).decode()
        unique_id = spans.words(row, _ID_AT).decode()
        try:
            return run.end(Ending(group, spans.rows[o + _OFFSET], spans.rows[o + _COMMIT_OFFSET], unique_id, decision))
        except LiteMQError:
            return False

    def _begin(self, run: TransactionRun, spans: Spans, row: cython.Py_ssize_t) -> int:
        """Take a prepared send into the run; return its number there, -1: it is not ordinary."""
        o: cython.Py_ssize_t = row * _WIDTH
        at: cython.Py_ssize_t
        begin: cython.Py_ssize_t
        size: cython.Py_ssize_t
        text: bytes
        topic = self._plain.get(spans.words(row, _TOPIC_AT))
        if topic is None or not 0 <= spans.rows[o + _QUEUE_ID] < topic.queue_count:
            return -1
        if spans.rows[o + _PROPERTIES_SIZE] > _MAX_PROPERTIES:
            return -1
        text = spans.words(row, _PROPERTIES_AT)
        found = properties.parse(text)
        at = text.find(_ID)
        if at < 0 or (at > 0 and text[at - 1] != 2) or needs_look(found):
            return -1
        sending = Sending(
            topic.topic,
            spans.rows[o + _QUEUE_ID],
            bytes(spans.part(row, _BODY_AT)),
            found,
            spans.rows[o + _BORN_TIME],
            spans.peer.host,
            spans.rows[o + _MESSAGE_FLAG],
            spans.rows[o + _SYS_FLAG],
            spans.rows[o + _RECONSUME_TIMES],
        )
        size = len(found.get(names.UNIQ_KEY, "").encode())
        begin = at + len(_ID)
        if begin + size < len(text) and text[begin + size] != 2:
            return -1
        spans.note_id(row, spans.rows[o + _PROPERTIES_AT] + begin, size)
        try:
            message = self._broker.maker.plain(sending, found)
            return run.begin(message, spans.words(row, _GROUP_AT).decode())
        except LiteMQError:
            return -1


def _refuse(error: LiteMQError, spans: Spans, halves: list[int], ends: list[int], outbox: Outbox) -> None:
    """Tell everybody of an append that failed when part of it was in the log."""
    _acknowledge(answer_to(error), spans, halves + ends, outbox)


def _acknowledge(response: Response, spans: Spans, asked: list[int], outbox: Outbox) -> None:
    """Give rows one answer, but those that want none."""
    o: cython.Py_ssize_t
    for row in asked:
        o = row * _WIDTH
        if (spans.rows[o + _COMMAND_FLAG] & _ONEWAY) == 0:
            outbox.add(encode_response(response, opaque=spans.rows[o + _OPAQUE], codec=spans.rows[o + _CODEC]))


def _answer(spans: Spans, row: cython.Py_ssize_t, appended: Appended, outbox: Outbox) -> None:
    spans.note_stored(row, appended.position, appended.end - appended.position, appended.queue_offset)
    sends(spans, row, row + 1, outbox)
