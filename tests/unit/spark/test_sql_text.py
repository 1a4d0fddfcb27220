"""What is known of a query before Spark sees it: only reading ones pass, and no column that counts is left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.store_files import StoreFiles

from litemq.spark.errors import BadQuery
from litemq.spark.jobs.job import Source
from litemq.spark.sql import Table, columns_for, tables_of
from litemq.spark.sql_text import read_query
from litemq.types import Message

MESSAGES = Table("messages", {"view": "messages"})


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "  (select 1) ;",
        "-- DROP TABLE x\n SELECT 1",
        "/* INSERT */ VALUES (1)",
        "WITH a AS (SELECT 'INSERT') SELECT * FROM a",
        "WITH a AS (SELECT 1), b AS (SELECT 2) (SELECT * FROM a)",
        "DESCRIBE messages",
        "desc messages",
        "EXPLAIN SELECT 1",
        "SHOW TABLES",
    ],
)
def test_reading_statements_pass(text: str) -> None:
    read_query(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the query is empty"),
        (" ; -- nothing", "the query is empty"),
        ("DROP TABLE messages", "DROP is refused"),
        ("insert into x select 1", "INSERT is refused"),
        ("/* SELECT */ CREATE VIEW v AS SELECT 1", "CREATE is refused"),
        ("EXPLAIN EXTENDED -- why\n INSERT INTO x SELECT 1", "INSERT is refused"),
        ("SET x = 1", "SET is refused"),
        ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "WITH … INSERT is refused"),
        ("WITH a AS (SELECT 1)\nmerge INTO t USING a", "WITH … MERGE is refused"),
    ],
)
def test_others_are_refused(text: str, said: str) -> None:
    with pytest.raises(BadQuery, match=said):
        read_query(text)


def test_names_are_words_and_not_texts() -> None:
    query = read_query(
        "SELECT \"body\", 'keys' FROM `my-topic` /* size */ m -- flag\n WHERE Tags LIKE r'\\d' AND x = 'it''s type'"
    )
    assert {"my-topic", "m", "tags", "x"} <= query.names
    assert not query.names & {"body", "keys", "size", "flag", "type", "d"}


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT topic, count(*) FROM messages GROUP BY topic", ("topic",)),
        ("SELECT count( * ) FROM messages", ("queue_id",)),
        ("SELECT max(Store_Timestamp) FROM messages WHERE `keys` = 'body'", ("keys", "store_timestamp")),
        ("SELECT m.body FROM messages m", ("body",)),
        ("SELECT * FROM messages", ()),
        ("SELECT m.* FROM messages m", ()),
        ("SELECT count(m.*) FROM messages m", ()),
        ("SELECT count(DISTINCT *) FROM messages", ()),
        ("SELECT size * 2 FROM messages", ()),
        ("SELECT topic FROM messages NATURAL JOIN queues", ()),
        ("SELECT count(1) FROM (TABLE messages UNION TABLE messages)", ()),
        ("SELECT count(1) FROM (FROM messages)", ()),
        ("SELECT topic FROM messages PIVOT (count(topic) FOR queue_id IN (0, 1))", ()),
        ("SELECT topic FROM messages |> WHERE topic = 'x'", ()),
        ("DESCRIBE messages", ()),
    ],
)
def test_columns_that_a_query_can_need(text: str, columns: tuple[str, ...]) -> None:
    assert columns_for(MESSAGES, read_query(text)) == columns


def test_small_views_are_read_whole() -> None:
    assert columns_for(Table("queues", {"view": "queues"}), read_query("SELECT topic FROM queues")) == ()
    assert columns_for(Table("dlq", {"view": "dlq"}), read_query("SELECT reason, topic FROM dlq")) == (
        "reason",
        "topic",
    )


def test_topics_are_tables_where_their_names_are_free(tmp_path: Path) -> None:
    store = StoreFiles(tmp_path)
    for topic in ("my-topic", "orders", "Groups", "Bills", "bills", "LITEMQ_SYS_POP", "%DLQ%g"):
        store.add(Message(topic, b"x"))
    store.write()
    views = ["messages", "queues", "segments", "groups", "dlq", "topics"]

    def names(**options: str) -> list[str]:
        return [table.name for table in tables_of(Source(str(tmp_path), "", options)).known]

    assert names() == [*views, "%DLQ%g", "my-topic", "orders"]
    assert names(subscribe="orders") == [*views, "orders"]
    assert names(subscribe="bills") == [*views, "bills"]
