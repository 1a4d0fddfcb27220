"""``litemq group``: consumer groups of a running cluster."""

from __future__ import annotations

import re
from collections.abc import Callable
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
    shown,
)
from litemq.cli.time_range import parse_time
from litemq.cli.under_way import inflight

if TYPE_CHECKING:
    from datetime import datetime

    from litemq.client.admin import Admin
    from litemq.client.admin_group_values import GroupInfo, GroupSettings, OffsetChange

_NAME = click.argument("name")
_TIME_DIGITS: Final = 12
"""A number of so many digits is a time: in ms since the epoch, 1973 or later; as an offset it would be out of reach."""
_SETTINGS = (
    click.option(
        "--max-retries", type=click.IntRange(min=0), help="Deliveries again until a message is a dead letter."
    ),
    click.option("--retry-queues", type=click.IntRange(min=0), help="Queues of its retry topic."),
    click.option("--enabled/--disabled", default=None, help="Let its members consume, or not."),
    click.option("--broadcast/--no-broadcast", default=None, help="Let members read everything each, or not."),
    click.option("--ordered/--unordered", default=None, help="Mark it as consuming in order, or not."),
    click.option(
        "--attribute", "attributes", multiple=True, metavar="NAME=VALUE", help="Attribute: unmatched=dead-letter."
    ),
    click.option("--no-attribute", "removed", multiple=True, metavar="NAME", help="Attribute to take back."),
)

Command = Callable[..., int]


def _with_settings(command: Command) -> Command:
    for option in reversed(_SETTINGS):
        command = option(command)
    return command


@click.group()
def group() -> None:
    """Make, look at, alter and delete consumer groups; see how far they are, set where they go on."""


group.add_command(inflight)


# -- looking -------------------------------------------------------------------------------------


@group.command("list")
@click.option("--all", "everything", is_flag=True, help="Also the groups that brokers have for tools.")
@NAMESERVERS
@JSON_LINES
def list_groups(*, everything: bool, nameservers: str, as_json: bool) -> int:
    """List groups: how many members, how many messages to read."""
    with connected(nameservers) as admin:
        found = admin.groups(system=everything)
    if as_json:
        for info in found:
            output.write_json(info.to_json())
        return 0
    rows = [(info.group, info.members, info.lag, shown(info.topics)) for info in found]
    output.write_table(("GROUP", "MEMBERS", "LAG", "TOPICS"), rows)
    return 0


@group.command()
@_NAME
@NAMESERVERS
@JSON_OBJECT
def show(*, name: str, nameservers: str, as_json: bool) -> int:
    """Show a group's settings, members and lag in short."""
    with connected(nameservers) as admin:
        return _tell(admin.group(name), as_json=as_json)


@group.command()
@_NAME
@NAMESERVERS
@JSON_OBJECT
def lag(*, name: str, nameservers: str, as_json: bool) -> int:
    """Show how many messages wait for a group, by topic and queue."""
    with connected(nameservers) as admin:
        found = admin.lag(name)
    if as_json:
        output.write_json(found.to_json())
        return 0
    rows = [
        (one.topic, one.broker, one.queue_id, one.offset, one.end, one.lag, _time(one.read_at)) for one in found.queues
    ]
    output.write_table(("TOPIC", "BROKER", "QUEUE", "OFFSET", "END", "LAG", "LAST READ WAS STORED"), rows)
    output.write_line(f"{found.total} messages to read, {found.messages_per_s:.1f}/s were read in the last minute")
    return 0


@group.command()
@_NAME
@NAMESERVERS
@JSON_LINES
def members(*, name: str, nameservers: str, as_json: bool) -> int:
    """Show who is in a group: clients, what they subscribe to, the queues that they say they read."""
    with connected(nameservers) as admin:
        found = admin.members(name)
    if as_json:
        for member in found:
            output.write_json(member.to_json())
        return 0
    rows = []
    for member in found:
        queues = None
        if member.queues is not None:
            queues = tuple(f"{queue.topic}/{queue.broker}/{queue.queue_id}" for queue in member.queues)
        wanted = ", ".join(f"{topic}: {expression}" for topic, expression in member.subscriptions.items())
        place = (member.client_id, member.address, member.language, member.version, member.mode)
        rows.append((*place, wanted or "-", "?" if queues is None else shown(queues)))
    output.write_table(("CLIENT", "ADDRESS", "LANGUAGE", "VERSION", "MODE", "SUBSCRIPTIONS", "QUEUES"), rows)
    if not found:
        output.write_line("nobody is online")
    return 0


# -- changing ------------------------------------------------------------------------------------


@group.command()
@_NAME
@_with_settings
@NAMESERVERS
@JSON_OBJECT
def create(*, name: str, nameservers: str, as_json: bool, **given: Any) -> int:  # noqa: ANN401 - options of any type
    """Make a group on all brokers."""
    settings = _settings(given)
    with connected(nameservers) as admin:
        return _tell(admin.create_group(name, **settings), as_json=as_json)


@group.command()
@_NAME
@_with_settings
@NAMESERVERS
@JSON_OBJECT
def alter(*, name: str, nameservers: str, as_json: bool, **given: Any) -> int:  # noqa: ANN401 - options of any type
    """Change settings of a group; those that are not named stay."""
    settings = _settings(given)
    if not settings:
        raise click.UsageError("nothing to change is given: --max-retries, --disabled or another setting")
    with connected(nameservers) as admin:
        return _tell(admin.alter_group(name, **settings), as_json=as_json)


@group.command()
@_NAME
@click.option("--dead-letters", is_flag=True, help="Delete its dead letters, too.")
@click.option("--force", is_flag=True, help="Even while members are online.")
@YES
@DRY_RUN
@NAMESERVERS
@JSON_OBJECT
def delete(
    *, name: str, dead_letters: bool, force: bool, yes: bool, dry_run: bool, nameservers: str, as_json: bool
) -> int:
    """Delete a group with its offsets and retries."""
    if not dry_run:
        check_can_ask(yes=yes)
    with connected(nameservers) as admin:
        info = admin.group(name)
        what = f"group {name} with {info.members} members and {info.lag} messages to read"
        if not dry_run:
            if not is_confirmed(f"delete {what}?", yes=yes):
                return NOT_DONE
            admin.delete_group(name, dead_letters=dead_letters, force=force)
    if as_json:
        output.write_json(
            {"group": name, "brokers": list(info.brokers), "dead_letters": dead_letters, "dry_run": dry_run}
        )
    else:
        output.write_line(output.one_line(f"{'would delete' if dry_run else 'deleted'} {what}"))
    return 0


@group.command()
@_NAME
@click.option("--topic", required=True, metavar="NAME", help="Topic in which the offsets are set.")
@click.option("--to", "goal", required=True, metavar="first|last|TIME|OFFSET", help=f"Where to go on; TIME is {TIME}.")
@click.option("--queue", "queues", type=click.IntRange(min=0), multiple=True, help="Only this queue.")
@click.option("--broker", metavar="NAME", help="Broker of the queue, for an OFFSET of a topic on several.")
@YES
@DRY_RUN
@NAMESERVERS
@JSON_LINES
def reset(
    *,
    name: str,
    topic: str,
    goal: str,
    queues: tuple[int, ...],
    broker: str | None,
    yes: bool,
    dry_run: bool,
    nameservers: str,
    as_json: bool,
) -> int:
    """Set where a group goes on reading a topic; members that are online go there at once.

    An OFFSET needs the --queue that it belongs to.
    """
    to = _goal(goal, topic, queues, broker)
    if not dry_run:
        check_can_ask(yes=yes)
    with connected(nameservers) as admin:
        if not dry_run and not yes:
            planned = _reset(admin, name, topic, to, queues, dry_run=True)
            if not as_json:
                _write_changes(planned)
            if not is_confirmed(f"set these offsets of group {name}?", yes=yes):
                return NOT_DONE
        changes = _reset(admin, name, topic, to, queues, dry_run=dry_run)
    if as_json:
        for change in changes:
            output.write_json({**change.to_json(), "dry_run": dry_run})
        return 0
    if dry_run or yes:
        _write_changes(changes)
    output.write_line(f"{len(changes)} offsets {'would be' if dry_run else 'are'} set")
    return 0


def _goal(text: str, topic: str, queues: tuple[int, ...], broker: str | None) -> str | int | dict[Any, int]:
    """Return what ``--to`` means."""
    if re.fullmatch(r"[0-9]+", text, re.ASCII) and len(text) < _TIME_DIGITS:
        if not queues:
            raise click.UsageError(f"--to {text} is an offset: name the --queue that it belongs to")
        if broker is None:
            return dict.fromkeys(queues, int(text))
        from litemq.client.routes import TopicQueue

        return {TopicQueue(topic, broker, queue): int(text) for queue in queues}
    if broker is not None:
        raise click.UsageError("--broker is for an offset: --queue 3 --broker NAME --to 17")
    if text in ("first", "last"):
        return text
    found = parse_time(text)
    if found is None or found < 0:
        raise click.UsageError(f"--to {text!r} must be first, last, a time ({TIME}) or an offset")
    return found


def _reset(
    admin: Admin,
    name: str,
    topic: str,
    to: str | datetime | int | dict[Any, int],
    queues: tuple[int, ...],
    *,
    dry_run: bool,
) -> list[OffsetChange]:
    only = None if isinstance(to, dict) or not queues else queues
    return admin.reset_offset(name, topic, to, queues=only, dry_run=dry_run)


def _write_changes(changes: list[OffsetChange]) -> None:
    rows = [(one.topic, one.broker, one.queue_id, shown(one.before), one.after) for one in changes]
    output.write_table(("TOPIC", "BROKER", "QUEUE", "BEFORE", "AFTER"), rows)


# -- settings ------------------------------------------------------------------------------------


def _settings(given: dict[str, Any]) -> GroupSettings:
    """Return the settings that options give."""
    changes = attribute_changes(given.pop("attributes"), given.pop("removed"))
    settings: Any = {name: value for name, value in given.items() if value is not None}
    if changes:
        settings["attributes"] = changes
    found: GroupSettings = settings
    return found


def _tell(info: GroupInfo, *, as_json: bool) -> int:
    told = info.to_json()
    if as_json:
        output.write_json(told)
    else:
        output.write_fields([(name.replace("_", " "), shown(value)) for name, value in told.items()])
    return 0


def _time(moment: datetime | None) -> str:
    return output.time_text(None if moment is None else round(moment.timestamp() * 1000))
