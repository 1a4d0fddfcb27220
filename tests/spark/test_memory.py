"""Bodies of 4 MiB, read and written by Python workers whose address space is limited to 512 MiB."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.memory_driver import COUNT, SIZE

pytestmark = [pytest.mark.spark]


def test_workers_stay_within_512_mib(tmp_path: Path) -> None:
    """A session of its own: the limit is one of Spark's settings (``spark.executor.pyspark.memory``)."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.memory_driver", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert json.loads(ended.stdout.splitlines()[-1]) == {
        "limit": 512 << 20,
        "files": [2 * COUNT, SIZE - 200],
        "brokers": [COUNT, SIZE - 200],
        "written again": [2 * COUNT, SIZE - 200],
    }
