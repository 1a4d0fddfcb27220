"""The topics of a broker: what the store's table says of them, and how they come and go.

Every change goes through the store's log; then ``on_change`` tells the name servers.  Topics whose messages need no
more than storing are in the store's table of plain topics, so that their sends never come to Python.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from litemq.broker import system_topics, topic_attributes
from litemq.broker.names import check_topic
from litemq.broker.system_topics import DEAD_PREFIX, PERM_INHERIT, PERM_READ, PERM_WRITE, RETRY_PREFIX, TEMPLATE
from litemq.config import BrokerConfig
from litemq.errors import BadField, Busy, NoPermission, RecordTooLarge, UnknownTopic
from litemq.format.config_json import JsonObject, Value
from litemq.format.names import RESERVED_TOPIC_PREFIX
from litemq.store.message_store import MessageStore

logger = logging.getLogger(__name__)

_MAX_ATTRIBUTES = 64 << 10
"""Characters of a topic's attributes."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic as its table entry describes it."""

    name: str
    read_queues: int
    write_queues: int
    perm: int = PERM_READ | PERM_WRITE
    is_ordered: bool = False
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def is_readable(self) -> bool:
        """Return whether consumers may read it."""
        return bool(self.perm & PERM_READ)

    @property
    def is_writable(self) -> bool:
        """Return whether producers may send to it."""
        return bool(self.perm & PERM_WRITE)

    @property
    def queue_count(self) -> int:
        """Return how many queues it has, those included that are only read or only written."""
        return max(self.read_queues, self.write_queues)

    def to_json(self) -> JsonObject:
        """Return RocketMQ's object."""
        attributes: dict[str, Value] = dict(self.attributes)
        return {
            "attributes": attributes,
            "order": self.is_ordered,
            "perm": self.perm,
            "readQueueNums": self.read_queues,
            "topicFilterType": self.filter_type,
            "topicName": self.name,
            "topicSysFlag": self.sys_flag,
            "writeQueueNums": self.write_queues,
        }


def topic_from(name: str, config: JsonObject) -> Topic:
    """Return the topic that a table entry describes; what cannot be read gets RocketMQ's default."""

    def number(key: str, default: int) -> int:
        value = config.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    attributes = config.get("attributes")
    filter_type = config.get("topicFilterType")
    return Topic(
        name,
        read_queues=number("readQueueNums", 8),
        write_queues=number("writeQueueNums", 8),
        perm=number("perm", PERM_READ | PERM_WRITE),
        is_ordered=config.get("order") is True,
        filter_type=filter_type if isinstance(filter_type, str) else "SINGLE_TAG",
        sys_flag=number("topicSysFlag", 0),
        attributes=(
            {key: value for key, value in attributes.items() if isinstance(value, str)}
            if isinstance(attributes, dict)
            else {}
        ),
    )


class Topics:
    """Finds, makes, alters and removes topics."""

    def __init__(self, store: MessageStore, config: BrokerConfig) -> None:
        self._store = store
        self._config = config
        self._known: dict[str, Topic] = {}
        self.on_change: list[Callable[[list[str]], None]] = []
        """Called with the names of topics that were made, altered or removed."""
        self.is_plain: Callable[[Topic], bool] = lambda _topic: True
        """Whether messages of a topic need nothing but storing, as far as limits and such go."""
        for name, entry in store.tables.topics.items():
            if not name.startswith(RESERVED_TOPIC_PREFIX):
                self._note(topic_from(name, entry))
        self._make_presets()

    def configure(self, config: BrokerConfig) -> None:
        """Go on with other settings."""
        self._config = config
        template = self._known.get(TEMPLATE)
        if config.auto_create_topics and (template is None or template.write_queues != config.default_queues):
            queues = config.default_queues
            self.create(Topic(TEMPLATE, queues, queues, PERM_READ | PERM_WRITE | PERM_INHERIT))
        self.refresh_plain()

    def _make_presets(self) -> None:
        wanted = system_topics.presets(self._config.cluster, self._config.name)
        if self._config.auto_create_topics:
            perm = PERM_READ | PERM_WRITE | PERM_INHERIT
            wanted[TEMPLATE] = (self._config.default_queues, perm)
        for name, (queues, perm) in wanted.items():
            if name not in self._known:
                self._put(Topic(name, queues, queues, perm))

    # -- finding ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._known)

    def find(self, name: str) -> Topic | None:
        """Return a topic, None when there is none of this name."""
        return self._known.get(name)

    def known(self, name: str) -> Topic:
        """Return a topic that must be there."""
        topic = self._known.get(name)
        if topic is None:
            raise UnknownTopic(f"there is no topic {name!r} on this broker")
        return topic

    def all(self) -> list[Topic]:
        """Return every topic, by name."""
        return [self._known[name] for name in sorted(self._known)]

    def is_system(self, name: str) -> bool:
        """Return whether a topic is the broker's own."""
        return system_topics.is_system(name, self._config.cluster, self._config.name)

    # -- making and altering ---------------------------------------------------------------------

    def for_send(self, name: str, template: str, queues: int) -> Topic:
        """Return the topic that a message is for; its first message makes it, where that is allowed."""
        topic = self._known.get(name)
        if topic is not None:
            return topic
        check_topic(name)
        if name.startswith(RETRY_PREFIX):
            return self.create(Topic(name, 1, 1))
        pattern = self._known.get(template)
        if not self._config.auto_create_topics or pattern is None or not pattern.perm & PERM_INHERIT:
            raise UnknownTopic(
                f"topic {name!r} does not exist and is not made by its first message: create it, "
                "or set broker.auto_create_topics"
            )
        count = min(queues, pattern.write_queues) if queues > 0 else pattern.write_queues
        return self.create(Topic(name, count, count, pattern.perm & ~PERM_INHERIT))

    def for_group(self, group: str, queues: int = 1) -> Topic:
        """Return a group's retry topic, made when needed."""
        name = system_topics.retry_topic(group)
        return self._known.get(name) or self.create(Topic(name, queues, queues))

    def for_dead_letters(self, group: str) -> Topic:
        """Return a group's dead-letter topic, made when needed."""
        name = system_topics.dead_topic(group)
        return self._known.get(name) or self.create(Topic(name, 1, 1))

    def create(self, topic: Topic) -> Topic:
        """Make or alter a topic."""
        check_topic(topic.name)
        if not topic.queue_count > 0:
            raise BadField(f"topic {topic.name!r} needs at least one queue")
        topic_attributes.check(topic.attributes)
        is_new = topic.name not in self._known
        if is_new and len(self._known) >= self._config.max_topics:
            raise Busy(f"this broker has {len(self._known)} topics, as many as broker.max_topics allows")
        self._put(topic)
        logger.info("topic put: name=%s read=%d write=%d", topic.name, topic.read_queues, topic.write_queues)
        self._tell([topic.name])
        return topic

    def set_attributes(self, name: str, attributes: dict[str, str]) -> Topic:
        """Replace the attributes of a topic."""
        return self.create(replace(self.known(name), attributes=attributes))

    def delete(self, name: str) -> None:
        """Remove a topic with its messages and every group's progress in it; one that is not there is no error."""
        if self.is_system(name):
            raise NoPermission(f"topic {name!r} is the broker's own and cannot be deleted")
        if self._known.pop(name, None) is None:
            return
        self._store.drop_plain(name)
        self._store.delete_topic(name)
        self._store.progress.forget(topic=name)
        logger.info("topic deleted: name=%s", name)
        self._tell([name])

    def refresh_plain(self) -> None:
        """Decide anew which topics are plain: a setting changed."""
        for topic in self._known.values():
            self._set_plain(topic)

    def _put(self, topic: Topic) -> None:
        size = sum(len(name) + len(value) for name, value in topic.attributes.items())
        if size > _MAX_ATTRIBUTES:
            raise RecordTooLarge(what=f"the attributes of topic {topic.name!r}", size=size, limit=_MAX_ATTRIBUTES)
        self._store.put_topic(topic.name, topic.to_json())
        self._note(topic)

    def _note(self, topic: Topic) -> None:
        self._known[topic.name] = topic
        self._set_plain(topic)

    def _set_plain(self, topic: Topic) -> None:
        name = topic.name
        if (
            topic.is_writable
            and name not in system_topics.CLOSED_TO_PRODUCERS
            and not name.startswith((RETRY_PREFIX, DEAD_PREFIX))
            and not self._store.tables.has_batch_queues(name)
            and self.is_plain(topic)
        ):
            self._store.put_plain(name, topic.write_queues)
        else:
            self._store.drop_plain(name)

    def _tell(self, names: list[str]) -> None:
        for told in self.on_change:
            told(names)
