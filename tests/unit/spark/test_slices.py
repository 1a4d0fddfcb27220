"""What jobs that send in slices decide: epochs, pace, ids, cuts; and what they keep."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import InvalidRequest
from litemq.spark.errors import BadOption, JobFailed
from litemq.spark.jobs.replay import Part, Slice, cut, offsets_of
from litemq.spark.jobs.selection import columns_in
from litemq.spark.jobs.slices import Pace, State, checked_id, id_of, next_epoch, slice_rows, state_of
from litemq.spark.live_planning import start_offsets
from litemq.spark.options import read_options
from litemq.spark.write_options import write_options


@pytest.mark.parametrize(
    ("last", "is_committed", "done", "epoch"),
    [
        (None, False, 0, 0),  # nothing was sent
        (0, True, 0, 100),  # killed between the commit and the note of it
        (200, True, 3, 300),
        (300, False, 3, 301),  # staged, then left alone for a day
        (301, True, 3, 400),
        (None, False, 7, 700),  # brokers have forgotten, the state has not
        (500, True, 7, 700),
    ],
)
def test_the_next_epoch(last: int | None, is_committed: bool, done: int, epoch: int) -> None:
    assert next_epoch(last, done, is_committed=is_committed) == epoch


def test_a_slice_is_not_tried_for_ever() -> None:
    with pytest.raises(JobFailed, match="slice 3 was aborted 100 times"):
        next_epoch(399, 3, is_committed=False)


def test_a_pace_holds_over_the_whole_run() -> None:
    now = [0.0]
    pace = Pace(10.0, lambda: now[0])
    assert pace.left() == 0
    pace.begins()
    pace.passed(20)
    assert pace.left() == 2
    now[0] = 0.5
    assert pace.left() == 1.5
    now[0] = 60.0  # what nobody used is not made up for
    pace.begins()
    pace.passed(5)
    assert pace.left() == 0.5
    fast = Pace(None, lambda: now[0])
    fast.passed(1_000_000)
    assert fast.left() == 0


def test_slices_flow_with_a_rate() -> None:
    assert (slice_rows(None), slice_rows(50), slice_rows(0.1), slice_rows(1e9)) == (100_000, 100, 1, 100_000)


def test_ids_follow_from_facts() -> None:
    facts = {"topic": "orders", "where": ""}
    assert id_of("orders to x/y", facts) == id_of("orders to x/y", dict(reversed(facts.items())))
    assert id_of("orders to x/y", facts).startswith("orders-to-x-y-")
    assert id_of("orders", facts) != id_of("orders", {**facts, "where": "a"})
    assert checked_id(id_of("…", facts)).startswith("run-")
    for wrong in ("", "a/b", "..", "é", "x" * 101):
        with pytest.raises(InvalidRequest, match="--id is"):
            checked_id(wrong)


def test_a_state_is_one_runs_at_a_time(tmp_path: Path) -> None:
    state = state_of("run-1", tmp_path / "s")
    with state.held():
        assert (state.plan(), state.done) == (None, 0)
        state.keep_plan({"slices": [1]})
        state.note(3)
        with pytest.raises(InvalidRequest, match="another run works with"), State(tmp_path / "s").held():
            pass
    with State(tmp_path / "s").held():
        assert (state.plan(), state.done) == ({"slices": [1]}, 3)
    state.note(4, ["log-b", "log-a"])
    state.check_logs(["log-c", "log-a"])  # a broker came, one went
    with pytest.raises(InvalidRequest, match="tells what was sent to other brokers"):
        state.check_logs(["log-c"])
    (tmp_path / "s" / "plan.json").write_text("{")
    with pytest.raises(JobFailed, match=r"plan.json cannot be read"):
        state.plan()


def test_state_is_in_the_home_directory_unless_somebody_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_of("run-1", None).folder == tmp_path / ".litemq" / "pipeline" / "run-1"


def test_parts_are_sent_in_the_order_of_their_time() -> None:
    parts = [
        Part("a", 0, 5, 9, 4, 40, 300),
        Part("a", 0, 0, 5, 4, 40, 100),
        Part("b", 0, 0, 3, 3, 30, 200),
        Part("a", 0, 9, 12, 2, 20, 250),  # a clock went back: it stays behind those of its queue
    ]
    assert cut(parts, 7, 1000) == [
        Slice((("a", 0, 0, 5), ("b", 0, 0, 3)), 7),
        Slice((("a", 0, 5, 12),), 6),
    ]
    assert [one.rows for one in cut(parts, 100, 50)] == [4, 3, 4, 2]
    assert cut([], 7, 1000) == []


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(1, 9), st.integers(0, 50)), max_size=20),
    st.integers(9, 30),
)
def test_cuts_lose_and_double_nothing(wishes: list[tuple[str, int, int, int]], max_rows: int) -> None:
    ends: dict[tuple[str, int], int] = {}
    parts = []
    for broker, queue, rows, time in wishes:
        start = ends.get((broker, queue), 0)
        ends[broker, queue] = start + rows
        parts.append(Part(broker, queue, start, start + rows, rows, rows * 10, time))
    found = cut(parts, max_rows, 10_000)
    assert all(one.rows <= max_rows for one in found)
    at: dict[tuple[str, int], int] = {}
    for one in found:
        assert one.rows == sum(end - start for _, _, start, end in one.ranges)
        for broker, queue, start, end in one.ranges:  # each queue on from where it was
            assert start == at.get((broker, queue), 0)
            at[broker, queue] = end
    assert at == ends


def test_a_slice_reads_its_queues_of_its_brokers() -> None:
    options = offsets_of("orders", Slice((("a", 0, 3, 9), ("b", 1, 0, 2)), 8))
    assert json.loads(options["assign"]) == {"orders": [0, 1]}
    assert json.loads(options["startingOffsets"]) == {"orders": {"0": -1, "a/0": 3, "1": -1, "b/1": 0}}
    assert json.loads(options["endingOffsets"]) == {"orders": {"0": -1, "a/0": 9, "1": -1, "b/1": 2}}
    read = read_options({"brokers": "h:1", **{name: value for name, value in options.items() if value}})
    assert read.starting == {"orders": {0: -1, "a/0": 3, 1: -1, "b/1": 0}}
    assert json.loads(offsets_of("orders", Slice((("", 0, 3, 9),), 6))["startingOffsets"]) == {"orders": {"0": 3}}


def test_offsets_of_one_broker_win_over_those_of_all() -> None:
    from litemq.client.live_reads import LiveQueue
    from litemq.spark.live import BrokerBackend

    options = read_options({"brokers": "h:1", "startingOffsets": '{"t": {"0": -1, "a/0": 3}}'})
    queues = [LiveQueue("t", "a", 0, 1, 9, 0), LiveQueue("t", "b", 0, 2, 7, 0), LiveQueue("t", "b", 1, 4, 7, 0)]
    assert start_offsets(BrokerBackend("h:1", options), options, queues) == dict(zip(queues, (3, 7, 4), strict=True))
    with pytest.raises(BadOption, match="a path has no brokers, so write '0'"):
        read_options({"path": "x", "startingOffsets": '{"t": {"a/0": 3}}'})


@pytest.mark.parametrize(
    ("given_options", "told"),
    [
        ({"epoch": "7"}, "epoch goes with writeId"),
        ({"writeId": "w", "epoch": "-1"}, "it must be a whole number"),
        ({"writeId": "w", "epoch": str(1 << 63)}, "it must be a whole number"),
    ],
)
def test_epochs_of_a_write(given_options: dict[str, str], told: str) -> None:
    with pytest.raises(BadOption, match=told):
        write_options({"brokers": "h:1", **given_options}, is_stream=False)
    found = write_options({"brokers": "h:1", "writeId": "w", "epoch": "7"}, is_stream=False)
    assert (found.write_id, found.epoch) == ("w", 7)
    assert write_options({"brokers": "h:1"}, is_stream=False).epoch == 0


def test_columns_that_a_condition_looks_at() -> None:
    names = ["topic", "tags", "keys", "properties", "body"]
    assert columns_in("TAGS = 'paid' AND properties['body'] > 1", names) == ["tags", "properties", "body"]
    assert columns_in("", names) == []
