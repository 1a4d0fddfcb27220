"""Verify in parts: the same findings as in one walk, however the log is cut."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.support.in_parts import InAnyOrder
from tests.support.store_files import StoreFiles
from tests.unit.store.convert_support import FIXTURES, Fixture
from tests.unit.store.test_verify import fill

from litemq.store import verify_index, verify_queues
from litemq.store.changes import Change
from litemq.store.changes import encode as encode_change
from litemq.store.log_parts import can_be_cut, cut
from litemq.store.log_walk import open_log
from litemq.store.verify import VerifyReport, verify
from litemq.store.verify_parts import verify_in_parts
from litemq.types import Message


def in_parts(path: Path, format_name: str | None = None, *, most: int = 700, seed: int = 0) -> VerifyReport:
    return verify_in_parts(open_log(path, format_name), InAnyOrder(seed), least=4, most=most)


@pytest.mark.parametrize("fixture", FIXTURES, ids=str)
def test_fixtures_give_the_same_findings(fixture: Fixture, tmp_path: Path) -> None:
    path = fixture.open(tmp_path)
    most = 1 << 20 if fixture.format == "rocketmq" else 700
    assert in_parts(path, fixture.format, most=most).to_json() == verify(path, fixture.format).to_json()


@pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])
@pytest.mark.parametrize("seed", range(8))
def test_damage_of_any_kind_is_found_alike(
    fmt: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    store = fill(StoreFiles(tmp_path, fmt, segment_size=chance.choice((2048, 4096, 16384))))
    if seed % 3 == 0:
        monkeypatch.setattr(verify_queues, "_MAX_COLLECTED", 5)
        monkeypatch.setattr(verify_index, "_MAX_COLLECTED", 5)
    for _ in range(chance.choice((0, 1, 3, 9))):  # bits in the log
        segment = chance.choice(list(store.segments.values()))
        if segment:
            at = chance.randrange(len(segment))
            size = chance.choice((1, 4, 300))
            segment[at : at + size] = chance.randbytes(len(segment[at : at + size]))
    for _ in range(chance.choice((0, 0, 2))):
        queue = chance.choice(list(store.queues.values()))
        queue.pop(chance.choice(list(queue)), None)
    for _ in range(chance.choice((0, 0, 2))):
        store.entries.pop(chance.randrange(len(store.entries)))
    store.write(index=seed % 5 != 4)
    assert in_parts(tmp_path, most=chance.choice((300, 1000, 5000)), seed=seed).to_json() == verify(tmp_path).to_json()


def test_deletions_count(tmp_path: Path) -> None:
    store = fill(StoreFiles(tmp_path))
    change = Change("topic-deleted", "topic-1", offsets={0: 9, 1: 9})
    store.add(Message("LITEMQ_SYS_CHANGES", encode_change(change)))
    fill(store, 20)
    for queue in (("topic-1", 0), ("topic-1", 1)):
        store.queues.pop(queue)
    store.write()
    found = in_parts(tmp_path)
    assert found.to_json() == verify(tmp_path).to_json()
    assert found.consume_queue is not None
    assert found.consume_queue.entries < 120


def test_a_record_in_a_body_is_no_boundary(tmp_path: Path) -> None:
    """A body that holds a whole record that even states its own place: cut there, the walk would not arrive."""
    plain = StoreFiles(tmp_path / "plain", segment_size=1 << 16)
    outer = plain.add(Message("outer", b"x" * 20_000))
    inner_at = outer.position + outer.data.index(b"x" * 100) + 5_000
    inner = plain._encode(Message("inner", b"planted" * 100), inner_at, 0, 1)
    body = (b"x" * 5_000 + inner).ljust(20_000, b"x")
    store = StoreFiles(tmp_path / "store", segment_size=1 << 16)
    assert store.add(Message("outer", body)).data.index(inner) == inner_at - outer.position
    fill(store)
    store.write()
    log = open_log(store.root)
    places = [part.start for part in cut(log, inner_at - 100)]
    assert inner_at in places
    found = verify_in_parts(log, InAnyOrder(), 4, inner_at - 100)
    assert found.to_json() == verify(store.root).to_json()
    assert found.is_ok


def test_parts_are_the_log(tmp_path: Path) -> None:
    """A healthy log is cut at records, every part is about as large as asked, and all of them are arrived at."""
    store = fill(StoreFiles(tmp_path, segment_size=8192))
    store.write()
    log = open_log(tmp_path)
    assert can_be_cut(log)
    parts = cut(log, 1000)
    starts = {put.position for put in store.puts}
    assert {part.start for part in parts} <= starts
    assert len(parts) > store.end // 2000
    assert sum(part.size for part in parts) == len(store.segments) * store.segment_size
    spread = InAnyOrder()
    assert verify_in_parts(log, spread, 4, 1000).is_ok
    assert spread.tasks < 2 * len(parts) + 8  # nothing was walked again


def test_what_cannot_be_cut_is_one_task(tmp_path: Path) -> None:
    store = fill(StoreFiles(tmp_path))
    store.write()
    segment = tmp_path / "commitlog" / f"{0:020d}"
    spread = InAnyOrder()
    log = open_log(segment)
    assert not can_be_cut(log)
    assert verify_in_parts(log, spread, 4).to_json() == verify(segment).to_json()
    assert spread.tasks == 1
    assert in_parts(tmp_path / "commitlog").to_json() == verify(tmp_path / "commitlog").to_json()
