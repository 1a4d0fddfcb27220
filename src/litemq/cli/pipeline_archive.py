"""``litemq pipeline archive``: topics as Parquet or Delta, by topic, date and hour."""

from __future__ import annotations

from pathlib import Path

import click

from litemq.cli.amounts import DURATION, SIZE
from litemq.cli.lake_directory import lake_directory
from litemq.cli.pipeline_frame import Common, carry_out, common_options, place_options, source_of


@click.command()
@place_options
@click.option(
    "--to",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="The lake [setting pipeline.lake, ./litemq-lake].",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["parquet", "delta"]),
    help="Kind of a new lake [default: delta where deltalake is installed, else parquet].",
)
@click.option("--every", metavar="DURATION", type=DURATION, default="0s", help="Go on until stopped, every 5m say.")
@click.option("--compact", is_flag=True, help="Then merge small files of hours that are over.")
@click.option(
    "--target-size",
    metavar="SIZE",
    type=SIZE,
    default="128m",
    show_default=True,
    help="Size of files that --compact makes.",
)
@click.option(
    "--keep-merged",
    metavar="DURATION",
    type=DURATION,
    default="24h",
    show_default=True,
    help="How long files that --compact replaced stay for those who read them.",
)
@click.option(
    "--batch-size",
    metavar="SIZE",
    type=SIZE,
    default="1g",
    show_default=True,
    help="How much of the log one commit takes at most.",
)
@click.option(
    "--hold",
    metavar="DURATION",
    type=DURATION,
    default="1h",
    show_default=True,
    help="How long brokers keep what is not archived yet after the last sign of life; 0s: they do not.",
)
@click.option(
    "--on-data-loss",
    type=click.Choice(["fail", "record"]),
    default="fail",
    show_default=True,
    help="What to do where messages are gone: stop, or note it and go on.",
)
@click.option(
    "--on-corrupt",
    type=click.Choice(["fail", "skip"]),
    default="fail",
    show_default=True,
    help="What to do about damaged records: stop, or leave them out and count them.",
)
@common_options
def archive(
    *,
    path: str,
    nameservers: str,
    topics: tuple[str, ...],
    to: Path | None,
    kind: str | None,
    every: float,
    compact: bool,
    target_size: int,
    keep_merged: float,
    batch_size: int,
    hold: float,
    on_data_loss: str,
    on_corrupt: str,
    **common: object,
) -> int:
    """Keep topics as Parquet or Delta, by topic, date and hour; what is archived is not archived again."""
    from litemq.spark.jobs.archive import Archive

    job = Archive(
        source=source_of(path=path, nameservers=nameservers, topics=topics),
        lake=lake_directory(to),
        kind=kind or "",
        every_s=every,
        is_compacting=compact,
        target_bytes=target_size,
        keep_replaced_s=keep_merged,
        batch_bytes=str(batch_size),
        hold_s=hold,
        on_data_loss=on_data_loss,
        on_corrupt=on_corrupt,
    )
    return carry_out(job, Common(**common))  # type: ignore[arg-type]
