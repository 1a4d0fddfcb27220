"""``Outbox``: the table, and how an application adds to it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy import event

from litemq.errors import InvalidRequest
from litemq.outbox.databases import finish_table, order_of
from litemq.outbox.rows import columns_of

if TYPE_CHECKING:
    from sqlalchemy.orm import Session, scoped_session

TABLE: Final = "litemq_outbox"
_BODY_BYTES: Final = 4 << 20


def _finish(table: sa.Table, connection: sa.Connection, **_: object) -> None:
    finish_table(table, connection)


class Outbox:
    """A table of messages that are to be published: one for each database is enough.

    >>> import sqlalchemy
    >>> from litemq.outbox import Outbox
    >>> metadata = sqlalchemy.MetaData()  # an application's own, such as Base.metadata
    >>> outbox = Outbox(metadata, table="messages")
    >>> sorted(metadata.tables)
    ['messages']

    Args:
        where: the metadata that the table joins, so that ``metadata.create_all`` makes it, too; or an engine, when
            nothing else is to know of it.
        table: its name.
        max_body_bytes: larger bodies are refused; not more than the broker's ``limits.message_bytes``.
    """

    def __init__(
        self, where: sa.MetaData | sa.Engine | None = None, *, table: str = TABLE, max_body_bytes: int = _BODY_BYTES
    ) -> None:
        self._engine = where if isinstance(where, sa.Engine) else None
        if self._engine is None and where is not None and not isinstance(where, sa.MetaData):
            raise InvalidRequest(f"an outbox is of a MetaData or of an Engine, not of {where!r}")
        self.max_body_bytes = max_body_bytes
        metadata = where if isinstance(where, sa.MetaData) else sa.MetaData()
        self.table = sa.Table(
            table,
            metadata,
            sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=True),
            sa.Column("outbox_id", sa.String(32), nullable=False, default=lambda: uuid.uuid4().hex),
            sa.Column("topic", sa.String(255), nullable=False),
            sa.Column("body", sa.LargeBinary, nullable=False),
            sa.Column("tags", sa.Text),
            sa.Column("message_keys", sa.Text),
            sa.Column("sharding_key", sa.Text),
            sa.Column("properties", sa.Text),
            sa.Column("commit_order", sa.BigInteger, index=True),
            sa.Column("added_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
            sqlite_autoincrement=True,  # no id is ever used again: a later row has a greater one
        )
        event.listen(self.table, "after_create", _finish)

    def create(self, bind: sa.Engine | sa.Connection | None = None) -> None:
        """Make the table where it is not, and what keeps commit order; a connection's transaction is not committed.

        In an Alembic migration: ``outbox.create(op.get_bind())``.

        >>> import sqlalchemy, litemq.outbox
        >>> engine = sqlalchemy.create_engine("sqlite://")
        >>> litemq.outbox.Outbox(engine).create()
        >>> sqlalchemy.inspect(engine).get_table_names()
        ['litemq_outbox']

        Raises:
            NotSupported: the database is neither SQLite nor PostgreSQL.
        """
        where = bind if bind is not None else self._engine
        if where is None:
            raise InvalidRequest("say where: outbox.create(engine)")
        order_of(self.table, where.dialect)
        if isinstance(where, sa.Engine):
            with where.begin() as connection:
                self.create(connection)
            return
        self.table.create(where, checkfirst=True)
        finish_table(self.table, where)

    def add(
        self,
        to: Session | scoped_session[Any] | sa.Connection,
        topic: str,
        body: bytes | bytearray | memoryview,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        sharding_key: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> str:
        """Add a message to the transaction of a session or a connection; return the id that it is published with.

        It is published after the transaction has committed, and never when it is rolled back.  With asyncio:
        ``await session.run_sync(outbox.add, "orders", b"17 apples")``.

        >>> import sqlalchemy
        >>> from sqlalchemy.orm import Session
        >>> engine = sqlalchemy.create_engine("sqlite://")
        >>> outbox = litemq.outbox.Outbox(engine)
        >>> outbox.create()
        >>> with Session(engine) as session:
        ...     outbox_id = outbox.add(session, "orders", b"17 apples", tags="paid", properties={"region": "eu"})
        ...     session.commit()
        >>> len(outbox_id)
        32

        Raises:
            InvalidRequest: it is no message that could be published.
        """
        if hasattr(to, "run_sync"):
            raise InvalidRequest("this is an asynchronous session: await session.run_sync(outbox.add, topic, body)")
        columns = columns_of(
            topic,
            body,
            tags=tags,
            keys=keys,
            sharding_key=sharding_key,
            properties=properties,
            max_body_bytes=self.max_body_bytes,
        )
        outbox_id = uuid.uuid4().hex
        to.execute(self.table.insert().values(outbox_id=outbox_id, **columns))
        return outbox_id

    def discard(self, of: Session | scoped_session[Any] | sa.Connection, outbox_id: str) -> bool:
        """Take a row out that cannot be published, so that those behind it can; return whether it was there.

        >>> import sqlalchemy, litemq.outbox
        >>> engine = sqlalchemy.create_engine("sqlite://")
        >>> outbox = litemq.outbox.Outbox(engine)
        >>> outbox.create()
        >>> with engine.begin() as connection:
        ...     outbox.discard(connection, outbox.add(connection, "orders", b"17 apples"))
        True
        """
        gone = self.table.delete().where(self.table.c.outbox_id == outbox_id).returning(self.table.c.id)
        return of.execute(gone).first() is not None

    def pending(self, of: Session | scoped_session[Any] | sa.Connection) -> int:
        """Return how many rows are not known to be published.

        >>> import sqlalchemy, litemq.outbox
        >>> engine = sqlalchemy.create_engine("sqlite://")
        >>> outbox = litemq.outbox.Outbox(engine)
        >>> outbox.create()
        >>> with engine.begin() as connection:
        ...     outbox.pending(connection)
        0
        """
        return int(of.execute(sa.select(sa.func.count()).select_from(self.table)).scalar_one())
