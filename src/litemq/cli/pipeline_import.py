"""``litemq pipeline import``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from litemq.cli.connecting import NAMESERVERS, parse_pairs
from litemq.cli.pipeline_frame import Common, carry_out, common_options


@click.command("import")
@click.option(
    "--from",
    "path",
    required=True,
    metavar="DIR|FILE",
    type=click.Path(path_type=Path),
    help="An export, a file, or a directory of files of one form.",
)
@click.option("--topic", required=True, metavar="NAME", help="The topic that gets the messages.")
@NAMESERVERS
@click.option(
    "--format", "form", type=click.Choice(["parquet", "jsonl", "csv"]), help="[default: as the files are named]"
)
@click.option(
    "--columns",
    metavar="NAME=COLUMN,…",
    default="",
    help="Which column is what: body=payload,keys=id. [default: body or value, keys or key, tags, properties …]",
)
@click.option(
    "--extra",
    type=click.Choice(["error", "drop", "properties"]),
    default="error",
    show_default=True,
    help="What to do with other columns.",
)
@click.option(
    "--on-bad",
    type=click.Choice(["fail", "skip", "quarantine"]),
    default="fail",
    show_default=True,
    help="What to do with rows that cannot be messages; fail: write nothing at all.",
)
@click.option(
    "--quarantine", metavar="DIR", type=click.Path(path_type=Path), help="Where --on-bad quarantine keeps them."
)
@click.option("--create-topic", is_flag=True, help="Make the topic when it is not there.")
@click.option("--queues", metavar="N", type=click.IntRange(min=1), help="Of a topic that is made. [default: 8]")
@click.option("--max-body", metavar="BYTES", type=click.IntRange(min=1), default=4 << 20, show_default=True)
@click.option(
    "--slice", "slice_rows", metavar="ROWS", type=click.IntRange(min=1), default=100_000, show_default=True,
    help="Rows of one transaction; part of the id.",
)  # fmt: skip
@click.option("--id", "run_id", metavar="NAME", default="", help="Name of this run. [default: from the files]")
@click.option(
    "--state",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where the progress is kept. [default: ~/.litemq/pipeline/ID]",
)
@common_options
def import_(
    *,
    path: Path,
    topic: str,
    nameservers: str,
    form: Any,  # noqa: ANN401 - a choice of click
    columns: str,
    extra: Any,  # noqa: ANN401 - a choice of click
    on_bad: Any,  # noqa: ANN401 - a choice of click
    quarantine: Path | None,
    create_topic: bool,
    queues: int | None,
    max_body: int,
    slice_rows: int,
    run_id: str,
    state: Path | None,
    **common: Any,  # noqa: ANN401 - options of click
) -> int:
    """Write Parquet, JSON Lines or CSV into a topic, each row once however often it is given.

    All files are looked through before the first row is sent.
    """
    renames = parse_pairs([pair.strip() for pair in columns.split(",") if pair.strip()], "--columns")
    from litemq.spark.jobs.import_ import Import

    job = Import(
        path=path,
        topic=topic,
        brokers=nameservers,
        form=form,
        renames=tuple(renames.items()),
        extra=extra,
        on_bad=on_bad,
        quarantine=quarantine,
        creates_topic=create_topic,
        queues=queues,
        max_body=max_body,
        slice_rows=slice_rows,
        run_id=run_id,
        state=state,
    )
    return carry_out(job, Common(**common))
