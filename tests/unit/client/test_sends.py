"""Frames of sends are what the protocol wants, and ids are nobody else's."""

from __future__ import annotations

import os
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq import _plain
from litemq.client import _sends_cy
from litemq.client._message_cy import Message
from litemq.errors import BadFrame, RecordTooLarge
from litemq.format import properties
from litemq.wire.remoting.codes import BINARY, JSON, Ask
from litemq.wire.remoting.command import Request, Response, decode, encode_response

BUILDS = [_sends_cy, _plain.load_plain("litemq.client._sends_cy")]


@pytest.fixture(params=BUILDS, ids=["here", "plain"])
def build(request: pytest.FixtureRequest) -> ModuleType:
    kernel: ModuleType = request.param
    return kernel


def test_the_frame_of_one_message() -> None:
    message = Message("örders", b"17", tags="paid", properties={"a": "b"})
    text = _sends_cy.properties_text(message, "THE-ID")
    fields = _sends_cy.queue_fields("pg", "örders", 3, "broker-a")
    request = decode(_sends_cy.send_frame(fields, 77, message, text, 0x101, b"17"))
    assert isinstance(request, Request)
    assert (request.code, request.opaque, request.body) == (Ask.SEND_MESSAGE_V2, 77, b"17")
    assert not request.is_oneway
    ext = request.ext
    assert (ext["a"], ext["b"], ext["e"], ext["f"], ext["m"], ext["n"]) == (
        "pg",
        "örders",
        "3",
        "257",
        "false",
        "broker-a",
    )
    found = properties.parse(ext["i"].encode())
    assert found == {"a": "b", "TAGS": "paid", "UNIQ_KEY": "THE-ID", "WAIT": "true"}
    quiet = decode(_sends_cy.send_frame(fields, 77, message, text, 0, b"17", oneway=True))
    assert isinstance(quiet, Request)
    assert quiet.is_oneway


def test_the_frame_of_a_batch(build: ModuleType) -> None:
    fields = build.queue_fields("pg", "t", 0, "b")
    outgoing = [build.Outgoing(Message("t", b"one")), build.Outgoing(Message("t", b"", tags="x"))]
    assert len({one.message_id for one in outgoing}) == 2
    for one, text in zip(outgoing, (b"p", b""), strict=True):
        assert one.message_id.encode() in one.text
        one.text = text
    request = decode(build.batch_frame(fields, 1, build.batch_body(outgoing)))
    assert isinstance(request, Request)
    assert request.code == Ask.SEND_BATCH_MESSAGE
    assert request.ext["m"] == "true"
    first = bytes.fromhex("0000001a 00000000 00000000 00000000 00000003") + b"one\0\x01p"
    assert request.body == first + bytes.fromhex("00000016 00000000 00000000 00000000 00000000 0000")


def test_where_a_batch_is(build: ModuleType) -> None:
    outgoing = [build.Outgoing(Message("t", b"")) for _ in range(3)]
    found = build.sent_list(outgoing, "t", "b", 2, 7, "A,B")
    assert [(one.queue_id, one.queue_offset, one.offset_id) for one in found] == [(2, 7, "A"), (2, 8, "B"), (2, 9, "")]
    assert [one.message_id for one in found] == [one.message_id for one in outgoing]


def test_properties_have_a_limit() -> None:
    with pytest.raises(RecordTooLarge, match="32767"):
        _sends_cy.properties_text(Message("t", b"", properties={"a": "x" * 32_767}), "ID")


def test_ids_differ(build: ModuleType) -> None:
    ids = build.Ids()
    made = {ids.next() for _ in range(50_000)}
    assert len(made) == 50_000
    assert all(len(one) == 32 and one == one.upper() and int(one, 16) for one in made)


def test_a_child_makes_ids_of_its_own(build: ModuleType) -> None:
    ids = build.Ids()
    mine = ids.next()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, ids.next().encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reading, 100).decode()
    os.close(reading)
    os.close(writing)
    assert theirs[:20] != mine[:20]


def test_what_was_sent_is_a_value(build: ModuleType) -> None:
    one = build.Sent("ID", "t", "b", 1, 2)
    assert one == build.Sent("ID", "t", "b", 1, 2)
    assert one != build.Sent("ID", "t", "b", 1, 3)
    assert hash(one) == hash(build.Sent("ID", "t", "b", 1, 2))
    assert one != "ID"
    assert "ID" in repr(one)


def test_answers_are_decoded_as_elsewhere(build: ModuleType) -> None:
    answer = Response(17, {"msgId": "A,B", "queueOffset": "7"}, b"body", "no such tøpic", 0x7FFFFFF0)
    for codec in (BINARY, JSON):
        data = encode_response(answer, opaque=answer.opaque, codec=codec)
        found = build.plain_answer(data + b"next", len(data))
        if codec == JSON:
            assert found is None
        else:
            assert found == decode(data)
    bare = encode_response(Response(), opaque=1, codec=BINARY)
    assert build.plain_answer(bare, len(bare)) == decode(bare)


@given(data=st.data())
def test_hostile_answers_are_refused_alike(data: st.DataObject) -> None:
    sound = encode_response(Response(0, {"a": "b", "queueOffset": "7"}, b"x", "r"), opaque=5, codec=BINARY)
    hostile = bytearray(sound)
    at = data.draw(st.integers(0, len(hostile) - 1))
    hostile[at] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(hostile) + 2))
    answers: list[object] = []
    for build in BUILDS:
        try:
            answers.append(build.plain_answer(bytes(hostile), end))
        except BadFrame as error:
            answers.append(str(error))
    assert answers[0] == answers[1]
