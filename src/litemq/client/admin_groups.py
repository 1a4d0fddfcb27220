"""Consumer groups: made, shown, altered and deleted over all brokers; who is in them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Unpack

from litemq.client.admin_cluster import ClusterCore, found_or_none, load_with_queues, queue_pairs
from litemq.client.admin_group_values import GroupInfo, GroupMember, GroupSettings, group_config
from litemq.client.admin_offsets import OffsetAdmin
from litemq.client.answers import check, json_object
from litemq.client.routes import TopicQueue
from litemq.errors import InvalidRequest, NoAnswer, OutcomeUnknown, UnknownGroup
from litemq.features.dead_letter import dead_letter_topic
from litemq.features.preset_groups import PRESET_GROUPS
from litemq.features.retry import retry_topic
from litemq.wire.remoting.codes import Ask, Code

_MEMBER_S: Final = 0.8
_MEMBERS_S: Final = 2.0
"""One member, and all of them together, are asked for their queues no longer than that."""


class GroupAdmin(OffsetAdmin, ClusterCore):
    """The part of ``Admin`` that is about consumer groups."""

    # -- looking ---------------------------------------------------------------------------------

    async def groups(self, *, system: bool = False) -> list[GroupInfo]:
        """Return all consumer groups by name; with ``system`` also those that brokers have for tools.

        >>> with litemq.Admin() as admin:
        ...     info = admin.create_group("bakers", exist_ok=True)
        ...     "bakers" in [info.group for info in admin.groups()]
        True
        """
        masters = await self._masters()
        found: dict[str, dict[str, Mapping[str, Any]]] = {}
        for name, address in masters.items():
            read = json_object(await self._have(address, Ask.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
            for group, config in (read.get("subscriptionGroupTable") or {}).items():
                found.setdefault(group, {})[name] = config
        firsts: dict[tuple[str, str], dict[TopicQueue, int]] = {}
        return [
            await self._info(masters, group, configs, firsts)
            for group, configs in sorted(found.items())
            if system or group not in PRESET_GROUPS
        ]

    async def group(self, name: str) -> GroupInfo:
        """Return one consumer group.

        >>> with litemq.Admin() as admin:
        ...     info = admin.create_group("smiths", exist_ok=True)
        ...     admin.group("smiths").members
        0

        Raises:
            UnknownGroup: no broker has it.
        """
        masters = await self._masters()
        return await self._info(masters, name, await self._configs(masters, name), {})

    async def members(self, group: str, *, with_queues: bool = True) -> list[GroupMember]:
        """Return who is in a group now.

        >>> with litemq.Admin() as admin:
        ...     info = admin.create_group("absent", exist_ok=True)
        ...     admin.members("absent")
        []

        Args:
            group: the group.
            with_queues: ask each member for the queues that it reads, for 2 s at most.

        Raises:
            UnknownGroup: no broker has it.
        """
        masters = await self._masters()
        found: dict[str, tuple[str, GroupMember]] = {}
        for address in masters.values():
            for member in await self._online(address, group):
                found.setdefault(member.client_id, (address, member))
        if not found:
            await self._configs(masters, group)
        until = self._net.now() + _MEMBERS_S
        told: list[GroupMember] = []
        for _, (address, member) in sorted(found.items()):
            left = min(until - self._net.now(), _MEMBER_S)
            queues = await self._queues_of(address, member, left) if with_queues and left > 0 else None
            told.append(_with_queues(member, queues))
        return told

    # -- changing --------------------------------------------------------------------------------

    async def create_group(self, name: str, *, exist_ok: bool = False, **settings: Unpack[GroupSettings]) -> GroupInfo:
        """Make a consumer group on all brokers; one that is on some of them only is made on the others.

        >>> with litemq.Admin() as admin:
        ...     admin.create_group("tailors", max_retries=3, exist_ok=True).max_retries
        3

        Args:
            name: letters, digits and ``% | _ -``.
            exist_ok: one that is there is left as it is.
            settings: see ``GroupSettings``.

        Raises:
            InvalidRequest: it is there, or the name or a setting cannot be.
        """
        config = group_config(name, settings)
        masters = await self._masters()
        there = await self._configs(masters, name, is_there=False)
        if there.keys() == masters.keys() and not exist_ok:
            raise InvalidRequest(f"group {name!r} is there already; change it with: litemq group alter {name}")
        for broker, address in masters.items():
            if broker not in there:
                await self._put_group(address, {**_NEW, **config})
        return await self.group(name)

    async def alter_group(self, name: str, **settings: Unpack[GroupSettings]) -> GroupInfo:
        """Change settings of a consumer group on all brokers that have it; what is not named stays.

        >>> with litemq.Admin() as admin:
        ...     info = admin.create_group("potters", exist_ok=True)
        ...     admin.alter_group("potters", enabled=False).enabled
        False

        Raises:
            UnknownGroup: no broker has it.
        """
        changes = group_config(name, settings)
        if not settings:
            raise InvalidRequest("nothing to change is given: max_retries=…, enabled=…, attributes={…}")
        masters = await self._masters()
        for broker, config in (await self._configs(masters, name)).items():
            kept = {key: value for key, value in config.items() if key != "attributes"}
            await self._put_group(masters[broker], {**kept, **changes})
        return await self.group(name)

    async def delete_group(self, name: str, *, dead_letters: bool = False, force: bool = False) -> None:
        """Delete a consumer group with its offsets and its retries from all brokers.

        >>> with litemq.Admin() as admin:
        ...     info = admin.create_group("nomads", exist_ok=True)
        ...     admin.delete_group("nomads")

        Args:
            name: the group.
            dead_letters: delete its dead letters, too.
            force: even while members are online; each of them makes it anew by its next heartbeat.

        Raises:
            UnknownGroup: no broker has it.
            InvalidRequest: members are online.
        """
        masters = await self._masters()
        known = await self._configs(masters, name)
        online = {member.client_id for address in masters.values() for member in await self._online(address, name)}
        if online and not force:
            shown = ", ".join(sorted(online)[:3])
            raise InvalidRequest(
                f"group {name!r} has {len(online)} members online ({shown}); stop them first, or use force"
            )
        gone = [retry_topic(name), *([dead_letter_topic(name)] if dead_letters else ())]
        for broker in known:
            ext = {"groupName": name, "cleanOffset": "true", "removeOffset": "true"}
            await self._have(masters[broker], Ask.DELETE_SUBSCRIPTIONGROUP, ext)
            for topic in gone:
                await self._have(masters[broker], Ask.DELETE_TOPIC_IN_BROKER, {"topic": topic})

    async def _put_group(self, address: str, config: Mapping[str, Any]) -> None:
        body = json.dumps(config).encode()
        await self._have(address, Ask.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)

    # -- finding ---------------------------------------------------------------------------------

    async def _configs(
        self, masters: Mapping[str, str], group: str, *, is_there: bool = True
    ) -> dict[str, Mapping[str, Any]]:
        """Return broker → settings of a group; ``is_there``: it must be on one at least."""
        found: dict[str, Mapping[str, Any]] = {}
        for name, address in masters.items():
            told = await self._ask(address, Ask.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group})
            answer = found_or_none(told, address, Code.SUBSCRIPTION_GROUP_NOT_EXIST)
            if answer is not None:
                found[name] = json_object(answer)
        if is_there and not found:
            raise UnknownGroup(f"there is no consumer group {group!r} on any broker; see: litemq group list")
        return found

    async def _info(
        self,
        masters: Mapping[str, str],
        group: str,
        configs: Mapping[str, Mapping[str, Any]],
        firsts: dict[tuple[str, str], dict[TopicQueue, int]],
    ) -> GroupInfo:
        lag = await self._lag(masters, group, configs, firsts)
        members: set[str] = set()
        for broker in configs:
            told = await self._ask(masters[broker], Ask.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
            if told.code == Code.SUCCESS:  # nobody there is an error of several codes
                members.update(json_object(told).get("consumerIdList") or ())
        return GroupInfo(
            group,
            tuple(configs),
            next(iter(configs.values())),
            len(members),
            lag.total,
            tuple(lag.topics),
            group in PRESET_GROUPS,
        )

    async def _online(self, address: str, group: str) -> list[GroupMember]:
        """Return the members that a broker knows."""
        told = await self._ask(address, Ask.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})
        answer = found_or_none(told, address, Code.CONSUMER_NOT_ONLINE)
        if answer is None:
            return []
        read = json_object(answer)
        subscriptions = {
            topic: str(found.get("subString") or "*") for topic, found in (read.get("subscriptionTable") or {}).items()
        }
        return [
            GroupMember(
                group,
                member["clientId"],
                member["clientAddr"],
                str(member.get("language") or ""),
                int(member.get("version") or 0),
                dict(sorted(subscriptions.items())),
                str(read.get("messageModel") or "").lower(),
            )
            for member in read.get("connectionSet") or ()
        ]

    async def _queues_of(self, address: str, member: GroupMember, left: float) -> Sequence[TopicQueue] | None:
        """Return the queues that a member says it reads; None when it does not answer."""
        ext = {"consumerGroup": member.group, "clientId": member.client_id, "jstackEnable": "false"}
        try:
            told = await self._ask(address, Ask.GET_CONSUMER_RUNNING_INFO, ext, timeout=left)
        except (NoAnswer, OutcomeUnknown):
            return None
        if told.code != Code.SUCCESS:
            return None
        table = load_with_queues(check(told, address)).get("mqTable")
        return sorted((queue for queue, _ in queue_pairs(table)), key=lambda one: (one.topic, one.broker, one.queue_id))


_NEW: Final[Mapping[str, Any]] = {
    "brokerId": 0,
    "consumeBroadcastEnable": True,
    "consumeEnable": True,
    "consumeFromMinEnable": True,
    "consumeMessageOrderly": False,
    "notifyConsumerIdsChangedEnable": True,
    "retryMaxTimes": 16,
    "retryQueueNums": 1,
    "whichBrokerWhenConsumeSlowly": 1,
}
"""What a new group is unless said otherwise: RocketMQ's defaults, which its brokers must be told."""


def _with_queues(member: GroupMember, queues: Sequence[TopicQueue] | None) -> GroupMember:
    return GroupMember(
        member.group,
        member.client_id,
        member.address,
        member.language,
        member.version,
        member.subscriptions,
        member.mode,
        None if queues is None else tuple(queues),
    )
