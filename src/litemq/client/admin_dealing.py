"""Growing and shrinking topics over brokers.

Growing is done at once.  Shrinking is gentle: producers lose the queues first; consumers lose a queue only when every
group has read it, and not in the same step, because producers use the routes that they have for half a minute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from litemq.client.admin_cluster import ClusterCore
from litemq.client.admin_topic_values import Left, TopicChange, TopicOn
from litemq.client.answers import check, json_object
from litemq.errors import NoAnswer, OutcomeUnknown, Unavailable
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request

_ROUTE_S: Final = 5.0
"""Brokers tell name servers of a change before they answer; this is for those that do not."""


class Dealing(ClusterCore):
    """Puts topics on brokers and takes queues from them."""

    async def _deal(
        self,
        masters: Mapping[str, str],
        topic: str,
        known: Mapping[str, TopicOn],
        dealt: Mapping[str, int],
        *,
        force: bool,
        dry_run: bool,
    ) -> TopicChange:
        brokers: dict[str, TopicOn] = {}
        left: list[Left] = []
        pattern = next(iter(known.values()))
        before = {name: known.get(name) or replace(pattern, read=0, write=0) for name in {*known, *dealt}}
        # Those that get more come first: at no time producers have nowhere to send.
        for name in sorted(before, key=lambda name: (before[name].write - dealt.get(name, 0), name)):
            count, on = dealt.get(name, 0), before[name]
            kept = [] if force else await self._held(masters[name], name, topic, on, count)
            left += kept
            read = max([count, *(one.queue_id + 1 for one in kept)])
            wanted = replace(on, read=read, write=count)
            if read:
                brokers[name] = wanted
            if dry_run:
                continue
            if not read:
                await self._remove(masters[name], topic)
            elif wanted != on:
                await self._put(masters[name], topic, wanted, force=force)
        if not dry_run:
            await self._check_route(topic, brokers)
        return TopicChange(topic, dict(sorted(brokers.items())), tuple(left))

    async def _held(self, address: str, broker: str, topic: str, on: TopicOn, count: int) -> list[Left]:
        """Return what keeps a broker that gets ``count`` queues from taking the others from consumers."""
        found: list[Left] = []
        for queue_id in range(on.read - 1, count - 1, -1):
            place = {"topic": topic, "queueId": str(queue_id)}
            low = int((await self._have(address, Ask.GET_MIN_OFFSET, place)).ext["offset"])
            high = int((await self._have(address, Ask.GET_MAX_OFFSET, place)).ext["offset"])
            unread = await self._unread(address, topic, queue_id, low, high) if low < high else {}
            # Producers that know of this queue may send to it for a while after it was taken from them.
            if not unread and queue_id < on.write and high:
                unread = {"": 0}
            found += [Left(broker, queue_id, group, number) for group, number in unread.items()]
        return found

    async def _unread(self, address: str, topic: str, queue_id: int, low: int, high: int) -> dict[str, int]:
        """Return how many messages of a queue each group has yet to read, of those that have; nobody's stand at ""."""
        answer = await self._have(address, Ask.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic})
        groups = json_object(answer).get("groupList") or []
        found = {} if groups else {"": high - low}
        for group in groups:
            ext = {"topic": topic, "queueId": str(queue_id), "consumerGroup": group, "setZeroIfNotFound": "false"}
            told = await self._ask(address, Ask.QUERY_CONSUMER_OFFSET, ext)
            offset = int(told.ext["offset"]) if told.code == Code.SUCCESS else low
            if offset < high:
                found[group] = high - max(offset, low)
        return found

    async def _put(
        self, address: str, topic: str, wanted: TopicOn, attributes: str = "", *, force: bool = False
    ) -> None:
        """Make or alter a topic on one broker; attributes that are not named stay."""
        ext = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": str(wanted.read),
            "writeQueueNums": str(wanted.write),
            "perm": str(wanted.perm),
            "topicFilterType": wanted.filter_type,
            "topicSysFlag": str(wanted.sys_flag),
            "order": "true" if wanted.is_ordered else "false",
        }
        if attributes:
            ext["attributes"] = attributes
        if force:
            ext["force"] = "true"
        await self._have(address, Ask.UPDATE_AND_CREATE_TOPIC, ext)

    async def _remove(self, address: str, topic: str) -> None:
        """Delete a topic on one broker."""
        await self._have(address, Ask.DELETE_TOPIC_IN_BROKER, {"topic": topic})

    # -- name servers ----------------------------------------------------------------------------

    async def _forget(self, topic: str) -> None:
        """Have every name server in reach forget a topic."""
        failed: Unavailable | None = None
        reached = False
        for address in self._servers:
            try:
                request = Request(Ask.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})
                check(await self._net.call(address, request, self._timeout), address)
                reached = True
            except (NoAnswer, OutcomeUnknown) as error:
                failed = error
        if failed is not None and not reached:
            raise failed

    async def _route_of(self, topic: str) -> dict[str, TopicOn]:
        """Return broker name → queues of a topic, as the name servers tell clients; empty when there is none."""
        answer = await self._routes.ask(Ask.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        if answer.code == Code.TOPIC_NOT_EXIST:
            return {}
        return {
            queues["brokerName"]: TopicOn(queues["readQueueNums"], queues["writeQueueNums"], queues["perm"])
            for queues in json_object(check(answer, "the name server")).get("queueDatas") or ()
        }

    async def _check_route(self, topic: str, wanted: Mapping[str, TopicOn]) -> None:
        """Return when clients are told of a topic as it is wanted.

        Raises:
            NoAnswer: they are not, for a while now.
        """
        until = self._net.now() + _ROUTE_S
        counts = {name: (on.read, on.write) for name, on in wanted.items()}
        while {name: (on.read, on.write) for name, on in (await self._route_of(topic)).items()} != counts:
            if self._net.now() > until:
                raise NoAnswer(f"the name server does not tell of topic {topic!r} as it is now; look at its log")
            await self._net.sleep(0.1)
