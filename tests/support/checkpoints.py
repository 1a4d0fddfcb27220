"""Checkpoints as Spark 4.3 writes them, made by hand."""

from __future__ import annotations

import json
from pathlib import Path

QUERY_ID = "5b1f6f5e-0d2c-4f0e-9a57-1f6a8f1e6a11"
_BATCH = '{"batchWatermarkMs":0,"batchTimestampMs":1763600000000,"conf":{"spark.sql.shuffle.partitions":"1"}}'


def live_offset(offset: int = 5, *, log: str = "log-a") -> dict[str, object]:
    """Return the offset of a stream over one broker: queue 0 of orders there, queue 1 at 7."""
    queues = {"broker-a/0": offset, "broker-a/1": 7}
    return {"s": {"broker-a": log}, "t": {"orders": {"id": {"broker-a": "i1"}, "q": queues}}, "v": 1}


def file_offset(offset: int = 5) -> dict[str, object]:
    """Return the offset of a stream over files."""
    return {"s": "log-f", "t": {"orders": {"id": "", "q": {"0": offset, "1": 7}}}, "v": 1}


def write_checkpoint(folder: Path, *batches: list[dict[str, object] | str], done: int) -> Path:
    """Write a checkpoint with batches from 0 on, each with the lines of its sources, of which ``done`` are done."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": QUERY_ID}, separators=(",", ":")))
    (folder / ".metadata.crc").write_bytes(b"crc\0")
    for number, sources in enumerate(batches):
        lines = [one if isinstance(one, str) else json.dumps(one) for one in sources]
        (folder / "offsets" / str(number)).write_text("\n".join(["v1", _BATCH, *lines]))
        (folder / "offsets" / f".{number}.crc").write_bytes(b"crc\0")
    for number in range(done):
        (folder / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        (folder / "commits" / f".{number}.crc").write_bytes(b"crc\0")
    return folder
