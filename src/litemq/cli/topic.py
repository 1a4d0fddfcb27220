"""``litemq topic``: topics of a running cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from litemq.cli import output, topic_changes
from litemq.cli.connecting import JSON_LINES, JSON_OBJECT, NAMESERVERS, connected, shown

if TYPE_CHECKING:
    from litemq.client.admin_topic_values import TopicDetails


@click.group()
def topic() -> None:
    """Make, look at, alter, empty and delete topics of running brokers."""


@topic.command("list")
@click.option("--all", "everything", is_flag=True, help="Also brokers' own topics, retries and dead letters.")
@NAMESERVERS
@JSON_LINES
def list_topics(*, everything: bool, nameservers: str, as_json: bool) -> int:
    """List topics with their queues on each broker."""
    with connected(nameservers) as admin:
        found = admin.topics(system=everything)
    if as_json:
        for info in found:
            output.write_json(info.to_json())
        return 0
    rows = [(info.topic, name, on.read, on.write) for info in found for name, on in sorted(info.brokers.items())]
    output.write_table(("TOPIC", "BROKER", "READ", "WRITE"), rows)
    return 0


@topic.command()
@click.argument("name")
@NAMESERVERS
@JSON_OBJECT
def show(*, name: str, nameservers: str, as_json: bool) -> int:
    """Show a topic: settings, what each queue holds, the groups that read it."""
    with connected(nameservers) as admin:
        details = admin.topic(name)
    if as_json:
        output.write_json(details.to_json())
    else:
        _write(details)
    return 0


def _write(details: TopicDetails) -> None:
    output.write_fields(
        [
            ("topic", details.topic),
            ("brokers", shown(tuple(details.brokers))),
            ("ordered", shown(details.is_ordered)),
            ("readable", shown(all(on.is_readable for on in details.brokers.values()))),
            ("writable", shown(all(on.is_writable for on in details.brokers.values()))),
            ("attributes", shown(details.attributes)),
            ("groups", shown(details.groups)),
            ("messages", f"{details.messages} ({details.messages_per_s:.1f}/s came in the last minute)"),
        ]
    )
    output.write_line()
    rows = [
        (
            queue.broker,
            queue.queue_id,
            queue.first,
            queue.end,
            queue.messages,
            output.time_text(None if queue.last_stored_at is None else round(queue.last_stored_at.timestamp() * 1000)),
        )
        for queue in details.queue_infos
    ]
    output.write_table(("BROKER", "QUEUE", "FIRST", "END", "MESSAGES", "LAST STORED"), rows)


for command in (
    topic_changes.create,
    topic_changes.alter,
    topic_changes.placement,
    topic_changes.rebalance,
    topic_changes.delete,
    topic_changes.purge,
):
    topic.add_command(command)
