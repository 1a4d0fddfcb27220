"""A small push consumer: heartbeats, even shares of queues, locks for ordered groups, commits, messages sent back."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tests.support import raw_client as raw
from tests.support.raw_client import Pulled

from litemq.errors import NoAnswer
from litemq.wire.remoting.client import Client
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection

_BEAT_S = 3.0
_RENEW_S = 10.0
_LOCK_S = 30.0
"""A client trusts a lock so long: half of what the broker grants."""
_PARK_MS = 3_000
_PAUSE_S = 0.2

Place = tuple[str, str, int]
"""Group, topic, queue."""

Handle = Callable[[Place, str, Sequence[Pulled]], Sequence[Pulled]]
"""Handles messages of a queue in one tenure; returns those that shall come again."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """What a group consumes, and how."""

    topics: dict[str, str]
    """Topic → tags."""
    is_ordered: bool = False
    max_retries: int = 16


@dataclass(slots=True)
class _Tenure:
    """The time in which this client has a queue."""

    name: str
    task: asyncio.Task[None] | None = None
    locked_at: float = 0.0
    is_ending: asyncio.Event = field(default_factory=asyncio.Event)


class PushConsumer:
    """One client in several groups, until ``stop``."""

    def __init__(
        self, address: str, client_id: str, groups: dict[str, GroupSpec], queues: dict[str, int], handle: Handle
    ) -> None:
        self._client_id = client_id
        self._groups = groups
        self._queues = queues
        self._handle = handle
        self._changed = asyncio.Event()
        self._client = Client(address, {Ask.NOTIFY_CONSUMER_IDS_CHANGED: self._on_change})
        self._held: dict[Place, _Tenure] = {}
        self._serial = itertools.count()
        self._stopping = asyncio.Event()

    def _on_change(self, _connection: Connection, _request: Request) -> None:
        self._changed.set()

    def stop(self) -> None:
        """Let ``run`` come to its end."""
        self._stopping.set()
        self._changed.set()

    async def run(self) -> None:
        """Consume until told to stop, then leave the groups properly."""
        loop = asyncio.get_running_loop()
        beat_at = 0.0
        while not self._stopping.is_set():
            with suppress(NoAnswer):
                if loop.time() >= beat_at:
                    await self._beat()
                    beat_at = loop.time() + _BEAT_S
                for group in self._groups:
                    await self._balance(group)
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._changed.wait()
            self._changed.clear()
        for place in list(self._held):
            await self._give_up(place)
        with suppress(NoAnswer):
            for group in self._groups:
                await self._client.call(Ask.UNREGISTER_CLIENT, {"clientID": self._client_id, "consumerGroup": group})
        self._client.close()

    # -- membership ------------------------------------------------------------------------------

    async def _beat(self) -> None:
        beat = {
            "clientID": self._client_id,
            "producerDataSet": [],
            "consumerDataSet": [
                {
                    "groupName": group,
                    "consumeType": "CONSUME_PASSIVELY",
                    "messageModel": "CLUSTERING",
                    "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                    "subscriptionDataSet": [
                        {"topic": topic, "subString": wanted, "expressionType": "TAG", "subVersion": 1}
                        for topic, wanted in {**spec.topics, f"%RETRY%{group}": "*"}.items()
                    ],
                }
                for group, spec in self._groups.items()
            ],
        }
        await self._client.call(Ask.HEART_BEAT, {}, json.dumps(beat).encode())

    async def _balance(self, group: str) -> None:
        """Take up the queues that are this client's share, and give up the others."""
        answer = await self._client.call(Ask.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
        if answer.code != Code.SUCCESS:
            return
        members = sorted(json.loads(answer.body)["consumerIdList"])
        spec = self._groups[group]
        mine: set[Place] = set()
        for topic in (*spec.topics, f"%RETRY%{group}"):
            share = even_share(members, self._client_id, self._queues.get(topic, 1))
            mine |= {(group, topic, queue) for queue in share}
        for place in [place for place in self._held if place[0] == group and place not in mine]:
            await self._give_up(place)
        if spec.is_ordered:
            await self._lock(group, sorted(mine))
        else:
            for place in mine - self._held.keys():
                self._take_up(place)

    async def _lock(self, group: str, places: list[Place]) -> None:
        """Ask for the locks of new queues, and again for those that are held."""
        now = asyncio.get_running_loop().time()
        due = [place for place in places if place not in self._held or now - self._held[place].locked_at > _RENEW_S]
        if not due:
            return
        answer = await self._client.call(Ask.LOCK_BATCH_MQ, {}, self._lock_body(group, due))
        got = {(item["topic"], item["queueId"]) for item in json.loads(answer.body)["lockOKMQSet"]}
        for place in due:
            if place[1:] not in got:
                continue
            if place not in self._held:
                self._take_up(place)
            self._held[place].locked_at = now  # of the question: the broker's lease ends later

    def _lock_body(self, group: str, places: list[Place]) -> bytes:
        queues = [{"brokerName": "broker-a", "topic": topic, "queueId": queue} for _, topic, queue in places]
        return json.dumps({"clientId": self._client_id, "consumerGroup": group, "mqSet": queues}).encode()

    def _take_up(self, place: Place) -> None:
        tenure = _Tenure(f"{self._client_id}.{next(self._serial)}")
        self._held[place] = tenure
        tenure.task = asyncio.create_task(self._consume(place, tenure))
        tenure.task.add_done_callback(lambda _: self._changed.set())

    async def _give_up(self, place: Place) -> None:
        """Stop consuming a queue; what is being handled is finished and committed first."""
        tenure = self._held.pop(place)
        tenure.is_ending.set()
        if tenure.task is not None:
            await tenure.task
        if self._groups[place[0]].is_ordered:
            with suppress(NoAnswer):
                await self._client.call(Ask.UNLOCK_BATCH_MQ, {}, self._lock_body(place[0], [place]))

    # -- consuming -------------------------------------------------------------------------------

    async def _consume(self, place: Place, tenure: _Tenure) -> None:
        offset: int | None = None
        while not tenure.is_ending.is_set():
            if not self._may_go_on(place, tenure):
                await asyncio.sleep(_PAUSE_S)  # until the lock is renewed: the broker lets nobody else in
                continue
            try:
                if offset is None:
                    offset = await self._committed(place)
                else:
                    offset = await self._step(place, tenure, offset)
            except NoAnswer:
                offset = None  # whoever comes back asks how far the group is
                await asyncio.sleep(_PAUSE_S)

    def _may_go_on(self, place: Place, tenure: _Tenure) -> bool:
        is_ordered = self._groups[place[0]].is_ordered
        return not is_ordered or asyncio.get_running_loop().time() - tenure.locked_at < _LOCK_S

    async def _committed(self, place: Place) -> int:
        group, topic, queue = place
        ext = {"consumerGroup": group, "topic": topic, "queueId": str(queue)}
        answer = await self._client.call(Ask.QUERY_CONSUMER_OFFSET, ext)
        return int(answer.ext["offset"]) if answer.code == Code.SUCCESS else 0

    async def _step(self, place: Place, tenure: _Tenure, offset: int) -> int:
        """Pull, handle, commit; return the next offset."""
        answer = await self._pull(place, tenure, offset)
        if answer is None:
            return offset
        if answer.code not in (Code.SUCCESS, Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY, Code.PULL_OFFSET_MOVED):
            await asyncio.sleep(_PAUSE_S)
            return offset
        after = int(answer.ext["nextBeginOffset"])
        if answer.code == Code.SUCCESS:
            if not self._may_go_on(place, tenure):
                return offset
            for message in self._handle(place, tenure.name, list(raw.messages(answer.body))):
                await self._send_back(place[0], message)
        if after != offset:
            group, topic, queue = place
            ext = {"consumerGroup": group, "topic": topic, "queueId": str(queue), "commitOffset": str(after)}
            await self._client.call(Ask.UPDATE_CONSUMER_OFFSET, ext)
        return after

    async def _pull(self, place: Place, tenure: _Tenure, offset: int) -> Response | None:
        """Return the answer to a pull; None when the queue was given up meanwhile."""
        group, topic, queue = place
        ext = raw.pull_ext(topic, queue, offset, group=group, park_ms=_PARK_MS)
        ext["subscription"] = self._groups[group].topics.get(topic, "*")
        call = asyncio.ensure_future(self._client.call(Ask.PULL_MESSAGE, ext, timeout_s=_PARK_MS / 1000 + 10))
        ending = asyncio.ensure_future(tenure.is_ending.wait())
        await asyncio.wait([call, ending], return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if not call.done():
            call.cancel()
            return None
        return call.result()

    async def _send_back(self, group: str, message: Pulled) -> None:
        """Have a message come again after a second; until the broker has taken it, nothing else is done."""
        ext = {
            "group": group,
            "offset": str(message.position),
            "delayLevel": "1",
            "maxReconsumeTimes": str(self._groups[group].max_retries),
        }
        while True:
            answer = await self._client.call(Ask.CONSUMER_SEND_MSG_BACK, ext)
            if answer.code == Code.SUCCESS:
                return
            await asyncio.sleep(_PAUSE_S)


def even_share(members: Sequence[str], own: str, count: int) -> range:
    """Return which of ``count`` queues a member gets: neighbours; the first members get what is over."""
    if own not in members:
        return range(0)
    each, more = divmod(count, len(members))
    at = list(members).index(own)
    first = at * each + min(at, more)
    return range(first, first + each + (1 if at < more else 0))
