"""Messages by id, key and time, and what the log knows of one, at a real broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from tests.support.dead_letters import Death
from tests.support.messages import bodies

from litemq import errors
from litemq.cli.asking import Asking, asking
from litemq.client.lookups import epoch_ms
from litemq.client.running import run
from litemq.testing import Broker, broker


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


class TestMessage:
    def test_by_both_ids_with_and_without_a_topic(self, ask: Asking, death: Death) -> None:
        (sent,) = death.send("by-id", [b"17 apples"])
        for topic in ("by-id", None):
            found = run(ask.message(sent.message_id, topic=topic))
            assert (found.text(), found.message_id, found.broker) == ("17 apples", sent.message_id, sent.broker)
            assert (found.queue_id, found.queue_offset) == (sent.queue_id, sent.queue_offset)
            for text in (found.offset_id, found.offset_id.lower()):
                assert run(ask.message(text, topic=topic)).message_id == sent.message_id

    def test_an_offset_id_of_another_address_is_compared(self, ask: Asking, death: Death) -> None:
        (sent,) = death.send("by-id", [b"x"])
        found = run(ask.message(sent.message_id)).offset_id
        with pytest.raises(errors.UnknownMessage):
            run(ask.message("0A000001" + found[8:]))  # nobody outside of the cluster is asked

    def test_in_a_topic_that_was_just_made(self, ask: Asking, death: Death) -> None:
        for number in range(20):  # name servers are told of it a moment later
            (sent,) = death.send(f"just-made-{number}", [b"x"])
            assert run(ask.message(sent.message_id)).topic == sent.topic

    @pytest.mark.parametrize("text", ["nothing", "0" * 32, "7F0000010000955B00000000000029BB"])
    def test_none(self, ask: Asking, text: str) -> None:
        with pytest.raises(errors.UnknownMessage, match=f"no message '{text}' in any topic.*key=") as told:
            run(ask.message(text))
        assert told.value.code == "unknown_message"

    def test_not_in_this_topic(self, ask: Asking, death: Death) -> None:
        (sent,) = death.send("by-id", [b"x"])
        offset_id = run(ask.message(sent.message_id)).offset_id
        for text in (sent.message_id, offset_id):
            with pytest.raises(errors.UnknownMessage, match="in topic 'elsewhere'"):
                run(ask.message(text, topic="elsewhere"))

    def test_an_empty_id_is_refused(self, ask: Asking) -> None:
        with pytest.raises(errors.InvalidRequest, match="must not be empty"):
            run(ask.message(""))


class TestQuery:
    def test_by_key(self, ask: Asking, death: Death) -> None:
        death.send("by-key", [b"a", b"b", b"a", b"aa"])
        assert bodies(run(ask.query("by-key", key="k-a"))) == ["a", "a"]
        assert bodies(run(ask.query("by-key", key="k-a", max_messages=1))) == ["a"]
        assert run(ask.query("by-key", key="nobody")) == []
        now = datetime.now(UTC)
        assert bodies(run(ask.query("by-key", key="k-b", end=now))) == ["b"]
        assert run(ask.query("by-key", key="k-b", begin=epoch_ms(now, "now") + 60_000)) == []

    def test_by_time(self, ask: Asking, death: Death) -> None:
        death.send("by-time", [b"0", b"1", b"2"])
        time.sleep(0.005)  # store times are whole milliseconds: the next ones are later
        death.send("by-time", [b"3", b"4"])
        everything = run(ask.query("by-time", begin=0))
        assert sorted(bodies(everything)) == ["0", "1", "2", "3", "4"]
        assert [one.stored_ms for one in everything] == sorted(one.stored_ms for one in everything)
        third = next(one for one in everything if one.body == b"3")
        late = bodies(run(ask.query("by-time", begin=datetime.fromtimestamp(third.stored_ms / 1000, UTC))))
        assert sorted(late) == ["3", "4"]
        assert sorted(bodies(run(ask.query("by-time", end=third.stored_ms - 1)))) == ["0", "1", "2"]
        assert len(run(ask.query("by-time", begin=0, max_messages=2))) == 2

    def test_more_than_a_page(self, ask: Asking, death: Death) -> None:
        futures = [death.producer.send_async("many", b"%d" % number) for number in range(1_000)]
        death.producer.flush()
        assert all(future.result().topic == "many" for future in futures)
        found = run(ask.query("many", begin=0, max_messages=2_000))
        assert sorted(map(int, bodies(found))) == list(range(1_000))

    def test_wrong_use(self, ask: Asking) -> None:
        for wrong, words in (
            ({}, "say what to look for"),
            ({"key": "a b"}, "one word"),
            ({"key": "a", "max_messages": 0}, "1 or more"),
            ({"begin": datetime(2026, 1, 1)}, "no time zone"),  # noqa: DTZ001 - that is what is refused
            ({"begin": 1.5}, "int"),
            ({"begin": 2, "end": 1}, "is after"),
        ):
            with pytest.raises(errors.InvalidRequest, match=words):
                run(ask.query("by-key", **wrong))
        with pytest.raises(errors.UnknownTopic, match="litemq topic create missing"):
            run(ask.query("missing", key="a"))


class TestTrace:
    def test_read_and_unread(self, ask: Asking, death: Death) -> None:
        (sent,) = death.send("traced", [b"a"])
        for group in ("reader", "sleeper"):
            death.make_group(group)
            death.commit(group, "traced", sent.queue_id, sent.queue_offset)
        death.commit("reader", "traced", sent.queue_id, sent.queue_offset + 1)
        found = run(ask.trace(sent.message_id))
        assert found.is_first
        assert found.copies == ()
        assert [(one.group, one.state, one.committed) for one in found.groups] == [
            ("reader", "read", sent.queue_offset + 1),
            ("sleeper", "unread", sent.queue_offset),
        ]

    def test_death_and_redrive(self, ask: Asking, death: Death) -> None:
        (sent,) = death.dead_in("dying", "mortal", [b"a"])
        found = run(ask.trace(sent.message_id))
        (group,) = (one for one in found.groups if one.group == "mortal")
        assert group.state == "dead"
        assert [dead.error for dead in group.dead_letters] == ["boom"]
        assert run(ask.redrive("mortal")).sent == 1
        (group,) = (one for one in run(ask.trace(sent.message_id)).groups if one.group == "mortal")
        assert group.state == "retry unread"
        assert bodies(group.retries) == ["a"]
        death.commit("mortal", "%RETRY%mortal", group.retries[0].queue_id, group.retries[0].queue_offset + 1)
        for text in (sent.message_id, group.retries[0].offset_id, group.dead_letters[0].message.offset_id):
            found = run(ask.trace(text))
            assert found.is_first
            assert found.message.topic == "dying"
            (group,) = (one for one in found.groups if one.group == "mortal")
            assert group.state == "read after retry"

    def test_a_retry_that_waits(self, ask: Asking, death: Death) -> None:
        death.make_group("patient")
        sent = death.send("waiting", [b"a"])
        death.kill("patient", sent, level=3)
        (group,) = (one for one in run(ask.trace(sent[0].message_id)).groups if one.group == "patient")
        assert group.state == "retry waits"
        assert group.due_ms is not None
        assert 0 < group.due_ms - time.time() * 1000 <= 10_000

    def test_sent_twice(self, ask: Asking, death: Death) -> None:
        (sent,) = death.dead_in("twice", "doubling", [b"a"])
        assert run(ask.redrive("doubling", to="origin")).sent == 1
        found = run(ask.trace(sent.message_id))
        assert found.message.queue_offset == sent.queue_offset
        assert [one.topic for one in found.copies] == ["twice"]


def test_nobody_answers() -> None:
    began = time.monotonic()
    with asking("127.0.0.1:1") as ask, pytest.raises(errors.Unavailable, match="litemq up"):
        run(ask.message("x"))
    assert time.monotonic() - began < 3
