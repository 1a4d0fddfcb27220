"""The part of ``Admin`` that finds messages, and works on dead letters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from datetime import datetime
from os import PathLike
from pathlib import Path

from litemq.client._message_cy import Message
from litemq.client.archive import ArchiveFile
from litemq.client.dead_letters import DeadLetter, DeadLetterCount, DeadLetters, Progress, Wanted
from litemq.client.lookups import MOST_FOUND, Lookups, epoch_ms, or_latest
from litemq.client.net import Net
from litemq.client.redrive import Redriven, To, redrive
from litemq.client.routes import Routes
from litemq.client.trace import Trace, trace_of
from litemq.errors import InvalidRequest, UnknownMessage

Time = datetime | int


class MessageAdmin:
    """Messages and dead letters; needs what ``Admin`` has."""

    _net: Net
    _routes: Routes
    _timeout: float

    # -- messages --------------------------------------------------------------------------------

    async def message(self, message_id: str, *, topic: str | None = None) -> Message:
        """Return a message by the id that its sender gave it, or by its offset id.

        Of several with the id, which was sent more than once, it is the oldest.  Without a topic all topics of the
        cluster are searched, applications' first: name it where you know it.

        >>> with litemq.Producer() as producer, litemq.Admin() as admin:
        ...     sent = producer.send("orders", b"17 apples")
        ...     admin.message(sent.message_id, topic="orders").text()
        '17 apples'

        Raises:
            UnknownMessage: there is none.
        """
        if not message_id:
            raise InvalidRequest("a message id must not be empty")
        lookups = self._lookups()
        found = await lookups.by_offset_id(message_id)
        if found is not None and topic in (None, found.topic):
            return found
        same = await lookups.by_id(message_id, await lookups.topics() if topic is None else [topic])
        if same:
            return same[0]
        where = "any topic" if topic is None else f"topic {topic!r}"
        raise UnknownMessage(
            f"there is no message {message_id!r} in {where}: it was never stored, or its time is over; "
            "what an application calls its number may be a key: query(topic, key=…)"
        )

    async def query(
        self,
        topic: str,
        *,
        key: str | None = None,
        begin: Time | None = None,
        end: Time | None = None,
        max_messages: int = MOST_FOUND,
    ) -> list[Message]:
        """Return messages of a topic by key or by the time they were stored at, oldest first.

        By key it is the newest ``max_messages``, at most 64 of each broker; by time the first of all from ``begin``
        on.  ``begin`` and ``end`` (included) are aware datetimes or milliseconds since the epoch.

        >>> with litemq.Producer() as producer, litemq.Admin() as admin:
        ...     sent = producer.send("orders", b"18 pears", keys="o-18")
        ...     [message.text() for message in admin.query("orders", key="o-18")][-1]
        '18 pears'

        Raises:
            UnknownTopic: no broker has the topic.
        """
        if key is None and begin is None and end is None:
            raise InvalidRequest("say what to look for: key=…, or begin=… and end=…")
        if key == "" or (key is not None and " " in key):
            raise InvalidRequest(f"the key {key!r} must be one word")
        if max_messages < 1:
            raise InvalidRequest(f"max_messages is {max_messages}, it must be 1 or more")
        begin_ms, end_ms = _range(begin, end)
        lookups = self._lookups()
        if key is not None:
            await lookups.queues(topic)  # a topic that is not there must not look like one without such messages
            return await lookups.by_key(
                topic, key, is_id=False, begin_ms=begin_ms or 0, end_ms=or_latest(end_ms), limit=max_messages
            )
        return await lookups.stored_between(topic, begin_ms or 0, or_latest(end_ms), max_messages)

    async def trace(self, message_id: str, *, topic: str | None = None) -> Trace:
        """Return what the log knows of a message: where it is, who has read beyond it, its retries, its death.

        The id may be that of a retry or a dead letter, too.

        >>> with litemq.Producer() as producer, litemq.Admin() as admin:
        ...     sent = producer.send("orders", b"19 plums")
        ...     admin.trace(sent.message_id, topic="orders").message.queue_offset == sent.queue_offset
        True

        Raises:
            UnknownMessage: there is none.
        """
        found = await self.message(message_id, topic=topic)
        return await trace_of(self._lookups(), found)

    # -- dead letters ----------------------------------------------------------------------------

    async def dead_letters(
        self,
        group: str | None = None,
        *,
        topic: str | None = None,
        reason: str | None = None,
        ids: Collection[str] = (),
        begin: Time | None = None,
        end: Time | None = None,
        max_messages: int = 1_000,
    ) -> list[DeadLetter]:
        """Return dead letters of a group, or of all groups; ``topic`` is the one that they were sent to first.

        >>> with litemq.Admin() as admin:
        ...     for dead in admin.dead_letters(topic="orders", reason="max_retry"):
        ...         print(dead.group, dead.message.message_id, dead.error)

        Raises:
            UnknownGroup: no broker knows the group.
        """
        if group is None and topic is None:
            raise InvalidRequest("say whose dead letters: a group, or topic=… for those of all groups")
        if max_messages < 1:
            raise InvalidRequest(f"max_messages is {max_messages}, it must be 1 or more")
        begin_ms, end_ms = _range(begin, end)
        wanted = Wanted(origin_topic=topic, reason=reason, ids=frozenset(ids), begin_ms=begin_ms, end_ms=end_ms)
        found: list[DeadLetter] = []
        async for dead in self._walk_dead_letters(group, wanted):
            found.append(dead)
            if len(found) == max_messages:
                break
        return found

    async def count_dead_letters(
        self,
        group: str | None = None,
        *,
        topic: str | None = None,
        begin: Time | None = None,
        end: Time | None = None,
        on_progress: Progress | None = None,
    ) -> list[DeadLetterCount]:
        """Return how many dead letters there are of each group, topic and reason.  All of them are read for it.

        >>> with litemq.Admin() as admin:
        ...     for one in admin.count_dead_letters():
        ...         print(one.group, one.origin_topic, one.reason, one.count)
        """
        begin_ms, end_ms = _range(begin, end)
        letters = DeadLetters(self._lookups())
        wanted = Wanted(origin_topic=topic, begin_ms=begin_ms, end_ms=end_ms)
        return await letters.counts(await letters.of(group), wanted, on_progress)

    async def redrive(
        self,
        group: str,
        *,
        to: To = "group",
        topic: str | None = None,
        reason: str | None = None,
        ids: Collection[str] = (),
        begin: Time | None = None,
        end: Time | None = None,
        where: Callable[[DeadLetter], bool] | None = None,
        rate: float | None = None,
        dry_run: bool = False,
        again: bool = False,
        on_progress: Progress | None = None,
    ) -> Redriven:
        """Send dead letters of a group once more; their attempts begin anew.

        To the group (the default) only the group that failed gets them, through its retry topic.  To the origin topic
        (``to="origin"``) all groups of that topic get them again: what RocketMQ's tools do, and what groups that
        consume in order need.  A dead letter counts when its send was acknowledged.  None is sent twice, whatever
        ended an earlier run, unless you say ``again``; all stay in the log until they are purged.

        >>> with litemq.Admin() as admin:
        ...     admin.redrive("billing", reason="max_retry", rate=100)
        Redriven(sent=0, skipped=0, passed_over=0)

        Args:
            group: whose dead letters.
            to: ``group`` or ``origin``.
            topic: only those that were sent to this topic first.
            reason: only those that died of it.
            ids: only those with one of these ids.
            begin: only those that died then or later.
            end: only those that died until then.
            where: only those for which it returns True.
            rate: so many a second at most.
            dry_run: send nothing; count what would be sent.
            again: also those that were redriven before.
            on_progress: told how many were looked at, of how many.

        Raises:
            UnknownGroup: no broker knows the group.
            Unavailable: a broker takes no messages for a while; nothing is lost, and another run goes on.
        """
        if to not in ("group", "origin"):
            raise InvalidRequest(f"to is {to!r}, it must be 'group' or 'origin'")
        if rate is not None and not rate > 0:
            raise InvalidRequest(f"the rate is {rate}, it must be above 0")
        begin_ms, end_ms = _range(begin, end)
        wanted = Wanted(
            origin_topic=topic, reason=reason, ids=frozenset(ids), begin_ms=begin_ms, end_ms=end_ms, where=where
        )
        return await redrive(
            self._lookups(), group, wanted, to=to, rate=rate, dry_run=dry_run, again=again, on_progress=on_progress
        )

    async def archive_dead_letters(
        self,
        group: str,
        file: str | PathLike[str],
        *,
        reason: str | None = None,
        end: Time | None = None,
        on_progress: Progress | None = None,
    ) -> int:
        """Write a group's dead letters into a file, one JSON object a line, and return how many; they stay in the log.

        Bodies are in base64; the last line is ``{"end": true, "count": N}``.  The file appears when it is whole.

        >>> with litemq.Admin() as admin:
        ...     admin.archive_dead_letters("billing", "billing.jsonl")
        0
        """
        wanted = Wanted(reason=reason, end_ms=_range(None, end)[1])
        letters = DeadLetters(self._lookups())
        groups = await letters.of(group)
        with ArchiveFile(Path(file)) as archive:
            async for dead in letters.walk(groups, wanted, on_progress):
                archive.write(dead)
        return archive.count

    async def purge_dead_letters(self, group: str, *, before: Time | None = None) -> int:
        """Remove a group's dead letters, or those that died before a time, and return how many.

        What dies meanwhile stays.  Archive them first if somebody may ask.

        >>> with litemq.Admin() as admin:
        ...     admin.purge_dead_letters("billing")
        0
        """
        before_ms = None if before is None else epoch_ms(before, "before")
        return await DeadLetters(self._lookups()).purge(group, before_ms)

    async def _walk_dead_letters(
        self, group: str | None, wanted: Wanted, on_progress: Progress | None = None
    ) -> AsyncIterator[DeadLetter]:
        """Yield dead letters one by one, however many there are."""
        letters = DeadLetters(self._lookups())
        async for dead in letters.walk(await letters.of(group), wanted, on_progress):
            yield dead

    def _lookups(self) -> Lookups:
        return Lookups(self._net, self._routes, self._timeout)


def _range(begin: Time | None, end: Time | None) -> tuple[int | None, int | None]:
    begin_ms = None if begin is None else epoch_ms(begin, "begin")
    end_ms = None if end is None else epoch_ms(end, "end")
    if begin_ms is not None and end_ms is not None and begin_ms > end_ms:
        raise InvalidRequest(f"begin ({begin}) is after end ({end})")
    return begin_ms, end_ms
