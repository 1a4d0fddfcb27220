"""Rows of a query as JSON, as CSV, and as one file that appears when it is whole.

Bytes are text where they are UTF-8, else ``{"base64": "…"}``; times are ISO 8601 in UTC; decimals are texts, so that no
digit is lost, and so are numbers that JSON does not know.  Of columns with the same name the second is ``name_2``.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from litemq.spark.errors import BadOption, JobFailed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


def unique_names(names: Iterable[str]) -> list[str]:
    """Return names of which each is there once."""
    found: list[str] = []
    for name in names:
        number, free = 1, name
        while free in found:
            number += 1
            free = f"{name}_{number}"
        found.append(free)
    return found


def plain(value: object) -> object:
    """Return a value as JSON can hold it; times without a zone stay without one."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes() | bytearray():
            return _text(bytes(value))
        case datetime():
            return _moment(value)
        case date() | time():
            return value.isoformat()
        case dict():
            return {_key(name): plain(member) for name, member in value.items()}
        case tuple() if hasattr(value, "__fields__"):  # a row within a row
            return {name: plain(member) for name, member in zip(value.__fields__, value, strict=True)}
        case list() | tuple():
            return [plain(member) for member in value]
    return str(value)


def _text(data: bytes) -> object:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _key(name: object) -> str:
    found = plain(name)
    return found if isinstance(found, str) else _ENCODE(found)


def _moment(value: datetime) -> str:
    precision = "microseconds" if value.microsecond % 1000 else "milliseconds"
    if value.tzinfo is None:
        return value.isoformat(timespec=precision)
    return value.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def taken(frame: DataFrame, count: int) -> list[list[object]]:
    """Return the first rows, plain."""
    kinds = [field.dataType.simpleString() for field in frame.schema.fields]
    return [
        [plain(value if "_ntz" in kind else _with_zone(value)) for kind, value in zip(kinds, row, strict=True)]
        for row in frame.take(count)
    ]


def _with_zone(value: object) -> object:
    """Give times their zone back: Spark hands rows over with times of this machine's, and does not say so."""
    match value:
        case datetime():
            return value.astimezone(UTC)
        case dict():
            return {name: _with_zone(member) for name, member in value.items()}
        case tuple() if hasattr(value, "__fields__"):
            return {name: _with_zone(member) for name, member in zip(value.__fields__, value, strict=True)}
        case list():
            return [_with_zone(member) for member in value]
    return value


def cell(value: object) -> str:
    """Return a plain value as a cell of CSV has it: nothing for null, JSON for what has parts."""
    if value is None:
        return ""
    return value if isinstance(value, str) else _ENCODE(value)


# -- one file ---------------------------------------------------------------------------------------------------------


def check_output(path: Path) -> None:
    """Refuse a file that cannot be written, before anything is read.

    Raises:
        BadOption: its name says no format, or its directory is not there.
    """
    if path.suffix.lower() not in _WRITERS:
        raise BadOption(f"{path.name!r} says no format; call the file .parquet, .json, .jsonl or .csv")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise BadOption(f"{path} cannot be written: " + ("it is a directory" if path.is_dir() else "no such directory"))


def write_file(frame: DataFrame, path: Path) -> None:
    """Write all rows into one file, in their order; the file is replaced when the new one is whole.

    Spark writes parts beside it, all at once; then they are joined.

    Raises:
        JobFailed: the workers wrote where this process does not see it.
    """
    check_output(path)
    path = path.absolute()
    folder = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        _WRITERS[path.suffix.lower()](frame, folder)
        joined = folder / "joined"
        joined.replace(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _parts(folder: Path, suffix: str) -> list[Path]:
    """Return what the tasks of Spark wrote, in the order of the rows."""
    found = list(folder.glob(f"part-*{suffix}"))
    if not found:
        raise JobFailed(f"the workers of Spark wrote nothing into {folder}: they must share this directory")
    return sorted(found, key=lambda path: int(path.name.split("-")[1]))


def _write_parquet(frame: DataFrame, folder: Path) -> None:
    import pyarrow.parquet as pq

    frame.write.parquet(folder.as_uri())
    parts = _parts(folder, ".parquet")
    schema = pq.read_schema(parts[0])
    with pq.ParquetWriter(folder / "joined", schema) as out:
        for part in parts:
            with pq.ParquetFile(part) as file:
                for batch in file.iter_batches():
                    out.write_batch(batch)


def _write_lines(
    to_lines: Callable[[Sequence[str], Sequence[object]], str],
    join: Callable[[BinaryIO, Sequence[str], Iterator[Path]], None],
    frame: DataFrame,
    folder: Path,
) -> None:
    names = unique_names(frame.columns)
    frame.mapInArrow(partial(_lines, to_lines, names), "line string").write.text(folder.as_uri())
    with (folder / "joined").open("wb") as out:
        join(out, names, iter(_parts(folder, ".txt")))


def _lines(
    to_line: Callable[[Sequence[str], Sequence[object]], str], names: list[str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Turn rows into lines; runs on executors."""
    import pyarrow as pa

    for batch in batches:
        columns = [column.to_pylist(maps_as_pydicts="lossy") for column in batch.columns]
        rows = zip(*columns, strict=True) if columns else iter(())
        lines = [to_line(names, [plain(value) for value in row]) for row in rows]
        yield pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], names=["line"])


def json_line(names: Sequence[str], row: Sequence[object]) -> str:
    """Return a row of plain values as a JSON object."""
    return _ENCODE(dict(zip(names, row, strict=True)))


def csv_line(_names: Sequence[str], row: Sequence[object]) -> str:
    """Return a row of plain values as a line of CSV, without its end."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([cell(value) for value in row])
    return out.getvalue().removesuffix("\n")


def _join_lines(out: BinaryIO, _names: Sequence[str], parts: Iterator[Path]) -> None:
    for part in parts:
        with part.open("rb") as lines:
            shutil.copyfileobj(lines, out)


def _join_list(out: BinaryIO, _names: Sequence[str], parts: Iterator[Path]) -> None:
    mark = b"[\n"
    for part in parts:
        with part.open("rb") as lines:
            for line in lines:
                out.write(mark + line.rstrip(b"\n"))
                mark = b",\n"
    out.write(b"[]\n" if mark == b"[\n" else b"\n]\n")


def _join_csv(out: BinaryIO, names: Sequence[str], parts: Iterator[Path]) -> None:
    out.write(csv_line(names, names).encode() + b"\n")
    _join_lines(out, names, parts)


_WRITERS: Final[dict[str, Callable[[DataFrame, Path], None]]] = {
    ".parquet": _write_parquet,
    ".json": partial(_write_lines, json_line, _join_list),
    ".jsonl": partial(_write_lines, json_line, _join_lines),
    ".csv": partial(_write_lines, csv_line, _join_csv),
}
"""By the end of a file's name."""
