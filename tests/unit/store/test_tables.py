"""Topics and groups: changes in the log, snapshots beside it, deletions that stay deletions."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.store.live_support import bodies, fill, largest, open_store, small

from litemq.clock import ManualClock
from litemq.errors import InvalidRequest, RecordTooLarge, ReservedName, TopicUnusable, UnknownTopic
from litemq.format.config_json import JsonObject
from litemq.format.record import LITEMQ, ROCKETMQ
from litemq.store.changes import Change, Deletions, decode, encode
from litemq.store.message_store import MessageStore
from litemq.store.tables import Tables, numbers
from litemq.types import Message


def after(*changes: Change) -> Tables:
    """Return tables after changes at positions 100, 200, …"""
    tables = Tables()
    for number, change in enumerate(changes, 1):
        tables.apply(change, 100 * number)
    return tables


def state(tables: Tables) -> tuple[object, ...]:
    gone = tables.deletions
    return (
        tables.log_id,
        tables.topics,
        tables.groups,
        tables.incarnations,
        gone.dead_below,
        gone.next_offsets,
        gone.min_offsets,
        sorted(tables._positions.items()),
    )


CHANGES = (
    Change("identity", "log"),
    Change("topic", "a", {"perm": 6}, "one"),
    Change("topic", "b", {"perm": 4}, "two"),
    Change("group", "g", {"x": 1}),
    Change("group", "h", {}),
    Change("min-offsets", "a", offsets={0: 5}),
    Change("topic-deleted", "a", offsets={0: 9, 1: 3}),
    Change("group-deleted", "h"),
    Change("topic", "a", {"perm": 2}, "three"),
    Change("min-offsets", "a", offsets={0: 12}),
    Change("topic", "b", {"perm": 6}, "two"),
    Change("group", "h", {"y": 2}),
)


# -- changes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change.op} {change.name}")
def test_a_change_is_read_as_it_was_written(change: Change) -> None:
    assert decode(encode(change)) == change


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"5",
        b"\xff\xfe",
        b'{"op":"later"}',
        b'{"op":"topic"}',
        b'{"op":"topic","topic":5}',
        b'{"op":"topic","topic":"a","config":[]}',
        b'{"op":"topic","topic":"a","incarnation":1}',
        b'{"op":"topic-deleted","topic":"a","next_offsets":[]}',
        b'{"op":"topic-deleted","topic":"a","next_offsets":{"x":1}}',
        b'{"op":"topic-deleted","topic":"a","next_offsets":{"0":"1"}}',
        b'{"op":["identity"]}',
        b"[" * 100_000,
    ],
)
def test_a_body_that_is_no_change_is_none(body: bytes) -> None:
    assert decode(body) is None


def test_records_before_a_deletion_are_dead() -> None:
    gone = Deletions()
    gone.apply(Change("topic-deleted", "a", offsets={0: 9}), 500)
    gone.apply(Change("min-offsets", "b", offsets={2: 7}), 600)
    assert gone.is_dead("a", 0, 3, 499)
    assert not gone.is_dead("a", 0, 9, 501)
    assert gone.is_dead("b", 2, 6, 700)
    assert not gone.is_dead("b", 2, 7, 700)
    assert not gone.is_dead("b", 3, 0, 700)
    assert gone.is_dead("a", 0, None, 499)  # prepared: without a place in its queue it goes with its topic only
    assert not gone.is_dead("b", 2, None, 500)
    gone.apply(Change("topic-deleted", "a", offsets={0: 4}), 300)  # an older one met again takes nothing back
    assert (gone.dead_below["a"], gone.next_offsets["a"]) == (500, {0: 9})


# -- tables ----------------------------------------------------------------------------------------------------------


def test_changes_add_up() -> None:
    tables = after(*CHANGES)
    assert tables.log_id == "log"
    assert tables.topics == {"a": {"perm": 2}, "b": {"perm": 6}}
    assert tables.groups == {"g": {"x": 1}, "h": {"y": 2}}
    assert tables.incarnations == {"a": "three", "b": "two"}
    assert (tables.first_offset("a", 0), tables.first_offset("a", 1), tables.first_offset("a", 2)) == (12, 3, 0)


def test_the_first_identity_stays() -> None:
    assert after(Change("identity", "one"), Change("identity", "two")).log_id == "one"


@pytest.mark.parametrize("at", range(len(CHANGES) + 1))
@pytest.mark.parametrize("older", range(len(CHANGES) + 1))
def test_any_pair_of_snapshots_and_the_rest_of_the_log_give_the_same(at: int, older: int) -> None:
    """One of the two may be of an earlier checkpoint, or its ``.bak``."""
    whole = after(*CHANGES)
    topics = after(*CHANGES[:at]).to_topics(100 * at + 50, 1)
    groups = after(*CHANGES[:older]).to_groups(100 * older + 50, 1)
    tables = Tables()
    tables.load(json.loads(json.dumps(topics)), json.loads(json.dumps(groups)))
    assert tables.replay_from == 100 * min(at, older) + 50
    for number, change in enumerate(CHANGES, 1):
        tables.replay(change, 100 * number)
    assert state(tables)[:6] == state(whole)[:6]
    for topic, queue in itertools.product("ab", range(3)):
        assert tables.first_offset(topic, queue) == whole.first_offset(topic, queue)


@pytest.mark.parametrize("missing", ["topics", "groups", "both"])
def test_a_missing_snapshot_is_replayed_from_the_start(missing: str) -> None:
    whole = after(*CHANGES)
    topics = None if missing in ("topics", "both") else whole.to_topics(5000, 1)
    groups = None if missing in ("groups", "both") else whole.to_groups(5000, 1)
    tables = Tables()
    tables.load(topics, groups)
    assert tables.replay_from == 0
    for number, change in enumerate(CHANGES, 1):
        tables.replay(change, 100 * number)
    assert state(tables)[:4] == state(whole)[:4]


@pytest.mark.parametrize("at", range(len(CHANGES) + 1))
@pytest.mark.parametrize("older", range(len(CHANGES) + 1))
def test_any_pair_of_snapshots_knows_what_must_be_carried(at: int, older: int) -> None:
    whole = after(*CHANGES)
    tables = Tables()
    tables.load(
        after(*CHANGES[:at]).to_topics(100 * at + 50, 1) if at else None,
        after(*CHANGES[:older]).to_groups(100 * older + 50, 1),
    )
    for number, change in enumerate(CHANGES, 1):
        tables.replay(change, 100 * number)
    assert tables.live_below(5000) == whole.live_below(5000)


@pytest.mark.parametrize("rewritten", ["topics", "groups"])
def test_a_snapshot_that_a_real_rocketmq_rewrote_says_nothing_of_the_other(rewritten: str) -> None:
    old, whole = after(*CHANGES[:2]), after(*CHANGES)
    topics, groups = old.to_topics(250, 1), old.to_groups(250, 1)
    del (topics if rewritten == "topics" else groups)["litemq"]
    tables = Tables()
    tables.load(topics, groups)
    for number, change in enumerate(CHANGES, 1):
        tables.replay(change, 100 * number)
    assert tables.is_foreign
    assert tables.topics == (old.topics if rewritten == "topics" else whole.topics)
    assert tables.groups == (old.groups if rewritten == "groups" else whole.groups)
    assert tables.log_id == whole.log_id


@pytest.mark.parametrize("start", range(50, 100 * len(CHANGES) + 100, 100))
def test_what_is_carried_says_all_that_still_holds(start: int) -> None:
    """A log that begins at ``start``, with the carried changes at its end, is as good as the whole one."""
    whole = after(*CHANGES)
    end = 100 * len(CHANGES) + 100
    rest = [(number * 100, change) for number, change in enumerate(CHANGES, 1) if number * 100 >= start]
    for change, _, origin in whole.live_below(start):
        rest.append((end, change))
        whole.apply(change, end, origin)
        end += 100
    assert whole.live_below(start) == []
    alone = Tables()
    for position, change in rest:
        alone.apply(change, position)
    assert (alone.log_id, alone.topics, alone.groups) == (whole.log_id, whole.topics, whole.groups)
    assert alone.incarnations == whole.incarnations
    for topic, queue in itertools.product("ab", range(3)):
        assert alone.first_offset(topic, queue) == whole.first_offset(topic, queue)


@pytest.mark.parametrize("restart", ["none", "snapshot", "replay"])
def test_a_change_keeps_its_origin_however_often_it_is_carried(restart: str) -> None:
    tables = after(*CHANGES)
    first = {(live.change.op, live.change.name): live.origin for live in tables.live_below(5000)}
    assert first[("topic", "b")] == 1100
    for start in (5000, 6000, 7000):
        log = [(live.change, start + number, live.origin) for number, live in enumerate(tables.live_below(start))]
        for change, position, origin in log:
            tables.apply(change, position, origin)
        topics = json.loads(json.dumps(tables.to_topics(start + 500, 1)))
        groups = json.loads(json.dumps(tables.to_groups(start + 500, 1)))
        if restart != "none":
            tables = Tables()
        if restart == "snapshot":
            tables.load(topics, groups)
            assert tables.replay_from == start + 500
        elif restart == "replay":
            for change, position, origin in log:
                tables.replay(change, position, origin)
        found = {(live.change.op, live.change.name): live.origin for live in tables.live_below(9000)}
        assert found == first
    tables.apply(Change("topic", "b", {"perm": 2}, "two"), 8000)  # said anew
    assert {live.origin for live in tables.live_below(9000) if live.change.name == "b"} == {8000}


def test_a_snapshot_without_origins_takes_positions_for_them() -> None:
    tables = after(*CHANGES)
    topics = tables.to_topics(5000, 1)
    ours = topics["litemq"]
    assert isinstance(ours, dict)
    del ours["origins"]  # of a version that did not keep them
    again = Tables()
    again.load(topics, tables.to_groups(5000, 1))
    assert again.live_below(5000) == tables.live_below(5000)


def test_positions_without_their_tables_are_no_harm() -> None:
    """A damaged snapshot may speak of what the tables do not have."""
    tables = Tables()
    table = after(*CHANGES).to_topics(5000, 1)
    table["topicConfigTable"] = {}
    tables.load(table, {"litemq": {"position": 5000}})
    assert {live.change.op for live in tables.live_below(1 << 40)} <= {"identity", "min-offsets"}


@pytest.mark.parametrize(
    "ours",
    [
        5,
        {"position": "x"},
        {"position": True},
        {"position": 5, "logId": 7, "incarnations": [], "deadBelow": {"a": "x"}, "nextOffsets": {"a": 5}},
        {"position": 5, "minOffsets": {"a": {"0": True, "x": 1}}, "positions": {"odd": "x", "topic zzz": 3}},
    ],
)
def test_a_snapshot_with_strange_values_is_read_without_them(ours: JsonObject) -> None:
    tables = Tables()
    tables.load({"topicConfigTable": {"a": {}, "b": 5}, "litemq": ours}, {"litemq": {"position": 5}})
    assert tables.topics == {"a": {}}
    assert tables.deletions.min_offsets.get("a", {}) == {}
    tables.live_below(1 << 40)


def test_numbers_are_numbers() -> None:
    assert numbers({"0": 5, "x": 1, "1": True, "2": "3", "３": 4, "-1": 2}) == {0: 5}
    assert numbers([]) == {}


# -- in a store ------------------------------------------------------------------------------------------------------


def tables_of(store: MessageStore) -> tuple[object, ...]:
    return state(store.tables)[:6]


def test_tables_come_back_after_any_stop(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.put_topic("a", {"perm": 4})
    store.put_group("g", {"retryMaxTimes": 3})
    store.put_group("h")
    store.checkpoint()
    store.delete_group("h")
    fill(store, 5, topic="b")
    store.delete_topic("b")
    before = tables_of(store)
    store.flush()
    store.abandon()
    with open_store(tmp_path) as store:
        assert tables_of(store) == before
        assert store.tables.topics["a"]["perm"] == 4
        assert store.tables.groups == {"g": {"retryMaxTimes": 3, "groupName": "g"}}
    for name in ("topics.json", "subscriptionGroup.json"):
        for path in (tmp_path / "store" / "config").glob(name + "*"):
            path.unlink()
    with open_store(tmp_path) as store:
        assert tables_of(store) == before


@pytest.mark.parametrize("together", [False, True])
def test_a_topic_is_known_from_its_first_message_on(tmp_path: Path, together: bool) -> None:
    with open_store(tmp_path) as store:
        messages = [Message("orders", b"", queue_id=queue_id) for queue_id in (2, 0, 5)]
        store.append_many(messages) if together else [store.append(message) for message in messages]
        assert store.tables.topics["orders"]["writeQueueNums"] == 6
        assert store.tables.topics["orders"]["readQueueNums"] == 6
        incarnation = store.tables.incarnations["orders"]
        assert incarnation
        assert store.reader.max_offset("LITEMQ_SYS_CHANGES", 0) == (2 if together else 3)
        store.put_topic("orders", {"perm": 4})
        assert store.tables.incarnations["orders"] == incarnation


def test_queue_ids_are_bounded(tmp_path: Path) -> None:
    """A topic's number of queues must fit RocketMQ's int, and every client lists them all."""
    with open_store(tmp_path) as store:
        store.append(Message("orders", b"", queue_id=(1 << 20) - 1))
        with pytest.raises(InvalidRequest, match=r"queue id 1048576 of topic 'orders' .* 0 to 1048575"):
            store.append(Message("orders", b"", queue_id=1 << 20))
        assert store.tables.topics["orders"]["writeQueueNums"] == 1 << 20


def test_a_message_for_a_new_queue_takes_no_queue_away(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.put_topic("orders", {"readQueueNums": 16, "writeQueueNums": 4, "perm": 4})
        store.append(Message("orders", b"", queue_id=9))
        found = store.tables.topics["orders"]
        assert (found["readQueueNums"], found["writeQueueNums"], found["perm"]) == (16, 10, 4)


def test_a_queue_whose_topic_cannot_grow_is_refused_each_time(tmp_path: Path) -> None:
    with open_store(tmp_path, small(segment_bytes=1024)) as store:
        largest(lambda size: store.put_topic("orders", {"attributes": {"text": "x" * size}}), 1024)
        for _ in range(2):
            with pytest.raises(RecordTooLarge):
                store.append(Message("orders", b"", queue_id=99))
        assert store.reader.max_offset("orders", 99) == 0


def test_a_deleted_topic_goes_on_where_it_ended(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        for queue_id in (0, 3):
            fill(store, 30, queue_id=queue_id)
        fill(store, 5, topic="other")
        incarnation = store.tables.incarnations["orders"]
        store.delete_topic("orders")
        assert "orders" not in store.tables.topics
        assert not (tmp_path / "store" / "consumequeue" / "orders").exists()
        assert (store.reader.min_offset("orders", 3), store.reader.max_offset("orders", 3)) == (30, 30)
        assert store.read("orders", 0, 0).sizes == ()
        assert store.reader.by_key("orders", "3") == []
        assert [r.topic for r in store.reader.by_time(None, None) if r.topic == "orders"] == []
        with pytest.raises(UnknownTopic):
            store.delete_topic("orders")
        assert store.append(Message("orders", b"again", queue_id=3, keys=("3",))).queue_offset == 30
        assert store.tables.incarnations["orders"] != incarnation
        assert [record.body for record in store.reader.by_key("orders", "3")] == [b"again"]
        store.abandon()
    with open_store(tmp_path) as store:
        assert bodies(store, queue_id=3) == [b"again"]
        assert store.append(Message("orders", b"first of it")).queue_offset == 30
        store.delete_topic("orders")
        store.delete_topic("other")
    with open_store(tmp_path) as store:
        assert store.append(Message("orders", b"x", queue_id=3)).queue_offset == 31
        assert store.append(Message("orders", b"x", queue_id=0)).queue_offset == 31
        assert store.append(Message("other", b"x")).queue_offset == 5


def test_offsets_of_a_queue_outlive_every_deletion_in_the_log_alone(tmp_path: Path) -> None:
    """The first deletion was carried in another form, and the second one knew no more of the queue."""
    clock = ManualClock()
    with open_store(tmp_path, small(retention_hours=1.0), clock=clock) as store:
        fill(store, 3, queue_id=1)
        store.delete_topic("orders")
        fill(store, 200, topic="other")
        clock.advance(2 * 3_600_000)
        store.append(Message("orders", b"in another queue"))
        assert store.retain().start is not None
        store.delete_topic("orders")
    for path in (tmp_path / "store" / "config").glob("topics.json*"):
        path.unlink()
    with open_store(tmp_path, clock=clock) as store:
        assert store.append(Message("orders", b"again", queue_id=1)).queue_offset == 3


def test_a_purge_raises_the_first_offset_and_hides_nothing_to_come(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        sent = fill(store, 30)
        store.purge("orders", {0: 10})
        assert bodies(store) == sent[10:]
        assert store.reader.message_at("orders", 0, 9) is None
        assert store.reader.by_key("orders", "9") == []
        assert len(store.reader.by_key("orders", "10")) == 1
        store.purge("orders", {0: 5, 1: -3})
        assert store.reader.min_offset("orders", 0) == 10
        store.purge("orders", {0: 1000})
        assert bodies(store) == []
        store.append(Message("orders", b"new"))
        assert bodies(store) == [b"new"]
        store.purge("nowhere", {0: 1000})
        assert store.append(Message("nowhere", b"new")).queue_offset == 0
        store.abandon()
    with open_store(tmp_path) as store:
        assert bodies(store) == [b"new"]
        assert bodies(store, "nowhere") == [b"new"]


@pytest.mark.parametrize("topic", ["a/b", "", "..", "x" * 256, "a\0b", "\ud800"])
def test_a_name_that_cannot_be_a_folder_is_refused(tmp_path: Path, topic: str) -> None:
    with open_store(tmp_path) as store:
        end = store.appended_end
        refused: list[Callable[[], object]] = [
            lambda: store.put_topic(topic),
            lambda: store.delete_topic(topic),
            lambda: store.purge(topic, {0: 1}),
        ]
        for call in refused:
            with pytest.raises(TopicUnusable):
                call()
        assert store.appended_end == end


@pytest.mark.parametrize("topic", ["LITEMQ_SYS_CHANGES", "LITEMQ_SYS_NEW"])
def test_our_own_topics_cannot_be_changed(tmp_path: Path, topic: str) -> None:
    with open_store(tmp_path) as store:
        refused: list[Callable[[], object]] = [
            lambda: store.put_topic(topic),
            lambda: store.delete_topic(topic),
            lambda: store.purge(topic, {0: 1}),
            lambda: store.append(Message(topic, b"")),
        ]
        for call in refused:
            with pytest.raises(ReservedName):
                call()


def test_a_group_without_utf8_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path) as store, pytest.raises(InvalidRequest, match="UTF-8"):
        store.put_group("\ud800")


def test_only_tables_of_a_rocketmq_store_know_batch_queues() -> None:
    """``convert`` copies the table as it is."""
    for fmt in (LITEMQ, ROCKETMQ):
        tables = Tables(fmt)
        tables.apply(Change("topic", "batch", {"attributes": {"queue.type": "BatchCQ"}}), 0)
        assert tables.has_batch_queues("batch") == (fmt is ROCKETMQ)


def test_batch_queues_are_for_rocketmq_alone(tmp_path: Path) -> None:
    with open_store(tmp_path, small(format="rocketmq")) as store:
        store.put_topic("batch", {"attributes": {"queue.type": "BatchCQ"}})
        with pytest.raises(UnknownTopic, match="batch queues"):
            store.append(Message("batch", b""))


def test_a_store_of_our_format_has_no_batch_queues(tmp_path: Path) -> None:
    """Its table may come from a RocketMQ store, by ``convert``."""
    store = open_store(tmp_path)
    store.put_topic("batch", {"attributes": {"queue.type": "BatchCQ"}})
    store.append(Message("batch", b"one"))
    store.append(Message("batch", b"two"))
    store.flush()
    store.abandon()
    shutil.rmtree(tmp_path / "store" / "consumequeue")
    with open_store(tmp_path) as store:
        assert [record.body for record in store.records("batch", 0, 0)] == [b"one", b"two"]
        assert store.append(Message("batch", b"three")).queue_offset == 2
        store.progress.commit("readers", "batch", 0, 50)
    with open_store(tmp_path) as store:
        assert store.progress.offset("readers", "batch", 0) == 3


# -- foreign tables --------------------------------------------------------------------------------------------------


def test_a_foreign_table_is_the_truth_and_adopted_at_once(tmp_path: Path) -> None:
    clock = ManualClock()
    with open_store(tmp_path, small(format="rocketmq"), clock=clock) as store:
        fill(store, 3)
        store.put_topic("ours")
        store.put_group("ours")
        log_id = store.tables.log_id
    config = tmp_path / "store" / "config"
    (config / "topics.json").write_text('{"topicConfigTable":{"orders":{"perm":6},"theirs":{"perm":4}}}')
    (config / "subscriptionGroup.json").write_text('{"subscriptionGroupTable":{"them":{"groupName":"them"}}}')
    store = open_store(tmp_path, clock=clock)
    assert set(store.tables.topics) == {"orders", "theirs"}
    assert set(store.tables.groups) == {"them"}
    assert store.tables.log_id == log_id
    store.put_topic("later")
    store.delete_topic("theirs")
    store.flush()
    store.abandon()
    for lost in (False, True):
        if lost:
            for path in [*config.glob("topics.json*"), *config.glob("subscriptionGroup.json*")]:
                path.unlink()
        store = open_store(tmp_path, clock=clock)
        assert {"orders", "later"} <= set(store.tables.topics)
        assert "theirs" not in store.tables.topics
        assert "them" in store.tables.groups
        assert store.tables.log_id == log_id
        store.abandon()
