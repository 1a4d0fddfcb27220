"""Rows on their way into files: record batches become Parquet, JSON Lines or CSV.

Parquet keeps types as they are.  In text files a body is in a column that says how: ``body_base64``, ``body`` (it is
UTF-8) or ``body_json``; times are ISO 8601 in UTC; properties and lists are JSON, in CSV as a text; CSV has no null, an
empty field stands for none.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, Protocol

from litemq.spark.errors import BadOption

if TYPE_CHECKING:
    import pyarrow as pa

Form = Literal["parquet", "jsonl", "csv"]
Body = Literal["base64", "text", "json"]

SUFFIXES: Final[dict[str, Form]] = {".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}
BODY_COLUMNS: Final[dict[Body, str]] = {"base64": "body_base64", "text": "body", "json": "body_json"}
_AT_ONCE: Final = 1_000
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class HashedFile(io.RawIOBase):
    """Writes into a file, and knows its size and checksum."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sum = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        view = memoryview(data).cast("B")
        self._file.write(view)
        self._sum.update(view)
        self.size += len(view)
        return len(view)

    def tell(self) -> int:
        return self.size

    @property
    def sha256(self) -> str:
        """Return the checksum of what was written."""
        return self._sum.hexdigest()


class Rows(Protocol):
    """Takes record batches in; one kind for each form of file."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""

    def close(self) -> None:
        """Write what belongs to the end; the file is not closed."""


class ParquetRows:
    """A Parquet file, compressed by zstd."""

    def __init__(self, file: HashedFile, schema: pa.Schema, body: Body) -> None:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(file, schema, compression="zstd")

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class JsonRows:
    """A file of JSON objects, one a line."""

    def __init__(self, file: HashedFile, schema: pa.Schema, body: Body) -> None:
        self._file = file
        self._names, self._values = _encoders(schema, body)

    def write(self, batch: pa.RecordBatch) -> None:
        for part in _parts(batch):
            rows = zip(*(map(value, column) for value, column in zip(self._values, part, strict=True)), strict=True)
            self._file.write(
                "".join([_encode(dict(zip(self._names, row, strict=True))) + "\n" for row in rows]).encode()
            )

    def close(self) -> None:
        """Nothing is left to write."""


class CsvRows:
    """A CSV file as RFC 4180 describes it, with a line of names."""

    def __init__(self, file: HashedFile, schema: pa.Schema, body: Body) -> None:
        self._file = file
        names, self._values = _encoders(schema, body)
        self._write([names])

    def write(self, batch: pa.RecordBatch) -> None:
        for part in _parts(batch):
            columns = [map(value, column) for value, column in zip(self._values, part, strict=True)]
            self._write([[_csv_cell(value) for value in row] for row in zip(*columns, strict=True)])

    def close(self) -> None:
        """Nothing is left to write."""

    def _write(self, rows: list[list[str]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\r\n").writerows(rows)
        self._file.write(text.getvalue().encode())


_ROWS: Final[dict[Form, Callable[[HashedFile, pa.Schema, Body], Rows]]] = {
    "parquet": ParquetRows,
    "jsonl": JsonRows,
    "csv": CsvRows,
}


def rows_into(file: HashedFile, form: Form, schema: pa.Schema, body: Body) -> Rows:
    """Return what writes rows of a schema into a file."""
    return _ROWS[form](file, schema, body)


def _parts(batch: pa.RecordBatch) -> list[list[list[Any]]]:
    """Return the columns of a batch as Python values, some rows at a time."""
    parts = (batch.slice(start, _AT_ONCE) for start in range(0, batch.num_rows, _AT_ONCE))
    return [[column.to_pylist() for column in part.columns] for part in parts]


def _encoders(schema: pa.Schema, body: Body) -> tuple[list[str], list[Callable[[Any], Any]]]:
    """Return names of columns in a text file, and what makes a value of JSON out of each."""
    import pyarrow as pa

    names: list[str] = []
    values: list[Callable[[Any], Any]] = []
    for field in schema:
        if pa.types.is_binary(field.type):
            names.append(BODY_COLUMNS[body] if field.name == "body" else field.name)
            values.append(_BODIES[body])
            continue
        names.append(field.name)
        if pa.types.is_map(field.type):
            values.append(lambda pairs: None if pairs is None else dict(pairs))
        elif pa.types.is_timestamp(field.type):
            values.append(_time)
        else:
            values.append(lambda value: value)
    return names, values


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _base64(body: bytes | None) -> str | None:
    return None if body is None else base64.b64encode(body).decode()


def _text(body: bytes | None) -> str | None:
    try:
        return None if body is None else body.decode()
    except UnicodeDecodeError as error:
        raise BadOption(f"the body {_shown(body)} is no UTF-8; export with --body base64, or as Parquet") from error


def _json(body: bytes | None) -> Any:  # noqa: ANN401 - whatever it says
    try:
        return None if body is None else json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadOption(f"the body {_shown(body)} is no JSON; export with --body base64 or text") from error


def _shown(body: bytes | None) -> str:
    found = body or b""
    return repr(found if len(found) <= 40 else found[:40] + b"...")


_BODIES: Final[dict[Body, Callable[[bytes | None], Any]]] = {"base64": _base64, "text": _text, "json": _json}


def _csv_cell(value: Any) -> str:  # noqa: ANN401 - a value of JSON
    if value is None:
        return ""
    return value if isinstance(value, str) else _encode(value)
