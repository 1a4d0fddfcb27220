"""Hostile logs: bytes flipped where no checksum covers them; whatever is left must convert, rebuild and repair."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest
from tests.unit.store.convert_support import FIXTURES, LAZY, NAMES, SMALL, copy_store, records

from litemq.errors import BadStore
from litemq.store.convert import convert
from litemq.store.rebuild import rebuild
from litemq.store.repair import repair
from litemq.store.verify import verify

STORES = [fixture for fixture in FIXTURES if fixture.name == "store"]


def hurt(store: Path, rng: Random) -> None:
    """Change a few bytes of the log, most of them in the first bytes of a record."""
    logs = [path for path in store.rglob("0*") if path.is_file() and "consumequeue" not in path.parts]
    starts = [record.position for record in records(store)]
    for _ in range(rng.randrange(1, 5)):
        path = rng.choice(logs)
        data = bytearray(path.read_bytes())
        near = rng.choice(starts) + rng.randrange(60)
        at = near % len(data) if rng.random() < 0.8 else rng.randrange(len(data))
        data[at] = rng.choice([0, 1, 0x2F, 0x2E, 0x7F, 0x80, 0xFF, data[at] ^ 1 << rng.randrange(8)])
        path.write_bytes(data)


@pytest.mark.parametrize("fixture", STORES, ids=str)
def test_hurt_logs(fixture: object, tmp_path: Path) -> None:
    source = next(found for found in STORES if found is fixture)
    for seed in range(25):
        rng = Random(seed)
        store = copy_store(source.open(tmp_path), tmp_path / "copy")
        hurt(store, rng)
        to = rng.choice(NAMES)
        try:
            found = verify(store)
        except BadStore:  # not even its format can be told
            shutil.rmtree(store)
            continue
        report = convert(store, tmp_path / "target", to=to, fs=LAZY, **SMALL)
        assert report.records + report.rejected_count == found.records, seed
        assert (report.torn, report.corrupt) == (found.damage.torn, found.damage.corrupt), seed
        if report.records:
            after = verify(tmp_path / "target", to)
            assert (after.records, after.damage.torn, after.damage.corrupt) == (report.records, 0, 0), seed
        rebuild(store, fs=LAZY)
        mended = repair(store, fs=LAZY)
        assert mended.corrupt <= found.damage.corrupt, seed
        assert verify(store).damage.torn <= mended.corrupt, seed  # before the tail that went, one may be the last now
        outside = sorted(path.name for path in tmp_path.iterdir())
        assert outside == (["copy", "target"]), seed
        shutil.rmtree(store)
        shutil.rmtree(tmp_path / "target")
