"""The outbox in a real PostgreSQL: ``make databases``."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from tests.support.outbox_writers import run_with_faults
from tests.support.postgresql import Server, find_programs, postgresql

from litemq.errors import StorageError
from litemq.outbox import Outbox, OutboxRelay
from litemq.testing import Broker, broker

pytestmark = pytest.mark.databases


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    programs = find_programs()
    if programs is None:
        pytest.fail("PostgreSQL is not here: install it, or name the directory of initdb in LITEMQ_POSTGRESQL")
    with postgresql(programs) as started:
        yield started


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with broker() as started:
        yield started


@pytest.fixture
def engine(server: Server) -> Iterator[sa.Engine]:
    engine = sa.create_engine(server.url, pool_size=30)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
    yield engine
    engine.dispose()


def test_commit_order_holds_while_relay_and_broker_are_killed(engine: sa.Engine, server: Server) -> None:
    with broker() as running:
        written, doubles = run_with_faults(engine, server.url, running, writers=24, each=60, longest_s=0.1, kills=6)
    assert written.later_ids_first > 100  # else this tried nothing
    assert written.rolled_back
    assert doubles <= 500


def bodies(relay: OutboxRelay, engine: sa.Engine) -> list[bytes]:
    """Return what would be published next, in order."""
    with engine.connect() as connection:
        return [row.body for row in relay._read(connection)]


def test_later_commit_comes_later_whatever_its_id(engine: sa.Engine, running: Broker) -> None:
    outbox = Outbox(engine)
    outbox.create()
    with engine.connect() as first, engine.connect() as second, OutboxRelay(engine, running.nameservers) as relay:
        with first.begin():
            outbox.add(first, "orders", b"first id")
            with second.begin():
                outbox.add(second, "orders", b"second id")
            assert bodies(relay, engine) == [b"second id"]
            assert relay.run_once() == 1
            with second.begin():
                outbox.add(second, "orders", b"third id")
        assert bodies(relay, engine) == [b"third id", b"first id"]
        assert relay.run_once() == 2
        assert relay.run_once() == 0


def test_commit_waits_for_a_commit_under_way_only(engine: sa.Engine, running: Broker) -> None:
    outbox = Outbox(engine)
    outbox.create()
    with engine.connect() as slow, engine.connect() as other, OutboxRelay(engine, running.nameservers) as relay:
        with slow.begin():
            outbox.add(slow, "orders", b"slow")
            slow.exec_driver_sql("SET CONSTRAINTS ALL IMMEDIATE")  # its commit has begun, so to speak
            done = threading.Event()

            def commit() -> None:
                with other.begin():
                    outbox.add(other, "orders", b"other")
                done.set()

            thread = threading.Thread(target=commit)
            thread.start()
            assert not done.wait(0.3)
            assert bodies(relay, engine) == []
        assert done.wait(10)
        thread.join()
        assert bodies(relay, engine) == [b"slow", b"other"]
        relay.run_once()


def test_prepared_transaction_and_rolled_back_savepoint(engine: sa.Engine, running: Broker) -> None:
    outbox = Outbox(engine)
    outbox.create()
    with engine.connect() as connection, OutboxRelay(engine, running.nameservers) as relay:
        with connection.begin():
            with connection.begin_nested() as savepoint:
                outbox.add(connection, "orders", b"never")
                connection.exec_driver_sql("SET CONSTRAINTS ALL IMMEDIATE")
                savepoint.rollback()
            outbox.add(connection, "orders", b"kept")
        assert bodies(relay, engine) == [b"kept"]
        relay.run_once()


def test_one_relay_at_a_time_until_its_session_ends(engine: sa.Engine, running: Broker) -> None:
    outbox = Outbox(engine)
    outbox.create()
    with OutboxRelay(engine, running.nameservers) as one, OutboxRelay(engine, running.nameservers) as other:
        assert (one.run_once(), other.run_once()) == (0, 0)
        assert (one.is_active, other.is_active) == (True, False)
        with engine.begin() as connection:
            outbox.add(connection, "orders", b"17 apples")
            connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
            )
        with pytest.raises(sa.exc.SQLAlchemyError):
            one.run_once()
        assert other.run_once() == 1
        assert (one.run_once(), one.is_active) == (0, False)


def test_rows_that_the_trigger_did_not_see_are_told_of_and_mended(engine: sa.Engine, running: Broker) -> None:
    metadata = sa.MetaData()
    outbox = Outbox(metadata, table="Messages of mine")
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql('ALTER TABLE "Messages of mine" DISABLE TRIGGER USER')
        outbox.add(connection, "orders", b"unseen")
        connection.exec_driver_sql('ALTER TABLE "Messages of mine" ENABLE TRIGGER USER')
    with OutboxRelay(engine, running.nameservers, table=outbox) as relay:
        with pytest.raises(StorageError, match="no commit_order"):
            relay.run_once()
        outbox.create(engine)
        assert relay.run_once() == 1


def test_who_adds_needs_no_other_right(engine: sa.Engine, running: Broker) -> None:
    metadata = sa.MetaData(schema="shop")
    outbox = Outbox(metadata)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA IF EXISTS shop CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA shop")
        metadata.create_all(connection)
        connection.exec_driver_sql("DROP ROLE IF EXISTS clerk")
        connection.exec_driver_sql("CREATE ROLE clerk")
        connection.exec_driver_sql("GRANT USAGE ON SCHEMA shop TO clerk")
        connection.exec_driver_sql("GRANT INSERT, SELECT (id) ON shop.litemq_outbox TO clerk")
        connection.exec_driver_sql("GRANT USAGE ON SEQUENCE shop.litemq_outbox_id_seq TO clerk")
    with engine.begin() as connection:
        connection.exec_driver_sql("SET LOCAL ROLE clerk")
        outbox.add(connection, "orders", b"17 apples")
    with OutboxRelay(engine, running.nameservers, table=outbox) as relay:
        assert relay.run_once() == 1
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA shop CASCADE")
        connection.exec_driver_sql("DROP ROLE clerk")


def test_a_crash_of_the_database_loses_and_doubles_nothing(engine: sa.Engine, server: Server, running: Broker) -> None:
    outbox = Outbox(engine)
    outbox.create()
    with OutboxRelay(engine, running.nameservers) as relay:
        relay.run_once()
        with engine.begin() as connection:
            outbox.add(connection, "orders", b"17 apples")
        server.stop("immediate")
        with pytest.raises(sa.exc.SQLAlchemyError):
            relay.run_once()
        server.start()
        assert relay.run_once() == 1
        assert relay.counters.found == 0
