"""What a consumer asks brokers: each request as one coroutine over a ``Net``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from litemq.client._message_cy import Message, decode_messages
from litemq.client.answers import check, json_object
from litemq.client.net import Net
from litemq.client.routes import TopicQueue
from litemq.client.subscription import Subscription
from litemq.features.retry import RETRY_PREFIX
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request

PARK_S = 15.0
"""So long a broker keeps a pull that finds nothing."""
_PULL_S = 30.0
_ASK_S = 3.0
_PARKS, _HAS_SUBSCRIPTION = 2, 4
_PULLED = {
    Code.SUCCESS: "found",
    Code.PULL_NOT_FOUND: "nothing",
    Code.PULL_RETRY_IMMEDIATELY: "nothing",
    Code.PULL_OFFSET_MOVED: "moved",
}


@dataclass(slots=True)
class Pulled:
    """The answer to a pull; ``after`` is where the next one begins."""

    kind: str
    messages: list[Message]
    after: int
    low: int
    size: int


def pull_fields(
    group: str, queue: TopicQueue, wanted: Subscription, *, version: int, count: int, size: int
) -> dict[str, str]:
    """Return what all pulls of a queue have in common: brokers remember a pull that only changes its offset."""
    return {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": str(queue.queue_id),
        "queueOffset": "0",
        "maxMsgNums": str(count),
        "sysFlag": str(_PARKS | _HAS_SUBSCRIPTION),
        "commitOffset": "0",
        "suspendTimeoutMillis": str(int(PARK_S * 1000)),
        "subscription": wanted.expression,
        "subVersion": str(version),
        "expressionType": wanted.kind,
        "maxMsgBytes": str(size),
    }


async def pull(net: Net, address: str, fields: dict[str, str], offset: int, broker: str) -> Pulled:
    """Return messages from an offset on; waits for the first one, up to ``PARK_S``.

    Raises:
        LiteMQError: the broker refuses, or does not answer.
    """
    fields["queueOffset"] = str(offset)
    answer = await net.call(address, Request(Ask.PULL_MESSAGE, fields), _PULL_S)
    kind = _PULLED.get(answer.code)  # type: ignore[call-overload] # codes are plain numbers
    if kind is None:
        check(answer, address)
    ext = answer.ext
    messages: list[Message] = []
    if kind == "found":
        group = fields["consumerGroup"]
        messages = decode_messages(answer.body, broker=broker, group=group, topic=fields["topic"])
    return Pulled(str(kind), messages, int(ext["nextBeginOffset"]), int(ext["minOffset"]), len(answer.body))


async def committed(net: Net, address: str, group: str, queue: TopicQueue) -> int | None:
    """Return how far a group has read; None when it has not said so."""
    ext = {"consumerGroup": group, **_of(queue), "setZeroIfNotFound": "false"}
    answer = await net.call(address, Request(Ask.QUERY_CONSUMER_OFFSET, ext), _ASK_S)
    if answer.code == Code.QUERY_NOT_FOUND:
        return None
    return int(check(answer, address).ext["offset"])


def _commit(group: str, queue: TopicQueue, offset: int) -> Request:
    ext = {"consumerGroup": group, **_of(queue), "commitOffset": str(offset)}
    return Request(Ask.UPDATE_CONSUMER_OFFSET, ext)


async def commit(net: Net, address: str, group: str, queue: TopicQueue, offset: int) -> None:
    """Say how far a group has read, and wait until the broker knows."""
    check(await net.call(address, _commit(group, queue, offset), _ASK_S), address)


async def tell_commit(net: Net, address: str, group: str, queue: TopicQueue, offset: int) -> None:
    """Say how far a group has read."""
    await net.tell(address, _commit(group, queue, offset))


async def end_of(net: Net, address: str, queue: TopicQueue, to: Literal["first", "last"] | int) -> int:
    """Return a queue's first offset, the one behind its last, or the first one stored at a time (ms) or later."""
    ext = _of(queue)
    if isinstance(to, int):
        ext |= {"timestamp": str(to), "boundaryType": "LOWER"}
        request = Request(Ask.SEARCH_OFFSET_BY_TIMESTAMP, ext)
    else:
        request = Request(Ask.GET_MIN_OFFSET if to == "first" else Ask.GET_MAX_OFFSET, ext)
    return int(check(await net.call(address, request, _ASK_S), address).ext["offset"])


async def first_position(net: Net, address: str, queue: TopicQueue, start: Literal["first", "last"] | int) -> int:
    """Return where a group begins that has no position: what came back to be retried it never leaves out."""
    return await end_of(net, address, queue, "first" if queue.topic.startswith(RETRY_PREFIX) else start)


async def members(net: Net, address: str, group: str) -> list[str] | None:
    """Return the clients of a group as one broker knows them; None when it knows none."""
    answer = await net.call(address, Request(Ask.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group}), _ASK_S)
    if answer.code != Code.SUCCESS:
        return None
    found = json_object(answer).get("consumerIdList")
    return [str(each) for each in found] if isinstance(found, list) else None


def heartbeat_body(
    client_id: str,
    group: str,
    wanted: Iterable[Subscription],
    *,
    version: int,
    is_push: bool,
    is_broadcast: bool,
    from_where: str,
) -> bytes:
    """Return the heartbeat of a client with one consumer group."""
    beat: dict[str, Any] = {
        "clientID": client_id,
        "consumerDataSet": [
            {
                "consumeFromWhere": from_where,
                "consumeType": "CONSUME_PASSIVELY" if is_push else "CONSUME_ACTIVELY",
                "groupName": group,
                "messageModel": "BROADCASTING" if is_broadcast else "CLUSTERING",
                "subscriptionDataSet": [each.told(version) for each in wanted],
                "unitMode": False,
            }
        ],
        "heartbeatFingerprint": 0,
        "producerDataSet": [],
        "withoutSub": False,
    }
    return _json(beat)


async def heartbeat(net: Net, address: str, body: bytes) -> None:
    """Tell a broker who is there."""
    check(await net.call(address, Request(Ask.HEART_BEAT, {}, body), _ASK_S), address)


async def unregister(net: Net, address: str, client_id: str, group: str) -> None:
    """Leave a group."""
    ext = {"clientID": client_id, "consumerGroup": group}
    check(await net.call(address, Request(Ask.UNREGISTER_CLIENT, ext), _ASK_S), address)


async def check_filter(net: Net, address: str, client_id: str, group: str, wanted: Subscription) -> None:
    """Ask a broker whether it knows a filter of this kind."""
    asked = {"clientId": client_id, "group": group, "subscriptionData": wanted.told(0)}
    check(await net.call(address, Request(Ask.CHECK_CLIENT_CONFIG, {}, _json(asked)), _ASK_S), address)


def _lock_body(client_id: str, group: str, queues: Iterable[TopicQueue]) -> bytes:
    named = [{"brokerName": one.broker, "queueId": one.queue_id, "topic": one.topic} for one in queues]
    return _json({"clientId": client_id, "consumerGroup": group, "mqSet": named, "onlyThisBroker": False})


async def lock(net: Net, address: str, client_id: str, group: str, queues: Iterable[TopicQueue]) -> set[TopicQueue]:
    """Lock queues of a broker, or hold their locks longer; return those that are this client's now."""
    body = _lock_body(client_id, group, queues)
    answer = check(await net.call(address, Request(Ask.LOCK_BATCH_MQ, {}, body), _ASK_S), address)
    held = json_object(answer).get("lockOKMQSet") or ()
    return {TopicQueue(one["topic"], one["brokerName"], int(one["queueId"])) for one in held}


async def unlock(net: Net, address: str, client_id: str, group: str, queues: Iterable[TopicQueue]) -> None:
    """Give locks back."""
    await net.tell(address, Request(Ask.UNLOCK_BATCH_MQ, {}, _lock_body(client_id, group, queues)))


@dataclass(frozen=True, slots=True)
class SendBack:
    """How a message is given back: ``level`` -1 dead letter, 0 the broker's own delay; ``retry_ms`` as asked for."""

    level: int = 0
    retry_ms: int | None = None
    max_retries: int | None = None
    error: str = ""
    stack: str = ""


async def send_back(net: Net, address: str, group: str, message: Message, topic: str, how: SendBack) -> None:
    """Give a message back that could not be handled; it comes again, or is a dead letter."""
    ext = {
        "offset": str(message.position),
        "group": group,
        "delayLevel": str(how.level),
        "originMsgId": message.message_id,
        "originTopic": topic,
        "unitMode": "false",
    }
    told = {
        "lmqRetryMs": how.retry_ms,
        "maxReconsumeTimes": how.max_retries,
        "lmqError": how.error or None,
        "lmqStack": how.stack or None,
    }
    ext |= {name: str(value) for name, value in told.items() if value is not None}
    check(await net.call(address, Request(Ask.CONSUMER_SEND_MSG_BACK, ext), _ASK_S), address)


async def reply(
    net: Net, address: str, group: str, cluster: str, properties: Mapping[str, str], body: bytes, born_ms: int
) -> None:
    """Hand a reply to the producer that the properties name."""
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    ext = {
        "a": group,
        "b": f"{cluster}_REPLY_TOPIC",
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": str(born_ms),
        "h": "0",
        "i": text,
        "j": "0",
        "k": "false",
        "m": "false",
    }
    check(await net.call(address, Request(Ask.SEND_REPLY_MESSAGE_V2, ext, body), _ASK_S), address)


def _of(queue: TopicQueue) -> dict[str, str]:
    return {"topic": queue.topic, "queueId": str(queue.queue_id)}


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
