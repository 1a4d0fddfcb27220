"""Ext fields of binary headers: both builds say the same of sound and of hostile bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq import _plain
from litemq.errors import BadFrame
from litemq.wire.remoting import _entries_cy
from litemq.wire.remoting.command import Request, decode, encode_request

BUILDS = [_entries_cy, _plain.load_plain("litemq.wire.remoting._entries_cy")]


def packed(pairs: list[tuple[str, str]]) -> bytes:
    found = b""
    for key, value in pairs:
        name, data = key.encode(), value.encode()
        found += len(name).to_bytes(2, "big") + name + len(data).to_bytes(4, "big") + data
    return found


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=9)), max_size=6))
def test_fields_are_found(pairs: list[tuple[str, str]]) -> None:
    pairs = [(key, value) for key, value in pairs if (key + value).isprintable()]
    expected = {key: value for key, value in pairs if key and value}
    for build in BUILDS:
        assert build.entries(packed(pairs)) == expected


@given(st.lists(st.tuples(st.text("ab", max_size=3), st.text("cd", max_size=5)), max_size=4), st.data())
def test_hostile_bytes_are_refused_alike(pairs: list[tuple[str, str]], data: st.DataObject) -> None:
    hostile = bytearray(packed(pairs) or b"\0\0")
    at = data.draw(st.integers(0, len(hostile) - 1))
    hostile[at] = data.draw(st.integers(0, 255))
    cut = bytes(hostile[: data.draw(st.integers(0, len(hostile)))])
    answers: list[object] = []
    for build in BUILDS:
        try:
            answers.append(build.entries(cut))
        except BadFrame as error:
            answers.append(str(error))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("cut", range(1, 16))
def test_every_prefix_that_ends_within_a_field_is_refused(cut: int) -> None:
    whole = packed([("key", "value")])
    for build in BUILDS:
        if cut < len(whole):
            with pytest.raises(BadFrame):
                build.entries(whole[:cut])


def test_requests_come_back() -> None:
    request = Request(10, {"a": "1", "topic": "ördérs"}, b"body", opaque=5, codec=1)
    found = decode(encode_request(request))
    assert isinstance(found, Request)
    assert (found.ext, found.body) == (request.ext, b"body")
