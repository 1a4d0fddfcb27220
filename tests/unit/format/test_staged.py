"""Staged messages, in both builds: what a client packs is what is published, and what is wrong with them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import litemq
from litemq import _plain
from litemq.client import _stages_cy
from litemq.client.queue_choice import java_remainder
from litemq.errors import BadBody, BadField, LiteMQError, NotSupported, RecordTooLarge
from litemq.format import _staged_cy, properties
from litemq.format._text_cy import java_hash
from litemq.types import Message

both = pytest.mark.parametrize(
    "staged", [_staged_cy, _plain.load_plain("litemq.format._staged_cy")], ids=["compiled", "plain"]
)
OWN = {"CLUSTER": "c"}
ORIGIN = 5000

texts = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=8)
sent = st.builds(
    litemq.Message,
    st.sampled_from(["T", "U"]),
    st.binary(max_size=40),
    tags=st.none() | st.sampled_from(["red", "gr\u00fcn"]),
    keys=st.lists(st.sampled_from(["k1", "k2"]), max_size=2),
    properties=st.dictionaries(st.sampled_from(["Dx", "Tx", "a", "b"]), texts, max_size=3),
    sharding_key=st.none() | texts,
)


def entry(body: bytes = b"x", text: bytes = b"", *, topic: int = 0, queue: int = 0, flag: int = 0) -> bytes:
    parts = (topic, queue, flag, len(body))
    head = b"".join(part.to_bytes(4, "big", signed=True) for part in parts)
    whole = head + body + len(text).to_bytes(2, "big") + text
    return (len(whole) + 4).to_bytes(4, "big") + whole


def published(
    staged: ModuleType, data: bytes, topics: Sequence[str], counts: list[int], most: int = 1000, size: int = 1 << 20
) -> list[Message]:
    ids = itertools.count()
    found: list[Message] = []
    at = number = 0
    while at < len(data):
        made, at, number = staged.messages(
            *(data, at, number, most, size, tuple(topics), counts, ORIGIN, 17, "1.2.3.4:5", OWN),
            lambda: f"made{next(ids)}",
        )
        found += made
    return found


@both
@given(messages=st.lists(sent, max_size=12), most=st.integers(1, 5))
def test_what_is_packed_is_published(staged: ModuleType, messages: list[litemq.Message], most: int) -> None:
    sink = _stages_cy.Sink("b")
    targets = {name: _stages_cy.Target([sink] * 3, [0, 1, 2], 1) for name in ("T", "U")}
    places = [-1 if one.sharding_key is None else java_remainder(java_hash(one.sharding_key), 3) for one in messages]
    assert _stages_cy.pack(messages, 0, places, targets, 1 << 20) == (len(messages), None)
    data = sink.body()
    assert sink.count == len(messages)
    assert staged.check(data, [3] * len(sink.topics), 100, 1000) == len(messages)
    found = published(staged, data, list(sink.topics), [3] * len(sink.topics), most)
    assert [one.topic for one in found] == [one.topic for one in messages]
    assert [one.body for one in found] == [one.body for one in messages]
    assert [one.properties["__ORIGIN"] for one in found] == [str(ORIGIN + n) for n in range(len(found))]
    for one, by in zip(found, messages, strict=True):
        assert one.tags == ((by.tags,) if by.tags else ())
        assert one.keys == by.keys
        assert one.sharding_key == (by.sharding_key or "")
        assert {**by.properties, "WAIT": "true", **OWN, "__ORIGIN": one.properties["__ORIGIN"]} == one.properties
        assert (one.born_time, one.born_host, len(one.message_id)) == (17, "1.2.3.4:5", 32)
        if by.sharding_key is not None:
            assert one.queue_id == java_remainder(java_hash(by.sharding_key), 3)


@both
@given(
    st.lists(
        st.tuples(st.sampled_from(["UNIQ_KEY", "TAGS", "KEYS", "__SHARDINGKEY", "__ORIGIN", "POP_CK", "a", ""]), texts)
    )
)
def test_properties_are_read_as_those_of_a_send(staged: ModuleType, pairs: list[tuple[str, str]]) -> None:
    text = "".join(f"{name}\x01{value}\x02" for name, value in pairs).encode()
    (found,) = published(staged, entry(text=text, queue=-1), ["T"], [4])
    wanted = properties.parse(text)
    assert found.tags == ((wanted["TAGS"],) if "TAGS" in wanted else ())
    assert found.message_id == wanted.get("UNIQ_KEY", "made0")
    assert found.sharding_key == wanted.get("__SHARDINGKEY", "")
    assert found.properties == {**({"a": wanted["a"]} if "a" in wanted else {}), **OWN, "__ORIGIN": str(ORIGIN)}
    key = wanted.get("__SHARDINGKEY")
    assert found.queue_id == (java_remainder(java_hash(key), 4) if key else ORIGIN % 4)


@both
def test_queues(staged: ModuleType) -> None:
    """A named queue beyond what the topic has by now, the queues in turn, and a topic that was deleted."""
    data = entry(queue=7) + entry(queue=-1) + entry(queue=-1) + entry(topic=1, queue=0) + entry(queue=1, flag=-3)
    found = published(staged, data, ["T", "gone"], [5, 0])
    assert [one.queue_id for one in found] == [2, (ORIGIN + 1) % 5, (ORIGIN + 2) % 5, 1]
    assert [one.properties["__ORIGIN"] for one in found] == ["5000", "5001", "5002", "5004"]
    assert [one.flag for one in found] == [0, 0, 0, -3]


@both
def test_slices_are_bounded_by_bytes(staged: ModuleType) -> None:
    data = entry(b"x" * 100) * 10
    made, at, number = staged.messages(data, 0, 0, 100, 300, ("T",), [1], 0, 0, "h:1", OWN, str)
    assert (len(made), number, at) == (2, 2, 2 * len(data) // 10)
    made, _, number = staged.messages(data, 0, 0, 100, 10, ("T",), [1], 0, 0, "h:1", OWN, str)
    assert (len(made), number) == (1, 1)
    assert staged.skip(data, at, 3) == at + 3 * len(data) // 10


WRONG: list[tuple[bytes, type[LiteMQError], str]] = [
    (entry()[:-1], BadBody, "message 0 at byte 0"),
    (entry() + b"\0" * 5, BadBody, "5 bytes at byte 23, behind message 1"),
    (entry() + b"\0" * 30, BadBody, "message 1 at byte 23"),
    (entry(b"x" * 5)[:16] + (99).to_bytes(4, "big") + entry(b"x" * 5)[20:], BadBody, "body 99"),
    (entry(b"x" * 5)[:16] + b"\xff" * 4 + entry(b"x" * 5)[20:], BadBody, "body -1"),
    (entry(text=b"a\x01b\x02")[:-5] + b"\x09" + b"a\x01b\x02", BadBody, "its properties have 9 bytes"),
    (entry(topic=2), BadField, "topic 2, the request has 2"),
    (entry(topic=-1), BadField, "topic -1"),
    (entry(queue=4), BadField, "queue 4 of topic 0, which has 4"),
    (entry(queue=-2), BadField, "queue -2"),
    (entry() + entry(b"x" * 101), RecordTooLarge, "the body of message 1 has 101 bytes"),
    (entry(text=b"a\x01" + b"v" * 60 + b"\x02"), RecordTooLarge, "the properties of message 0 has 63 bytes"),
    (entry(text=b"a\x01b\x02DELAY\x013\x02"), NotSupported, "property DELAY"),
    (entry(text=b"TAGS\x01x\x01TRAN_MSG\x02TRAN_MSG\x01true"), NotSupported, "property TRAN_MSG"),
    (entry(text=b"TIMER_DELAY_MS\x013\x02"), NotSupported, "property TIMER_DELAY_MS"),
]


@both
@pytest.mark.parametrize(("data", "kind", "text"), WRONG, ids=[text for _, _, text in WRONG])
def test_what_cannot_be_published_is_refused(
    staged: ModuleType, data: bytes, kind: type[LiteMQError], text: str
) -> None:
    with pytest.raises(kind, match=text.replace(".", r"\.")):
        staged.check(data, [4, 1], 100, 60)


@given(st.binary(max_size=200) | st.lists(st.integers(0, 255), max_size=60).map(lambda found: entry() + bytes(found)))
def test_hostile_bytes_are_the_same_in_both_builds(data: bytes) -> None:
    def judged(staged: ModuleType) -> Any:  # noqa: ANN401 - a count, or an error's kind and text
        try:
            return staged.check(data, [4, 1], 100, 60)
        except LiteMQError as error:
            return type(error), str(error)

    assert judged(_staged_cy) == judged(_plain.load_plain("litemq.format._staged_cy"))


def test_a_sink_that_is_full_is_returned() -> None:
    sink = _stages_cy.Sink("b")
    targets = {"T": _stages_cy.Target([sink], [0], 0)}
    messages: list[object] = [litemq.Message("T", b"x" * 500)] * 5
    at, full = _stages_cy.pack(messages, 0, None, targets, 1200)
    assert (at, full) == (2, sink)
    sink.clear()
    assert _stages_cy.pack(messages, at, None, targets, 100) == (3, sink)  # one always fits
    assert _stages_cy.pack([litemq.Message("V", b"")], 0, None, targets, 100) == (0, None)
    with pytest.raises(litemq.InvalidRequest, match="not bytes"):
        _stages_cy.pack([b"x"], 0, None, targets, 100)
