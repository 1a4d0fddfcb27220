"""Convert in parts: byte for byte the log, queues and index of a conversion in one process."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.in_parts import InAnyOrder
from tests.support.store_files import StoreFiles
from tests.unit.store.convert_support import FIXTURES, LAZY, SMALL, FileSizes, is_sound, tree
from tests.unit.store.test_convert_live import make_store
from tests.unit.store.test_verify import fill

from litemq.clock import ManualClock
from litemq.errors import BadStore
from litemq.store.convert import ConvertReport, convert, sizes_of
from litemq.store.convert_parts import ConversionInParts, packed
from litemq.store.convert_target import FIRST, Begin
from litemq.types import Message

TARGETS = ("litemq", "rocketmq", "blueprint", "tmq")


def in_parts(
    source: Path, place: Path, to: str, sizes: FileSizes, most: int = 900, from_format: str | None = None
) -> tuple[ConvertReport, InAnyOrder]:
    spread = InAnyOrder()
    every = sizes_of(**sizes)
    job = ConversionInParts.of(source, place, to, from_format, every, LAZY, ManualClock())
    return job.run_in_parts(spread, 4, most), spread


def same_twice(
    source: Path, folder: Path, to: str, sizes: FileSizes = SMALL, most: int = 900, from_format: str | None = None
) -> tuple[ConvertReport, InAnyOrder]:
    """Convert in one process and in parts; return the report of both, which must be one."""
    expected = convert(source, folder / "tool", to=to, from_format=from_format, fs=LAZY, clock=ManualClock(), **sizes)
    found, spread = in_parts(source, folder / "parts", to, sizes, most, from_format)
    assert {**found.to_json(), "destination": ""} == {**expected.to_json(), "destination": ""}
    assert tree_of(folder / "parts") == tree_of(folder / "tool")
    return found, spread


def tree_of(store: Path) -> dict[str, str]:
    """Return all files but the one that says which store it is."""
    return {path: digest for path, digest in tree(store).items() if not path.endswith("store.json")}


@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.parametrize("fixture", [one for one in FIXTURES if one.name in ("store", "killed")], ids=str)
def test_fixtures(fixture: object, to: str, tmp_path: Path) -> None:
    source = fixture.open(tmp_path / "unpacked")  # type: ignore[attr-defined]
    same_twice(source, tmp_path, to, most=1 << 17 if "rocketmq" in str(fixture) else 500)


@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])
def test_a_store_with_tables_and_deletions(fmt: str, to: str, tmp_path: Path) -> None:
    make_store(tmp_path / "source", fmt)  # type: ignore[arg-type]
    _, spread = same_twice(tmp_path / "source", tmp_path, to, {**SMALL, "segment_size": 5_000, "index_entries": 40})
    assert is_sound(tmp_path / "parts")
    assert (spread.tasks > 20) == (to != "tmq")


@pytest.mark.parametrize("to", ["litemq", "rocketmq", "blueprint"])
@pytest.mark.parametrize("seed", range(3))
def test_damage_and_what_the_target_cannot_hold(to: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    store = fill(StoreFiles(tmp_path / "source", "litemq", segment_size=16384))
    for number in range(30):
        topic = chance.choice(("topic-0", "..", "a" * 130))
        store.add(Message(topic, b"y" * chance.choice((9, 3_000)), keys=(f"k{number}",), properties={"p": ""}))
    for _ in range(seed):
        segment = chance.choice(list(store.segments.values()))
        segment[chance.randrange(len(segment))] ^= 4
    store.write(index=False)
    sizes: FileSizes = {**SMALL, "segment_size": chance.choice((2_000, 3_500, 9_000))}
    report, _ = same_twice(store.root, tmp_path, to, sizes)
    assert report.rejected_count


def test_records_that_name_an_origin_are_one_process_work(tmp_path: Path) -> None:
    store = fill(StoreFiles(tmp_path / "source"))
    for put in store.puts[5:9]:
        store.add(Message("carried", b"", properties={"__ORIGIN": str(put.position)}))
    store.write()
    _, spread = same_twice(store.root, tmp_path, "rocketmq")
    assert spread.tasks > 4, "they were looked for"


def test_a_place_in_use_is_refused(tmp_path: Path) -> None:
    make_store(tmp_path / "source", "litemq")
    with pytest.raises(BadStore, match="is not empty"):
        in_parts(tmp_path / "source", tmp_path, "rocketmq", SMALL)


@given(sizes=st.lists(st.integers(1, 50), max_size=30), cuts=st.integers(0, 30), reserve=st.sampled_from((0, 8)))
def test_packing_goes_on_where_it_was(sizes: list[int], cuts: int, reserve: int) -> None:
    begin = packed(FIRST, sizes[:cuts], 60, reserve)
    assert packed(begin, sizes[cuts:], 60, reserve) == packed(FIRST, sizes, 60, reserve)


def test_packing() -> None:
    assert packed(FIRST, [], 100, 0) == FIRST
    assert packed(FIRST, [60, 40], 100, 0) == Begin(0, 100)
    assert packed(FIRST, [60, 40], 100, 8) == Begin(100, 140)
