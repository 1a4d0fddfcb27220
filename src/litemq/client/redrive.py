"""Sending dead letters once more, each once, whatever ended an earlier run.

The log stays as it is: dead letters are there until they are purged or too old.  What was redriven is known all the
same.  A run over all of a group's dead letters commits how far it came, as the group ``LITEMQ_REDRIVE``; and every
message that is redriven says in its property ``REDRIVEN_FROM`` which dead letter it was, so that one that was sent
already is found, whatever run sent it, also when the run ended between the send and the commit.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Literal

from litemq.client.answers import check
from litemq.client.dead_letters import DeadLetter, DeadLetters, Progress, Wanted
from litemq.client.lookups import Lookups, Place, or_latest
from litemq.client.routes import TopicQueue
from litemq.errors import InvalidRequest, LiteMQError, Unavailable, UnknownGroup, UnknownTopic
from litemq.features.dead_letter import dead_letter_topic
from litemq.features.retry import ORIGIN_MESSAGE_ID, RETRY_TOPIC, retry_topic
from litemq.format import names, properties
from litemq.format.message_id import parse_offset_id
from litemq.wire.remoting.codes import Ask, Code

REDRIVER: Final = "LITEMQ_REDRIVE"
"""The group whose committed offsets say how far runs over all dead letters came."""
REDRIVEN_FROM: Final = "REDRIVEN_FROM"
"""Property: offset id of the dead letter that a message was."""

To = Literal["group", "origin"]

_OF_DELIVERY: Final = frozenset(
    {
        *names.INTERNAL,
        *(names.DELAY, "REAL_TOPIC", "REAL_QID", "RECONSUME_TIME", "MAX_RECONSUME_TIMES", "CONSUME_START_TIME"),
        *("MIN_OFFSET", "MAX_OFFSET", "TRAN_MSG"),
    }
)
"""Properties that belong to one delivery, not to the message; those of its death are left out, too."""
_SAVED_EVERY: Final = 32
_TRIES: Final = 6
_COMPRESSED, _TYPES, _HOSTS = names.FLAG_COMPRESSED, 0x700, names.FLAG_BORN_IPV6 | names.FLAG_STORE_IPV6


@dataclass(slots=True)
class Redriven:
    """What a redrive did.

    >>> Redriven(sent=17, skipped=2).sent
    17
    """

    sent: int = 0
    """Dead letters that were sent and acknowledged; in a dry run those that would be sent."""
    skipped: int = 0
    """Dead letters that were redriven before, by this or another run."""
    passed_over: int = 0
    """Dead letters that the filter left out."""


async def redrive(
    lookups: Lookups,
    group: str,
    wanted: Wanted,
    *,
    to: To = "group",
    rate: float | None = None,
    dry_run: bool = False,
    again: bool = False,
    on_progress: Progress | None = None,
) -> Redriven:
    """Send dead letters once more; see ``MessageAdmin.redrive``."""
    told = on_progress or _untold
    places = await DeadLetters(lookups).places(group, wanted)
    if not again:
        places = [await _behind_last_run(lookups, place) for place in places]
    total = sum(place.end - place.begin for place in places)
    remembers = wanted.is_all and not dry_run
    if total and remembers:
        await _make_redriver(lookups, {place.address for place in places})
    sender = _Sender(lookups, group, to, await lookups.brokers(), again=again)
    pace = _Pace(lookups, rate)
    outcome = Redriven()
    done = 0
    for place in places:
        notes = _Notes(lookups, place, remembers=remembers)
        async with notes:
            async for message in lookups.walk(place, end_ms=or_latest(wanted.end_ms)):
                dead = DeadLetter(message)
                if not wanted.fits(dead):
                    outcome.passed_over += 1
                elif not again and await sender.was_sent(dead):
                    outcome.skipped += 1
                else:
                    if not dry_run:
                        await pace.wait()
                        await sender.send(dead, place, outcome.sent)
                    outcome.sent += 1
                await notes.done(message.queue_offset)
                done += 1
                told(done, total)
    told(total, total)
    return outcome


def _untold(_done: int, _total: int) -> None:
    """Tell nobody."""


class _Notes:
    """Remembers, at the broker, how far a run came; also when something ends it."""

    def __init__(self, lookups: Lookups, place: Place, *, remembers: bool) -> None:
        self._lookups = lookups
        self._place = place
        self._remembers = remembers
        self._saved = self._after = place.begin

    async def __aenter__(self) -> None:
        """Nothing is to be done."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(LiteMQError) if error is not None else nullcontext():  # what ended the run is what is told
            await self._save()

    async def done(self, offset: int) -> None:
        self._after = offset + 1
        if self._after - self._saved >= _SAVED_EVERY:
            await self._save()

    async def _save(self) -> None:
        if not self._remembers or self._after <= self._saved:
            return
        ext = {**self._place.ext, "consumerGroup": REDRIVER, "commitOffset": str(self._after)}
        await self._lookups.have(self._place.address, Ask.UPDATE_CONSUMER_OFFSET, ext)
        self._saved = self._after


async def _behind_last_run(lookups: Lookups, place: Place) -> Place:
    committed = await lookups.committed(REDRIVER, place)
    return place if committed is None else replace(place, begin=min(max(place.begin, committed), place.end))


async def _make_redriver(lookups: Lookups, addresses: Collection[str]) -> None:
    """Make the group whose offsets remember: a broker takes none of a group that it does not know."""
    body = json.dumps({"groupName": REDRIVER}).encode()
    for address in addresses:
        await lookups.have(address, Ask.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)


class _Pace:
    """Waits so that no more than ``rate`` a second pass."""

    def __init__(self, lookups: Lookups, rate: float | None) -> None:
        self._net = lookups.net
        self._gap = 0.0 if rate is None else 1 / rate
        self._due = self._net.now()

    async def wait(self) -> None:
        now = self._net.now()
        if self._due > now:
            await self._net.sleep(self._due - now)
        self._due = max(self._due, now) + self._gap


class _Sender:
    """Sends dead letters of one group, and knows which were sent before."""

    def __init__(self, lookups: Lookups, group: str, to: To, brokers: Mapping[str, str], *, again: bool) -> None:
        self._lookups = lookups
        self._group = group
        self._to = to
        self._brokers = brokers
        self._again = again

    async def was_sent(self, dead: DeadLetter) -> bool:
        """Return whether a message says that it was this dead letter: one that waits, was handled, or died again."""
        text = dead.message.raw_properties.get(names.UNIQ_KEY)
        if not text:
            return False
        for topic in filter(None, (retry_topic(self._group), dead.origin_topic, dead_letter_topic(self._group))):
            for copy in await self._lookups.by_key(topic, text, is_id=True, brokers=self._brokers):
                if copy.raw_properties.get(REDRIVEN_FROM) == dead.message.offset_id:
                    return True
        return False

    async def send(self, dead: DeadLetter, place: Place, sent: int) -> None:
        """Send a dead letter; what has no answer is looked for before it is sent again.

        ``sent`` were sent before it.
        """
        for turn in range(1, _TRIES + 1):
            try:
                await self._send(dead, place)
            except Unavailable as error:
                if turn == _TRIES:
                    raise type(error)(
                        f"{error}; {sent} dead letters were redriven before it: give the command again, "
                        "they are not sent twice"
                    ) from error
                await self._lookups.net.sleep(error.retry_after or 0.1 * 2**turn)
                if not self._again and await self.was_sent(dead):
                    return
            else:
                return

    async def _send(self, dead: DeadLetter, place: Place) -> None:
        topic, address, queue_id = await self._target(dead, place)
        answer = await self._lookups.call(address, Ask.SEND_MESSAGE_V2, *_request(dead, topic, queue_id))
        if answer.code == Code.SUBSCRIPTION_GROUP_NOT_EXIST:
            raise UnknownGroup(
                f"{address} knows no group {self._group!r} any more: make it again, or redrive to the origin topic"
            )
        check(answer, address)
        if self._to == "group":
            await self._check_place(place, answer.ext.get("msgId", ""))

    async def _check_place(self, place: Place, offset_id: str) -> None:
        """Refuse to go on when the broker made a dead letter of it at once, as it does for groups that keep order."""
        parsed = parse_offset_id(offset_id)
        stored = await self._lookups.at(place.broker, place.address, parsed[1]) if parsed is not None else None
        if stored is not None and stored.topic == dead_letter_topic(self._group):
            raise InvalidRequest(
                f"group {self._group!r} consumes in order, so its broker takes no retries for it and made this one a "
                "dead letter again; redrive to the origin topic instead, which all its groups read: to='origin', or "
                "litemq dlq redrive --to origin"
            )

    async def _target(self, dead: DeadLetter, place: Place) -> tuple[str, str, int]:
        """Return topic, address and queue; -1: the broker chooses."""
        if self._to == "group":
            return retry_topic(self._group), place.address, -1
        if not dead.origin_topic:
            raise InvalidRequest(f"dead letter {dead.message.message_id} does not say which topic it came from")
        queues = await self._writable(dead.origin_topic)
        if not queues:
            raise InvalidRequest(f"no broker lets anybody send to the topic {dead.origin_topic!r}")
        same = [one for one in queues if one[0].broker == place.broker and one[0].queue_id == dead.origin_queue]
        key = dead.message.sharding_key or dead.message.message_id
        queue, address = same[0] if same else queues[zlib.crc32(key.encode()) % len(queues)]
        return dead.origin_topic, address, queue.queue_id

    async def _writable(self, topic: str) -> list[tuple[TopicQueue, str]]:
        try:
            route = await self._lookups.routes.find(topic)
        except UnknownTopic:  # brokers know of a topic a moment before name servers do
            return await self._lookups.queues(topic)
        return [(one, route.addresses[one.broker]) for one in route.writable]


def _request(dead: DeadLetter, topic: str, queue_id: int) -> tuple[dict[str, str], bytes]:
    """Return fields and body of the send: the message as it was, with where it comes from; attempts begin anew."""
    message = dead.message
    pairs = {
        name: value
        for name, value in message.raw_properties.items()
        if name not in _OF_DELIVERY and not name.startswith("DLQ_")
    }
    pairs[REDRIVEN_FROM] = message.offset_id
    if topic == dead.origin_topic:
        pairs.pop(RETRY_TOPIC, None)
        pairs.pop(ORIGIN_MESSAGE_ID, None)
    else:
        pairs |= {
            name: value
            for name, value in ((RETRY_TOPIC, dead.origin_topic), (ORIGIN_MESSAGE_ID, dead.origin_message_id))
            if value
        }
    flags, body = message.sys_flag & ~_TYPES & ~_HOSTS, message.body
    if flags & _COMPRESSED:
        body = zlib.compress(body)  # type 0: what every client unfolds
    ext = {
        "a": REDRIVER,
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue_id),
        "f": str(flags),
        "g": str(message.born_ms),
        "h": str(message.flag),
        "i": properties.write(pairs.items()).decode(),
        "j": "0",
        "k": "false",
        "l": "16",
        "m": "false",
    }
    return ext, body
