"""What reading from and writing to running brokers costs with Spark, in CPU of all processes.

    python -m benchmarks.spark_live [ROWS]

Reads go beside reads of the same broker's files, in turns, all columns into ``noop``; the first pair warms up.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import litemq
from litemq.spark import session
from litemq.testing import Broker, broker

PAIRS = 5
BODY = 256


def family(*roots: int) -> set[int]:
    """Return processes and all that they started."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, todo = set(roots), list(roots)
    while todo:
        for child in parents.get(todo.pop(), []):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found


def cpu_s(*roots: int) -> float:
    """Return the CPU time of processes, of those that they started, and of those that these have waited for."""
    total = 0
    for pid in family(*roots):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(int(field) for field in fields[11:15])
    return total / os.sysconf("SC_CLK_TCK")


def wait_published(server: Broker) -> None:
    """Return when all committed rows are in their topics."""
    with litemq.Admin(server.nameservers) as admin:
        while any(one.unpublished for one in admin.batch_transactions()):
            time.sleep(0.02)


def measure(server: Broker, work: Callable[[], None], rows: int) -> tuple[float, float]:
    """Return (CPU µs a row, rows a second)."""
    assert server.pid is not None
    before, began = cpu_s(os.getpid(), server.pid), time.perf_counter()
    work()
    took = time.perf_counter() - began
    return (cpu_s(os.getpid(), server.pid) - before) / rows * 1e6, rows / took


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000
    spark: Any = session("bench", spark__master="local[2]", spark__ui__enabled="false")
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder, broker() as server:
        with litemq.Admin(server.nameservers) as admin:
            admin.create_topic("bench", queues=8)
            admin.create_topic("target", queues=8)
        source = f"{folder}/in.parquet"
        columns = ("'target' AS topic", f"cast(repeat('x', {BODY}) AS binary) AS body", "cast(id AS string) AS keys")
        spark.range(rows).selectExpr(*columns).write.parquet(source)
        frame = spark.read.parquet(source)

        def write(topic: str = "target") -> None:
            options = {"brokers": server.nameservers, "topic": topic}
            frame.write.format("litemq").options(**options).mode("append").save()
            wait_published(server)

        def read(**options: str) -> Callable[[], None]:
            def run() -> None:
                given = {"subscribe": "bench", **options}
                loaded = spark.read.format("litemq").options(**given).load()
                loaded.write.format("noop").mode("overwrite").save()

            return run

        write("bench")
        live, files = read(brokers=server.nameservers), read(path=str(server.data))
        pairs = [(measure(server, live, rows), measure(server, files, rows)) for _ in range(PAIRS + 1)][1:]
        writes = [measure(server, write, rows) for _ in range(PAIRS + 1)][1:]
    for name, runs in (("live read", [one for one, _ in pairs]), ("file read", [two for _, two in pairs]),
                       ("write", writes)):  # fmt: skip
        cost, rate = (statistics.median(values) for values in zip(*runs, strict=True))
        sys.stdout.write(f"{name:10} {cost:6.2f} µs CPU a row {rate:10,.0f} rows/s\n")
    ratio = statistics.median(one[0] / two[0] for one, two in pairs)
    sys.stdout.write(f"live read / file read: {ratio:.2f} of the CPU\n")
    spark.stop()


if __name__ == "__main__":
    main()
