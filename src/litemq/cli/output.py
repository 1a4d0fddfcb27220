"""How commands speak: JSON lines, aligned text, warnings, progress.

Everything written is UTF-8, whatever the locale says; a lone surrogate, which UTF-8 cannot hold, is written as JSON
writes it (``\\udc80``).  Results go to stdout, all else to stderr.  rich is imported only to draw on a terminal.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from rich.console import Console

    from litemq.store.log_walk import Log
    from litemq.store.segment_walk import Batch, Damage
    from litemq.types import Record

    OnBatch = Callable[[Log, Batch], None]

_PREVIEW: Final = 40
_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(0x7F, 0xA0))}
_encode_json = json.JSONEncoder(ensure_ascii=False).encode


class PipeClosed(Exception):
    """Nobody reads our output any more: the command ends, and says nothing."""


class NotWritten(Exception):
    """The output cannot be written; the text says why."""


def write_json(value: Mapping[str, object]) -> None:
    """Print one object on one line of stdout."""
    _write(sys.stdout, _encode_json(value) + "\n")


def write_line(text: str = "") -> None:
    """Print one line for a person on stdout."""
    _write(sys.stdout, text + "\n")


def warn(text: str) -> None:
    """Print one line on stderr, above a bar that is drawn there; the work goes on."""
    line = f"litemq: warning: {one_line(text)}"
    if _bar is None:
        _write(sys.stderr, line + "\n")
    else:
        _bar.print(line, soft_wrap=True, markup=False, highlight=False, emoji=False)


def fail(text: str) -> None:
    """Print the one line on stderr that says why a command ends."""
    _write(sys.stderr, f"litemq: error: {one_line(text)}\n")


def flush() -> None:
    """Hand everything written so far to whoever reads it."""
    if _is_there(sys.stdout):
        with _errors_named():
            sys.stdout.flush()


def forget_stdout() -> None:
    """Keep the interpreter from complaining, at its end, about what it can no longer write."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):
        return
    finally:
        os.close(nowhere)


def _write(stream: TextIO, text: str) -> None:
    if not _is_there(stream):
        return
    data = text.encode("utf-8", "backslashreplace")
    with _errors_named():
        raw = getattr(stream, "buffer", None)
        if raw is None:
            stream.write(data.decode())
        else:
            raw.write(data)
        if stream is sys.stderr:
            stream.flush()


def _is_there(stream: TextIO | None) -> bool:
    """Return False for a stream that was closed before the command began (``>&-``): nobody wants to see it."""
    return stream is not None


@contextmanager
def _errors_named() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise PipeClosed from error
    except OSError as error:
        raise NotWritten(f"cannot write the output: {error.strerror or error}") from error


def one_line(text: str) -> str:
    """Return the text without line breaks and other controls: they are shown as ``\\x0a``."""
    return text.translate(_CONTROLS)


# -- values for people ----------------------------------------------------------------------------------------------


def time_text(ms: int | None) -> str:
    """Return a time as people read it, in UTC; a number that is no time stays a number."""
    if ms is None:
        return "-"
    try:
        moment = datetime.fromtimestamp(ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


def size_text(size: int) -> str:
    """Return a number of bytes with its unit."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("the last unit takes everything")


def record_line(record: Record) -> str:
    """Return one record on one line: position, time, topic, queue, offset, tags, keys, size, start of the body."""
    body = record.body[:_PREVIEW].decode("utf-8", "backslashreplace")
    return one_line(
        f"{record.position:>12}  {time_text(record.born_time if record.store_time is None else record.store_time)}  "
        f"{record.topic}  q{record.queue_id}  #{record.queue_offset}  tags={','.join(record.tags) or '-'}  "
        f"keys={','.join(record.keys) or '-'}  {record.size} B  {body}{'…' if len(record.body) > _PREVIEW else ''}"
    )


def damage_text(damage: Damage) -> str:
    """Return a damage as ``dump`` warns of it."""
    return f"{damage.kind} record at {damage.position} in {damage.segment}: {damage.reason}"


def write_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print names and values, the values aligned."""
    shown = [(name, one_line(str(value))) for name, value in fields]
    width = max(len(name) for name, _ in shown)
    for name, value in shown:
        write_line(f"{name:<{width}}  {value}")


def write_table(headers: Sequence[str], table: Sequence[Sequence[str | int]]) -> None:
    """Print a table: drawn on a terminal, aligned text elsewhere; numbers to the right."""
    if _is_there(sys.stdout) and sys.stdout.isatty():
        _draw_table(headers, table)
        return
    shown = [[one_line(str(cell)) for cell in row] for row in table]
    widths = [max(len(cell) for cell in column) for column in zip(headers, *shown, strict=True)]
    numeric = [all(isinstance(row[i], int) for row in table) for i in range(len(headers))]
    for row in ([*headers], *shown):
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        write_line("  ".join(cells).rstrip())


def _draw_table(headers: Sequence[str], table: Sequence[Sequence[str | int]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for i, header in enumerate(headers):
        right = all(isinstance(row[i], int) for row in table)
        drawn.add_column(header, justify="right" if right else "left", overflow="fold")
    for row in table:
        drawn.add_row(*(Text(one_line(str(cell))) for cell in row))  # Text: names are no markup
    flush()
    Console().print(drawn)


# -- progress -------------------------------------------------------------------------------------------------------


_bar: Console | None = None
"""The terminal on which a bar is drawn right now."""


@contextmanager
def progress(label: str, *, is_among_records: bool = False) -> Iterator[OnBatch | None]:
    """Show a bar on stderr while a log is walked, if a person looks there and not at the records themselves.

    ``is_among_records``: records are printed meanwhile, so there is no bar when they go to a terminal.
    """
    global _bar
    is_watched = _is_there(sys.stderr) and sys.stderr.isatty()
    if not is_watched or (is_among_records and _is_there(sys.stdout) and sys.stdout.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task(label, total=None)
        before: dict[tuple[int, str], int] = {}
        total = 0

        def on_batch(log: Log, batch: Batch) -> None:
            nonlocal total
            if not before:
                total = _measure(log, before)
            done = before.get((batch.stream, batch.segment.name), 0) + batch.base - batch.start
            bar.update(task, completed=done, total=max(total, done))

        _bar = console
        try:
            yield on_batch
        finally:
            _bar = None
        if before:
            bar.update(task, completed=total, total=total)


def _measure(log: Log, before: dict[tuple[int, str], int]) -> int:
    """Note how many bytes lie before each segment; return how many there are.

    Segments are allocated ahead: only as far as the file system has data in them they are walked over.
    """
    total = 0
    for number, stream in enumerate(log.files.streams):
        for segment in stream.segments:
            before[number, segment.name] = total
            try:
                file = log.fs.open(segment.path)
            except OSError:
                continue
            total += max((end for _, end in file.data_ranges(0)), default=0)
            file.close()
    return total
