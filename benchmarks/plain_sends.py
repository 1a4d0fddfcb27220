"""What a plain send costs between the sockets: CPU of split, append and answers per 128-byte message.

Single sends of code 310 as the Java client makes them, with both header codecs, into both store formats, 64 frames or
one frame a read; flush async, ConsumeQueue entry, key index and the write call included.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.append import bare_cost
from benchmarks.figures import Figure
from litemq.config import StoreConfig
from litemq.format._spans_cy import Peer, Spans
from litemq.store.message_store import MessageStore
from litemq.wire.remoting import codes
from litemq.wire.remoting._answers_cy import Outbox, sends
from litemq.wire.remoting._requests_cy import split
from litemq.wire.remoting.command import Request, encode_request

ROUNDS = 5
QUEUES = 8
BARS = {(64, codes.BINARY, "rocketmq"): 1.5, (64, codes.JSON, "rocketmq"): 2.0}
ONE_FRAME_BAR = 3.0
"""Of one frame a read: what comes on top of a bare write of such a record."""
RECORD_BYTES = 360


def frame(number: int, codec: int) -> bytes:
    """Return one send."""
    ext = {
        "a": "benchmark_producer",
        "b": "BenchmarkTest",
        "c": "TBW102",
        "d": "4",
        "e": str(number % QUEUES),
        "f": "0",
        "g": str(1_763_463_600_000 + number),
        "h": "0",
        "i": f"UNIQ_KEY\x017F0000010001{number:020X}\x02WAIT\x01true\x02TAGS\x01TagA\x02",
        "j": "0",
        "k": "false",
        "m": "false",
        "n": "broker-a",
    }
    return encode_request(Request(310, ext, b"x" * 128, number, codec=codec, language="JAVA"))


def run(directory: Path, count: int = 128_000) -> Iterator[Figure]:
    """Measure every kind of read in turn, several times over."""
    kinds = list(itertools.product((64, 1), (codes.BINARY, codes.JSON), ("rocketmq", "litemq")))
    costs: dict[tuple[int, int, str], list[list[float]]] = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        for kind in kinds:
            with tempfile.TemporaryDirectory(dir=directory) as folder:
                costs[kind].append(cost(Path(folder), count, *kind))
    bare = bare_cost(directory, count, 1, RECORD_BYTES)
    for kind in kinds:
        frames, codec, fmt = kind
        total, *parts = (statistics.median(values) for values in zip(*costs[kind], strict=True))
        name = f"{frames} a read, {'JSON' if codec == codes.JSON else 'binary'}, {fmt}"
        yield Figure(name, total, "µs", BARS.get(kind))
        for part, value in zip(("split", "append", "answers"), parts, strict=True):
            yield Figure(f"  {part}", value, "µs")
        if frames == 1:
            yield Figure("  without the bare write", total - bare, "µs", ONE_FRAME_BAR)


def cost(folder: Path, count: int, frames: int, codec: int, fmt: str) -> list[float]:
    """Return µs per message: in all, and of the three calls."""
    reads = [
        bytearray(b"".join(frame(number + i, codec) for i in range(frames)))
        for number in range(0, max(64, frames) * 8, frames)
    ]
    spans, out = Spans(), Outbox()
    spans.peer = Peer("127.0.0.1:50000")
    with MessageStore.open(folder / "store", StoreConfig(format=fmt)) as store:  # type: ignore[arg-type]
        store.put_topic("BenchmarkTest")
        store.put_plain("BenchmarkTest", QUEUES)
        store.set_own_properties((("MSG_REGION", "DefaultRegion"), ("TRACE_ON", "true"), ("CLUSTER", "DefaultCluster")))
        turns = itertools.cycle(reads)
        rows = store.plain.rows

        def turn(times: int) -> None:
            for spans.data in itertools.islice(turns, times):
                split(spans, 0, len(spans.data))
                done = rows.append_ordinary(spans, 0)
                if done < spans.count:  # a queue's first message, or a flush is due
                    done = store.append_rows(spans, done)
                sends(spans, 0, done, out)
                out.take()

        turn(len(reads))
        assert store.counters()["messages"] >= len(reads) * frames
        times = count // frames
        began = time.thread_time()
        turn(times)
        total = time.thread_time() - began
        answers = _answers(spans, out, times)  # before the rows that were stored are split anew
        parts = [total, _splits(spans, reads, times), 0.0, answers]
        parts[2] = total - parts[1] - parts[3]
        return [part / (times * frames) * 1e6 for part in parts]


def _splits(spans: Spans, reads: list[bytearray], times: int) -> float:
    began = time.thread_time()
    for spans.data in itertools.islice(itertools.cycle(reads), times):
        split(spans, 0, len(spans.data))
    return time.thread_time() - began


def _answers(spans: Spans, out: Outbox, times: int) -> float:
    """Answer the last read again and again; its rows say where they went."""
    began = time.thread_time()
    for _ in range(times):
        sends(spans, 0, spans.count, out)
        out.take()
    return time.thread_time() - began
