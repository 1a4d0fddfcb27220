"""What a slice of a store costs: bytes that planning and tasks request, counted by the reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.store_files import T0, StoreFiles

from litemq.types import Message

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

COUNT = 20_000


def test_a_slice_requests_little_more_than_itself(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401 - Spark's session
    store = StoreFiles(tmp_path / "store", segment_size=1 << 20, queue_entries=4000, slots=4001, index_entries=40_000)
    for number in range(COUNT):
        store.add(Message(f"topic-{number % 10}", b"x" * 256, queue_id=number // 10 % 2))
    store.write(index=False)
    options = {"subscribe": "topic-3", "startingTimestamp": T0 + COUNT * 45 // 100, "endingTimestamp": T0 + COUNT // 2}
    counters = tmp_path / "counters"
    frame = spark.read.format("litemq").options(**options, countersPath=str(counters)).load(str(tmp_path / "store"))
    wanted = [put for put in store.puts if put.message.topic == "topic-3"][COUNT * 45 // 1000 : COUNT // 20]
    found = sorted((row.queue_id, row.queue_offset) for row in frame.select("queue_id", "queue_offset").collect())
    assert found == sorted((put.message.queue_id, put.queue_offset) for put in wanted)
    told = [json.loads(file.read_text()) for file in counters.iterdir()]
    assert len(told) > 1  # planning, and each task
    requested = sum(one["record_bytes"] + one["index_bytes"] for one in told)
    assert sum(len(put.data) for put in wanted) <= requested
    assert requested < 0.05 * sum(len(put.data) + store.entry_size for put in store.puts)
