"""Random stores, whole and damaged, read by any split and any choice: what a plain walk over the store says, by row.

The walk is the one that ``litemq store dump`` prints; a choice of rows is made here once more, by brute force.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support.broken_stores import DAMAGES, Damage, random_store
from tests.support.spark_rows import Row, expected, read

from litemq.spark.planning import is_reserved
from litemq.store.convert import convert
from litemq.store.log_walk import open_log

FORMATS = ["litemq", "rocketmq", "blueprint", "tmq"]
SEED = 0
"""Another number makes other damaged stores."""
SIZES = [1, 300, 1500, 1 << 26]


def build(root: Path, fmt: str, chance: random.Random) -> Path:
    """Write a random store; a tmq tree is converted from another one."""
    store = random_store(root / "store", "litemq" if fmt == "tmq" else fmt, chance)
    store.write()
    if fmt != "tmq":
        if chance.random() < 0.3:
            shutil.rmtree(store.root / "consumequeue")
        return store.root
    convert(store.root, root / "tmq", to="tmq", segment_size=chance.choice([4096, 30_000]))
    return root / "tmq"


def place_of(row: Row) -> tuple[Any, ...]:
    return row["topic"], row["queue_id"], row["queue_offset"], row["physical_offset"]


def by_place(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=place_of)


def cuts(chance: random.Random) -> dict[str, object]:
    """Return options that change how a read is cut, and nothing else."""
    found: dict[str, object] = {"maxPartitionBytes": chance.choice(SIZES)}
    if chance.random() < 0.3:
        found["minPartitions"] = chance.randrange(1, 20)
    if chance.random() < 0.3:
        found["maxRecordsPerPartition"] = chance.randrange(1, 9)
    if chance.random() < 0.5:
        found |= {"batchRows": chance.randrange(1, 40), "batchBytes": chance.choice([1, 400, 1 << 20])}
    return found


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("seed", range(4))
def test_everything_however_it_is_cut(fmt: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"{fmt} {seed}")
    path = build(tmp_path, fmt, chance)
    for isolation in ("committed", "uncommitted"):
        want = expected(path, fmt, is_committed_only=isolation == "committed")
        assert want
        for _ in range(4):
            assert read(path, format=fmt, isolation=isolation, **cuts(chance)) == want


def chosen(every: list[Row], chance: random.Random, path: Path) -> tuple[dict[str, object], list[Row]]:
    """Return options that choose rows, and the rows that they choose of all."""
    topics = sorted({row["topic"] for row in every})
    options: dict[str, object] = {}
    rows = every
    match chance.randrange(4):
        case 0:
            names = chance.sample(topics, min(len(topics), chance.randrange(1, 3)))
            options["subscribe"] = ",".join(names)
            rows = [row for row in rows if row["topic"] in names]
        case 1:
            pattern = chance.choice(["ord.*", ".*s", "[^%]+", "nothing"])
            options["subscribePattern"] = pattern
            rows = [row for row in rows if re.fullmatch(pattern, row["topic"]) and not is_reserved(row["topic"])]
        case 2:
            topic, queues = chance.choice(topics), sorted(chance.sample(range(3), 2))
            options["assign"] = json.dumps({topic: queues})
            rows = [row for row in rows if row["topic"] == topic and row["queue_id"] in queues]
        case _:
            rows = [row for row in rows if not is_reserved(row["topic"])]
    if chance.random() < 0.4:
        low, high = chance.randrange(6), chance.randrange(3, 12)
        options["startingOffsets"] = json.dumps({topic: {str(queue): low for queue in range(3)} for topic in topics})
        options["endingOffsets"] = json.dumps({topic: {"1": high} for topic in topics})
        rows = [row for row in rows if row["queue_offset"] >= low]
        rows = [row for row in rows if row["queue_id"] != 1 or row["queue_offset"] < high]
    if chance.random() < 0.4 and all(row["store_timestamp"] for row in every):
        times = sorted(int(row["store_timestamp"].timestamp() * 1000) for row in every)
        low, high = sorted(chance.choices(times, k=2))
        options |= {"startingTimestamp": low, "endingTimestamp": high}
        if "startingOffsets" in options:  # a time says where a queue is read from, and its offsets do not
            del options["startingOffsets"], options["endingOffsets"]
            return options, []
        rows = [row for row in rows if low <= row["store_timestamp"].timestamp() * 1000 < high]
    if chance.random() < 0.3:
        options["keys"] = "k0,k1"
        rows = [row for row in rows if {"k0", "k1"} & set(row["all_keys"])]
    if chance.random() < 0.3:
        options["tags"] = "A"
        rows = [row for row in rows if "A" in row["all_tags"]]
    return options, rows


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("seed", range(6))
def test_any_choice_however_it_is_cut(fmt: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"choice {fmt} {seed}")
    path = build(tmp_path, fmt, chance)
    every = expected(path, fmt, topics={record.topic for record in open_log(path, fmt).records()})
    for _ in range(12):
        options, rows = chosen(every, chance, path)
        if "startingTimestamp" in options and not rows:
            continue
        found = read(path, format=fmt, **options, **cuts(chance))
        assert by_place(found) == by_place(rows), options


@pytest.mark.parametrize("fmt", ["litemq", "rocketmq", "blueprint"])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("queues", [True, False], ids=["queues", "no-queues"])
def test_damaged_stores(fmt: str, damage: Damage, queues: bool, tmp_path: Path) -> None:
    """All that the walk finds is there whatever the split, nothing that was not written, and nothing twice.

    Where the walk loses its way, queue entries lead on: no record that was planted in a body is ever taken for one.
    """
    chance = random.Random(f"damage {fmt} {damage.__name__} {queues} {SEED}")
    store = random_store(tmp_path, fmt, chance, decoys=fmt != "blueprint")
    store.write()
    if not queues:
        shutil.rmtree(tmp_path / "consumequeue")
    written = {place_of(row) for row in expected(tmp_path, fmt)}
    damage(store, chance)
    walked = expected(tmp_path, fmt)
    starts = {put.position for put in store.puts}
    found = [read(tmp_path, format=fmt, onCorrupt="skip", **cuts(chance)) for _ in range(4)]
    if not queues:
        assert found[0] == walked
    for rows in found:
        assert rows == found[0]
        places = [place_of(row) for row in rows]
        assert len(places) == len(set(places))
        assert {row["physical_offset"] for row in rows} <= starts or not queues
        assert set(places) <= written | {place_of(row) for row in walked}
        there = set(places)
        assert [row for row in walked if row["physical_offset"] in starts and place_of(row) not in there] == []
