"""Topics: made, shown, altered, deleted and purged over all brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final, Unpack

from litemq.client.admin_cluster import ClusterCore, found_or_none, load_with_queues, moment, queue_pairs, time_ms
from litemq.client.admin_dealing import Dealing
from litemq.client.admin_topic_values import (
    Purged,
    TopicChange,
    TopicDetails,
    TopicInfo,
    TopicOn,
    TopicQueueInfo,
    TopicSettings,
    attribute_changes,
    changes_text,
    perm_after,
    topic_on,
)
from litemq.client.answers import json_object
from litemq.client.routes import TopicQueue
from litemq.errors import InvalidRequest, UnknownTopic
from litemq.features.dead_letter import DLQ_PREFIX
from litemq.features.placement import EVEN, place
from litemq.features.retry import RETRY_PREFIX
from litemq.wire.remoting.codes import Ask

QUEUES: Final = 8
_ALWAYS: Final = (1 << 62) - 1
"""As a time: whatever was stored was stored before it."""


class TopicAdmin(Dealing, ClusterCore):
    """The part of ``Admin`` that is about topics."""

    # -- looking ---------------------------------------------------------------------------------

    async def topics(self, *, system: bool = False) -> list[TopicInfo]:
        """Return all topics by name; with ``system`` also brokers' own, retries and dead letters.

        >>> with litemq.Admin() as admin:
        ...     change = admin.create_topic("fruit", queues=4, exist_ok=True)
        ...     "fruit" in [info.topic for info in admin.topics()]
        True
        """
        found: dict[str, dict[str, TopicOn]] = {}
        own: set[str] = set()
        for name, address in (await self._masters()).items():
            table = json_object(await self._have(address, Ask.GET_ALL_TOPIC_CONFIG)).get("topicConfigTable") or {}
            for topic, config in table.items():
                found.setdefault(topic, {})[name] = topic_on(config)
            listed = json_object(await self._have(address, Ask.GET_SYSTEM_TOPIC_LIST_FROM_BROKER))
            own.update(listed.get("topicList") or ())
        infos = [
            TopicInfo(topic, brokers, topic in own or topic.startswith((RETRY_PREFIX, DLQ_PREFIX)))
            for topic, brokers in sorted(found.items())
        ]
        return [info for info in infos if system or not info.is_system]

    async def topic(self, name: str) -> TopicDetails:
        """Return a topic with what each queue holds, and the groups that read it.

        >>> with litemq.Admin() as admin:
        ...     change = admin.create_topic("pears", queues=4, exist_ok=True)
        ...     details = admin.topic("pears")
        ...     details.queues, details.messages, details.groups
        (4, 0, ())

        Raises:
            UnknownTopic: no broker has it.
        """
        masters = await self._masters()
        known = await self._known(masters, name)
        queues: list[TopicQueueInfo] = []
        groups: set[str] = set()
        per_s = 0.0
        for broker in known:
            read = load_with_queues(await self._have(masters[broker], Ask.GET_TOPIC_STATS_INFO, {"topic": name}))
            per_s += float(read.get("topicPutTps") or 0)
            for queue, stats in queue_pairs(read.get("offsetTable")):
                last = moment(int(stats["lastUpdateTimestamp"]))
                queues.append(
                    TopicQueueInfo(broker, queue.queue_id, int(stats["minOffset"]), int(stats["maxOffset"]), last)
                )
            answer = await self._have(masters[broker], Ask.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": name})
            groups.update(json_object(answer).get("groupList") or ())
        queues.sort(key=lambda queue: (queue.broker, queue.queue_id))
        return TopicDetails(
            name,
            known,
            name.startswith((RETRY_PREFIX, DLQ_PREFIX)),
            queue_infos=tuple(queues),
            groups=tuple(sorted(groups)),
            messages_per_s=per_s,
        )

    # -- changing --------------------------------------------------------------------------------

    async def create_topic(
        self,
        name: str,
        queues: int | None = None,
        *,
        placement: str = EVEN,
        exist_ok: bool = False,
        dry_run: bool = False,
        **settings: Unpack[TopicSettings],
    ) -> TopicChange:
        """Make a topic.

        >>> with litemq.Admin() as admin:
        ...     change = admin.create_topic("invoices", queues=4, retention=3600, exist_ok=True)
        ...     sum(on.write for on in change.brokers.values())
        4

        Args:
            name: letters, digits and ``% | _ -``.
            queues: of all brokers together; 8, unless the placement counts them.
            placement: ``even`` over all brokers, ``exclusive:BROKER``, or ``BROKER=COUNT,…``.
            exist_ok: one that is there is left as it is.
            dry_run: tell what would be, and change nothing.
            settings: see ``TopicSettings``: ``retention=3600``, ``ordered=True``, ``attributes={…}``.

        Raises:
            InvalidRequest: it is there, or the name, placement or a setting cannot be.
        """
        changes = attribute_changes(settings)
        masters = await self._masters()
        there = await self._route_of(name)
        if there and exist_ok:
            return TopicChange(name, there)
        if there:
            raise InvalidRequest(f"topic {name!r} is there already; change it with: litemq topic alter {name}")
        if queues is None and "=" not in placement:
            queues = QUEUES
        dealt = place(placement, masters, queues)
        ordered = bool(settings.get("ordered"))
        made = {
            broker: TopicOn(count, count, perm_after(6, settings), is_ordered=ordered)
            for broker, count in dealt.items()
        }
        if not dry_run:
            for broker, wanted in made.items():
                await self._put(masters[broker], name, wanted, changes_text(changes))
            await self._check_route(name, made)
        return TopicChange(name, made)

    async def alter_topic(
        self,
        name: str,
        queues: int | None = None,
        *,
        placement: str | None = None,
        force: bool = False,
        dry_run: bool = False,
        **settings: Unpack[TopicSettings],
    ) -> TopicChange:
        """Change settings of a topic, how many queues it has, or where they are.

        More queues are there at once.  Of fewer, producers lose the queues first; consumers lose those that all groups
        have read when it is called again: ``left`` says which are not.

        >>> with litemq.Admin() as admin:
        ...     change = admin.create_topic("growing", queues=2, exist_ok=True)
        ...     change = admin.alter_topic("growing", queues=6, retention=86400)
        ...     admin.topic("growing").queues
        6

        Args:
            name: the topic.
            queues: of all brokers together; without a placement evenly over those that have the topic.
            placement: as for ``create_topic``.
            force: take queues from consumers whatever they have yet to read.
            dry_run: tell what would be, and change nothing.
            settings: see ``TopicSettings``; None takes one back.

        Raises:
            UnknownTopic: no broker has it.
        """
        changes = attribute_changes(settings)
        if queues is None and placement is None and not settings:
            raise InvalidRequest("nothing to change is given: queues, a placement or a setting")
        masters = await self._masters()
        known = await self._known(masters, name)
        outcome = TopicChange(name, known)
        if settings:
            known = {broker: _with(on, settings) for broker, on in known.items()}
            outcome = TopicChange(name, known)
            for broker, on in known.items():
                if not dry_run:
                    await self._put(masters[broker], name, on, changes_text(changes))
        if queues is not None or placement is not None:
            if queues is None and "=" not in str(placement):
                queues = sum(on.write for on in known.values())
            among = {broker for broker in known if known[broker].write} or set(known)
            dealt = place(placement or EVEN, among if placement is None else masters, queues)
            outcome = await self._deal(masters, name, known, dealt, force=force, dry_run=dry_run)
        return outcome

    async def rebalance_topic(
        self, name: str, queues: int | None = None, *, force: bool = False, dry_run: bool = False
    ) -> TopicChange:
        """Deal a topic's queues evenly over all brokers, those that joined as well; as gently as ``alter_topic``.

        >>> with litemq.Admin() as admin:
        ...     change = admin.create_topic("dealt", queues=4, exist_ok=True)
        ...     admin.rebalance_topic("dealt").left
        ()
        """
        masters = await self._masters()
        known = await self._known(masters, name)
        wanted = sum(on.write for on in known.values()) if queues is None else queues
        return await self._deal(masters, name, known, place(EVEN, masters, wanted), force=force, dry_run=dry_run)

    async def delete_topic(self, name: str) -> TopicChange:
        """Delete a topic with its messages from all brokers.

        >>> with litemq.Admin() as admin:
        ...     change = admin.create_topic("short-lived", queues=1, exist_ok=True)
        ...     admin.delete_topic("short-lived").brokers
        {}

        Raises:
            UnknownTopic: no broker has it.
        """
        masters = await self._masters()
        for broker in await self._known(masters, name):
            await self._remove(masters[broker], name)
        await self._forget(name)
        await self._check_route(name, {})
        return TopicChange(name)

    async def purge_topic(
        self,
        name: str,
        *,
        before: datetime | int | None = None,
        queue: int | None = None,
        offset: int | None = None,
        broker: str | None = None,
        dry_run: bool = False,
    ) -> list[Purged]:
        """Remove messages from the beginning of a topic's queues; all of them unless said otherwise.

        >>> with litemq.Admin() as admin:
        ...     change = admin.create_topic("emptied", queues=2, exist_ok=True)
        ...     sum(one.messages for one in admin.purge_topic("emptied"))
        0

        Args:
            name: the topic.
            before: only messages that were stored before this time.
            queue: only this queue, on every broker that has it.
            offset: only messages before this offset; needs ``queue``.
            broker: only on this broker.
            dry_run: tell what would go, and change nothing.

        Raises:
            UnknownTopic: no broker has it.
            NotSupported: the broker is not LiteMQ.
        """
        if before is not None and offset is not None:
            raise InvalidRequest("give a time or an offset, not both")
        if offset is not None and (queue is None or offset < 0):
            raise InvalidRequest("an offset from 0 on needs the queue that it belongs to")
        limit = _ALWAYS if before is None else time_ms(before, "before")
        masters = await self._masters()
        details = await self.topic(name)
        if broker is not None and broker not in details.brokers:
            raise InvalidRequest(f"topic {name!r} is not on {broker!r}, but on {', '.join(details.brokers)}")
        wanted = [
            info
            for info in details.queue_infos
            if broker in (None, info.broker) and (queue is None or info.queue_id == queue)
        ]
        if not wanted:
            raise InvalidRequest(f"topic {name!r} has no queue {queue}; see: litemq topic show {name}")
        firsts: dict[tuple[str, int], int] = {}
        for on in sorted({info.broker for info in wanted}):
            if dry_run:
                firsts |= await self._purge_places(
                    masters[on], [info for info in wanted if info.broker == on], name, limit, offset
                )
            else:
                ext = {"topic": name}
                if queue is not None:
                    ext["queueId"] = str(queue)
                ext |= {"beforeTime": str(limit)} if offset is None else {"beforeOffset": str(offset)}
                told = json_object(await self._have(masters[on], Ask.LITEMQ_PURGE_TOPIC, ext)).get("minOffsets") or {}
                firsts |= {(on, int(queue_id)): int(first) for queue_id, first in told.items()}
        return [_purged(name, info, firsts.get((info.broker, info.queue_id), info.first)) for info in wanted]

    async def _purge_places(
        self, address: str, infos: list[TopicQueueInfo], name: str, limit: int, offset: int | None
    ) -> dict[tuple[str, int], int]:
        """Return where queues of a broker would begin."""
        found = {}
        for info in infos:
            first = offset
            if first is None:
                first = info.end if limit == _ALWAYS else await self._offset_at(address, name, info.queue_id, limit)
            found[info.broker, info.queue_id] = min(max(first, info.first), info.end)
        return found

    async def _offset_at(self, address: str, topic: str, queue_id: int, ms: int) -> int:
        """Return the offset of the first message of a queue that was stored at a time or later."""
        ext = {"topic": topic, "queueId": str(queue_id), "timestamp": str(ms)}
        return int((await self._have(address, Ask.SEARCH_OFFSET_BY_TIMESTAMP, ext)).ext["offset"])

    # -- finding ---------------------------------------------------------------------------------

    async def _known(self, masters: Mapping[str, str], topic: str) -> dict[str, TopicOn]:
        """Return a topic as every broker has it that does."""
        found: dict[str, TopicOn] = {}
        for broker, address in masters.items():
            answer = found_or_none(await self._ask(address, Ask.GET_TOPIC_CONFIG, {"topic": topic}), address)
            if answer is not None:
                found[broker] = topic_on(json_object(answer))
        if not found:
            raise UnknownTopic(f"there is no topic {topic!r} on any broker; see: litemq topic list")
        return found

    async def _queue_spans(self, address: str, topic: str) -> dict[TopicQueue, tuple[int, int]]:
        """Return first offset and end of the queues that a broker has of a topic; none of a topic that is not there."""
        answer = found_or_none(await self._ask(address, Ask.GET_TOPIC_STATS_INFO, {"topic": topic}), address)
        if answer is None:
            return {}
        table = load_with_queues(answer).get("offsetTable")
        return {queue: (int(stats["minOffset"]), int(stats["maxOffset"])) for queue, stats in queue_pairs(table)}


def _with(on: TopicOn, settings: TopicSettings) -> TopicOn:
    return replace(on, perm=perm_after(on.perm, settings), is_ordered=bool(settings.get("ordered", on.is_ordered)))


def _purged(topic: str, info: TopicQueueInfo, first: int) -> Purged:
    return Purged(topic, info.broker, info.queue_id, first, max(first - info.first, 0))
