"""``litemq bench``: put load on a cluster with the SDK, and measure it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

import click

from litemq.cli import output
from litemq.cli.connecting import JSON_OBJECT, NAMESERVERS

if TYPE_CHECKING:
    from litemq.cli.load import Load, Plan

_TOPIC: Final = "litemq-bench"
_SECONDS: Final = 10.0
_IDLE_S: Final = 1.0
_POLL: Final = 1024
_LATE_S: Final = 5.0
"""So long the last messages of a latency run may take."""

_MESSAGES = click.option("--messages", "-n", type=click.IntRange(min=1), metavar="N", help="End after N messages.")
_TIME = click.option(
    "--seconds", "-t", type=click.FloatRange(min=0, min_open=True), metavar="S", help="End after S seconds."
)
_SIZE = click.option(
    "--size", type=click.IntRange(8, 4 << 20), default=1024, show_default=True, help="Bytes of a body."
)
_THREADS = click.option(
    "--threads", type=click.IntRange(1, 256), default=1, show_default=True, help="Threads that send."
)
_TO = click.option("--topic", default=_TOPIC, show_default=True, help="The topic; its first message makes it.")


@click.group()
def bench() -> None:
    """Put load on a cluster and measure it: the SDK's, in this process."""


@bench.command()
@_TO
@_MESSAGES
@_TIME
@_SIZE
@_THREADS
@click.option(
    "--in-flight", type=click.IntRange(1, 100_000), default=1, show_default=True, help="Sends of a thread under way."
)
@click.option("--batch", type=click.IntRange(1, 10_000), default=1, show_default=True, help="Messages of one request.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Send N messages a second, due at fixed times whatever the answers take; latencies begin when one was due.",
)
@NAMESERVERS
@JSON_OBJECT
def send(
    *,
    topic: str,
    messages: int | None,
    seconds: float | None,
    size: int,
    threads: int,
    in_flight: int,
    batch: int,
    rate: float | None,
    nameservers: str,
    as_json: bool,
) -> int:
    """Send messages: each waits for its answer, unless --in-flight or --batch says otherwise."""
    if in_flight > 1 and batch > 1:
        raise click.UsageError("give either --in-flight or --batch: what is in flight is batched by itself")
    from litemq.cli.load import Load, Plan, sending
    from litemq.cli.rates import live
    from litemq.client.producer import Producer

    plan = Plan(
        topic=topic,
        count=messages,
        seconds=_limit(messages, seconds),
        size=size,
        threads=threads,
        in_flight=in_flight,
        batch=batch,
        rate=rate,
    )
    load = Load(plan)
    with Producer(nameservers, group="LITEMQ_BENCH") as producer:
        producer.send(topic, bytes(8))  # makes the topic, and connects
        with _told("send", load, as_json=as_json), live(load, "send") as shown:
            load.run([sending(load, producer)] * threads, shown)
    return 0


@bench.command()
@_TO
@_MESSAGES
@_TIME
@click.option("--group", help="Consume as this group, and commit at the end; else without one.")
@click.option(
    "--batch", type=click.IntRange(1, 10_000), default=1024, show_default=True, help="Messages of one poll at most."
)
@NAMESERVERS
@JSON_OBJECT
def consume(
    *,
    topic: str,
    messages: int | None,
    seconds: float | None,
    group: str | None,
    batch: int,
    nameservers: str,
    as_json: bool,
) -> int:
    """Consume a topic from its first message, or where --group stands; without a limit until nothing more comes."""
    from litemq.cli.load import Load, Plan, consuming
    from litemq.cli.rates import live
    from litemq.client.pull import PullConsumer

    load = Load(Plan(topic=topic, count=messages, seconds=seconds, size=0, batch=batch))

    def is_over(count: int, idle_s: float) -> bool:
        if messages is not None and count >= messages:
            return True
        return seconds is None and idle_s > _IDLE_S

    with PullConsumer(group, nameservers=nameservers, start="first") as consumer:
        consumer.subscribe(topic)
        with _told("consume", load, as_json=as_json), live(load, "consume") as shown:
            load.run([consuming(load, consumer, most=batch, knows_due=False, is_over=is_over)], shown)
        if group is not None:
            consumer.commit()
    return 0


@bench.command()
@_TO
@_MESSAGES
@_TIME
@_SIZE
@_THREADS
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    default=1000.0,
    show_default=True,
    metavar="N",
    help="Send N messages a second, due at fixed times whatever the answers take.",
)
@NAMESERVERS
@JSON_OBJECT
def latency(
    *,
    topic: str,
    messages: int | None,
    seconds: float | None,
    size: int,
    threads: int,
    rate: float,
    nameservers: str,
    as_json: bool,
) -> int:
    """Send and consume at once: how long it takes from when a message was due until a consumer has it."""
    from litemq.cli.load import Plan

    plan = Plan(
        topic=topic,
        count=messages,
        seconds=_limit(messages, seconds),
        size=size,
        threads=threads,
        rate=rate,
        batch=1,
    )
    received = _measure(plan, nameservers, as_json=as_json)
    if received.is_short:
        output.warn(f"{received.expected - received.total} messages that were sent did not come within {_LATE_S:.0f} s")
    return int(received.is_short)


def _measure(plan: Plan, nameservers: str, *, as_json: bool) -> Load:
    """Send on threads of their own, consume on one beside them; return what was consumed."""
    import threading

    from litemq.cli.load import Load, consuming, sending
    from litemq.cli.rates import live
    from litemq.client.producer import Producer
    from litemq.client.pull import PullConsumer

    sent, received = Load(plan), Load(plan.without_end())
    ended = threading.Event()

    def send_all() -> None:
        try:
            sent.run([sending(sent, producer)] * plan.threads, lambda: None)
        except Exception as error:  # noqa: BLE001 - raised on the main thread
            received.fail(error)
        finally:
            ended.set()

    def is_over(count: int, idle_s: float) -> bool:
        return ended.is_set() and (count >= sent.total or idle_s > _LATE_S)

    with ExitStack() as stack:
        producer = stack.enter_context(Producer(nameservers, group="LITEMQ_BENCH"))
        producer.send(plan.topic, bytes(8))
        consumer = stack.enter_context(PullConsumer(nameservers=nameservers, start="last"))
        consumer.subscribe(plan.topic)
        consumer.poll(max_messages=1, timeout=0.1)  # it stands at the end of each queue from here on
        thread = threading.Thread(target=send_all, name="bench-sends")
        work: Callable[..., None] = consuming(received, consumer, most=_POLL, knows_due=True, is_over=is_over)
        stack.enter_context(_told("latency", received, as_json=as_json))
        shown = stack.enter_context(live(received, "latency"))
        thread.start()
        try:
            received.run([work], shown)
        finally:
            sent.stopped.set()
            thread.join()
    received.expected = sent.total
    return received


def _limit(messages: int | None, seconds: float | None) -> float | None:
    """Return for how long: ten seconds when nothing else ends it."""
    return _SECONDS if messages is None and seconds is None else seconds


@contextmanager
def _told(what: str, load: Load, *, as_json: bool) -> Iterator[None]:
    """Print the result at the end; after Ctrl-C that of what was done until then."""
    from litemq.cli.rates import result_json, write_result

    try:
        yield
    except KeyboardInterrupt:
        output.warn("interrupted; this is the result until then")
        raise
    except Exception:
        load.workers = []  # there is no result
        raise
    finally:
        if load.workers and as_json:
            output.write_json(result_json(what, load))
        elif load.workers:
            write_result(what, load)
        output.flush()
