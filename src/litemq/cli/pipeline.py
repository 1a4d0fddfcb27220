"""``litemq pipeline NAME``: jobs over the history of topics, done by Spark."""

from __future__ import annotations

from typing import Final

import click

from litemq.cli.lazy import LazyGroup

_JOBS: Final = {
    "archive": ("litemq.cli.pipeline_archive:archive", "Keep topics as Parquet or Delta, by topic, date and hour."),
    "audit": ("litemq.cli.pipeline_audit:audit", "Check that sent = stored = consumed + pending + dead."),
    "rollup": ("litemq.cli.pipeline_rollup:rollup", "Statistics of topics and groups by hour."),
    "dlq": ("litemq.cli.pipeline_dlq:dlq", "Group dead letters; redrive or archive some of them."),
    "verify": ("litemq.cli.pipeline_verify:verify", "Check store files against themselves, in parallel."),
    "rebuild": ("litemq.cli.pipeline_rebuild:rebuild", "Make queues and index of store files anew, in parallel."),
    "convert": ("litemq.cli.pipeline_convert:convert", "Write store files in another format, in parallel."),
    "export": ("litemq.cli.pipeline_export:export", "Write a topic as Parquet, JSON Lines or CSV."),
    "import": ("litemq.cli.pipeline_import:import_", "Write Parquet, JSON Lines or CSV into a topic."),
    "replay": ("litemq.cli.pipeline_replay:replay", "Send history again, chosen by time or SQL, at a rate."),
    "offsets": ("litemq.cli.pipeline_offsets:offsets", "Show, set and copy the position of a stream's checkpoint."),
}


@click.group(cls=LazyGroup, lazy=_JOBS)
def pipeline() -> None:
    """Jobs over the history of topics, done by Spark: here, or on a cluster with --master."""
