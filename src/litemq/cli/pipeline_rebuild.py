"""``litemq pipeline rebuild``."""

from __future__ import annotations

from typing import Literal

import click

from litemq.cli.pipeline_frame import Common, carry_out, common_options

_COUNT = click.IntRange(min=1)


@click.command()
@click.argument("store")
@click.option("--only", type=click.Choice(("consumequeue", "index")), help="Rebuild only these files.")
@click.option("--queue-entries", type=_COUNT, help="Entries of one ConsumeQueue file.")
@click.option("--index-slots", type=_COUNT, help="Slots of one index file.")
@click.option("--index-entries", type=_COUNT, help="Entries of one index file.")
@common_options
def rebuild(
    *,
    store: str,
    only: Literal["consumequeue", "index"] | None,
    queue_entries: int | None,
    index_slots: int | None,
    index_entries: int | None,
    **common: object,
) -> int:
    """Write consume queues and index of STORE anew from its log, in parallel.

    The files are those that `litemq store rebuild` writes.  No broker may be running on STORE.
    """
    from litemq.spark.jobs.rebuild import Rebuild

    job = Rebuild(store, only, queue_entries, index_slots, index_entries)
    return carry_out(job, Common(**common))  # type: ignore[arg-type]
