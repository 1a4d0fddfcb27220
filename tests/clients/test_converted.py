"""A store that ``litemq store convert --to rocketmq`` made opens in a real broker."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.clients import written
from tests.clients.conftest import StartBroker
from tests.clients.picture import Picture, check_broker, litemq_store, verify
from tests.clients.rocketmq import Sizes
from tests.clients.test_fixture_stores import GROWING, unpack

pytestmark = pytest.mark.clients

SIZES = Sizes()
OPTIONS = (
    *("--segment-size", SIZES.segment_bytes, "--queue-entries", SIZES.queue_entries),
    *("--index-slots", SIZES.index_slots, "--index-entries", SIZES.index_entries),
)


def convert(source: Path, target: Path, to: str) -> None:
    done = litemq_store("convert", source, target, "--to", to, *OPTIONS, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["rejected"] == []


def test_a_litemq_store_opens_there_once_converted(tmp_path: Path, real_broker: StartBroker) -> None:
    written.write(tmp_path / "litemq", SIZES, "litemq")
    path = tmp_path / "rocketmq"
    convert(tmp_path / "litemq", path, "rocketmq")
    verify(path)
    shutil.copytree(path, tmp_path / "copy")
    picture = Picture.of_path(tmp_path / "copy")
    assert {queue: high for queue, (_, high) in picture.offsets.items()} == {
        queue: high for queue, (_, high) in Picture.of_path(tmp_path / "litemq").offsets.items()
    }
    with real_broker(path, SIZES) as broker:
        assert broker.started_after() == "normally"
        check_broker(broker, picture, reborn=frozenset({(written.AGAIN, 0)}), growing=frozenset({written.LATER}))
        (sent,) = broker.send(written.ORDERS, [{"body": b"there", "queue": 2}])
        assert sent["offset"] == picture.offsets[written.ORDERS, 2][1]
        assert broker.complaints() == []


def test_a_brokers_store_comes_home_through_both_formats(tmp_path: Path, real_broker: StartBroker) -> None:
    source, meta, _ = unpack("rocketmq-5.4.0-clean", tmp_path)
    convert(source, tmp_path / "litemq", "litemq")
    path = tmp_path / "rocketmq"
    convert(tmp_path / "litemq", path, "rocketmq")
    verify(path)
    shutil.copytree(path, tmp_path / "copy")
    picture = Picture.of_path(tmp_path / "copy")
    with real_broker(path, SIZES) as broker:
        assert broker.started_after() == "normally"
        check_broker(broker, picture, growing=GROWING)
        assert broker.offsets("Columnar")[0] == tuple(meta["queues"]["Columnar/0"])
        assert len(broker.pull("Columnar", 0)) == meta["queues"]["Columnar/0"][1]
        assert broker.complaints() == []
