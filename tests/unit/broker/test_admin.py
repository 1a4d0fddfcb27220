"""Requests that make, alter, delete and list topics and groups, over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Talk, records, running

from litemq.broker.admin import changed_attributes, parse_attributes
from litemq.config import BrokerConfig
from litemq.errors import BadField
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Response


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


async def _put(talk: Talk, topic: str, queues: int = 4, /, **others: str) -> Response:
    ext = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    return await talk.call(Ask.UPDATE_AND_CREATE_TOPIC, {**ext, **others})


async def _config(talk: Talk, topic: str) -> dict[str, Any]:
    answer = await talk.call(Ask.GET_TOPIC_CONFIG, {"topic": topic, "lo": "true"})
    assert answer.code == Code.SUCCESS, answer
    config: dict[str, Any] = json.loads(answer.body)
    return config


def test_a_topic_is_made_altered_and_deleted(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (_, talk):
            assert (await talk.call(Ask.GET_TOPIC_CONFIG, {"topic": "T"})).code == Code.TOPIC_NOT_EXIST
            assert (await _put(talk, "T", order="true", attributes="+message.type=FIFO")).code == Code.SUCCESS
            assert await _config(talk, "T") == {
                "attributes": {"message.type": "FIFO"},
                "order": True,
                "perm": 6,
                "readQueueNums": 4,
                "topicFilterType": "SINGLE_TAG",
                "topicName": "T",
                "topicSysFlag": 0,
                "writeQueueNums": 4,
            }
            await _put(talk, "T", 8, perm="4", attributes="-message.type,+colour=red")
            config = await _config(talk, "T")
            assert (config["readQueueNums"], config["perm"], config["order"]) == (8, 4, False)
            assert config["attributes"] == {"colour": "red"}
            await _put(talk, "T", 8)
            assert (await _config(talk, "T"))["attributes"] == {"colour": "red"}  # not mentioned: kept

            assert (await talk.call(Ask.DELETE_TOPIC_IN_BROKER, {"topic": "T"})).code == Code.SUCCESS
            assert (await talk.call(Ask.DELETE_TOPIC_IN_BROKER, {"topic": "T"})).code == Code.SUCCESS
            assert (await talk.call(Ask.GET_TOPIC_CONFIG, {"topic": "T"})).code == Code.TOPIC_NOT_EXIST

    _run(test())


def test_growing_keeps_messages_and_shrinking_hides_them(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (_, talk):
            await _put(talk, "T", 2)
            await talk.send("T", b"kept", queue=1)
            await _put(talk, "T", 5)
            assert (await talk.send("T", b"new", queue=4)).code == Code.SUCCESS
            assert [record.body for record in records((await talk.pull("T", 0, queue=1)).body)] == [b"kept"]
            await _put(talk, "T", 1)
            assert (await talk.pull("T", 0, queue=1)).code == Code.INVALID_PARAMETER
            await _put(talk, "T", 2)
            assert [record.body for record in records((await talk.pull("T", 0, queue=1)).body)] == [b"kept"]

    _run(test())


@pytest.mark.parametrize(
    "wrong",
    [
        {"topic": "TBW102"},
        {"topic": "DefaultCluster"},
        {"topic": "a b"},
        {"topic": "x" * 128},
        {"readQueueNums": "-1"},
        {"readQueueNums": "0", "writeQueueNums": "0"},
        {"readQueueNums": str(1 << 30)},
        {"perm": "8"},
        {"perm": "six"},
        {"attributes": "colour=red"},
        {"attributes": "+colour"},
        {"attributes": "-colour=red"},
        {"attributes": "+a=1,+a=2"},
        {"attributes": "+queue.backlog=many"},
        {"attributes": "+a=" + "x" * 2000},
    ],
)
def test_what_cannot_be_a_topic_is_refused(wrong: dict[str, str], tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            before = [topic.to_json() for topic in broker.topics.all()]
            others = {name: value for name, value in wrong.items() if name != "topic"}
            answer = await _put(talk, wrong.get("topic", "T"), 4, **others)
            assert answer.code == Code.INVALID_PARAMETER, answer
            assert answer.remark
            assert [topic.to_json() for topic in broker.topics.all()] == before

    _run(test())


def test_names_of_litemq_own_are_refused_and_system_topics_stay(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            assert (await _put(talk, "LITEMQ_SYS_X")).code == Code.NO_PERMISSION
            for topic in ("TBW102", "SCHEDULE_TOPIC_XXXX", "DefaultCluster"):
                answer = await talk.call(Ask.DELETE_TOPIC_IN_BROKER, {"topic": topic})
                assert answer.code == Code.INVALID_PARAMETER
                assert broker.topics.find(topic) is not None
            told = json.loads((await talk.call(Ask.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, {})).body)
            assert {"TBW102", "SCHEDULE_TOPIC_XXXX", "DefaultCluster", "broker-a"} <= set(told["topicList"])

    _run(test())


def test_the_table_of_topics_hides_litemq_own(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (_, talk):
            await _put(talk, "T")
            answer = await talk.call(Ask.GET_ALL_TOPIC_CONFIG, {"topicSeq": "0", "maxTopicNum": "100"})
            assert "totalTopicNum" not in answer.ext
            assert b" " not in answer.body
            told = json.loads(answer.body)
            assert told.keys() == {"dataVersion", "topicConfigTable"}
            assert told["dataVersion"].keys() == {"counter", "stateVersion", "timestamp"}
            assert told["topicConfigTable"]["T"] == await _config(talk, "T")
            assert not [name for name in told["topicConfigTable"] if name.startswith("LITEMQ")]

    _run(test())


def test_topics_of_a_list_are_made_all_or_none(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):

            async def put(*topics: object) -> Response:
                body = json.dumps({"topicConfigList": topics}).encode()
                return await talk.call(Ask.UPDATE_AND_CREATE_TOPIC_LIST, {}, body)

            one = {"topicName": "L1", "readQueueNums": 3, "writeQueueNums": 3, "perm": 6}
            two = {"topicName": "L2", "attributes": {"+message.type": "NORMAL"}}
            assert (await put(one, {"topicName": "TBW102"})).code == Code.INVALID_PARAMETER
            assert broker.topics.find("L1") is None
            assert (await put(one, two)).code == Code.SUCCESS
            assert (await _config(talk, "L1"))["writeQueueNums"] == 3
            assert (await _config(talk, "L2"))["attributes"] == {"message.type": "NORMAL"}
            assert (await put("L3")).code == Code.INVALID_PARAMETER
            wrong = await talk.call(Ask.UPDATE_AND_CREATE_TOPIC_LIST, {}, b"[]")
            assert wrong.code == Code.INVALID_PARAMETER

    _run(test())


def test_the_status_of_a_topic_has_every_queue(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (_, talk):
            await _put(talk, "T", 2)
            await talk.send("T", b"1", queue=1)
            await talk.send("T", b"2", queue=1)
            (_, last) = records((await talk.pull("T", 0, queue=1)).body)
            answer = await talk.call(Ask.GET_TOPIC_STATS_INFO, {"topic": "T"})
            head, _, rest = answer.body.partition(b',"offsetTable":')
            assert json.loads(head + b"}").keys() == {"topicPutTps"}
            assert json.loads(head + b"}")["topicPutTps"] > 0
            assert rest == (
                b'{{"brokerName":"broker-a","queueId":0,"topic":"T"}:'
                b'{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0},'
                b'{"brokerName":"broker-a","queueId":1,"topic":"T"}:'
                b'{"lastUpdateTimestamp":%d,"maxOffset":2,"minOffset":0}}}' % (last.store_time or 0)
            )
            missing = await talk.call(Ask.GET_TOPIC_STATS_INFO, {"topic": "none"})
            assert missing.code == Code.TOPIC_NOT_EXIST

    _run(test())


def test_cleaning_is_answered(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (_, talk):
            for code in (Ask.CLEAN_EXPIRED_CONSUMEQUEUE, Ask.CLEAN_UNUSED_TOPIC, Ask.DELETE_EXPIRED_COMMITLOG):
                assert (await talk.call(code, {})).code == Code.SUCCESS

    _run(test())


# -- groups -------------------------------------------------------------------------------------


async def _put_group(talk: Talk, **config: object) -> Response:
    return await talk.call(Ask.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps(config).encode())


def test_a_group_is_made_altered_and_deleted(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, config=BrokerConfig(port=0, name_servers=(), auto_create_groups=False)) as (
            broker,
            talk,
        ):
            missing = await talk.call(Ask.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "G"})
            assert missing.code == Code.SUBSCRIPTION_GROUP_NOT_EXIST
            made = await _put_group(talk, groupName="G", retryMaxTimes=3, attributes={"+a": "1", "+b": "2"})
            assert made.code == Code.SUCCESS
            config = json.loads((await talk.call(Ask.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "G"})).body)
            assert config == {
                "attributes": {"a": "1", "b": "2"},
                "brokerId": 0,
                "consumeBroadcastEnable": True,
                "consumeEnable": True,
                "consumeFromMinEnable": True,
                "consumeMessageOrderly": False,
                "consumeTimeoutMinute": 15,
                "groupName": "G",
                "groupRetryPolicy": {"type": "CUSTOMIZED"},
                "groupSysFlag": 0,
                "notifyConsumerIdsChangedEnable": True,
                "retryMaxTimes": 3,
                "retryQueueNums": 1,
                "whichBrokerWhenConsumeSlowly": 1,
            }
            await _put_group(talk, groupName="G", consumeEnable=False, attributes={"-a": ""})
            assert not broker.groups.known("G").can_consume
            assert broker.groups.known("G").max_retries == 3
            assert broker.groups.known("G").attributes == {"b": "2"}
            assert broker.topics.find("%RETRY%G") is None  # its first heartbeat makes it

            for _ in range(2):
                answer = await talk.call(Ask.DELETE_SUBSCRIPTIONGROUP, {"groupName": "G", "cleanOffset": "true"})
                assert answer.code == Code.SUCCESS
            assert broker.groups.find("G") is None

    _run(test())


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"groupName": "a b"},
        {"groupName": 7},
        {"groupName": "G", "retryMaxTimes": "many"},
        {"groupName": "G", "retryQueueNums": True},
        {"groupName": "G", "retryQueueNums": 1 << 40},
        {"groupName": "G", "retryMaxTimes": 1 << 31},
        {"groupName": "G", "consumeEnable": 1},
    ],
)
def test_what_cannot_be_a_group_is_refused(wrong: dict[str, object], tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            count = len(broker.groups)
            assert (await _put_group(talk, **wrong)).code == Code.INVALID_PARAMETER
            assert len(broker.groups) == count
            assert (await talk.call(Ask.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, b"{")).code == Code.INVALID_PARAMETER

    _run(test())


def test_the_table_of_groups_has_presets_and_what_nobody_is_forbidden(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (_, talk):
            body = json.dumps({"groupConfigList": [{"groupName": "G1"}, {"groupName": "G2"}]}).encode()
            assert (await talk.call(Ask.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, {}, body)).code == Code.SUCCESS
            answer = await talk.call(Ask.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {})
            assert "totalGroupNum" not in answer.ext
            told = json.loads(answer.body)
            assert told.keys() == {"dataVersion", "forbiddenTable", "subscriptionGroupTable"}
            assert told["forbiddenTable"] == {}
            assert {"TOOLS_CONSUMER", "G1", "G2"} <= told["subscriptionGroupTable"].keys()
            assert told["subscriptionGroupTable"]["G1"]["retryMaxTimes"] == 16

    _run(test())


def test_deleting_a_group_keeps_or_drops_how_far_it_read(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            for clean, left in (("false", 5), ("true", None)):
                await _put_group(talk, groupName="G")
                broker.offsets.commit("G", "T", 0, 5)
                await talk.call(Ask.DELETE_SUBSCRIPTIONGROUP, {"groupName": "G", "cleanOffset": clean})
                assert broker.store.progress.offset("G", "T", 0) == left

    _run(test())


def test_who_is_connected(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (_, talk):
            offline = await talk.call(Ask.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "cg"})
            assert offline.code == Code.CONSUMER_NOT_ONLINE
            nobody = await talk.call(Ask.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "pg", "topic": "T"})
            assert nobody.code == Code.SYSTEM_ERROR

            await talk.heartbeat("c1", consumes={"cg": {"T": "A"}}, produces=("pg",))
            told = json.loads((await talk.call(Ask.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "cg"})).body)
            (member,) = told.pop("connectionSet")
            assert member.pop("clientAddr").startswith("127.0.0.1:")
            assert member == {"clientId": "c1", "language": "PYTHON", "version": 479}
            assert told == {
                "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING",
                "subscriptionTable": {
                    "T": {
                        "classFilterMode": False,
                        "codeSet": [],
                        "expressionType": "TAG",
                        "subString": "A",
                        "subVersion": 1,
                        "tagsSet": [],
                        "topic": "T",
                    }
                },
            }
            told = json.loads((await talk.call(Ask.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "pg"})).body)
            assert [member["clientId"] for member in told["connectionSet"]] == ["c1"]
            told = json.loads((await talk.call(Ask.GET_ALL_PRODUCER_INFO, {})).body)
            (producer,) = told["data"]["pg"]
            assert producer.keys() == {"clientId", "language", "lastUpdateTimestamp", "remoteIP", "version"}
            assert producer["lastUpdateTimestamp"] > 1_700_000_000_000

            told = json.loads((await talk.call(Ask.QUERY_SUBSCRIPTION_BY_CONSUMER, {"group": "cg", "topic": "T"})).body)
            assert (told["group"], told["topic"], told["subscriptionData"]["subString"]) == ("cg", "T", "A")
            told = json.loads((await talk.call(Ask.QUERY_SUBSCRIPTION_BY_CONSUMER, {"group": "no", "topic": "T"})).body)
            assert told == {"group": "no", "topic": "T"}

    _run(test())


# -- attributes ---------------------------------------------------------------------------------


def test_attributes_are_read_as_changes() -> None:
    assert parse_attributes("+a=1, -b ,+message.type=FIFO") == {"+a": "1", "-b": "", "+message.type": "FIFO"}
    assert parse_attributes("") == {}
    assert changed_attributes({"b": "2", "c": "3"}, {"+a": "1", "-b": "", "plain": "x"}) == {
        "a": "1",
        "c": "3",
        "plain": "x",
    }


def test_attributes_are_bounded() -> None:
    with pytest.raises(BadField, match="too many"):
        changed_attributes({}, {f"+k{number}": "v" for number in range(65)})
