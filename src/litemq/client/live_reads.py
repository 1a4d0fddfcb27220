"""Reading whole ranges of queues from brokers: what data jobs ask, with records as they are stored.

A job asks every broker for the bounds of its topics, parts the ranges, and has each worker ask the queue's own broker
for records.  All of it belongs to the thread that calls; connections are made when they are needed, also after a fork.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from litemq.client.answers import check, json_object
from litemq.client.coordinators import Coordinators
from litemq.client.net import BlockingNet
from litemq.client.routes import Routes, name_servers
from litemq.client.running import run
from litemq.client.values import seconds
from litemq.errors import InvalidRequest, NoAnswer, OutcomeUnknown, Unavailable
from litemq.wire.remoting import fields
from litemq.wire.remoting.bodies import dump
from litemq.wire.remoting.codes import BINARY, Ask, Code
from litemq.wire.remoting.command import Request, Response

R = TypeVar("R")

TIMEOUT_S: Final = 30.0
PULL_BYTES: Final = 2 << 20
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
_ANSWER_S: Final = 15.0
_QUEUES_AT_ONCE: Final = 1_000
_TOPICS_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class LiveQueue:
    """One queue on one broker, and where it begins and ends; ``bytes`` is an estimate."""

    topic: str
    broker: str
    queue_id: int
    min_offset: int
    max_offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LiveTopic:
    """A topic on one broker.  ``incarnation`` changes when it is deleted and made again."""

    name: str
    broker: str
    incarnation: str
    queues: tuple[LiveQueue, ...]


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """One broker's answer.  ``log_id`` names its log, ``format`` the records in it."""

    name: str
    log_id: str
    format: str
    topics: tuple[LiveTopic, ...]


@dataclass(frozen=True, slots=True)
class RawRecords:
    """Records of a queue as they are stored, one behind the other; ``next_offset`` is where to go on.

    Each says its own size, position and offset.  Fewer records than offsets: the others are damaged.
    """

    data: bytes
    count: int
    next_offset: int
    min_offset: int
    max_offset: int
    format: str


@dataclass(frozen=True, slots=True)
class Held:
    """A hold that a broker granted: until when, and which queues begin behind the wanted offset already."""

    until_ms: int
    late: Mapping[tuple[str, int], int]


class LiveReader:
    """Asks the brokers of a cluster on behalf of one job.

    Args:
        nameservers: ``host:port``, several of them separated by ``;``; else ``LITEMQ_NAMESERVER``, else this machine's.
        timeout: seconds for which a broker that does not answer is asked again.
    """

    def __init__(self, nameservers: str | Sequence[str] | None = None, *, timeout: float = TIMEOUT_S) -> None:
        self._timeout = seconds(timeout)
        if not self._timeout > 0:
            raise InvalidRequest(f"timeout is {timeout!r}, it must be seconds above 0")
        self._net = BlockingNet()
        self._brokers = Coordinators(self._net, Routes(self._net, name_servers(nameservers), timeout=3.0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        run(self._net.close())

    # -- questions -------------------------------------------------------------------------------

    def brokers(self) -> list[str]:
        """Return the names of all brokers that take messages.

        Raises:
            Unavailable: there is none.
        """

        def ask(_is_again: bool, _left: float) -> list[str]:
            found = sorted(run(self._brokers.brokers()))
            if not found:
                raise Unavailable("no broker has registered with the name server; start one: litemq broker")
            return found

        return self._until_answered(ask, self._timeout)

    def bounds(self, topics: Iterable[str] | None = None) -> list[LiveBroker]:
        """Return where the queues of topics begin and end on every broker; of all topics of applications without names.

        Topics that a broker does not have are left out of its answer.
        """
        names = None if topics is None else sorted(set(topics))
        return [self._bounds_of(broker, names) for broker in self.brokers()]

    def _bounds_of(self, broker: str, names: list[str] | None) -> LiveBroker:
        found: list[LiveTopic] = []
        ext: dict[str, str] = {"maxNum": str(_TOPICS_AT_ONCE)}
        at = 0
        while True:
            body = b"" if names is None else dump({"topics": names[at : at + _TOPICS_AT_ONCE]})
            told = json_object(self._ask(broker, Ask.LITEMQ_BOUNDS, ext, body))
            found += [_topic(one, broker) for one in told["topics"]]
            at += _TOPICS_AT_ONCE
            if names is None and "next" in told:
                ext["fromTopic"] = told["next"]
            elif names is None or at >= len(names):
                break
        return LiveBroker(broker, str(told["logId"]), str(told["format"]), tuple(found))

    def offsets_at(self, wanted: Sequence[tuple[LiveQueue, int]]) -> list[int]:
        """Return for each queue and time (ms) the first offset stored then or later, else the queue's end."""
        found: dict[int, int] = {}
        for broker in sorted({queue.broker for queue, _ in wanted}):
            rows = [(at, queue, time) for at, (queue, time) in enumerate(wanted) if queue.broker == broker]
            for first in range(0, len(rows), _QUEUES_AT_ONCE):
                page = rows[first : first + _QUEUES_AT_ONCE]
                body = dump({"queues": [[queue.topic, queue.queue_id, time] for _, queue, time in page]})
                told = json_object(self._ask(broker, Ask.LITEMQ_OFFSETS_AT, {}, body))["offsets"]
                found |= {at: int(offset) for (at, _, _), offset in zip(page, told, strict=True)}
        return [found[at] for at in range(len(wanted))]

    def split(self, broker: str, topic: str, queue_id: int, first: int, end: int, *, every_bytes: int) -> list[int]:
        """Return the offsets at which a range of a queue is cut into pieces of at most so many stored bytes."""
        cuts: list[int] = []
        while True:
            ext = {
                "topic": topic,
                "queueId": str(queue_id),
                "fromOffset": str(cuts[-1] if cuts else first),
                "toOffset": str(end),
                "everyBytes": str(every_bytes),
            }
            told = json_object(self._ask(broker, Ask.LITEMQ_SPLIT, ext))
            cuts += told["cuts"]
            if not told["more"]:
                return cuts

    def bytes_end(self, broker: str, topic: str, queue_id: int, first: int, end: int, *, max_bytes: int) -> int:
        """Return the offset before which at most ``max_bytes`` of stored records lie, behind one message at least."""
        ext = {
            "topic": topic,
            "queueId": str(queue_id),
            "fromOffset": str(first),
            "toOffset": str(end),
            "everyBytes": str(max_bytes),
            "maxNum": "1",
        }
        cuts = json_object(self._ask(broker, Ask.LITEMQ_SPLIT, ext))["cuts"]
        return int(cuts[0]) if cuts else end

    def pull(
        self, broker: str, topic: str, queue_id: int, first: int, end: int, *, max_bytes: int = PULL_BYTES
    ) -> RawRecords:
        """Return records of a queue from ``first`` on, before ``end``: at most ``max_bytes`` of them, one at least."""
        ext = {
            "topic": topic,
            "queueId": str(queue_id),
            "fromOffset": str(first),
            "toOffset": str(end),
            "maxBytes": str(max_bytes),
        }
        answer = self._ask(broker, Ask.LITEMQ_RAW_PULL, ext)
        told = answer.ext
        return RawRecords(
            data=answer.body,
            count=fields.long(told, "count"),
            next_offset=fields.long(told, "nextOffset"),
            min_offset=fields.long(told, "minOffset"),
            max_offset=fields.long(told, "maxOffset"),
            format=told["format"],
        )

    # -- holds -----------------------------------------------------------------------------------

    def hold(
        self, broker: str, name: str, offsets: Mapping[tuple[str, int], int], *, lease_s: float, timeout: float = 0.0
    ) -> Held:
        """Have a broker keep queues, by topic and queue id, from offsets on; the same name again moves the hold.

        It ends by itself after ``lease_s``; a full disk, or a purge by an operator, goes over it.
        """
        body = dump({"queues": [[topic, queue_id, offset] for (topic, queue_id), offset in offsets.items()]})
        ext = {"name": name, "leaseMs": str(round(lease_s * 1000))}
        told = json_object(self._ask(broker, Ask.LITEMQ_HOLD, ext, body, timeout=timeout))
        return Held(int(told["untilMs"]), {(topic, queue_id): low for topic, queue_id, low in told["late"]})

    def release(self, broker: str, name: str) -> bool:
        """Give a hold back; return whether there was one."""
        told = json_object(self._ask(broker, Ask.LITEMQ_HOLD, {"name": name, "release": "true"}))
        return bool(told["released"])

    def commit(self, broker: str, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note how far a consumer group has read."""
        ext = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "commitOffset": str(offset)}
        self._ask(broker, Ask.UPDATE_CONSUMER_OFFSET, ext)

    def committed(self, broker: str, group: str, topic: str, queue_id: int) -> int | None:
        """Return what a consumer group reads next of a queue; None when it has noted nothing yet."""
        ext = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "setZeroIfNotFound": "false"}
        answer = self._ask(broker, Ask.QUERY_CONSUMER_OFFSET, ext, missing=(Code.QUERY_NOT_FOUND,))
        return fields.long(answer.ext, "offset") if answer.code == Code.SUCCESS else None

    # -- asking ----------------------------------------------------------------------------------

    def _ask(
        self,
        broker: str,
        code: Ask,
        ext: dict[str, str],
        body: bytes = b"",
        *,
        timeout: float = 0.0,
        missing: tuple[Code, ...] = (),
    ) -> Response:
        """Ask a broker until it answers, which may be after its next start: these questions change nothing.

        ``missing``: codes by which it says that nothing is there.
        """

        def ask(is_again: bool, left: float) -> Response:
            address = run(self._brokers.address(broker, fresh=is_again))
            request = Request(code, ext, body, codec=BINARY)
            answer = run(self._net.call(address, request, max(min(left, _ANSWER_S), 0.01)))
            return answer if answer.code in missing else check(answer, address)

        try:
            return self._until_answered(ask, timeout or self._timeout)
        except (NoAnswer, OutcomeUnknown) as error:
            text = f"the broker {broker!r} does not answer: {error}; look at litemq cluster health"
            raise Unavailable(text) from error

    def _until_answered(self, ask: Callable[[bool, float], R], timeout: float) -> R:
        """Ask until there is an answer; ``ask`` is told whether it is again, and how long it may take."""
        net, pause, is_again = self._net, _FIRST_PAUSE_S, False
        deadline = net.now() + timeout
        while True:
            try:
                return ask(is_again, deadline - net.now())
            except Unavailable as error:
                wait = max(pause, min(error.retry_after or 0.0, _LONGEST_PAUSE_S))
                if net.now() + wait >= deadline:
                    raise
            run(net.sleep(wait))
            pause, is_again = min(pause * 2, _LONGEST_PAUSE_S), True


def _topic(told: dict[str, Any], broker: str) -> LiveTopic:
    name = str(told["name"])
    queues = tuple(LiveQueue(name, broker, *(int(number) for number in row)) for row in told["queues"])
    return LiveTopic(name, broker, str(told["incarnation"]), queues)
