"""Following a topic without a group: nothing is committed, and nobody else notices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from litemq.cli.asking import Asking
from litemq.client._message_cy import Message
from litemq.client.lookups import Place
from litemq.client.running import run
from litemq.errors import UnknownTopic

_IDLE_S: Final = 0.2
_QUEUES_S: Final = 10.0
"""So often it is looked whether the topic has got queues."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which messages are wanted."""

    expression: str = "*"
    kind: str = "TAG"


def newest(ask: Asking, topic: str, wanted: Filter, count: int) -> tuple[list[Message], list[Place]]:
    """Return the newest messages, oldest first, and the places behind them."""
    places = run(ask.lookups.places(topic))
    window = count
    while True:
        found: list[Message] = []
        for place in places:
            found += _matching(ask, replace(place, begin=max(place.begin, place.end - window)), wanted)
        if len(found) >= count or all(place.end - window <= place.begin for place in places):
            break
        window *= 4
    found.sort(key=_age)
    return found[-count:], [replace(place, begin=place.end) for place in places]


def since(ask: Asking, topic: str, start: str | int) -> list[Place]:
    """Return the places to begin at: the ``first`` message, behind the ``last``, or a time in ms."""
    places = run(ask.lookups.places(topic))
    if start == "first":
        return places
    if start == "last":
        return [replace(place, begin=place.end) for place in places]
    assert isinstance(start, int)
    return [replace(place, begin=max(place.begin, run(ask.lookups.first_since(place, start)))) for place in places]


def following(ask: Asking, topic: str, places: list[Place], wanted: Filter, *, is_endless: bool) -> Iterator[Message]:
    """Yield messages from places on, in the order of time as far as they come together."""
    looked = ask.lookups.net.now()
    while True:
        found: list[Message] = []
        is_moving = False
        for number, place in enumerate(places):
            if not is_endless and place.begin >= place.end:
                continue
            messages, after = run(ask.lookups.page(place, place.begin, wanted=wanted.expression, kind=wanted.kind))
            is_moving = is_moving or after > place.begin
            places[number] = replace(place, begin=after)
            found += messages if is_endless else [one for one in messages if one.queue_offset < place.end]
        yield from sorted(found, key=_age)
        if is_moving:
            continue
        if not is_endless:
            return
        run(ask.lookups.net.sleep(_IDLE_S))
        if ask.lookups.net.now() - looked > _QUEUES_S:
            looked = ask.lookups.net.now()
            places += _new_queues(ask, topic, places)


def _new_queues(ask: Asking, topic: str, places: list[Place]) -> list[Place]:
    known = {(place.broker, place.queue_id) for place in places}
    try:
        return [place for place in run(ask.lookups.places(topic)) if (place.broker, place.queue_id) not in known]
    except UnknownTopic:  # it may come back
        return []


def _matching(ask: Asking, place: Place, wanted: Filter) -> list[Message]:
    found: list[Message] = []
    offset = place.begin
    while offset < place.end:
        messages, after = run(ask.lookups.page(place, offset, wanted=wanted.expression, kind=wanted.kind))
        if after <= offset:
            break
        offset = after
        found += [one for one in messages if one.queue_offset < place.end]
    return found


def _age(message: Message) -> tuple[int, str, int, int]:
    return message.stored_ms, message.broker, message.queue_id, message.queue_offset
