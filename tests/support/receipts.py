"""Consuming by receipts as RocketMQ's clients do it: what they send, and the receipts that they make of answers."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable
from typing import NamedTuple

from tests.support.broker import Talk, records

from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Response


class Got(NamedTuple):
    """A message with its receipt."""

    body: bytes
    queue_id: int
    offset: int
    times: int
    receipt: str


def pop_ext(topic: str, **changes: object) -> dict[str, str]:
    ext: dict[str, object] = {
        "consumerGroup": "g",
        "topic": topic,
        "queueId": -1,
        "maxMsgNums": 32,
        "invisibleTime": 60_000,
        "pollTime": 0,
        "bornTime": 0,
        "initMode": 0,
        "expType": "TAG",
        "exp": "*",
    }
    return {name: str(value) for name, value in {**ext, **changes}.items()}


def got(answer: Response, broker: str = "broker-a") -> list[Got]:
    """Return what an answer holds, with receipts made as RocketMQ's clients make them."""
    if answer.code != 0:
        assert answer.code == Code.POLLING_TIMEOUT, answer
        assert set(answer.ext) >= {"popTime", "invisibleTime", "reviveQid", "restNum"}
        return []
    ext = answer.ext
    starts = {part.split(" ")[1]: part.split(" ")[2] for part in ext["startOffsetInfo"].split(";")}
    offsets = {part.split(" ")[1]: part.split(" ")[2].split(",") for part in ext["msgOffsetInfo"].split(";")}
    found = []
    for record in records(answer.body):
        queue = str(record.queue_id)
        assert str(record.queue_offset) in offsets[queue]
        receipt = f"{starts[queue]} {ext['popTime']} {ext['invisibleTime']} {ext['reviveQid']} 0 {broker} {queue} "
        times = record.reconsume_times or 0
        found.append(Got(record.body, record.queue_id, record.queue_offset, times, f"{receipt}{record.queue_offset}"))
    assert len(found) == sum(map(len, offsets.values()))
    return found


async def pop(talk: Talk, topic: str = "T", **changes: object) -> list[Got]:
    ext = pop_ext(topic, **changes)
    return got(await talk.call(Ask.POP_MESSAGE, ext, timeout_s=int(ext["pollTime"]) / 1000 + 10))


async def ack(talk: Talk, message: Got, topic: str = "T", **changes: str) -> Response:
    ext: dict[str, object] = {
        "consumerGroup": "g",
        "topic": topic,
        "queueId": message.queue_id,
        "extraInfo": message.receipt,
        "offset": message.offset,
    }
    return await talk.call(Ask.ACK_MESSAGE, {name: str(value) for name, value in {**ext, **changes}.items()})


async def change(talk: Talk, message: Got, invisible_ms: int) -> Response:
    ext = {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": str(message.queue_id),
        "extraInfo": message.receipt,
        "offset": str(message.offset),
        "invisibleTime": str(invisible_ms),
    }
    return await talk.call(Ask.CHANGE_MESSAGE_INVISIBLETIME, ext)


def changed(message: Got, answer: Response) -> Got:
    """Return a message with the receipt that an answer makes."""
    assert answer.code == 0, answer
    parts = message.receipt.split(" ")
    ext = answer.ext
    parts[:4] = [str(message.offset), ext["popTime"], ext["invisibleTime"], ext["reviveQid"]]
    return message._replace(receipt=" ".join(parts))


def batch(messages: Iterable[Got], **changes: object) -> bytes:
    """Return the body of a batch of acknowledgements, as RocketMQ's clients write it."""
    entries: dict[tuple[str, ...], set[int]] = {}
    for message in messages:
        parts = message.receipt.split(" ")
        entries.setdefault(tuple(parts[:7]), set()).add(int(parts[7]) - int(parts[0]))
    acks = []
    for (start, pop_time, invisible, revive, retry, _, queue), bits in entries.items():
        data = bytearray(max(bits) // 8 + 1)
        for bit in bits:
            data[bit // 8] |= 1 << bit % 8
        acks.append(
            {
                "c": "g",
                "t": "T",
                "r": retry,
                "so": int(start),
                "q": int(queue),
                "rq": int(revive),
                "pt": int(pop_time),
                "it": int(invisible),
                "b": b64encode(data).decode(),
                **changes,
            }
        )
    return json.dumps({"acks": acks, "brokerName": "broker-a"}).encode()
