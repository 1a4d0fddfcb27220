"""What happens to a message that a consumer could not handle: again later, or to the dead letters.

The first retry comes after 10 s (level 3), each further one a level later, up to 2 h (level 18).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from litemq.features.dead_letter import Reason
from litemq.features.delay_levels import clamp, delay_ms

RETRY_PREFIX: Final = "%RETRY%"
MAX_TIMES: Final = 16
"""Retries of a group that sets nothing else."""

FIRST_LEVEL: Final = 3

RETRY_TOPIC: Final = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"


@dataclass(frozen=True, slots=True)
class Redeliver:
    """Deliver once more, after a delay; ``reconsume_times`` is the new record's."""

    level: int
    delay_ms: int
    reconsume_times: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Deliver no more."""

    reason: Reason


def retry_topic(group: str) -> str:
    """Return the topic from which a group gets what it sent back."""
    return RETRY_PREFIX + group


def after_failure(reconsume_times: int, delay_level: int, max_times: int = MAX_TIMES) -> Redeliver | DeadLetter:
    """Decide on a message that was sent back (request 36).

    Args:
        reconsume_times: of the stored record, 0 at its first failure.
        delay_level: as asked for: 0 leaves it to the broker, below 0 the consumer never wants it again.
        max_times: of the request, or else of the group.
    """
    if delay_level < 0:
        return DeadLetter("consume_error")
    if reconsume_times >= max_times:
        return DeadLetter("max_retry")
    level = clamp(delay_level or FIRST_LEVEL + reconsume_times)
    return Redeliver(level, delay_ms(level), reconsume_times + 1)


def after_resend(reconsume_times: int, max_times: int = MAX_TIMES, *, is_ordered: bool = False) -> DeadLetter | None:
    """Decide on a retry that the client sent itself to its retry topic; None: store it with the delay it asks for.

    Args:
        reconsume_times: of the request; the client has counted this failure already.
        is_ordered: the group holds queue locks: a retry would come out of order.
    """
    if is_ordered or reconsume_times > max_times:
        return DeadLetter("max_retry")
    return None


def retry_properties(properties: Mapping[str, str], *, topic: str, message_id: str) -> dict[str, str]:
    """Return the properties of a retry: with the topic and id of the first record, from which clients restore them.

    Args:
        topic: of the record that is retried.
        message_id: of the record that is retried, as its place in the log (``offset_id``).
    """
    origin = {RETRY_TOPIC: topic, ORIGIN_MESSAGE_ID: message_id}
    return {**properties, **{name: value for name, value in origin.items() if not properties.get(name)}}


def origin_of(properties: Mapping[str, str], *, topic: str, message_id: str) -> tuple[str, str]:
    """Return topic and id of the first record of a message that may have been retried."""
    return properties.get(RETRY_TOPIC) or topic, properties.get(ORIGIN_MESSAGE_ID) or message_id
