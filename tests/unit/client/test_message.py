"""Messages, made and decoded, in both builds of the kernel."""

from __future__ import annotations

import zlib
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq import _plain
from litemq import types as stored
from litemq.client import _message_cy
from litemq.errors import BadBody, InvalidRequest, ReservedName
from litemq.format.names import FLAG_COMPRESSED
from litemq.format.placement import Placement
from litemq.format.record import FORMATS
from litemq.types import LogPosition, QueueOffset

BUILDS = [_message_cy, _plain.load_plain("litemq.client._message_cy")]
HOSTS = ("127.0.0.1:10911", "[fe80::1]:10911")
ROCKETMQ = FORMATS["rocketmq"]
WORD = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02 "), min_size=1, max_size=8)


@pytest.fixture(params=BUILDS, ids=["here", "plain"])
def build(request: pytest.FixtureRequest) -> ModuleType:
    kernel: ModuleType = request.param
    return kernel


def record(message: stored.Message, offset: int = 3, position: int = 7, host: str = HOSTS[0]) -> bytes:
    return bytes(
        ROCKETMQ.write(message, Placement(LogPosition(position), QueueOffset(offset), 1_700_000_000_000, host))
    )


def test_what_is_made_says_what_it_was_given(build: ModuleType) -> None:
    message = build.Message(
        "orders", bytearray(b"{}"), tags="paid", keys=["a", "b"], properties={"region": "eu"}, sharding_key="k"
    )
    assert (message.topic, message.body, message.tags, message.keys) == ("orders", b"{}", "paid", ("a", "b"))
    assert dict(message.properties) == {"region": "eu"}
    assert message.sharding_key == "k"
    assert message.json() == {}
    assert message.message_id == ""
    assert message.queue_offset == -1
    assert build.Message("t", b"").keys == ()
    assert "orders" in repr(message)


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ({"topic": ""}, InvalidRequest),
        ({"topic": 3}, InvalidRequest),
        ({"body": "text"}, InvalidRequest),
        ({"body": None}, InvalidRequest),
        ({"tags": ""}, InvalidRequest),
        ({"tags": 3}, InvalidRequest),
        ({"keys": [""]}, InvalidRequest),
        ({"keys": [1]}, InvalidRequest),
        ({"properties": {"a": ""}}, InvalidRequest),
        ({"properties": {"a": 1}}, InvalidRequest),
        ({"properties": {"a\x01": "b"}}, InvalidRequest),
        ({"properties": {"TAGS": "b"}}, ReservedName),
        ({"properties": {"UNIQ_KEY": "b"}}, ReservedName),
        ({"properties": [("a", "b")]}, InvalidRequest),
        ({"properties": {"a": "\ud800"}}, InvalidRequest),
        ({"tags": "a||b"}, InvalidRequest),
        ({"tags": "two words"}, InvalidRequest),
        ({"tags": "*"}, InvalidRequest),
        ({"sharding_key": ""}, InvalidRequest),
    ],
)
def test_what_cannot_be_sent_is_refused(build: ModuleType, what: dict[str, object], error: type[Exception]) -> None:
    given = {"topic": "t", "body": b"", **what}
    with pytest.raises(error):
        build.Message(given.pop("topic"), given.pop("body"), **given)


@given(
    topic=WORD,
    body=st.binary(max_size=50),
    properties=st.dictionaries(WORD, WORD, max_size=3),
    born=st.integers(0, 2**62),
    offset=st.integers(0, 2**62),
    position=st.integers(0, 2**62),
    queue=st.integers(0, 2**31 - 1),
    times=st.integers(0, 2**31 - 1),
    host=st.sampled_from(HOSTS),
    born_host=st.sampled_from(HOSTS),
)
def test_what_is_stored_is_decoded(
    topic: str,
    body: bytes,
    properties: dict[str, str],
    born: int,
    offset: int,
    position: int,
    queue: int,
    times: int,
    host: str,
    born_host: str,
) -> None:
    properties = {name: value for name, value in properties.items() if name not in _message_cy.OWN_PROPERTIES}
    one = stored.Message(
        topic=topic,
        body=body,
        properties=properties,
        born_time=born,
        queue_id=queue,
        reconsume_times=times,
        born_host=born_host,
        message_id="ID",
        tags=("a",),
        keys=("k1", "k2"),
    )
    data = record(one, offset, position, host)
    for build in BUILDS:
        for known in (topic, "another"):
            first, second = build.decode_messages(data * 2, 0, broker="b", group="g", topic=known)
            for found in (first, second):
                assert (found.topic, found.body, dict(found.properties)) == (topic, body, properties)
                assert (found.born_ms, found.queue_offset, found.position) == (born, offset, position)
                assert (found.queue_id, found.attempt, found.broker, found.group) == (queue, times + 1, "b", "g")
                assert (found.message_id, found.tags, found.keys) == ("ID", "a", ("k1", "k2"))
        (only,) = build.decode_messages(b"head" + data, 4)
        assert only.body == body


def test_times_are_exact(build: ModuleType) -> None:
    (found,) = build.decode_messages(record(stored.Message(topic="t", body=b"", born_time=1_700_000_000_123)))
    assert found.born_at.isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert found.stored_at.isoformat() == "2023-11-14T22:13:20+00:00"


def test_a_retry_has_the_topic_that_it_was_sent_to(build: ModuleType) -> None:
    one = stored.Message(topic="%RETRY%g", body=b"", properties={"RETRY_TOPIC": "orders"}, reconsume_times=2)
    (found,) = build.decode_messages(record(one))
    assert found.topic == "orders"
    assert found.attempt == 3
    assert not found.properties


def test_a_body_is_decompressed_when_it_is_looked_at(build: ModuleType) -> None:
    sound = stored.Message(topic="t", body=zlib.compress(b"x" * 100), sys_flag=FLAG_COMPRESSED)
    broken = stored.Message(topic="t", body=b"no stream", sys_flag=FLAG_COMPRESSED)
    first, second = build.decode_messages(record(sound) + record(broken))
    assert first.body == b"x" * 100
    assert first.body is first.body
    assert second.queue_offset == 3, "all but the body can be read"
    with pytest.raises(BadBody, match="does not decompress"):
        _ = second.body


@given(data=st.data())
def test_hostile_records_are_refused(data: st.DataObject) -> None:
    sound = record(stored.Message(topic="orders", body=b"17 apples", properties={"a": "b"})) * 2
    at = data.draw(st.integers(0, len(sound) - 1))
    hostile = bytearray(sound)
    hostile[at : at + 4] = data.draw(st.binary(min_size=1, max_size=4))
    cut = bytes(hostile[: data.draw(st.integers(0, len(hostile)))])
    answers: list[object] = []
    for build in BUILDS:
        try:
            answers.append([(m.topic, m.stored_ms, m.message_id) for m in build.decode_messages(cut)])
        except BadBody as error:
            answers.append(str(error))
    assert answers[0] == answers[1]
