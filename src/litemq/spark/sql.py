"""A store or a cluster as tables of Spark's SQL: ``messages``, ``queues``, ``topics`` … and each topic under its name.

Only what a query names is opened, as each view costs Spark a look at the source, and of messages only those columns
whose names are in it.  A topic that is called like one of our tables, or like another topic but for its case, has no
table of its own: ``messages WHERE topic = '…'`` has it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from litemq.client.live_reads import LiveReader
from litemq.spark.errors import BadQuery, message_of
from litemq.spark.files import FileBackend
from litemq.spark.jobs.job import Source
from litemq.spark.live_planning import own_topics
from litemq.spark.options import VIEWS, read_options
from litemq.spark.planning import Topics, is_reserved
from litemq.spark.schema import DEAD_LETTERS, MESSAGES
from litemq.spark.sql_text import Query

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

_WHERE: Final = re.compile(r"line ([0-9]+),? pos ([0-9]+)")
_ASK_S: Final = 5.0
_SHOWN: Final = 20
_SMALLEST: Final = "queue_id"
"""The column that is read when none is asked for: ``count(*)`` wants rows."""


@dataclass(frozen=True, slots=True)
class Table:
    """A name that a query can use."""

    name: str
    options: Mapping[str, str]
    """Of ``format("litemq")``, beside those of the source."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a source."""

    source: Source
    known: tuple[Table, ...]

    def named_in(self, query: Query) -> list[Table]:
        """Return the tables that a query may use: those whose names are in it."""
        return [table for table in self.known if query.names_one(table.name)]


def tables_of(source: Source) -> Tables:
    """Return the tables of a store or a cluster.

    Raises:
        LiteMQError: an option is wrong, there is no such store, or nobody answers.
    """
    place = {"brokers": source.brokers} if source.brokers else {"path": source.path}
    options = read_options({**place, **source.options})
    topics = Topics(options)
    if source.brokers:
        names = _topics_at(options.brokers, topics.named)
    else:
        names = _topics_in(FileBackend(options.path, options.format))
    chosen = sorted(name for name in names if name in topics.named or (not topics.named and not is_reserved(name)))
    ours = [view for view in VIEWS if view != "segments" or not source.brokers]
    times = Counter(name.lower() for name in [*VIEWS, *chosen])
    return Tables(
        source,
        (
            *(Table(view, {"view": view}) for view in ours),
            *(Table(name, {"subscribe": name}) for name in chosen if times[name.lower()] == 1),
        ),
    )


def _topics_at(brokers: str, named: Sequence[str]) -> set[str]:
    with LiveReader(brokers, timeout=_ASK_S) as reader:
        names = {topic.name for broker in reader.bounds(named or None) for topic in broker.topics}
    return names if named else names - own_topics(brokers)


def _topics_in(backend: FileBackend) -> set[str]:
    if backend.trusted:
        return {queue.topic for queue in backend.bounds()} | backend.batch_topics()
    from litemq.spark.session import check_spark

    check_spark()
    from litemq.spark.views import walked_topics

    return walked_topics(backend)


def columns_for(table: Table, query: Query) -> tuple[str, ...]:
    """Return the columns of a table that a query can need; none named: all."""
    view = table.options.get("view", "messages")
    if query.needs_all_columns or view not in ("messages", "dlq"):
        return ()
    every = [column.name for column in ((*DEAD_LETTERS, *MESSAGES) if view == "dlq" else MESSAGES)]
    return tuple(name for name in every if query.names_one(name)) or (_SMALLEST,)


@contextmanager
def answered(spark: SparkSession, tables: Tables, query: Query) -> Iterator[DataFrame]:
    """Yield the rows of a query; its tables are views of the session for as long.

    Raises:
        BadQuery: Spark cannot read it, or it names what is not there.
    """
    from pyspark.errors import AnalysisException, ParseException

    opened = tables.named_in(query)
    others = [table for table in tables.known if table not in opened] if query.names_one("show") else []
    try:
        for table in others:  # SHOW TABLES tells names, and needs no columns
            spark.range(0).createOrReplaceTempView(_quoted(table.name))
        try:
            found = _asked(spark, tables, query, opened)
        except ParseException:
            raise
        except AnalysisException:
            # With all columns: then Spark can tell which one was meant.
            found = _asked(spark, tables, replace(query, needs_all_columns=True), opened)
        yield found
    except (ParseException, AnalysisException) as error:
        raise BadQuery(explained(error, tables)) from error
    finally:
        for table in (*opened, *others):
            spark.catalog.dropTempView(table.name)


def _asked(spark: SparkSession, tables: Tables, query: Query, opened: Sequence[Table]) -> DataFrame:
    for table in opened:
        _open(spark, tables.source, table, query).createOrReplaceTempView(_quoted(table.name))
    if query.explained:
        spark.sql(query.explained)  # EXPLAIN itself does not say what is wrong
    return spark.sql(query.text)


def _open(spark: SparkSession, source: Source, table: Table, query: Query) -> DataFrame:
    from pyspark.sql.functions import col

    more = dict(table.options)
    view = more.get("view", "messages")
    wanted = columns_for(table, query)
    topics = [name for name in source.options.get("subscribe", "").split(",") if name]
    if view != "dlq" or not topics:
        return source.read(spark, **more, columns=",".join(wanted))
    # Dead letters are in a topic of their group: those of a topic say so themselves.
    every = dict.fromkeys((*wanted, "origin_topic")) if wanted else ()
    frame = source.read(spark, **more, subscribe="", columns=",".join(every))
    return frame.where(col("origin_topic").isin(topics))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def explained(error: PySparkException, tables: Tables) -> str:
    """Return in one line what is wrong with a query, and where."""
    if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
        name = (error.getMessageParameters() or {}).get("relationName", "").replace("`", "")
        return f"there is no table {name!r}; {names_text([table.name for table in tables.known])}"
    said = message_of(error)
    condition, bracket, rest = said.partition("] ")
    text = rest if bracket and condition.startswith("[") else said
    where = _WHERE.search(str(error))
    return text.partition(" SQLSTATE: ")[0].strip() + (
        f" (line {where[1]}, column {int(where[2]) + 1})" if where else ""
    )


def names_text(names: Sequence[str]) -> str:
    """Return the names of tables as an error shows them."""
    shown = [name if name.isidentifier() else _quoted(name) for name in names[: _SHOWN + len(VIEWS)]]
    more = len(names) - len(shown)
    return f"tables are: {', '.join(shown)}{f' and {more} more' if more > 0 else ''}"
