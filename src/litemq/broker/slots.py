"""Which broker decides about the batch transactions of which producers.

A producer id has one of 1024 slots, by Java's hash; which broker has a slot is a table that is written once, as a
change in the log of every broker that was told it, and never moves by itself: a broker that joins later gets no slots.
Clients spread the table (``client/coordinators``); a broker that has one keeps it, and refuses decisions about
producers of another one, so that two brokers never decide about the same transaction.
"""

from __future__ import annotations

from litemq.errors import BadField, NotCoordinator, Unavailable
from litemq.features.slots import Table, slot_of
from litemq.store.changes import Change
from litemq.store.message_store import MessageStore


class Slots:
    """The table, as this broker knows it."""

    def __init__(self, store: MessageStore, cluster: str, name: str) -> None:
        self._store = store
        self._cluster = cluster
        self._name = name

    @property
    def table(self) -> Table | None:
        """Return the table; None before one was written."""
        found = self._store.tables.slots.get(self._cluster)
        return None if found is None else Table.from_json(found)

    def offer(self, table: Table) -> Table:
        """Keep a table unless there is one; return the one that holds."""
        known = self.table
        if known is not None:
            return known
        self._store.apply(Change("slots", self._cluster, table.to_json()))
        return table

    def check(self, producer_id: str) -> None:
        """Refuse to decide about a producer that is another broker's.

        Raises:
            NotCoordinator: says whose it is.
            Unavailable: there is no table yet.
        """
        table = self.table
        if table is None:
            raise Unavailable("this broker has no table of slots yet (request 31024): it decides about no producer")
        broker = table.broker_of(producer_id)
        if broker != self._name:
            raise NotCoordinator(
                f"broker {broker!r} decides about producer {producer_id!r} (slot {slot_of(producer_id)}), "
                f"not {self._name!r}"
            )

    def check_named(self, producer_id: str, coordinator: str) -> None:
        """Refuse rows for a coordinator that would not decide about them, as far as it is known here.

        Raises:
            BadField: another broker decides about the producer.
        """
        table = self.table
        if table is not None and table.broker_of(producer_id) != coordinator:
            raise BadField(
                f"the field coordinator is {coordinator!r}, but broker {table.broker_of(producer_id)!r} decides about "
                f"producer {producer_id!r} (slot {slot_of(producer_id)})"
            )
