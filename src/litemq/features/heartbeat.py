"""What a client says of itself every 30 s: its id, its producer groups, its consumer groups with their subscriptions.

The reader takes what the Java, Go and C++ clients write: sets that are missing, enums as names or ordinals, numbers as
texts.  Anything else is refused with the place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from litemq.errors import BadBody
from litemq.format.config_json import JsonValue

CONSUME_TYPES: Final = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
MESSAGE_MODELS: Final = ("BROADCASTING", "CLUSTERING")
FROM_WHERE: Final = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)
"""The enums, in the order of their ordinals."""

MAX_NAME: Final = 255
"""Characters of a client id, a group or a topic."""

MAX_SET: Final = 1_000
"""Groups of a client, subscriptions of a group, tags of a subscription."""

MAX_EXPRESSION: Final = 32_767

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a consumer group wants of one topic; the highest ``version`` is the newest."""

    topic: str
    expression: str = "*"
    kind: str = "TAG"
    version: int = 0
    tags: tuple[str, ...] = ()
    codes: tuple[int, ...] = ()
    class_filter: bool = False


@dataclass(frozen=True, slots=True)
class ConsumerData:
    """One consumer group of a client."""

    group: str
    subscriptions: tuple[Subscription, ...] = ()
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    from_where: str = "CONSUME_FROM_LAST_OFFSET"
    unit_mode: bool = False

    @property
    def is_broadcast(self) -> bool:
        """Whether every member reads every queue."""
        return self.message_model == "BROADCASTING"


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One heartbeat; ``without_subscriptions``: those of the last one hold."""

    client_id: str
    producer_groups: tuple[str, ...] = ()
    consumers: tuple[ConsumerData, ...] = ()
    fingerprint: int = 0
    without_subscriptions: bool = False


def parse_heartbeat(body: JsonValue) -> Heartbeat:
    """Return the heartbeat in the body of a request.

    Raises:
        BadBody: something is missing, wrong or too much; says what.
    """
    top = _object(body, "heartbeat")
    return Heartbeat(
        client_id=_name(top.get("clientID"), "clientID"),
        producer_groups=_each(top.get("producerDataSet"), "producerDataSet", _producer_group),
        consumers=_each(top.get("consumerDataSet"), "consumerDataSet", _consumer),
        fingerprint=_integer(top.get("heartbeatFingerprint"), "heartbeatFingerprint"),
        without_subscriptions=_flag(top.get("withoutSub"), "withoutSub"),
    )


def _producer_group(value: JsonValue, at: str) -> str:
    return _name(_object(value, at).get("groupName"), f"{at}.groupName")


def _consumer(value: JsonValue, at: str) -> ConsumerData:
    data = _object(value, at)
    return ConsumerData(
        group=_name(data.get("groupName"), f"{at}.groupName"),
        subscriptions=_each(data.get("subscriptionDataSet"), f"{at}.subscriptionDataSet", _subscription),
        consume_type=_enum(data.get("consumeType"), CONSUME_TYPES, "CONSUME_PASSIVELY", f"{at}.consumeType"),
        message_model=_enum(data.get("messageModel"), MESSAGE_MODELS, "CLUSTERING", f"{at}.messageModel"),
        from_where=_enum(data.get("consumeFromWhere"), FROM_WHERE, FROM_WHERE[0], f"{at}.consumeFromWhere"),
        unit_mode=_flag(data.get("unitMode"), f"{at}.unitMode"),
    )


def _subscription(value: JsonValue, at: str) -> Subscription:
    data = _object(value, at)
    return Subscription(
        topic=_name(data.get("topic"), f"{at}.topic"),
        expression=_text(data.get("subString"), f"{at}.subString", MAX_EXPRESSION) or "*",
        kind=_text(data.get("expressionType"), f"{at}.expressionType", MAX_NAME) or "TAG",
        version=_integer(data.get("subVersion"), f"{at}.subVersion"),
        tags=_each(data.get("tagsSet"), f"{at}.tagsSet", lambda tag, where: _text(tag, where, MAX_EXPRESSION)),
        codes=_each(data.get("codeSet"), f"{at}.codeSet", _integer),
        class_filter=_flag(data.get("classFilterMode"), f"{at}.classFilterMode"),
    )


# -- readers of one value; None is what is missing -----------------------------------------------


def _object(value: JsonValue, at: str) -> Mapping[str, JsonValue]:
    if not isinstance(value, Mapping):
        raise _bad(at, "an object", value)
    return value


def _each(value: JsonValue, at: str, read: Callable[[JsonValue, str], T]) -> tuple[T, ...]:
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise _bad(at, "a list", value)
    if len(value) > MAX_SET:
        raise BadBody(f"{at} has {len(value)} members, at most {MAX_SET} are taken")
    return tuple(read(each, f"{at}[{index}]") for index, each in enumerate(value))


def _text(value: JsonValue, at: str, limit: int) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _bad(at, "a text", value)
    if len(value) > limit:
        raise BadBody(f"{at} has {len(value)} characters, at most {limit} are taken")
    return value


def _name(value: JsonValue, at: str) -> str:
    text = _text(value, at, MAX_NAME)
    if not text:
        raise BadBody(f"{at} is missing")
    return text


def _integer(value: JsonValue, at: str) -> int:
    if value is None:
        return 0
    if isinstance(value, str) and len(value) <= 20:
        try:
            value = int(value)
        except ValueError:
            raise _bad(at, "a whole number", value) from None
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
        raise _bad(at, "a whole number of 64 bits", value)
    return value


def _flag(value: JsonValue, at: str) -> bool:
    if value is None or isinstance(value, bool):
        return bool(value)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise _bad(at, "true or false", value)


def _enum(value: JsonValue, names: tuple[str, ...], default: str, at: str) -> str:
    if value is None:
        return default
    if isinstance(value, str) and value in names:
        return value
    ordinal = int(value) if isinstance(value, str) and value.isdecimal() and len(value) <= 3 else value
    if isinstance(ordinal, int) and not isinstance(ordinal, bool) and 0 <= ordinal < len(names):
        return names[ordinal]
    raise _bad(at, f"one of {', '.join(names)}", value)


def _bad(at: str, expected: str, value: JsonValue) -> BadBody:
    return BadBody(f"{at} must be {expected}, not {str(value)[:40]!r}")
