"""Consumer groups: their settings in the store's table, made by hand or by their first heartbeat."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from litemq.broker.names import check_group
from litemq.broker.topics import Topics
from litemq.config import BrokerConfig
from litemq.errors import BadField, Busy, NoPermission, RecordTooLarge, UnknownGroup
from litemq.features.preset_groups import PRESET_GROUPS
from litemq.format import config_json
from litemq.format.config_json import JsonObject, Value
from litemq.store.message_store import MessageStore

logger = logging.getLogger(__name__)

UNMATCHED = "unmatched"
"""Attribute: what happens to messages that the group's filter does not let pass, ``skip`` or ``dead-letter``."""

_MAX_CONFIG = 64 << 10
"""Bytes of one group's settings as JSON."""

_DEFAULTS: JsonObject = {
    "attributes": {},
    "brokerId": 0,
    "consumeBroadcastEnable": True,
    "consumeEnable": True,
    "consumeFromMinEnable": True,
    "consumeMessageOrderly": False,
    "consumeTimeoutMinute": 15,
    "groupRetryPolicy": {"type": "CUSTOMIZED"},
    "groupSysFlag": 0,
    "notifyConsumerIdsChangedEnable": True,
    "retryMaxTimes": 16,
    "retryQueueNums": 1,
    "whichBrokerWhenConsumeSlowly": 1,
}


@dataclass(frozen=True, slots=True)
class Group:
    """One consumer group as its table entry describes it."""

    name: str
    can_consume: bool = True
    can_broadcast: bool = True
    is_notified: bool = True
    retry_queues: int = 1
    max_retries: int = 16
    attributes: dict[str, str] = field(default_factory=dict)
    config: JsonObject = field(default_factory=dict)
    """RocketMQ's object, with every field."""


def group_from(name: str, entry: JsonObject) -> Group:
    """Return the group that a table entry describes; what cannot be read gets RocketMQ's default."""
    full: JsonObject = {**_DEFAULTS, **entry, "groupName": name}

    def number(key: str) -> int:
        value = full.get(key)
        default = _DEFAULTS[key]
        assert isinstance(default, int)
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    attributes = full.get("attributes")
    return Group(
        name,
        can_consume=full.get("consumeEnable") is not False,
        can_broadcast=full.get("consumeBroadcastEnable") is not False,
        is_notified=full.get("notifyConsumerIdsChangedEnable") is not False,
        retry_queues=number("retryQueueNums"),
        max_retries=number("retryMaxTimes"),
        attributes=_texts(attributes),
        config=full,
    )


def _texts(value: Value) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {key: text for key, text in value.items() if isinstance(text, str)}


class Groups:
    """Finds, makes, alters and removes consumer groups."""

    def __init__(self, store: MessageStore, topics: Topics, config: BrokerConfig) -> None:
        self._store = store
        self._topics = topics
        self.config = config
        self.on_change: list[Callable[[str], None]] = []
        """Called with the name of a group that was made, altered or removed."""
        self._known = {name: group_from(name, entry) for name, entry in store.tables.groups.items()}
        for name in PRESET_GROUPS:
            if name not in self._known:
                self.put(name, {})

    def __len__(self) -> int:
        return len(self._known)

    def find(self, name: str) -> Group | None:
        """Return a group, None when there is none of this name."""
        return self._known.get(name)

    def known(self, name: str) -> Group:
        """Return a group that must be there."""
        group = self._known.get(name)
        if group is None:
            raise UnknownGroup(f"there is no consumer group {name!r} on this broker")
        return group

    def for_consumer(self, name: str) -> Group:
        """Return the group that a consumer belongs to; it is made when needed, where that is allowed."""
        group = self._known.get(name)
        if group is None:
            check_group(name)
            if not self.config.auto_create_groups:
                raise UnknownGroup(
                    f"consumer group {name!r} does not exist and is not made by its first member: create it, "
                    "or set broker.auto_create_groups"
                )
            group = self.put(name, {})
        if not group.can_consume:
            raise NoPermission(f"consumer group {name!r} may not consume: its consumeEnable is false")
        return group

    def all(self) -> list[Group]:
        """Return every group, by name."""
        return [self._known[name] for name in sorted(self._known)]

    def put(self, name: str, config: JsonObject) -> Group:
        """Make or alter a group; what ``config`` leaves out stays, or gets a default."""
        check_group(name)
        known = self._known.get(name)
        if known is None and len(self._known) >= self.config.max_groups:
            raise Busy(f"this broker has {len(self._known)} groups, as many as broker.max_groups allows")
        group = group_from(name, {**(known.config if known is not None else {}), **config})
        if group.attributes.get(UNMATCHED, "skip") not in ("skip", "dead-letter"):
            found = group.attributes[UNMATCHED][:80]
            raise BadField(f"the attribute {UNMATCHED} is {found!r}, it must be skip or dead-letter")
        size = len(config_json.write(group.config))
        if size > _MAX_CONFIG:
            raise RecordTooLarge(what=f"the settings of group {name!r}", size=size, limit=_MAX_CONFIG)
        self._store.put_group(name, group.config)
        self._known[name] = group
        logger.info("group put: name=%s", name)
        self._tell(name)
        return group

    def delete(self, name: str, *, with_progress: bool) -> None:
        """Remove a group; one that is not there is no error."""
        kept = {} if with_progress else self._store.progress.of_group(name)
        if self._known.pop(name, None) is not None:
            self._store.delete_group(name)
        elif with_progress:
            self._store.progress.forget(group=name)
        for (topic, queue_id), offset in kept.items():
            self._store.progress.commit(name, topic, queue_id, offset)
        logger.info("group deleted: name=%s", name)
        self._tell(name)

    def _tell(self, name: str) -> None:
        for told in self.on_change:
            told(name)
