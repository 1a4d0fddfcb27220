"""Transactions that wait for their end, and messages that groups hold by receipts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from litemq.client.admin_cluster import ClusterCore, found_or_none, moment, moment_ms
from litemq.client.answers import json_object
from litemq.client.values import check_count
from litemq.errors import InvalidRequest, UnknownGroup
from litemq.wire.remoting.codes import Ask, Code

_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class TransactionInfo:
    """A transaction of one message: whose it is, and when its producers are asked about it next.

    >>> with litemq.TransactionProducer("millers", check=lambda message: litemq.UNKNOWN) as producer:
    ...     with litemq.Admin() as admin:
    ...         with producer.transaction() as tx:
    ...             sent = tx.send("flour", b"3 sacks")
    ...             found = admin.transactions(group="millers")
    >>> found[0].message_id == sent.message_id, found[0].topic, found[0].state, found[0].checks
    (True, 'flour', 'pending', 0)
    """

    message_id: str
    topic: str
    """Where it goes when it is committed."""
    broker: str
    queue_id: int
    group: str
    """The producer group that knows how it ends."""
    keys: tuple[str, ...]
    state: str
    """``pending``; ``checking``: the group was asked; ``committed``, ``rolled_back``, ``given_up``: it has ended."""
    stored_at: datetime | None
    checks: int
    """How often its group was asked."""
    next_check_at: datetime | None
    """When it is asked the next time, or given up; None: it has ended."""

    def to_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {
            "message_id": self.message_id,
            "topic": self.topic,
            "broker": self.broker,
            "queue_id": self.queue_id,
            "group": self.group,
            "keys": list(self.keys),
            "state": self.state,
            "stored_at": moment_ms(self.stored_at),
            "checks": self.checks,
            "next_check_at": moment_ms(self.next_check_at),
        }


@dataclass(frozen=True, slots=True)
class InFlight:
    """A message that a group holds by a receipt: who has it, until when.

    >>> with litemq.Producer() as producer:
    ...     sent = producer.send("cakes", b"with cherries")
    >>> with litemq.SimpleConsumer("guests", {"cakes": "*"}) as consumer, litemq.Admin() as admin:
    ...     message = consumer.receive(max_messages=1, invisible=60, timeout=20)[0]
    ...     held = admin.inflight("guests")[0]
    ...     consumer.ack(message)
    >>> held.message_id == sent.message_id, held.attempt, held.consumer != ""
    (True, 1, True)
    """

    group: str
    topic: str
    broker: str
    queue_id: int
    queue_offset: int
    message_id: str
    """Empty when the message is gone."""
    consumer: str
    """Client id of who has it, or an address; empty: it was handed out before the broker's last start."""
    attempt: int
    """How often it was handed out."""
    handed_out_at: datetime | None
    """When, or when its time was changed last."""
    until: datetime | None
    """Until when nobody else gets it; None: its time is over, and it waits for whoever asks next."""

    def to_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {
            "group": self.group,
            "topic": self.topic,
            "broker": self.broker,
            "queue": self.queue_id,
            "offset": self.queue_offset,
            "message_id": self.message_id,
            "consumer": self.consumer,
            "attempt": self.attempt,
            "handed_out_at": moment_ms(self.handed_out_at),
            "until": moment_ms(self.until),
        }


class ListingAdmin(ClusterCore):
    """The part of ``Admin`` that looks at what is under way."""

    async def transactions(
        self,
        *,
        group: str | None = None,
        topic: str | None = None,
        ended: bool = False,
        max_transactions: int = 1_000,
    ) -> list[TransactionInfo]:
        """Return transactions that have not ended, of each broker the oldest first.

        >>> with litemq.Admin() as admin:
        ...     admin.transactions(topic="nowhere")
        []

        Args:
            group: only those of a producer group.
            topic: only those of messages for a topic.
            ended: in their place those that ended last, the last one first: as many as brokers remember.
            max_transactions: at most so many of each broker.
        """
        check_count("max_transactions", max_transactions)
        wanted = {"group": group or "", "topic": topic or "", "ended": str(ended).lower()}
        found: list[TransactionInfo] = []
        for broker, address in (await self._masters()).items():
            most = len(found) + max_transactions
            offset = 0
            while offset >= 0 and len(found) < most:
                ext = {**wanted, "offset": str(offset), "maxNum": str(min(most - len(found), _PAGE))}
                read = json_object(await self._have(address, Ask.LITEMQ_TRANSACTIONS, ext))
                found += (_transaction(broker, one) for one in read.get("transactions") or ())
                offset = int(read.get("nextOffset", -1))
        return found

    async def inflight(self, group: str, *, topic: str | None = None, max_messages: int = 1_000) -> list[InFlight]:
        """Return the messages that a group holds by receipts, by broker, topic, queue and offset.

        >>> with litemq.Admin() as admin:
        ...     info = admin.create_group("idlers", exist_ok=True)
        ...     admin.inflight("idlers")
        []

        Args:
            group: the consumer group.
            topic: only those of a topic.
            max_messages: at most so many of each broker.

        Raises:
            UnknownGroup: no broker has it.
        """
        check_count("max_messages", max_messages)
        if not group:
            raise InvalidRequest("a consumer group needs a name")
        found: list[InFlight] = []
        is_there = False
        for broker, address in (await self._masters()).items():
            count = 0
            async for page in self._held_pages(address, {"group": group, "topic": topic or ""}, max_messages):
                is_there = True
                for one in page[: max_messages - count]:
                    found.append(_held(group, broker, one))
                    count += 1
        if not is_there:
            raise UnknownGroup(f"there is no consumer group {group!r} on any broker; see: litemq group list")
        return found

    async def _held_pages(self, address: str, wanted: Mapping[str, str], most: int) -> AsyncIterator[list[Any]]:
        """Yield pages of what a group holds on a broker; none when the group is not there."""
        after: Mapping[str, Any] | None = {"topic": "", "queue": 0, "offset": 0}
        while after is not None and most > 0:
            place = {f"from{name.capitalize()}": str(value) for name, value in after.items()}
            told = await self._ask(address, Ask.LITEMQ_IN_FLIGHT, {**wanted, **place, "maxNum": str(min(most, _PAGE))})
            answer = found_or_none(told, address, Code.SUBSCRIPTION_GROUP_NOT_EXIST)
            if answer is None:
                return
            read = json_object(answer)
            page = list(read.get("messages") or ())
            most -= len(page)
            yield page
            after = read.get("next")


def _transaction(broker: str, one: Mapping[str, Any]) -> TransactionInfo:
    return TransactionInfo(
        one["messageId"],
        one["topic"],
        broker,
        int(one["queue"]),
        one["group"],
        tuple(one["keys"].split()),
        one["state"],
        moment(int(one["storedAt"])),
        int(one["checks"]),
        moment(int(one["nextCheckAt"])),
    )


def _held(group: str, broker: str, one: Mapping[str, Any]) -> InFlight:
    return InFlight(
        group,
        one["topic"],
        broker,
        int(one["queue"]),
        int(one["offset"]),
        one["messageId"],
        one["consumer"],
        int(one["attempt"]),
        moment(int(one["handedOutAt"])),
        moment(int(one["until"])),
    )
