"""What all parts of ``Admin`` build on: name servers, the brokers that they know, and questions to these."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from litemq.client.answers import check, json_object
from litemq.client.net import Net
from litemq.client.routes import Routes, TopicQueue, name_servers
from litemq.errors import InvalidRequest, NoAnswer, Unavailable
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response

TIMEOUT_S: Final = 10.0
_NAMED_S: Final = 2.0
"""Name servers answer at once or are not there: whoever asks learns of it within 3 s."""
_MASTER: Final = 0

_OBJECT_KEY = re.compile(r'(\{(?:"(?:[^"\\]|\\.)*"|[^{}"])*\})\s*:')
"""A flat object in the place of a key: how fastjson writes a map from message queues."""


@dataclass(frozen=True, slots=True)
class Server:
    """One broker process: number 0 is the master of its name."""

    name: str
    number: int
    address: str
    cluster: str


class ClusterCore:
    """Asks name servers and brokers."""

    def __init__(self, net: Net, nameservers: str | Sequence[str] | None, *, timeout: float = TIMEOUT_S) -> None:
        if not timeout > 0:
            raise InvalidRequest(f"timeout is {timeout!r}, it must be seconds above 0")
        self._net = net
        self._servers = name_servers(nameservers)
        self._routes = Routes(net, self._servers, timeout=min(timeout, _NAMED_S))
        self._timeout = timeout

    async def close(self) -> None:
        """Close the connections; nothing can be asked any more.

        >>> admin = litemq.Admin()
        >>> admin.close()
        """
        await self._net.close()

    # -- asking ----------------------------------------------------------------------------------

    async def _ask(
        self,
        address: str,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Response:
        """Ask a broker and return what it says, whatever it is."""
        request = Request(code, dict(ext or {}), body)
        try:
            return await self._net.call(address, request, self._timeout if timeout is None else timeout)
        except NoAnswer as error:
            raise NoAnswer(
                f"{error}; the name server says that a broker is there: see whether it runs, and whether its "
                "broker.advertise is right: litemq cluster health"
            ) from error

    async def _have(self, address: str, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"") -> Response:
        """Ask a broker that must do what is asked.

        Raises:
            LiteMQError: it does not.
        """
        return check(await self._ask(address, code, ext, body), address)

    async def _cluster(self) -> list[Server]:
        """Return every broker that the name servers know, by name."""
        answer = check(await self._routes.ask(Ask.GET_BROKER_CLUSTER_INFO), "the name server")
        found = json_object(answer).get("brokerAddrTable") or {}
        return [
            Server(name, int(number), address, str(broker.get("cluster") or ""))
            for name, broker in sorted(found.items())
            for number, address in sorted(broker["brokerAddrs"].items(), key=lambda pair: int(pair[0]))
        ]

    async def _masters(self) -> dict[str, str]:
        """Return broker name → address of every master.

        Raises:
            Unavailable: there is none.
        """
        found = {server.name: server.address for server in await self._cluster() if server.number == _MASTER}
        if not found:
            raise Unavailable(
                f"no broker has registered with the name server {self._servers[0]}; "
                f"start one with: litemq broker --nameserver {self._servers[0]}"
            )
        return found

    async def _server(self, broker: str) -> Server:
        """Return the broker of a name or address."""
        known = await self._cluster()
        for server in known:
            if broker in (server.name, server.address):  # a master comes before its replicas
                return server
        there = ", ".join(f"{server.name} ({server.address})" for server in known) or "none"
        raise InvalidRequest(f"there is no broker {broker!r}; there are: {there}")


# -- what answers hold ---------------------------------------------------------------------------


def found_or_none(answer: Response, address: str, *missing: int) -> Response | None:
    """Return an answer that grants what was asked, None when it says by one of these codes that nothing is there."""
    return None if answer.code in (missing or (Code.TOPIC_NOT_EXIST,)) else check(answer, address)


def load_with_queues(answer: Response) -> dict[str, Any]:
    """Return the JSON object in an answer in which some maps have message queues as keys, which are texts then."""
    text = answer.body.decode("utf-8", "replace")
    quoted = _OBJECT_KEY.sub(lambda found: json.dumps(found[1]) + ":", text)
    return json_object(Response(body=quoted.encode()))


def queue_pairs(table: object) -> Iterator[tuple[TopicQueue, Any]]:
    """Yield the pairs of such a map."""
    for key, value in (table if isinstance(table, dict) else {}).items():
        queue = json.loads(key)
        yield TopicQueue(queue["topic"], queue["brokerName"], int(queue["queueId"])), value


# -- times ---------------------------------------------------------------------------------------


def time_ms(time: datetime | int, what: str) -> int:
    """Return a point in time in ms since the epoch."""
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise InvalidRequest(f"{what} {time} has no time zone; give an aware datetime: datetime.now(UTC)")
        return int(time.timestamp() * 1000)
    if type(time) is not int or time < 0:
        raise InvalidRequest(f"{what} must be an aware datetime or ms since the epoch, not {time!r}")
    return time


def moment(ms: int) -> datetime | None:
    """Return the time that a server tells in ms; None for what it does not know."""
    return datetime.fromtimestamp(ms / 1000, UTC) if ms > 0 else None


def moment_ms(time: datetime | None) -> int | None:
    """Return a time as JSON has it: in ms since the epoch."""
    return None if time is None else round(time.timestamp() * 1000)
