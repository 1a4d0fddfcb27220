"""Files that are imported: looked through once, cut into pieces that a task reads, and read.

Looking through a file checks each of its rows and its checksum, so that nothing is sent of an input that cannot be sent
whole.  A piece is named by where it begins and ends: bytes of a text file, rows of a Parquet file.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from litemq.errors import InvalidRequest
from litemq.spark.jobs.export_rows import Form
from litemq.spark.jobs.import_rows import BadRow, Columns, Extra, Parts, columns_of

if TYPE_CHECKING:
    import pyarrow as pa

PIECE_ROWS: Final = 25_000
PIECE_BYTES: Final = 16 << 20
_MAX_RECORD: Final = 64 << 20
_READ_ROWS: Final = 1_000
_BATCH_ROWS: Final = 2_000
_BATCH_BYTES: Final = 4 << 20
_NAMES_FROM: Final = 1_000
"""Rows of JSON Lines whose names are the columns of the file."""


class Piece(NamedTuple):
    """Some rows of a file that follow each other."""

    path: str
    start: int
    end: int
    rows: int
    """Bad ones included."""
    bad: int
    size: int


@dataclass(frozen=True, slots=True)
class Wish:
    """How files are read; picklable."""

    form: Form
    renames: tuple[tuple[str, str], ...]
    extra: Extra
    max_body: int
    piece_rows: int = PIECE_ROWS
    quarantine: str = ""
    """A directory for the bad rows; empty: they are only counted."""


@dataclass(slots=True)
class Survey:
    """What is known of a file once it was looked through."""

    path: str
    sha256: str
    columns: Columns
    pieces: list[Piece] = field(default_factory=list)
    first_bad: str = ""
    """Where the first bad row is, and what is wrong with it."""
    problem: str = ""
    """Why nothing of it can be imported."""

    @property
    def rows(self) -> int:
        """Return how many rows it has, bad ones included."""
        return sum(piece.rows for piece in self.pieces)

    @property
    def bad(self) -> int:
        """Return how many of them are bad."""
        return sum(piece.bad for piece in self.pieces)


class Found(NamedTuple):
    """One row of a file as it stands there."""

    at: int
    """Byte where it begins; number of the row in a Parquet file."""
    end: int
    row: dict[str, Any] | None
    reason: str
    """Why it cannot be read, when it cannot."""
    raw: bytes
    """As it stands in a text file."""
    size: int


def survey(path: str, wish: Wish) -> Survey:
    """Look through a file; what is wrong with it is in the result, so that all files can be told of together."""
    try:
        return _survey(path, wish)
    except InvalidRequest as error:
        return Survey(path, "", Columns(()), problem=f"{path}: {error}")


def _survey(path: str, wish: Wish) -> Survey:
    columns = columns_of(names_in(path, wish.form), dict(wish.renames), wish.extra)
    answer = Survey(path, _checksum(path), columns)
    start, rows, bad, size, end = _first_byte(path, wish.form), 0, 0, 0, 0
    with _bad_rows(path, wish.quarantine) as note:
        for found in _rows(path, wish.form, start, None):
            end = found.end
            rows += 1
            reason = _fault(found, columns, wish.max_body)
            if reason:
                bad += 1
                answer.first_bad = answer.first_bad or f"{path} at {_unit(wish.form)} {found.at}: {reason}"
                note(found, reason)
            size += found.size
            if rows == wish.piece_rows or size >= PIECE_BYTES:
                answer.pieces.append(Piece(path, start, end, rows, bad, size))
                start, rows, bad, size = end, 0, 0, 0
    if rows:
        answer.pieces.append(Piece(path, start, end, rows, bad, size))
    return answer


def parts_in(piece: Piece, columns: Columns, wish: Wish) -> Iterator[Parts]:
    """Yield what the messages of a piece are made of; bad rows are passed over."""
    for found in _rows(piece.path, wish.form, piece.start, piece.end):
        if found.row is not None:
            try:
                yield columns.parts_of(found.row, wish.max_body)
            except BadRow:
                continue


def batches_of(parts: Iterator[Parts]) -> Iterator[pa.RecordBatch]:
    """Yield messages as record batches that ``format("litemq")`` can write."""
    some: list[Parts] = []
    size = 0
    for one in parts:
        some.append(one)
        size += len(one.body)
        if len(some) == _BATCH_ROWS or size >= _BATCH_BYTES:
            yield _batch(some)
            some, size = [], 0
    if some:
        yield _batch(some)


MESSAGE_DDL: Final = "body binary, keys string, tags string, properties map<string,string>, sharding_key string"


def _batch(some: Sequence[Parts]) -> pa.RecordBatch:
    import pyarrow as pa

    text = pa.string()
    bodies, keys, tags, properties, shards = zip(*some, strict=True)
    arrays = [
        pa.array(bodies, pa.binary()),
        pa.array(keys, text),
        pa.array(tags, text),
        pa.array([list(pairs.items()) for pairs in properties], pa.map_(text, text)),
        pa.array(shards, text),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=["body", "keys", "tags", "properties", "sharding_key"])


def names_in(path: str, form: Form) -> list[str]:
    """Return the names of a file's columns.

    Raises:
        InvalidRequest: it is no file of this form.
    """
    if form == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return list(pq.read_schema(path).names)
        except (pa.ArrowException, OSError) as error:
            raise InvalidRequest(f"it is no Parquet file: {error}") from error
    with Path(path).open("rb") as file:
        if form == "csv":
            record = next(_csv_records(file), None)
            names = _cells(record[1].removeprefix(b"\xef\xbb\xbf")) if record is not None else None
            if not names:
                raise InvalidRequest("it has no line of names; CSV must begin with one, in UTF-8")
            if len(set(names)) < len(names):
                raise InvalidRequest(f"a name stands twice in its first line: {', '.join(names)}")
            return names
    found: dict[str, None] = {}
    for number, one in enumerate(_json_rows(path, 0, None)):
        if number == _NAMES_FROM:
            break
        found.update(dict.fromkeys(one.row or ()))
    return list(found)


def _fault(found: Found, columns: Columns, max_body: int) -> str:
    if found.row is None:
        return found.reason
    try:
        columns.parts_of(found.row, max_body)
    except BadRow as error:
        return str(error)
    return ""


def _unit(form: Form) -> str:
    return "row" if form == "parquet" else "byte"


def _checksum(path: str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _bad_rows(path: str, folder: str) -> Iterator[Callable[[Found, str], None]]:
    """Yield what keeps bad rows in a file of the quarantine: it appears when it is whole, if there are any."""
    if not folder:
        yield lambda found, reason: None
        return
    name = f"{Path(path).name}-{hashlib.sha256(path.encode()).hexdigest()[:8]}.bad.jsonl"
    beside = Path(folder) / f".{name}.tmp"
    count = 0

    def note(found: Found, reason: str) -> None:
        nonlocal count
        count += 1
        line: dict[str, object] = {"file": path, "at": found.at, "reason": reason}
        try:
            line["row"] = found.raw.decode() if found.row is None or found.raw else repr(found.row)
        except UnicodeDecodeError:
            line["row_base64"] = base64.b64encode(found.raw).decode()
        out.write(json.dumps(line, ensure_ascii=False) + "\n")

    with beside.open("w") as out:
        yield note
    if count:
        beside.replace(Path(folder) / name)
    else:
        beside.unlink()


def _first_byte(path: str, form: Form) -> int:
    """Return where the first row begins: behind the line of names of CSV."""
    if form != "csv":
        return 0
    with Path(path).open("rb") as file:
        record = next(_csv_records(file), None)
        return 0 if record is None else len(record[1])


def _rows(path: str, form: Form, start: int, end: int | None) -> Iterator[Found]:
    if form == "parquet":
        return _parquet_rows(path, start, end)
    return _csv_rows(path, start, end) if form == "csv" else _json_rows(path, start, end)


def _json_rows(path: str, start: int, end: int | None) -> Iterator[Found]:
    with Path(path).open("rb") as file:
        file.seek(start)
        at = start
        while end is None or at < end:
            line = file.readline(_MAX_RECORD)
            if not line:
                return
            begin, at = at, at + len(line)
            text = line.strip().removeprefix(b"\xef\xbb\xbf") if begin == 0 else line.strip()
            if not text:
                continue
            try:
                row = json.loads(text)
                reason = "" if isinstance(row, dict) else f"the line is no object but {text[:40]!r}"
            except (ValueError, RecursionError) as error:
                row, reason = None, f"the line is no JSON: {error}"
            yield Found(begin, at, row if isinstance(row, dict) else None, reason, line.rstrip(b"\r\n"), len(line))


def _csv_rows(path: str, start: int, end: int | None) -> Iterator[Found]:
    names = names_in(path, "csv")
    with Path(path).open("rb") as file:
        file.seek(start)
        for offset, record in _csv_records(file):
            at = start + offset
            if end is not None and at >= end:
                return
            cells = _cells(record)
            if cells == []:
                continue  # an empty line
            reason, row = "", None
            if cells is None:
                reason = "the line is no CSV in UTF-8"
            elif len(cells) != len(names):
                reason = f"the line has {len(cells)} fields, the first line has {len(names)}"
            else:
                row = dict(zip(names, cells, strict=True))
            yield Found(at, at + len(record), row, reason, record.rstrip(b"\r\n"), len(record))


def _csv_records(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield records and where they begin: a line break inside of quotes ends none."""
    begin = at = 0
    pieces: list[bytes] = []
    is_quoted = False
    while line := file.readline(_MAX_RECORD):
        pieces.append(line)
        at += len(line)
        is_quoted ^= line.count(b'"') % 2 == 1
        if not is_quoted:
            yield begin, b"".join(pieces)
            begin, pieces = at, []
        elif at - begin > _MAX_RECORD:
            raise InvalidRequest(f"the quotes that open in the record at byte {begin} do not end")
    if pieces:
        yield begin, b"".join(pieces)


def _cells(record: bytes) -> list[str] | None:
    """Return the fields of a record; None when it is none."""
    csv.field_size_limit(_MAX_RECORD)
    try:
        text = record.decode()
        return next(csv.reader([text.removesuffix("\n").removesuffix("\r")], strict=True), [])
    except (UnicodeDecodeError, csv.Error):
        return None


def _parquet_rows(path: str, start: int, end: int | None) -> Iterator[Found]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        at = 0
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if at + count <= start or (end is not None and at >= end):
                at += count
                continue
            for batch in file.iter_batches(_READ_ROWS, row_groups=[group]):
                for row in batch.to_pylist():
                    if at >= start and (end is None or at < end):
                        yield Found(at, at + 1, row, "", b"", _weight(row))
                    at += 1


def _weight(row: dict[str, Any]) -> int:
    """Return about how many bytes a row of a Parquet file takes."""
    return sum(len(value) if isinstance(value, bytes | str) else 16 for value in row.values())
