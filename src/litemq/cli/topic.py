"""``litemq topic``: topics of a running cluster."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from litemq.cli import output

if TYPE_CHECKING:
    from litemq.cli.cluster import Cluster
    from litemq.cli.topic_changes import Outcome

T = TypeVar("T")

_NAME = click.argument("name")
_SERVERS = click.option(
    "--name-server",
    "--nameserver",
    "name_servers",
    metavar="HOST:PORT;…",
    envvar="NAMESRV_ADDR",
    default="127.0.0.1:9876",
    show_default=True,
    help="Name servers of the cluster [variable NAMESRV_ADDR].",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a topic.")
_QUEUES = click.option("--queues", type=click.IntRange(min=1), help="Queues of the topic on all brokers together.")
_FORCE = click.option("--force", is_flag=True, help="Take queues from consumers whatever they have yet to read.")


@click.group()
def topic() -> None:
    """Make, list, alter and delete topics of running brokers."""


@topic.command()
@_NAME
@_QUEUES
@click.option(
    "--placement",
    default="even",
    show_default=True,
    metavar="even|exclusive:BROKER|BROKER=COUNT,…",
    help="Brokers that get the queues.",
)
@click.option(
    "--attribute", "attributes", multiple=True, metavar="NAME=VALUE", help="Attribute of the topic: retention.ms=…"
)
@click.option("--ordered", is_flag=True, help="Mark it as a topic of ordered messages.")
@_SERVERS
@_JSON
def create(
    *,
    name: str,
    queues: int | None,
    placement: str,
    attributes: tuple[str, ...],
    ordered: bool,
    name_servers: str,
    as_json: bool,
) -> int:
    """Make a topic; 8 queues unless said otherwise."""
    from litemq.cli import topic_changes

    pairs = {}
    for text in attributes:
        key, mark, value = text.partition("=")
        if not key or not mark or not value or "," in text:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--attribute")
        pairs[key] = value
    if queues is None and "=" not in placement:
        queues = 8
    return _change(
        name_servers,
        lambda cluster: topic_changes.create(cluster, name, queues, placement, pairs, is_ordered=ordered),
        as_json=as_json,
    )


@topic.command()
@_NAME
@_QUEUES
@click.option(
    "--placement",
    metavar="even|exclusive:BROKER|BROKER=COUNT,…",
    help="Brokers that get the queues (default: evenly those that have the topic).",
)
@_FORCE
@_SERVERS
@_JSON
def alter(
    *, name: str, queues: int | None, placement: str | None, force: bool, name_servers: str, as_json: bool
) -> int:
    """Change how many queues a topic has, or where they are.

    More queues are there at once.  Of fewer, producers lose the queues first; consumers lose those that all groups
    have read when the command is given again.  Exit status 1: some are left.
    """
    from litemq.cli import topic_changes

    return _change(
        name_servers,
        lambda cluster: topic_changes.alter(cluster, name, queues, placement, force=force),
        as_json=as_json,
    )


@topic.command()
@_NAME
@_QUEUES
@_FORCE
@_SERVERS
@_JSON
def rebalance(*, name: str, queues: int | None, force: bool, name_servers: str, as_json: bool) -> int:
    """Deal a topic's queues evenly over all brokers; as gently as alter."""
    from litemq.cli import topic_changes

    return _change(
        name_servers, lambda cluster: topic_changes.rebalance(cluster, name, queues, force=force), as_json=as_json
    )


@topic.command()
@_NAME
@_SERVERS
@_JSON
def delete(*, name: str, name_servers: str, as_json: bool) -> int:
    """Delete a topic with its messages from all brokers."""
    from litemq.cli import topic_changes

    return _change(name_servers, lambda cluster: topic_changes.delete(cluster, name), as_json=as_json)


@topic.command("list")
@click.option("--all", "everything", is_flag=True, help="Also brokers' own topics, retries and dead letters.")
@_SERVERS
@_JSON
def list_topics(*, everything: bool, name_servers: str, as_json: bool) -> int:
    """List topics with their queues on each broker."""
    from litemq.cli import topic_changes

    found = _run(name_servers, lambda cluster: topic_changes.show(cluster, everything=everything))
    if as_json:
        for outcome in found:
            output.write_json(outcome.to_json())
    else:
        rows = [(one.topic, name, on.read, on.write) for one in found for name, on in sorted(one.brokers.items())]
        output.write_table(("TOPIC", "BROKER", "READ", "WRITE"), rows)
    return 0


def _change(name_servers: str, change: Callable[[Cluster], Coroutine[Any, Any, Outcome]], *, as_json: bool) -> int:
    """Make a change and tell of it; 1: something is left to do."""
    outcome = _run(name_servers, change)
    if as_json:
        output.write_json(outcome.to_json())
        return int(bool(outcome.left))
    if not outcome.brokers:
        output.write_line(output.one_line(f"{outcome.topic} is on no broker any more"))
    for name, on in sorted(outcome.brokers.items()):
        output.write_line(output.one_line(f"{outcome.topic} on {name}: {on.write} queues to write, {on.read} to read"))
    for one in outcome.left:
        if one.unread:
            who = f"group {one.group} has" if one.group else "no group has read its"
            output.write_line(
                output.one_line(f"left: queue {one.queue} on {one.broker}: {who} {one.unread} messages to read")
            )
        else:
            output.write_line(
                output.one_line(f"left: queue {one.queue} on {one.broker}: producers may send to it for 30 s more")
            )
    if outcome.left:
        output.write_line("give the command again later; consumers keep these queues until then")
    return int(bool(outcome.left))


def _run(name_servers: str, act: Callable[[Cluster], Coroutine[Any, Any, T]]) -> T:
    import asyncio  # not at the top, as all that help does not need

    from litemq.cli.cluster import Cluster

    async def run() -> T:
        async with Cluster(name_servers) as cluster:
            return await act(cluster)

    return asyncio.run(run())
