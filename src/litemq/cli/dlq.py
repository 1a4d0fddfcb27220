"""``litemq dlq``: dead letters of consumer groups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from litemq.cli import output
from litemq.cli.connecting import (
    DRY_RUN,
    JSON_LINES,
    JSON_OBJECT,
    NAMESERVERS,
    NOT_DONE,
    YES,
    check_can_ask,
    connected,
    is_confirmed,
)
from litemq.cli.since import WHEN, parse_when

if TYPE_CHECKING:
    from litemq.client.redrive import Redriven

_REASONS = ("max_retry", "consume_error", "ttl_expired", "queue_full", "filtered_out")
_GROUP = click.argument("group")
_TOPIC = click.option("--topic", help="Only those that were sent to this topic first.")
_REASON = click.option("--reason", help=f"Only those that died of it: {', '.join(_REASONS)}.")
_IDS = click.option("--id", "ids", multiple=True, metavar="ID", help="Only this message; may be given several times.")
_SINCE = click.option("--since", metavar="TIME", help=f"Only those that died then or later: {WHEN}.")
_UNTIL = click.option("--until", metavar="TIME", help="Only those that died until then.")


@click.group()
def dlq() -> None:
    """Dead letters: list, show, redrive, archive, purge."""


@dlq.command("list")
@click.argument("group", required=False)
@_TOPIC
@NAMESERVERS
@JSON_LINES
def list_(*, group: str | None, topic: str | None, nameservers: str, as_json: bool) -> int:
    """Count dead letters by group, topic and reason: of GROUP, or of all groups."""
    from litemq.cli.counting import counted

    with connected(nameservers) as admin, counted("count") as told:
        found = admin.count_dead_letters(group, topic=topic, on_progress=told)
    if as_json:
        for one in found:
            output.write_json(
                {
                    "group": one.group,
                    "origin_topic": one.origin_topic,
                    "reason": one.reason,
                    "count": one.count,
                    "first_at": one.first_ms,
                    "last_at": one.last_ms,
                }
            )
    elif found:
        rows = [
            (
                one.group,
                one.origin_topic or "?",
                one.reason,
                one.count,
                output.time_text(one.first_ms),
                output.time_text(one.last_ms),
            )
            for one in found
        ]
        output.write_table(("GROUP", "TOPIC", "REASON", "COUNT", "FIRST", "LAST"), rows)
    else:
        output.write_line("there are no dead letters")
    return 0


@dlq.command()
@click.argument("group", required=False)
@_TOPIC
@_REASON
@_IDS
@_SINCE
@_UNTIL
@click.option("--count", "-n", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many.")
@click.option("--stack", is_flag=True, help="With the consumer's stack.")
@NAMESERVERS
@JSON_LINES
def show(
    *,
    group: str | None,
    topic: str | None,
    reason: str | None,
    ids: tuple[str, ...],
    since: str | None,
    until: str | None,
    count: int,
    stack: bool,
    nameservers: str,
    as_json: bool,
) -> int:
    """Show dead letters of GROUP, or with --topic those of all groups."""
    if group is None and topic is None:
        raise click.UsageError("say whose: a GROUP, or --topic for those of all groups")
    begin, end = parse_when(since), parse_when(until)
    from litemq.cli.message_text import dead_letter_json, write_dead_letter

    with connected(nameservers) as admin:
        found = admin.dead_letters(group, topic=topic, reason=reason, ids=ids, begin=begin, end=end, max_messages=count)
    for dead in found:
        if as_json:
            output.write_json(dead_letter_json(dead))
        else:
            write_dead_letter(dead, with_stack=stack)
    if not found and not as_json:
        output.write_line("there are no such dead letters")
    return 0


@dlq.command()
@_GROUP
@click.option(
    "--to",
    type=click.Choice(["group", "origin"]),
    default="group",
    show_default=True,
    help="group: only GROUP gets them again; origin: all groups that read the topic they were sent to.",
)
@_TOPIC
@_REASON
@_IDS
@_SINCE
@_UNTIL
@click.option("--rate", metavar="N[/s]", help="So many a second at most.")
@click.option("--again", is_flag=True, help="Also those that were redriven before.")
@DRY_RUN
@YES
@NAMESERVERS
@JSON_OBJECT
def redrive(
    *,
    group: str,
    to: Literal["group", "origin"],
    topic: str | None,
    reason: str | None,
    ids: tuple[str, ...],
    since: str | None,
    until: str | None,
    rate: str | None,
    again: bool,
    dry_run: bool,
    yes: bool,
    nameservers: str,
    as_json: bool,
) -> int:
    """Send dead letters of GROUP once more; their attempts begin anew.

    Each is sent once, however often the command is given, also after it was interrupted.  All stay among the dead
    letters until they are purged.
    """
    wanted: dict[str, Any] = {
        "to": to,
        "topic": topic,
        "reason": reason,
        "ids": ids,
        "begin": parse_when(since),
        "end": parse_when(until),
        "again": again,
    }
    per_s = _rate(rate)
    if not dry_run:
        check_can_ask(yes=yes)
    from litemq.cli.counting import counted

    with connected(nameservers) as admin:
        if dry_run or not yes:
            with counted("look") as told:
                outcome = admin.redrive(group, dry_run=True, on_progress=told, **wanted)
        if not dry_run:
            goal = f"group {group} only" if to == "group" else "all groups of the topics that they came from"
            if not yes and not is_confirmed(f"send {outcome.sent} dead letters to {goal}?", yes=yes):
                return NOT_DONE
            with counted("redrive") as told:
                outcome = admin.redrive(group, rate=per_s, on_progress=told, **wanted)
    _tell(group, to, outcome, dry_run=dry_run, as_json=as_json)
    return 0


def _rate(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        found = float(text.removesuffix("/s"))
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise click.BadParameter(f"{text!r} is no number of messages a second: 50 or 0.5/s", param_hint="--rate")
    return found


def _tell(group: str, to: str, outcome: Redriven, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        output.write_json(
            {
                "group": group,
                "to": to,
                "dry_run": dry_run,
                "sent": outcome.sent,
                "skipped": outcome.skipped,
                "passed_over": outcome.passed_over,
            }
        )
        return
    output.write_line(f"{outcome.sent} dead letters {'would be' if dry_run else 'were'} sent once more")
    if outcome.skipped:
        output.write_line(f"{outcome.skipped} were redriven before (--again sends them, too)")
    if outcome.passed_over:
        output.write_line(f"{outcome.passed_over} are others")


@dlq.command()
@_GROUP
@click.argument("file", type=click.Path(path_type=Path))
@_REASON
@_UNTIL
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@NAMESERVERS
@JSON_OBJECT
def archive(
    *, group: str, file: Path, reason: str | None, until: str | None, force: bool, nameservers: str, as_json: bool
) -> int:
    """Write dead letters of GROUP into FILE, one JSON object a line; they stay where they are.

    The last line counts them.  FILE appears when it is whole.
    """
    if file.exists() and not force:
        raise click.UsageError(f"{file} is there already; choose another name, or replace it with --force")
    end = parse_when(until)
    from litemq.cli.counting import counted

    with connected(nameservers) as admin, counted("archive") as told:
        count = admin.archive_dead_letters(group, file, reason=reason, end=end, on_progress=told)
    if as_json:
        output.write_json({"group": group, "file": str(file), "count": count})
    else:
        output.write_line(output.one_line(f"{count} dead letters of {group} are in {file}"))
    return 0


@dlq.command()
@_GROUP
@click.option("--before", metavar="TIME", help=f"Only those that died before: {WHEN}.")
@DRY_RUN
@YES
@NAMESERVERS
@JSON_OBJECT
def purge(*, group: str, before: str | None, dry_run: bool, yes: bool, nameservers: str, as_json: bool) -> int:
    """Remove dead letters of GROUP; keep them first with: litemq dlq archive."""
    before_ms = parse_when(before)
    if not dry_run:
        check_can_ask(yes=yes)
    with connected(nameservers) as admin:
        if dry_run or not yes:
            end = None if before_ms is None else before_ms - 1
            count = sum(one.count for one in admin.count_dead_letters(group, end=end))
        if not dry_run:
            if not yes and not is_confirmed(f"remove {count} dead letters of {group} for ever?", yes=yes):
                return NOT_DONE
            count = admin.purge_dead_letters(group, before=before_ms)
    if as_json:
        output.write_json({"group": group, "dry_run": dry_run, "count": count})
    else:
        verb = "would be" if dry_run else "were"
        output.write_line(output.one_line(f"{count} dead letters of {group} {verb} removed"))
    return 0
