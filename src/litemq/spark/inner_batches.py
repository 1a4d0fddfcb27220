"""Unfold RocketMQ's inner batches on the way from a backend to the decoder: one row for each message in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from litemq.errors import CorruptRecord
from litemq.format import inner_batch, rows
from litemq.format.record import ROCKETMQ, Format, decode_row
from litemq.spark.backend import Damaged, Rows, Unfolded


def unfolded(fmt: Format | None, run: Rows) -> Iterator[Rows | Unfolded | Damaged]:
    """Yield a run in parts: rows as they are, and the messages of inner batches."""
    flags = run.table[run.first * rows.WIDTH + rows.SYS_FLAG : run.count * rows.WIDTH : rows.WIDTH]
    if fmt is not ROCKETMQ or not flags or 0 <= min(flags) <= max(flags) < inner_batch.FLAGS:
        yield run  # nearly always, and told without a look at each row
        return
    first = run.first
    for row, flag in enumerate(flags, run.first):
        if not inner_batch.is_inner_batch(flag):
            continue
        position = run.table[row * rows.WIDTH + rows.POSITION]
        if position >= run.end:
            break
        if first < row:
            yield replace(run, first=first, count=row)
        first = row + 1
        try:
            yield Unfolded(inner_batch.unfold(decode_row(fmt, run.view, run.table, row, "")))
        except (CorruptRecord, inner_batch.DoesNotUnfold) as error:
            reason = error.reason if isinstance(error, CorruptRecord) else str(error)
            yield Damaged(position, run.table[row * rows.WIDTH + rows.SIZE], reason, "")
    if first < run.count:
        yield replace(run, first=first)
