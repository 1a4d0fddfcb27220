"""The steps of the demo, over one temporary directory: each returns what the summary says of it, or raises ``Failed``.

The store that is searched and converted at the end is the one that the broker wrote, killed once.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from litemq.demo import orders
from litemq.demo.client import DemoClient
from litemq.demo.processes import SETTINGS, Child, Failed, Up
from litemq.demo.screen import Screen
from litemq.types import Record

T = TypeVar("T")

_LIMIT_S: Final = 300.0
_LOOK_S: Final = 0.02
_BATCH: Final = 100
_GROUP: Final = "billing"
_MAX_RETRIES: Final = 2
_SECOND: Final = 1
"""The delay level of one second; left to the broker, the first retry comes after ten."""


@dataclass
class Demo:
    """What the steps share; ``close`` ends every process."""

    directory: Path
    messages: int
    screen: Screen = field(default_factory=Screen)
    broker: Up | None = None
    children: list[Child] = field(default_factory=list)

    @property
    def store(self) -> Path:
        return self.directory / "store"

    @property
    def copy(self) -> Path:
        return self.directory / "for-rocketmq"

    @property
    def up(self) -> Up:
        """Return the broker, which must run."""
        if self.broker is None:
            raise Failed("no broker runs")
        return self.broker

    def start_broker(self, ports: tuple[str, str] = ("0", "0")) -> Up:
        """Start ``litemq up`` over the store."""
        self.broker = Up(self.store, self.directory / "broker.log", ports)
        self.children.append(self.broker)
        return self.broker

    def start(self, name: str, *arguments: str | int) -> Child:
        """Start a producer or a consumer."""
        words = ("litemq.demo", name, self.up.name_server, *map(str, arguments))
        child = Child(name, *words, log=self.directory / f"{name}.log")
        self.children.append(child)
        self.screen.note(f"{name} {child.pid}: {' '.join(words[3:])}")
        return child

    def close(self) -> None:
        """End every process."""
        for child in self.children:
            child.kill()

    def litemq(self, *arguments: str | Path) -> list[dict[str, object]]:
        """Run a command of ``litemq store`` and return the objects that it prints."""
        shown = " ".join(str(argument).replace(str(self.directory), "DIR") for argument in arguments)
        self.screen.note(f"$ litemq store {shown}")
        done = subprocess.run(
            [sys.executable, "-P", "-m", "litemq", "store", *map(str, arguments), "--json"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT_S,
        )
        if done.returncode:
            raise Failed(f"exit status {done.returncode}: {(done.stderr or done.stdout).strip()[:300]}")
        return [json.loads(line) for line in done.stdout.splitlines()]


# -- steps --------------------------------------------------------------------------------------------------------


def start_up(demo: Demo) -> str:
    """Start a name server and a broker, and make a topic."""
    up = demo.start_broker()
    demo.screen.note("$ litemq up --data DIR/store")
    demo.screen.note(f"broker {up.pid}: name server {up.name_server}, broker {up.address}")
    demo.screen.note(
        "RocketMQ's own clients can do all that follows: rocketmq-client (Java), rocketmq-client-go/v2 (Go)"
    )

    async def make_topic(client: DemoClient) -> None:
        await client.create_topic(orders.TOPIC, orders.QUEUES)

    _talk(demo, "demo", make_topic)
    return f"ready after {up.ready_ms:.0f} ms"


def send_and_consume(demo: Demo) -> str:
    """Send from one process while another consumes, each customer's orders in order."""
    half = demo.messages // 2
    started = time.perf_counter()
    consumer = demo.start("consumer", _GROUP, "*", half)
    producer = demo.start("producer", 0, half)
    _watch(demo, producer, consumer)
    seconds = time.perf_counter() - started
    check_consumer(consumer, half)
    return f"{half:,} messages sent and consumed in {seconds:.1f} s; those of each customer in order"


def filter_by_tag(demo: Demo) -> str:
    """Let another group consume the same messages, of two tags only."""
    half = demo.messages // 2
    wanted = sum(orders.tag_of(number) != "created" for number in range(half))
    consumer = demo.start("consumer", "shipping", "paid || shipped", half)
    _watch(demo, consumer)
    check_consumer(consumer, wanted)
    return f"{wanted:,} of {half:,} messages passed the filter paid || shipped, and no other"


def send_batch(demo: Demo) -> str:
    """Send many messages with one request, and read them back."""

    async def batch(client: DemoClient) -> list[Record]:
        await client.create_topic("invoices", 1)
        messages = [(b"invoice %d" % n, {"UNIQ_KEY": f"invoice-{n}"}) for n in range(_BATCH)]
        await client.send_batch("invoices", 0, messages)
        found: list[Record] = []
        while len(found) < _BATCH:
            more, _ = await client.pull("invoices", 0, len(found))
            found += more
        return found

    found = _talk(demo, "archive", batch)
    if [message.body for message in found] != [b"invoice %d" % n for n in range(_BATCH)]:
        raise Failed("the messages of the batch came back otherwise")
    return f"{_BATCH} messages with one request, consumed in order"


def retry_and_bury(demo: Demo) -> str:
    """Fail at a message until it becomes a dead letter."""

    async def fail(client: DemoClient) -> Record:
        await client.create_topic("payments", 1)
        await client.heartbeat("payments", "*")
        await client.send("payments", 0, b"a payment that nobody can book", {"UNIQ_KEY": "payment-1"})
        (failed,), _ = await client.pull("payments", 0, 0)
        for times in range(_MAX_RETRIES + 1):
            demo.screen.note(f"consumed {times + 1}×, the consumer fails, and sends it back")
            await client.send_back(
                failed, delay_level=_SECOND, max_times=_MAX_RETRIES, error="ValueError: no such account"
            )
            if times < _MAX_RETRIES:
                failed = await _next(client, f"%RETRY%{client.group}", times)
        return await _next(client, f"%DLQ%{client.group}", 0)

    found = _talk(demo, "bookkeeping", fail).properties
    for name in ("DLQ_REASON", "DLQ_ERROR", "DLQ_ORIGIN_TOPIC", "DLQ_RETRY_COUNT"):
        demo.screen.note(f"{name} = {found.get(name)}")
    if (found.get("DLQ_REASON"), found.get("DLQ_ORIGIN_TOPIC")) != ("max_retry", "payments"):
        raise Failed(f"the dead letter says {found}")
    return f"retried {_MAX_RETRIES}× a second later each, then a dead letter that says why"


def survive_kill(demo: Demo) -> str:
    """Kill the broker while it is at work, and start it again."""
    before = demo.up
    half = demo.messages // 2
    consumer = demo.start("consumer", "audit", "*", demo.messages)
    producer = demo.start("producer", half, demo.messages)
    kill_at = half + (demo.messages - half) // 2

    def kill() -> None:
        before.kill()
        acknowledged = producer.said.get("acknowledged", 0)
        demo.screen.note(f"kill -9 {before.pid}, {acknowledged:,} messages acknowledged")
        again = demo.start_broker(before.ports)
        demo.screen.note(f"broker {again.pid}: up again after {again.ready_ms:.0f} ms")

    _watch(demo, producer, consumer, at=kill_at, then=kill)
    if demo.up is before:
        raise Failed("the producer ended before the broker could be killed")
    check_consumer(consumer, demo.messages, may_repeat=True)
    return (
        f"all {demo.messages:,} messages consumed, in order; {producer.said['unanswered']} had no answer yet and were "
        f"sent again, {consumer.said['twice']} of them came twice"
    )


def stop(demo: Demo) -> str:
    """Stop the broker as a service manager does."""
    demo.screen.note(f"kill -TERM {demo.up.pid}")
    status = demo.up.stop()
    demo.broker = None
    if status:
        raise Failed(f"the broker ended with status {status}")
    return "the store is closed, exit status 0"


def search(demo: Demo) -> str:
    """Find a message in the broker's store by its key."""
    number = demo.messages * 5 // 8
    found = demo.litemq("query", demo.store, "--key", orders.key_of(number))
    if {record["message_id"] for record in found} != {orders.properties_of(number)["UNIQ_KEY"]}:
        raise Failed(f"{len(found)} messages came back for one key")
    return f"{orders.key_of(number)}: message {found[0]['message_id']}, tag {orders.tag_of(number)}"


def convert(demo: Demo) -> str:
    """Write the store in RocketMQ's format, and check every record, queue entry and index entry of both."""
    names = {"segment_bytes": "--segment-size"}
    options = []
    for setting, size in SETTINGS.items():
        name = setting.removeprefix("store.")
        options += [names.get(name, f"--{name.replace('_', '-')}"), str(size)]
    (report,) = demo.litemq("convert", demo.store, demo.copy, "--to", "rocketmq", *options)
    if report["dropped"] or report["rejected"]:
        raise Failed(f"dropped {report['dropped']}, rejected {report['rejected']}")
    reports = [demo.litemq("verify", path)[0] for path in (demo.store, demo.copy)]
    if not all(report["ok"] for report in reports) or reports[0]["records"] != reports[1]["records"]:
        raise Failed(f"verify: {reports}")
    return f"{reports[0]['records']:,} records each, no damage"


class Step(NamedTuple):
    """One step of the demo."""

    name: str
    run: Callable[[Demo], str]


STEPS: Final = (
    Step("start a broker", start_up),
    Step("send and consume", send_and_consume),
    Step("filter by tag", filter_by_tag),
    Step("send a batch", send_batch),
    Step("retry, dead letter", retry_and_bury),
    Step("kill -9 the broker", survive_kill),
    Step("stop", stop),
    Step("search the store", search),
    Step("convert to RocketMQ", convert),
)


# -- what steps use -----------------------------------------------------------------------------------------------


def _talk(demo: Demo, group: str, what: Callable[[DemoClient], Coroutine[object, object, T]]) -> T:
    """Let this process be a client."""

    async def talk() -> T:
        async with asyncio.timeout(_LIMIT_S), DemoClient(demo.up.name_server, group) as client:
            return await what(client)

    return asyncio.run(talk())


async def _next(client: DemoClient, topic: str, offset: int) -> Record:
    """Wait for the message at an offset of a topic with one queue."""
    while True:
        found, _ = await client.pull(topic, 0, offset)
        if found:
            return found[0]


def _watch(demo: Demo, *children: Child, at: int = 0, then: Callable[[], None] | None = None) -> None:
    """Wait until all have ended; show how far they are, and act when ``at`` messages are acknowledged."""
    deadline = time.monotonic() + _LIMIT_S
    shown = time.monotonic()
    while any(child.is_running for child in children):
        if then is not None and children[0].said.get("acknowledged", 0) >= at:
            then()
            then = None
        if time.monotonic() - shown >= 1:
            shown = time.monotonic()
            demo.screen.note("; ".join(_progress(child) for child in children))
        if time.monotonic() > deadline:
            raise Failed(f"not done within {_LIMIT_S:.0f} s: " + "; ".join(_progress(child) for child in children))
        time.sleep(_LOOK_S)
    for child in children:
        child.check()


def _progress(child: Child) -> str:
    for word in ("acknowledged", "received"):
        if word in child.said:
            return f"{child.name} {child.said[word]:,} {word}"
    return f"{child.name} starts"


def check_consumer(consumer: Child, expected: int, *, may_repeat: bool = False) -> None:
    """Raise unless a consumer got what it should."""
    said = consumer.said
    if said["received"] != expected:
        raise Failed(f"{said['received']:,} messages were consumed where {expected:,} were sent")
    for word in ("wrong", "disordered", *(() if may_repeat else ("twice",))):
        if said[word]:
            raise Failed(f"{said[word]:,} messages came {word}")
