"""The audit over real stores and brokers: sound ones are clean, and each planted fault is found and named."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.store_files import T0, StoreFiles

import litemq
from litemq.format.names import PROGRESS_TOPIC, STATS_TOPIC
from litemq.format.stats_records import HOUR_MS, encode_counts, encode_incomplete
from litemq.spark.jobs.audit import Audit
from litemq.spark.jobs.job import Report, Run, Source
from litemq.testing import Broker, broker
from litemq.types import Message

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

HOUR = T0 - T0 % HOUR_MS


def audit(spark: Any, place: Path | Broker, *topics: str, **options: str) -> Report:  # noqa: ANN401 - Spark's session
    source = Source("", place.nameservers, options) if isinstance(place, Broker) else Source(str(place), "", options)
    return Audit(source, topics).run(Run(spark))


def table(report: Report, name: str) -> list[dict[str, Any]]:
    return report.tables[name].to_json()


def kinds(report: Report) -> list[str]:
    return [str(row["kind"]) for row in table(report, "findings")]


# -- planted faults ------------------------------------------------------------------------------


def built(root: Path, count: int = 20, *, doubled: int = -1, missing: tuple[int, ...] = (), sent: int = 20) -> Path:
    """Write a store of two queues of ``orders``, what was sent, and how far ``billing`` is."""
    store = StoreFiles(root, segment_size=1 << 16)
    for number in range(count):
        for _ in range(2 if number == doubled else 1):
            message = Message("orders", b"x", queue_id=number % 2, message_id=f"id-{number}")
            if number in missing:  # it has its offset, and is not there
                store.next_offsets["orders", number % 2] = store.next_offsets.get(("orders", number % 2), 0) + 1
            else:
                store.add(message)
    body = {"op": "progress", "offsets": {"billing": {"orders": {"0": 5, "1": 4}}}}
    store.add(Message(PROGRESS_TOPIC, json.dumps(body).encode()), store_time=T0 + 5_000)
    for counts in encode_counts(HOUR, {"sent": {"orders": {"shop": sent}}}, 1 << 20):
        store.add(Message(STATS_TOPIC, counts), store_time=T0 + 5_000)
    store.write()
    (root / "config").mkdir()
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable": {"orders@billing": {0: 5, 1: 4}}}')
    return root


def test_a_sound_store_is_clean(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    report = audit(spark, built(tmp_path))
    assert (report.status, table(report, "findings")) == ("done", [])
    assert table(report, "hours") == [
        {"topic": "orders", "broker": None, "hour": "2023-11-14T22:00Z", "sent": 20, "stored": 20, "state": "whole"}
    ]
    assert table(report, "producers") == [{"topic": "orders", "producer_group": "shop", "sent": 20}]
    assert table(report, "groups") == [
        {"group": "billing", "topic": "orders", "stored": 20, "consumed": 9, "pending": 11, "dead": 0, "difference": 0}
    ]
    (waited,) = table(report, "latency")
    assert (waited["group"], waited["messages"], waited["max_ms"]) == ("billing", 9, 5_000)
    assert 4_980 < waited["p50_ms"] <= 5_000


def test_records_that_are_gone(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    report = audit(spark, built(tmp_path, missing=(6, 8, 9)))
    assert report.status == "findings"
    assert kinds(report) == ["gap", "gap", "lost", "unbalanced"]
    one, other, lost, unbalanced = table(report, "findings")
    assert (one["queue_id"], one["count"], other["queue_id"], other["count"]) == (0, 2, 1, 1)
    assert one["detail"].startswith("offsets 3 to 4 lead to no message")
    assert (lost["topic"], lost["count"]) == ("orders", 3)
    assert (unbalanced["group"], unbalanced["count"]) == ("billing", 3)


def test_a_message_that_is_stored_twice(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    report = audit(spark, built(tmp_path, doubled=7))
    assert kinds(report) == ["double-id", "uncounted"]
    double, uncounted = table(report, "findings")
    assert double["detail"].startswith("message id-7 is stored 2 times, at 1 offset 3 and 1 offset 4; 1 ids with 1 extra")
    assert uncounted["count"] == 1


def test_a_lost_tail(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    built(tmp_path)
    log = tmp_path / "commitlog" / f"{0:020d}"
    entry = (tmp_path / "consumequeue" / "orders" / "1" / f"{0:020d}").read_bytes()
    at = int.from_bytes(entry[8 * 24 : 8 * 24 + 8])  # of offset 8 in queue 1: nothing behind it is left
    log.write_bytes(log.read_bytes()[:at].ljust(1 << 16, b"\0"))
    report = audit(spark, tmp_path)
    assert kinds(report).count("tail") == 2
    assert [row["detail"] for row in table(report, "findings") if row["kind"] == "tail"] == [
        "offset 9, the last of the queue, lead to no message",
        "offsets 8 to 9, the last of the queue, lead to no message",
    ]
