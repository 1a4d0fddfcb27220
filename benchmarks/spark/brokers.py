"""A running broker that Spark has filled, and the works that are done with it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import litemq
from litemq.testing import Broker, broker

if TYPE_CHECKING:
    from benchmarks.spark.rows import Bench

_BODY = 256
_QUEUES = 8


class Filled:
    """A broker with a topic to read and one to write."""

    def __init__(self, bench: Bench, server: Broker) -> None:
        self._bench = bench
        self._server = server
        source = bench.folder / "write.parquet"
        columns = ("'target' AS topic", f"cast(repeat('x', {_BODY}) AS binary) AS body", "cast(id AS string) AS keys")
        bench.spark.range(bench.messages).selectExpr(*columns).write.mode("overwrite").parquet(str(source))
        self._source = bench.spark.read.parquet(str(source))
        with litemq.Admin(server.nameservers) as admin:
            for topic in ("source", "target"):
                admin.create_topic(topic, queues=_QUEUES)

    @property
    def pid(self) -> int:
        """Return the broker's process."""
        assert self._server.pid is not None
        return self._server.pid

    def write(self, topic: str = "target") -> None:
        """Write all rows, and return when they are in their topic."""
        options = {"brokers": self._server.nameservers, "topic": topic}
        self._source.write.format("litemq").options(**options).mode("append").save()
        with litemq.Admin(self._server.nameservers) as admin:
            while any(one.unpublished for one in admin.batch_transactions()):
                time.sleep(0.02)

    def read_live(self) -> None:
        """Read all rows from the broker."""
        self._read(brokers=self._server.nameservers)

    def read_files(self) -> None:
        """Read all rows from the broker's files."""
        self._read(path=str(self._server.data))

    def _read(self, **place: str) -> None:
        from benchmarks.spark.rows import into_noop

        into_noop(self._bench.spark.read.format("litemq").options(subscribe="source", **place).load())


@contextmanager
def filled_broker(bench: Bench) -> Iterator[Filled]:
    """Run a broker whose topic ``source`` holds all messages."""
    with broker() as server:
        filled = Filled(bench, server)
        filled.write("source")
        yield filled
