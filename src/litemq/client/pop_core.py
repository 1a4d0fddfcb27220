"""The core of consumers with receipts: takes messages where they are, and gives receipts back.

It waits by its ``Net`` alone, so that it runs on an event loop and on the caller's thread.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from litemq.client import pop_requests
from litemq.client._message_cy import Message
from litemq.client.net import Net
from litemq.client.pop_requests import MOST, Pop, by_broker
from litemq.client.receipts import POP_CK, Receipt, parse_receipt
from litemq.client.routes import Routes
from litemq.errors import (
    InvalidRequest,
    LiteMQError,
    NoAnswer,
    OutcomeUnknown,
    StaleReceipt,
    Unavailable,
    UnknownGroup,
    UnknownTopic,
)

TOLD_S: Final = 5.0
"""So long an acknowledgement is tried."""
_TRY_S: Final = 2.0
"""… and so long one try may take."""
_MOST_RENEWED: Final = 100_000
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 0.5

R = TypeVar("R")


class Place(NamedTuple):
    """A topic on a broker; the broker chooses among its queues."""

    pop: Pop
    broker: str
    address: str


class Shared:
    """What a consumer knows whatever its connections are; safe to use from threads.

    A message keeps the receipt that it came with; those that came in its place are here.
    """

    def __init__(self) -> None:
        self.turn = 0
        """Which place is asked first."""
        self._by_first: OrderedDict[str, Receipt] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, first: str) -> Receipt | None:
        """Return what counts in place of a receipt."""
        return self._by_first.get(first) if self._by_first else None

    def put(self, first: str, receipt: Receipt) -> None:
        """Note what counts from now on; of very many, the oldest are forgotten."""
        with self._lock:
            self._by_first[first] = receipt
            self._by_first.move_to_end(first)
            if len(self._by_first) > _MOST_RENEWED:
                self._by_first.popitem(last=False)

    def drop(self, messages: Sequence[Message]) -> None:
        """Forget what messages had."""
        if self._by_first:
            with self._lock:
                for message in messages:
                    self._by_first.pop(message.raw_properties[POP_CK], None)


class PopCore:
    """Takes messages of a group, and gives receipts back, over one kind of connections."""

    def __init__(
        self, net: Net, servers: Sequence[str], pops: Sequence[Pop], shared: Shared, on_unknown: Callable[[str], None]
    ) -> None:
        """``on_unknown`` is told of a topic that no broker has."""
        self.net = net
        self.routes = Routes(net, servers)
        self._pops = pops
        self._group = pops[0].group
        self._shared = shared
        self._on_unknown = on_unknown
        self._addresses: dict[str, str] = {}

    async def places(self) -> list[Place]:
        """Return topics with brokers, those that had their turn last at the end."""
        found: list[Place] = []
        for pop in self._pops:
            try:
                route = self.routes.fresh(pop.topic) or await self.routes.find(pop.topic)
            except UnknownTopic:
                self._on_unknown(pop.topic)
                continue
            self._addresses.update(route.addresses)
            brokers = dict.fromkeys([queue.broker for queue in route.readable])
            found += [Place(pop, name, route.addresses[name]) for name in brokers if name in route.addresses]
        at = self._shared.turn % len(found) if found else 0
        return found[at:] + found[:at] if at else found

    async def sweep(
        self, places: Sequence[Place], count: int, invisible_ms: int, wait_ms: int
    ) -> tuple[list[Message], LiteMQError | None]:
        """Take what is there, from the first place that has something; a single place is waited for.

        Return the messages, and what went wrong where none of the places answered.
        """
        found: list[Message] = []
        failed: LiteMQError | None = None
        answered = 0
        for place in places:
            self._shared.turn += 1
            try:
                while len(found) < count:
                    wanted = min(count - len(found), MOST)
                    more = await self.take(place, wanted, invisible_ms, 0 if found or len(places) > 1 else wait_ms)
                    found += more
                    if len(more) < wanted:
                        break
                answered += 1
            except (UnknownTopic, UnknownGroup, Unavailable) as error:
                failed = error
                self.routes.forget(place.pop.topic)
            if found:
                return found, None
        return [], None if answered else failed

    async def take(self, place: Place, count: int, invisible_ms: int, wait_ms: int) -> list[Message]:
        """Take messages from one place."""
        return await place.pop.take(
            self.net, place.address, place.broker, count=count, invisible_ms=invisible_ms, wait_ms=wait_ms
        )

    # -- receipts ----------------------------------------------------------------------------------

    def receipt(self, message: Message) -> Receipt:
        """Return the receipt that counts for a message now.

        Raises:
            InvalidRequest: it has none of this group.
        """
        given: object = message
        if not isinstance(given, Message):
            raise InvalidRequest(f"{given!r} is no message; give one that receive() returned")
        pairs = message.pairs
        text = pairs.get(POP_CK) if pairs is not None else message.raw_properties.get(POP_CK)
        found: Receipt | None = None
        if text is not None and message.group == self._group:
            found = self._shared.find(text)
            if found is None:
                found = text if isinstance(text, Receipt) else parse_receipt(text, message.topic, self._group)
        if found is None:
            raise InvalidRequest(
                f"{message!r} was not received by a consumer of group {self._group!r} with receipts; "
                "give one that receive() returned"
            )
        return found

    async def ack(self, messages: Sequence[Message]) -> None:
        """Say that messages are done, those of a broker in one request."""
        receipts = [self.receipt(message) for message in messages]
        failed: LiteMQError | None = None
        for broker, own in by_broker(receipts).items():
            batch = [one for one in own if one.is_plain]
            if len(batch) > 1:
                failed = await self._ack_batch(broker, batch) or failed
                own = [one for one in own if not one.is_plain]
            for one in own:
                failed = await self._ack(broker, one) or failed
        if failed is not None:
            raise failed
        self._shared.drop(messages)

    async def _ack(self, broker: str, receipt: Receipt) -> LiteMQError | None:
        return await self._ack_by(broker, receipt, lambda to, left: pop_requests.ack(self.net, to, receipt, left))

    async def _ack_batch(self, broker: str, receipts: list[Receipt]) -> LiteMQError | None:
        return await self._ack_by(
            broker, receipts[0], lambda to, left: pop_requests.ack_batch(self.net, to, broker, receipts, left)
        )

    async def _ack_by(
        self, broker: str, receipt: Receipt, ask: Callable[[str, float], Awaitable[None]]
    ) -> LiteMQError | None:
        try:
            await self._tell(broker, receipt.delivery.topic, ask)
        except LiteMQError as error:
            if isinstance(error, StaleReceipt) and error.__cause__ is not None:
                return None  # it was taken the first time, only the answer was lost
            return error
        return None

    async def change_invisible(self, message: Message, invisible_ms: int) -> None:
        """Have a message come again so much later from now on."""
        receipt = self.receipt(message)
        renewed = await self._tell(
            receipt.delivery.broker,
            receipt.delivery.topic,
            lambda to, left: pop_requests.change_invisible(self.net, to, receipt, invisible_ms, left),
        )
        self._shared.put(message.raw_properties[POP_CK], renewed)

    async def _tell(self, broker: str, topic: str, ask: Callable[[str, float], Awaitable[R]]) -> R:
        """Tell a broker something that may be told twice, until it has heard."""
        end = self.net.now() + TOLD_S
        pause = _FIRST_PAUSE_S
        unknown: OutcomeUnknown | None = None
        while True:
            try:
                address = self._addresses.get(broker)
                if address is None:
                    await self.places()
                    address = self._addresses.get(broker)
                if address is None:
                    raise NoAnswer(f"no address of {broker} is known")
                return await ask(address, min(max(end - self.net.now(), 0.01), _TRY_S))
            except StaleReceipt as error:
                if unknown is None:
                    raise
                raise error from unknown
            except Unavailable as error:
                unknown = error if isinstance(error, OutcomeUnknown) else unknown
                self.routes.forget(topic)
                self._addresses.pop(broker, None)
                if self.net.now() + pause >= end:
                    raise
            await self.net.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)
