"""Transactions straight from the table of spans: the prepared sends and the ends that one read brought.

Only what is ordinary: the others are decoded and served one by one, with the same records and the same answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from litemq.broker.faces.remoting.transactions import ending_of
from litemq.broker.messages import Sending, needs_look
from litemq.broker.transaction_runs import TransactionRun
from litemq.errors import BadField, LiteMQError
from litemq.format import names, properties
from litemq.format import spans as columns
from litemq.format._spans_cy import Spans
from litemq.types import Appended, Status
from litemq.wire.remoting._answers_cy import Outbox, sends
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Request, Response, decode, encode_response
from litemq.wire.remoting.status import answer_to

if TYPE_CHECKING:
    from litemq.broker.broker import Broker

_STATUS_BITS: Final = 3 << names.FLAG_STATUS_SHIFT
_PREPARED: Final = Status.PREPARED << names.FLAG_STATUS_SHIFT
_ID: Final = f"{names.UNIQ_KEY}\x01".encode()
_MAX_PROPERTIES: Final = 16_384
"""Of a prepared send that is taken here: what is stored in its place says more."""


def is_transactional(spans: Spans, row: int) -> bool:
    """Return whether a row is a prepared send, or ends a transaction."""
    kind = spans.cell(row, columns.KIND)
    if kind == columns.SEND:
        return spans.cell(row, columns.SYS_FLAG) & _STATUS_BITS == _PREPARED
    return kind == columns.OTHER and spans.cell(row, columns.CODE) == Ask.END_TRANSACTION


class TransactionRows:
    """Serves runs of such rows."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._plain = broker.store.plain.table

    def serve(self, spans: Spans, first: int, outbox: Outbox) -> int:
        """Serve rows from ``first`` on; return how many, 0: the first is not ordinary, and nothing happened.

        The answers are in ``outbox``; they promise what is in the log until now.
        """
        broker = self._broker
        if broker.durability.waits and broker.durability.is_full:
            return 0
        run = TransactionRun(broker.store, broker.transactions)
        halves: list[tuple[int, int]] = []
        ends: list[Request] = []
        row = first
        while row < spans.count and is_transactional(spans, row) and self._take(run, spans, row, halves, ends):
            row += 1
        if row == first:
            return 0
        try:
            appended = run.append()
        except LiteMQError as error:
            if not error.appended:
                return 0  # Python's way meets the same error for each
            _refuse(error, spans, halves, ends, outbox)
            return row - first
        for at, number in halves:
            _answer(spans, at, appended[number], outbox)
        for request in ends:
            if not request.is_oneway:
                outbox.add(encode_response(Response(), opaque=request.opaque, codec=request.codec))
        return row - first

    def _take(
        self, run: TransactionRun, spans: Spans, row: int, halves: list[tuple[int, int]], ends: list[Request]
    ) -> bool:
        """Take a row into the run; False: it is not ordinary."""
        if spans.cell(row, columns.KIND) == columns.SEND:
            number = self._begin(run, spans, row)
            if number >= 0:
                halves.append((row, number))
            return number >= 0
        request = decode(spans.part(row, columns.FRAME_AT))
        if not isinstance(request, Request) or not _end(run, request):
            return False
        ends.append(request)
        return True

    def _begin(self, run: TransactionRun, spans: Spans, row: int) -> int:
        """Take a prepared send into the run; return its number there, -1: it is not ordinary."""
        topic = self._plain.get(spans.words(row, columns.TOPIC_AT))
        queue_id = spans.cell(row, columns.QUEUE_ID)
        if topic is None or not 0 <= queue_id < topic.queue_count:
            return -1
        text = spans.words(row, columns.PROPERTIES_AT)
        found = properties.parse(text)
        at = text.find(_ID)
        if at < 0 or (at > 0 and text[at - 1] != 2) or len(text) > _MAX_PROPERTIES or needs_look(found):
            return -1
        sending = Sending(
            topic.topic,
            queue_id,
            bytes(spans.part(row, columns.BODY_AT)),
            found,
            spans.cell(row, columns.BORN_TIME),
            spans.peer.host,
            spans.cell(row, columns.MESSAGE_FLAG),
            spans.cell(row, columns.SYS_FLAG),
            spans.cell(row, columns.RECONSUME_TIMES),
        )
        unique_id = len(found.get(names.UNIQ_KEY, "").encode())
        begin = at + len(_ID)
        if text[begin + unique_id : begin + unique_id + 1] not in (b"\x02", b""):
            return -1
        spans.note_id(row, spans.cell(row, columns.PROPERTIES_AT) + begin, unique_id)
        try:
            message = self._broker.maker.plain(sending, found)
            group = spans.words(row, columns.GROUP_AT).decode("utf-8", "replace")
            return run.begin(message, group)
        except LiteMQError:
            return -1


def _refuse(
    error: LiteMQError, spans: Spans, halves: list[tuple[int, int]], ends: list[Request], outbox: Outbox
) -> None:
    """Tell everybody of an append that failed when part of it was in the log."""
    refusal = answer_to(error)
    asked = [(spans.cell(row, columns.OPAQUE), spans.cell(row, columns.CODEC)) for row, _ in halves]
    asked += [(request.opaque, request.codec) for request in ends if not request.is_oneway]
    for opaque, codec in asked:
        outbox.add(encode_response(refusal, opaque=opaque, codec=codec))


def _end(run: TransactionRun, request: Request) -> bool:
    try:
        return run.end(ending_of(request.ext))
    except (BadField, LiteMQError):
        return False


def _answer(spans: Spans, row: int, appended: Appended, outbox: Outbox) -> None:
    spans.note_stored(row, appended.position, appended.end - appended.position, appended.queue_offset)
    sends(spans, row, row + 1, outbox)
