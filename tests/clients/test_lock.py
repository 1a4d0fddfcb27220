"""One store, one process: LiteMQ and a real broker keep each other out."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.clients import written
from tests.clients.conftest import StartBroker
from tests.clients.picture import Picture, check_keys, litemq_store, verify
from tests.clients.rocketmq import BrokerRefused, Sizes
from tests.clients.written import ORDERS

from litemq.errors import StoreInUse
from litemq.store.message_store import MessageStore

pytestmark = pytest.mark.clients

SIZES = Sizes()


def test_a_broker_and_litemq_keep_each_other_out(tmp_path: Path, real_broker: StartBroker) -> None:
    path = tmp_path / "store"
    written.write(path, SIZES)
    with MessageStore.open(path) as store:
        store.append_many(written.orders(1000, 20))
        with pytest.raises(BrokerRefused, match="Lock failed, MQ already started"):
            real_broker(path, SIZES).start()
        # It asks for the lock late: by now it has rewritten tables, checkpoint and queue files.
        store.append_many(written.orders(1020, 20))
        assert store.failure is None
        picture = Picture.of(store)
        check_keys(store, picture)
    with MessageStore.open(path) as store:
        again = Picture.of(store)
        assert again.records == picture.records
        check_keys(store, again)
    verify(path)

    broker = real_broker(path, SIZES)
    broker.start()
    with pytest.raises(StoreInUse):
        MessageStore.open(path)
    repair = litemq_store("repair", path)
    assert repair.returncode == 2
    assert repair.stderr.startswith("litemq: error: ")
    assert litemq_store("info", "--json", path).returncode == 0  # reading a live store is fine
    assert litemq_store("dump", "--limit", 1, path).returncode == 0
    broker.send(ORDERS, [{"body": b"served all the same", "queue": 0}])
    broker.kill()
