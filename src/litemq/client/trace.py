"""What the log knows of one message: where it is, who has read beyond it, its retries and its death."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from litemq.client._message_cy import Message
from litemq.client.answers import json_object
from litemq.client.dead_letters import DeadLetter
from litemq.client.lookups import Lookups, Place
from litemq.client.redrive import REDRIVEN_FROM
from litemq.errors import UnknownTopic
from litemq.features.dead_letter import DLQ_PREFIX, dead_letter_topic
from litemq.features.delay_levels import delay_ms
from litemq.features.retry import ORIGIN_MESSAGE_ID, RETRY_PREFIX, RETRY_TOPIC, retry_topic
from litemq.format.names import DELAY, SCHEDULE_TOPIC, UNIQ_KEY
from litemq.wire.remoting.codes import Ask

State = Literal["unread", "read", "retry waits", "retry unread", "read after retry", "dead"]

_REAL_TOPIC: Final = "REAL_TOPIC"


@dataclass(frozen=True, slots=True)
class GroupTrace:
    """How far one group came with a message.

    >>> GroupTrace("billing", "read", committed=18).state
    'read'
    """

    group: str
    state: State
    """``read``: its committed offset is beyond the message, which was handled or filtered out."""
    committed: int | None
    """The group's offset in the message's queue; None: it has none yet."""
    retries: tuple[Message, ...] = ()
    """Copies in the group's retry topic, oldest first; redriven ones, too."""
    due_ms: int | None = None
    """When the retry that waits comes back."""
    dead_letters: tuple[DeadLetter, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """What the log knows of a message.

    >>> with litemq.Producer() as producer, litemq.Admin() as admin:
    ...     sent = producer.send("orders", b"20 figs")
    ...     for group in admin.trace(sent.message_id, topic="orders").groups:
    ...         assert group.state in ("unread", "read")
    """

    message: Message
    is_first: bool
    """Whether ``message`` is the first record; False: that is gone, and this is what is left of it."""
    copies: tuple[Message, ...]
    """Other records of the same id in its topic: it was sent more than once, or redriven there."""
    groups: tuple[GroupTrace, ...]


async def trace_of(lookups: Lookups, found: Message) -> Trace:
    """Return what is known of a message, or of the one whose retry or dead letter this is."""
    told = found.raw_properties
    home = told.get("DLQ_ORIGIN_TOPIC") or told.get(RETRY_TOPIC) or told.get(_REAL_TOPIC) or found.topic
    text = told.get(UNIQ_KEY, "")
    brokers = await lookups.brokers()
    copies = await lookups.by_key(home, text, is_id=True, brokers=brokers) if text else []
    first = found
    is_first = found.topic == home and RETRY_TOPIC not in told  # a retry says the topic that it was sent to first
    if not is_first:
        origin = await lookups.by_offset_id(told.get("DLQ_ORIGIN_MESSAGE_ID") or told.get(ORIGIN_MESSAGE_ID) or "")
        candidates = [one for one in (origin, *copies) if one is not None and one.topic == home]
        is_first = bool(candidates)
        first = candidates[0] if candidates else found
    scheduled = await lookups.by_key(SCHEDULE_TOPIC, text, is_id=True, brokers=brokers) if text else []
    names = await _groups(lookups, home, brokers)
    names.update(goal.removeprefix(RETRY_PREFIX) for goal in map(_goal, scheduled) if goal.startswith(RETRY_PREFIX))
    groups = [await _trace_group(lookups, group, first, text, scheduled, brokers) for group in sorted(names)]
    return Trace(
        first,
        is_first,
        tuple(one for one in copies if one.offset_id != first.offset_id),
        tuple(one for one in groups if one is not None),
    )


async def _groups(lookups: Lookups, topic: str, brokers: dict[str, str]) -> set[str]:
    """Return the groups that read a topic, and those that have dead letters: they may be of this topic."""
    names = {name.removeprefix(DLQ_PREFIX) for name in await lookups.topics() if name.startswith(DLQ_PREFIX)}
    for address in brokers.values():
        answer = await lookups.have(address, Ask.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic})
        names.update(json_object(answer).get("groupList") or ())
    return names


async def _trace_group(
    lookups: Lookups, group: str, first: Message, text: str, scheduled: list[Message], brokers: dict[str, str]
) -> GroupTrace | None:
    """Return how far a group came; None when it has nothing to do with the message."""
    place = _place(first, brokers, first.topic)
    committed = await lookups.committed(group, place) if first.topic[:1] != "%" else None
    retries: list[Message] = []
    waiting: list[Message] = []
    dead: list[Message] = []
    if text:
        retries = await lookups.by_key(retry_topic(group), text, is_id=True, brokers=brokers)
        dead = await lookups.by_key(dead_letter_topic(group), text, is_id=True, brokers=brokers)
        came = {_turn(one) for one in retries}
        waiting = [one for one in scheduled if _turn(one) not in came and _goal(one) == retry_topic(group)]
    is_known = committed is not None or retries or dead or waiting
    if not is_known and group not in await _readers(lookups, first.topic, place):
        return None
    letters = tuple(DeadLetter(one) for one in dead)
    last_ms = max((one.stored_ms for one in (*retries, *waiting)), default=-1)
    if dead and dead[-1].stored_ms >= last_ms:
        return GroupTrace(group, "dead", committed, tuple(retries), dead_letters=letters)
    if waiting:
        due_ms = waiting[-1].stored_ms + delay_ms(int(waiting[-1].raw_properties.get(DELAY, "0")))
        return GroupTrace(group, "retry waits", committed, tuple(retries), due_ms, letters)
    if retries:
        at = await lookups.committed(group, _place(retries[-1], brokers, retry_topic(group)))
        is_read = at is not None and at > retries[-1].queue_offset
        state: State = "read after retry" if is_read else "retry unread"
        return GroupTrace(group, state, committed, tuple(retries), dead_letters=letters)
    return GroupTrace(group, "unread" if committed is None or committed <= first.queue_offset else "read", committed)


def _turn(message: Message) -> tuple[int, str | None]:
    """Return what tells a message's deliveries apart: a retry that waited has come when the same is there."""
    return message.reconsume_times, message.raw_properties.get(REDRIVEN_FROM)


def _goal(message: Message) -> str:
    """Return the topic that a message waits for."""
    return message.raw_properties.get(_REAL_TOPIC, "")


async def _readers(lookups: Lookups, topic: str, place: Place) -> list[str]:
    try:
        answer = await lookups.have(place.address, Ask.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic})
    except UnknownTopic:
        return []
    return list(json_object(answer).get("groupList") or ())


def _place(message: Message, brokers: dict[str, str], topic: str) -> Place:
    return Place(topic, message.broker, brokers[message.broker], message.queue_id)
