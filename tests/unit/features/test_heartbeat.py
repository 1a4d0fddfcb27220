"""Heartbeats of all clients are read, and wrong ones refused with the place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import BadBody
from litemq.features.heartbeat import (
    MAX_SET,
    ConsumerData,
    Heartbeat,
    Subscription,
    parse_heartbeat,
)
from litemq.format.config_json import JsonValue

JAVA = """{"clientID":"10.0.0.1@1#2","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_TIMESTAMP","consumeType":
"CONSUME_ACTIVELY","groupName":"cg","messageModel":"BROADCASTING","subscriptionDataSet":[{"classFilterMode":false,
"codeSet":[2598919,2598920],"expressionType":"TAG","subString":"TagA || TagB","subVersion":1700000000000,
"tagsSet":["TagA","TagB"],"topic":"T1"}],"unitMode":false}],"heartbeatFingerprint":7,
"producerDataSet":[{"groupName":"pg"}],"withoutSub":true}"""


def test_of_java() -> None:
    subscription = Subscription(
        "T1", "TagA || TagB", "TAG", 1700000000000, tags=("TagA", "TagB"), codes=(2598919, 2598920)
    )
    consumer = ConsumerData("cg", (subscription,), "CONSUME_ACTIVELY", "BROADCASTING", "CONSUME_FROM_TIMESTAMP")
    assert consumer.is_broadcast
    assert parse_heartbeat(json.loads(JAVA)) == Heartbeat(
        "10.0.0.1@1#2", ("pg",), (consumer,), fingerprint=7, without_subscriptions=True
    )


def test_of_cpp() -> None:
    """It writes ordinals, numbers as texts, and no empty sets."""
    subscription: JsonValue = {"topic": "T1", "subString": "*", "subVersion": "1700000000000"}
    consumer: JsonValue = {
        "groupName": "cg",
        "consumeType": 1,
        "messageModel": "1",
        "consumeFromWhere": 4,
        "subscriptionDataSet": [subscription],
    }
    assert parse_heartbeat({"clientID": "c", "consumerDataSet": [consumer]}) == Heartbeat(
        "c",
        consumers=(
            ConsumerData(
                "cg",
                (Subscription("T1", version=1700000000000),),
                "CONSUME_PASSIVELY",
                "CLUSTERING",
                "CONSUME_FROM_FIRST_OFFSET",
            ),
        ),
    )


def test_nothing_but_an_id() -> None:
    assert parse_heartbeat({"clientID": "c", "producerDataSet": None}) == Heartbeat("c")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ([], "heartbeat must be an object"),
        ({}, "clientID is missing"),
        ({"clientID": 5}, "clientID must be a text, not '5'"),
        ({"clientID": "x" * 256}, "clientID has 256 characters"),
        ({"clientID": "c", "producerDataSet": "pg"}, "producerDataSet must be a list"),
        ({"clientID": "c", "producerDataSet": ["pg"]}, r"producerDataSet\[0\] must be an object"),
        ({"clientID": "c", "producerDataSet": [{"groupName": "g"}, {}]}, r"producerDataSet\[1\].groupName is missing"),
        ({"clientID": "c", "producerDataSet": [{}] * (MAX_SET + 1)}, "1001 members, at most 1000"),
        ({"clientID": "c", "withoutSub": "maybe"}, "withoutSub must be true or false"),
        ({"clientID": "c", "heartbeatFingerprint": 1 << 63}, "a whole number of 64 bits"),
        ({"clientID": "c", "heartbeatFingerprint": "x"}, "heartbeatFingerprint must be a whole number"),
        ({"clientID": "c", "heartbeatFingerprint": True}, "a whole number of 64 bits"),
        ({"clientID": "c", "consumerDataSet": [{"groupName": "g", "messageModel": 2}]}, "one of BROADCASTING, CLUST"),
        ({"clientID": "c", "consumerDataSet": [{"groupName": "g", "consumeType": "PULL"}]}, r"\.consumeType must be"),
        (
            {"clientID": "c", "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": [{"topic": "t"}, {}]}]},
            r"consumerDataSet\[0\].subscriptionDataSet\[1\].topic is missing",
        ),
    ],
)
def test_refused_with_the_place(body: JsonValue, text: str) -> None:
    with pytest.raises(BadBody, match=text):
        parse_heartbeat(body)


KEYS = ["clientID", "producerDataSet", "consumerDataSet", "groupName", "subscriptionDataSet", "topic", "subVersion"]
KEYS += ["consumeType", "messageModel", "tagsSet", "codeSet", "withoutSub"]
anything: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.sampled_from(["²", "٣", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=12,
)


@given(anything)
def test_anything_is_read_or_refused(body: JsonValue) -> None:
    try:
        read = parse_heartbeat(body)
    except BadBody:
        read = Heartbeat("refused")
    assert read.client_id
