"""``python -m benchmarks.python.load LIBRARY WORK …``: the client process of one run.

It prints ``begin`` and ``end`` around the measured part, then what it found as a line of JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib
import json
import time
from typing import Any

from benchmarks.memory import touch_memory
from benchmarks.python import bodies
from benchmarks.python.drivers import Library, Send

LIBRARIES = ("litemq", "redis", "kafka", "kafka_tuned", "nats", "rabbitmq")
SENDS = ("sync", "pipelined", "batch")
_STORED_S = 15.0


class WrongResult(Exception):
    """A run whose figures mean nothing."""


def send(library: Library, work: str, warm: float, seconds: float) -> dict[str, Any]:
    """Send for about ``seconds``; what was acknowledged must be there."""
    sender = library.sender(work)
    before = library.stored()
    warmed, count = calibrated(sender, warm, seconds)
    touch_memory()
    found = measured(sender, count)
    acknowledged = warmed + found["result"]
    if acknowledged != warmed + count:
        raise WrongResult(f"of {count} messages {found['result']} were acknowledged")
    limit = time.monotonic() + _STORED_S
    while (stored := library.stored() - before) != acknowledged:
        if stored > acknowledged or time.monotonic() > limit:
            raise WrongResult(f"{acknowledged} messages were acknowledged, {stored} are stored")
        time.sleep(0.05)
    return found


def calibrated(sender: Send, warm: float, seconds: float) -> tuple[int, int]:
    """Send until a round took ``warm`` seconds; return how many that were, and how many take ``seconds``."""
    count, done = 64, 0
    while True:
        began = time.perf_counter()
        if (acknowledged := sender(count)) != count:
            raise WrongResult(f"of {count} messages {acknowledged} were acknowledged")
        took = time.perf_counter() - began
        done += count
        if took >= warm:
            return done, max(1, round(count * seconds / took))
        count = min(count * 4, max(count + 1, round(count * warm / took * 1.1)))


def consume(library: Library, group: str, count: int) -> dict[str, Any]:
    """Read the whole backlog and look at every body."""
    found = measured(library.reader(group), count)
    seen, total = found["result"]
    if seen != count or total != bodies.checksum(count):
        raise WrongResult(f"of {count} messages {seen} came, their sum is {total}, not {bodies.checksum(count)}")
    return found


def fill(library: Library, count: int) -> dict[str, Any]:
    """Make the backlog, unless it is there; not measured."""
    missing = count - library.stored()
    if missing not in (0, count):
        raise WrongResult(f"a backlog of {count - missing} messages instead of {count}")
    if missing and library.sender("batch")(missing) != missing:
        raise WrongResult("not all of the backlog was acknowledged")
    return {"measured": missing}


def measured(work: Any, count: int) -> dict[str, Any]:  # noqa: ANN401 - a Send or a Read
    """Do the work once, with its time and this process's CPU time."""
    print("begin", flush=True)
    began, cpu = time.perf_counter(), time.process_time()
    result = work(count)
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    print("end", flush=True)
    return {"measured": count, "rate": count / took, "client_us": cpu / count * 1e6, "seconds": took, "result": result}


def main() -> int:
    """Do what was asked for; a run that hangs tells where and ends."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.python.load", description=__doc__)
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("work", choices=(*SENDS, "fill", "consume"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--name-server", default="")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", default="")
    parser.add_argument("--count", type=int, default=0, help="messages of fill and consume")
    parser.add_argument("--warm", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which it gives up")
    options = parser.parse_args()
    faulthandler.dump_traceback_later(options.limit, exit=True)
    driver = importlib.import_module(f"benchmarks.python.drivers.{options.library}")
    with contextlib.closing(driver.Library(options.port, options.name_server, options.topic)) as library:
        try:
            library.create()
            if options.work == "fill":
                found = fill(library, options.count)
            elif options.work == "consume":
                found = consume(library, options.group, options.count)
            else:
                found = send(library, options.work, options.warm, options.seconds)
                library.discard()
        except WrongResult as error:
            found = {"error": str(error)}
    print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
