"""What commands ask name servers and brokers, over the remoting protocol; RocketMQ's answer as well."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from litemq.errors import InvalidRequest, NoAnswer, UnknownTopic
from litemq.wire.remoting.client import Client
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Response

_TIMEOUT_S = 10.0
_ROUTE_S = 5.0
"""Brokers tell name servers of a change before they answer; this is for those that do not."""


@dataclass(frozen=True, slots=True)
class TopicOn:
    """A topic as one broker has it."""

    read: int
    write: int
    perm: int = 6
    is_ordered: bool = False
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0


class Cluster:
    """Name servers and the brokers that they know."""

    def __init__(self, name_servers: str) -> None:
        self._name_servers = [address.strip() for address in name_servers.replace(",", ";").split(";")]
        for address in self._name_servers:
            host, _, port = address.rpartition(":")
            if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
                raise InvalidRequest(f"the name server {address!r} must be HOST:PORT")
        self._clients: dict[str, Client] = {}

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients.values():
            client.close()
        await asyncio.sleep(0)  # the connections close in the loop's next round

    async def ask(self, address: str, code: int, ext: dict[str, str] | None = None) -> Response:
        """Ask a server and return what it says, whatever it is.

        Raises:
            NoAnswer: it cannot be reached, or did not answer in time.
        """
        client = self._clients.get(address)
        if client is None:
            client = self._clients[address] = Client(address)
        return await client.call(code, ext or {}, timeout_s=_TIMEOUT_S)

    async def have(self, address: str, code: int, ext: dict[str, str] | None = None) -> Response:
        """Ask a server that must do what is asked.

        Raises:
            InvalidRequest: it does not; the text is the server's.
        """
        answer = await self.ask(address, code, ext)
        if answer.code == Code.TOPIC_NOT_EXIST:
            raise UnknownTopic(answer.remark or f"{address} knows no such topic")
        if answer.code != Code.SUCCESS:
            raise InvalidRequest(f"{address} refuses: {answer.remark or 'no reason given'} (code {answer.code})")
        return answer

    async def _have_named(self, code: int, ext: dict[str, str] | None = None) -> Response:
        """Ask the first name server that answers."""
        failed: NoAnswer | None = None
        for address in self._name_servers:
            try:
                return await self.have(address, code, ext)
            except NoAnswer as error:
                failed = error
        assert failed is not None
        raise failed

    async def masters(self) -> dict[str, str]:
        """Return broker name → address of every master."""
        found = _object(await self._have_named(Ask.GET_BROKER_CLUSTER_INFO)).get("brokerAddrTable", {})
        masters = {name: broker["brokerAddrs"].get("0") for name, broker in found.items()}
        return {name: address for name, address in sorted(masters.items()) if address}

    async def topic_names(self) -> list[str]:
        """Return every topic of all brokers."""
        return sorted(_object(await self._have_named(Ask.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).get("topicList", []))

    async def system_topics(self, addresses: Iterable[str]) -> set[str]:
        """Return the topics that belong to brokers themselves."""
        found: set[str] = set()
        for address in addresses:
            with suppress(NoAnswer):  # a broker that has just gone
                answer = await self.have(address, Ask.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
                found.update(_object(answer).get("topicList", []))
        return found

    async def route(self, topic: str) -> dict[str, TopicOn]:
        """Return broker name → queues of a topic, as the name servers tell clients; empty when there is none."""
        try:
            read = _object(await self._have_named(Ask.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}))
        except UnknownTopic:
            return {}
        return {
            queues["brokerName"]: TopicOn(queues["readQueueNums"], queues["writeQueueNums"], queues["perm"])
            for queues in read.get("queueDatas", [])
        }

    async def config(self, address: str, topic: str) -> TopicOn | None:
        """Return a topic as a broker has it; None when it has none of this name."""
        try:
            read = _object(await self.have(address, Ask.GET_TOPIC_CONFIG, {"topic": topic}))
        except UnknownTopic:
            return None
        return TopicOn(
            read["readQueueNums"],
            read["writeQueueNums"],
            read.get("perm", 6),
            bool(read.get("order", False)),
            str(read.get("topicFilterType") or "SINGLE_TAG"),
            int(read.get("topicSysFlag", 0)),
        )

    async def put(self, address: str, topic: str, wanted: TopicOn, attributes: str = "") -> None:
        """Make or alter a topic on one broker; attributes that are not named stay."""
        ext = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": str(wanted.read),
            "writeQueueNums": str(wanted.write),
            "perm": str(wanted.perm),
            "topicFilterType": wanted.filter_type,
            "topicSysFlag": str(wanted.sys_flag),
            "order": "true" if wanted.is_ordered else "false",
        }
        if attributes:
            ext["attributes"] = attributes
        await self.have(address, Ask.UPDATE_AND_CREATE_TOPIC, ext)

    async def remove(self, address: str, topic: str) -> None:
        """Delete a topic on one broker."""
        await self.have(address, Ask.DELETE_TOPIC_IN_BROKER, {"topic": topic})

    async def forget(self, topic: str) -> None:
        """Have every name server in reach forget a topic."""
        for address in self._name_servers:
            try:
                await self.have(address, Ask.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})
            except NoAnswer:
                if len(self._name_servers) == 1:
                    raise

    async def check_route(self, topic: str, wanted: dict[str, TopicOn]) -> None:
        """Return when clients are told of a topic as it is wanted.

        Raises:
            NoAnswer: they are not, for a while now.
        """
        until = asyncio.get_running_loop().time() + _ROUTE_S
        counts = {name: (on.read, on.write) for name, on in wanted.items()}
        while {name: (on.read, on.write) for name, on in (await self.route(topic)).items()} != counts:
            if asyncio.get_running_loop().time() > until:
                raise NoAnswer(f"the name server does not tell of topic {topic!r} as it is now; look at its log")
            await asyncio.sleep(0.1)

    # -- progress --------------------------------------------------------------------------------

    async def unread(self, address: str, topic: str, queue_id: int) -> dict[str, int]:
        """Return how many messages of a queue each group has yet to read, of those that have; nobody's stand at "".

        A queue without messages has none.
        """
        place = {"topic": topic, "queueId": str(queue_id)}
        low = int((await self.have(address, Ask.GET_MIN_OFFSET, place)).ext["offset"])
        high = int((await self.have(address, Ask.GET_MAX_OFFSET, place)).ext["offset"])
        if low >= high:
            return {}
        answer = await self.have(address, Ask.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic})
        groups = _object(answer).get("groupList", [])
        found = {} if groups else {"": high - low}
        for group in groups:
            ext = {**place, "consumerGroup": group, "setZeroIfNotFound": "false"}
            told = await self.ask(address, Ask.QUERY_CONSUMER_OFFSET, ext)
            offset = int(told.ext["offset"]) if told.code == Code.SUCCESS else low
            if offset < high:
                found[group] = high - max(offset, low)
        return found

    async def was_used(self, address: str, topic: str, queue_id: int) -> bool:
        """Return whether a queue ever had a message."""
        place = {"topic": topic, "queueId": str(queue_id)}
        return int((await self.have(address, Ask.GET_MAX_OFFSET, place)).ext["offset"]) > 0


def _object(answer: Response) -> dict[str, Any]:
    """Return the JSON object of an answer."""
    try:
        read = json.loads(answer.body)
    except ValueError as error:
        raise InvalidRequest(f"an answer that is no JSON: {error}") from error
    return read if isinstance(read, dict) else {}
