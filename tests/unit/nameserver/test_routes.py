"""What a name server knows of brokers and topics, alone and beside a simple model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from litemq.errors import Busy
from litemq.nameserver import routes as routes_module
from litemq.nameserver import views
from litemq.nameserver.brokers import Accepted, Announcement, Refused
from litemq.nameserver.routes import Routes
from litemq.wire.remoting.topic_table import DataVersion, Queues

FOUR = Queues(4, 4, 6)
EIGHT = Queues(8, 8, 6)


def said(
    topics: Mapping[str, Queues] | None = None, *, name: str = "broker-a", version: int = 1, **others: object
) -> Announcement:
    found = {"T1": FOUR, "T2": FOUR} if topics is None else topics
    values: dict[str, Any] = {
        "cluster": "C",
        "broker_id": 0,
        "address": f"{name}:10911",
        "version": DataVersion(version),
        **others,
    }
    return Announcement(name=name, topics=found, **values)


def route(routes: Routes, topic: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(routes.route(topic) or b"{}")
    return found


def offers(routes: Routes, topic: str) -> dict[str, Queues]:
    return {
        data["brokerName"]: Queues(data["readQueueNums"], data["writeQueueNums"], data["perm"], data["topicSysFlag"])
        for data in route(routes, topic).get("queueDatas", ())
    }


def test_a_route_has_rocketmqs_shape_and_no_blanks() -> None:
    routes = Routes()
    assert routes.register(said(), owner=1, now_ms=0) == Accepted()
    assert routes.route("T1") == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"broker-a:10911"},"brokerName":"broker-a","cluster":"C",'
        b'"enableActingMaster":false}],"filterServerTable":{},'
        b'"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )
    assert routes.route("T3") is None


def test_brokers_of_a_route_are_in_the_order_of_their_names() -> None:
    routes = Routes()
    for name in ("broker-b", "broker-a"):
        routes.register(said(name=name), owner=name, now_ms=0)
    assert [data["brokerName"] for data in route(routes, "T1")["brokerDatas"]] == ["broker-a", "broker-b"]


def test_a_route_is_encoded_once_until_it_changes() -> None:
    routes = Routes()
    routes.register(said(), owner=1, now_ms=0)
    first, other = routes.route("T1"), routes.route("T2")
    routes.register(said(), owner=1, now_ms=1)
    assert routes.route("T1") is first
    routes.register(said({"T1": EIGHT}, version=2), owner=1, now_ms=2)
    assert routes.route("T1") != first
    assert routes.route("T2") is other


def test_what_changed_is_added_to_the_table() -> None:
    routes = Routes()
    routes.register(said(), owner=1, now_ms=0)
    routes.register(said({"T3": EIGHT}, version=2), owner=1, now_ms=0)
    assert sorted(routes.topics) == ["T1", "T2", "T3"]


def test_a_full_table_takes_away_what_is_not_in_it() -> None:
    routes = Routes()
    routes.register(said(), owner=1, now_ms=0)
    routes.register(said({"T2": FOUR}, version=2, is_full=True), owner=1, now_ms=0)
    assert list(routes.topics) == ["T2"]


def test_topics_that_a_broker_deleted_go_at_once() -> None:
    routes = Routes()
    routes.register(said(), owner=1, now_ms=0)
    routes.register(said({}, version=2, is_full=False, deleted=["T1", "T9"]), owner=1, now_ms=0)
    assert list(routes.topics) == ["T2"]


@pytest.mark.parametrize(("topics", "is_full"), [({"T1": FOUR}, None), ({"T1": FOUR, "T2": FOUR}, False)])
def test_what_changed_is_no_beginning(topics: dict[str, Queues], is_full: bool | None) -> None:
    routes = Routes()
    answer = routes.register(said(topics, is_full=is_full), owner=1, now_ms=0)
    assert isinstance(answer, Refused)
    assert "must send its whole table" in answer.reason
    assert not routes.brokers
    assert isinstance(routes.register(said({"T1": FOUR}, is_full=True), owner=1, now_ms=0), Accepted)


def test_a_known_version_changes_nothing_but_brings_back_what_is_missing() -> None:
    routes = Routes()
    routes.register(said(), owner=1, now_ms=0)
    assert not routes.compare("broker-a", "broker-a:10911", DataVersion(1), 0)
    routes.delete_topic("T1")
    assert routes.compare("broker-a", "broker-a:10911", DataVersion(1), 0)  # it is asked for its table
    routes.register(said({"T1": EIGHT, "T2": EIGHT}), owner=1, now_ms=0)
    assert not routes.compare("broker-a", "broker-a:10911", DataVersion(1), 0)
    assert offers(routes, "T1") == {"broker-a": EIGHT}
    assert offers(routes, "T2") == {"broker-a": FOUR}


def test_a_wiped_write_permission_stays_until_the_table_changes() -> None:
    routes = Routes()
    routes.register(said(), owner=1, now_ms=0)
    assert routes.wipe_write("broker-a") == 2
    assert offers(routes, "T1")["broker-a"].perm == 4
    routes.register(said(), owner=1, now_ms=0)
    assert offers(routes, "T1")["broker-a"].perm == 4
    assert routes.add_write("broker-a") == 2
    assert offers(routes, "T1")["broker-a"].perm == 6
    routes.wipe_write("broker-a")
    routes.register(said(version=2), owner=1, now_ms=0)
    assert offers(routes, "T1")["broker-a"].perm == 6
    assert routes.wipe_write("broker-z") == 0


def test_a_copy_is_told_its_master_and_does_not_speak_for_it() -> None:
    routes = Routes()
    routes.register(said(ha_address="broker-a:10912"), owner=1, now_ms=0)
    answer = routes.register(
        said({"T1": EIGHT, "T9": EIGHT}, broker_id=1, address="copy:1", acting_master=False), owner=2, now_ms=0
    )
    assert answer == Accepted("broker-a:10911", "broker-a:10912")
    assert offers(routes, "T1") == {"broker-a": FOUR}
    assert "T9" not in routes.topics
    assert route(routes, "T1")["brokerDatas"][0]["brokerAddrs"] == {"0": "broker-a:10911", "1": "copy:1"}


def test_a_copy_speaks_while_there_is_no_master_and_only_reads_when_it_stands_in() -> None:
    routes = Routes()
    copy = said({"T1": EIGHT, "T9": EIGHT}, broker_id=1, address="copy:1", acting_master=True)
    routes.register(copy, owner=2, now_ms=0)
    assert offers(routes, "T9") == {"broker-a": EIGHT._replace(perm=4)}
    too_old = said({"T1": EIGHT, "T9": EIGHT}, name="broker-b", broker_id=1)
    routes.register(too_old, owner=3, now_ms=0)
    assert offers(routes, "T9").keys() == {"broker-a"}


def test_a_copy_that_becomes_master_leaves_its_old_id() -> None:
    routes = Routes()
    routes.register(said(broker_id=1, address="copy:1", acting_master=False), owner=1, now_ms=0)
    assert routes.route("T1") is not None
    routes.register(said(broker_id=0, address="copy:1", acting_master=False), owner=1, now_ms=0)
    assert route(routes, "T1")["brokerDatas"][0]["brokerAddrs"] == {"0": "copy:1"}


def test_another_address_takes_over_an_id_unless_its_state_is_older() -> None:
    routes = Routes()
    routes.register(said(version=1), owner=1, now_ms=0)
    newer = said(address="other:1", version=1)
    assert routes.register(newer, owner=2, now_ms=0) == Accepted()
    assert route(routes, "T1")["brokerDatas"][0]["brokerAddrs"] == {"0": "other:1"}
    elected = Announcement(
        cluster="C",
        name="broker-a",
        broker_id=0,
        address="third:1",
        version=DataVersion(1, state_version=7),
        topics={"T1": FOUR, "T2": FOUR},
    )
    routes.register(elected, owner=3, now_ms=0)
    assert routes.register(newer, owner=2, now_ms=0) == Accepted()
    assert route(routes, "T1")["brokerDatas"][0]["brokerAddrs"] == {"0": "third:1"}


def test_a_broker_name_belongs_to_one_cluster() -> None:
    routes = Routes()
    routes.register(said(), owner=1, now_ms=0)
    refused = routes.register(said(cluster="D", address="other:1"), owner=2, now_ms=0)
    assert isinstance(refused, Refused)
    assert "taken by the cluster C" in refused.reason
    assert routes.register(said(cluster="D"), owner=1, now_ms=0) == Accepted()
    assert json.loads(views.cluster_info(routes))["clusterAddrTable"] == {"D": ["broker-a"]}


def test_a_lost_connection_takes_its_brokers_along_but_not_those_that_moved_on() -> None:
    routes = Routes()
    routes.register(said(name="broker-a"), owner="old", now_ms=0)
    routes.register(said(name="broker-b"), owner="old", now_ms=0)
    routes.register(said(name="broker-b"), owner="new", now_ms=0)
    routes.connection_lost("old")
    assert list(routes.brokers) == ["broker-b"]
    assert offers(routes, "T1").keys() == {"broker-b"}


def test_unregistering_the_last_address_takes_the_topics_along() -> None:
    routes = Routes()
    routes.register(said(), owner=1, now_ms=0)
    routes.register(said(broker_id=1, address="copy:1"), owner=2, now_ms=0)
    assert route(routes, "T1")["brokerDatas"][0]["brokerAddrs"] == {"0": "broker-a:10911", "1": "copy:1"}
    routes.unregister("broker-a", "broker-a:10911")
    assert route(routes, "T1")["brokerDatas"][0]["brokerAddrs"] == {"1": "copy:1"}
    routes.unregister("broker-a", "broker-a:10911")
    routes.unregister("broker-a", "copy:1")
    assert not routes.brokers
    assert not routes.topics
    assert routes.route("T1") is None


@pytest.mark.parametrize(
    ("announced", "heartbeats", "patience_ms"), [(None, False, 120_000), (None, True, 30_000), (5_000, True, 5_000)]
)
def test_a_silent_broker_goes_when_its_time_is_up(announced: int | None, heartbeats: bool, patience_ms: int) -> None:
    routes = Routes()
    routes.register(said(timeout_ms=announced), owner="owner", now_ms=0)
    if heartbeats:
        assert routes.heartbeat("broker-a", "broker-a:10911", 0)
    assert routes.expire(patience_ms) == []
    assert routes.expire(patience_ms + 1) == ["owner"]
    assert not routes.topics


def test_every_sign_of_life_counts() -> None:
    routes = Routes()
    routes.register(said(timeout_ms=10), owner=1, now_ms=0, mark="M")
    assert routes.heartbeat("broker-a", "broker-a:10911", 10)
    assert routes.expire(20) == []
    assert not routes.compare("broker-a", "broker-a:10911", DataVersion(1), 20)
    assert routes.expire(30) == []
    assert routes.is_repeated(said({}), "M", 1, 30) == Accepted()
    assert routes.expire(40) == []
    assert routes.compare("broker-a", "broker-a:10911", DataVersion(2), 40)  # no sign of life: it must register
    assert routes.expire(41) == [1]
    assert not routes.heartbeat("broker-a", "broker-a:10911", 41)
    assert routes.compare("broker-a", "broker-a:10911", DataVersion(1), 41)


def test_a_heartbeating_broker_that_registers_again_keeps_its_patience() -> None:
    routes = Routes()
    routes.register(said(), owner=1, now_ms=0)
    routes.heartbeat("broker-a", "broker-a:10911", 0)
    routes.register(said(version=2), owner=1, now_ms=0)
    assert routes.expire(30_001) == [1]


def test_an_owner_with_another_live_broker_is_kept() -> None:
    routes = Routes()
    routes.register(said(name="broker-a", timeout_ms=10), owner=1, now_ms=0)
    routes.register(said(name="broker-b"), owner=1, now_ms=0)
    assert routes.expire(11) == []
    assert list(routes.brokers) == ["broker-b"]


def test_a_repeated_table_is_read_again_after_a_topic_was_deleted() -> None:
    routes = Routes()
    routes.register(said(), owner=1, now_ms=0, mark="M")
    assert routes.is_repeated(said({}), "M", 2, 0) == Accepted()
    assert routes.is_repeated(said({}), "N", 2, 0) is None
    assert routes.is_repeated(said({}, address="other:1"), "M", 2, 0) is None
    routes.delete_topic("T1", "D")
    assert routes.is_repeated(said({}), "M", 2, 0) == Accepted()
    routes.delete_topic("T1", "C")
    assert routes.is_repeated(said({}), "M", 2, 0) is None
    routes.connection_lost(1)
    assert "broker-a" in routes.brokers
    routes.connection_lost(2)
    assert not routes.brokers


def test_queues_can_be_set_for_known_brokers() -> None:
    routes = Routes()
    routes.register(said(), owner=1, now_ms=0)
    routes.put_queues("T9", {"broker-a": EIGHT, "broker-z": EIGHT})
    assert offers(routes, "T9") == {"broker-a": EIGHT}
    routes.put_queues("T8", {"broker-z": EIGHT})
    assert "T8" not in routes.topics


def test_brokers_and_topics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes_module, "MAX_BROKERS", 1)
    monkeypatch.setattr(routes_module, "MAX_TOPICS", 3)
    routes = Routes()
    routes.register(said(), owner=1, now_ms=0)
    assert isinstance(routes.register(said(name="broker-b"), owner=1, now_ms=0), Refused)
    assert isinstance(routes.register(said({"T3": FOUR, "T4": FOUR}, version=2), owner=1, now_ms=0), Refused)
    assert isinstance(routes.register(said({"T1": FOUR, "T3": FOUR}, version=2), owner=1, now_ms=0), Accepted)
    with pytest.raises(Busy, match="3 topics"):
        routes.put_queues("T4", {"broker-a": FOUR})


def test_lists() -> None:
    routes = Routes()
    topics = {"T1": FOUR, "%RETRY%G": FOUR._replace(sys_flag=1), "U": FOUR._replace(sys_flag=3)}
    routes.register(said(topics), owner=1, now_ms=0)
    routes.register(said({"V": FOUR._replace(sys_flag=2), "T1": FOUR}, name="broker-b", cluster="D"), owner=2, now_ms=0)
    assert json.loads(views.all_topics(routes)) == {"topicList": ["T1", "%RETRY%G", "U", "V"]}
    assert json.loads(views.topics_of_cluster(routes, "D")) == {"topicList": ["T1", "V"]}
    assert json.loads(views.topics_of_cluster(routes, "E")) == {"topicList": []}
    assert json.loads(views.system_topics(routes)) == {
        "topicList": ["C", "D", "broker-a", "broker-b"],
        "brokerAddr": "broker-a:10911",
    }
    assert json.loads(views.topics_by_flag(routes, lambda flag: bool(flag & views.UNIT))) == {
        "topicList": ["%RETRY%G", "U"]
    }
    assert json.loads(views.member_group(routes, "C", "broker-a")) == {
        "brokerMemberGroup": {"brokerAddrs": {"0": "broker-a:10911"}, "brokerName": "broker-a", "cluster": "C"}
    }
    assert json.loads(views.member_group(routes, "C", "broker-z"))["brokerMemberGroup"]["brokerAddrs"] == {}
    assert json.loads(views.system_topics(Routes())) == {"topicList": []}
    assert json.loads(views.cluster_info(Routes())) == {"brokerAddrTable": {}, "clusterAddrTable": {}}


NAMES = st.sampled_from(["broker-a", "broker-b", "broker-c"])
TOPICS = st.sampled_from([f"T{number}" for number in range(5)])
QUEUES = st.builds(Queues, st.integers(1, 4), st.integers(1, 4), st.sampled_from([2, 4, 6]))


class RoutesBesideAModel(RuleBasedStateMachine):
    """Masters only: who has which topic, by the rules of registration, written down as plainly as possible."""

    def __init__(self) -> None:
        super().__init__()
        self.routes = Routes()
        self.now_ms = 0
        self.tables: dict[str, dict[str, Queues]] = {}
        self.versions: dict[str, int] = {}
        self.seen: dict[str, int] = {}
        self.owners: dict[str, int] = {}
        self.lacking: set[str] = set()

    def _gone(self, name: str) -> None:
        for known in (self.tables, self.versions, self.seen, self.owners):
            known.pop(name)
        self.lacking.discard(name)

    @rule(
        name=NAMES,
        topics=st.dictionaries(TOPICS, QUEUES, min_size=0, max_size=5),
        version=st.integers(1, 3),
        is_full=st.sampled_from([None, False, True]),
        owner=st.integers(1, 3),
        deleted=st.lists(TOPICS, max_size=2),
    )
    def register(
        self, name: str, topics: dict[str, Queues], version: int, is_full: bool | None, owner: int, deleted: list[str]
    ) -> None:
        answer = self.routes.register(
            said(topics, name=name, version=version, is_full=is_full, deleted=deleted), owner=owner, now_ms=self.now_ms
        )
        is_new = name not in self.tables
        if is_new and (is_full is False or (is_full is None and len(topics) == 1)):
            assert isinstance(answer, Refused)
            return
        assert answer == Accepted()
        table = self.tables.setdefault(name, {})
        if is_new or is_full is False or self.versions[name] != version:
            table.update(topics)
            if is_full:
                self.tables[name] = dict(topics)
        else:
            self.tables[name] = {**topics, **table}
        for topic in deleted:
            self.tables[name].pop(topic, None)
        self.lacking.discard(name)
        self.versions[name], self.seen[name], self.owners[name] = version, self.now_ms, owner

    @rule(name=NAMES, version=st.integers(1, 3))
    def compare(self, name: str, version: int) -> None:
        is_same = self.versions.get(name) == version and name not in self.lacking
        assert self.routes.compare(name, f"{name}:10911", DataVersion(version), self.now_ms) is not is_same
        if is_same:
            self.seen[name] = self.now_ms

    @rule(ms=st.integers(0, 100_000))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.routes.expire(self.now_ms)
        for name in [name for name, seen in self.seen.items() if self.now_ms - seen > 120_000]:
            self._gone(name)

    @rule(owner=st.integers(1, 3))
    def lose(self, owner: int) -> None:
        self.routes.connection_lost(owner)
        for name in [name for name, known in self.owners.items() if known == owner]:
            self._gone(name)

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def unregister(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.tables)))
        self.routes.unregister(name, f"{name}:10911")
        self._gone(name)

    @rule(topic=TOPICS)
    def delete(self, topic: str) -> None:
        self.routes.delete_topic(topic, "C")
        for name, table in self.tables.items():
            if table.pop(topic, None):
                self.lacking.add(name)

    @rule(name=NAMES, is_wiped=st.booleans())
    def permit(self, name: str, is_wiped: bool) -> None:
        count = self.routes.wipe_write(name) if is_wiped else self.routes.add_write(name)
        table = self.tables.get(name, {})
        assert count == len(table)
        for topic, queues in table.items():
            table[topic] = queues._replace(perm=queues.perm & 4 if is_wiped else 6)

    @invariant()
    def routes_are_as_in_the_model(self) -> None:
        assert self.routes.brokers.keys() == self.tables.keys()
        topics = {topic for table in self.tables.values() for topic in table}
        assert self.routes.topics.keys() == topics
        for topic in topics:
            wanted = {name: table[topic] for name, table in self.tables.items() if topic in table}
            assert offers(self.routes, topic) == wanted
            found = route(self.routes, topic)
            assert [data["brokerName"] for data in found["brokerDatas"]] == sorted(wanted)
            assert all(data["brokerAddrs"] == {"0": f"{data['brokerName']}:10911"} for data in found["brokerDatas"])
        for name, table in self.tables.items():
            assert self.routes.brokers[name].topics == table.keys()


TestRoutesBesideAModel = RoutesBesideAModel.TestCase
TestRoutesBesideAModel.settings = settings(max_examples=100, stateful_step_count=40)
