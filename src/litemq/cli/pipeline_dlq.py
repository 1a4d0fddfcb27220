"""``litemq pipeline dlq``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from litemq.cli.connecting import NOT_DONE, YES, check_can_ask, is_confirmed
from litemq.cli.pipeline_frame import Common, carry_out, common_options, source_of
from litemq.cli.pipeline_sources import parse_rate, place_options, rate_option, time_options, where_option

if TYPE_CHECKING:
    from litemq.spark.jobs.dlq import DeadLetterReport


@click.command()
@click.option("--group", metavar="NAME", default="", help="Only dead letters of this consumer group.")
@click.option("--topic", metavar="NAME", default="", help="Only those that were sent to this topic first.")
@click.option("--reason", metavar="NAME", default="", help="Only those that died of it: max_retry, consume_error, …")
@click.option("--error-like", metavar="PATTERN", default="", help="Only those with such an error: '%timeout%'.")
@where_option
@time_options
@place_options
@click.option("--redrive", is_flag=True, help="Send the selected ones once more; none twice.")
@click.option(
    "--to",
    type=click.Choice(["group", "origin"]),
    default="group",
    show_default=True,
    help="group: only their group gets them again; origin: all groups of the topic they were sent to.",
)
@rate_option
@click.option("--again", is_flag=True, help="Also those that were redriven before.")
@click.option("--archive", metavar="DIR", type=click.Path(path_type=Path), help="Keep the selected ones as Parquet.")
@YES
@common_options
def dlq(
    *,
    group: str,
    topic: str,
    reason: str,
    error_like: str,
    where: str,
    since: str,
    until: str,
    path: str,
    nameservers: str,
    redrive: bool,
    to: Literal["group", "origin"],
    rate: str | None,
    again: bool,
    archive: Path | None,
    yes: bool,
    **common: Any,  # noqa: ANN401 - options of click
) -> int:
    """Group dead letters by group, topic, reason, error and stack; send some again, or keep them.

    They stay where they are, whatever is done with them: litemq dlq purge removes them.
    """
    per_s = parse_rate(rate)
    given = Common(**common)
    asks = redrive and not given.dry_run
    if asks:
        check_can_ask(yes=yes)
    from litemq.spark.jobs.dlq import DeadLetterReport

    job = DeadLetterReport(
        source=source_of(path=path, nameservers=nameservers, since=since, until=until),
        brokers=nameservers,
        group=group,
        topic=topic,
        reason=reason,
        error_like=error_like,
        where=where,
        redrive=redrive,
        to=to,
        rate=per_s,
        again=again,
        archive=archive,
    )
    if asks and not yes and not _agrees(job, given):
        return NOT_DONE
    return carry_out(job, given)


def _agrees(job: DeadLetterReport, given: Common) -> bool:
    """Show what is selected, and ask."""
    carry_out(replace(job, redrive=False, archive=None), replace(given, as_json=False, report=None))
    goal = "their groups only" if job.to == "group" else "all groups of the topics that they came from"
    return is_confirmed(f"send these dead letters once more, to {goal}?", yes=False)
