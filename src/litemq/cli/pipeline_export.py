"""``litemq pipeline export``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from litemq.cli.pipeline_frame import Common, carry_out, common_options, source_of, source_options
from litemq.cli.pipeline_sources import where_option


@click.command()
@click.option(
    "--to",
    required=True,
    metavar="DIR|FILE",
    type=click.Path(path_type=Path),
    help="A new directory, or one file: FILE.parquet, FILE.jsonl, FILE.csv.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["parquet", "jsonl", "csv"]),
    help="Of the files in a directory. [default: parquet]",
)
@click.option(
    "--body",
    type=click.Choice(["base64", "text", "json"]),
    default="base64",
    show_default=True,
    help="How bodies are in JSON Lines and CSV; text: all are UTF-8; Parquet has their bytes.",
)
@source_options
@where_option
@click.option("--columns", metavar="NAME,…", default="", help="Only these columns, in this order. [default: all]")
@click.option(
    "--view",
    type=click.Choice(["messages", "dlq", "queues", "segments", "groups"]),
    default="messages",
    show_default=True,
    help="What is exported; the last three need --path.",
)
@common_options
def export(
    *,
    to: Path,
    form: Any,  # noqa: ANN401 - a choice of click
    body: Any,  # noqa: ANN401 - a choice of click
    path: str,
    nameservers: str,
    topics: tuple[str, ...],
    since: str,
    until: str,
    where: str,
    columns: str,
    view: str,
    **common: Any,  # noqa: ANN401 - options of click
) -> int:
    """Write messages as Parquet, JSON Lines or CSV, with a manifest that is written last.

    Given again, it does nothing when the export is there, and begins anew when it was stopped.
    """
    from litemq.spark.jobs.export import Export

    source = source_of(
        path=path,
        nameservers=nameservers,
        topics=topics,
        since=since,
        until=until,
        view="" if view == "messages" else view,
    )
    names = tuple(name.strip() for name in columns.split(",") if name.strip())
    job = Export(source=source, to=to, where=where, columns=names, form=form, body=body)
    return carry_out(job, Common(**common))
