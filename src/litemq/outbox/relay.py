"""``OutboxRelay``: publishes the rows of an outbox in their commit order.

read a batch in commit order → publish, one request after the other → delete what was answered

    crash or outage …              leaves                              and then
    before the request             the rows                            publishes them
    between request and answer     the rows, perhaps published         looks for them in the log by their ids
    between answer and delete      the rows, and they are published    finds them in the log, and deletes them

A later request never leaves before the answer to an earlier one: nothing is passed over, and what one request may have
stored is a beginning of it.  So the first row that is not in the log ends the looking.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from types import TracebackType
from typing import Final, Self

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from litemq.client.admin import Admin
from litemq.client.hooks import Hooks
from litemq.client.producer import Producer
from litemq.client.sending import Compression
from litemq.client.values import check_count, seconds
from litemq.errors import Closed, InvalidRequest, LiteMQError, StorageError
from litemq.outbox.databases import Turn, order_of, take_turn
from litemq.outbox.rows import Row, message_of, runs_of
from litemq.outbox.table import TABLE, Outbox

logger = logging.getLogger(__name__)

_PASS_BYTES: Final = 16 << 20
_DELETED_AT_ONCE: Final = 1_000
"""Databases bound the values of a statement."""
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class OutboxCounters:
    """What a relay has done since it was made."""

    published: int = 0
    """Rows that a broker has acknowledged, or that were found in its log."""
    found: int = 0
    """Of these, rows that were found in the log: somebody had published them and could not delete them."""
    requests: int = 0
    failures: int = 0
    """Passes of ``run`` that a broker or the database ended."""


class OutboxRelay:
    """Publishes the rows of an outbox, in their commit order; of several relays of a table one works, others stand by.

    Used by one thread; ``stop`` may be called by any, and by a signal handler.

    >>> import sqlalchemy, tempfile, litemq.outbox
    >>> folder = tempfile.TemporaryDirectory()
    >>> engine = sqlalchemy.create_engine(f"sqlite:///{folder.name}/shop.db")
    >>> outbox = litemq.outbox.Outbox(engine)
    >>> outbox.create()
    >>> with engine.begin() as connection:
    ...     ids = [outbox.add(connection, "orders", b"%d apples" % count) for count in range(3)]
    >>> with litemq.outbox.OutboxRelay(engine) as relay:
    ...     published = relay.run_once()
    >>> published, relay.counters.published
    (3, 3)
    >>> engine.dispose()
    >>> folder.cleanup()

    Args:
        engine: of the database that the outbox is in.
        nameservers: ``host:port``, several as a list or with semicolons; default ``LITEMQ_NAMESERVER``, else
            ``127.0.0.1:9876``.
        table: the outbox, or the name of its table.
        group: name by which operators see the relay's producer.
        batch: rows that are read at once.
        poll: seconds between looks at a table that was empty, or whose relay is another one.
        timeout: seconds in which a request must be answered.
        compression: as for ``Producer``; rows that travel together are not compressed.
        hooks: as for ``Producer``.

    Raises:
        InvalidRequest: an argument is wrong.
        NotSupported: the database is neither SQLite nor PostgreSQL.
    """

    def __init__(
        self,
        engine: sa.Engine,
        nameservers: str | Sequence[str] | None = None,
        *,
        table: Outbox | str = TABLE,
        group: str = "litemq-outbox",
        batch: int = 500,
        poll: float | timedelta = 0.2,
        timeout: float | timedelta = 10.0,
        compression: Compression | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        if not isinstance(engine, sa.Engine):
            raise InvalidRequest(f"a relay needs a sqlalchemy.Engine with a blocking driver, not {engine!r}")
        self._engine = engine
        self._table = (table if isinstance(table, Outbox) else Outbox(table=table)).table
        self._order = order_of(self._table, engine.dialect)
        check_count("batch", batch)
        self._batch = batch
        self._poll = seconds(poll)
        if not self._poll > 0:
            raise InvalidRequest(f"poll is {poll}, it must be above 0 seconds")
        # What may be stored is looked for before it is sent again, hence no retries.
        self._producer = Producer(
            nameservers, group=group, timeout=timeout, retries=0, compression=compression, hooks=hooks
        )
        self._admin = Admin(nameservers, timeout=seconds(timeout))
        self._turn: Turn | None = None
        self._is_in_doubt = True
        """Rows may be in the log already."""
        self._is_closed = False
        self._stopping = threading.Event()
        self._counters = OutboxCounters()

    @property
    def counters(self) -> OutboxCounters:
        """What it has done so far."""
        return self._counters

    @property
    def is_active(self) -> bool:
        """Whether it is the one relay of its table: it became so by a pass, and ends with ``close`` or an error."""
        return self._turn is not None

    # -- running ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Publish until ``stop``; outages of brokers and of the database are waited for, with growing pauses.

        A row that a broker refuses for good holds up those behind it, since they must not pass it; the log says so
        until it can be published, or is taken out (``Outbox.discard``).  With asyncio:
        ``await asyncio.to_thread(relay.run)``.

        >>> import sqlalchemy, tempfile, threading, litemq.outbox
        >>> folder = tempfile.TemporaryDirectory()
        >>> engine = sqlalchemy.create_engine(f"sqlite:///{folder.name}/shop.db")
        >>> litemq.outbox.Outbox(engine).create()
        >>> with litemq.outbox.OutboxRelay(engine) as relay:
        ...     thread = threading.Thread(target=relay.run)
        ...     thread.start()
        ...     relay.stop()
        ...     thread.join()
        >>> engine.dispose()
        >>> folder.cleanup()
        """
        pause, trouble = _FIRST_PAUSE_S, ""
        while not self._stopping.is_set():
            try:
                published = self.run_once()
            except (LiteMQError, SQLAlchemyError, OSError) as error:
                if isinstance(error, Closed):
                    raise
                self._counters = replace(self._counters, failures=self._counters.failures + 1)
                reason = str(getattr(error, "orig", None) or error)  # SQLAlchemy adds the whole statement
                if reason != trouble:  # the same is not told again with each try
                    trouble = reason
                    logger.warning("outbox waits: table=%s reason=%s", self._table.name, reason)
                self._stopping.wait(random.uniform(pause / 2, pause))
                pause = min(pause * 2, _LONGEST_PAUSE_S)
                continue
            if trouble:
                logger.info("outbox goes on: table=%s", self._table.name)
            pause, trouble = _FIRST_PAUSE_S, ""
            if not published:
                self._stopping.wait(self._poll)

    def stop(self) -> None:
        """Let ``run`` return, after the request that is under way.

        >>> import sqlalchemy, litemq.outbox
        >>> with litemq.outbox.OutboxRelay(sqlalchemy.create_engine("sqlite://")) as relay:
        ...     relay.stop()
        ...     relay.run()
        """
        self._stopping.set()

    def run_once(self) -> int:
        """Publish one batch; return how many rows left the table: 0 when it is empty, or another relay is active.

        >>> import sqlalchemy, tempfile, litemq.outbox
        >>> folder = tempfile.TemporaryDirectory()
        >>> engine = sqlalchemy.create_engine(f"sqlite:///{folder.name}/shop.db")
        >>> litemq.outbox.Outbox(engine).create()
        >>> with litemq.outbox.OutboxRelay(engine) as relay:
        ...     relay.run_once()
        0
        >>> engine.dispose()
        >>> folder.cleanup()

        Raises:
            OutcomeUnknown: rows may be published; the next pass looks.
            LiteMQError: a broker is not there, or refuses a row: this one and those behind it are still there.
            sqlalchemy.exc.SQLAlchemyError: the database failed; the next pass goes on where it can.
        """
        if self._is_closed:
            raise Closed("the relay is closed; make a new one")
        if self._turn is None:
            self._turn = take_turn(self._engine, self._table)
            if self._turn is None:
                return 0
            self._is_in_doubt = True
            logger.info("outbox relay is active: table=%s", self._table.name)
        try:
            return self._pass(self._turn.connection)
        except SQLAlchemyError:
            self._end_turn()  # the lock may be gone with the connection
            raise

    def _pass(self, connection: sa.Connection) -> int:
        rows = self._read(connection)
        done: list[Row] = []
        was_in_doubt, self._is_in_doubt = self._is_in_doubt, True
        try:
            if was_in_doubt:
                done += self._found_in_log(rows)
            self._publish(rows[len(done) :], done)
        finally:
            if done:
                self._delete(connection, done)
        self._is_in_doubt = False
        return len(done)

    def _read(self, connection: sa.Connection) -> list[Row]:
        """Return the next rows in commit order, as many as the memory of a pass may hold."""
        table, order = self._table, self._order
        sizes = sa.select(order, sa.func.length(table.c.body)).where(order.is_not(None)).order_by(order)
        columns = [table.c.id, *(table.c[name] for name in Row._fields[1:])]
        with connection.begin():
            room, last = _PASS_BYTES, None
            for last, size in connection.execute(sizes.limit(self._batch)):  # noqa: B007 - the last one is wanted
                room -= size
                if room <= 0:
                    break
            if last is None:
                self._check_order(connection)
                return []
            # Nothing has come between: whoever commits later stands behind all that is seen.
            wanted = sa.select(*columns).where(order <= last).order_by(order).limit(self._batch)
            return [Row(*one) for one in connection.execute(wanted)]

    def _check_order(self, connection: sa.Connection) -> None:
        """Raise when there are rows that never get a place: who inserted them was not seen by the trigger."""
        lost = connection.execute(sa.select(self._table.c.outbox_id).where(self._order.is_(None)).limit(1)).first()
        if lost is not None:
            raise StorageError(
                f"row {lost[0]} of {self._table.name} has no commit_order, so that it cannot be published: the trigger "
                "litemq_commit_order is missing or was disabled; make it with Outbox(…).create(engine)"
            )

    def _found_in_log(self, rows: list[Row]) -> list[Row]:
        """Return the rows from the first on that are published."""
        found: list[Row] = []
        for row in rows:
            try:
                if not self._admin.query(row.topic, key=row.outbox_id, max_messages=1):
                    break
            except InvalidRequest:  # no such topic, or none that could be: nobody has published the row
                break
            found.append(row)
        if found:
            logger.info("outbox rows were published already: table=%s count=%d", self._table.name, len(found))
            self._counters = replace(self._counters, found=self._counters.found + len(found))
        return found

    def _publish(self, rows: list[Row], done: list[Row]) -> None:
        """Publish rows one request after the other; ``done`` gets those that were answered."""
        for run in runs_of(rows):
            self._send(run, done)
            if self._stopping.is_set():
                break

    def _send(self, run: list[Row], done: list[Row]) -> None:
        try:
            self._producer.send_batch([message_of(row) for row in run])
        except InvalidRequest as error:  # nothing was stored
            if len(run) > 1:  # those before the one that is refused can go, and it is the one to be named
                middle = len(run) // 2
                self._send(run[:middle], done)
                self._send(run[middle:], done)
                return
            logger.error(
                "outbox row is refused, those behind it wait: table=%s outbox_id=%s topic=%s reason=%s",
                *(self._table.name, run[0].outbox_id, run[0].topic, error),
            )
            raise
        done += run
        self._counters = replace(self._counters, requests=self._counters.requests + 1)

    def _delete(self, connection: sa.Connection, done: list[Row]) -> None:
        with connection.begin():
            for first in range(0, len(done), _DELETED_AT_ONCE):
                places = [row.place for row in done[first : first + _DELETED_AT_ONCE]]
                connection.execute(self._table.delete().where(self._table.c.id.in_(places)))
        self._counters = replace(self._counters, published=self._counters.published + len(done))

    # -- ending ----------------------------------------------------------------------------------

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.end()
            logger.info("outbox relay is not active any more: table=%s", self._table.name)

    def close(self) -> None:
        """Let another relay be the one, and close the connections; not while ``run`` runs on another thread.

        >>> import sqlalchemy, litemq.outbox
        >>> litemq.outbox.OutboxRelay(sqlalchemy.create_engine("sqlite://")).close()
        """
        self._is_closed = True
        self.stop()
        self._end_turn()
        self._producer.close()
        self._admin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
