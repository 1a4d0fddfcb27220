"""The relay on SQLite, against a real broker; PostgreSQL's part is in ``tests/databases``."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session
from tests.support.outbox_writers import run_with_faults

import litemq
from litemq.errors import Closed, InvalidRequest, NoAnswer, NotSupported, OutcomeUnknown
from litemq.outbox import OUTBOX_ID, Outbox, OutboxRelay
from litemq.testing import Broker, broker


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with broker() as started:
        yield started


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    engine = sa.create_engine(f"sqlite:///{tmp_path}/shop.db")
    yield engine
    engine.dispose()


@pytest.fixture
def outbox(engine: sa.Engine) -> Outbox:
    made = Outbox(engine)
    made.create()
    return made


def pending(engine: sa.Engine, outbox: Outbox) -> int:
    with engine.begin() as connection:
        return outbox.pending(connection)


def in_log(running: Broker, topic: str, outbox_id: str) -> list[litemq.Message]:
    with litemq.Admin(running.nameservers) as admin:
        return admin.query(topic, key=outbox_id)


def test_commit_order_holds_while_relay_and_broker_are_killed(engine: sa.Engine, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db?timeout=60"
    engine = sa.create_engine(url)
    with broker() as started:
        written, doubles = run_with_faults(engine, url, started, writers=6, each=40, longest_s=0.02, kills=4)
    engine.dispose()
    assert written.rolled_back
    assert doubles <= 500


def test_what_is_rolled_back_is_never_published(engine: sa.Engine, outbox: Outbox, running: Broker) -> None:
    with Session(engine) as session:
        outbox.add(session, "apples", b"never")
        session.rollback()
        kept = outbox.add(session, "apples", b"17", tags="paid", keys="o-1", properties={"region": "eu"})
        session.commit()
    with OutboxRelay(engine, running.nameservers) as relay:
        assert (relay.run_once(), relay.run_once()) == (1, 0)
    (message,) = in_log(running, "apples", kept)
    assert (message.body, message.tags, message.keys) == (b"17", "paid", ("o-1", kept))
    assert message.properties == {"region": "eu", OUTBOX_ID: kept}
    assert pending(engine, outbox) == 0


def test_published_but_not_deleted_is_not_published_again(
    engine: sa.Engine, outbox: Outbox, running: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine.begin() as connection:
        ids = [outbox.add(connection, "pears", b"%d" % number, sharding_key=f"k{number}") for number in range(5)]

    def fail(*_: object) -> None:
        raise sa.exc.OperationalError("delete", {}, Exception("the disk is full"))

    with OutboxRelay(engine, running.nameservers, batch=3) as relay:
        monkeypatch.setattr(relay, "_delete", fail)
        with pytest.raises(sa.exc.OperationalError):
            relay.run_once()
    assert pending(engine, outbox) == 5
    with OutboxRelay(engine, running.nameservers) as relay:
        assert relay.run_once() == 5
        assert (relay.counters.found, relay.counters.requests, relay.counters.published) == (3, 2, 5)
    assert [len(in_log(running, "pears", one)) for one in ids] == [1] * 5


def test_lost_answer_is_looked_for(
    engine: sa.Engine, outbox: Outbox, running: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine.begin() as connection:
        ids = [outbox.add(connection, "plums", b"1", sharding_key=str(number)) for number in range(3)]
    with OutboxRelay(engine, running.nameservers) as relay:
        send = relay._producer.send_batch
        answers = iter((True, False))

        def lossy(messages: list[litemq.Message]) -> list[litemq.Sent]:
            found = send(messages)
            if not next(answers):
                raise OutcomeUnknown("the answer was lost")
            return found

        monkeypatch.setattr(relay._producer, "send_batch", lossy)
        with pytest.raises(OutcomeUnknown):
            relay.run_once()
        assert pending(engine, outbox) == 2
        monkeypatch.setattr(relay._producer, "send_batch", send)
        assert relay.run_once() == 2
        assert relay.counters.found == 1
    assert [len(in_log(running, "plums", one)) for one in ids] == [1] * 3


def test_refused_row_stops_those_behind_it_until_it_is_discarded(
    engine: sa.Engine, outbox: Outbox, running: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    large = Outbox(sa.MetaData(), max_body_bytes=32 << 20)
    with engine.begin() as connection:
        before = outbox.add(connection, "figs", b"before")
        refused = large.add(connection, "figs", bytes(9 << 20), sharding_key="k")
        behind = outbox.add(connection, "figs", b"behind", sharding_key="k")
    with OutboxRelay(engine, running.nameservers) as relay:
        for _ in range(2):
            with pytest.raises(InvalidRequest):
                relay.run_once()
        assert refused in caplog.text
        assert pending(engine, outbox) == 2
        assert in_log(running, "figs", before)
        assert not in_log(running, "figs", behind)
        with engine.begin() as connection:
            assert outbox.discard(connection, refused)
            assert not outbox.discard(connection, refused)
        assert relay.run_once() == 1
    assert in_log(running, "figs", behind)


def test_run_waits_for_a_broker_and_goes_on(
    engine: sa.Engine, outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "litemq.outbox")
    with broker() as started, OutboxRelay(engine, started.nameservers, poll=0.02, timeout=0.5) as relay:
        started.kill()
        with engine.begin() as connection:
            outbox.add(connection, "dates", b"17")
        thread = threading.Thread(target=relay.run)
        thread.start()
        while not relay.counters.failures:
            time.sleep(0.01)
        assert pending(engine, outbox) == 1
        started.restart()
        while pending(engine, outbox):
            time.sleep(0.01)
        relay.stop()
        thread.join()
    assert "outbox waits: table=litemq_outbox" in caplog.text


def test_one_relay_at_a_time(engine: sa.Engine, outbox: Outbox, running: Broker) -> None:
    with OutboxRelay(engine, running.nameservers) as one, OutboxRelay(engine, running.nameservers) as other:
        assert (one.run_once(), other.run_once()) == (0, 0)
        assert (one.is_active, other.is_active) == (True, False)
        with engine.begin() as connection:
            outbox.add(connection, "orders", b"17")
        assert other.run_once() == 0
        one.close()
        assert other.run_once() == 1
        with pytest.raises(Closed):
            one.run_once()


def test_a_pass_is_bounded_in_bytes(engine: sa.Engine, outbox: Outbox, running: Broker) -> None:
    with engine.begin() as connection:
        for _ in range(6):
            outbox.add(connection, "films", bytes(4 << 20))
    with OutboxRelay(engine, running.nameservers) as relay:
        assert [relay.run_once() for _ in range(3)] == [4, 2, 0]


def test_wrong_arguments_are_named(engine: sa.Engine, running: Broker) -> None:
    mysql = sa.create_mock_engine("mssql://", lambda *_: None)
    with pytest.raises(InvalidRequest, match="blocking driver"):
        OutboxRelay(mysql)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="poll is 0"):
        OutboxRelay(engine, poll=0)
    with pytest.raises(InvalidRequest, match="batch"):
        OutboxRelay(engine, batch=0)
    with pytest.raises(InvalidRequest, match="say where"):
        Outbox().create()
    with pytest.raises(InvalidRequest, match="MetaData"):
        Outbox("shop.db")  # type: ignore[arg-type]
    with (
        OutboxRelay(sa.create_engine("sqlite://"), running.nameservers) as relay,
        pytest.raises(InvalidRequest, match="in memory"),
    ):
        relay.run_once()


def test_other_databases_are_refused() -> None:
    from sqlalchemy.dialects import mysql

    from litemq.outbox.databases import order_of

    with pytest.raises(NotSupported, match="SQLite and PostgreSQL, not in 'mysql'"):
        order_of(Outbox().table, mysql.dialect())


def test_asynchronous_session_is_told_how(outbox: Outbox) -> None:
    class Asynchronous:
        def run_sync(self) -> None: ...

    with pytest.raises(InvalidRequest, match="run_sync"):
        outbox.add(Asynchronous(), "orders", b"17")  # type: ignore[arg-type]


def test_nobody_there_is_told(engine: sa.Engine, outbox: Outbox) -> None:
    with engine.begin() as connection:
        outbox.add(connection, "orders", b"17")
    with OutboxRelay(engine, "127.0.0.1:1", timeout=0.5) as relay, pytest.raises(NoAnswer):
        relay.run_once()
    assert pending(engine, outbox) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"properties": "no json"},
        {"properties": "[1]"},
        {"properties": '{"a": "\\u0001"}'},
        {"body": sa.literal("a text", sa.Text)},
        {"body": bytes(5 << 20)},
    ],
    ids=["no JSON", "a list", "a bad value", "a text", "too large"],
)
def test_a_row_that_nobody_checked_is_named_and_those_before_it_go(
    engine: sa.Engine, outbox: Outbox, running: Broker, caplog: pytest.LogCaptureFixture, wrong: dict[str, object]
) -> None:
    with engine.begin() as connection:
        ids = [outbox.add(connection, "melons", b"%d" % number) for number in range(3)]
        values = {"outbox_id": "the-wrong-one", "topic": "melons", "body": b"x", **wrong}
        connection.execute(outbox.table.insert().values(**values))
        ids.append(outbox.add(connection, "melons", b"3"))
    with OutboxRelay(engine, running.nameservers) as relay:
        with pytest.raises(InvalidRequest):
            relay.run_once()
        assert "outbox_id=the-wrong-one" in caplog.text
        assert relay.counters.published == 3
        with engine.begin() as connection:
            assert outbox.discard(connection, "the-wrong-one")
        assert relay.run_once() == 1
    assert [len(in_log(running, "melons", outbox_id)) for outbox_id in ids] == [1, 1, 1, 1]


def test_a_pass_may_have_more_rows_than_a_statement_values(
    engine: sa.Engine, outbox: Outbox, running: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"outbox_id": f"many-{number}", "topic": "many", "body": b"x"} for number in range(260_000)]
    with engine.begin() as connection:
        connection.execute(outbox.table.insert(), rows)
    with OutboxRelay(engine, running.nameservers, batch=len(rows)) as relay:
        monkeypatch.setattr(relay, "_found_in_log", lambda _: [])
        monkeypatch.setattr(relay, "_send", lambda run, done: done.extend(run))
        assert relay.run_once() == len(rows)
