"""``litemq topic create``, ``alter``, ``placement``, ``rebalance``, ``delete`` and ``purge``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from litemq.cli import output
from litemq.cli.connecting import (
    DRY_RUN,
    JSON_LINES,
    JSON_OBJECT,
    NAMESERVERS,
    NOT_DONE,
    TIME,
    YES,
    attribute_changes,
    check_can_ask,
    connected,
    is_confirmed,
)
from litemq.cli.time_range import parse_time

if TYPE_CHECKING:
    from litemq.client.admin_topic_values import Purged, TopicChange, TopicSettings

_NAME = click.argument("name")
_QUEUES = click.option("--queues", type=click.IntRange(min=1), help="Queues of the topic on all brokers together.")
_FORCE = click.option("--force", is_flag=True, help="Take queues from consumers whatever they have yet to read.")
_PLACEMENT: Final = "even|exclusive:BROKER|BROKER=COUNT,…"
_ATTRIBUTES = click.option(
    "--attribute", "attributes", multiple=True, metavar="NAME=VALUE", help="Attribute of the topic: retention.ms=…"
)
_NO_ATTRIBUTES = click.option(
    "--no-attribute", "removed", multiple=True, metavar="NAME", help="Attribute to take back."
)


@click.command()
@_NAME
@_QUEUES
@click.option("--placement", default="even", show_default=True, metavar=_PLACEMENT, help="Brokers that get the queues.")
@_ATTRIBUTES
@click.option("--ordered", is_flag=True, help="Mark it as a topic of ordered messages.")
@DRY_RUN
@NAMESERVERS
@JSON_OBJECT
def create(
    *,
    name: str,
    queues: int | None,
    placement: str,
    attributes: tuple[str, ...],
    ordered: bool,
    dry_run: bool,
    nameservers: str,
    as_json: bool,
) -> int:
    """Make a topic; 8 queues unless said otherwise."""
    changes = attribute_changes(attributes)
    with connected(nameservers) as admin:
        change = admin.create_topic(
            name, queues, placement=placement, ordered=ordered, attributes=changes, dry_run=dry_run
        )
    return _tell(change, as_json=as_json, dry_run=dry_run)


@click.command()
@_NAME
@_QUEUES
@click.option(
    "--placement", metavar=_PLACEMENT, help="Brokers that get the queues (default: evenly those that have the topic)."
)
@_ATTRIBUTES
@_NO_ATTRIBUTES
@click.option("--ordered/--unordered", default=None, help="Mark it as a topic of ordered messages, or not.")
@click.option("--readable/--unreadable", default=None, help="Let consumers read it, or not.")
@click.option("--writable/--unwritable", default=None, help="Let producers send to it, or not.")
@_FORCE
@DRY_RUN
@NAMESERVERS
@JSON_OBJECT
def alter(
    *,
    name: str,
    queues: int | None,
    placement: str | None,
    attributes: tuple[str, ...],
    removed: tuple[str, ...],
    force: bool,
    dry_run: bool,
    nameservers: str,
    as_json: bool,
    **flags: bool | None,
) -> int:
    """Change settings of a topic, how many queues it has, or where they are.

    More queues are there at once.  Of fewer, producers lose the queues first; consumers lose those that all groups
    have read when the command is given again.  Exit status 1: some are left.
    """
    settings: Any = {name: value for name, value in flags.items() if value is not None}
    wanted: TopicSettings = settings
    changes = attribute_changes(attributes, removed)
    if changes:
        wanted["attributes"] = changes
    if queues is None and placement is None and not wanted:
        raise click.UsageError("nothing to change is given: --queues, --placement, --attribute or another setting")
    with connected(nameservers) as admin:
        change = admin.alter_topic(name, queues, placement=placement, force=force, dry_run=dry_run, **wanted)
    return _tell(change, as_json=as_json, dry_run=dry_run)


@click.command()
@_NAME
@click.argument("wanted", required=False, metavar=f"[{_PLACEMENT}]")
@_QUEUES
@_FORCE
@DRY_RUN
@NAMESERVERS
@JSON_OBJECT
def placement(
    *,
    name: str,
    wanted: str | None,
    queues: int | None,
    force: bool,
    dry_run: bool,
    nameservers: str,
    as_json: bool,
) -> int:
    """Show on which brokers a topic's queues are, or move them; as gently as alter."""
    with connected(nameservers) as admin:
        if wanted is not None:
            change = admin.alter_topic(name, queues, placement=wanted, force=force, dry_run=dry_run)
            return _tell(change, as_json=as_json, dry_run=dry_run)
        if queues is not None or force:
            raise click.UsageError("say where the queues shall be: even, exclusive:BROKER or BROKER=COUNT,…")
        from litemq.client.admin_topic_values import TopicChange

        return _tell(TopicChange(name, admin.topic(name).brokers), as_json=as_json, dry_run=dry_run)


@click.command()
@_NAME
@_QUEUES
@_FORCE
@DRY_RUN
@NAMESERVERS
@JSON_OBJECT
def rebalance(*, name: str, queues: int | None, force: bool, dry_run: bool, nameservers: str, as_json: bool) -> int:
    """Deal a topic's queues evenly over all brokers; as gently as alter."""
    with connected(nameservers) as admin:
        change = admin.rebalance_topic(name, queues, force=force, dry_run=dry_run)
    return _tell(change, as_json=as_json, dry_run=dry_run)


@click.command()
@_NAME
@YES
@DRY_RUN
@NAMESERVERS
@JSON_OBJECT
def delete(*, name: str, yes: bool, dry_run: bool, nameservers: str, as_json: bool) -> int:
    """Delete a topic with its messages from all brokers."""
    if not dry_run:
        check_can_ask(yes=yes)
    with connected(nameservers) as admin:
        if dry_run or not yes:
            details = admin.topic(name)
            what = f"{name} with {details.messages} messages from {', '.join(details.brokers)}"
            if dry_run and as_json:
                return _tell(_as_change(name, details.brokers), as_json=True, dry_run=True)
            if dry_run:
                output.write_line(output.one_line(f"would delete {what}"))
                return 0
            if not is_confirmed(f"delete {what}?", yes=yes):
                return NOT_DONE
        return _tell(admin.delete_topic(name), as_json=as_json, dry_run=False)


@click.command()
@_NAME
@click.option("--before", metavar="TIME", help=f"Only messages stored before this time: {TIME}.")
@click.option("--queue", type=click.IntRange(min=0), help="Only this queue, on every broker that has it.")
@click.option("--offset", type=click.IntRange(min=0), help="Only messages before this offset of the queue.")
@click.option("--broker", metavar="NAME", help="Only on this broker.")
@YES
@DRY_RUN
@NAMESERVERS
@JSON_LINES
def purge(
    *,
    name: str,
    before: str | None,
    queue: int | None,
    offset: int | None,
    broker: str | None,
    yes: bool,
    dry_run: bool,
    nameservers: str,
    as_json: bool,
) -> int:
    """Remove messages from the beginning of a topic's queues; all of them unless said otherwise.

    The topic and its queues stay, and offsets go on where they were.
    """
    limit = None if before is None else parse_time(before)
    if before is not None and (limit is None or limit < 0):
        raise click.BadParameter(f"{before!r} is no time; give {TIME}", param_hint="--before")
    if offset is not None and queue is None:
        raise click.UsageError("--offset needs the --queue that it belongs to")
    if not dry_run:
        check_can_ask(yes=yes)
    with connected(nameservers) as admin:

        def act(*, dry: bool) -> list[Purged]:
            return admin.purge_topic(name, before=limit, queue=queue, offset=offset, broker=broker, dry_run=dry)

        if not dry_run and not yes:
            count = sum(one.messages for one in act(dry=True))
            if not is_confirmed(f"remove {count} messages of {name} for ever?", yes=yes):
                return NOT_DONE
        found = act(dry=dry_run)
    if as_json:
        for one in found:
            output.write_json({**one.to_json(), "dry_run": dry_run})
        return 0
    output.write_table(
        ("BROKER", "QUEUE", "FIRST", "MESSAGES"), [(one.broker, one.queue_id, one.first, one.messages) for one in found]
    )
    verb = "would go" if dry_run else "went"
    output.write_line(f"{sum(one.messages for one in found)} messages {verb}")
    return 0


def _as_change(topic: str, brokers: dict[str, Any]) -> TopicChange:
    from litemq.client.admin_topic_values import TopicChange

    return TopicChange(topic, brokers)


def _tell(change: TopicChange, *, as_json: bool, dry_run: bool) -> int:
    """Tell of a change; 1: something is left to do."""
    if as_json:
        output.write_json({**change.to_json(), "dry_run": dry_run})
        return int(bool(change.left))
    topic = change.topic
    if not change.brokers:
        output.write_line(output.one_line(f"{topic} is on no broker any more"))
    would = "would be: " if dry_run else ""
    for name, on in sorted(change.brokers.items()):
        output.write_line(output.one_line(f"{would}{topic} on {name}: {on.write} queues to write, {on.read} to read"))
    for one in change.left:
        place = f"left: queue {one.queue_id} on {one.broker}"
        if one.unread:
            who = f"group {one.group} has" if one.group else "no group has read its"
            output.write_line(output.one_line(f"{place}: {who} {one.unread} messages to read"))
        else:
            output.write_line(output.one_line(f"{place}: producers may send to it for 30 s more"))
    if change.left:
        output.write_line("give the command again later; consumers keep these queues until then")
    return int(bool(change.left))
