"""``litemq sql``: a store or a cluster as tables of Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from litemq.cli import output
from litemq.cli.pipeline_frame import Common, source_of, source_options, spark_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from litemq.spark.sql import Tables
    from litemq.spark.sql_text import Query

_LIMIT: Final = 100
_CELL: Final = 200
"""A table shows so much of a value."""


@click.command()
@source_options
@click.option("--file", "-f", metavar="FILE", help="Read the query from a file; - reads stdin.")
@click.option(
    "--limit", "-n", type=click.IntRange(min=1), help=f"At most so many rows [default: {_LIMIT}; of a file all]."
)
@click.option(
    "--output",
    "-o",
    "out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write all rows into a file: .parquet, .json, .jsonl or .csv; it appears when it is whole.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
@click.option("--dry-run", is_flag=True, help="Tell which tables and columns are read, and read none.")
@click.option("--conf", metavar="NAME=VALUE", multiple=True, help="A setting of Spark; may come several times.")
@click.option("--master", metavar="URL", default="", help="The Spark to run on [default: local[*], or spark-submit's].")
@click.argument("query", required=False)
def sql(
    path: str,
    nameservers: str,
    topics: tuple[str, ...],
    since: str,
    until: str,
    file: str | None,
    limit: int | None,
    out: Path | None,
    as_json: bool,
    dry_run: bool,
    conf: tuple[str, ...],
    master: str,
    query: str | None,
) -> None:
    """Ask a store or a cluster in SQL.

    Tables are messages, queues, topics, groups, dlq, with --path segments, and each topic under its name: `my-topic`.
    """
    from litemq.spark.sql import tables_of
    from litemq.spark.sql_output import check_output
    from litemq.spark.sql_text import read_query

    asked = read_query(_text(query, file))
    if out is not None:
        check_output(out)
    tables = tables_of(source_of(path=path, nameservers=nameservers, topics=topics, since=since, until=until))
    common = Common(master=master, conf=conf, report=None, dry_run=dry_run, as_json=as_json)
    with spark_of(common, "litemq sql") as spark:
        answer(spark, tables, asked, out=out, limit=limit, as_json=as_json, dry_run=dry_run)


def _text(query: str | None, file: str | None) -> str:
    if (query is None) == (file is None):
        raise click.UsageError('give a query, "SELECT …", or --file FILE with one')
    if query is not None:
        return query
    if file == "-":
        return sys.stdin.read()
    return Path(str(file)).read_text()


def answer(
    spark: SparkSession,
    tables: Tables,
    asked: Query,
    *,
    out: Path | None = None,
    limit: int | None = None,
    as_json: bool = False,
    dry_run: bool = False,
) -> None:
    """Print the rows of a query, write them into a file, or tell what would be read."""
    from litemq.spark.sql import answered
    from litemq.spark.sql_output import write_file

    with answered(spark, tables, asked) as frame:
        if dry_run:
            _write_plan(tables, asked, frame, as_json=as_json)
        elif out is not None:
            write_file(frame if limit is None else frame.limit(limit), out)
            if as_json:
                output.write_json({"output": str(out), "size": out.stat().st_size})
            else:
                output.write_line(f"{out}: {output.size_text(out.stat().st_size)}")
        else:
            _write_rows(frame, limit or _LIMIT, as_json=as_json)


def _write_rows(frame: DataFrame, limit: int, *, as_json: bool) -> None:
    from litemq.spark.sql_output import cell, taken, unique_names

    found = taken(frame, limit + 1)
    names = unique_names(frame.columns)
    rows = found[:limit]
    if as_json:
        for row in rows:
            output.write_json(dict(zip(names, row, strict=True)))
    elif names == ["plan"]:  # EXPLAIN: lines, which a table would put into one
        for row in rows:
            for line in cell(row[0]).splitlines():
                output.write_line(output.one_line(line))
    else:
        output.write_table(names, [[_shown(value) for value in row] for row in rows])
    if len(found) > limit:
        output.warn(f"there are more than these {limit} rows: --limit N shows more, --output FILE writes all")


def _shown(value: object) -> str | int:
    from litemq.spark.sql_output import cell

    if value is None:
        return "-"
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = cell(value)
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"


def _write_plan(tables: Tables, asked: Query, frame: DataFrame, *, as_json: bool) -> None:
    from litemq.spark.sql import columns_for

    reads = [(table.name, columns_for(table, asked)) for table in tables.named_in(asked)]
    answers = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
    if as_json:
        output.write_json(
            {
                "source": tables.source.name,
                "reads": [{"table": name, "columns": list(columns) or None} for name, columns in reads],
                "columns": [{"name": name, "type": kind} for name, kind in answers],
            }
        )
        return
    for name, columns in reads:
        output.write_line(f"reads {name} of {tables.source.name}: {', '.join(columns) or 'all columns'}")
    output.write_table(["COLUMN", "TYPE"], answers)
