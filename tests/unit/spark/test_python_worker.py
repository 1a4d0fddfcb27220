"""What reading leaves behind in the process that runs Spark's tasks."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import gc, json
from litemq.spark.python_worker import settle

settle()
first = gc.get_freeze_count()
kept = [{"number": number} for number in range(100)]
settle()
print(json.dumps([first, gc.get_freeze_count()]))
"""


def test_what_is_imported_is_taken_out_of_collections_once() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    first, then = json.loads(done.stdout)
    assert first > 1000
    assert then <= first
