"""Make ``.venv`` ready for Spark: refuse without Java 17, install requirements/spark.lock once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from litemq.spark.errors import SparkMissing
from litemq.spark.session import check_java

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
LOCK = ROOT / "requirements" / "spark.lock"
STAMP = ROOT / ".venv" / "spark.stamp"


def main() -> int:
    try:
        check_java()
    except SparkMissing as error:
        print(f"litemq: error: {error}", file=sys.stderr)
        return 2
    if STAMP.exists() and STAMP.read_text() == LOCK.read_text():
        return 0
    print("spark: installing PySpark, 460 MB …", flush=True)
    done = subprocess.run(
        [BIN / "uv", "pip", "install", "--python", BIN / "python", "--require-hashes", "-r", LOCK], check=False
    )
    if done.returncode == 0:
        STAMP.write_text(LOCK.read_text())
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
