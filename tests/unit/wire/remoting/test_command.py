"""The codecs of commands: RocketMQ's own bytes, both ways, and nonsense."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import BadFrame
from litemq.wire.remoting.command import Request, Response, decode, encode_request, encode_response

ASK_ROUTE = bytes.fromhex("000000260100002200690001df0000000700000000000000000000000d0005746f706963000000025431")
ANSWER_NO = bytes.fromhex("0000001b0100001700110001df0000000700000001000000026e6f00000000")
ASK_ROUTE_JSON = bytes.fromhex("000000800000007c") + (
    b'{"code":105,"extFields":{"topic":"T1"},"flag":0,"language":"JAVA","opaque":7,'
    b'"serializeTypeCurrentRPC":"JSON","version":479}'
)


def test_a_binary_request_has_rocketmqs_bytes() -> None:
    request = Request(105, {"topic": "T1"}, opaque=7, language="JAVA", codec=1)
    assert encode_request(request) == ASK_ROUTE
    assert decode(ASK_ROUTE) == request


def test_rocketmqs_json_request_is_read() -> None:
    assert decode(ASK_ROUTE_JSON) == Request(105, {"topic": "T1"}, opaque=7, language="JAVA")


def test_rocketmqs_binary_response_is_read() -> None:
    assert decode(ANSWER_NO) == Response(17, remark="no", opaque=7)


texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@given(
    codec=st.integers(0, 1),
    code=st.integers(0, 32767),
    opaque=st.integers(-(1 << 31), (1 << 31) - 1),
    ext=st.dictionaries(texts, texts, max_size=5),
    body=st.binary(max_size=50),
)
def test_requests_come_back_as_they_went(codec: int, code: int, opaque: int, ext: dict[str, str], body: bytes) -> None:
    request = Request(code, ext, body, opaque=opaque, codec=codec)
    assert decode(encode_request(request)) == request


@given(
    codec=st.integers(0, 1),
    code=st.integers(0, 32767),
    ext=st.dictionaries(texts, texts, max_size=5),
    body=st.binary(max_size=50),
    remark=st.none() | texts,
)
def test_responses_come_back_as_they_went(
    codec: int, code: int, ext: dict[str, str], body: bytes, remark: str | None
) -> None:
    response = Response(code, ext, body, remark, opaque=9)
    assert decode(encode_response(response, opaque=9, codec=codec)) == response


def test_bare_numbers_of_the_cpp_client_become_texts() -> None:
    header = b'{"code":310,"opaque":1,"flag":0,"extFields":{"e":3,"m":true,"x":null}}'
    frame = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    command = decode(frame)
    assert isinstance(command, Request)
    assert command.ext == {"e": "3", "m": "true"}


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\0\0\4\0\0\0\1",
        b"\0\0\0\4\0\0\0\0",
        b"\0\0\0\4\7\0\0\0",
        b"\0\0\0\5\0\0\0\1{",
        b"\0\0\0\6\0\0\0\2[]",
        b"\0\0\0\4\1\0\0\0",
        ASK_ROUTE[:-1],
        ASK_ROUTE[:25] + b"\x7f" + ASK_ROUTE[26:],
        ASK_ROUTE_JSON.replace(b'"opaque":7', b'"opaque":"'),
    ],
)
def test_nonsense_is_a_bad_frame(frame: bytes) -> None:
    with pytest.raises(BadFrame):
        decode(frame)
