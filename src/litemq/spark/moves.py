"""Where a stream shall go on, ``orders/3=1200`` or ``'*=-1h'``: worked out, and put into its offset.

    PLACE=WHERE    PLACE: TOPIC, TOPIC/QUEUE, TOPIC/BROKER/QUEUE, or * for every queue
                   WHERE: an offset, earliest, latest, or a time (ISO 8601, or a time ago such as -1h)

Of two that mean the same queue the later one holds.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from litemq.spark.backend import Backend, Bounds
from litemq.spark.checkpoint import Offset
from litemq.spark.errors import BadOption
from litemq.spark.offsets import Place, places_of
from litemq.spark.options import time_ms

EVERY: Final = "*"
_SHOWN: Final = 20
_FORM: Final = "it must be PLACE=WHERE: orders/3=1200, orders=earliest, 'orders=-1h', '*=latest'"

Kind = Literal["brokers", "path"]


class Move(NamedTuple):
    """One wish: which queues, and where they go on."""

    topic: str
    broker: str
    """Empty: whichever."""
    queue_id: int | None
    to: int | str
    """An offset, ``earliest``, ``latest``, or a time as it was written."""


class Change(NamedTuple):
    """A queue that is moved."""

    place: Place
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class There:
    """What the store or the brokers have now."""

    backend: Backend
    queues: Mapping[Place, Bounds]
    logs: Mapping[str, str]
    """Log id by broker; by an empty name for files."""


def parse_move(text: str) -> Move:
    """Return what one argument asks for.

    Raises:
        BadOption: it is no PLACE=WHERE.
    """
    place, equals, where = text.partition("=")
    parts = place.split("/")
    if not equals or not where or not all(parts) or len(parts) > 3 or (parts[0] == EVERY and len(parts) > 1):
        raise BadOption(f"{text!r} cannot be read; {_FORM}")
    queue_id = None
    if len(parts) > 1:
        if not _is_number(parts[-1]):
            raise BadOption(f"{text!r} names the queue {parts[-1]!r}, which is no number; {_FORM}")
        queue_id = int(parts[-1])
    broker = parts[1] if len(parts) == 3 else ""
    return Move(parts[0], broker, queue_id, int(where) if _is_number(where) else where)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def kind_of(offset: Offset) -> Kind:
    """Return what a source reads."""
    return "brokers" if isinstance(offset["s"], dict) else "path"


def changes(offset: Offset, moves: Sequence[Move], there: There | None, now_ms: int) -> list[Change]:
    """Return which queues go where, in the order of the offset; ``there`` is needed for words and times.

    Raises:
        BadOption: a queue or an offset is not there.
    """
    before = places_of(offset)
    after: dict[Place, int] = {}
    for one in moves:
        for place in _meant(one, before):
            after[place] = _goal(one, place, there, now_ms)
    return [Change(place, at, after[place]) for place, at in before.items() if place in after]


def _meant(wish: Move, known: Mapping[Place, int]) -> list[Place]:
    found = [
        (topic, broker, queue_id)
        for topic, broker, queue_id in known
        if wish.topic in (EVERY, topic) and wish.broker in ("", broker) and wish.queue_id in (None, queue_id)
    ]
    if not found:
        shown = ", ".join(place_text(place) for place in list(known)[:_SHOWN])
        rest = len(known) - _SHOWN
        more = f" and {rest} more" if rest > 0 else ""
        raise BadOption(f"the checkpoint has no queue {_text(wish)}; it has: {shown}{more}")
    return found


def _goal(wish: Move, place: Place, there: There | None, now_ms: int) -> int:
    if there is None:
        assert isinstance(wish.to, int)
        return wish.to
    queue = there.queues.get(place)
    if queue is None:
        raise BadOption(f"{place_text(place)} is not there any more: its topic was deleted, or its broker is away")
    if wish.to == "earliest":
        return queue.low
    if wish.to == "latest":
        return queue.high
    if isinstance(wish.to, str):
        return there.backend.offset_at(queue, time_ms(_text(wish), wish.to, now_ms))
    if not queue.low <= wish.to <= queue.high:
        raise BadOption(f"{place_text(place)} has offsets {queue.low} to {queue.high}, not {wish.to}")
    return wish.to


def moved(offset: Offset, wanted: Sequence[Change], there: There | None) -> Offset:
    """Return the offset with its queues moved, and with the ids of what is there now for those that are.

    Raises:
        BadOption: a log is another one now, and only some of its queues are moved.
    """
    found = copy.deepcopy(offset)
    for (topic, broker, queue_id), _, after in wanted:
        found["t"][topic]["q"][f"{broker}/{queue_id}" if broker else str(queue_id)] = after
    if there is not None:
        places = {change.place for change in wanted}
        _take_logs(found, places, there)
        _take_incarnations(found, places, there)
    return found


def _take_logs(offset: Offset, places: set[Place], there: There) -> None:
    of_brokers = isinstance(offset["s"], dict)
    for broker in {broker for _, broker, _ in places}:
        now = there.logs.get(broker, "")
        known = offset["s"].get(broker) if of_brokers else offset["s"]
        if now and known != now:
            left = [place for place in places_of(offset) if place[1] == broker and place not in places]
            _check_none_left(f"the log of {broker or 'this store'}", left)
            if of_brokers:
                offset["s"][broker] = now
            else:
                offset["s"] = now


def _take_incarnations(offset: Offset, places: set[Place], there: There) -> None:
    for place in places:
        name, broker, _ = place
        now = there.queues[place].incarnation
        topic = offset["t"][name]
        by_broker = isinstance(topic["id"], dict)
        known = topic["id"].get(broker, "") if by_broker else topic["id"]
        if known != now:
            left = [one for one in places_of(offset) if one[:2] == (name, broker) and one not in places]
            _check_none_left(f"the topic {name}", left)
            if by_broker:
                topic["id"][broker] = now
            else:
                topic["id"] = now


def _check_none_left(what: str, left: Sequence[Place]) -> None:
    """Refuse to leave queues at offsets of a log or topic that is no more."""
    if left:
        raise BadOption(
            f"{what} is another one than the checkpoint knows: move all of its queues, {place_text(left[0])} too; "
            "'*=earliest' in front does it"
        )


def place_text(place: Place) -> str:
    """Return a queue as an argument names it."""
    topic, broker, queue_id = place
    return f"{topic}/{broker}/{queue_id}" if broker else f"{topic}/{queue_id}"


def _text(wish: Move) -> str:
    return "/".join(
        part for part in (wish.topic, wish.broker, "" if wish.queue_id is None else str(wish.queue_id)) if part
    )
