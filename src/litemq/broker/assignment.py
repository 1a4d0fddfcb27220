"""Which queues a consumer reads, for clients that leave the choice to the broker."""

from __future__ import annotations

from litemq.broker.members import Clients
from litemq.broker.registration import Registration
from litemq.broker.system_topics import PERM_READ
from litemq.broker.topics import Topics
from litemq.errors import BadBody, BadField, NoAnswer
from litemq.features.rebalance import STRATEGIES
from litemq.wire.remoting import bodies
from litemq.wire.remoting.codes import Ask, Code

Queue = tuple[str, str, int]
"""Topic, broker, queue id: the order in which queues are dealt."""


class Assignment:
    """Deals the queues of a topic, those on all brokers, to the members of a group."""

    def __init__(self, broker: str, topics: Topics, clients: Clients, registration: Registration) -> None:
        self._broker = broker
        self._topics = topics
        self._clients = clients
        self._registration = registration

    async def queues_for(self, group: str, topic: str, client_id: str, *, strategy: str, model: str) -> list[Queue]:
        """Return the queues that a member reads; of a broadcast group all of them.

        Raises:
            UnknownTopic: neither a name server nor this broker knows the topic.
        """
        queues = await self._queues_of(topic)
        if model == "BROADCASTING":
            return queues
        deal = STRATEGIES.get(strategy)
        if deal is None:
            raise BadField(f"the strategy {strategy!r} is not known; there are {', '.join(STRATEGIES)}")
        dealt = deal(queues, self._clients.membership.client_ids(group), client_id)
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


def _queues(topic: str, route: dict[str, object]) -> list[Queue]:
    found: list[Queue] = []
    listed = route.get("queueDatas")
    for item in listed if isinstance(listed, list) else ():
        name, count, perm = item.get("brokerName"), item.get("readQueueNums"), item.get("perm")
        if isinstance(name, str) and isinstance(count, int) and isinstance(perm, int) and perm & PERM_READ:
            found += [(topic, name, queue_id) for queue_id in range(count)]
    return found
