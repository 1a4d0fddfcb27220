"""Listing transactions and what is held by receipts, over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Talk, running
from tests.support.receipts import ack, pop
from tests.unit.broker.test_pop import ONE_QUEUE

from litemq.broker import pop_listing, transaction_listing
from litemq.wire.remoting.codes import Ask, Code


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


async def _listed(talk: Talk, code: Ask, **ext: object) -> dict[str, Any]:
    answer = await talk.call(code, {name: str(value) for name, value in ext.items()})
    assert answer.code == Code.SUCCESS, answer
    told: dict[str, Any] = json.loads(answer.body)
    return told


async def _refused(talk: Talk, code: Ask, **ext: object) -> str:
    answer = await talk.call(code, {name: str(value) for name, value in ext.items()})
    assert answer.code != Code.SUCCESS
    assert answer.remark
    return answer.remark


async def _half(talk: Talk, number: int, *, topic: str = "T", group: str = "pg") -> dict[str, str]:
    """Send a half message; return what names it."""
    key = f"K{number}"
    answer = await talk.send(topic, b"%d" % number, TRAN_MSG="true", PGROUP=group, UNIQ_KEY=key, KEYS=f"k-{number}")
    assert answer.code == 0, answer
    return {
        "producerGroup": group,
        "tranStateTableOffset": answer.ext["queueOffset"],
        "commitLogOffset": str(int(answer.ext["msgId"][16:], 16)),
        "msgId": key,
    }


def _keys(told: dict[str, Any]) -> list[str]:
    return [one["keys"] for one in told["transactions"]]


def test_pending_and_ended_transactions(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (_, talk):
            halves = [await _half(talk, number, group=f"pg{number % 2}") for number in range(4)]
            other = await _half(talk, 4, topic="U")
            told = await _listed(talk, Ask.LITEMQ_TRANSACTIONS)
            assert (told["pending"], told["nextOffset"]) == (5, -1)
            assert _keys(told) == ["k-0", "k-1", "k-2", "k-3", "k-4"]
            first = told["transactions"][0]
            assert first.pop("storedAt") + 60_000 == first.pop("nextCheckAt")
            assert first == {
                "offset": 0,
                "messageId": "K0",
                "topic": "T",
                "queue": 0,
                "group": "pg0",
                "keys": "k-0",
                "state": "pending",
                "checks": 0,
            }
            assert _keys(await _listed(talk, Ask.LITEMQ_TRANSACTIONS, group="pg1")) == ["k-1", "k-3"]
            assert _keys(await _listed(talk, Ask.LITEMQ_TRANSACTIONS, topic="U", group="pg")) == ["k-4"]
            page = await _listed(talk, Ask.LITEMQ_TRANSACTIONS, maxNum=2, offset=1)
            assert (_keys(page), page["nextOffset"]) == (["k-1", "k-2"], 3)

            await talk.call(Ask.END_TRANSACTION, {**halves[0], "commitOrRollback": "8"})
            await talk.call(Ask.END_TRANSACTION, {**other, "commitOrRollback": "12"})
            assert (await _listed(talk, Ask.LITEMQ_TRANSACTIONS))["pending"] == 3
            ended = (await _listed(talk, Ask.LITEMQ_TRANSACTIONS, ended="true"))["transactions"]
            assert [(one["keys"], one["state"], one["nextCheckAt"]) for one in ended] == [
                ("k-4", "rolled_back", 0),
                ("k-0", "committed", 0),
            ]

    _run(test())


def test_a_page_of_transactions_ends_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with running(tmp_path) as (_, talk):
            for number in range(5):
                await _half(talk, number, group="many" if number < 4 else "rare")
            monkeypatch.setattr(transaction_listing, "_LOOKS", 2)
            offset, found = 0, []
            for _ in range(3):
                told = await _listed(talk, Ask.LITEMQ_TRANSACTIONS, group="rare", offset=offset)
                found += _keys(told)
                offset = told["nextOffset"]
            assert (found, offset) == (["k-4"], -1)
            monkeypatch.setattr(transaction_listing, "_LISTING_S", -1.0)
            told = await _listed(talk, Ask.LITEMQ_TRANSACTIONS)
            assert (_keys(told), told["nextOffset"]) == (["k-0"], 1)

    _run(test())


def test_what_a_group_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with running(tmp_path, config=ONE_QUEUE) as (broker, talk):
            beat = {"clientID": "me@here", "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": []}]}
            for topic in ("T", "U"):
                for number in range(3):
                    await talk.send(topic, b"%s%d" % (topic.encode(), number))
            assert (await talk.call(Ask.HEART_BEAT, {}, json.dumps(beat).encode())).code == 0
            messages = [*await pop(talk, "T"), *await pop(talk, "U")]
            told = await _listed(talk, Ask.LITEMQ_IN_FLIGHT, group="g")
            assert (told["inFlight"], "next" in told) == (6, False)
            first = told["messages"][0]
            assert first["until"] == first.pop("handedOutAt") + 60_000
            first.pop("until")
            assert first == {
                "topic": "T",
                "queue": 0,
                "offset": 0,
                "messageId": f"K{b'T0'.hex()}",
                "consumer": "me@here",
                "attempt": 1,
            }
            places = [(one["topic"], one["offset"]) for one in told["messages"]]
            assert places == [(topic, offset) for topic in ("T", "U") for offset in range(3)]

            page = await _listed(talk, Ask.LITEMQ_IN_FLIGHT, group="g", maxNum=4)
            assert page["next"] == {"topic": "U", "queue": 0, "offset": 1}
            rest = await _listed(
                talk, Ask.LITEMQ_IN_FLIGHT, group="g", fromTopic="U", fromQueue=0, fromOffset=1, maxNum=4
            )
            assert (
                page["messages"] + rest["messages"]
                == (await _listed(talk, Ask.LITEMQ_IN_FLIGHT, group="g"))["messages"]
            )
            only = await _listed(talk, Ask.LITEMQ_IN_FLIGHT, group="g", topic="U")
            assert (only["inFlight"], len(only["messages"])) == (3, 3)
            monkeypatch.setattr(pop_listing, "_LISTING_S", -1.0)
            short = await _listed(talk, Ask.LITEMQ_IN_FLIGHT, group="g")
            assert (len(short["messages"]), short["next"]["offset"]) == (1, 1)
            for message, topic in zip(messages, "TTTUUU", strict=True):
                assert (await ack(talk, message, topic)).code == 0
            assert (await _listed(talk, Ask.LITEMQ_IN_FLIGHT, group="g"))["messages"] == []
            assert broker.pops.states.count() == 0

    _run(test())


def test_who_held_what_is_not_known_after_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, config=ONE_QUEUE) as (_, talk):
            await talk.send("T", b"1")
            assert await pop(talk)
            (one,) = (await _listed(talk, Ask.LITEMQ_IN_FLIGHT, group="g"))["messages"]
            assert one["consumer"].startswith("127.0.0.1:")  # no heartbeat: its address
        async with running(tmp_path, config=ONE_QUEUE) as (_, talk):
            (after,) = (await _listed(talk, Ask.LITEMQ_IN_FLIGHT, group="g"))["messages"]
            assert after == {**one, "consumer": ""}

    _run(test())


def test_wrong_fields_are_named(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (_, talk):
            assert "maxNum is 0" in await _refused(talk, Ask.LITEMQ_TRANSACTIONS, maxNum=0)
            assert "maxNum is 1001" in await _refused(talk, Ask.LITEMQ_IN_FLIGHT, group="TOOLS_CONSUMER", maxNum=1001)
            assert "offset is -1" in await _refused(talk, Ask.LITEMQ_TRANSACTIONS, offset=-1)
            assert "no field group" in await _refused(talk, Ask.LITEMQ_IN_FLIGHT)
            assert "no consumer group 'nobody'" in await _refused(talk, Ask.LITEMQ_IN_FLIGHT, group="nobody")

    _run(test())
