"""Both forms of a broker's registration, and nonsense."""

from __future__ import annotations

import json
import struct
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import BadBody
from litemq.wire.remoting import topic_table
from litemq.wire.remoting.topic_table import DataVersion, Queues, TopicTable, checksum, decode, encode

VERSION = DataVersion(3, 1_700_000_000_000, 1)
CONFIG = {"attributes": {}, "order": False, "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 8}


def text(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def compressed(*topics: bytes, count: int | None = None, version: bytes = b'{"counter":3}') -> bytes:
    number = len(topics) if count is None else count
    whole = text(version) + struct.pack(">i", number) + b"".join(map(text, topics)) + text(b"[]")
    return zlib.compress(whole + struct.pack(">i", 0))


def test_a_table_comes_back() -> None:
    body = encode(VERSION, {"T1": CONFIG, "%RETRY%G": {**CONFIG, "topicSysFlag": 1}})
    assert b" " not in body
    assert decode(body, compressed=False) == TopicTable(
        VERSION, {"T1": Queues(4, 8, 6), "%RETRY%G": Queues(4, 8, 6, 1)}
    )
    assert json.loads(body)["topicConfigSerializeWrapper"]["topicConfigTable"]["T1"]["topicName"] == "T1"


def test_a_compressed_table_is_read() -> None:
    body = compressed(b"T1 4 8 6 SINGLE_TAG", b'T2 1 1 4 SINGLE_TAG {"+message.type":"a b"}')
    assert decode(body, compressed=True) == TopicTable(DataVersion(3), {"T1": Queues(4, 8, 6), "T2": Queues(1, 1, 4)})


def test_numbers_may_be_keys_without_quotes() -> None:
    body = (
        b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":3},"topicConfigTable":{"T1":{"perm":6}},'
        b'"topicQueueMappingInfoMap":{"S":{"currIdMap":{0:0,1:1}}}}}'
    )
    assert decode(body, compressed=False) == TopicTable(DataVersion(3), {"T1": Queues(16, 16, 6)})


@pytest.mark.parametrize("body", [b"", b"{}", b'{"topicConfigSerializeWrapper":{"topicConfigTable":null}}'])
def test_nothing_is_an_empty_table(body: bytes) -> None:
    assert decode(body, compressed=False) == TopicTable(DataVersion(), {})


def test_the_checksum_has_no_sign() -> None:
    assert checksum(b"123456789") == 0xCBF43926 & 0x7FFFFFFF


@pytest.mark.parametrize(
    "config",
    ["[]", '{"perm":16}', '{"readQueueNums":-1}', '{"writeQueueNums":1.5}', '{"perm":true}', '{"topicSysFlag":"1"}'],
)
def test_a_config_that_cannot_be_names_its_topic(config: str) -> None:
    body = f'{{"topicConfigSerializeWrapper":{{"topicConfigTable":{{"T1":{config}}}}}}}'.encode()
    with pytest.raises(BadBody, match="the topic 'T1'"):
        decode(body, compressed=False)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'{"topicConfigSerializeWrapper":1}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":[]}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"":{}}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"a\\nb":{}}}}',
        b'{"topicConfigSerializeWrapper":{"dataVersion":[]}}',
        b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":9223372036854775808}}}',
        b"[" * 100_000,
    ],
)
def test_a_body_that_is_no_table_is_refused(body: bytes) -> None:
    with pytest.raises(BadBody):
        decode(body, compressed=False)


@pytest.mark.parametrize(
    "body",
    [
        b"no zlib",
        zlib.compress(b""),
        zlib.compress(struct.pack(">i", -1)),
        zlib.compress(struct.pack(">i", 1 << 30) + b"{}"),
        compressed(version=b"1"),
        compressed(b"T1 4 8 6 SINGLE_TAG", count=1 << 30),
        compressed(b"T1 4 8"),
        compressed(b"T1 a 8 6 SINGLE_TAG"),
        compressed(b"T1 4 8 99 SINGLE_TAG"),
        compressed(b" 4 8 6 SINGLE_TAG"),
    ],
)
def test_a_compressed_body_that_is_no_table_is_refused(body: bytes) -> None:
    with pytest.raises(BadBody):
        decode(body, compressed=True)


def test_a_body_that_grows_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_table, "MAX_TABLE_SIZE", 1000)
    with pytest.raises(BadBody, match="more than 1000 bytes"):
        decode(zlib.compress(bytes(1001)), compressed=True)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_read_or_refused(body: bytes, is_compressed: bool) -> None:
    for data in (body, zlib.compress(body)):
        with suppress(BadBody):
            decode(data, compressed=is_compressed)
