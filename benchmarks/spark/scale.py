"""``python -m benchmarks.spark.scale``: archive and audit on a standalone cluster, at several sizes.

One master and two workers of one core each, as processes.  Cost must grow no faster than the messages: at the largest
size CPU per message is at most 1.3 times that of the smallest.  Figures go to ``build/bench/spark-scale.json``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.spark_cluster import SparkCluster, spark_cluster

from benchmarks import big_store, figures
from benchmarks.figures import Figure
from benchmarks.memory import touch_memory
from benchmarks.spark.cost import Watch
from litemq.spark.errors import SparkMissing
from litemq.spark.session import check_java, check_spark

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = ROOT / "build" / "bench" / "spark-scale.json"
JOBS = ("archive", "audit")
GROWTH = 1.3


class Broken(Exception):
    """A job did not do what it was asked for."""


@dataclass(frozen=True, slots=True)
class Done:
    """What one job took at one size."""

    messages: int
    took_s: float
    cpu_s: float

    @property
    def cpu_us(self) -> float:
        """Return CPU microseconds a message."""
        return self.cpu_s / self.messages * 1e6


def run_job(job: str, store: Path, folder: Path, cluster: SparkCluster, messages: int) -> Done:
    """Run a job on the cluster, the start of its driver and executors included."""
    command = [sys.executable, "-m", "litemq", "pipeline", job, "--path", str(store), "--json"]
    command += ["--master", cluster.url, *_confs(cluster)]
    if job == "archive":
        command += ["--to", str(folder / f"lake-{messages}")]
    touch_memory()
    began = time.perf_counter()
    with Watch(*cluster.pids()) as watch, (folder / f"{job}-{messages}.log").open("w+") as log:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process:
            watch.add(process.pid)
            answer, _ = process.communicate()
        took = time.perf_counter() - began
        log.seek(0)
        _check(job, messages, process.returncode, answer, log.read())
    return Done(messages, took, watch.cpu_s)


def _confs(cluster: SparkCluster) -> list[str]:
    settings = {name: value for name, value in cluster.settings.items() if name != "spark.master"}
    return [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]


def _check(job: str, messages: int, status: int, answer: str, log: str) -> None:
    """Refuse a run that did not see every message; an audit may have findings: nobody consumed them."""
    try:
        report = json.loads(answer)
    except ValueError:
        raise Broken(f"{job} of {messages} messages ended with {status} and no report:\n{log[-2000:]}") from None
    if status not in (0, 1) or report["status"] == "stopped":
        raise Broken(f"{job} of {messages} messages ended with {status}: {answer[-2000:]}\n{log[-2000:]}")
    if messages not in report["figures"].values():
        raise Broken(f"{job} counted something else than {messages} messages: {report['figures']}")


def run(sizes: list[int], jobs: list[str], folder: Path) -> Iterator[Figure]:
    """Yield time and CPU of each job at each size, and how CPU grows."""
    done: dict[str, list[Done]] = {job: [] for job in jobs}
    with spark_cluster(folder / "cluster", memory="1536m") as cluster:
        for messages in sizes:
            store = folder / f"store-{messages}"
            big_store.build(store, messages)
            for job in jobs:
                one = run_job(job, store, folder, cluster, messages)
                done[job].append(one)
                yield Figure(f"{job}: {messages:,} messages", one.took_s, "s")
                yield Figure("  messages a second", messages / one.took_s, "1/s")
                yield Figure("  CPU", one.cpu_us, "µs/msg")
    for job, several in done.items():
        first, last = several[0], several[-1]
        if first is last:
            continue
        name = f"{job}: CPU per message at {last.messages:,}, of that at {first.messages:,}"
        yield Figure(name, last.cpu_us / first.cpu_us, "×", GROWTH)
        for one, two in itertools.pairwise(several):
            more = (two.cpu_s - one.cpu_s) / (two.messages - one.messages) * 1e6
            yield Figure(f"  CPU of each message more, {one.messages:,} to {two.messages:,}", more, "µs/msg")


def main() -> int:
    """Run what was asked for; 1 when a bar was missed, 2 when something is missing or went wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.scale", description=__doc__)
    parser.add_argument("--sizes", default="1000000,2000000,5000000", help="messages (1000000,2000000,5000000)")
    parser.add_argument("--jobs", default=",".join(JOBS), help=f"comma-separated: {', '.join(JOBS)}")
    parser.add_argument("--dir", type=Path, help="where stores are made (the system's temporary directory)")
    options = parser.parse_args()
    jobs = [job for job in options.jobs.split(",") if job]
    if unknown := sorted(set(jobs) - set(JOBS)):
        parser.error(f"no such job: {', '.join(unknown)}; there are {', '.join(JOBS)}")
    sizes = sorted(int(size) for size in options.sizes.split(","))
    print(" · ".join(f"{name} {value}" for name, value in figures.machine().items()))
    try:
        check_spark()
        check_java()
        with tempfile.TemporaryDirectory(prefix="litemq-bench-", dir=options.dir) as directory:
            found = figures.show("two workers of a standalone cluster", run(sizes, jobs, Path(directory)))
    except (Broken, SparkMissing) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    figures.save(KEPT, {"scale": found})
    is_ok = all(figure.verdict != "MISSED" for figure in found)
    print(f"\n{'all bars held' if is_ok else 'bars were missed'}; kept in {KEPT.relative_to(ROOT)}")
    return 0 if is_ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
