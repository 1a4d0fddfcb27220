"""Transactions and receipts: beside a real RocketMQ, from the SDK, and with a million pending or in flight.

The million is held against an empty broker that runs at the same time: both get the same plain sends, in turn.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks import native
from benchmarks.broker.sites import QUEUES, Site, WrongResult, settle
from benchmarks.figures import Figure
from benchmarks.peers import litemq
from benchmarks.peers.process import die_with_parent
from benchmarks.wire import Client

ROOT = Path(__file__).resolve().parent.parent.parent
POP_RATE_BAR = 60_000.0
CPU_BAR, MEMORY_BAR_MB = 1.1, 150.0
HISTORY_BAR = 1.15
"""Of the checker's work with all the history by that with a tenth of it."""

_SEND_V2, _END, _HEARTBEAT, _POP = 310, 37, 34, 200050
_COMMIT = 8
_GROUP = "benchmark_transactions"
_STUCK = 2_000
_CHECK_MS = 5_000
_WATCHED_S = 15.0
_BODY = b"x" * 128
Pending = Callable[[Site, int], None]


ROWS = ("pop", "history", "halves", "held")
BESIDE = "beside"
"""The row that needs RocketMQ."""


def run(directory: Path, rows: Sequence[str], count: int, pairs: int, store_format: str) -> Iterator[Figure]:
    """Measure what needs no RocketMQ."""
    if "pop" in rows:
        yield from _pops(directory, store_format)
    if "history" in rows:
        yield from _history(directory, count, store_format)
    if "halves" in rows:
        yield from _million(directory / "halves", "half messages pending", _begin, count, pairs, store_format)
    if "held" in rows:
        yield from _million(directory / "held", "messages in flight", _hold, count, pairs, store_format)


# -- receipts -----------------------------------------------------------------------------------------


def _pops(directory: Path, store_format: str, count: int = 400_000) -> Iterator[Figure]:
    """Send a backlog, then have one client of the SDK receive and acknowledge it."""
    rates, costs = [], []
    for turn in range(3):
        start = functools.partial(litemq.start, store_format=store_format)
        with Site(start, directory / f"pop-{turn}") as site:
            site.native_send("bench-pop", connections=4, window=256, count=count)
            settle()
            command = [sys.executable, "-m", "benchmarks.broker.pop_client", site.server.name_server, "bench-pop"]
            process = subprocess.Popen(
                [*command, str(count)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=ROOT,
                env={"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
                preexec_fn=die_with_parent,
            )
            with process:
                assert process.stdout is not None
                found = native.measured(map(bytes.decode, process.stdout), site.server, process)
            rates.append(found["rate"])
            costs.append(found["broker_us"])
    yield Figure("pop + ack, 32 at a time, one SDK client", statistics.median(rates), "/s", POP_RATE_BAR, at_least=True)
    yield Figure("pop + ack: broker CPU per message", statistics.median(costs), "µs")


# -- the checker and history --------------------------------------------------------------------------


def _history(directory: Path, count: int, store_format: str) -> Iterator[Figure]:
    """Leave some transactions pending at the very beginning, and end more and more behind them."""
    settings = {"transaction": {"first_check_ms": _CHECK_MS, "check_interval_ms": _CHECK_MS, "max_checks": 200}}
    start = functools.partial(litemq.start, store_format=store_format, settings=settings)
    costs: list[float] = []
    with Site(start, directory / "history") as site:
        topic = site.topic("bench-history")
        with Client(site.server.port) as client:
            _begin_all(client, topic, _STUCK)
            done = 0
            for share in (count // 10, count * 3 // 10, count):
                _end_all(client, topic, share - done)
                done = share
                settle()
                with Client(site.server.port) as producer:
                    _beat(producer)
                    cost, checks = _watched(site, client)
                costs.append(cost)
                yield Figure(f"checker, {_STUCK} pending, {done:,} ended: broker CPU per minute", cost, "ms")
                yield Figure("  questions per minute", checks, "")
    yield Figure("checker: CPU with all of the history by that with a tenth", costs[-1] / costs[0], "×", HISTORY_BAR)


def _watched(site: Site, client: Client) -> tuple[float, float]:
    """Return CPU (ms) and questions of a broker that has nothing to do but to ask, both per minute."""
    pending = client.statistics()["transactions"]
    if pending["pending"] != _STUCK:
        raise WrongResult(f"{pending['pending']} are pending, not {_STUCK}")
    cpu, began = site.server.cpu_s(), time.monotonic()
    time.sleep(_WATCHED_S)
    took = time.monotonic() - began
    cost = (site.server.cpu_s() - cpu) * 1000 / took * 60
    checks = client.statistics()["transactions"]["checksSent"] - pending["checksSent"]
    return cost, checks / took * 60


def _beat(client: Client) -> None:
    """Have a member of the group to ask; what it is asked stays in the socket's buffers."""
    body = {"clientID": "benchmark", "producerDataSet": [{"groupName": _GROUP}], "consumerDataSet": []}
    client.ask(_HEARTBEAT, {}, json.dumps(body).encode())


_numbers = itertools.count()


def _half(topic: str, number: int) -> tuple[dict[str, object], bytes]:
    found = f"TRAN_MSG\x01true\x02UNIQ_KEY\x01{number:032X}\x02PGROUP\x01{_GROUP}\x02"
    names = {"a": _GROUP, "b": topic, "c": "TBW102", "d": 4, "e": number % QUEUES, "f": 4, "g": 1_700_000_000_000}
    return {**names, "h": 0, "i": found, "j": 0, "k": "false", "m": "false"}, _BODY


def _begin_all(client: Client, topic: str, count: int) -> list[tuple[int, int, int]]:
    """Begin transactions; return number, offset and position of each."""
    numbers = list(itertools.islice(_numbers, count))
    begun = []
    for answer in client.ask_all(_SEND_V2, (_half(topic, number) for number in numbers)):
        ext = answer["extFields"]
        begun.append((int(ext["transactionId"], 16), int(ext["queueOffset"]), int(ext["msgId"][16:], 16)))
    return begun


def _end_all(client: Client, topic: str, count: int) -> None:
    """Begin and commit transactions."""
    while count > 0:
        begun = _begin_all(client, topic, min(count, 1000))
        common = {"producerGroup": _GROUP, "commitOrRollback": _COMMIT, "fromTransactionCheck": "false"}
        requests: list[tuple[dict[str, object], bytes]] = [
            (
                {
                    **common,
                    "tranStateTableOffset": offset,
                    "commitLogOffset": position,
                    "msgId": f"{number:032X}",
                },
                b"",
            )
            for number, offset, position in begun
        ]
        for _ in client.ask_all(_END, requests):
            pass
        count -= len(begun)


# -- a million ----------------------------------------------------------------------------------------


def _begin(site: Site, count: int) -> None:
    with Client(site.server.port) as client:
        _begin_all(client, site.topic("bench-half"), count)
        pending = client.statistics()["transactions"]["pending"]
        if pending != count:
            raise WrongResult(f"{pending} half messages are pending, not {count}")


def _hold(site: Site, count: int) -> None:
    """Pop messages, and acknowledge none."""
    site.native_send("bench-held", connections=4, window=256, count=count)
    fields = {"consumerGroup": "benchmark_held", "topic": "bench-held", "queueId": -1, "maxMsgNums": 32}
    fields |= {"invisibleTime": 3_600_000, "pollTime": 0, "bornTime": 0, "initMode": 0, "expType": "TAG", "exp": "*"}
    with Client(site.server.port) as client:
        held = 0
        while held < count:
            for answer in client.ask_all(_POP, [(dict[str, object](fields), b"")] * 500, 16):
                held += sum(
                    part.rsplit(" ", 1)[1].count(",") + 1 for part in answer["extFields"]["msgOffsetInfo"].split(";")
                )
                if held >= count:
                    break
            else:
                continue
            break
    with Client(site.server.port) as client:
        in_flight = client.statistics()["pop"]["inFlight"]
        if in_flight < count:
            raise WrongResult(f"{in_flight} messages are in flight, not {count}")


def _million(directory: Path, title: str, fill: Pending, count: int, pairs: int, store_format: str) -> Iterator[Figure]:
    """Fill one of two brokers, then compare them."""
    start = functools.partial(litemq.start, store_format=store_format)
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(Site(start, directory / "full"))
        empty = stack.enter_context(Site(start, directory / "empty"))
        began = time.monotonic()
        fill(full, count)
        name = f"{count:,} {title}"
        yield Figure(f"{name}: making them", time.monotonic() - began, "s")
        costs: dict[str, list[float]] = {"full": [], "empty": []}
        for turn in range(-1, pairs):  # the first pair warms
            order = [("full", full), ("empty", empty)]
            for which, site in order if turn % 2 else order[::-1]:
                settle()
                sent = site.native_send("bench-plain", connections=4, window=64, count=500_000)
                if turn >= 0:
                    costs[which].append(sent["broker_us"])
        own, bare = statistics.median(costs["full"]), statistics.median(costs["empty"])
        yield Figure(f"{name}: broker CPU per plain send", own, "µs")
        yield Figure(f"{name}: by that of an empty broker", own / bare, "×", CPU_BAR)
        growth = (full.server.memory_bytes() - empty.server.memory_bytes()) / 1e6
        yield Figure(f"{name}: RssAnon above the empty broker's", growth, "MB", MEMORY_BAR_MB)
