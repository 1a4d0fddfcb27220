"""``litemq pipeline offsets``: where a stream goes on, as its checkpoint says; no Spark is started."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from litemq.cli import output
from litemq.cli.connecting import DRY_RUN, JSON_OBJECT, NAMESERVERS, YES, check_can_ask, is_confirmed

if TYPE_CHECKING:
    from litemq.spark.checkpoint import Checkpoint, Offset
    from litemq.spark.moves import Change, Move, There

_NOT_DONE: Final = 1
_CHECKPOINT: Final = click.option(
    "--checkpoint",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path),
    help="The checkpointLocation of the query, a local directory.",
)


@click.group()
def offsets() -> None:
    """Show, set and copy where a Structured Streaming query goes on."""


@offsets.command()
@_CHECKPOINT
@JSON_OBJECT
def show(checkpoint: Path, as_json: bool) -> None:
    """Show the next offset of each queue that a query reads."""
    from litemq.spark import checkpoint as checkpoints

    found = checkpoints.read(checkpoint)
    sources = [_source_json(found, number) for number in found.last.sources]
    if as_json:
        output.write_json({**_state(found), "backups": [str(path) for path in found.backups], "sources": sources})
        return
    output.write_fields(
        [
            ("checkpoint", checkpoint),
            ("query", found.query_id),
            ("last batch", f"{found.last.number}, {'done' if found.is_done else 'begun and not done'}"),
            ("next batch", found.next_batch if found.is_done else f"{found.next_batch}, once more"),
            *(("backup", path) for path in found.backups),
        ]
    )
    output.write_line()
    _write_queues(sources, is_done=found.is_done)


@offsets.command(name="set")
@_CHECKPOINT
@click.option("--source", type=click.IntRange(min=0), help="Which source, where the query reads LiteMQ more than once.")
@click.option("--path", metavar="STORE", default="", help="The store that the stream reads; words and times need it.")
@NAMESERVERS
@click.option(
    "--abandon-batch", is_flag=True, help="Give up a batch that was begun and is not done: its messages may be unread."
)
@YES
@DRY_RUN
@JSON_OBJECT
@click.argument("moves", metavar="PLACE=WHERE…", nargs=-1, required=True)
def set_(
    checkpoint: Path,
    source: int | None,
    path: str,
    nameservers: str,
    abandon_batch: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
    moves: tuple[str, ...],
) -> int:
    """Let the next batch of a stopped query start elsewhere.

    PLACE is TOPIC, TOPIC/QUEUE, TOPIC/BROKER/QUEUE, or * for every queue.  WHERE is an offset, earliest, latest, or a
    time: ISO 8601, or how long ago: -1h.  A later one wins.  What was there is kept beside.
    """
    from litemq.spark import checkpoint as checkpoints
    from litemq.spark.moves import changes, moved, parse_move

    wishes = [parse_move(text) for text in moves]
    found = checkpoints.read(checkpoint)
    number = _chosen_source(found, source)
    _check_movable(found, abandon_batch=abandon_batch)
    offset = found.last.sources[number]
    there = _there(offset, wishes, path, nameservers)
    wanted = changes(offset, wishes, there, time.time_ns() // 1_000_000)
    after = moved(offset, wanted, there)
    if not dry_run:
        check_can_ask(yes=yes)
    if not as_json:
        _write_changes(wanted)
    if found.has_state:
        output.warn("the query keeps state (aggregates, joins): what it reads a second time counts a second time")
    backup = None
    if not dry_run:
        if not is_confirmed(f"the query is stopped, and goes on there with batch {found.last.number + 1}?", yes=yes):
            return _NOT_DONE
        backup = checkpoints.move(found, {number: after})
    _tell_move(found, wanted, backup, as_json=as_json)
    return 0


@offsets.command()
@_CHECKPOINT
@click.option("--to", metavar="DIR", required=True, type=click.Path(path_type=Path), help="Where the copy goes.")
@DRY_RUN
@JSON_OBJECT
def fork(checkpoint: Path, to: Path, dry_run: bool, as_json: bool) -> None:
    """Copy a checkpoint for a second query, which goes on from the same place under an id of its own."""
    from litemq.spark import checkpoint as checkpoints

    found = checkpoints.read(checkpoint)
    checkpoints.check_free(to)
    query_id = None if dry_run else checkpoints.fork(found, to)
    if as_json:
        output.write_json({**_state(found), "to": str(to), "dry_run": dry_run, "new_query_id": query_id})
        return
    output.write_fields(
        [("from", checkpoint), ("query", found.query_id), ("to", to), ("new query", query_id or "nothing was written")]
    )


# -- choosing -------------------------------------------------------------------------------------------------------


def _chosen_source(found: Checkpoint, source: int | None) -> int:
    known = list(found.last.sources)
    if source is None and len(known) == 1:
        return known[0]
    if source not in known:
        shown = ", ".join(str(number) for number in known)
        raise click.UsageError(f"--source must be one of {shown}: the sources of this query that read LiteMQ")
    return source


def _check_movable(found: Checkpoint, *, abandon_batch: bool) -> None:
    if found.is_done:
        return
    number = found.last.number
    if not abandon_batch:
        raise click.UsageError(
            f"batch {number} was begun and is not done: let the query run until it is, or give it up with "
            "--abandon-batch (the sink may have none, some or all of its messages)"
        )
    if found.has_state:
        raise click.UsageError(
            f"batch {number} cannot be given up: the query keeps state, which only the batch itself can write; let it "
            "run, with onDataLoss=skip if what it wants is gone"
        )


def _there(offset: Offset, wishes: Sequence[Move], path: str, nameservers: str) -> There | None:
    """Return what can be read now, where something has to be looked up; numbers alone are taken as they are."""
    from litemq.spark.moves import There, kind_of

    kind = kind_of(offset)
    if path and kind == "brokers":
        raise click.UsageError("the stream reads running brokers, not files: leave --path out")
    if all(isinstance(wish.to, int) for wish in wishes) and not path:
        return None
    if kind == "path":
        if not path:
            raise click.UsageError("the stream reads files: add --path STORE, in which earliest, latest and times are")
        from litemq.spark.files import FileBackend

        files = FileBackend(path)
        bounds = files.bounds()
        return There(files, {(one.topic, "", one.queue_id): one for one in bounds}, {"": files.identity})
    from litemq.spark.live import BrokerBackend
    from litemq.spark.options import read_options

    brokers = BrokerBackend(nameservers, read_options({"brokers": nameservers}))
    logs = {one.name: one.log_id for one in brokers.look(())}
    bounds = brokers.bounds(tuple(offset["t"]))
    return There(brokers, {(one.topic, one.broker, one.queue_id): one for one in bounds}, logs)


# -- telling --------------------------------------------------------------------------------------------------------


def _state(found: Checkpoint) -> dict[str, object]:
    return {
        "checkpoint": str(found.folder),
        "query_id": found.query_id,
        "last_batch": found.last.number,
        "done": found.is_done,
        "next_batch": found.next_batch,
    }


def _source_json(found: Checkpoint, number: int) -> dict[str, object]:
    from litemq.spark.moves import kind_of
    from litemq.spark.offsets import places_of

    offset = found.last.sources[number]
    start = found.starts().get(number)
    starts = {} if start is None else places_of(start)
    return {
        "source": number,
        "reads": kind_of(offset),
        "queues": [
            {
                "topic": topic,
                "broker": broker or None,
                "queue": queue_id,
                "offset": starts.get((topic, broker, queue_id)),
                "end": None if found.is_done else end,
            }
            for (topic, broker, queue_id), end in places_of(offset).items()
        ],
    }


def _write_queues(sources: Sequence[dict[str, object]], *, is_done: bool) -> None:
    headers = ["TOPIC", "BROKER", "QUEUE", "OFFSET"]
    headers += [] if is_done else ["END"]
    headers += ["SOURCE"] if len(sources) > 1 else []
    table: list[list[str | int]] = []
    for source in sources:
        queues = source["queues"]
        assert isinstance(queues, list)
        for queue in queues:
            row = [queue["topic"], queue["broker"] or "-", queue["queue"], _shown(queue["offset"])]
            row += [] if is_done else [queue["end"]]
            row += [source["source"]] if len(sources) > 1 else []
            table.append(row)
    output.write_table(headers, table)


def _shown(offset: int | None) -> str | int:
    return "-" if offset is None else offset


def _write_changes(wanted: Sequence[Change]) -> None:
    rows = [(topic, broker or "-", queue, before, after) for (topic, broker, queue), before, after in wanted]
    output.write_table(["TOPIC", "BROKER", "QUEUE", "BEFORE", "AFTER"], rows)


def _tell_move(found: Checkpoint, wanted: Sequence[Change], backup: Path | None, *, as_json: bool) -> None:
    if not as_json:
        said = "nothing was changed" if backup is None else f"moved; what was there is in {backup}"
        output.write_line(said)
        return
    output.write_json(
        {
            "checkpoint": str(found.folder),
            "query_id": found.query_id,
            "next_batch": found.last.number + 1,
            "abandoned": None if found.is_done else found.last.number,
            "dry_run": backup is None,
            "backup": None if backup is None else str(backup),
            "queues": [
                {"topic": topic, "broker": broker or None, "queue": queue, "before": before, "after": after}
                for (topic, broker, queue), before, after in wanted
            ],
        }
    )
