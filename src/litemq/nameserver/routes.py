"""Which brokers are there, and which of them has which topic: what a name server knows, and decides.

A broker name stands for a master (id 0) and its copies.  Topics are known by broker name: what the master registers
counts, or the copy with the lowest id while there is no master.  Registrations bring the whole table or what changed;
a table whose version is known changes nothing, so that what ``wipe_write`` took away stays away until then.

Nothing here waits, sleeps or looks at a clock: times come in as milliseconds that never run back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from litemq.errors import Busy
from litemq.nameserver.brokers import MASTER_ID, Accepted, Announcement, Broker, Member, Refused
from litemq.wire.remoting.bodies import dump
from litemq.wire.remoting.topic_table import PERM_READ, PERM_WRITE, DataVersion, Queues

logger = logging.getLogger(__name__)

MAX_BROKERS = 10_000
MAX_TOPICS = 200_000


class Routes:
    """All that a name server knows of brokers and topics; owners are whoever registered, compared by identity."""

    def __init__(self, *, heartbeat_expiry_ms: int = 30_000, broker_expiry_ms: int = 120_000) -> None:
        self.heartbeat_expiry_ms = heartbeat_expiry_ms
        self.broker_expiry_ms = broker_expiry_ms
        self.brokers: dict[str, Broker] = {}
        self.topics: dict[str, dict[str, Queues]] = {}
        """Topic → broker name → queues; never empty inside.  Both are for others to read only."""
        self._encoded: dict[str, bytes] = {}
        """Routes that were asked for since they changed last."""

    # -- registration ----------------------------------------------------------------------------

    def is_repeated(self, said: Announcement, mark: object, owner: object, now_ms: int) -> Accepted | None:
        """Take a registration that is the same as the last one for a sign of life; None when it is not.

        ``said`` needs no topics for this: brokers repeat their table every 30 s, it need not be read again.
        """
        broker = self.brokers.get(said.name)
        member = broker.members.get(said.broker_id) if broker else None
        if broker is None or member is None or member.address != said.address or member.mark != mark:
            return None
        member.seen_ms, member.owner = now_ms, owner
        return self._answer(broker, said.broker_id)

    def register(self, said: Announcement, owner: object, now_ms: int, mark: object = None) -> Accepted | Refused:
        """Take in what a broker announces; ``owner`` is the connection that it lives and dies with."""
        reason = self._refusal(said)
        if reason is not None:
            return Refused(reason)
        broker = self.brokers.get(said.name)
        if broker is None or (broker.cluster != said.cluster and self._is_alone(broker, said)):
            if broker is not None:
                self._remove(broker)
            broker = self.brokers[said.name] = Broker(said.name, said.cluster)
        if self._is_outdated(broker, said):
            logger.warning("outdated broker ignored: broker=%s address=%s", said.name, said.address)
            self._drop(broker, said.address)
            return Accepted()
        self._show(broker, said)
        known = broker.members.get(said.broker_id)
        if known is not None and known.address != said.address:
            known = None
        if self._speaks_for(broker, said):
            is_told = said.is_full is False  # these topics did change, even if the version was known before
            self._take_topics(broker, said, is_changed=known is None or is_told or known.version != said.version)
        broker.members[said.broker_id] = Member(
            said.address,
            said.ha_address,
            said.version,
            owner,
            now_ms,
            said.timeout_ms,
            heartbeats=known is not None and known.heartbeats,
            mark=mark,
        )
        if known is None:
            self._forget_encoded(broker)
            logger.info("broker registered: cluster=%s broker=%s address=%s", said.cluster, said.name, said.address)
        return self._answer(broker, said.broker_id)

    def _refusal(self, said: Announcement) -> str | None:
        """Return why a registration cannot be taken in, if so."""
        broker = self.brokers.get(said.name)
        if broker is not None and broker.cluster != said.cluster and not self._is_alone(broker, said):
            return f"the broker name {said.name} is taken by the cluster {broker.cluster}"
        is_known = broker is not None and broker.cluster == said.cluster and said.broker_id in broker.members
        if not is_known and (said.is_full is False or (said.is_full is None and len(said.topics) == 1)):
            # What changed is no beginning: clients would take the topics that are not in it for deleted.
            return f"the broker {said.name} with id {said.broker_id} is not registered: it must send its whole table"
        if broker is None and len(self.brokers) >= MAX_BROKERS:
            return f"{MAX_BROKERS} broker names are registered, there is no room for more"
        if len(self.topics) + len(said.topics) > MAX_TOPICS:
            count = len(self.topics) + sum(topic not in self.topics for topic in said.topics)
            if count > MAX_TOPICS:
                return f"with this broker there would be {count} topics, at most {MAX_TOPICS} are kept"
        return None

    @staticmethod
    def _is_alone(broker: Broker, said: Announcement) -> bool:
        return all(member.address == said.address for member in broker.members.values())

    @staticmethod
    def _is_outdated(broker: Broker, said: Announcement) -> bool:
        """Return whether another address has the id, with a newer state: a master that came back too late."""
        known = broker.members.get(said.broker_id)
        return (
            known is not None
            and known.address != said.address
            and known.version.state_version > said.version.state_version
        )

    def _show(self, broker: Broker, said: Announcement) -> None:
        """Take in what routes show of a broker besides its topics."""
        promoted = [
            number
            for number, member in broker.members.items()
            if member.address == said.address and number != said.broker_id
        ]
        for number in promoted:
            del broker.members[number]
        acting_master = bool(said.acting_master)
        if promoted or (broker.acting_master, broker.zone) != (acting_master, said.zone):
            broker.acting_master, broker.zone = acting_master, said.zone
            self._forget_encoded(broker)

    @staticmethod
    def _speaks_for(broker: Broker, said: Announcement) -> bool:
        """Return whether this member's topics count: the master's, else those of the copy with the lowest id."""
        if said.broker_id == MASTER_ID:
            return True
        return said.acting_master is not None and said.broker_id <= min(broker.members, default=said.broker_id)

    def _take_topics(self, broker: Broker, said: Announcement, *, is_changed: bool) -> None:
        for topic, queues in said.topics.items():
            if is_changed or topic not in broker.topics:
                if said.broker_id != MASTER_ID and said.acting_master:
                    queues = queues._replace(perm=queues.perm & ~PERM_WRITE)  # a stand-in only reads
                self._put(broker, topic, queues)
        gone = broker.topics.intersection(said.deleted)
        if said.is_full and is_changed:
            gone |= broker.topics - said.topics.keys()
        for topic in gone:
            self._take_out(broker, topic)

    def _answer(self, broker: Broker, broker_id: int) -> Accepted:
        master = broker.members.get(MASTER_ID)
        if broker_id == MASTER_ID or master is None:
            return Accepted()
        return Accepted(master.address, master.ha_address)

    # -- signs of life ---------------------------------------------------------------------------

    def heartbeat(self, name: str, address: str, now_ms: int, *, timeout_ms: int | None = None) -> bool:
        """Note a heartbeat; return whether this broker is known."""
        member = self._member(name, address)
        if member is None:
            return False
        member.seen_ms, member.heartbeats = now_ms, True
        if timeout_ms is not None:
            member.timeout_ms = timeout_ms
        return True

    def compare(self, name: str, address: str, version: DataVersion, now_ms: int) -> bool:
        """Return whether a broker has another table than the one that is known; if not, it is a sign of life."""
        member = self._member(name, address)
        if member is None or member.version != version or member.lacks_topics:
            return True
        member.seen_ms = now_ms
        return False

    def version_of(self, name: str, address: str) -> DataVersion | None:
        """Return the version of the table that is known of a broker."""
        member = self._member(name, address)
        return member.version if member else None

    def expire(self, now_ms: int) -> list[object]:
        """Remove brokers that gave no sign of life for too long; return owners that own no broker any more."""
        gone = [
            (broker, member)
            for broker in self.brokers.values()
            for member in broker.members.values()
            if now_ms - member.seen_ms > self._patience_ms(member)
        ]
        for broker, member in gone:
            logger.warning("broker expired: broker=%s address=%s", broker.name, member.address)
            self._drop(broker, member.address)
        left = {id(member.owner) for broker in self.brokers.values() for member in broker.members.values()}
        return list({id(member.owner): member.owner for _, member in gone if id(member.owner) not in left}.values())

    def _patience_ms(self, member: Member) -> int:
        if member.timeout_ms is not None:
            return member.timeout_ms
        return self.heartbeat_expiry_ms if member.heartbeats else self.broker_expiry_ms

    def connection_lost(self, owner: object) -> None:
        """Remove what registered last through this connection."""
        gone = [
            (broker, member.address)
            for broker in self.brokers.values()
            for member in broker.members.values()
            if member.owner is owner
        ]
        for broker, address in gone:
            logger.warning("broker lost its connection: broker=%s address=%s", broker.name, address)
            self._drop(broker, address)

    def unregister(self, name: str, address: str) -> None:
        """Remove one address of a broker; with the last one its topics go."""
        broker = self.brokers.get(name)
        if broker is not None:
            self._drop(broker, address)

    def _member(self, name: str, address: str) -> Member | None:
        broker = self.brokers.get(name)
        found = (member for member in broker.members.values() if member.address == address) if broker else iter(())
        return next(found, None)

    def _drop(self, broker: Broker, address: str) -> None:
        kept = {number: member for number, member in broker.members.items() if member.address != address}
        if len(kept) < len(broker.members):
            broker.members = kept
            self._forget_encoded(broker)
        if not kept:
            self._remove(broker)

    def _remove(self, broker: Broker) -> None:
        for topic in list(broker.topics):
            self._take_out(broker, topic)
        self.brokers.pop(broker.name, None)

    # -- topics ----------------------------------------------------------------------------------

    def put_queues(self, topic: str, offered: Mapping[str, Queues]) -> None:
        """Set what brokers offer of a topic, until they say otherwise; unknown brokers are passed over."""
        if topic not in self.topics and len(self.topics) >= MAX_TOPICS:
            raise Busy(f"{MAX_TOPICS} topics are registered, there is no room for more")
        for name, queues in offered.items():
            if name in self.brokers:
                self._put(self.brokers[name], topic, queues)

    def delete_topic(self, topic: str, cluster: str = "") -> None:
        """Forget a topic, in one cluster or in all; a broker that still has it brings it back when it registers."""
        for name in list(self.topics.get(topic, ())):
            broker = self.brokers[name]
            if not cluster or broker.cluster == cluster:
                self._take_out(broker, topic)
                for member in broker.members.values():
                    member.mark, member.lacks_topics = None, True

    def wipe_write(self, name: str) -> int:
        """Take the write permission from all topics of a broker; return how many there are."""
        return self._permit(name, lambda perm: perm & ~PERM_WRITE)

    def add_write(self, name: str) -> int:
        """Give all topics of a broker read and write permission; return how many there are."""
        return self._permit(name, lambda _: PERM_READ | PERM_WRITE)

    def _permit(self, name: str, changed: Callable[[int], int]) -> int:
        broker = self.brokers.get(name)
        if broker is None:
            return 0
        for topic in broker.topics:
            queues = self.topics[topic][name]
            self._put(broker, topic, queues._replace(perm=changed(queues.perm)))
        return len(broker.topics)

    def _put(self, broker: Broker, topic: str, queues: Queues) -> None:
        offered = self.topics.setdefault(topic, {})
        if offered.get(broker.name) != queues:
            offered[broker.name] = queues
            broker.topics.add(topic)
            self._encoded.pop(topic, None)

    def _take_out(self, broker: Broker, topic: str) -> None:
        broker.topics.discard(topic)
        self._encoded.pop(topic, None)
        offered = self.topics[topic]
        del offered[broker.name]
        if not offered:
            del self.topics[topic]

    def _forget_encoded(self, broker: Broker) -> None:
        for topic in broker.topics:
            self._encoded.pop(topic, None)

    # -- questions -------------------------------------------------------------------------------

    def route(self, topic: str) -> bytes | None:
        """Return the route of a topic as JSON, None when no broker has it."""
        encoded = self._encoded.get(topic)
        if encoded is not None or topic not in self.topics:
            return encoded
        offered = sorted(self.topics[topic].items())
        encoded = self._encoded[topic] = dump(
            {
                "brokerDatas": [self.brokers[name].to_json() for name, _ in offered],
                "filterServerTable": {},
                "queueDatas": [
                    {
                        "brokerName": name,
                        "perm": queues.perm,
                        "readQueueNums": queues.read,
                        "topicSysFlag": queues.sys_flag,
                        "writeQueueNums": queues.write,
                    }
                    for name, queues in offered
                ],
            }
        )
        return encoded
