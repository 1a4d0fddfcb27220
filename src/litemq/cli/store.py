"""``litemq store …``: tools over store files; no broker is needed.

This module only knows options and output: the work is done in ``litemq.store``, imported when a command runs, so that
``--help`` stays quick.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal, Protocol

import click

from litemq.cli import output, store_text
from litemq.cli.time_range import parse_range
from litemq.errors import BadStore, UnknownFormat

FORMATS: Final = ("litemq", "rocketmq", "blueprint", "tmq")

Command = Callable[..., int]


class Report(Protocol):
    """What a command that changes files gives back."""

    @property
    def is_ok(self) -> bool: ...
    def to_json(self) -> Mapping[str, object]: ...


class _PathType(click.Path):
    """A path; an empty text, as of a shell variable that is not set, is none, not the current directory."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        if not os.fspath(value):
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


class _Number(click.IntRange):
    """A whole number with a lower bound; the error says what is expected."""

    name = "number"

    def __init__(self, least: int) -> None:
        super().__init__(min=least)

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except ValueError:
            number = None
        if number is None or number < (self.min or 0):
            self.fail(
                f"{value!r} is not a whole number of at least {self.min}, in digits and without a unit", param, ctx
            )
        return number


class _Command(click.Command):
    """A command whose advice names only options that it has."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except UnknownFormat as error:
            raise BadStore(f"{error}; if it is a log, {self._advice()}") from error

    def _advice(self) -> str:
        for parameter in self.params:
            if parameter.name in ("format_name", "from_format"):
                return f"name its format with {parameter.opts[0]} ({', '.join(FORMATS)})"
        return "look into it with: litemq store dump PATH --format FORMAT"


class _Group(click.Group):
    command_class = _Command


_PATH = click.argument("path", type=_PathType())
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
_FORMAT = click.option(
    "--format",
    "format_name",
    type=click.Choice(("auto", *FORMATS)),
    default="auto",
    show_default=True,
    help="Format of the records; auto: the first record tells.",
)
_COUNT = _Number(1)
_FROM_ZERO = _Number(0)


def _sizes(command: Command) -> Command:
    for name, text in reversed(
        (
            ("--queue-entries", "Entries of one ConsumeQueue file."),
            ("--index-slots", "Slots of one index file."),
            ("--index-entries", "Entries of one index file."),
        )
    ):
        command = click.option(name, type=_COUNT, help=text)(command)
    return command


@click.group(cls=_Group, no_args_is_help=False)
def store() -> None:
    """Look into, check, convert and mend store files.

    PATH is a store directory, a directory of segments, or one segment file.
    """


@store.command()
@_PATH
@_FORMAT
@click.option("--topic", help="Only records of this topic.")
@click.option("--queue", "queue_id", type=int, help="Only records of this queue.")
@click.option("--from", "from_position", type=_FROM_ZERO, help="Start at or behind this position.")
@click.option("--limit", type=_FROM_ZERO, help="Print at most so many records.")
@_JSON
def dump(
    path: Path,
    *,
    format_name: str,
    topic: str | None,
    queue_id: int | None,
    from_position: int | None,
    limit: int | None,
    as_json: bool,
) -> int:
    """Print the sound records in log order."""
    from litemq.format.record import to_json
    from litemq.store.log_walk import open_log
    from litemq.store.segment_walk import Damage

    def warn(damage: Damage) -> None:
        output.warn(output.damage_text(damage))

    log = open_log(path, format_name)
    left = -1 if limit is None else limit
    if not left:
        return 0
    with output.progress("dump", is_among_records=True) as on_batch:
        for record in log.records(from_position, topic=topic, queue_id=queue_id, on_damage=warn, on_batch=on_batch):
            if as_json:
                output.write_json(to_json(record))
            else:
                output.write_line(output.record_line(record))
            left -= 1
            if not left:
                break
    return 1 if log.damage.torn or log.damage.corrupt else 0


@store.command()
@_PATH
@_FORMAT
@_JSON
def verify(path: Path, *, format_name: str, as_json: bool) -> int:
    """Check every record, consume queue entry and index entry."""
    from litemq.store.verify import verify as run

    with output.progress("verify") as on_batch:
        report = run(path, format_name, on_batch=on_batch)
    if as_json:
        output.write_json(report.to_json())
    else:
        store_text.show_verify(report)
    return 0 if report.is_ok else 1


@store.command()
@click.argument("source", type=_PathType())
@click.argument("destination", type=_PathType())
@click.option("--to", "to_format", type=click.Choice(FORMATS), required=True, help="Format to write.")
@click.option(
    "--from",
    "from_format",
    type=click.Choice(("auto", *FORMATS)),
    default="auto",
    show_default=True,
    help="Format of SOURCE; auto: the first record tells.",
)
@click.option("--segment-size", type=_COUNT, help="Bytes of one commit-log file (default 1 GiB).")
@_sizes
@_JSON
def convert(
    source: Path,
    destination: Path,
    *,
    to_format: str,
    from_format: str,
    segment_size: int | None,
    queue_entries: int | None,
    index_slots: int | None,
    index_entries: int | None,
    as_json: bool,
) -> int:
    """Write the records of SOURCE as a complete store of another format to DESTINATION."""
    from litemq.store.convert import convert as run

    with output.progress("convert") as on_batch:
        report = run(
            source,
            destination,
            to=to_format,
            from_format=from_format,
            segment_size=segment_size,
            queue_entries=queue_entries,
            index_slots=index_slots,
            index_entries=index_entries,
            on_batch=on_batch,
        )
    return _finish(report, as_json=as_json)


@store.command()
@_PATH
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@_JSON
def repair(path: Path, *, dry_run: bool, as_json: bool) -> int:
    """Cut a torn tail, and rebuild queues and index where they disagree with the log."""
    from litemq.store.repair import repair as run

    with output.progress("repair") as on_batch:
        report = run(path, dry_run=dry_run, on_batch=on_batch)
    return _finish(report, as_json=as_json)


@store.command()
@_PATH
@click.option("--only", type=click.Choice(("consumequeue", "index")), help="Rebuild only these files.")
@_sizes
@_JSON
def rebuild(
    path: Path,
    *,
    only: Literal["consumequeue", "index"] | None,
    queue_entries: int | None,
    index_slots: int | None,
    index_entries: int | None,
    as_json: bool,
) -> int:
    """Write consume queues and index anew from the log alone."""
    from litemq.store.rebuild import rebuild as run

    with output.progress("rebuild") as on_batch:
        report = run(
            path,
            only=only,
            queue_entries=queue_entries,
            index_slots=index_slots,
            index_entries=index_entries,
            on_batch=on_batch,
        )
    store_text.warn_of_left_out(report)
    return _finish(report, as_json=as_json)


@store.command()
@_PATH
@_FORMAT
@click.option("--key", help="Records with this key.")
@click.option("--id", "message_id", help="Records with this message id or offset id.")
@click.option("--time", "time_range", metavar="FROM..TO", help="Store time, ms or ISO 8601; either end may be empty.")
@click.option("--topic", help="Only records of this topic.")
@click.option("--limit", type=_COUNT, default=64, show_default=True, help="Print at most so many, the newest.")
@_JSON
def query(
    path: Path,
    *,
    format_name: str,
    key: str | None,
    message_id: str | None,
    time_range: str | None,
    topic: str | None,
    limit: int,
    as_json: bool,
) -> int:
    """Find records by key, id or time."""
    if sum(value is not None for value in (key, message_id, time_range)) != 1:
        raise click.UsageError("give one of --key, --id and --time")
    if "" in (key, message_id):
        raise click.UsageError(f"{'--key' if key == '' else '--id'} is empty; give what to look for")
    times = (None, None) if time_range is None else parse_range(time_range)

    from litemq.format.record import to_json
    from litemq.store.log_walk import open_log
    from litemq.store.query import Wanted
    from litemq.store.query import query as run

    log = open_log(path, format_name)
    wanted = Wanted(key=key, message_id=message_id, topic=topic).within(*times)
    with output.progress("query") as on_batch:
        records = run(log, wanted, limit, on_batch=on_batch)
    for record in records:
        if as_json:
            output.write_json(to_json(record))
        else:
            output.write_line(output.record_line(record))
    return 0


@store.command()
@_PATH
@_FORMAT
@_JSON
def info(path: Path, *, format_name: str, as_json: bool) -> int:
    """Show what a log or store holds."""
    from litemq.store.info import info as run

    with output.progress("info") as on_batch:
        found = run(path, format_name, on_batch=on_batch)
    if as_json:
        output.write_json(found.to_json())
    else:
        store_text.show_info(found)
    return 0


@store.command()
@_JSON
def formats(*, as_json: bool) -> int:
    """List the record formats: what each holds, lacks and limits."""
    from litemq.format.limits import FACTS

    if as_json:
        for facts in FACTS.values():
            output.write_json(facts.to_json())
    else:
        store_text.show_formats(FACTS.values())
    return 0


def _finish(report: Report, *, as_json: bool) -> int:
    """Print the report of a command that changes files."""
    if as_json:
        output.write_json(report.to_json())
    else:
        store_text.show_object(report.to_json())
    return 0 if report.is_ok else 1
