"""What ``Admin`` takes and tells of topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict

from litemq.client.admin_cluster import moment_ms
from litemq.client.values import seconds
from litemq.errors import InvalidRequest

_READ, _WRITE = 4, 2
_ATTRIBUTES: Final = {
    "retention": "retention.ms",
    "retention_bytes": "retention.bytes",
    "keep_until_read": "retention.keep-until-read",
    "queue_backlog": "queue.backlog",
    "overflow": "overflow",
}
"""Setting → the attribute in which brokers keep it."""


class TopicSettings(TypedDict, total=False):
    """Settings of a topic, as keyword arguments; None takes one back.

    >>> with litemq.Admin() as admin:
    ...     change = admin.create_topic("steps", queues=1, exist_ok=True, retention=3600, ordered=True)
    ...     admin.topic("steps").attributes
    {'retention.ms': '3600000'}
    """

    ordered: bool
    """Whether it is marked as a topic of ordered messages."""
    readable: bool
    writable: bool
    retention: float | timedelta | None
    """Messages go so long after they were stored; seconds."""
    retention_bytes: int | None
    """The oldest messages go when the topic has more bytes on a broker."""
    keep_until_read: bool | None
    """Messages stay until every group that reads them has."""
    queue_backlog: int | None
    """Messages of a queue that its slowest group may not have read; 0: no limit."""
    overflow: str | None
    """What becomes of a message beyond that: ``refuse`` or ``dead-letter``."""
    attributes: Mapping[str, str | None]
    """Any attribute, by the broker's name."""


@dataclass(frozen=True, slots=True)
class TopicOn:
    """A topic as one broker has it: queues to read and to write, and its settings."""

    read: int
    write: int
    perm: int = _READ | _WRITE
    is_ordered: bool = False
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def is_readable(self) -> bool:
        """Return whether consumers may read it."""
        return bool(self.perm & _READ)

    @property
    def is_writable(self) -> bool:
        """Return whether producers may send to it."""
        return bool(self.perm & _WRITE)

    def to_json(self) -> dict[str, int]:
        """Return the object that ``--json`` prints."""
        return {"read": self.read, "write": self.write}


def topic_on(read: Mapping[str, Any]) -> TopicOn:
    """Return a topic as RocketMQ's object describes it."""
    return TopicOn(
        read["readQueueNums"],
        read["writeQueueNums"],
        read.get("perm", _READ | _WRITE),
        bool(read.get("order", False)),
        str(read.get("topicFilterType") or "SINGLE_TAG"),
        int(read.get("topicSysFlag") or 0),
        dict(read.get("attributes") or {}),
    )


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic and the brokers that have it.

    >>> with litemq.Admin() as admin:
    ...     change = admin.create_topic("listed", queues=4, exist_ok=True)
    ...     [info.queues for info in admin.topics() if info.topic == "listed"]
    [4]
    """

    topic: str
    brokers: dict[str, TopicOn]
    is_system: bool = False
    """Whether it is the brokers' own, or holds retries or dead letters."""

    @property
    def queues(self) -> int:
        """How many queues it has to write, on all brokers together."""
        return sum(on.write for on in self.brokers.values())

    @property
    def is_ordered(self) -> bool:
        """Whether it is marked as a topic of ordered messages."""
        return any(on.is_ordered for on in self.brokers.values())

    @property
    def attributes(self) -> dict[str, str]:
        """Its attributes, by the broker's names; of the first broker that has them."""
        return {name: value for on in reversed(self.brokers.values()) for name, value in on.attributes.items()}

    def to_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {
            "topic": self.topic,
            "queues": self.queues,
            "brokers": {name: on.to_json() for name, on in self.brokers.items()},
            "ordered": self.is_ordered,
            "attributes": self.attributes,
            "system": self.is_system,
        }


@dataclass(frozen=True, slots=True)
class TopicQueueInfo:
    """What one queue holds: messages from offset ``first`` up to, not including, ``end``."""

    broker: str
    queue_id: int
    first: int
    end: int
    last_stored_at: datetime | None

    @property
    def messages(self) -> int:
        """How many there are to read."""
        return self.end - self.first

    def to_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {
            "broker": self.broker,
            "queue": self.queue_id,
            "first": self.first,
            "end": self.end,
            "messages": self.messages,
            "last_stored_at": moment_ms(self.last_stored_at),
        }


@dataclass(frozen=True, slots=True)
class TopicDetails(TopicInfo):
    """A topic with what its queues hold, and who reads it.

    >>> with litemq.Admin() as admin:
    ...     change = admin.create_topic("shown", queues=2, exist_ok=True)
    ...     [(queue.queue_id, queue.messages) for queue in admin.topic("shown").queue_infos]
    [(0, 0), (1, 0)]
    """

    queue_infos: tuple[TopicQueueInfo, ...] = ()
    groups: tuple[str, ...] = ()
    messages_per_s: float = 0.0
    """How many came in the last minute."""

    @property
    def messages(self) -> int:
        """How many there are to read."""
        return sum(queue.messages for queue in self.queue_infos)

    def to_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {
            **TopicInfo.to_json(self),
            "readable": all(on.is_readable for on in self.brokers.values()),
            "writable": all(on.is_writable for on in self.brokers.values()),
            "messages": self.messages,
            "messages_per_s": self.messages_per_s,
            "groups": list(self.groups),
            "queue_infos": [queue.to_json() for queue in self.queue_infos],
        }


@dataclass(frozen=True, slots=True)
class Left:
    """A queue that cannot go yet: ``unread`` messages of a group, or of nobody (""); 0: producers may still send."""

    broker: str
    queue_id: int
    group: str
    unread: int

    def to_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {"broker": self.broker, "queue": self.queue_id, "group": self.group, "unread": self.unread}


@dataclass(frozen=True, slots=True)
class TopicChange:
    """A topic after a change: its brokers, and the queues that consumers keep until they have read them.

    >>> with litemq.Admin() as admin:
    ...     admin.create_topic("changed", queues=4, exist_ok=True).left
    ()
    """

    topic: str
    brokers: dict[str, TopicOn] = field(default_factory=dict)
    left: tuple[Left, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {
            "topic": self.topic,
            "brokers": {name: on.to_json() for name, on in self.brokers.items()},
            "left": [one.to_json() for one in self.left],
        }


@dataclass(frozen=True, slots=True)
class Purged:
    """A queue before and after a purge: it begins at ``first``; ``messages`` went."""

    topic: str
    broker: str
    queue_id: int
    first: int
    messages: int

    def to_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {
            "topic": self.topic,
            "broker": self.broker,
            "queue": self.queue_id,
            "first": self.first,
            "messages": self.messages,
        }


# -- settings ------------------------------------------------------------------------------------


def attribute_changes(settings: TopicSettings) -> dict[str, str | None]:
    """Return the attributes that settings change; None: it goes.

    Raises:
        InvalidRequest: a setting that does not exist, or a value that it cannot have.
    """
    known = TopicSettings.__annotations__
    for name in settings:
        if name not in known:
            raise InvalidRequest(f"topics have no setting {name!r}; there are {', '.join(known)}; see attributes, too")
    found: dict[str, str | None] = {}
    for name, attribute in _ATTRIBUTES.items():
        if name in settings:
            found[attribute] = _text(name, settings[name])  # type: ignore[literal-required]
    for name, value in (settings.get("attributes") or {}).items():
        if name in found:
            raise InvalidRequest(f"the attribute {name} is given twice: by its setting, and in attributes")
        found[name] = value
    for name, value in found.items():
        if not name or name[0] in "+-" or set(name) & {"=", ","} or "," in (value or ""):
            raise InvalidRequest(
                f"the attribute {name!r} is {value!r}: it cannot hold , or = and begins with no + or -"
            )
        if value == "":
            raise InvalidRequest(f"the attribute {name!r} needs a value; None takes it back")
    return found


def _text(name: str, value: object) -> str | None:
    if value is None:
        return None
    if name == "retention":
        assert isinstance(value, int | float | timedelta)
        return str(round(seconds(value) * 1000))
    return str(value).lower() if isinstance(value, bool) else str(value)


def changes_text(changes: Mapping[str, str | None]) -> str:
    """Return changes of attributes as brokers read them."""
    return ",".join(f"-{name}" if value is None else f"+{name}={value}" for name, value in changes.items())


def perm_after(perm: int, settings: TopicSettings) -> int:
    """Return permissions after settings."""
    for flag, wanted in ((_READ, settings.get("readable")), (_WRITE, settings.get("writable"))):
        if wanted is not None:
            perm = perm | flag if wanted else perm & ~flag
    return perm
