"""The checkpoint file."""

from __future__ import annotations

import struct

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.format import fixtures

from litemq.format import checkpoint
from litemq.format.checkpoint import Checkpoint

numbers = st.integers(-(1 << 63), (1 << 63) - 1)
counts = st.integers(0, (1 << 32) - 1)


def test_golden_bytes() -> None:
    head = struct.pack(">7q", 1, 2, 3, 4, 5, 6, 7)
    data = (head + google_crc32c.value(head).to_bytes(4)).ljust(4096, b"\0")
    assert checkpoint.encode(Checkpoint(1, 2, 3, 4, 5, 6, 7)) == data
    assert checkpoint.decode(data) == Checkpoint(1, 2, 3, 4, 5, 6, 7)


@pytest.mark.parametrize(("linked", "indexed", "checked"), [(8, 0, False), (0, 9, False), (0, 0, True), (8, 9, True)])
def test_golden_bytes_with_what_came_later(linked: int, indexed: int, checked: bool) -> None:
    head = struct.pack(">7q", 1, 2, 3, 4, 5, 6, 7)
    head += google_crc32c.value(head).to_bytes(4) + linked.to_bytes(4) + indexed.to_bytes(4)
    head += checked.to_bytes(4)
    data = (head + google_crc32c.value(head).to_bytes(4)).ljust(4096, b"\0")
    found = Checkpoint(1, 2, 3, 4, 5, 6, 7, linked=linked, indexed=indexed, checked=checked)
    assert checkpoint.encode(found) == data
    assert checkpoint.decode(data) == found
    assert found.checked_from == (6 if checked else None)


@given(st.lists(numbers, min_size=7, max_size=7), st.tuples(counts, counts), st.booleans())
def test_round_trip(values: list[int], numbers: tuple[int, int], checked: bool) -> None:
    ours = Checkpoint(*values, linked=numbers[0], indexed=numbers[1], checked=checked)
    assert ours.is_ours
    assert checkpoint.decode(checkpoint.encode(ours)) == ours
    foreign = Checkpoint(*values[:5])
    assert not foreign.is_ours
    assert checkpoint.decode(checkpoint.encode(foreign)) == foreign


@given(st.integers(0, 8 * 60 - 1))
def test_what_rocketmq_rewrote_is_not_ours(bit: int) -> None:
    data = bytearray(checkpoint.encode(Checkpoint(1, 2, 3, 4, 5, 6, 7)))
    data[bit // 8] ^= 1 << bit % 8
    found = checkpoint.decode(bytes(data))
    assert found is not None
    assert not found.is_ours


@given(st.integers(8 * 60, 8 * 76 - 1))
def test_damage_of_what_came_later_costs_nothing_else(bit: int) -> None:
    data = bytearray(checkpoint.encode(Checkpoint(1, 2, 3, 4, 5, 6, 7, linked=8, checked=True)))
    data[bit // 8] ^= 1 << bit % 8
    assert checkpoint.decode(bytes(data)) == Checkpoint(1, 2, 3, 4, 5, 6, 7)


def test_short_files() -> None:
    data = checkpoint.encode(Checkpoint(1, 2, 3, 4, 5, 6, 7, linked=8))
    assert checkpoint.decode(data[:75]) == Checkpoint(1, 2, 3, 4, 5, 6, 7)
    assert checkpoint.decode(data[:76]) == Checkpoint(1, 2, 3, 4, 5, 6, 7, linked=8)
    assert checkpoint.decode(data[:39]) is None
    assert checkpoint.decode(data[:59]) == Checkpoint(1, 2, 3, 4, 5)
    assert checkpoint.decode(data[:60]) == Checkpoint(1, 2, 3, 4, 5, 6, 7)
    assert checkpoint.decode(bytes(4096)) == Checkpoint()


def test_a_real_rocketmq_s() -> None:
    store = fixtures.rocketmq("clean")
    found = checkpoint.decode(store.files["checkpoint"])
    assert found is not None
    assert {"log": found.log_time, "queues": found.queue_time, "index": found.index_time} == store.meta["checkpoint"]
    assert not found.is_ours
    assert checkpoint.encode(found) == store.files["checkpoint"]
