"""What differs between databases: what commit order is, and how one relay at a time is the one.

SQLite has one writer at a time: it gets its ids while it alone may write, so the order of ids is that of commits.  A
lock on a file beside the database, which the system drops when its process dies, makes one relay the one.

PostgreSQL gives ids when rows are written: transaction 5 may commit before transaction 4.  So a row gets its place,
``commit_order``, within the commit: a deferred constraint trigger takes a lock, which PostgreSQL holds until the
transaction is visible, and only then the next number.  Whoever gets a number later became visible later; whoever
sees a number sees all smaller ones, but for those of transactions that were rolled back.  An advisory lock of the
relay's session makes it the one; PostgreSQL drops it with the connection.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from litemq.errors import InvalidRequest, NotSupported

_COMMITTING: Final = 0x6C6D7101
_RELAYING: Final = 0x6C6D7102
"""First halves of advisory locks; the second is the oid of the table."""


@dataclass(frozen=True, slots=True)
class Turn:
    """To be the one relay of a table, until ``end``."""

    connection: sa.Connection
    """The lock may be this connection's: all that a relay does, it does over it."""
    end: Callable[[], None]


def order_of(table: sa.Table, dialect: sa.Dialect) -> sa.Column[int]:
    """Return the column that has rows in commit order; a row without it is not committed, or not in order.

    Raises:
        NotSupported: commit order is not to be had from this database.
    """
    if dialect.name == "sqlite":
        return table.c.id
    if dialect.name == "postgresql":
        return table.c.commit_order
    raise NotSupported(
        f"an outbox can be in SQLite and PostgreSQL, not in {dialect.name!r}: there is no way known to publish its "
        "rows in commit order"
    )


def finish_table(table: sa.Table, connection: sa.Connection) -> None:
    """Make beside the table what keeps commit order; what is there stays."""
    order_of(table, connection.dialect)
    if connection.dialect.name == "postgresql":
        name = connection.dialect.identifier_preparer.format_table(table)
        schema = connection.execute(_SCHEMA_OF, {"name": name}).scalar_one()
        for statement in _postgresql_statements(connection.dialect, schema, table.name):
            connection.exec_driver_sql(statement)


_SCHEMA_OF: Final = sa.text("SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = CAST(:name AS regclass)")


def _postgresql_statements(dialect: sa.Dialect, schema: str, table: str) -> list[str]:
    """Return what makes the trigger; ``schema`` is quoted.  Rows that came before it get their places by id.

    The trigger runs as its owner, so that who adds rows needs no right to update them.
    """
    quote = dialect.identifier_preparer.quote
    name = f"{schema}.{quote(table)}"
    sequence = f"{schema}.{quote(f'{table}_commit_order')}"
    function = f"{schema}.{quote(f'{table}_set_commit_order')}"
    return [
        f"CREATE SEQUENCE IF NOT EXISTS {sequence}",
        f"""
        CREATE OR REPLACE FUNCTION {function}() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $litemq$
        BEGIN
            PERFORM pg_advisory_xact_lock({_COMMITTING}, TG_RELID::integer);
            UPDATE {name} SET commit_order = nextval({_literal(sequence)}::regclass) WHERE id = NEW.id;
            RETURN NULL;
        END
        $litemq$
        """,
        f"""
        DO $litemq$
        BEGIN
            PERFORM pg_advisory_xact_lock({_COMMITTING}, {_literal(name)}::regclass::oid::integer);
            IF NOT EXISTS (
                SELECT FROM pg_trigger WHERE tgrelid = {_literal(name)}::regclass AND tgname = 'litemq_commit_order'
            ) THEN
                CREATE CONSTRAINT TRIGGER litemq_commit_order AFTER INSERT ON {name}
                DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {function}();
            END IF;
            UPDATE {name} SET commit_order = nextval({_literal(sequence)}::regclass)
            FROM (SELECT id AS early FROM {name} WHERE commit_order IS NULL ORDER BY id) AS unseen WHERE id = early;
        END
        $litemq$
        """,
    ]


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# -- one relay at a time -------------------------------------------------------------------------


def take_turn(engine: sa.Engine, table: sa.Table) -> Turn | None:
    """Become the relay of a table; None while another one is."""
    connection = engine.connect()
    try:
        take = _take_in_sqlite if engine.dialect.name == "sqlite" else _take_in_postgresql
        turn = take(connection, table)
    except BaseException:
        connection.invalidate()  # it may hold the lock
        connection.close()
        raise
    if turn is None:
        connection.close()
    return turn


def _take_in_sqlite(connection: sa.Connection, table: sa.Table) -> Turn | None:
    files = {name: path for _, name, path in connection.exec_driver_sql("PRAGMA database_list")}
    connection.rollback()
    path = files.get(table.schema or "main")
    if not path:
        raise InvalidRequest(
            "an outbox in memory is gone with its process and protects nothing: use a SQLite file, sqlite:///shop.db"
        )
    descriptor = os.open(f"{path}-{table.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None

    def end() -> None:
        connection.close()
        os.close(descriptor)  # the file stays: to remove it would let two relays lock two files

    return Turn(connection, end)


def _take_in_postgresql(connection: sa.Connection, table: sa.Table) -> Turn | None:
    name = connection.dialect.identifier_preparer.format_table(table)
    lock = {"space": _RELAYING, "name": name}
    taken = connection.execute(
        sa.text("SELECT pg_try_advisory_lock(:space, CAST(CAST(:name AS regclass) AS oid)::integer)"), lock
    ).scalar_one()
    connection.commit()
    if not taken:
        return None

    def end() -> None:
        connection.invalidate()  # closed for good: a pool would keep the session, and the lock with it
        connection.close()

    return Turn(connection, end)
