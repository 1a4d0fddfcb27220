"""Requests that consume by receipts: RocketMQ's pop.

A receipt (``POP_CK``) is made by the client of what an answer says, eight numbers and names with blanks between them:

    start offset, pop time, invisible time, revive queue, retry mark, broker, queue id, offset

Here the pop time is the delivery's generation, the revive queue a mark of group and topic, so that another group's
receipt is known as such, and the retry mark always 0: what comes again comes from its own topic.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from litemq.broker.pop_answers import PopAnswer, Popping, TooManyWait
from litemq.errors import BadBody, BadReceipt, StaleReceipt
from litemq.wire.remoting import bodies, fields
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response, encode_response
from litemq.wire.remoting.connection import Connection, Handlers
from litemq.wire.remoting.status import answer_to

if TYPE_CHECKING:
    from litemq.broker.broker import Broker

_PARTS = 8
_LATE_MS = 500
_MAX_BITS = 1 << 16
"""Of one entry of a batch of acknowledgements."""
_MAX_SHOWN = 80


class Receipt(NamedTuple):
    """What a receipt says that matters here."""

    generation: int
    mark: int
    queue_id: int
    offset: int


def mark_of(group: str, topic: str) -> int:
    """Return what receipts of a group's deliveries have in common: 31 bits."""
    return crc32(f"{group}\n{topic}".encode("utf-8", "replace")) & 0x7FFFFFFF


def parse_receipt(text: str, broker: str) -> Receipt:
    """Return what a receipt says.

    Raises:
        BadReceipt: it is none, or another broker's.
    """
    parts = text.split(" ")
    if len(parts) < _PARTS or not all(_is_number(parts[at]) for at in (1, 3, 6, 7)):
        raise BadReceipt(f"{text[:_MAX_SHOWN]!r} is no receipt: it must be the POP_CK of a message")
    if parts[5] != broker:
        raise BadReceipt(f"the receipt is from broker {parts[5][:_MAX_SHOWN]!r}, this is {broker!r}")
    if parts[4] != "0":
        raise BadReceipt(f"the receipt is of a retry topic ({parts[4][:_MAX_SHOWN]!r}), which this broker does not use")
    return Receipt(int(parts[1]), int(parts[3]), int(parts[6]), int(parts[7]))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""
    return {**_asking(broker), **_receipts(broker)}


# -- asking --------------------------------------------------------------------------------------


def _asking(broker: Broker) -> Handlers:
    def pop(connection: Connection, request: Request) -> Response | None:
        popping = _popping(broker, connection, request, _head(request))
        popping.invisible_ms = fields.long(request.ext, "invisibleTime")
        popping.begins_at_end = fields.whole(request.ext, "initMode", 0) == 1
        if _is_late(broker, request):
            return Response(Code.POLLING_TIMEOUT, ext=_head(request)(None))
        broker.pops.pop(popping)
        return None

    def notification(connection: Connection, request: Request) -> None:
        popping = _popping(
            broker, connection, request, lambda answer: {"hasMsg": _truth(answer), "pollingFull": "false"}
        )
        popping.is_notice, popping.count, popping.invisible_ms = True, 1, 1
        broker.pops.pop(popping)

    def peek(connection: Connection, request: Request) -> Response:
        answer = broker.pops.peek(_popping(broker, connection, request, _head(request)))
        code = Code.SUCCESS if answer.handed else Code.PULL_NOT_FOUND
        return Response(code, ext=_head(request)(answer), body=bytes(answer.data))

    def waiting(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        group, topic = fields.text(ext, "consumerGroup"), fields.text(ext, "topic")
        return Response(ext={"pollingNum": str(broker.pops.waits(group, topic, fields.whole(ext, "queueId", -1)))})

    return {
        Ask.POP_MESSAGE: pop,
        Ask.NOTIFICATION: notification,
        Ask.PEEK_MESSAGE: peek,
        Ask.POLLING_INFO: waiting,
    }


def _truth(answer: PopAnswer | None) -> str:
    return "true" if answer is not None else "false"


def _is_late(broker: Broker, request: Request) -> bool:
    """Return whether whoever asked has given up by now."""
    born, wait = fields.long(request.ext, "bornTime", 0), fields.long(request.ext, "pollTime", 0)
    return born > 0 and broker.clock.now_ms() - born - wait > _LATE_MS


Head = Callable[[PopAnswer | None], dict[str, str]]


def _popping(broker: Broker, connection: Connection, request: Request, head: Head) -> Popping:
    """Return what a header asks for; its answer goes to the connection."""
    ext = request.ext
    is_notice = request.code == Ask.NOTIFICATION

    def give(answer: PopAnswer | None) -> None:
        code = Code.SUCCESS if answer is not None or is_notice else Code.POLLING_TIMEOUT
        data = answer.data if answer is not None else b""
        if broker.store.is_choked:
            broker.server.choke(True)
        _write(connection, request, Response(code, ext=head(answer), body=bytes(data)))

    def refuse(error: BaseException) -> None:
        if isinstance(error, TooManyWait):
            told = {"hasMsg": "false", "pollingFull": "true"} if is_notice else head(None)
            code = Code.SUCCESS if is_notice else Code.POLLING_FULL
            _write(connection, request, Response(code, ext=told, remark=str(error)))
        else:
            _write(connection, request, answer_to(error))

    return Popping(
        fields.text(ext, "consumerGroup"),
        fields.text(ext, "topic"),
        fields.whole(ext, "queueId", -1),
        fields.whole(ext, "maxMsgNums", 32),
        0,
        fields.long(ext, "pollTime", 0),
        broker.filters.of(ext.get("exp", ""), ext.get("expType") or "TAG"),
        give,
        refuse,
        lambda: not connection.is_open,
        broker.clients.client_id(connection, ext.get("consumerGroup", "")) or connection.peer,
        is_ordered=fields.truth(ext, "order"),
    )


def _write(connection: Connection, request: Request, response: Response) -> None:
    if connection.is_open:
        connection.write(encode_response(response, opaque=request.opaque, codec=request.codec))


def _head(request: Request) -> Head:
    """Return what makes the ext fields of an answer: clients want the first four in every one."""
    mark = mark_of(request.ext.get("consumerGroup", ""), request.ext.get("topic", ""))

    def head(answer: PopAnswer | None) -> dict[str, str]:
        told = {"popTime": "0", "invisibleTime": "0", "reviveQid": str(mark), "restNum": "0"}
        if answer is not None:
            told["popTime"] = str(answer.pop_ms)
            told["invisibleTime"] = str(answer.invisible_ms)
            told["restNum"] = str(answer.rest)
            told["startOffsetInfo"] = ";".join(f"0 {one.queue_id} {one.offsets[0]}" for one in answer.handed)
            told["msgOffsetInfo"] = ";".join(
                f"0 {one.queue_id} {','.join(map(str, one.offsets))}" for one in answer.handed
            )
        return told

    return head


# -- receipts ------------------------------------------------------------------------------------


def _receipts(broker: Broker) -> Handlers:
    own = broker.config.name
    acks = _Acks(broker)

    def one(request: Request) -> tuple[str, str, Receipt]:
        """Return group, topic and receipt of a request, checked against what else it says."""
        ext = request.ext
        group, topic = fields.text(ext, "consumerGroup"), fields.text(ext, "topic")
        receipt = parse_receipt(fields.text(ext, "extraInfo"), own)
        broker.groups.known(group)
        _check_place(broker, topic, receipt.queue_id)
        queue_id, offset = fields.whole(ext, "queueId"), fields.long(ext, "offset")
        if (queue_id, offset) != (receipt.queue_id, receipt.offset):
            raise BadReceipt(
                f"the receipt is of offset {receipt.offset} of queue {receipt.queue_id}, "
                f"the request of offset {offset} of queue {queue_id}"
            )
        _check_mark(receipt.mark, group, topic)
        return group, topic, receipt

    def ack(connection: Connection, request: Request) -> None:
        group, topic, receipt = one(request)
        pair = (receipt.offset, receipt.generation)
        if broker.pops.acknowledge(group, topic, receipt.queue_id, [pair]):
            raise broker.pops.receipts.why_stale(group, topic, receipt.queue_id, *pair)
        acks.answer(connection, request, Response())

    def ack_many(connection: Connection, request: Request) -> None:
        wrong: list[StaleReceipt] = []
        count = 0
        for group, topic, queue_id, pairs in list(_batch(broker, request, own)):
            count += len(pairs)
            by_offset = dict(pairs)
            wrong += (
                broker.pops.receipts.why_stale(group, topic, queue_id, offset, by_offset[offset])
                for offset in broker.pops.acknowledge(group, topic, queue_id, pairs)
            )
        response = Response()
        if wrong:
            text = f"{len(wrong)} of {count} receipts acknowledged nothing; the first: {wrong[0]}"
            response = Response(Code.NO_MESSAGE, remark=text)
        acks.answer(connection, request, response)

    def change(connection: Connection, request: Request) -> Response | None:
        group, topic, receipt = one(request)
        invisible = fields.long(request.ext, "invisibleTime")
        place = (group, topic, receipt.queue_id, receipt.offset)
        generation = broker.pops.receipts.change(*place, receipt.generation, invisible)
        told = {"popTime": str(generation), "invisibleTime": str(invisible), "reviveQid": str(receipt.mark)}
        return broker.answer_durable(connection, request, Response(ext=told), broker.store.appended_end)

    return {
        Ask.ACK_MESSAGE: ack,
        Ask.BATCH_ACK_MESSAGE: ack_many,
        Ask.CHANGE_MESSAGE_INVISIBLETIME: change,
    }


class _Acks:
    """Answers acknowledgements at the end of the loop's turn, when one record tells all of them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: list[tuple[Connection, Request, Response]] = []

    def answer(self, connection: Connection, request: Request, response: Response) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._answer_all)
        self._waiting.append((connection, request, response))

    def _answer_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        broker = self._broker
        error: BaseException | None = None
        end = 0
        try:
            end = broker.pops.receipts.settle()
        except Exception as raised:  # noqa: BLE001 - those who wait for it are told
            error = raised
        for connection, request, response in waiting:
            if error is not None:
                connection.answer(request, answer_to(error))
                continue
            answer = broker.answer_durable(connection, request, response, end)
            if answer is not None:
                connection.answer(request, answer)


def _check_place(broker: Broker, topic: str, queue_id: int) -> None:
    count = broker.topics.known(topic).queue_count
    if not 0 <= queue_id < count:
        raise BadReceipt(f"queue {queue_id} of topic {topic!r} does not exist: it has {count}")


def _check_mark(mark: int, group: str, topic: str) -> None:
    if mark != mark_of(group, topic):
        raise BadReceipt(f"the receipt was not given to group {group!r} for topic {topic!r}")


def _batch(broker: Broker, request: Request, own: str) -> Iterator[tuple[str, str, int, list[tuple[int, int]]]]:
    """Yield group, topic, queue, and pairs of offset and generation, of each entry of a batch."""
    read = bodies.load(request.body, "acknowledgements")
    entries = read.get("acks")
    if not isinstance(entries, list):
        raise BadBody("acknowledgements have a list acks")
    if read.get("brokerName", own) != own:
        raise BadReceipt(f"the receipts are from broker {str(read['brokerName'])[:_MAX_SHOWN]!r}, this is {own!r}")
    for entry in entries:
        if not isinstance(entry, dict):
            raise BadBody("every entry of acks is an object")
        group, topic, bits = entry.get("c"), entry.get("t"), entry.get("b")
        if not isinstance(group, str) or not isinstance(topic, str) or not isinstance(bits, str):
            raise BadBody("every entry of acks has the texts c, t and b")
        first, generation, queue_id, mark = (_number(entry, name) for name in ("so", "pt", "q", "rq"))
        broker.groups.known(group)
        _check_place(broker, topic, queue_id)
        _check_mark(mark, group, topic)
        if str(entry.get("r", "0")) != "0":
            raise BadReceipt("the receipts are of a retry topic, which this broker does not use")
        yield group, topic, queue_id, [(first + bit, generation) for bit in _bits(bits)]


def _number(entry: dict[str, Any], name: str) -> int:
    value = entry.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 62:
        raise BadBody(f"every entry of acks has a number {name}")
    return value


def _bits(text: str) -> list[int]:
    """Return which bits of a set are 1; the first byte has the lowest."""
    try:
        data = b64decode(text, validate=True)
    except (BadBase64, ValueError) as error:
        raise BadBody(f"a bit set of acks is no base64: {error}") from error
    if len(data) * 8 > _MAX_BITS:
        raise BadBody(f"a bit set of acks has {len(data) * 8} bits, at most {_MAX_BITS} are taken")
    return [8 * at + bit for at, byte in enumerate(data) if byte for bit in range(8) if byte >> bit & 1]
