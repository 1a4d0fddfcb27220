"""A Spark session that can read LiteMQ: checks what is installed, and sets what is easily forgotten."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from litemq.spark.errors import SparkMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED_JAVA: Final = 17
FIRST_SPARK: Final = (4, 2)
BEFORE_SPARK: Final = (4, 4)

_INSTALL_JAVA: Final = (
    "install it (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) "
    "or set JAVA_HOME to where it is"
)
_STATED_ELSEWHERE: Final = frozenset({"MASTER", "SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"})
"""Variables with which somebody else says where Spark runs; the last is spark-submit's."""

_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.ui.showConsoleProgress": "false",
    # What a Python writer is handed at once: Spark's 64 MiB take three times as much while they come.
    "spark.sql.execution.arrow.maxBytesPerBatch": "8m",
    # Workers give large buffers back when they are free, and keep one heap for all threads (each takes 64 MiB of
    # address space): else what glibc holds on to is more than spark.executor.pyspark.memory=512m leaves.
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(1 << 20),
    "spark.executorEnv.MALLOC_ARENA_MAX": "1",
}
_HERE: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 4)),
}
"""Of a Spark on this machine alone: two hundred parts of a shuffle are for a cluster."""

_QUIET: Final = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"
"""Spark greets on stderr before anybody could tell it to be quiet."""


def session(app_name: str = "litemq", **settings: str) -> SparkSession:
    """Return a session that knows ``format("litemq")``; the one that runs already when there is one.

    Settings are Spark's, with ``__`` for ``.``: ``session(spark__sql__shuffle__partitions="4")``.  The workers run this
    interpreter, times are UTC.

    Raises:
        SparkMissing: Java, PySpark or Arrow is missing or does not fit; the text says how to get it.
    """
    check_spark()
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    given = {name.replace("__", "."): value for name, value in settings.items()}
    for name, value in {**_SETTINGS, **given}.items():
        builder = builder.config(name, value)
    if "spark.master" not in given and _STATED_ELSEWHERE.isdisjoint(os.environ):
        builder = builder.master("local[*]")
    return enable(builder.getOrCreate())


def job_session(app_name: str, master: str, conf: Mapping[str, str]) -> SparkSession:
    """Return the quiet session of a command: on ``master``, or where spark-submit says, or here.

    Raises:
        SparkMissing: as for ``session``.
    """
    given = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", **conf}
    given["spark.driver.extraJavaOptions"] = f"{_QUIET} {given.get('spark.driver.extraJavaOptions', '')}".strip()
    if master:
        given["spark.master"] = master
    if (master or "local").startswith("local") and _STATED_ELSEWHERE.isdisjoint(os.environ):
        given = {**_HERE, **given}
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = session(app_name, **given)
    spark.sparkContext.setLogLevel(given["spark.log.level"])
    return spark


def enable(spark: SparkSession) -> SparkSession:
    """Make ``format("litemq")`` known to a session and return it."""
    register(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Make ``format("litemq")`` known to a session.

    Raises:
        SparkMissing: PySpark or Arrow does not fit.
    """
    check_spark()
    from litemq.spark.datasource import LiteMQDataSource

    spark.dataSource.register(LiteMQDataSource)


def check_spark() -> None:
    """Refuse a PySpark that is missing or too old or too new for Python data sources as they are used here.

    Raises:
        SparkMissing: it does.
    """
    try:
        import pyspark
    except ModuleNotFoundError as error:
        raise SparkMissing("PySpark is not installed; run: pip install 'litemq[spark]'") from error
    found = tuple(int(part) for part in re.findall(r"\d+", pyspark.__version__)[:2])
    if not FIRST_SPARK <= found < BEFORE_SPARK:
        raise SparkMissing(
            f"PySpark {pyspark.__version__} does not fit: LiteMQ needs 4.2 or 4.3; run: pip install 'litemq[spark]'"
        )
    try:
        import pyarrow  # noqa: F401 - only whether it is there
    except ModuleNotFoundError as error:
        raise SparkMissing("PyArrow is not installed; run: pip install 'litemq[spark]'") from error


def check_java() -> None:
    """Refuse to start without Java 17 or newer, which only Spark needs.

    Raises:
        SparkMissing: it is missing or too old.
    """
    java = java_command()
    if java is None:
        raise SparkMissing(f"Spark needs Java {NEEDED_JAVA} or newer, and no java is here; {_INSTALL_JAVA}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    if match is None:
        raise SparkMissing(f"{java} tells no version; Spark needs Java {NEEDED_JAVA} or newer: {_INSTALL_JAVA}")
    if int(match[1]) < NEEDED_JAVA:
        raise SparkMissing(f"{java} is Java {match[1]}, Spark needs {NEEDED_JAVA} or newer; {_INSTALL_JAVA}")


def java_command() -> str | None:
    """Return the java that Spark would run; None without one."""
    home = os.environ.get("JAVA_HOME")
    if home:
        found = Path(home, "bin", "java")
        return str(found) if found.is_file() else None
    return shutil.which("java")
