"""``litemq pipeline verify``."""

from __future__ import annotations

from typing import Final

import click

from litemq.cli.pipeline_frame import Common, carry_out, common_options

_FORMATS: Final = ("auto", "litemq", "rocketmq", "blueprint", "tmq")


@click.command()
@click.argument("store")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(_FORMATS),
    default="auto",
    show_default=True,
    help="Format of the records; auto: the first record tells.",
)
@common_options
def verify(*, store: str, format_name: str, **common: object) -> int:
    """Check every record, queue entry and index entry of STORE, in parallel.

    It finds what `litemq store verify` finds, and only reads: a broker may be running on STORE.
    """
    from litemq.errors import BadStore, UnknownFormat
    from litemq.spark.jobs.verify import Verify

    try:
        return carry_out(Verify(store, format_name), Common(**common))  # type: ignore[arg-type]
    except UnknownFormat as error:
        raise BadStore(f"{error}; if it is a log, name its format with --format") from error
