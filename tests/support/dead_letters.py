"""Messages that died, at a real broker: made as consumers make them, without one."""

from __future__ import annotations

import json
from collections.abc import Sequence

from litemq.client.answers import check
from litemq.client.lookups import Lookups
from litemq.client.net import BlockingNet
from litemq.client.producer import Producer
from litemq.client.routes import Routes
from litemq.client.running import run
from litemq.client.values import Sent
from litemq.format.message_id import parse_offset_id
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Request, Response


class Death:
    """Sends messages, and says that groups could not handle them."""

    def __init__(self, nameservers: str, address: str) -> None:
        self.net = BlockingNet()
        self.lookups = Lookups(self.net, Routes(self.net, (nameservers,)), 5.0)
        self.producer = Producer(nameservers)
        self._address = address

    def close(self) -> None:
        """Close what it opened."""
        self.producer.close()
        run(self.net.close())

    def ask(self, code: Ask, ext: dict[str, str] | None = None, body: bytes = b"") -> Response:
        """Ask the broker, which must grant it."""
        return check(run(self.net.call(self._address, Request(code, ext or {}, body), 5.0)), self._address)

    def make_group(self, group: str) -> None:
        """Make a consumer group."""
        self.ask(Ask.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=json.dumps({"groupName": group}).encode())

    def send(self, topic: str, bodies: Sequence[bytes]) -> list[Sent]:
        """Send messages, each with its body as key."""
        return [self.producer.send(topic, body, keys=f"k-{body.decode()}") for body in bodies]

    def kill(self, group: str, sent: Sequence[Sent], error: str = "boom", level: int = -1) -> None:
        """Say that a group wants no more of these messages; another ``level`` asks for a retry."""
        for one in sent:
            found = run(self.lookups.by_key(one.topic, one.message_id, is_id=True))
            self.send_back(group, found[0].offset_id, error, level)

    def send_back(self, group: str, offset_id: str, error: str = "boom", level: int = -1) -> None:
        """Say that a group could not handle the message at a place."""
        place = parse_offset_id(offset_id)
        assert place is not None
        ext = {"group": group, "offset": str(place[1]), "delayLevel": str(level), "lmqError": error}
        self.ask(Ask.CONSUMER_SEND_MSG_BACK, ext | {"lmqStack": f"Traceback\n  {error}"})

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Say how far a group has read."""
        ext = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "commitOffset": str(offset)}
        self.ask(Ask.UPDATE_CONSUMER_OFFSET, ext)

    def dead_in(self, topic: str, group: str, bodies: Sequence[bytes], error: str = "boom") -> list[Sent]:
        """Send messages that die at once."""
        self.make_group(group)
        sent = self.send(topic, bodies)
        self.kill(group, sent, error)
        return sent
