"""Which queues a consumer reads, for clients that leave the choice to the broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from litemq.broker.groups import Groups
from litemq.broker.members import Clients
from litemq.broker.registration import Registration
from litemq.broker.system_topics import PERM_READ, RETRY_PREFIX
from litemq.broker.topics import Topics
from litemq.errors import BadBody, BadField, NoAnswer
from litemq.features.rebalance import STRATEGIES
from litemq.wire.remoting import bodies
from litemq.wire.remoting.codes import Ask, Code

Queue = tuple[str, str, int]
"""Topic, broker, queue id: the order in which queues are dealt."""

PULL, POP = "PULL", "POP"
ANY_QUEUE = -1
"""As a queue id of a group that pops: all queues of that broker."""

REQUEST_MODES = "litemqRequestModes"
"""Member of a group's settings: topic → [mode, with how many other members a member shares its queues]."""

_MAX_MODES = 1_000
_MAX_SHARE = 100_000


class Assignment:
    """Deals the queues of a topic, those on all brokers, to the members of a group."""

    def __init__(
        self, broker: str, topics: Topics, groups: Groups, clients: Clients, registration: Registration
    ) -> None:
        self._broker = broker
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._registration = registration

    def mode(self, group: str, topic: str) -> tuple[str, int]:
        """Return how a group's members that leave it to the broker consume a topic, and how many share their queues."""
        found = self._groups.find(group)
        modes = found.config.get(REQUEST_MODES) if found is not None else None
        told = modes.get(topic) if isinstance(modes, dict) else None
        if isinstance(told, list) and len(told) == 2 and told[0] == POP and isinstance(told[1], int):
            return POP, told[1]
        return PULL, 0

    def set_mode(self, group: str, topic: str, mode: str, share: int) -> None:
        """Set how a group consumes a topic; the group is made when it is not there."""
        if mode not in (PULL, POP):
            raise BadField(f"the mode is {mode[:40]!r}, it must be {PULL} or {POP}")
        if topic.startswith(RETRY_PREFIX):
            raise BadField(f"{topic!r} is a retry topic: it is pulled")
        if not -1 <= share <= _MAX_SHARE:
            raise BadField(f"popShareQueueNum is {share}, it must be -1 to {_MAX_SHARE}")
        modes = self._groups.for_consumer(group).config.get(REQUEST_MODES)
        known = dict(modes) if isinstance(modes, dict) else {}
        if mode == PULL:
            known.pop(topic, None)
        else:
            known[topic] = [mode, share]
        if len(known) > _MAX_MODES:
            raise BadField(f"group {group!r} has a mode for {_MAX_MODES} topics already")
        self._groups.put(group, {REQUEST_MODES: known})

    async def queues_for(self, group: str, topic: str, client_id: str, *, strategy: str, model: str) -> list[Queue]:
        """Return the queues that a member reads; of a broadcast group all of them.

        A group that pops gets ``ANY_QUEUE`` of each broker, or where few members share a queue, those queues.

        Raises:
            UnknownTopic: neither a name server nor this broker knows the topic.
        """
        queues = await self._queues_of(topic)
        if model == "BROADCASTING":
            return queues
        deal = STRATEGIES.get(strategy)
        if deal is None:
            raise BadField(f"the strategy {strategy!r} is not known; there are {', '.join(STRATEGIES)}")
        members = self._clients.membership.client_ids(group)
        mode, share = self.mode(group, topic)
        if mode == POP:
            return _shared(deal, queues, members, client_id, share)
        dealt = deal(queues, members, client_id)
        return [queue for queue in queues if queue in dealt]

    async def _queues_of(self, topic: str) -> list[Queue]:
        try:
            answer = await self._registration.ask(Ask.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
            if answer.code == Code.SUCCESS:
                return sorted(_queues(topic, bodies.load(answer.body, "a route")))
        except (NoAnswer, BadBody):
            pass  # what is here can be dealt all the same
        count = self._topics.known(topic).read_queues
        return [(topic, self._broker, queue_id) for queue_id in range(count)]


def _shared(
    deal: Callable[[Sequence[Queue], Sequence[str], str], Sequence[object]],
    queues: list[Queue],
    members: Sequence[str],
    client_id: str,
    share: int,
) -> list[Queue]:
    """Return what a member pops from: its own queues and those of the ``share`` members behind it."""
    if client_id not in members:
        return []
    if share <= 0 or share >= len(members) - 1:
        return [(topic, broker, ANY_QUEUE) for topic, broker in sorted({queue[:2] for queue in queues})]
    at = list(members).index(client_id)
    chosen = [members[(at + step) % len(members)] for step in range(share + 1)]
    dealt = {queue for member in chosen for queue in deal(queues, members, member)}
    return [queue for queue in queues if queue in dealt] or [queues[at % len(queues)]] if queues else []


def _queues(topic: str, route: dict[str, object]) -> list[Queue]:
    found: list[Queue] = []
    listed = route.get("queueDatas")
    for item in listed if isinstance(listed, list) else ():
        name, count, perm = item.get("brokerName"), item.get("readQueueNums"), item.get("perm")
        if isinstance(name, str) and isinstance(count, int) and isinstance(perm, int) and perm & PERM_READ:
            found += [(topic, name, queue_id) for queue_id in range(count)]
    return found
