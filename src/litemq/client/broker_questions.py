"""What brokers ask consumers, for operators: where they are, to go elsewhere, to handle one message now."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

from litemq.client._message_cy import Message, decode_messages
from litemq.client.routes import TopicQueue
from litemq.client.subscription import Subscription
from litemq.wire.remoting import bodies
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handlers

_QUEUE_ENTRY = re.compile(r"(\{[^{}]*\})\s*:\s*(-?\d+)")
"""One entry of a map whose keys are objects, as RocketMQ writes it."""


class Consumer(Protocol):
    """Whom they ask."""

    group: str

    def places(self) -> Iterable[tuple[TopicQueue, int, int]]:
        """Return queues, how far each is worked off, and how many of its messages are held."""

    def wanted(self) -> Mapping[str, Subscription]:
        """Return its subscriptions."""

    def reset(self, offsets: Mapping[TopicQueue, int]) -> None:
        """Go on at these offsets."""

    async def handle_now(self, message: Message) -> BaseException | None:
        """Handle a message that an operator sent; return what went wrong."""


def handlers(of: Callable[[], Consumer | None], properties: Mapping[str, str]) -> Handlers:
    """Return who answers which question; ``of`` returns None before the consumer is there and after it ended."""

    def only(
        answer: Callable[[Consumer, Request], Response | Awaitable[Response] | None],
    ) -> Callable[[Connection, Request], Response | Awaitable[Response] | None]:
        def ask(_connection: Connection, request: Request) -> Response | Awaitable[Response] | None:
            consumer = of()
            group = request.ext.get("consumerGroup") or request.ext.get("group")
            if consumer is None or group != consumer.group:
                return Response(Code.SYSTEM_ERROR, remark=f"no consumer of group {group!r} is here")
            return answer(consumer, request)

        return ask

    return {
        Ask.RESET_CONSUMER_CLIENT_OFFSET: only(_reset),
        Ask.GET_CONSUMER_STATUS_FROM_CLIENT: only(_status),
        Ask.GET_CONSUMER_RUNNING_INFO: only(lambda consumer, _request: _running_info(consumer, properties)),
        Ask.CONSUME_MESSAGE_DIRECTLY: only(_consume),
    }


def _reset(consumer: Consumer, request: Request) -> None:
    offsets: dict[TopicQueue, int] = {}
    for key, offset in _QUEUE_ENTRY.findall(request.body.decode("utf-8", "replace")):
        named = json.loads(key)
        offsets[TopicQueue(named["topic"], named["brokerName"], int(named["queueId"]))] = int(offset)
    consumer.reset(offsets)


def _status(consumer: Consumer, request: Request) -> Response:
    topic = request.ext.get("topic", "")
    rows = [(_named(queue), offset) for queue, offset, _held in consumer.places() if queue.topic == topic]
    return Response(body=bodies.with_queue_map("messageQueueTable", rows))


def _running_info(consumer: Consumer, properties: Mapping[str, str]) -> Response:
    now = int(time.time() * 1000)
    rows: list[tuple[dict[str, object], object]] = []
    for queue, offset, held in consumer.places():
        state: dict[str, Any] = {
            "cachedMsgCount": held,
            "cachedMsgMaxOffset": offset + held,
            "cachedMsgMinOffset": offset,
            "cachedMsgSizeInMiB": 0,
            "commitOffset": offset,
            "droped": False,
            "lastConsumeTimestamp": now,
            "lastLockTimestamp": now,
            "lastPullTimestamp": now,
            "locked": False,
            "transactionMsgCount": 0,
            "transactionMsgMaxOffset": 0,
            "transactionMsgMinOffset": 0,
            "tryUnlockTimes": 0,
        }
        rows.append((_named(queue), state))
    wanted = [each.told(0) for each in consumer.wanted().values()]
    body = bodies.with_queue_map(
        "mqTable", rows, properties=dict(properties), statusTable={}, subscriptionSet=wanted, mqPopTable={}
    )
    return Response(body=body)


async def _consume(consumer: Consumer, request: Request) -> Response:
    found = decode_messages(request.body, broker=request.ext.get("brokerName", ""), group=consumer.group)
    began = time.monotonic()
    error = await consumer.handle_now(found[0]) if found else LookupError("the broker sent no message")
    result = {
        "autoCommit": True,
        "consumeResult": "CR_SUCCESS" if error is None else "CR_THROW_EXCEPTION",
        "order": False,
        "remark": None if error is None else f"{type(error).__name__}: {error}",
        "spentTimeMills": int((time.monotonic() - began) * 1000),
    }
    return Response(body=bodies.dump(result))


def _named(queue: TopicQueue) -> dict[str, object]:
    return bodies.queue(queue.topic, queue.broker, queue.queue_id)
