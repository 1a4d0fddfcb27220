"""What ``Admin`` takes and tells of consumer groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypedDict

from litemq.client.admin_cluster import moment_ms
from litemq.client.routes import TopicQueue
from litemq.errors import InvalidRequest

_FIELDS: Final = {
    "enabled": ("consumeEnable", bool),
    "broadcast": ("consumeBroadcastEnable", bool),
    "ordered": ("consumeMessageOrderly", bool),
    "max_retries": ("retryMaxTimes", int),
    "retry_queues": ("retryQueueNums", int),
}
"""Setting → the broker's name and type."""


class GroupSettings(TypedDict, total=False):
    """Settings of a consumer group, as keyword arguments.

    >>> with litemq.Admin() as admin:
    ...     info = admin.create_group("cooks", exist_ok=True, max_retries=5, unmatched="dead-letter")
    ...     info.max_retries, info.config["attributes"]
    (5, {'unmatched': 'dead-letter'})
    """

    enabled: bool
    """Whether its members may consume."""
    broadcast: bool
    """Whether its members may each read everything."""
    ordered: bool
    """Whether it is marked as consuming in order."""
    max_retries: int
    """A message that failed so often again becomes a dead letter."""
    retry_queues: int
    """Queues of its retry topic."""
    unmatched: str | None
    """What becomes of messages that its filter does not let pass: ``skip`` or ``dead-letter``."""
    attributes: Mapping[str, str | None]
    """Any attribute, by the broker's name; None takes one back."""


def group_config(name: str, settings: GroupSettings) -> dict[str, Any]:
    """Return RocketMQ's object with what settings change of a group.

    Raises:
        InvalidRequest: a setting that does not exist, or a value that it cannot have.
    """
    if not name:
        raise InvalidRequest("a consumer group needs a name")
    config: dict[str, Any] = {"groupName": name}
    for setting, value in settings.items():
        if setting in _FIELDS:
            field, kind = _FIELDS[setting]
            if type(value) is not kind:
                wanted = "True or False" if kind is bool else "a whole number"
                raise InvalidRequest(f"{setting} is {value!r}, it must be {wanted}")
            config[field] = value
        elif setting not in ("unmatched", "attributes"):
            raise InvalidRequest(f"groups have no setting {setting!r}; there are {', '.join(_all_settings())}")
    changes = dict(settings.get("attributes") or {})
    if "unmatched" in settings:
        changes["unmatched"] = settings["unmatched"]
    if changes:
        config["attributes"] = {f"-{key}" if text is None else f"+{key}": text or "" for key, text in changes.items()}
    return config


def _all_settings() -> tuple[str, ...]:
    return tuple(GroupSettings.__annotations__)


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A consumer group: its settings, how many are in it, how much they have yet to read.

    >>> with litemq.Admin() as admin:
    ...     admin.create_group("couriers", max_retries=5, exist_ok=True).max_retries
    5
    """

    group: str
    brokers: tuple[str, ...]
    config: Mapping[str, Any]
    """RocketMQ's object, of the first broker that has the group."""
    members: int = 0
    lag: int = 0
    topics: tuple[str, ...] = ()
    """Where it has offsets."""
    is_system: bool = False
    """Whether tools use it without making it."""

    @property
    def enabled(self) -> bool:
        """Whether its members may consume."""
        return self.config.get("consumeEnable") is not False

    @property
    def max_retries(self) -> int:
        """How often a message is delivered again before it becomes a dead letter."""
        return int(self.config.get("retryMaxTimes", 16))

    def to_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        config = self.config
        attributes = config.get("attributes")
        return {
            "group": self.group,
            "brokers": list(self.brokers),
            "members": self.members,
            "lag": self.lag,
            "topics": list(self.topics),
            "enabled": self.enabled,
            "broadcast": config.get("consumeBroadcastEnable") is not False,
            "ordered": config.get("consumeMessageOrderly") is True,
            "max_retries": self.max_retries,
            "retry_queues": int(config.get("retryQueueNums", 1)),
            "attributes": dict(attributes) if isinstance(attributes, dict) else {},
            "system": self.is_system,
        }


@dataclass(frozen=True, slots=True)
class QueueLag:
    """Where a group stands in one queue: it reads ``offset`` next, ``lag`` messages wait for it."""

    topic: str
    broker: str
    queue_id: int
    offset: int
    end: int
    lag: int
    read_at: datetime | None
    """When the last message that it has read was stored."""

    def to_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {
            "topic": self.topic,
            "broker": self.broker,
            "queue": self.queue_id,
            "offset": self.offset,
            "end": self.end,
            "lag": self.lag,
            "read_at": moment_ms(self.read_at),
        }


@dataclass(frozen=True, slots=True)
class GroupLag:
    """How far a group has read.

    >>> with litemq.Admin() as admin:
    ...     info = admin.create_group("drivers", exist_ok=True)
    ...     admin.lag("drivers").total
    0
    """

    group: str
    queues: tuple[QueueLag, ...] = ()
    messages_per_s: float = 0.0
    """How many it got in the last minute."""

    @property
    def total(self) -> int:
        """How many messages wait for it."""
        return sum(queue.lag for queue in self.queues)

    @property
    def topics(self) -> dict[str, int]:
        """Topic → how many messages wait there."""
        found: dict[str, int] = {}
        for queue in self.queues:
            found[queue.topic] = found.get(queue.topic, 0) + queue.lag
        return found

    def to_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {
            "group": self.group,
            "total": self.total,
            "messages_per_s": self.messages_per_s,
            "topics": self.topics,
            "queues": [queue.to_json() for queue in self.queues],
        }


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A client in a group: what it subscribes to, and the queues that it reads, None where it does not say."""

    group: str
    client_id: str
    address: str
    language: str
    version: int
    subscriptions: Mapping[str, str]
    """Topic → tags or SQL expression."""
    mode: str
    """``clustering`` or ``broadcasting``."""
    queues: tuple[TopicQueue, ...] | None = None

    def to_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {
            "group": self.group,
            "client": self.client_id,
            "address": self.address,
            "language": self.language,
            "version": self.version,
            "subscriptions": dict(self.subscriptions),
            "mode": self.mode,
            "queues": None
            if self.queues is None
            else [{"topic": one.topic, "broker": one.broker, "queue": one.queue_id} for one in self.queues],
        }


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """A group's place in a queue before and after: the offset that it reads next."""

    group: str
    topic: str
    broker: str
    queue_id: int
    before: int | None
    """None: it had none."""
    after: int

    def to_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {
            "group": self.group,
            "topic": self.topic,
            "broker": self.broker,
            "queue": self.queue_id,
            "before": self.before,
            "after": self.after,
        }
