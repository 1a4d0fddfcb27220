"""A standalone Spark cluster of real processes: one master, and workers with addresses of their own.

The pip package has no start scripts, but all that they start.  Each worker listens on another loopback address: Spark
starts the second copy of a slow task on another host only.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_START_S = 180.0
_SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For master and workers, which only keep books; executors are told by ``spark.executor.extraJavaOptions``."""


class SparkCluster:
    """A running cluster."""

    def __init__(self, url: str, folder: Path, workers: list[subprocess.Popen[bytes]]) -> None:
        self.url = url
        """For ``master(…)``."""
        self.folder = folder
        self._workers = workers

    @property
    def settings(self) -> dict[str, str]:
        """What a driver must be told to be found by its executors, by Spark's names."""
        return {"spark.master": self.url, "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

    def executors(self) -> list[int]:
        """Return the processes of the executors."""
        children = (pid for worker in self._workers for pid in descendants(worker.pid))
        return [pid for pid in children if b"CoarseGrainedExecutorBackend" in command_of(pid)]

    def pids(self) -> list[int]:
        """Return its workers, whose children are the executors."""
        return [worker.pid for worker in self._workers]


@contextmanager
def spark_cluster(folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[SparkCluster]:
    """Run a cluster while a block runs; its files are below ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    started: list[subprocess.Popen[bytes]] = []
    try:
        log = folder / "master.log"
        started.append(_start(log, "127.0.0.1", folder, "master.Master", "--port", "0", "--webui-port", "0"))
        url = _wait_for(log, started, lambda text: re.search(r"Starting Spark master at (spark://\S+)", text))[1]
        for number in range(1, workers + 1):
            host = f"127.0.0.{number}"
            given = ["--webui-port", "0", "--cores", str(cores), "--memory", memory, url]
            started.append(_start(folder / f"worker-{number}.log", host, folder, "worker.Worker", *given))
        registered = f"(?:Registering worker.*\\s[\\s\\S]*){{{workers}}}"
        _wait_for(log, started, lambda text: re.search(registered, text))
        yield SparkCluster(url, folder, started[1:])
    finally:
        for process in started:
            end(process.pid)
            process.wait()
        shutil.rmtree(folder / "work", ignore_errors=True)


def _start(log: Path, host: str, folder: Path, name: str, *given: str) -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": host,
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _SMALL_JVM,
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", host, *given]
    with log.open("wb") as output:
        return subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)


def _wait_for(
    log: Path, started: list[subprocess.Popen[bytes]], found: Callable[[str], re.Match[str] | None]
) -> re.Match[str]:
    deadline = time.monotonic() + _START_S
    while True:
        text = log.read_text(errors="replace") if log.exists() else ""
        match = found(text)
        if match is not None:
            return match
        assert all(process.poll() is None for process in started), f"Spark's cluster ended: {text[-2000:]}"
        assert time.monotonic() < deadline, f"Spark's cluster did not start within {_START_S:.0f} s: {text[-2000:]}"
        time.sleep(0.1)


def descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and theirs."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                parents.setdefault(int(stat[1]), []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def command_of(pid: int) -> bytes:
    """Return the command line of a process."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def end(pid: int) -> None:
    """Kill a process and all that it started, as a machine that goes down does."""
    for one in [pid, *descendants(pid)]:
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
