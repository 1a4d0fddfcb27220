"""The log of a Delta table, written by delta-rs: what Delta's readers and tools read without LiteMQ.

The key of a commit is Delta's own application transaction (``txn``).
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from litemq.spark.lake.table import BadLake, Change, DataFile, LakeDamaged

if TYPE_CHECKING:
    from deltalake import DeltaTable


class DeltaLog:
    """A table of Parquet files and a ``_delta_log``."""

    kind = "delta"

    def __init__(self, root: Path) -> None:
        try:
            import deltalake  # noqa: F401 - only whether it is there
        except ModuleNotFoundError as error:
            raise BadLake(
                "Delta tables need the package deltalake; run: pip install 'litemq[lake]', or give --format parquet"
            ) from error
        self.root = root

    def create(self, schema_json: str, partition_by: tuple[str, ...]) -> None:
        """Make an empty table; Spark writes schemas as Delta does."""
        from deltalake import DeltaTable, Schema

        if not DeltaTable.is_deltatable(str(self.root)):
            schema = Schema.from_json(schema_json)
            DeltaTable.create(str(self.root), schema, mode="ignore", partition_by=list(partition_by))

    def files(self) -> list[DataFile]:
        """Return the files of the table."""
        table = self._table()
        if table is None:
            return []
        import pyarrow as pa

        return [_file(row) for row in pa.table(table.get_add_actions(flatten=True)).to_pylist()]

    def last_batch(self, writer: str) -> int | None:
        """Return the last batch that a writer committed."""
        table = self._table()
        return None if table is None else table.transaction_version(writer)

    def commit(self, change: Change) -> None:
        """Add and take away files.

        Raises:
            BadLake: a file that it takes away is not there any more, or its key is committed.
        """
        from deltalake.exceptions import DeltaError
        from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

        table = self._table()
        if table is None:
            raise LakeDamaged(f"{self.root} is no Delta table any more; run the job again")
        last = table.transaction_version(change.writer)
        if last is not None and change.batch <= last:
            raise BadLake(f"{self.root}: batch {change.batch} of {change.writer} is committed already")
        now = round(datetime.now(UTC).timestamp() * 1000)
        there = {file.path: file for file in self.files()} if change.remove else {}
        for path in change.remove:
            if path not in there:
                raise BadLake(f"{self.root}: {path} is not part of the table any more; run the job again")
        is_new = not change.is_rewrite
        added = [AddAction(file.path, file.size, file.partition, now, is_new, _stats(file)) for file in change.add]
        removed = [
            RemoveAction(path, is_new, now, there[path].size, dict(there[path].partition)) for path in change.remove
        ]
        key = CommitProperties(app_transactions=[Transaction(change.writer, change.batch)])
        columns = table.metadata().partition_columns
        try:
            table.create_write_transaction(
                [*removed, *added], "append", table.schema(), partition_by=columns, commit_properties=key
            )
        except DeltaError as error:
            raise BadLake(f"{self.root}: Delta refused the commit: {error}; run the job again") from error

    def vacuum(self, older_than_s: float) -> int:
        """Delete files that were taken away so long ago."""
        table = self._table()
        if table is None:
            return 0
        hours = max(0, math.ceil(older_than_s / 3600))
        return len(table.vacuum(hours, dry_run=False, enforce_retention_duration=False))

    def _table(self) -> DeltaTable | None:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            return DeltaTable(str(self.root))
        except TableNotFoundError:
            return None
        except DeltaError as error:
            raise LakeDamaged(f"the Delta log of {self.root} cannot be read: {error}") from error


def _file(row: dict[str, Any]) -> DataFile:
    return DataFile(
        path=unquote(row["path"]),
        size=row["size_bytes"],
        rows=row["num_records"] or 0,
        min_ms=_ms(row.get("min.store_timestamp")),
        max_ms=_ms(row.get("max.store_timestamp")),
    )


def _ms(found: datetime | None) -> int | None:
    return None if found is None else round(found.timestamp() * 1000)


def _stats(file: DataFile) -> str:
    found: dict[str, object] = {"numRecords": file.rows}
    for name, ms in (("minValues", file.min_ms), ("maxValues", file.max_ms)):
        if ms is not None:
            moment = datetime.fromtimestamp(ms / 1000, UTC)
            found[name] = {"store_timestamp": f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"}
    return json.dumps(found)
