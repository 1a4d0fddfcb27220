"""What an audit knows before it looks at messages, of store files and of brokers; no Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.store_files import StoreFiles

import litemq
from litemq.errors import BadStore
from litemq.format.names import CHANGES_TOPIC
from litemq.spark.errors import BadOption
from litemq.spark.jobs.audit import Audit
from litemq.spark.jobs.audit_findings import Ends, Standing
from litemq.spark.jobs.audit_ground import ground_of
from litemq.spark.jobs.job import Source
from litemq.testing import broker
from litemq.types import Message

NO_SPARK: Any = None


def built(root: Path) -> Source:
    store = StoreFiles(root)
    for number in range(5):
        store.add(Message("orders", b"x", queue_id=number % 2))
    store.add(Message("%DLQ%billing", b"x"))
    store.add(Message("bills", b"x"))
    store.add(Message(CHANGES_TOPIC, b"{}"))
    store.add(Message("RMQ_SYS_TRANS_HALF_TOPIC", b"x"))
    store.write()
    (root / "config").mkdir()
    offsets = {"orders@billing": {"0": 1, "1": 2}, "bills@others": {"0": 1}}
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    return Source(str(root))


def test_store_files(tmp_path: Path) -> None:
    ground = ground_of(built(tmp_path), ())
    assert ground.queues == {
        ("", "%DLQ%billing", 0): Ends(0, 1),
        ("", "bills", 0): Ends(0, 1),
        ("", "orders", 0): Ends(0, 3),
        ("", "orders", 1): Ends(0, 2),
    }
    assert ground.told == {("", CHANGES_TOPIC, 0): Ends(0, 1)}
    assert sorted(ground.standings) == [
        Standing("billing", ("", "orders", 0), 1),
        Standing("billing", ("", "orders", 1), 2),
        Standing("others", ("", "bills", 0), 1),
    ]
    assert ground.look_again is None


def test_some_topics_come_with_the_dead_letters_of_their_groups(tmp_path: Path) -> None:
    ground = ground_of(built(tmp_path), ["orders"])
    assert ground.topics == ["%DLQ%billing", "orders"]
    assert {one.group for one in ground.standings} == {"billing"}


def test_what_cannot_be_audited(tmp_path: Path) -> None:
    source = built(tmp_path / "store")
    with pytest.raises(BadOption, match=r"there is no topic 'order' in .*; topics are: bills, orders"):
        ground_of(source, ["order"])
    with pytest.raises(BadStore):
        ground_of(Source(str(tmp_path / "nowhere")), ())


def test_the_plan(tmp_path: Path) -> None:
    plan = Audit(built(tmp_path)).plan(NO_SPARK)
    assert plan.to_json() == [
        {"topic": "%DLQ%billing", "queues": 1, "messages": 1, "groups": 0},
        {"topic": "bills", "queues": 1, "messages": 1, "groups": 1},
        {"topic": "orders", "queues": 2, "messages": 5, "groups": 1},
    ]


def test_brokers() -> None:
    with broker() as at, litemq.Producer(at.nameservers) as producer, litemq.Admin(at.nameservers) as admin:
        admin.create_topic("orders", queues=1)
        for _ in range(5):
            producer.send("orders", b"x")
        with litemq.PullConsumer("billing", nameservers=at.nameservers) as consumer:
            consumer.subscribe("orders")
            while consumer.poll(timeout=10) == []:
                pass
            consumer.commit()
        ground = ground_of(Source("", at.nameservers), ["orders"])
        assert ground.queues["broker-a", "orders", 0] == Ends(0, 5)
        assert set(ground.topics) <= {"orders", "%RETRY%billing"}
        assert [(one.group, one.place) for one in ground.standings] == [("billing", ("broker-a", "orders", 0))]
        assert ("broker-a", CHANGES_TOPIC, 0) in ground.told
        admin.purge_topic("orders")
        assert ground.look_again is not None
        assert ground.look_again()["broker-a", "orders", 0] == Ends(5, 5)
        with pytest.raises(BadOption, match="there is no topic 'none' in 127"):
            ground_of(Source("", at.nameservers), ["none"])
