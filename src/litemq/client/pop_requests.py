"""What a consumer with receipts asks brokers: each request as one coroutine over a ``Net``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from litemq.client._message_cy import Message
from litemq.client.answers import check, error_of
from litemq.client.net import Net
from litemq.client.receipts import Receipt, acks, popped_messages, receipt_of
from litemq.client.subscription import Subscription
from litemq.errors import BadBody, StaleReceipt
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response

MOST: Final = 32
"""Messages of one pop."""
_EMPTY: Final = frozenset({Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY, Code.POLLING_FULL, Code.POLLING_TIMEOUT})
_ASK_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Pop:
    """What all pops of a consumer from one topic have in common."""

    group: str
    wanted: Subscription
    starts_last: bool = False
    is_ordered: bool = False

    @property
    def topic(self) -> str:
        """Whose messages are meant."""
        return self.wanted.topic

    async def take(
        self, net: Net, address: str, broker: str, *, count: int, invisible_ms: int, wait_ms: int = 0
    ) -> list[Message]:
        """Take messages of any queue of a broker; waits for the first one.

        Raises:
            LiteMQError: the broker refuses, or does not answer.
        """
        ext = self._fields(wait_ms)
        ext |= {
            "maxMsgNums": str(count),
            "invisibleTime": str(invisible_ms),
            "initMode": "1" if self.starts_last else "0",
            "expType": self.wanted.kind,
            "exp": self.wanted.expression,
        }
        answer = await net.call(address, Request(Ask.POP_MESSAGE, ext), wait_ms / 1000 + _ASK_S)
        if answer.code in _EMPTY:
            return []
        check(answer, address)
        return popped_messages(answer.body, answer.ext, topic=self.topic, group=self.group, broker=broker)

    async def notice(self, net: Net, address: str, *, wait_ms: int) -> bool:
        """Wait until a broker may have messages, and take none; return whether it may."""
        answer = await net.call(address, Request(Ask.NOTIFICATION, self._fields(wait_ms)), wait_ms / 1000 + _ASK_S)
        if answer.code in _EMPTY:
            return False
        return check(answer, address).ext.get("hasMsg", "").lower() == "true"

    def _fields(self, wait_ms: int) -> dict[str, str]:
        return {
            "consumerGroup": self.group,
            "topic": self.topic,
            "queueId": "-1",
            "pollTime": str(wait_ms),
            "bornTime": str(time.time_ns() // 1_000_000),
            "order": "true" if self.is_ordered else "false",
        }


def _named(receipt: Receipt) -> dict[str, str]:
    return {
        "consumerGroup": receipt.delivery.group,
        "topic": receipt.delivery.stored_topic,
        "queueId": str(receipt.delivery.queue_id),
        "extraInfo": receipt,
        "offset": str(receipt.offset),
        "bname": receipt.delivery.broker,
    }


def _granted(answer: Response, address: str) -> Response:
    """Return an answer that takes a receipt.

    Raises:
        StaleReceipt: its delivery is over.
        LiteMQError: something else is wrong.
    """
    if answer.code == Code.NO_MESSAGE:
        raise StaleReceipt(str(error_of(answer, address)))
    return check(answer, address)


async def ack(net: Net, address: str, receipt: Receipt, timeout: float) -> None:
    """Say that a message is done.

    Raises:
        StaleReceipt: the receipt is not good any more; the text says why.
    """
    _granted(await net.call(address, Request(Ask.ACK_MESSAGE, _named(receipt)), timeout), address)


async def ack_batch(net: Net, address: str, broker: str, receipts: Sequence[Receipt], timeout: float) -> None:
    """Say that messages of one broker are done, in one request."""
    body = {"acks": acks(receipts), "brokerName": broker}
    request = Request(Ask.BATCH_ACK_MESSAGE, {"bname": broker}, json.dumps(body, separators=(",", ":")).encode())
    _granted(await net.call(address, request, timeout), address)


async def change_invisible(net: Net, address: str, receipt: Receipt, invisible_ms: int, timeout: float) -> Receipt:
    """Have a message delivered again so much later from now on; return the receipt that counts then.

    Raises:
        StaleReceipt: the receipt is not good any more; the text says why.
    """
    request = Request(Ask.CHANGE_MESSAGE_INVISIBLETIME, {**_named(receipt), "invisibleTime": str(invisible_ms)})
    ext = _granted(await net.call(address, request, timeout), address).ext
    old = receipt.delivery
    try:
        popped, invisible, revive = int(ext["popTime"]), int(ext["invisibleTime"]), int(ext["reviveQid"])
    except (KeyError, ValueError) as error:
        raise BadBody(f"{address} answers with no receipt: {ext}") from error
    return receipt_of(
        replace(old, start=receipt.offset, pop_ms=popped, invisible_ms=invisible, revive_queue=revive), receipt.offset
    )


def by_broker(receipts: Iterable[Receipt]) -> dict[str, list[Receipt]]:
    """Return receipts by the broker that must be told."""
    found: dict[str, list[Receipt]] = {}
    for one in receipts:
        found.setdefault(one.delivery.broker, []).append(one)
    return found
