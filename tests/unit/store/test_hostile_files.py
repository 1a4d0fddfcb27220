"""Stores with bytes, lengths and names that nobody would write: answers or ``BadStore``, nothing else."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from tests.support.store_files import StoreFiles
from tests.unit.store.walk_support import FIXTURES, unpack_rocketmq

from litemq.errors import BadStore
from litemq.store.info import info
from litemq.store.log_walk import open_log
from litemq.store.query import Wanted, query
from litemq.store.verify import verify
from litemq.types import Message

RUNS = 40


def templates(folder: Path) -> list[Path]:
    for fmt in ("litemq", "blueprint", "tmq"):
        shutil.copytree(FIXTURES / fmt / "store", folder / fmt, copy_function=shutil.copyfile)
    store = StoreFiles(folder / "made", "rocketmq", segment_size=2000)
    for number in range(30):
        store.add(Message("t", b"x" * number, queue_id=number % 2, message_id=f"m{number}", keys=("k", f"k{number}")))
    store.write()
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return [*folder.iterdir(), unpack_rocketmq("killed", folder / "real")]


def spoil(path: Path, chance: random.Random) -> None:
    """Damage one file, in one of many ways."""
    data = bytearray(path.read_bytes())
    match chance.randrange(8):
        case 0 | 1 | 2 if data:
            for _ in range(chance.randrange(1, 20)):
                data[chance.randrange(len(data))] = chance.randrange(256)
        case 3 if data:
            at = chance.randrange(len(data))
            data[at : at + chance.randrange(200)] = chance.randbytes(chance.randrange(200))
        case 4:
            data = data[: chance.randrange(len(data) + 1)]
        case 5 if data:
            at = chance.randrange(len(data))
            data[at : at + 64] = bytes(64)
        case 6:
            data += chance.randbytes(chance.randrange(1, 100))
        case _:
            path.rename(path.with_name(chance.choice(["99999999999999999999", "7", "00000000000000000010.log"])))
            return
    path.write_bytes(data)


@pytest.mark.parametrize("seed", range(4))
def test_no_file_can_break_a_reader(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    sources = templates(tmp_path / "templates")
    for run in range(RUNS):
        store = tmp_path / f"run-{run}"
        shutil.copytree(chance.choice(sources), store)
        files = sorted(path for path in store.rglob("*") if path.is_file() and path.stat().st_size)
        for path in chance.sample(files, min(len(files), chance.randrange(1, 6))):
            spoil(path, chance)
        fmt = chance.choice([None, None, None, "litemq", "rocketmq", "blueprint", "tmq"])
        try:
            report = verify(store, fmt)
            assert report.to_json() == verify(store, fmt).to_json()
            log = open_log(store, fmt)
            records = list(log.records())
            assert len(records) == report.records
            assert sum(record.size for record in records) == report.bytes
            assert len(info(store, fmt).topics) >= len({(record.topic, record.queue_id) for record in records if
                                                        record.status in (None, "normal", "committed")})  # fmt: skip
            assert query(log, Wanted(key="k"), 1000) == [record for record in records if "k" in record.keys]
        except BadStore:
            pass
        shutil.rmtree(store)
