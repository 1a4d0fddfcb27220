"""``litemq pipeline replay``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from litemq.cli.pipeline_frame import Common, carry_out, common_options, source_of
from litemq.cli.pipeline_sources import parse_rate, place_options, rate_option, time_options, where_option


@click.command()
@click.option("--topic", required=True, metavar="NAME", help="The topic whose history is sent again.")
@click.option("--to", required=True, metavar="NAME", help="The topic that gets it.")
@place_options
@click.option(
    "--to-nameserver", metavar="HOST:PORT;…", default="", help="The cluster that gets it. [default: --nameserver]"
)
@time_options
@where_option
@rate_option
@click.option("--same-topic", is_flag=True, help="Allow to send a topic's history into itself.")
@click.option("--id", "run_id", metavar="NAME", default="", help="Name of this run. [default: from the selection]")
@click.option(
    "--state",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where the plan and the progress are kept. [default: ~/.litemq/pipeline/ID]",
)
@common_options
def replay(
    *,
    topic: str,
    to: str,
    path: str,
    nameservers: str,
    to_nameserver: str,
    since: str,
    until: str,
    where: str,
    rate: str | None,
    same_topic: bool,
    run_id: str,
    state: Path | None,
    **common: Any,  # noqa: ANN401 - options of click
) -> int:
    """Send history again: messages of a topic, chosen by time or SQL, each once.

    What is selected is settled by the first run and kept; the same command goes on where it was stopped.
    """
    per_s = parse_rate(rate)
    from litemq.spark.jobs.replay import Replay

    job = Replay(
        source=source_of(path=path, nameservers=nameservers, topics=(topic,), since=since, until=until),
        topic=topic,
        to=to,
        to_brokers=to_nameserver or nameservers,
        where=where,
        rate=per_s,
        run_id=run_id,
        state=state,
        into_itself=same_topic,
    )
    return carry_out(job, Common(**common))
