"""Receipts that are stale, forged or somebody else's: each is refused by its own code, and nothing changes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from random import Random

import pytest
from tests.support.broker import Talk, running
from tests.support.receipts import Got, ack, batch, change, changed, pop

from litemq.broker.broker import Broker
from litemq.clock import ManualClock
from litemq.config import BrokerConfig
from litemq.format.names import POP_TOPIC
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Response

OWN = BrokerConfig(port=0, name_servers=(), default_queues=2)
HUGE = "9" * 18
ILLEGAL = Code.MESSAGE_ILLEGAL

Test = Callable[[Broker, Talk, ManualClock], Awaitable[None]]


@pytest.fixture(autouse=True)
def _nothing_unforeseen(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    unforeseen = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert not unforeseen


def on_broker(path: Path, test: Test) -> None:
    """Run a test on a broker whose time stands still."""
    clock = ManualClock()

    async def run() -> None:
        async with running(path, config=OWN, clock=clock) as (broker, talk):
            await test(broker, talk, clock)

    asyncio.run(asyncio.wait_for(run(), 60))


def kept(broker: Broker) -> object:
    """Return everything that a receipt could change."""
    states = broker.pops.states
    progress = {key: broker.store.progress.offset(*key) for key, _ in states.all()}
    held = {key: (queue.next, list(queue.held())) for key, queue in states.all()}
    return progress, held, broker.store.reader.max_offset(POP_TOPIC, 0), broker.pops.receipts.acknowledged


async def say(talk: Talk, how: str, message: Got, fields: Mapping[str, str | None]) -> Response:
    """Acknowledge a message, or change its time, with other fields (None: without)."""
    ext: dict[str, str | None] = {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": str(message.queue_id),
        "extraInfo": message.receipt,
        "offset": str(message.offset),
        **({"invisibleTime": "1000"} if how == "change" else {}),
        **fields,
    }
    ask = Ask.CHANGE_MESSAGE_INVISIBLETIME if how == "change" else Ask.ACK_MESSAGE
    return await talk.call(ask, {name: value for name, value in ext.items() if value is not None})


def forged(message: Got, **parts: str) -> str:
    """Return a message's receipt with other parts."""
    names = ("start", "time", "invisible", "mark", "retry", "broker", "queue", "offset")
    own = dict(zip(names, message.receipt.split(" "), strict=True))
    return " ".join({**own, **parts}.values())


BAD: list[tuple[dict[str, str], dict[str, str | None], int, str]] = [
    # other parts of the receipt, other fields of the request, code, what the text says
    ({"time": "x"}, {}, ILLEGAL, "is no receipt"),
    ({"time": "-1"}, {}, ILLEGAL, "is no receipt"),
    ({"time": ""}, {}, ILLEGAL, "is no receipt"),
    ({"time": "1.5"}, {}, ILLEGAL, "is no receipt"),
    ({"time": "\N{ARABIC-INDIC DIGIT ONE}"}, {}, ILLEGAL, "is no receipt"),
    ({"time": "9" * 19}, {}, ILLEGAL, "is no receipt"),
    ({"time": "9" * 5000}, {}, ILLEGAL, "is no receipt"),
    ({"time": HUGE}, {}, Code.NO_MESSAGE, "delivered again"),
    ({"time": "0"}, {}, Code.NO_MESSAGE, "delivered again"),
    ({"mark": "7"}, {}, ILLEGAL, "not given to group 'g' for topic 'T'"),
    ({"mark": HUGE}, {}, ILLEGAL, "not given to group 'g' for topic 'T'"),
    ({"mark": "-7"}, {}, ILLEGAL, "is no receipt"),
    ({"retry": "1"}, {}, ILLEGAL, "retry topic"),
    ({"broker": "broker-b"}, {}, ILLEGAL, "from broker 'broker-b', this is 'broker-a'"),
    ({"broker": "b" * 5000}, {}, ILLEGAL, "from broker 'bbb"),
    ({"broker": ""}, {}, ILLEGAL, "from broker ''"),
    ({"queue": "1"}, {}, ILLEGAL, "the receipt is of offset 0 of queue 1, the request of offset 0 of queue 0"),
    ({"queue": "1"}, {"queueId": "1"}, Code.NO_MESSAGE, "does not hold message 0 of queue 1"),
    ({"queue": "9"}, {"queueId": "9"}, ILLEGAL, "queue 9 of topic 'T' does not exist"),
    ({"queue": HUGE}, {}, ILLEGAL, "does not exist"),
    ({"queue": "-1"}, {"queueId": "-1"}, ILLEGAL, "is no receipt"),
    ({"offset": "1"}, {}, ILLEGAL, "the receipt is of offset 1 of queue 0, the request of offset 0 of queue 0"),
    ({"offset": "1"}, {"offset": "1"}, Code.NO_MESSAGE, "does not hold message 1 of queue 0"),
    ({"offset": HUGE}, {"offset": HUGE}, Code.NO_MESSAGE, f"does not hold message {HUGE}"),
    ({"offset": "-1"}, {"offset": "-1"}, ILLEGAL, "is no receipt"),
    ({}, {"extraInfo": "receipt"}, ILLEGAL, "'receipt' is no receipt: it must be the POP_CK of a message"),
    ({}, {"extraInfo": "\0" * 8}, ILLEGAL, "is no receipt"),
    ({}, {"extraInfo": " " * 9}, ILLEGAL, "is no receipt"),
    ({}, {"extraInfo": "0 0 0 0 0 0 0"}, ILLEGAL, "is no receipt"),
    ({}, {"extraInfo": "x" * 20_000}, ILLEGAL, "is no receipt"),
    ({}, {"extraInfo": None}, Code.INVALID_PARAMETER, "no field extraInfo"),
    ({}, {"offset": None}, Code.INVALID_PARAMETER, "no field offset"),
    ({}, {"offset": "-1"}, ILLEGAL, "the request of offset -1"),
    ({}, {"offset": "9" * 19}, Code.INVALID_PARAMETER, "offset"),
    ({}, {"queueId": "x"}, Code.INVALID_PARAMETER, "queueId"),
    ({}, {"queueId": "4294967296"}, Code.INVALID_PARAMETER, "queueId"),
    ({}, {"queueId": None}, Code.INVALID_PARAMETER, "no field queueId"),
    ({}, {"consumerGroup": None}, Code.INVALID_PARAMETER, "no field consumerGroup"),
    ({}, {"consumerGroup": "h"}, ILLEGAL, "not given to group 'h' for topic 'T'"),
    ({}, {"consumerGroup": "nobody"}, Code.SUBSCRIPTION_GROUP_NOT_EXIST, "nobody"),
    ({}, {"consumerGroup": "\N{GREEK SMALL LETTER ALPHA}"}, Code.SUBSCRIPTION_GROUP_NOT_EXIST, "group"),
    ({}, {"topic": "U"}, ILLEGAL, "not given to group 'g' for topic 'U'"),
    ({}, {"topic": "nowhere"}, Code.TOPIC_NOT_EXIST, "nowhere"),
    ({}, {"topic": POP_TOPIC}, Code.TOPIC_NOT_EXIST, "no topic"),
    ({}, {"topic": None}, Code.INVALID_PARAMETER, "no field topic"),
]


@pytest.mark.parametrize("how", ["ack", "change"])
def test_what_is_forged_is_refused_and_changes_nothing(tmp_path: Path, how: str) -> None:
    async def test(broker: Broker, talk: Talk, _clock: ManualClock) -> None:
        for topic in ("T", "U"):
            await talk.send(topic, b"one")
        (one,) = await pop(talk)
        for place in ({"topic": "U"}, {"consumerGroup": "h"}, {"consumerGroup": "h", "topic": "U"}):
            assert len(await pop(talk, **place)) == 1
        before = kept(broker)
        for parts, fields, code, text in BAD:
            answer = await say(talk, how, one, {"extraInfo": forged(one, **parts), **fields})
            case = (parts, fields, answer)
            assert answer.code == code, case
            assert text in (answer.remark or ""), case
            assert len(answer.remark or "") < 300, case
            assert kept(broker) == before, case
        assert (await say(talk, how, one, {})).code == 0

    on_broker(tmp_path, test)


@pytest.mark.parametrize(
    ("invisible", "text"),
    [
        ("-1", "-1"),
        ("43200001", "43200001"),
        ("9" * 18, "invisibleTime"),
        ("9" * 30, "invisibleTime"),
        ("", "no field"),
    ],
)
def test_times_that_are_none(tmp_path: Path, invisible: str, text: str) -> None:
    async def test(broker: Broker, talk: Talk, _clock: ManualClock) -> None:
        await talk.send("T", b"one")
        (one,) = await pop(talk)
        before = kept(broker)
        answer = await say(talk, "change", one, {"invisibleTime": invisible})
        assert answer.code == Code.INVALID_PARAMETER, answer
        assert text in (answer.remark or "")
        assert kept(broker) == before

    on_broker(tmp_path, test)


def test_what_is_done_stays_done(tmp_path: Path) -> None:
    """Neither another acknowledgement nor more time brings an acknowledged message back."""

    async def test(broker: Broker, talk: Talk, clock: ManualClock) -> None:
        for body in (b"one", b"two"):
            await talk.send("T", body)
        one, two = await pop(talk)
        longer = changed(one, await change(talk, one, 30_000))
        assert (await ack(talk, longer)).code == 0
        before = kept(broker)
        for message in (one, longer):
            for answer in (await ack(talk, message), await change(talk, message, 1_000)):
                assert answer.code == Code.NO_MESSAGE
                assert "does not hold message 0 of queue 0" in (answer.remark or "")
        assert kept(broker) == before
        clock.advance(60_000)
        (again,) = await pop(talk)
        assert (again.body, again.times) == (b"two", 1)
        before = kept(broker)
        for answer in (await ack(talk, two), await change(talk, two, 1_000)):
            assert answer.code == Code.NO_MESSAGE
            assert "was delivered again to group 'g' since" in (answer.remark or "")
        assert kept(broker) == before
        clock.advance(60_000)
        assert [message.body for message in await pop(talk)] == [b"two"]

    on_broker(tmp_path, test)


def test_a_batch_acknowledges_what_is_good_and_tells_of_the_rest(tmp_path: Path) -> None:
    async def test(broker: Broker, talk: Talk, clock: ManualClock) -> None:
        for number in range(6):
            await talk.send("T", b"m%d" % number, queue=number % 2)
        first = {message.body: message for message in await pop(talk)}
        assert (await ack(talk, first[b"m0"])).code == 0
        clock.advance(60_000)
        again = {message.body: message for message in await pop(talk, maxMsgNums=2)}
        stale = [first[body] for body in again]
        good = [message for body, message in first.items() if body not in again and body != b"m0"]
        mix = [first[b"m0"], *stale, *good, good[0]._replace(offset=99, receipt=forged(good[0], offset="99"))]
        answer = await talk.call(Ask.BATCH_ACK_MESSAGE, {}, batch(mix))
        assert answer.code == Code.NO_MESSAGE
        assert "4 of 7 receipts acknowledged nothing; the first: the receipt is stale" in (answer.remark or "")
        held = {message.offset for _, queue in broker.pops.states.all() for message in queue.held()}
        assert held == {message.offset for message in again.values()}
        assert broker.pops.states.count() == len(again)
        clock.advance(60_000)
        assert {message.body for message in await pop(talk)} == set(again)

    on_broker(tmp_path, test)


WRONG_ENTRIES: list[tuple[dict[str, object], int, str]] = [
    ({"c": "h"}, ILLEGAL, "not given to group 'h'"),
    ({"c": "nobody"}, Code.SUBSCRIPTION_GROUP_NOT_EXIST, "nobody"),
    ({"c": 7}, Code.INVALID_PARAMETER, "texts c, t and b"),
    ({"t": "U"}, ILLEGAL, "for topic 'U'"),
    ({"t": "nowhere"}, Code.TOPIC_NOT_EXIST, "nowhere"),
    ({"q": 9}, ILLEGAL, "does not exist"),
    ({"q": -1}, Code.INVALID_PARAMETER, "number q"),
    ({"q": 1 << 62}, Code.INVALID_PARAMETER, "number q"),
    ({"so": -1}, Code.INVALID_PARAMETER, "number so"),
    ({"so": 1.5}, Code.INVALID_PARAMETER, "number so"),
    ({"so": True}, Code.INVALID_PARAMETER, "number so"),
    ({"so": None}, Code.INVALID_PARAMETER, "number so"),
    ({"pt": "1"}, Code.INVALID_PARAMETER, "number pt"),
    ({"pt": 10**4200}, Code.INVALID_PARAMETER, "number pt"),
    ({"rq": 7}, ILLEGAL, "not given to group 'g'"),
    ({"r": "1"}, ILLEGAL, "retry topic"),
    ({"b": "no base64!"}, Code.INVALID_PARAMETER, "base64"),
    ({"b": "\N{GREEK SMALL LETTER ALPHA}"}, Code.INVALID_PARAMETER, "base64"),
    ({"b": "AAAA" * 3000}, Code.INVALID_PARAMETER, "at most 65536"),
]


def test_a_batch_that_is_wrong_somewhere_acknowledges_nothing(tmp_path: Path) -> None:
    async def test(broker: Broker, talk: Talk, _clock: ManualClock) -> None:
        for topic in ("T", "U"):
            await talk.send(topic, b"one")
        (one,) = await pop(talk)
        for place in ({"topic": "U"}, {"consumerGroup": "h"}):
            assert len(await pop(talk, **place)) == 1
        before = kept(broker)
        good = json.loads(batch([one]))["acks"][0]
        bodies = [
            (json.dumps({"acks": [good, {**good, **change}], "brokerName": "broker-a"}).encode(), code, text)
            for change, code, text in WRONG_ENTRIES
        ]
        bodies += [
            (json.dumps({"acks": [good, 7]}).encode(), Code.INVALID_PARAMETER, "is an object"),
            (json.dumps({"acks": [good], "brokerName": "broker-b"}).encode(), ILLEGAL, "from broker 'broker-b'"),
            (json.dumps({"acks": [good], "brokerName": None}).encode(), ILLEGAL, "from broker 'None'"),
            (b"", Code.INVALID_PARAMETER, "no JSON"),
            (b'{"acks":' * 20_000, Code.INVALID_PARAMETER, "no JSON"),
            (b'{"acks":[{"so":' + b"9" * 5000 + b"}]}", Code.INVALID_PARAMETER, ""),
            (b'{"acks":7}', Code.INVALID_PARAMETER, "list acks"),
            (b"{}", Code.INVALID_PARAMETER, "list acks"),
        ]
        for body, code, text in bodies:
            answer = await talk.call(Ask.BATCH_ACK_MESSAGE, {}, body)
            case = (body[:200], answer)
            assert answer.code == code, case
            assert text in (answer.remark or ""), case
            assert kept(broker) == before, case
        far = json.dumps({"acks": [{**good, "so": (1 << 62) - 1, "b": "/w=="}]}).encode()
        assert (await talk.call(Ask.BATCH_ACK_MESSAGE, {}, far)).code == Code.NO_MESSAGE
        assert kept(broker) == before
        assert (await talk.call(Ask.BATCH_ACK_MESSAGE, {}, batch([one]))).code == 0

    on_broker(tmp_path, test)


@pytest.mark.parametrize("seed", range(3))
def test_receipts_that_were_damaged_on_their_way(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)

    def damaged(receipt: str) -> str:
        at = rng.randrange(len(receipt))
        match rng.randrange(4):
            case 0:
                return receipt[:at] + rng.choice("0123456789 -x\0") + receipt[at + 1 :]
            case 1:
                return receipt[:at] + receipt[at + 1 :]
            case 2:
                return receipt[:at] + rng.choice("0123456789 -") + receipt[at:]
            case _:
                parts = receipt.split(" ")
                rng.shuffle(parts)
                return " ".join(parts)

    def meaning(receipt: str) -> tuple[str, ...]:
        """Return what counts of a receipt: where the queue was begun and for how long says nothing."""
        parts = receipt.split(" ")
        return tuple(part if part.isalpha() else part.lstrip("0") for part in (parts[1], *parts[3:]))

    async def test(broker: Broker, talk: Talk, _clock: ManualClock) -> None:
        for _ in range(12):
            await talk.send("T", b"one")
        message = (await pop(talk))[11]
        before = kept(broker)
        refused = 0
        while refused < 200:
            receipt = damaged(message.receipt)
            if len(receipt.split(" ")) >= 8 and meaning(receipt)[:7] == meaning(message.receipt):
                continue
            answer = await say(talk, rng.choice(("ack", "change")), message, {"extraInfo": receipt})
            assert answer.code in (ILLEGAL, Code.NO_MESSAGE), (receipt, answer)
            assert answer.remark, receipt
            assert kept(broker) == before, receipt
            refused += 1

    on_broker(tmp_path, test)
