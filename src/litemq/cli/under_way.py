"""``litemq message transactions`` and ``litemq group inflight``: what waits for an end or an acknowledgement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from litemq.cli import output
from litemq.cli.connecting import JSON_LINES, NAMESERVERS, connected, shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

_COUNT = click.option(
    "--count", "-n", type=click.IntRange(min=1), default=100, show_default=True, help="At most so many of each broker."
)


@click.command()
@click.option("--group", metavar="NAME", help="Only those of a producer group.")
@click.option("--topic", metavar="NAME", help="Only those of messages for a topic.")
@click.option("--ended", is_flag=True, help="Those that ended last, as far as brokers remember.")
@_COUNT
@NAMESERVERS
@JSON_LINES
def transactions(
    *, group: str | None, topic: str | None, ended: bool, count: int, nameservers: str, as_json: bool
) -> int:
    """List transactions that wait for their end: whose, how old, how often asked about, when next."""
    with connected(nameservers) as admin:
        found = admin.transactions(group=group, topic=topic, ended=ended, max_transactions=count)
    if as_json:
        for one in found:
            output.write_json(one.to_json())
        return 0
    headers = ("MESSAGE", "TOPIC", "GROUP", "BROKER", "STATE", "AGE", "CHECKS", "NEXT CHECK", "KEYS")
    rows = [
        (
            *(one.message_id, one.topic, one.group, one.broker, one.state, _age(one.stored_at), one.checks),
            *(_time(one.next_check_at), shown(one.keys)),
        )
        for one in found
    ]
    _write(headers, rows, count, "no transaction has ended lately" if ended else "no transaction waits for its end")
    return 0


@click.command()
@click.argument("name")
@click.option("--topic", metavar="NAME", help="Only messages of a topic.")
@_COUNT
@NAMESERVERS
@JSON_LINES
def inflight(*, name: str, topic: str | None, count: int, nameservers: str, as_json: bool) -> int:
    """List the messages that a group holds by receipts: who has them, and until when."""
    with connected(nameservers) as admin:
        found = admin.inflight(name, topic=topic, max_messages=count)
    if as_json:
        for one in found:
            output.write_json(one.to_json())
        return 0
    headers = ("TOPIC", "BROKER", "QUEUE", "OFFSET", "MESSAGE", "CONSUMER", "ATTEMPT", "UNTIL")
    rows = [
        (
            *(one.topic, one.broker, one.queue_id, one.queue_offset, one.message_id or "-", one.consumer or "?"),
            *(one.attempt, _time(one.until) if one.until is not None else "over"),
        )
        for one in found
    ]
    _write(headers, rows, count, "nothing is held")
    return 0


def _write(headers: Sequence[str], rows: Sequence[Sequence[str | int]], count: int, none: str) -> None:
    if not rows:
        output.write_line(none)
        return
    output.write_table(headers, rows)
    if len(rows) >= count:
        output.write_line(f"there may be more than {count} on a broker: --count")


def _time(moment: datetime | None) -> str:
    return output.time_text(None if moment is None else round(moment.timestamp() * 1000))


def _age(moment: datetime | None) -> str:
    """Return how long ago something was."""
    if moment is None:
        return "-"
    from datetime import datetime

    seconds = max(int((datetime.now(moment.tzinfo) - moment).total_seconds()), 0)
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
