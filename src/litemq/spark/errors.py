"""What can be wrong with a read or a stream: each error names the option to change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from litemq.errors import InvalidRequest, StorageError, Unavailable


class BadOption(InvalidRequest):
    """An option that is unknown, missing, or has a value that it cannot have."""


class BadQuery(InvalidRequest):
    """SQL that cannot be read, names what is not there, or does more than read."""


class SchemaMismatch(InvalidRequest):
    """A schema that names a column which is not there, or gives it another type."""


class CorruptInput(StorageError):
    """A damaged record in what is read, and ``onCorrupt`` is ``fail``."""


class DataLost(StorageError):
    """Offsets that a stream needs are gone, and ``onDataLoss`` is ``fail``."""


class Unreadable(StorageError):
    """A file of a store that Spark's user may not read, or that is none."""


class SparkMissing(Unavailable):
    """Java, PySpark or Arrow is missing or of a version that does not fit."""


class JobFailed(StorageError):
    """Spark gave up; the text says why, without Spark's stacks."""


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Raise what the system says of a file as an error that says what to do.

    Raises:
        Unreadable: a file cannot be read.
    """
    try:
        yield
    except OSError as error:
        raise Unreadable(
            f"cannot read {error.filename or path}: {error.strerror or error}; the user that runs Spark must be able "
            "to read it on every machine: chmod or chown it, or give another path"
        ) from error


def message_of(error: BaseException) -> str:
    """Return what a LiteMQ error said, out of the stack traces that Spark wraps around it."""
    text = str(error)
    for line in reversed(text.splitlines()):
        name, colon, said = line.strip().partition(": ")
        if colon and name.startswith("litemq.") and name.rpartition(".")[2].isidentifier():
            return said
    return next((line for line in text.splitlines() if line.strip()), type(error).__name__)
