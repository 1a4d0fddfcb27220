"""What each record format holds, lacks and limits, and whether a message fits it at all.

A field that a format lacks is dropped by a conversion, and counted; a message that does not fit is rejected: a topic
that cannot be a folder name, or something longer than its size field can say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from litemq.errors import InvalidRequest
from litemq.format import blueprint, litemq, rocketmq, tmq
from litemq.format.placement import Placement
from litemq.format.record import FORMATS, Format
from litemq.types import NO_HOST, LogPosition, Message, QueueOffset

MAX_FOLDER_NAME: Final = 255
MAX_QUEUES: Final = 1 << 20
"""Queues of one topic: clients list all of them, and RocketMQ counts them in 31 bits."""

"""Bytes of a topic in any format: it becomes the name of a folder."""

RECORD_KEYS: Final = (
    *("format", "version", "segment", "position", "size", "check", "topic", "queue_id", "queue_offset", "log_offset"),
    *("message_id", "tags", "keys", "properties", "body", "body_size", "stored_body_size", "compression", "body_crc"),
    *("flag", "sys_flag", "type", "priority", "reliability", "delay_time", "transaction_id", "status", "sharding_key"),
    *("broadcast", "born_time", "born_host", "store_time", "store_host", "reconsume_times", "prepared_offset"),
    *("consume_start_time", "consume_end_time", "offset_id"),
)
"""Keys of the record object, in the order in which it is printed."""

_NOT_IN_BLUEPRINT: Final = frozenset(
    {"version", "priority", "reliability", "broadcast", "born_host", "store_host", "reconsume_times"}
    | {"prepared_offset", "consume_start_time", "consume_end_time", "offset_id"}
)
_LACKS: Final[dict[str, frozenset[str]]] = {
    litemq.NAME: frozenset({"body_crc", "offset_id"}),
    rocketmq.NAME: frozenset(),
    blueprint.NAME: _NOT_IN_BLUEPRINT,
    tmq.NAME: _NOT_IN_BLUEPRINT | {"compression", "body_crc", "flag", "sys_flag", "status", "store_time"},
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Most bytes of a topic, of the properties (``litemq``: of one name or value) and of a body."""

    topic: int
    properties: int
    body: int


@dataclass(frozen=True, slots=True)
class Facts:
    """One line of ``litemq store formats``."""

    name: str
    magic: int
    written_by: Literal["broker", "convert"]
    checked: Literal["record", "body", "none"]
    holds: tuple[str, ...]
    lacks: tuple[str, ...]
    limits: Limits

    def to_json(self) -> dict[str, object]:
        """Return the object that ``litemq store formats --json`` prints."""
        return {
            "name": self.name,
            "magic": f"0x{self.magic:08X}",
            "written_by": self.written_by,
            "checked": self.checked,
            "holds": list(self.holds),
            "lacks": list(self.lacks),
            "limits": {
                "topic": self.limits.topic,
                "properties": self.limits.properties,
                "body": self.limits.body,
            },
        }


def _facts(
    fmt: Format, written_by: Literal["broker", "convert"], checked: Literal["record", "body", "none"], limits: Limits
) -> Facts:
    lacks = _LACKS[fmt.name]
    return Facts(
        fmt.name,
        fmt.magic,
        written_by,
        checked,
        tuple(key for key in RECORD_KEYS if key not in lacks),
        tuple(key for key in RECORD_KEYS if key in lacks),
        limits,
    )


FACTS: Final = {
    facts.name: facts
    for facts in (
        _facts(
            FORMATS["litemq"],
            "broker",
            "record",
            # The filler is the one size that no frame may have.
            Limits(MAX_FOLDER_NAME, litemq.MAX_TEXT, litemq.FILLER - 1 + 4 - litemq.MIN_SIZE),
        ),
        _facts(
            FORMATS["rocketmq"],
            "broker",
            "body",
            Limits(MAX_FOLDER_NAME, rocketmq.MAX_PROPERTIES, 0x7FFFFFFF - rocketmq.MIN_SIZE),
        ),
        _facts(
            FORMATS["blueprint"],
            "convert",
            "body",
            Limits(blueprint.MAX_TOPIC, blueprint.MAX_PROPERTIES, 0xFFFFFFFF - blueprint.MIN_SIZE),
        ),
        _facts(
            FORMATS["tmq"],
            "convert",
            "none",
            Limits(MAX_FOLDER_NAME, tmq.MAX_PROPERTIES, 0xFFFFFFFF - tmq.MIN_SIZE),
        ),
    )
}
"""By name, in the order of ``FORMATS``."""


def is_folder_name(topic: str) -> str | None:
    """Return why ``topic`` cannot be the name of a folder; None when it can."""
    if topic in ("", ".", ".."):
        return f"the topic is {topic!r}" if topic else "the topic is empty"
    if "/" in topic or "\0" in topic:
        return "the topic holds a slash" if "/" in topic else "the topic holds a zero byte"
    try:
        size = len(topic.encode())
    except UnicodeEncodeError:
        return "the topic has no UTF-8 form"
    return f"the topic has {size} bytes, at most {MAX_FOLDER_NAME} fit" if size > MAX_FOLDER_NAME else None


def check_fits(message: Message, fmt: Format | str, store_host: str = NO_HOST) -> str | None:
    """Return why a record of ``fmt`` cannot hold ``message`` at all; None when it can."""
    reason = is_folder_name(message.topic)
    if reason is not None:
        return reason
    if isinstance(fmt, str):
        fmt = FORMATS[fmt]
    if message.queue_id < 0:
        return f"queue id {message.queue_id} is below 0"
    limit = FACTS[fmt.name].limits.body
    if len(message.body) > limit:
        return f"the body has {len(message.body)} bytes, at most {limit} fit"
    try:
        if message.queue_id <= 0x7FFFFFFF and _is_small(message, store_host):
            return None
        # Only the encoder knows what it adds; a message of this size is rare enough to be encoded twice.
        fmt.write(message, Placement(LogPosition(0), QueueOffset(0), 0, store_host))
    except InvalidRequest as error:
        return str(error)
    except UnicodeEncodeError:
        return "a text of the message has no UTF-8 form"
    return None


def _is_small(message: Message, store_host: str) -> bool:
    """Return whether all texts together are surely below every limit, however they are escaped and repeated."""
    texts = [message.message_id, message.transaction_id, message.sharding_key, message.born_host, store_host]
    texts += [*message.tags, *message.keys, *message.properties.keys(), *message.properties.values()]
    return len("".join(texts).encode()) * 7 + 16 * len(texts) < 30_000
