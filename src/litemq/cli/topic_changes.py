"""Making, growing, shrinking and removing topics over brokers.

Growing is done at once.  Shrinking is gentle: producers lose the queues first; consumers lose a queue only when every
group has read it, and not in the same step, because producers use the routes that they have for half a minute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from litemq.cli.cluster import Cluster, TopicOn
from litemq.errors import InvalidRequest, UnknownTopic
from litemq.features.placement import EVEN, place


@dataclass(frozen=True, slots=True)
class Left:
    """A queue that cannot go yet: ``unread`` messages of a group, or of nobody (""); 0: producers may still send."""

    broker: str
    queue: int
    group: str
    unread: int


@dataclass(slots=True)
class Outcome:
    """A topic after a change."""

    topic: str
    brokers: dict[str, TopicOn] = field(default_factory=dict)
    left: list[Left] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {
            "topic": self.topic,
            "brokers": {name: {"read": on.read, "write": on.write} for name, on in self.brokers.items()},
            "left": [
                {"broker": one.broker, "queue": one.queue, "group": one.group, "unread": one.unread}
                for one in self.left
            ],
        }


async def create(
    cluster: Cluster, topic: str, queues: int | None, placement: str, attributes: Mapping[str, str], *, is_ordered: bool
) -> Outcome:
    """Make a topic that is not there yet.

    Raises:
        InvalidRequest: it is there, or the placement cannot be.
    """
    masters = await cluster.masters()
    if await cluster.route(topic):
        raise InvalidRequest(f"topic {topic!r} is there already; change it with: litemq topic alter")
    dealt = place(placement, masters, queues)
    changes = ",".join(f"+{name}={value}" for name, value in attributes.items())
    made = {name: TopicOn(count, count, is_ordered=is_ordered) for name, count in dealt.items()}
    for name, wanted in made.items():
        await cluster.put(masters[name], topic, wanted, changes)
    await cluster.check_route(topic, made)
    return Outcome(topic, made)


async def alter(
    cluster: Cluster, topic: str, queues: int | None, placement: str | None, *, force: bool = False
) -> Outcome:
    """Give a topic another number of queues; without a placement evenly over the brokers that have it."""
    masters = await cluster.masters()
    known = await _known(cluster, masters, topic)
    if placement is None:
        placement, among = EVEN, {name for name in known if known[name].write} or set(known)
    else:
        among = set(masters)
    return await _deal(cluster, masters, topic, known, place(placement, among, queues), force=force)


async def rebalance(cluster: Cluster, topic: str, queues: int | None, *, force: bool = False) -> Outcome:
    """Deal a topic's queues evenly over all masters: those that joined get some."""
    masters = await cluster.masters()
    known = await _known(cluster, masters, topic)
    wanted = sum(on.write for on in known.values()) if queues is None else queues
    return await _deal(cluster, masters, topic, known, place(EVEN, masters, wanted), force=force)


async def delete(cluster: Cluster, topic: str) -> Outcome:
    """Remove a topic with its messages from all brokers."""
    masters = await cluster.masters()
    for name in await _known(cluster, masters, topic):
        await cluster.remove(masters[name], topic)
    await cluster.forget(topic)
    await cluster.check_route(topic, {})
    return Outcome(topic)


async def show(cluster: Cluster, *, everything: bool) -> list[Outcome]:
    """Return the topics; with ``everything`` also brokers' own, retries and dead letters."""
    hidden = set() if everything else await cluster.system_topics((await cluster.masters()).values())
    shown = [
        topic
        for topic in await cluster.topic_names()
        if everything or (topic not in hidden and not topic.startswith(("%RETRY%", "%DLQ%")))
    ]
    return [Outcome(topic, await cluster.route(topic)) for topic in shown]


async def _known(cluster: Cluster, masters: Mapping[str, str], topic: str) -> dict[str, TopicOn]:
    known = {name: await cluster.config(address, topic) for name, address in masters.items()}
    found = {name: on for name, on in known.items() if on is not None}
    if not found:
        raise UnknownTopic(f"there is no topic {topic!r} on any broker")
    return found


async def _deal(
    cluster: Cluster,
    masters: Mapping[str, str],
    topic: str,
    known: Mapping[str, TopicOn],
    dealt: Mapping[str, int],
    *,
    force: bool,
) -> Outcome:
    outcome = Outcome(topic)
    pattern = next(iter(known.values()))
    before = {name: known.get(name) or replace(pattern, read=0, write=0) for name in {*known, *dealt}}
    # Those that get more come first: at no time producers have nowhere to send.
    for name in sorted(before, key=lambda name: (before[name].write - dealt.get(name, 0), name)):
        count, on = dealt.get(name, 0), before[name]
        read = await _read_queues(cluster, masters[name], name, topic, on, count, outcome, force=force)
        if not read:
            await cluster.remove(masters[name], topic)
            continue
        wanted = replace(on, read=read, write=count)
        if wanted != on:
            await cluster.put(masters[name], topic, wanted)
        outcome.brokers[name] = wanted
    await cluster.check_route(topic, outcome.brokers)
    return outcome


async def _read_queues(
    cluster: Cluster, address: str, broker: str, topic: str, on: TopicOn, count: int, outcome: Outcome, *, force: bool
) -> int:
    """Return how many queues consumers keep on a broker that gets ``count`` of them."""
    keep = count
    for queue_id in range(on.read - 1, count - 1, -1):
        if force:
            break
        unread = await cluster.unread(address, topic, queue_id)
        # Producers that know of this queue may send to it for a while after it was taken from them.
        is_open = queue_id < on.write and await cluster.was_used(address, topic, queue_id)
        if unread or is_open:
            keep = max(keep, queue_id + 1)
            found = unread or {"": 0}
            outcome.left += [Left(broker, queue_id, group, number) for group, number in found.items()]
    return keep
