"""``litemq pipeline audit``: check that sent = stored = consumed + pending + dead."""

from __future__ import annotations

import sys

import click

from litemq.cli.pipeline_frame import Common, carry_out, common_options, source_of, source_options


@click.command()
@source_options
@common_options
def audit(path: str, nameservers: str, topics: tuple[str, ...], since: str, until: str, **common: object) -> None:
    """Check that sent = stored = consumed + pending + dead.

    Compares the sends that brokers acknowledged with the messages in their logs, hour by hour, and those with what
    consumer groups confirmed; finds gaps, doubles, and groups ahead of their queues; tells how long messages waited.
    Brokers may be at work meanwhile.  The exit status is 1 when something does not add up.
    """
    from litemq.spark.jobs.audit import Audit

    source = source_of(path=path, nameservers=nameservers, since=since, until=until)
    sys.exit(carry_out(Audit(source, topics), Common(**common)))  # type: ignore[arg-type] # click's values
