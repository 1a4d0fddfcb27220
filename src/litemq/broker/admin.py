"""What operators change: topics and groups, as ``mqadmin`` and the Dashboard describe them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from litemq.broker.groups import Group, Groups
from litemq.broker.names import check_topic
from litemq.broker.shrinking import Shrinking
from litemq.broker.topics import Topic, Topics, topic_from
from litemq.errors import BadField
from litemq.format.config_json import JsonObject, Value
from litemq.format.limits import MAX_QUEUES
from litemq.wire.remoting import fields

_LARGEST_PERM = 7
_MAX_ATTRIBUTES = 64
_LONGEST_ATTRIBUTE = 1024
_SWITCHES = (
    *("consumeEnable", "consumeFromMinEnable", "consumeBroadcastEnable", "consumeMessageOrderly"),
    "notifyConsumerIdsChangedEnable",
)
_NUMBERS = (
    *("retryQueueNums", "retryMaxTimes", "brokerId", "whichBrokerWhenConsumeSlowly", "groupSysFlag"),
    "consumeTimeoutMinute",
)


@dataclass(frozen=True, slots=True)
class TopicWish:
    """A topic as an operator wants it; attributes as changes: ``+name`` → value, ``-name`` → nothing."""

    name: str
    read_queues: int
    write_queues: int
    perm: int
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    is_ordered: bool = False
    attributes: Mapping[str, str] | None = None
    at_once: bool = False
    """Whether queues go even when they have not been read; their messages come back with them."""


def parse_attributes(text: str) -> dict[str, str]:
    """Return the changes that ``+name=value,-name`` stands for.

    Raises:
        BadField: a part begins with neither + nor -, or has no value where it needs one.
    """
    changes: dict[str, str] = {}
    for part in text.split(","):
        name, mark, value = (piece.strip() for piece in part.strip().partition("="))
        if not name:
            continue
        if name[0] not in "+-" or len(name) == 1:
            raise BadField(f"the attribute {part.strip()[:80]!r} must be +name=value or -name")
        if (name[0] == "+") != bool(mark and value):
            raise BadField(f"the attribute {name[:80]!r} needs {'a value' if name[0] == '+' else 'no value'}")
        if name in changes:
            raise BadField(f"the attribute {name[:80]!r} is there twice")
        changes[name] = value
    return changes


def changed_attributes(known: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """Return attributes after changes; a name without a sign is set, too.  Attributes that nobody knows are kept."""
    result = dict(known)
    for name, value in changes.items():
        bare = name.lstrip("+-")
        if name.startswith("-"):
            result.pop(bare, None)
        elif len(bare) > _LONGEST_ATTRIBUTE or len(value) > _LONGEST_ATTRIBUTE:
            raise BadField(f"the attribute {bare[:80]!r} is longer than {_LONGEST_ATTRIBUTE} characters")
        else:
            result[bare] = value
    if len(result) > _MAX_ATTRIBUTES:
        raise BadField(f"{len(result)} attributes are too many, at most {_MAX_ATTRIBUTES} fit")
    return result


class Admin:
    """Alters topics and groups of one broker."""

    def __init__(self, topics: Topics, groups: Groups, shrinking: Shrinking) -> None:
        self._topics = topics
        self._groups = groups
        self._shrinking = shrinking

    # -- topics ----------------------------------------------------------------------------------

    def check_own(self, name: str) -> None:
        """Refuse a topic that operators may not touch."""
        check_topic(name)
        if self._topics.is_system(name):
            raise BadField(f"topic {name!r} is the broker's own and cannot be altered or deleted")

    def put_topic(self, wish: TopicWish) -> Topic:
        """Make or alter a topic.  More queues are there at once; those that go stay readable until they have been read.

        Raises:
            BadField: a name, number or attribute that cannot be; nothing changed.
            Busy: there are as many topics as may be.
        """
        self.check_own(wish.name)
        for what, count in (("readQueueNums", wish.read_queues), ("writeQueueNums", wish.write_queues)):
            if not 0 <= count <= MAX_QUEUES:
                raise BadField(f"topic {wish.name!r}: {what} is {count}, it must be 0 to {MAX_QUEUES}")
        if not 0 <= wish.perm <= _LARGEST_PERM:
            raise BadField(f"topic {wish.name!r}: perm is {wish.perm}, it must be 0 to {_LARGEST_PERM}")
        known = self._topics.find(wish.name)
        attributes = known.attributes if known is not None else {}
        if wish.attributes is not None:
            attributes = changed_attributes(attributes, wish.attributes)
        topic = Topic(
            wish.name,
            read_queues=wish.read_queues,
            write_queues=wish.write_queues,
            perm=wish.perm,
            is_ordered=wish.is_ordered,
            filter_type=wish.filter_type if wish.filter_type in ("SINGLE_TAG", "MULTI_TAG") else "SINGLE_TAG",
            sys_flag=wish.sys_flag,
            attributes=attributes,
        )
        if not wish.at_once:
            topic = self._shrinking.altered(known, topic)
        return known if known == topic else self._topics.create(topic)

    def wish_from(self, config: JsonObject) -> TopicWish:
        """Return what RocketMQ's object of a topic wants."""
        name = config.get("topicName")
        if not isinstance(name, str):
            raise BadField("a topic of the list has no topicName")
        read = topic_from(name, config)
        attributes = config.get("attributes")
        return TopicWish(
            name,
            read.read_queues,
            read.write_queues,
            read.perm,
            read.filter_type,
            read.sys_flag,
            read.is_ordered,
            read.attributes if isinstance(attributes, dict) else None,
        )

    def delete_topic(self, name: str) -> None:
        """Remove a topic; one that is not there is no error."""
        self.check_own(name)
        self._topics.delete(name)

    # -- groups ----------------------------------------------------------------------------------

    def put_group(self, config: JsonObject) -> Group:
        """Make or alter a consumer group as RocketMQ's object describes it.

        Raises:
            BadField: the name or a setting cannot be; nothing changed.
        """
        name = config.get("groupName")
        if not isinstance(name, str):
            raise BadField("a consumer group has no groupName")
        for key in _SWITCHES:
            _check(name, key, config.get(key), bool)
        for key in _NUMBERS:
            _check(name, key, config.get(key), int)
            _check_range(name, key, config.get(key))
        wanted: JsonObject = {key: value for key, value in config.items() if value is not None}
        changes = wanted.pop("attributes", None)
        known = self._groups.find(name)
        if isinstance(changes, dict):
            texts = {key: value for key, value in changes.items() if isinstance(value, str)}
            wanted["attributes"] = {**changed_attributes(known.attributes if known is not None else {}, texts)}
        return self._groups.put(name, wanted)


def _check(group: str, key: str, value: Value, kind: type) -> None:
    if value is not None and type(value) is not kind:
        wanted = "true or false" if kind is bool else "a whole number"
        raise BadField(f"group {group!r}: {key} is {str(value)[:40]!r}, it must be {wanted}")


def _check_range(group: str, key: str, value: Value) -> None:
    largest = MAX_QUEUES if key == "retryQueueNums" else fields.INT32[1]
    if isinstance(value, int) and not fields.INT32[0] <= value <= largest:
        raise BadField(f"group {group!r}: {key} is {value}, it must be at most {largest}")
