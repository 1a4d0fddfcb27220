"""``litemq pipeline rollup``: statistics of topics and groups by the hour."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from litemq.cli.lake_directory import lake_directory
from litemq.cli.pipeline_frame import Common, carry_out, common_options, source_of, source_options


@click.command()
@source_options
@click.option(
    "--lake",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where statistics go [setting pipeline.lake, ./litemq-lake]; read, too, where neither --path nor --nameserver "
    "is given and it holds messages.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["parquet", "delta"]),
    help="Kind of new tables [default: that of the lake's messages, or as archive chooses].",
)
@common_options
@click.pass_context
def rollup(
    context: click.Context,
    /,
    *,
    path: str,
    nameservers: str,
    topics: tuple[str, ...],
    since: str,
    until: str,
    lake: Path | None,
    kind: str | None,
    **common: object,
) -> int:
    """Statistics of topics and groups by the hour; hours that changed since are computed again."""
    from litemq.spark.jobs.rollup import Rollup
    from litemq.spark.lake.table import kind_of
    from litemq.spark.options import read_options

    place = lake_directory(lake)
    asked = path or context.get_parameter_source("nameservers") is ParameterSource.COMMANDLINE
    is_lake = not asked and bool(kind_of(place / "messages"))
    times = read_options({"path": "-", "startingTimestamp": since, "endingTimestamp": until})
    job = Rollup(
        lake=place,
        source=None if is_lake else source_of(path=path, nameservers=nameservers),
        topics=topics,
        from_ms=times.from_ms,
        to_ms=times.to_ms,
        kind=kind or "",
    )
    return carry_out(job, Common(**common))  # type: ignore[arg-type]
