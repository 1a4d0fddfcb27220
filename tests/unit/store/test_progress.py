"""Group progress: in memory, as records, as a snapshot; any mix of them leads to the same offsets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.store.live_support import SEGMENT, fill, open_store, small

from litemq.clock import ManualClock
from litemq.format.names import PROGRESS_TOPIC
from litemq.store.message_store import MessageStore
from litemq.store.progress import Progress

BIG = 1 << 20


def save(progress: Progress, position: int = 100) -> list[bytes]:
    """Let everything that changed become records, each at its own position."""
    bodies = []
    for number, (body, keys) in enumerate(progress.take_changes(BIG)):
        progress.saved(keys, position + number)
        bodies.append(body)
    return bodies


def test_only_what_changed_becomes_a_record() -> None:
    progress = Progress()
    progress.commit("g", "t", 0, 5)
    progress.commit("g", "t", 1, 7)
    (body,) = save(progress)
    assert json.loads(body) == {"op": "progress", "offsets": {"g": {"t": {"0": 5, "1": 7}}}}
    assert progress.unsaved == 0
    assert save(progress) == []
    progress.commit("g", "t", 0, 5)  # nothing new
    progress.commit("g", "t", 1, 8)
    assert progress.unsaved == 1
    (body,) = save(progress)
    assert json.loads(body)["offsets"] == {"g": {"t": {"1": 8}}}
    assert progress.of_group("g") == {("t", 0): 5, ("t", 1): 8}
    assert progress.of_group("h") == {}
    assert (progress.offset("g", "t", 1), progress.offset("g", "t", 2)) == (8, None)
    assert len(progress) == 2


@pytest.mark.parametrize("limit", [1, 200, 1000, 100_000])
def test_no_record_has_more_bytes_than_asked_for(limit: int) -> None:
    progress = Progress()
    for number in range(300):
        progress.commit(f"group-{number % 7}", f"topic-é-{number}", number % 3, number)
    shares = progress.take_changes(limit)
    assert all(len(body) <= limit or len(keys) == 1 for body, keys in shares)
    again = Progress()
    for position, (body, keys) in enumerate(shares):
        again.replay(body, position)
        assert len(keys) >= 1
    assert {key: again.offset(*key) for key in again.all_keys()} == {
        key: progress.offset(*key) for key in progress.all_keys()
    }


def test_a_snapshot_holds_every_name() -> None:
    """RocketMQ separates topic and group by ``@``; its own names have none, ours may."""
    progress = Progress()
    keys = [("g", "t", 0), ("g", "t", 1), ("g@h", "t", 0), ("h", "t@g", 0), ("", "t", 0), ("gr üppe", "%RETRY%g", 7)]
    for number, key in enumerate(keys):
        progress.commit(*key, number + 1)
    save(progress)
    table = progress.to_snapshot(500, 1)
    assert isinstance(table["offsetTable"], dict)
    assert table["offsetTable"]["t@g"] == {"0": 1, "1": 2}
    again = Progress()
    assert again.load(json.loads(json.dumps(table))) == 500
    assert sorted(again.all_keys()) == sorted(keys)
    assert [again.offset(*key) for key in keys] == [1, 2, 3, 4, 5, 6]
    assert not again.changed


def test_a_foreign_snapshot_is_taken_as_it_is() -> None:
    progress = Progress()
    assert progress.load({"offsetTable": {"t@g": {"0": 5, "1": "no", "x": 6}, "strange": {"0": 1}}}) is None
    assert progress.all_keys() == [("g", "t", 0)]
    assert progress.load({"offsetTable": 5, "litemq": {"position": True}}) is None
    assert Progress().load(None) == 0


def test_carrying_marks_what_old_records_hold() -> None:
    progress = Progress()
    progress.commit("g", "t", 0, 1)
    save(progress, position=100)
    progress.commit("g", "t", 1, 2)
    save(progress, position=200)
    progress.carry_below(150)
    assert [keys for _, keys in progress.take_changes(BIG)] == [[("g", "t", 0)]]
    save(progress, position=300)
    progress.carry_below(250)
    assert [keys for _, keys in progress.take_changes(BIG)] == [[("g", "t", 1)]]


def test_what_is_forgotten_is_carried_no_more() -> None:
    progress = Progress()
    for group, topic in (("g", "t"), ("g", "u"), ("h", "t")):
        progress.commit(group, topic, 0, 1)
    save(progress)
    progress.changed = False
    progress.forget(group="nobody")
    assert not progress.changed
    progress.commit("g", "t", 0, 2)
    progress.forget(topic="t")
    assert progress.changed
    progress.carry_below(BIG)
    assert progress.all_keys() == [("g", "u", 0)]
    assert [keys for _, keys in progress.take_changes(BIG)] == [[("g", "u", 0)]]
    progress.forget(group="g")
    assert len(progress) == 0


def test_an_offset_above_the_end_is_brought_down() -> None:
    progress = Progress()
    progress.commit("g", "t", 0, 9)
    save(progress)
    assert not progress.clamp("g", "t", 0, 9)
    assert progress.unsaved == 0
    assert progress.clamp("g", "t", 0, 4)
    assert (progress.offset("g", "t", 0), progress.unsaved) == (4, 1)
    assert not progress.clamp("g", "t", 1, 4)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"op":"other"}', b'{"op":"progress","offsets":5}', b"\xff", b"[" * 9999]
)
def test_a_body_that_is_no_progress_says_nothing(body: bytes) -> None:
    progress = Progress()
    progress.replay(body, 1)
    progress.replay(b'{"op":"progress","offsets":{"g":5,"h":{"t":6},"i":{"t":{"x":1,"2":3}}}}', 2)
    assert progress.all_keys() == [("i", "t", 2)]


# -- in a store ------------------------------------------------------------------------------------------------------


def records(store: MessageStore) -> int:
    return store.reader.max_offset(PROGRESS_TOPIC, 0)


def test_progress_becomes_a_record_once_a_second(tmp_path: Path) -> None:
    clock = ManualClock()
    with open_store(tmp_path, clock=clock) as store:
        fill(store, 20)
        store.tick()
        for offset in range(1, 11):
            store.progress.commit("readers", "orders", 0, offset)
            clock.advance(300)
            store.tick()
        assert records(store) == 2  # after 1200 ms and 2400 ms
        clock.advance(1000)
        store.tick()
        assert records(store) == 3
        clock.advance(5000)
        store.tick()  # nothing changed
        assert records(store) == 3
        assert store.counters()["progress_unsaved"] == 0


def test_many_changes_do_not_wait(tmp_path: Path) -> None:
    clock = ManualClock()
    with open_store(tmp_path, small(progress_changes=50), clock=clock) as store:
        for number in range(49):
            store.progress.commit(f"group-{number}", "orders", 0, 0)
        store.tick()
        assert records(store) == 0
        store.progress.commit("one more", "orders", 0, 0)
        store.tick()
        assert records(store) == 1


def test_thousands_of_groups_fit_into_records(tmp_path: Path) -> None:
    clock = ManualClock()
    store = open_store(tmp_path, clock=clock)
    fill(store, 30)
    for number in range(5000):
        store.progress.commit(f"group-{number}", "orders", 0, number % 30)
    clock.advance(2000)
    store.tick()
    assert store.progress.unsaved == 0
    assert records(store) > 5000 * 30 // SEGMENT
    store.flush()
    store.abandon()
    with open_store(tmp_path, clock=clock) as store:
        assert all(store.progress.offset(f"group-{n}", "orders", 0) == n % 30 for n in range(5000))


@pytest.mark.parametrize("lost", [(), ("json",), ("bak",), ("json", "bak")])
@pytest.mark.parametrize("damage", ["missing", "garbage", "empty"])
def test_any_snapshot_and_the_log_give_the_same(tmp_path: Path, lost: tuple[str, ...], damage: str) -> None:
    clock = ManualClock()
    store = open_store(tmp_path, clock=clock)
    fill(store, 100)
    fill(store, 10, topic="gone")
    for turn in range(1, 5):
        for group in range(5):
            store.progress.commit(f"group-{group}", "orders", 0, turn * 10 + group)
            store.progress.commit(f"group-{group}", "gone", 0, turn)
        if turn == 2:
            store.delete_group("group-0")
        if turn == 3:
            store.delete_topic("gone")
            fill(store, 3, topic="gone")
        clock.advance(2000)
        store.tick()
        if turn < 4:
            store.checkpoint()
    before = {key: store.progress.offset(*key) for key in store.progress.all_keys()}
    assert before["group-0", "orders", 0] == 40
    store.flush()
    store.abandon()
    for name in lost:
        path = tmp_path / "store" / "config" / ("consumerOffset.json" + (".bak" if name == "bak" else ""))
        assert path.exists()
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes(b"" if damage == "empty" else b"{]")
    with open_store(tmp_path, clock=clock) as store:
        found = {key: store.progress.offset(*key) for key in store.progress.all_keys()}
        assert found == {key: min(offset or 0, 13) if key[1] == "gone" else offset for key, offset in before.items()}


def test_a_snapshot_holds_nothing_that_the_log_does_not(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, 5)
    store.progress.commit("g", "orders", 0, 3)
    store.checkpoint()
    store.abandon()
    for path in (tmp_path / "store" / "config").glob("consumerOffset.json*"):
        path.unlink()
    with open_store(tmp_path) as store:
        assert store.progress.offset("g", "orders", 0) == 3


def test_a_foreign_snapshot_is_adopted_at_once(tmp_path: Path) -> None:
    """What a group commits after a real RocketMQ's table was taken over must not be lost by a crash."""
    clock = ManualClock()
    with open_store(tmp_path, small(format="rocketmq"), clock=clock) as store:
        fill(store, 50)
        store.progress.commit("ours", "orders", 0, 3)
        topics = (tmp_path / "store" / "config" / "topics.json").exists()
    path = tmp_path / "store" / "config" / "consumerOffset.json"
    path.write_text('{"offsetTable":{"orders@theirs":{0:7}}}')
    store = open_store(tmp_path, clock=clock)
    assert not topics
    assert store.progress.all_keys() == [("theirs", "orders", 0)]  # theirs is the truth
    store.progress.commit("theirs", "orders", 0, 9)
    clock.advance(2000)
    store.tick()
    store.flush()
    store.abandon()
    for name in ("as it is", "lost"):
        if name == "lost":
            path.unlink()
            path.with_name(path.name + ".bak").unlink()
        store = open_store(tmp_path, clock=clock)
        assert store.progress.offset("theirs", "orders", 0) == 9, name
        store.abandon()


def test_progress_of_batch_queues_is_left_alone(tmp_path: Path) -> None:
    with open_store(tmp_path, small(format="rocketmq")) as store:
        store.put_topic("batch", {"attributes": {"queue.type": "BatchCQ"}})
        store.progress.commit("readers", "batch", 0, 50)
        store.progress.commit("readers", "nowhere", 0, 50)
    with open_store(tmp_path) as store:
        assert store.progress.offset("readers", "batch", 0) == 50
        assert store.progress.offset("readers", "nowhere", 0) == 0
