"""``python -m benchmarks.broker.pop_client NAME_SERVER TOPIC COUNT``: read a backlog by receipts, 32 at a time.

It prints ``begin`` and ``end`` around the eight tenths in the middle, then what it found as a line of JSON.
"""

from __future__ import annotations

import json
import sys
import time

from litemq import SimpleConsumer

BATCH = 32


def main() -> int:
    """Receive and acknowledge until everything was there once."""
    name_server, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    marks = [count // 10, count * 9 // 10]
    seen = 0
    times: list[tuple[float, int]] = []
    places: set[tuple[int, int]] = set()
    with SimpleConsumer("benchmark_pop", {topic: "*"}, nameservers=name_server) as consumer:
        while seen < count:
            messages = consumer.receive(BATCH, invisible=600, timeout=10)
            if not messages:
                break
            consumer.ack(*messages)
            seen += len(messages)
            places.update((message.queue_id, message.queue_offset) for message in messages)
            if len(times) < len(marks) and seen >= marks[len(times)]:
                times.append((time.perf_counter(), seen))
                print(("begin", "end")[len(times) - 1], flush=True)
    if len(places) != count or seen != count:
        print(json.dumps({"error": f"{count} messages were sent, {seen} came, {len(places)} different ones"}))
        return 1
    (began, first), (ended, last) = times
    print(json.dumps({"rate": (last - first) / (ended - began), "measured": last - first, "refused": 0}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
