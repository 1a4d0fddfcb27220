"""``litemq pipeline convert``."""

from __future__ import annotations

from typing import Final

import click

from litemq.cli.pipeline_frame import Common, carry_out, common_options

_FORMATS: Final = ("litemq", "rocketmq", "blueprint", "tmq")
_COUNT = click.IntRange(min=1)


@click.command()
@click.argument("source")
@click.argument("destination")
@click.option("--to", type=click.Choice(_FORMATS), required=True, help="Format to write.")
@click.option(
    "--from",
    "from_format",
    type=click.Choice(("auto", *_FORMATS)),
    default="auto",
    show_default=True,
    help="Format of SOURCE; auto: the first record tells.",
)
@click.option("--segment-size", type=_COUNT, help="Bytes of one commit-log file (default 1 GiB).")
@click.option("--queue-entries", type=_COUNT, help="Entries of one ConsumeQueue file.")
@click.option("--index-slots", type=_COUNT, help="Slots of one index file.")
@click.option("--index-entries", type=_COUNT, help="Entries of one index file.")
@common_options
def convert(
    *,
    source: str,
    destination: str,
    to: str,
    from_format: str,
    segment_size: int | None,
    queue_entries: int | None,
    index_slots: int | None,
    index_entries: int | None,
    **common: object,
) -> int:
    """Write the records of SOURCE as a store of another format to DESTINATION, in parallel.

    Log, queues and index are those that `litemq store convert` writes.
    """
    from litemq.errors import BadStore, UnknownFormat
    from litemq.spark.jobs.convert import Convert

    sizes = (segment_size, queue_entries, index_slots, index_entries)
    try:
        return carry_out(Convert(source, destination, to, from_format, *sizes), Common(**common))  # type: ignore[arg-type]
    except UnknownFormat as error:
        raise BadStore(f"{error}; if it is a log, name its format with --from") from error
