"""The steps of the demo, over one temporary directory: each returns what the summary says of it, or raises ``Failed``.

The store that is searched and converted at the end is the one that the broker wrote, killed once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, NamedTuple

import litemq
from litemq.client.dead_letters import DeadLetter
from litemq.demo import orders
from litemq.demo.engine_steps import end_transactions, share_work
from litemq.demo.processes import SETTINGS, Child, Failed
from litemq.demo.spark_step import summarise
from litemq.demo.stage import LIMIT_S, LOOK_S, Demo, read, wait

_BATCH: Final = 100
_GROUP: Final = "billing"
_BOOKS: Final = "bookkeeping"
_ATTEMPTS: Final = 3
_LARGE: Final = 9_000


# -- steps --------------------------------------------------------------------------------------------------------


def start_up(demo: Demo) -> str:
    """Start a name server and a broker, and make a topic."""
    up = demo.start_broker()
    demo.screen.note("$ litemq up --data DIR/store")
    demo.screen.note(f"broker {up.pid}: name server {up.name_server}, broker {up.address}")
    demo.screen.note(
        "RocketMQ's own clients can do all that follows: rocketmq-client (Java), rocketmq-client-go/v2 (Go)"
    )

    with litemq.Admin(up.name_server) as admin:
        for topic in ("prices", "invoices", "payments", "parcels", "pictures"):
            admin.create_topic(topic, 1)
        admin.create_topic(orders.TOPIC, orders.QUEUES)
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


def filter_by_property(demo: Demo) -> str:
    """Read the same messages once more, by an expression over their properties."""
    half = demo.messages // 2
    expected = sum(orders.amount_of(number) >= _LARGE for number in range(half))
    expression = f"amount >= {_LARGE}"
    demo.screen.note(f'litemq.PullConsumer().subscribe("{orders.TOPIC}", litemq.Sql("{expression}"))')
    found = read(demo, orders.TOPIC, litemq.Sql(expression), expected)
    if len(found) != expected or any(int(message.properties["amount"]) < _LARGE for message in found):
        raise Failed(f"{len(found):,} messages passed the filter where {expected:,} should")
    return f"{expected:,} of {half:,} messages passed the filter {expression}"


def broadcast(demo: Demo) -> str:
    """Send to all consumers of a group."""
    got: dict[str, list[str]] = {name: [] for name in ("shop-1", "shop-2", "shop-3")}
    prices = [f"price {number}" for number in range(5)]
    demo.screen.note(f'{len(got)} × litemq.PushConsumer("shops", {{"prices": "*"}}, handle, broadcast=True)')
    with ExitStack() as stack:
        for name, heard in got.items():
            consumer = litemq.PushConsumer(
                "shops",
                {"prices": "*"},
                lambda message, heard=heard: heard.append(message.text()),
                nameservers=demo.up.name_server,
                broadcast=True,
                start="first",
                instance=name,
                offset_dir=demo.directory / "offsets",
            )
            stack.enter_context(consumer)
        with litemq.Producer(demo.up.name_server) as producer:
            for price in prices:
                producer.send("prices", price.encode())
        wait(lambda: all(len(heard) >= len(prices) for heard in got.values()))
    if any(sorted(heard) != prices for heard in got.values()):
        raise Failed(f"the consumers got {got}")
    return f"{len(prices)} messages, each consumed by all of {len(got)} consumers of one group"


def send_batch(demo: Demo) -> str:
    """Send many messages with one request, and read them back."""
    bodies = [b"invoice %d" % number for number in range(_BATCH)]
    demo.screen.note(f"producer.send_batch([… {_BATCH} messages …])")
    with litemq.Producer(demo.up.name_server) as producer:
        producer.send_batch([litemq.Message("invoices", body) for body in bodies])
    found = read(demo, "invoices", litemq.Tags("*"), _BATCH)
    if [message.body for message in found] != bodies:
        raise Failed("the messages of the batch came back otherwise")
    return f"{_BATCH} messages with one request, consumed in order"


def retry_and_bury(demo: Demo) -> str:
    """Fail at a message until it becomes a dead letter."""

    def fail(message: litemq.Message) -> None:
        demo.screen.note(f"attempt {message.attempt} at {message.text()!r}: raise litemq.Retry(delay=1)")
        raise litemq.Retry("no such account", delay=1)

    with (
        litemq.Producer(demo.up.name_server) as producer,
        litemq.Admin(demo.up.name_server) as admin,
        litemq.PushConsumer(
            _BOOKS, {"payments": "*"}, fail, nameservers=demo.up.name_server, start="first", max_attempts=_ATTEMPTS
        ),
    ):
        producer.send("payments", b"a payment that nobody can book", keys="payment-1")
        wait(lambda: bool(_dead_letters(admin)))
        (letter,) = _dead_letters(admin)
    demo.screen.note("$ litemq dlq show bookkeeping")
    for name in ("reason", "error", "origin_topic", "retry_count"):
        demo.screen.note(f"  {name} = {getattr(letter, name)}")
    if (letter.reason, letter.origin_topic) != ("max_retry", "payments"):
        raise Failed(f"the dead letter says {letter}")
    return f"tried {_ATTEMPTS}×, a second or more between, then a dead letter that says why"


def redrive(demo: Demo) -> str:
    """Send the dead letter once more, now that the cause is mended."""
    booked: list[litemq.Message] = []
    with (
        litemq.PushConsumer(_BOOKS, {"payments": "*"}, booked.append, nameservers=demo.up.name_server),
        litemq.Admin(demo.up.name_server) as admin,
    ):
        demo.screen.note("$ litemq dlq redrive bookkeeping")
        sent = admin.redrive(_BOOKS).sent
        wait(lambda: len(booked) >= 1)
        again = admin.redrive(_BOOKS).sent
    if (sent, again, [message.text() for message in booked]) != (1, 0, ["a payment that nobody can book"]):
        raise Failed(f"redrove {sent}, then {again}; booked {booked}")
    return f"booked at attempt {booked[0].attempt} of its new life; a second redrive sends nothing twice"


def survive_kill(demo: Demo) -> str:
    """Kill the broker while it is at work, and start it again."""
    before = demo.up
    half = demo.messages // 2
    consumer = demo.start("consumer", "audit", "*", demo.messages)
    consumer.wait_word()  # it must have found its name server before that dies with the broker
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
        f"all {demo.messages:,} messages consumed, in order; the SDK rode through, {producer.said['unanswered']} sends "
        f"were repeated by hand, {consumer.said['twice']} messages came twice"
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
    if not found or any(record["keys"] != [orders.key_of(number)] for record in found):
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
    Step("filter by property", filter_by_property),
    Step("broadcast", broadcast),
    Step("send a batch", send_batch),
    Step("retry, dead letter", retry_and_bury),
    Step("redrive", redrive),
    Step("transactions", end_transactions),
    Step("work queue", share_work),
    Step("kill -9 the broker", survive_kill),
    Step("stop", stop),
    Step("search the store", search),
    Step("convert to RocketMQ", convert),
    Step("Spark summary", summarise),
)


# -- what steps use -----------------------------------------------------------------------------------------------


def _dead_letters(admin: litemq.Admin) -> list[DeadLetter]:
    """Return the dead letters of the step; none before the group has died of one."""
    return admin.dead_letters(topic="payments")


def _watch(demo: Demo, *children: Child, at: int = 0, then: Callable[[], None] | None = None) -> None:
    """Wait until all have ended; show how far they are, and act when ``at`` messages are acknowledged."""
    deadline = time.monotonic() + LIMIT_S
    shown = time.monotonic()
    while any(child.is_running for child in children):
        for child in children:
            child.check_so_far()
        if then is not None and children[0].said.get("acknowledged", 0) >= at:
            then()
            then = None
        if time.monotonic() - shown >= 1:
            shown = time.monotonic()
            demo.screen.note("; ".join(_progress(child) for child in children))
        if time.monotonic() > deadline:
            raise Failed(f"not done within {LIMIT_S:.0f} s: " + "; ".join(_progress(child) for child in children))
        time.sleep(LOOK_S)
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
