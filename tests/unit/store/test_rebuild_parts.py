"""Rebuild in parts: byte for byte the files of a rebuild in one walk."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.in_parts import InAnyOrder
from tests.support.store_files import StoreFiles
from tests.unit.store.convert_support import FIXTURES, LAZY, copy_store, is_sound, tree
from tests.unit.store.test_convert_live import FORMATS, make_store
from tests.unit.store.test_verify import fill

from litemq.clock import ManualClock
from litemq.config import StoreConfig, WritableFormat
from litemq.errors import StorageError
from litemq.store import rebuild_feed
from litemq.store.message_store import MessageStore
from litemq.store.offline import BUILD
from litemq.store.rebuild import Part, RebuildReport, rebuild
from litemq.store.rebuild_parts import InParts, file_starts, joined
from litemq.types import Message, TopicQueue


def same_twice(
    store: Path, most: int, seed: int = 0, only: Part | None = None, **sizes: int
) -> tuple[RebuildReport, InAnyOrder]:
    """Rebuild a store in one walk, its copy in parts; return the report of both, which must be one."""
    copy = copy_store(store, store.with_name(f"{store.name}-parts"))
    expected = rebuild(store, fs=LAZY, clock=ManualClock(), only=only, **sizes)  # type: ignore[arg-type]
    spread = InAnyOrder(seed)
    found = rebuild(
        *(copy,),
        fs=LAZY,
        clock=ManualClock(),
        only=only,
        how=InParts(spread, 4, most),
        **sizes,  # type: ignore[arg-type]
    )
    assert found.to_json() == expected.to_json()
    assert sorted(found.rejected.listed) == sorted(expected.rejected.listed)
    assert [replace_path(one) for one in found.damage.listed] == [replace_path(one) for one in expected.damage.listed]
    assert tree(copy) == tree(store)
    shutil.rmtree(copy)
    return found, spread


def replace_path(damage: object) -> tuple[object, ...]:
    return tuple(getattr(damage, name) for name in ("kind", "segment", "position", "reason", "size", "start"))


@pytest.mark.parametrize(
    "fixture", [one for one in FIXTURES if one.name in ("store", "spaces", "clean", "killed")], ids=str
)
def test_fixtures(fixture: object, tmp_path: Path) -> None:
    source = fixture.open(tmp_path / "unpacked")  # type: ignore[attr-defined]
    store = copy_store(source, tmp_path / "store")
    same_twice(store, 1 << 17 if "rocketmq" in str(fixture) else 500)


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("only", [None, "consumequeue", "index"])
def test_a_store_with_a_history(fmt: WritableFormat, only: Part | None, tmp_path: Path) -> None:
    make_store(tmp_path / "store", fmt)
    same_twice(tmp_path / "store", 900, only=only, index_entries=30, queue_entries=7)
    assert is_sound(tmp_path / "store")


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    steps=st.lists(st.tuples(st.sampled_from("aabbcdp"), st.integers(0, 2)), max_size=40),
    fmt=st.sampled_from(FORMATS),
    most=st.integers(200, 3000),
    index_entries=st.integers(2, 40),
)
def test_any_history(
    steps: list[tuple[str, int]], fmt: WritableFormat, most: int, index_entries: int, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    shutil.rmtree(store, ignore_errors=True)
    with MessageStore.open(
        store,
        StoreConfig(format=fmt, segment_bytes=4096, queue_entries=4, index_slots=8, index_entries=20),
        fs=LAZY,
        clock=ManualClock(),
        background=False,
    ) as opened:
        for number, (step, queue) in enumerate(steps):
            known = opened.reader.max_offset("a", queue) if "a" in opened.tables.topics else 0
            match step:
                case "d" if "a" in opened.tables.topics:
                    opened.delete_topic("a")
                case "p" if known:
                    opened.purge("a", {queue: known - 1})
                case "c":
                    opened.checkpoint()
                case _:
                    topic = step if step in "ab" else "b"
                    keys = (f"{number}", "", "more")[: number % 4]
                    opened.append(Message(topic, b"", queue_id=queue, keys=keys, status=number % 5 // 4))
    same_twice(store, most, index_entries=index_entries)


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("seed", range(4))
def test_odd_offsets_and_damage(fmt: WritableFormat, seed: int, tmp_path: Path) -> None:
    """Offsets that go back, repeat, leap or are none; records without a possible queue; bits that flipped."""
    chance = random.Random(seed)
    store = fill(StoreFiles(tmp_path / "store", fmt, segment_size=chance.choice((2048, 16384)), first_segment=16384))
    for number in range(40):
        topic = chance.choice(("topic-0", "odd", "..", "new"))
        offset = chance.choice((None, number, 0, 5_000, 70_000, -3, 1 << 61))
        store.add(Message(topic, b"y" * 9, queue_id=chance.choice((0, 0, 0, 1)), keys=("k",)), queue_offset=offset)
    for _ in range(chance.choice((0, 1, 4))):
        segment = chance.choice(list(store.segments.values()))
        if segment:
            at = chance.randrange(len(segment))
            segment[at] ^= 1 << chance.randrange(8)
    store.queues = {queue: {} for queue in store.queues}  # of no use here, and some too far
    store.write(index=False)
    most, entries = chance.choice((300, 900, 3000)), chance.choice((3, 90))
    same_twice(store.root, most, seed, queue_entries=50, index_slots=16, index_entries=entries)


def test_a_lost_write_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_store(tmp_path / "store", "litemq")
    before = tree(tmp_path / "store")

    def forget(self: rebuild_feed._SharedQueues, tail: object) -> None:
        real(self, tail)  # type: ignore[arg-type]
        if tail.topic == "kept":  # type: ignore[attr-defined]
            for path in self._root.glob("kept/0/*"):
                path.write_bytes(bytes(path.stat().st_size))

    real = rebuild_feed._SharedQueues.write_out
    monkeypatch.setattr(rebuild_feed._SharedQueues, "write_out", forget)
    with pytest.raises(StorageError, match="kept/0 should have 20 entries and has 0"):
        rebuild(tmp_path / "store", fs=LAZY, how=InParts(InAnyOrder(), 4, 900))
    assert tree(tmp_path / "store") == before
    assert not (tmp_path / "store" / BUILD).exists()


def test_a_task_of_a_run_that_is_over_writes_nothing(tmp_path: Path) -> None:
    make_store(tmp_path / "store", "litemq")
    tasks: list[object] = []

    class Keeping(InAnyOrder):
        def __call__(self, some, /):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN204
            tasks.extend(some)
            return super().__call__(some)

    rebuild(tmp_path / "store", fs=LAZY, how=InParts(Keeping(), 4, 900))
    before = tree(tmp_path / "store")
    late = [one for one in tasks if isinstance(one, (rebuild_feed.FeedParts, rebuild_feed.BuildIndex))]
    assert len(late) > 4
    for one in late:
        with pytest.raises(FileNotFoundError, match="the run that wanted it is over"):
            one()
    assert tree(tmp_path / "store") == before


class TestPlanning:
    def test_file_starts(self) -> None:
        assert file_starts([], 5) == []
        assert file_starts([0, 0], 5) == []
        assert file_starts([5], 5) == [(0, 0)]
        assert file_starts([3, 3, 0, 10], 5) == [(0, 0), (1, 2), (3, 4), (3, 9)]

    @given(keys=st.lists(st.integers(0, 9), max_size=8), per_file=st.integers(1, 7))
    def test_file_starts_are_every_so_many_entries(self, keys: list[int], per_file: int) -> None:
        before = [sum(keys[:at]) for at in range(len(keys))]
        assert [before[at] + skip for at, skip in file_starts(keys, per_file)] == list(range(0, sum(keys), per_file))
        assert all(0 <= skip < keys[at] for at, skip in file_starts(keys, per_file))

    def test_joined(self) -> None:
        a, b, c, d = (TopicQueue(topic, 0) for topic in "abcd")
        one = rebuild_feed.PartFed(runs={a: (3, 5), b: (0, 1), c: (0, 1), d: (0, 2)})
        two = rebuild_feed.PartFed(runs={a: (5, 9), b: (2, 3), d: (2, 3)}, irregular={d})
        assert joined([one, two], frozenset({"c"})) == ({a: (3, 9)}, {b, c, d})
