"""Dead letters at a real broker: read, sent once more, kept in a file, removed."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import running, until
from tests.support.dead_letters import Death
from tests.support.messages import bodies

from litemq import errors
from litemq.cli.asking import Asking, asking
from litemq.client._message_cy import Message
from litemq.client.admin import AsyncAdmin
from litemq.client.archive import ArchiveFile
from litemq.client.dead_letters import DeadLetter, Wanted
from litemq.client.redrive import REDRIVEN_FROM, Redriven
from litemq.client.running import run
from litemq.config import BrokerConfig, NameserverConfig
from litemq.format.message_id import parse_offset_id
from litemq.nameserver.server import NameServer
from litemq.testing import Broker, broker
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Request, Response


@pytest.fixture(scope="module")
def cluster() -> Iterator[Broker]:
    with broker() as found:
        yield found


@pytest.fixture(scope="module")
def death(cluster: Broker) -> Iterator[Death]:
    found = Death(cluster.nameservers, cluster.address)
    yield found
    found.close()


@pytest.fixture
def ask(cluster: Broker) -> Iterator[Asking]:
    with asking(cluster.nameservers) as found:
        yield found


def _in(ask: Asking, topic: str) -> list[str]:
    """Return the bodies of a topic, sorted."""
    return sorted(bodies(run(ask.query(topic, begin=0, max_messages=10_000))))


class TestReading:
    def test_what_is_known(self, ask: Asking, death: Death) -> None:
        (sent,) = death.dead_in("orders-1", "g1", [b"a"], error="no such order")
        (dead,) = run(ask.dead_letters("g1"))
        assert (dead.group, dead.origin_topic, dead.reason) == ("g1", "orders-1", "consume_error")
        assert (dead.error, dead.stack) == ("no such order", "Traceback\n  no such order")
        assert (dead.origin_queue, dead.origin_offset, dead.retry_count) == (sent.queue_id, sent.queue_offset, 0)
        assert dead.message.text() == "a"
        assert dead.message.message_id == sent.message_id
        assert abs(dead.died_ms - time.time() * 1000) < 60_000

    def test_over_all_groups_of_a_topic(self, ask: Asking, death: Death) -> None:
        death.dead_in("orders-2", "g2", [b"a", b"b"])
        death.dead_in("orders-2", "g3", [b"c"])
        death.dead_in("elsewhere", "g3", [b"d"])
        found = run(ask.dead_letters(topic="orders-2"))
        assert sorted((dead.group, dead.message.text()) for dead in found) == [("g2", "a"), ("g2", "b"), ("g3", "c")]
        counted = run(ask.count_dead_letters(topic="orders-2"))
        assert [(one.group, one.origin_topic, one.reason, one.count) for one in counted] == [
            ("g2", "orders-2", "consume_error", 2),
            ("g3", "orders-2", "consume_error", 1),
        ]
        assert [one.count for one in run(ask.count_dead_letters("g3"))] == [1, 1]

    def test_filters(self, ask: Asking, death: Death) -> None:
        sent = death.dead_in("orders-4", "g4", [b"a", b"b", b"c"])
        everything = run(ask.dead_letters("g4"))
        assert [dead.message.text() for dead in everything] == ["a", "b", "c"]
        assert len(run(ask.dead_letters("g4", max_messages=2))) == 2
        assert run(ask.dead_letters("g4", reason="max_retry")) == []
        ids = [sent[0].message_id, everything[1].message.offset_id, everything[2].origin_message_id]
        assert len(run(ask.dead_letters("g4", ids=ids))) == 3
        last = everything[-1].message.stored_ms
        assert run(ask.dead_letters("g4", begin=last + 1)) == []
        assert len(run(ask.dead_letters("g4", end=last))) == 3

    def test_a_group_without_any(self, ask: Asking, death: Death) -> None:
        death.make_group("healthy")
        assert run(ask.dead_letters("healthy")) == []
        assert run(ask.redrive("healthy")) == Redriven()
        assert run(ask.purge_dead_letters("healthy")) == 0

    def test_wrong_use(self, ask: Asking) -> None:
        for wrong, kind, words in (
            ({}, errors.InvalidRequest, "say whose"),
            ({"group": "nobody"}, errors.UnknownGroup, "litemq group list"),
            ({"group": "g", "max_messages": 0}, errors.InvalidRequest, "1 or more"),
        ):
            with pytest.raises(kind, match=words):
                run(ask.dead_letters(**wrong))
        with pytest.raises(errors.UnknownGroup):
            run(ask.redrive("nobody"))
        with pytest.raises(errors.InvalidRequest, match="'origin'"):
            run(ask.redrive("g", to="back"))  # type: ignore[arg-type] # wrong on purpose
        with pytest.raises(errors.InvalidRequest, match="above 0"):
            run(ask.redrive("g", rate=0))

    def test_of_rocketmq(self) -> None:
        dead = DeadLetter(Message("%DLQ%billing", b""))
        assert (dead.group, dead.reason, dead.error, dead.origin_queue) == ("billing", "unknown", "", -1)
        assert Wanted().fits(dead)


class TestRedrive:
    def test_to_the_group_only(self, ask: Asking, death: Death) -> None:
        (sent,) = death.dead_in("orders-5", "g5", [b"a"])
        assert run(ask.redrive("g5")) == Redriven(sent=1)
        assert _in(ask, "orders-5") == ["a"]
        (again,) = run(ask.query("%RETRY%g5", begin=0))
        (dead,) = run(ask.dead_letters("g5"))
        told = again.raw_properties
        assert (again.message_id, again.attempt, again.keys) == (sent.message_id, 1, ("k-a",))
        assert (told["RETRY_TOPIC"], told["ORIGIN_MESSAGE_ID"]) == ("orders-5", dead.origin_message_id)
        assert told[REDRIVEN_FROM] == dead.message.offset_id
        assert again.born_ms == dead.message.born_ms
        assert not [name for name in told if name.startswith("DLQ_")]

    def test_to_the_origin_and_its_queue(self, ask: Asking, death: Death) -> None:
        (sent,) = death.dead_in("orders-6", "g6", [b"a"])
        assert run(ask.redrive("g6", to="origin")) == Redriven(sent=1)
        first, again = run(ask.query("orders-6", begin=0))
        assert (again.queue_id, again.message_id) == (sent.queue_id, first.message_id)
        assert "RETRY_TOPIC" not in again.raw_properties

    def test_none_is_sent_twice(self, ask: Asking, death: Death) -> None:
        sent = death.dead_in("orders-7", "g7", [b"a", b"b", b"c"])
        assert run(ask.redrive("g7", dry_run=True)) == Redriven(sent=3)
        assert run(ask.redrive("g7", ids=[sent[1].message_id])) == Redriven(sent=1, passed_over=2)
        assert run(ask.redrive("g7", ids=[sent[1].message_id])) == Redriven(skipped=1, passed_over=2)
        assert run(ask.redrive("g7", dry_run=True)) == Redriven(sent=2, skipped=1)
        assert run(ask.redrive("g7")) == Redriven(sent=2, skipped=1)
        assert run(ask.redrive("g7")) == Redriven()
        assert run(ask.redrive("g7", to="origin")) == Redriven()
        assert _in(ask, "%RETRY%g7") == ["a", "b", "c"]
        assert run(ask.redrive("g7", reason="consume_error", again=True)) == Redriven(sent=3)

    def test_what_dies_again_is_a_dead_letter_of_its_own(self, ask: Asking, death: Death) -> None:
        death.dead_in("orders-8", "g8", [b"a"])
        assert run(ask.redrive("g8", reason="consume_error")).sent == 1
        (again,) = run(ask.query("%RETRY%g8", begin=0))
        death.send_back("g8", again.offset_id, "once more")
        assert [dead.error for dead in run(ask.dead_letters("g8"))] == ["boom", "once more"]
        assert run(ask.redrive("g8", where=lambda dead: dead.error == "boom")).skipped == 1
        assert run(ask.redrive("g8", where=lambda dead: dead.error == "once more")).sent == 1
        assert run(ask.redrive("g8")) == Redriven(skipped=2)
        (dead,) = run(ask.dead_letters("g8", begin=0, max_messages=1))
        assert dead.origin_topic == "orders-8"

    def test_an_ended_run_goes_on_where_it_ended(
        self, ask: Asking, death: Death, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        death.dead_in("orders-9", "g9", [b"%d" % number for number in range(100)])
        real, sends = ask._net.call, 0

        async def call(address: str, request: Request, timeout: float) -> Response:  # noqa: ASYNC109 - as ``Net``
            nonlocal sends
            answer = await real(address, request, timeout)
            if request.code == Ask.SEND_MESSAGE_V2:
                sends += 1
                if sends == 50:
                    raise KeyboardInterrupt  # it is stored, and not counted
            return answer

        monkeypatch.setattr(ask._net, "call", call)
        with pytest.raises(KeyboardInterrupt):
            run(ask.redrive("g9"))
        monkeypatch.undo()
        assert run(ask.redrive("g9")) == Redriven(sent=50, skipped=1)
        assert _in(ask, "%RETRY%g9") == sorted(str(number) for number in range(100))

    @pytest.mark.parametrize("stored", [True, False])
    def test_no_answer(self, ask: Asking, death: Death, monkeypatch: pytest.MonkeyPatch, *, stored: bool) -> None:
        group = f"g10-{stored}"
        death.dead_in("orders-10", group, [b"a", b"b"])
        real, lost = ask._net.call, 0

        async def call(address: str, request: Request, timeout: float) -> Response:  # noqa: ASYNC109 - as ``Net``
            nonlocal lost
            if request.code != Ask.SEND_MESSAGE_V2 or lost == 2:
                return await real(address, request, timeout)
            lost += 1
            if stored:
                await real(address, request, timeout)
            raise errors.OutcomeUnknown("no answer")

        monkeypatch.setattr(ask._net, "call", call)
        assert run(ask.redrive(group)) == Redriven(sent=2)
        assert _in(ask, f"%RETRY%{group}") == ["a", "b"]

    def test_a_broker_that_takes_nothing(self, ask: Asking, death: Death, monkeypatch: pytest.MonkeyPatch) -> None:
        death.dead_in("orders-11", "g11", [b"a", b"b"])
        real, sends = ask._net.call, 0

        async def call(address: str, request: Request, timeout: float) -> Response:  # noqa: ASYNC109 - as ``Net``
            nonlocal sends
            if request.code == Ask.SEND_MESSAGE_V2:
                sends += 1
                if sends > 1:
                    raise errors.NoAnswer("it is gone")
            return await real(address, request, timeout)

        async def sleep(_seconds: float) -> None:
            pass

        with monkeypatch.context() as patched:
            patched.setattr(ask._net, "call", call)
            patched.setattr(ask._net, "sleep", sleep)
            with pytest.raises(errors.NoAnswer, match="it is gone; 1 dead letters were redriven before it"):
                run(ask.redrive("g11"))
        assert run(ask.redrive("g11")) == Redriven(sent=1)

    def test_a_group_that_keeps_order(self, ask: Asking, death: Death) -> None:
        death.dead_in("orders-12", "g12", [b"a"])
        queues = [{"topic": "orders-12", "brokerName": "broker-a", "queueId": 0}]
        body = {"consumerGroup": "g12", "clientId": "c", "mqSet": queues}
        death.ask(Ask.LOCK_BATCH_MQ, body=json.dumps(body).encode())
        with pytest.raises(errors.InvalidRequest, match=r"consumes in order.*to='origin'"):
            run(ask.redrive("g12"))
        # The dead letter went on as another one: that is redriven once, not both.
        assert run(ask.redrive("g12", to="origin")) == Redriven(sent=1, skipped=1)
        assert _in(ask, "orders-12") == ["a", "a"]

    def test_rate_and_progress(self, ask: Asking, death: Death, monkeypatch: pytest.MonkeyPatch) -> None:
        death.dead_in("orders-13", "g13", [b"a", b"b", b"c"])
        now, told = 100.0, []

        async def sleep(seconds: float) -> None:
            nonlocal now
            now += seconds

        monkeypatch.setattr(ask._net, "sleep", sleep)
        monkeypatch.setattr(ask._net, "now", lambda: now)
        outcome = run(ask.redrive("g13", rate=4, on_progress=lambda *both: told.append(both)))
        assert outcome.sent == 3
        assert now == 100.5
        assert told == [(1, 3), (2, 3), (3, 3), (3, 3)]

    def test_a_compressed_body(self, ask: Asking, death: Death, cluster: Broker) -> None:
        import litemq.client.producer as producing

        death.make_group("g14")
        with producing.Producer(cluster.nameservers, compression="zstd", compress_over=10) as producer:
            sent = producer.send("orders-14", b"many " * 1_000)
        death.kill("g14", [sent])
        assert run(ask.redrive("g14")).sent == 1
        (again,) = run(ask.query("%RETRY%g14", begin=0))
        assert again.body == b"many " * 1_000
        assert again.sys_flag & 1


class TestArchive:
    def test_everything_is_in_it(self, ask: Asking, death: Death, tmp_path: Path) -> None:
        death.dead_in("orders-15", "g15", [b"a", "ä\n".encode()])
        file = tmp_path / "g15.jsonl"
        file.write_text("old")
        assert run(ask.archive_dead_letters("g15", file)) == 2
        lines = _lines(file)
        assert lines[-1] == {"end": True, "count": 2}
        assert [base64.b64decode(line["body"]).decode() for line in lines[:-1]] == ["a", "ä\n"]
        assert lines[0]["properties"]["DLQ_ERROR"] == "boom"
        assert [path.name for path in tmp_path.iterdir()] == ["g15.jsonl"]

    def test_an_unfinished_one_leaves_the_old(self, tmp_path: Path) -> None:
        file = tmp_path / "x.jsonl"
        file.write_text("old")
        broken = DeadLetter(Message("t", b"a"))

        def interrupted() -> None:
            with ArchiveFile(file) as archive:
                archive.write(broken)
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert file.read_text() == "old"
        assert [path.name for path in tmp_path.iterdir()] == ["x.jsonl"]


def test_two_brokers_and_an_event_loop(tmp_path: Path) -> None:
    async def test() -> None:
        async with AsyncExitStack() as stack:
            server = NameServer(NameserverConfig(port=0))
            await server.start()
            stack.push_async_callback(server.close)
            names = (f"127.0.0.1:{server.port}",)
            for letter in "ab":
                config = BrokerConfig(port=0, name=f"broker-{letter}", name_servers=names)
                _, talk = await stack.enter_async_context(running(tmp_path / letter, config=config))
                body = b'{"groupName":"g"}'
                await talk.call(Ask.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)
                for number in range(3):
                    sent = await talk.send("T", f"{letter}{number}".encode(), queue=number)
                    place = parse_offset_id(sent.ext["msgId"])
                    assert place is not None
                    back = {"group": "g", "offset": str(place[1]), "delayLevel": "-1"}
                    await talk.call(Ask.CONSUMER_SEND_MSG_BACK, back)
            await until(lambda: len(server.routes.brokers) == 2)
            async with AsyncAdmin(names) as admin:
                assert len(await admin.dead_letters("g")) == 6
                last = (await admin.dead_letters("g"))[-1].message.offset_id
                (sixth,) = await admin.dead_letters("g", ids=[last])
                assert await admin.redrive("g", ids=[sixth.message.message_id]) == Redriven(sent=1, passed_over=5)
                assert await admin.redrive("g") == Redriven(sent=5, skipped=1)
                assert await admin.redrive("g") == Redriven()
                found = await admin.query("%RETRY%g", begin=0)
                assert sorted(one.text() for one in found) == ["a0", "a1", "a2", "b0", "b1", "b2"]
                assert {one.text()[0] for one in found if one.broker == "broker-a"} == {"a"}
                trace = await admin.trace(sixth.message.message_id)
                assert [one.state for one in trace.groups] == ["retry unread"]

    asyncio.run(asyncio.wait_for(test(), 30))


def test_purge(ask: Asking, death: Death) -> None:
    death.dead_in("orders-16", "g16", [b"a", b"b"])
    (first, _) = run(ask.dead_letters("g16"))
    assert run(ask.purge_dead_letters("g16", before=first.message.stored_ms)) == 0
    assert run(ask.purge_dead_letters("g16")) == 2
    assert run(ask.dead_letters("g16")) == []
    assert run(ask.redrive("g16")) == Redriven()


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]
