"""Batch transactions, as operators see them."""

from __future__ import annotations

from dataclasses import dataclass

from litemq.client.admin_cluster import ClusterCore
from litemq.client.answers import json_object
from litemq.wire.remoting.codes import Ask


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """A batch transaction that is not done, as one broker knows it.

    >>> with litemq.BatchTransactions() as batches:
    ...     staged = batches.stage("nightly-8", 0, 0, 1, [litemq.Message("orders", b"17 apples")])
    >>> with litemq.Admin() as admin:
    ...     [info.rows for info in admin.batch_transactions() if info.producer_id == "nightly-8"]
    [1]
    """

    broker: str
    producer_id: str
    epoch: int
    state: str
    """``open``; ``committed``: rows are on their way to their topics, or a broker has not confirmed the decision."""
    rows: int
    """Staged here, of all attempts."""
    attempts: int
    unpublished: int
    """Winning rows that are not in their topics yet."""
    unconfirmed: tuple[str, ...]
    """Brokers that have not confirmed the decision."""
    coordinator: str
    idle_s: float | None
    """Since the last row came; None when it has ended."""

    def to_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {
            "broker": self.broker,
            "producer_id": self.producer_id,
            "epoch": self.epoch,
            "state": self.state,
            "rows": self.rows,
            "attempts": self.attempts,
            "unpublished": self.unpublished,
            "unconfirmed": list(self.unconfirmed),
            "coordinator": self.coordinator,
            "idle_s": self.idle_s,
        }


class BatchAdmin(ClusterCore):
    """The part of ``Admin`` that is about batch transactions."""

    async def batch_transactions(self) -> list[BatchInfo]:
        """Return the batch transactions that are open or on their way to their topics, on every broker.

        >>> with litemq.Admin() as admin:
        ...     open_ones = [info for info in admin.batch_transactions() if info.state == "open"]
        """
        answer = []
        for broker, address in sorted((await self._masters()).items()):
            found = json_object(await self._have(address, Ask.LITEMQ_LIST_BATCHES))
            for one in found.get("transactions", ()):
                idle_ms = one["idle_ms"]
                answer.append(
                    BatchInfo(
                        broker=broker,
                        producer_id=one["producer_id"],
                        epoch=one["epoch"],
                        state=one["state"],
                        rows=one["rows"],
                        attempts=one["attempts"],
                        unpublished=one["unpublished"],
                        unconfirmed=tuple(one["unconfirmed"]),
                        coordinator=one["coordinator"],
                        idle_s=None if idle_ms is None else idle_ms / 1000,
                    )
                )
        return answer
