"""Which broker decides about a producer's batch transactions: the table of slots, and where brokers are.

The table is written once.  Whoever needs it asks every broker; those that have one have the same.  Where none has one
it is made over the brokers that are there, and kept by the first of them by name: one broker orders those who make it
at the same time.  Then the others get it, so that it outlives any broker.
"""

from __future__ import annotations

import json

from litemq.client.answers import check, json_object
from litemq.client.net import Net
from litemq.client.routes import Routes
from litemq.errors import InvalidRequest, LiteMQError, NoAnswer, OutcomeUnknown, Unavailable
from litemq.features.slots import Table
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Request

_ANSWER_S = 3.0
_MASTER = "0"


class Coordinators:
    """The table, asked for once, and the brokers' addresses."""

    def __init__(self, net: Net, routes: Routes) -> None:
        self._net = net
        self._routes = routes
        self._table: Table | None = None
        self._addresses: dict[str, str] = {}

    async def of(self, producer_id: str) -> str:
        """Return the name of the broker that decides about a producer.

        Raises:
            Unavailable: no broker can be asked, or not all of them while none has a table.
            InvalidRequest: brokers have different tables.
        """
        if self._table is None:
            self._table = await self._find()
        return self._table.broker_of(producer_id)

    async def address(self, broker: str, *, fresh: bool = False) -> str:
        """Return where a broker is.

        Raises:
            Unavailable: no name server answers, or none knows it.
        """
        if fresh or broker not in self._addresses:
            await self.brokers()
        found = self._addresses.get(broker)
        if found is None:
            raise Unavailable(f"no name server knows the broker {broker!r}; it has to come back: litemq cluster health")
        return found

    async def brokers(self) -> dict[str, str]:
        """Return the address of every master that the name servers know, by name."""
        answer = check(await self._routes.ask(Ask.GET_BROKER_CLUSTER_INFO), "the name server")
        table = json_object(answer).get("brokerAddrTable") or {}
        self._addresses |= {
            name: entry["brokerAddrs"][_MASTER] for name, entry in table.items() if _MASTER in entry["brokerAddrs"]
        }
        return {name: self._addresses[name] for name in sorted(table) if name in self._addresses}

    async def _find(self) -> Table:
        brokers = await self.brokers()
        if not brokers:
            raise Unavailable("no broker has registered with the name server; start one: litemq broker")
        found: dict[str, Table | None] = {}
        silent: LiteMQError | None = None
        for name, address in brokers.items():
            try:
                found[name] = await self._ask(address)
            except (NoAnswer, OutcomeUnknown) as error:
                silent = error
        tables = {name: table for name, table in found.items() if table is not None}
        if not tables and silent is not None:
            raise Unavailable(f"there is no table of coordinators yet, and not every broker answers: {silent}")
        table = next(iter(tables.values())) if tables else Table.over(brokers)
        for name in found:  # by name: the first one's answer is everybody's
            kept = tables.get(name) or await self._ask(brokers[name], table)
            if not tables:
                table, tables = kept or table, {name: kept or table}
            if kept != table:
                raise InvalidRequest(
                    f"the brokers {next(iter(tables))!r} and {name!r} have different tables of coordinators: batch "
                    "transactions are refused until one of them is set up anew"
                )
        return table

    async def _ask(self, address: str, offered: Table | None = None) -> Table | None:
        body = b"" if offered is None else json.dumps(offered.to_json()).encode()
        answer = check(await self._net.call(address, Request(Ask.LITEMQ_SLOTS, {}, body), _ANSWER_S), address)
        told = json_object(answer)
        return Table.from_json(told) if told else None
