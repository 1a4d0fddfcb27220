"""RocketMQ's ``mqadmin`` 5.4.0: each command that people run, and what it shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.clients.conftest import fresh_name
from tests.clients.mqadmin import MqAdmin, Sent
from tests.clients.rocketmq import Toolbox, until
from tests.clients.servers import Server

pytestmark = pytest.mark.clients

COUNT = 20


@dataclass(frozen=True, slots=True)
class Stage:
    """A topic with messages, a group that has consumed them and is connected, and a producer group likewise."""

    admin: MqAdmin
    cluster: str
    broker: str
    address: str
    topic: str
    group: str
    producers: str
    sent: list[Sent]

    def shows(self, *command: str, seconds: float = 15, lines: list[str]) -> str:
        """Run a command until each pattern matches from the start of some line; return what it printed."""
        said = ""

        def has_all() -> bool:
            nonlocal said
            said = self.admin.run(*command)
            return all(re.search(f"^{line}", said, re.MULTILINE) for line in lines)

        try:
            until(has_all, "", seconds)
        except AssertionError:
            missing = [line for line in lines if not re.search(f"^{line}", said, re.MULTILINE)]
            raise AssertionError(f"{' '.join(command)} shows no {missing}: {said[:3000]}") from None
        return said

    def fresh_topic(self, part: str, queues: int = 4) -> str:
        """Create a topic."""
        topic = f"{self.topic}_{part}"
        self.admin.run("updateTopic", "-c", self.cluster, "-t", topic, "-r", str(queues), "-w", str(queues))
        return topic

    def route(self, topic: str) -> dict[str, int]:
        """Return a topic's queue data at its only broker."""
        shown = self.admin.run("topicRoute", "-t", topic)
        shown = re.sub(r"([{,]\s*)(\d+):", r'\1"\2":', shown)  # broker ids are bare
        (queues,) = json.loads(shown)["queueDatas"]
        assert isinstance(queues, dict)
        return queues


@pytest.fixture(scope="session")
def stage(server: Server, tools: Toolbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    admin = MqAdmin(tools, server.name_server, tmp_path_factory.mktemp("mqadmin"))
    row: list[re.Match[str]] = []

    def has_broker() -> bool:
        row[:] = re.finditer(r"^(\S+) +(\S+) +0 +(\S+:\d+) +V\d\S+ ", admin.run("clusterList"), re.MULTILINE)
        return len(row) == 1

    until(has_broker, "clusterList shows no broker")
    cluster, broker, address = row[0].groups()
    name = fresh_name()
    topic, group, producers = f"T{name}", f"G{name}", f"P{name}"
    admin.run("updateTopic", "-c", cluster, "-t", topic, "-r", "4", "-w", "4", "-a", "+message.type=NORMAL")
    admin.run("updateSubGroup", "-c", cluster, "-g", group, "-r", "5")
    yield Stage(admin, cluster, broker, address, topic, group, producers, admin.live(topic, group, producers, COUNT))
    admin.close()


def test_cluster_list(stage: Stage) -> None:
    said = stage.admin.run("clusterList")
    assert re.search(rf"^{stage.cluster} +{stage.broker} +0 +{stage.address} +V\S+ +\d+\.\d\d\(", said, re.MULTILINE)
    stage.shows("clusterList", "-m", lines=[rf"{stage.cluster} +{stage.broker} +\d+ +\d+ +\d+ +\d+"])


def test_topic_list(stage: Stage) -> None:
    topics = stage.admin.run("topicList").split()
    assert {stage.topic, f"%RETRY%{stage.group}", "TBW102"} <= set(topics)
    stage.shows("topicList", "-c", lines=[rf"{stage.cluster} +{stage.topic} +{stage.group}"])


def test_topic_route(stage: Stage) -> None:
    route = stage.route(stage.topic)
    assert (route["readQueueNums"], route["writeQueueNums"], route["perm"]) == (4, 4, 6)


def test_topic_status(stage: Stage) -> None:
    rows = [rf"{stage.broker} +{queue} +0 +{COUNT // 4} +20\d\d-" for queue in range(4)]
    stage.shows("topicStatus", "-t", stage.topic, lines=[*rows, r"Topic Put TPS: \d"])


def test_topic_cluster_list(stage: Stage) -> None:
    assert stage.admin.run("topicClusterList", "-t", stage.topic).split() == [stage.cluster]


@pytest.mark.parametrize("kind", ["NORMAL", "FIFO", "DELAY", "TRANSACTION"])
def test_update_topic_with_a_message_type(stage: Stage, kind: str) -> None:
    topic = f"{stage.topic}_{kind}"
    said = stage.admin.run(
        "updateTopic", "-c", stage.cluster, "-t", topic, "-r", "3", "-w", "3", "-a", f"+message.type={kind}"
    )
    assert f"create topic to {stage.address} success" in said
    assert stage.route(topic)["writeQueueNums"] == 3


def test_update_topic_changes_it(stage: Stage) -> None:
    topic = stage.fresh_topic("changed")
    said = stage.admin.run("updateTopic", "-b", stage.address, "-t", topic, "-r", "6", "-w", "5", "-p", "4")
    assert f"create topic to {stage.address} success" in said
    route = stage.route(topic)
    assert (route["readQueueNums"], route["writeQueueNums"], route["perm"]) == (6, 5, 4)
    said = stage.admin.run("updateTopicPerm", "-c", stage.cluster, "-t", topic, "-p", "6")
    assert "from 4 to 6" in said
    assert stage.route(topic)["perm"] == 6


def test_update_topic_with_order(stage: Stage) -> None:
    topic = f"{stage.topic}_ordered"
    said = stage.admin.run("updateTopic", "-c", stage.cluster, "-t", topic, "-r", "4", "-w", "4", "-o", "true")
    assert "success" in said
    said = stage.admin.run("updateOrderConf", "-m", "get", "-t", topic)
    assert f"orderConf=[{stage.broker}:4]" in said
    assert "success" in stage.admin.run("updateOrderConf", "-m", "delete", "-t", topic)


def test_delete_topic(stage: Stage) -> None:
    topic = stage.fresh_topic("gone")
    assert "SEND_OK" in stage.admin.run("sendMessage", "-t", topic, "-p", "soon gone")
    said = stage.admin.run("deleteTopic", "-c", stage.cluster, "-t", topic)
    assert f"delete topic [{topic}] from cluster [{stage.cluster}] success" in said
    until(lambda: topic not in stage.admin.run("topicList").split(), "the topic is still listed", 15)
    stage.fresh_topic("gone")
    stage.shows("topicStatus", "-t", topic, lines=[rf"{stage.broker} +{queue} +(\d+) +\1 " for queue in range(4)])


def test_groups(stage: Stage) -> None:
    group = f"{stage.group}_made"
    said = stage.admin.run("updateSubGroup", "-c", stage.cluster, "-g", group, "-r", "7", "-q", "2")
    assert f"create subscription group to {stage.address} success" in said
    stage.shows(
        "getConsumerConfig",
        "-g",
        group,
        lines=[r"retryMaxTimes += +7$", r"retryQueueNums += +2$", rf"groupName += +{group}$"],
    )
    said = stage.admin.run("deleteSubGroup", "-c", stage.cluster, "-g", group)
    assert f"delete subscription group [{group}] from broker [{stage.address}]" in said
    assert "success" in said
    assert group not in stage.admin.run("getConsumerConfig", "-g", group)


def test_consumer_progress(stage: Stage) -> None:
    rows = [rf"{stage.topic} +{stage.broker} +{queue} +5 +5 +0 +\d+ +20\d\d-" for queue in range(4)]
    stage.shows("consumerProgress", "-g", stage.group, lines=[*rows, "Consume Diff Total: 0"])
    rows = [rf"{stage.topic} +{stage.broker} +{queue} +5 +5 +\d+\.\d+\.\d+\.\d+ +0 " for queue in range(4)]
    stage.shows("consumerProgress", "-g", stage.group, "-s", "true", lines=rows)
    stage.shows("consumerProgress", lines=[rf"{stage.group} +1 +V\S+ +PUSH +CLUSTERING +\d+ +0"])


def test_consumer_connection(stage: Stage) -> None:
    stage.shows(
        "consumerConnection",
        "-g",
        stage.group,
        lines=[
            rf"\S+@{stage.group} +\S+:\d+ +JAVA +V5_4_0",
            rf"{stage.topic} +TagA \|\| TagB",
            rf"%RETRY%{stage.group} +\*",
            "ConsumeType: CONSUME_PASSIVELY",
            "MessageModel: CLUSTERING",
            "ConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET",
        ],
    )


def test_producer_connection(stage: Stage) -> None:
    row = rf"\d+ +\S+@{stage.producers} +\S+:\d+ +JAVA +V5_4_0"
    stage.shows("producerConnection", "-g", stage.producers, "-t", stage.topic, lines=[row])
    stage.shows(
        "producer", "-b", stage.address, lines=[rf"producer group \({stage.producers}\) instance : clientId=\S+,"]
    )


def test_consumer_status(stage: Stage) -> None:
    stage.shows(
        "consumerStatus",
        "-g",
        stage.group,
        lines=[rf"1 +\S+@{stage.group} +V5_4_0 +\d+/", "Same subscription", "Rebalance OK"],
    )


def test_broker_status(stage: Stage) -> None:
    for selector, prefix in (("-c", rf"{stage.address} +"), ("-b", "")):
        stage.shows(
            "brokerStatus",
            selector,
            stage.cluster if selector == "-c" else stage.address,
            lines=[
                rf"{prefix}brokerVersionDesc +: V",
                rf"{prefix}bootTimestamp +: \d{{13}}",
                rf"{prefix}msgPutTotalTodayNow +: \d+",
                rf"{prefix}msgGetTotalTodayNow +: \d+",
                rf"{prefix}putTps +: \d",
                rf"{prefix}getTotalTps +: \d",
                rf"{prefix}getTransferredTps +: \d",
                rf"{prefix}commitLogDiskRatio +: \d\.\d",
                rf"{prefix}commitLogMaxOffset +: [1-9]\d*",
                rf"{prefix}earliestMessageTimeStamp +: \d{{13}}",
                rf"{prefix}runtime +: \[",
            ],
        )


def test_broker_config(stage: Stage) -> None:
    stage.shows("getBrokerConfig", "-b", stage.address, lines=[rf"brokerName +=  {stage.broker}$"])
    said = stage.admin.run("getBrokerConfig", "-c", stage.cluster)
    before = re.search(r"^fileReservedTime +=  (\d+)$", said, re.MULTILINE)
    assert before is not None, said[:2000]
    for hours in ("71", before[1]):
        said = stage.admin.run("updateBrokerConfig", "-c", stage.cluster, "-k", "fileReservedTime", "-v", hours)
        assert f"update broker config success, {stage.address}" in said
        stage.shows("getBrokerConfig", "-b", stage.address, lines=[rf"fileReservedTime +=  {hours}$"])


def shown_message(stage: Stage, number: int) -> list[str]:
    sent = stage.sent[number]
    return [
        rf"Topic: +{stage.topic}$",
        rf"Tags: +\[Tag{'AB'[number % 2]}\]",
        rf"Keys: +\[key{number}\]",
        rf"Queue ID: +{sent.queue}$",
        rf"Queue Offset: +{sent.offset}$",
        rf"Store Host: +{stage.address}$",
        rf"Properties: +{{.*UNIQ_KEY={sent.unique_id}",
    ]


def test_query_by_id(stage: Stage) -> None:
    track = rf"MessageTrack \[consumerGroup={stage.group}, trackType=CONSUMED"
    for identity in (stage.sent[3].offset_id, stage.sent[3].unique_id):
        lines = [rf"OffsetID: +{stage.sent[3].offset_id}", *shown_message(stage, 3), track]
        stage.shows("queryMsgById", "-t", stage.topic, "-i", identity, lines=lines)


def test_query_by_unique_key(stage: Stage) -> None:
    identity = stage.sent[6].unique_id
    stage.shows("queryMsgByUniqueKey", "-t", stage.topic, "-i", identity, lines=shown_message(stage, 6))


def test_query_by_key(stage: Stage) -> None:
    sent = stage.sent[5]
    line = rf"{sent.unique_id} +{sent.queue} +{sent.offset}\b"
    said = stage.shows("queryMsgByKey", "-t", stage.topic, "-k", "key5", lines=[line])
    assert not any(other.unique_id in said for other in stage.sent if other is not sent)


def test_query_by_offset(stage: Stage) -> None:
    sent = stage.sent[9]
    place = ("-t", stage.topic, "-b", stage.broker, "-i", str(sent.queue), "-o", str(sent.offset))
    stage.shows("queryMsgByOffset", *place, lines=shown_message(stage, 9))


def test_print_and_consume_messages(stage: Stage) -> None:
    every = {sent.unique_id for sent in stage.sent}
    said = stage.admin.run("printMsg", "-t", stage.topic, "-d", "true")
    assert set(re.findall(r"MSGID: (\w+)", said)) == every
    assert {f"BODY: body {number}" for number in range(COUNT)} <= set(re.findall(r"BODY: body \d+", said))
    said = stage.admin.run("printMsg", "-t", stage.topic, "-s", "TagA")
    assert set(re.findall(r"MSGID: (\w+)", said)) == {sent.unique_id for sent in stage.sent[::2]}
    said = stage.admin.run("consumeMessage", "-t", stage.topic)
    assert set(re.findall(r"MSGID: (\w+)", said)) == every


def test_send_message(stage: Stage) -> None:
    topic = stage.fresh_topic("sent")
    said = stage.admin.run("sendMessage", "-t", topic, "-p", "hello", "-k", "greeting", "-c", "TagS")
    row = re.search(rf"^{stage.broker} +\d +SEND_OK +(\w+)$", said, re.MULTILINE)
    assert row is not None, said
    stage.shows("queryMsgByKey", "-t", topic, "-k", "greeting", lines=[row[1]])
    said = stage.admin.run("sendMessage", "-t", topic, "-p", "there", "-b", stage.broker, "-i", "2")
    assert re.search(rf"^{stage.broker} +2 +SEND_OK", said, re.MULTILINE)


def test_reset_skip_and_clone(stage: Stage) -> None:
    topic, group, producers = stage.fresh_topic("reset"), f"{stage.group}_r", f"{stage.producers}_r"
    stage.admin.live(topic, group, producers, 8)
    zero = [rf"{stage.broker} +{queue} +0 *$" for queue in range(4)]
    said = stage.admin.run("resetOffsetByTime", "-g", group, "-t", topic, "-s", "0")
    assert all(re.search(f"^{line}", said, re.MULTILINE) for line in zero), said
    said = stage.admin.run("skipAccumulatedMessage", "-g", group, "-t", topic)
    two = [rf"{stage.broker} +{queue} +2 *$" for queue in range(4)]
    assert all(re.search(f"^{line}", said, re.MULTILINE) for line in two), said
    other = f"{group}_clone"
    stage.admin.run("updateSubGroup", "-c", stage.cluster, "-g", other)
    stage.shows("consumerProgress", "-g", group, seconds=60, lines=["Consume Diff Total: 0"])
    said = stage.admin.run("cloneGroupOffset", "-s", group, "-d", other, "-t", topic)
    assert f"clone group offset success. srcGroup[{group}], destGroup=[{other}]" in said
    stage.shows("statsAll", "-t", topic, lines=[rf"{topic} +{group} +0 ", rf"{topic} +{other} +0 "])


def test_statistics(stage: Stage) -> None:
    stage.shows("statsAll", lines=[rf"{stage.topic} +{stage.group} +0 +\d+\.\d+ +\d+\.\d+ +\d+ +\d+"])
    rows = [rf"{stage.topic} +{stage.group} +{stage.broker} +{queue} +5 +5 +0" for queue in range(4)]
    stage.shows("brokerConsumeStats", "-b", stage.address, lines=rows)


def test_write_permission_of_a_broker(stage: Stage) -> None:
    said = stage.admin.run("wipeWritePerm", "-b", stage.broker)
    assert re.search(rf"wipe write perm of broker\[{stage.broker}\] in name server\[\S+\] OK, [1-9]", said)
    try:
        assert stage.route(stage.topic)["perm"] == 4
    finally:
        said = stage.admin.run("addWritePerm", "-b", stage.broker)
    assert re.search(rf"add write perm of broker\[{stage.broker}\] in name server\[\S+\] OK, [1-9]", said)
    assert stage.route(stage.topic)["perm"] == 6


def test_kv_config(stage: Stage) -> None:
    said = stage.admin.run("updateKvConfig", "-s", "LITEMQ_TEST", "-k", "colour", "-v", "green")
    assert "create or update kv config to namespace success" in said
    assert "delete kv config from namespace success" in stage.admin.run(
        "deleteKvConfig", "-s", "LITEMQ_TEST", "-k", "colour"
    )
    topic = stage.fresh_topic("kv")
    assert "success" in stage.admin.run("updateOrderConf", "-m", "put", "-t", topic, "-v", f"{stage.broker}:4")
    assert f"orderConf=[{stage.broker}:4]" in stage.admin.run("updateOrderConf", "-m", "get", "-t", topic)
    assert "success" in stage.admin.run("updateOrderConf", "-m", "delete", "-t", topic)


def test_name_server_config(stage: Stage) -> None:
    stage.shows("getNamesrvConfig", lines=[r"listenPort += +\d+$"])


def test_what_is_missing_is_an_error(stage: Stage) -> None:
    for command in (
        ("topicRoute", "-t", f"{stage.topic}_nowhere"),
        ("topicStatus", "-t", f"{stage.topic}_nowhere"),
        ("consumerConnection", "-g", f"{stage.group}_nobody"),
        ("queryMsgByKey", "-t", stage.topic, "-k", "no-such-key"),
    ):
        with pytest.raises(AssertionError, match="Exception"):
            stage.admin.run(*command)
