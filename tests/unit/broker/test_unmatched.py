"""Dead letters of messages that a group's filter does not let pass."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Talk, records, running

from litemq.broker.broker import Broker
from litemq.broker.groups import UNMATCHED
from litemq.broker.topics import Topic
from litemq.config import StoreConfig
from litemq.errors import BadField
from litemq.format.message_id import offset_id
from litemq.wire.remoting.codes import Code

STORES = pytest.mark.parametrize(
    "store",
    [StoreConfig(format="litemq"), StoreConfig(format="rocketmq"), StoreConfig(flush="group")],
    ids=["litemq", "rocketmq", "group"],
)


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


def _switch(broker: Broker, value: str, group: str = "cg") -> None:
    broker.groups.put(group, {"attributes": {UNMATCHED: value}})


async def _letters(broker: Broker, talk: Talk, group: str = "cg") -> list[bytes]:
    await broker.unmatched.pass_()
    if broker.topics.find(f"%DLQ%{group}") is None:
        return []
    broker.store.flush()
    answer = await talk.pull(f"%DLQ%{group}", 0, group="reader", count=100)
    return [record.body for record in records(answer.body)]


async def _fill(broker: Broker, talk: Talk, tags: str) -> None:
    """Send a message with each tag; its body is its number and tag."""
    for tag in tags:
        number = broker.offsets.greatest("T", 0) if broker.topics.find("T") else 0
        await talk.send("T", f"{number}{tag}".encode(), TAGS=tag)


@STORES
def test_what_a_group_passes_over_becomes_dead_letters_once(store: StoreConfig, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, store=store) as (broker, talk):
            broker.topics.create(Topic("T", 1, 1))
            _switch(broker, "dead-letter")
            assert (await talk.heartbeat("c", consumes={"cg": {"T": "A || C"}})).code == Code.SUCCESS
            await _fill(broker, talk, "ABCDA")
            assert await _letters(broker, talk) == []  # the group has passed nothing
            broker.offsets.commit("cg", "T", 0, 3)
            assert await _letters(broker, talk) == [b"1B"]
            broker.offsets.commit("cg", "T", 0, 5)
            assert await _letters(broker, talk) == [b"1B", b"3D"]
            broker.offsets.commit("cg", "T", 0, 0)  # it reads again
            broker.offsets.commit("cg", "T", 0, 5)
            assert await _letters(broker, talk) == [b"1B", b"3D"]
            assert broker.retries.died[("cg", "filtered_out")] == 2
            answer = await talk.pull("%DLQ%cg", 1, group="reader")
            letter = records(answer.body)[0]
            origin = broker.store.records("T", 0, 3, max_count=1)[0]
            assert letter.tags == ("D",)
            found = letter.properties
            assert {name: found[name] for name in found if name.startswith("DLQ_") and name != "DLQ_TIME"} == {
                "DLQ_REASON": "filtered_out",
                "DLQ_GROUP": "cg",
                "DLQ_ORIGIN_TOPIC": "T",
                "DLQ_ORIGIN_MESSAGE_ID": offset_id(broker.store_host, origin.position),
                "DLQ_ORIGIN_QUEUE": "0",
                "DLQ_ORIGIN_OFFSET": "3",
                "DLQ_RETRY_COUNT": "0",
            }
        async with running(tmp_path, store=store) as (broker, talk):
            await talk.heartbeat("c", consumes={"cg": {"T": "A || C"}})
            await _fill(broker, talk, "B")
            broker.offsets.commit("cg", "T", 0, 6)
            assert await _letters(broker, talk) == [b"1B", b"3D", b"5B"]

    _run(test())


def test_others_have_no_judge(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await talk.heartbeat("c", consumes={"cg": {"T": "A"}})
            await _fill(broker, talk, "BB")
            broker.offsets.commit("cg", "T", 0, 2)
            assert await _letters(broker, talk) == []
            assert broker.consumption.groups_of("T") == ["cg"]
            # Judging begins where the group stands now.
            _switch(broker, "dead-letter")
            await _fill(broker, talk, "BA")
            broker.offsets.commit("cg", "T", 0, 4)
            assert await _letters(broker, talk) == [b"2B"]
            assert broker.consumption.groups_of("T") == ["cg"]
            # … and so it does when it is switched off and on.
            _switch(broker, "skip")
            assert len(broker.store.progress.of_group("cg@unmatched")) == 0
            await _fill(broker, talk, "B")
            broker.offsets.commit("cg", "T", 0, 5)
            _switch(broker, "dead-letter")
            await _fill(broker, talk, "B")
            broker.offsets.commit("cg", "T", 0, 6)
            assert await _letters(broker, talk) == [b"2B", b"5B"]
            broker.groups.delete("cg", with_progress=True)
            assert len(broker.store.progress.of_group("cg@unmatched")) == 0

    _run(test())


def test_the_judge_waits_for_members_and_takes_their_filter(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            _switch(broker, "dead-letter")
            broker.topics.create(Topic("T", 1, 1))
            await _fill(broker, talk, "AB" * 100)
            broker.offsets.commit("cg", "T", 0, 200)
            assert await _letters(broker, talk) == []
            broker.store.purge("T", {0: 150})  # what is gone is not judged any more
            await talk.heartbeat("c", consumes={"cg": {"T": "B"}})
            assert await _letters(broker, talk) == [b"%dA" % number for number in range(150, 200, 2)]
            await _fill(broker, talk, "A")
            broker.offsets.commit("cg", "T", 0, 201)
            await broker.unmatched.pass_()
            other = Talk(broker.address)
            await other.heartbeat("c2", consumes={"all": {"T": "*"}})
            _switch(broker, "dead-letter", "all")
            broker.offsets.commit("all", "T", 0, 201)
            assert await _letters(broker, talk, "all") == []
            assert broker.store.progress.offset("all@unmatched", "T", 0) == 201
            other.close()

    _run(test())


def test_a_wrong_attribute_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, _):
            with pytest.raises(BadField, match="it must be skip or dead-letter"):
                _switch(broker, "drop")
            assert broker.groups.find("cg") is None

    _run(test())
