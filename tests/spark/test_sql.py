"""``litemq sql`` on a real Spark: tables, JSON, files, what is wrong with a query, and the command itself."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.support.store_files import StoreFiles

import litemq
from litemq.cli.sql import answer
from litemq.spark.errors import BadQuery
from litemq.spark.jobs.job import Source
from litemq.spark.sql import tables_of
from litemq.spark.sql_text import read_query
from litemq.testing import broker
from litemq.types import Message

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

Ask = Callable[..., str]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a store with 300 orders, of which one body is no text, and dead letters."""
    files = StoreFiles(tmp_path_factory.mktemp("sql") / "store", segment_size=1 << 16)
    for number in range(300):
        body = b"\xff\x00" if number == 7 else b"%d apples" % number
        tags = ("paid",) if number % 3 else ("new",)
        files.add(Message("orders", body, queue_id=number % 2, tags=tags, keys=(f"o-{number}",), properties={"n": "1"}))
    files.add(Message("my-topic", b"dashed"))
    dead = {"DLQ_GROUP": "billing", "DLQ_ORIGIN_TOPIC": "orders", "DLQ_REASON": "max_retry"}
    files.add(Message("%DLQ%billing", b"dead", properties=dead))
    files.write()
    return files.root


@pytest.fixture
def ask(spark: Any, store: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Ask:  # noqa: ANN401
    """Return what prints the answer to a query over the store."""

    def asked(text: str, source: Source | None = None, **more: object) -> str:
        answer(spark, tables_of(source or Source(str(store))), read_query(text), **more)  # type: ignore[arg-type]
        out, err = capfdbinary.readouterr()
        warned = [line for line in err.decode().splitlines() if line.startswith("litemq: ")]
        return out.decode() + "".join(f"{line}\n" for line in warned)

    return asked


def objects(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines() if not line.startswith("litemq: ")]


def test_a_table(ask: Ask) -> None:
    said = ask("SELECT tags, count(*) AS n, max(queue_offset) AS last FROM orders GROUP BY tags ORDER BY tags")
    assert [line.split() for line in said.splitlines()] == [
        ["tags", "n", "last"],
        ["new", "100", "148"],
        ["paid", "200", "149"],
    ]
    said = ask("SELECT o.keys, m.body FROM orders o JOIN `my-topic` m ON m.queue_id = o.queue_id WHERE o.keys = 'o-0'")
    assert said.splitlines()[1].split() == ["o-0", "dashed"]


def test_every_view(ask: Ask) -> None:
    topics = objects(ask("SELECT topic, queues, messages FROM topics ORDER BY topic", as_json=True))
    assert topics == [
        {"topic": "%DLQ%billing", "queues": 1, "messages": 1},
        {"topic": "my-topic", "queues": 1, "messages": 1},
        {"topic": "orders", "queues": 2, "messages": 300},
    ]
    (one,) = objects(
        ask(
            "SELECT (SELECT sum(messages) FROM queues) q, (SELECT count(*) FROM segments) s,"
            " (SELECT count(*) FROM `groups`) g, (SELECT first(reason) FROM dlq) d, (SELECT count(1) FROM messages) m",
            as_json=True,
        )
    )
    assert (one["q"], one["s"] > 0, one["g"], one["d"], one["m"]) == (302, True, 0, "max_retry", 302)


def test_json_and_limit(ask: Ask) -> None:
    said = ask(
        "SELECT body, store_timestamp, properties, all_keys, topic, topic FROM orders ORDER BY physical_offset",
        as_json=True,
    )
    rows = objects(said)
    assert len(rows) == 100
    assert said.splitlines()[-1] == (
        "litemq: warning: there are more than these 100 rows: --limit N shows more, --output FILE writes all"
    )
    assert rows[0] == {
        "body": "0 apples",
        "store_timestamp": "2023-11-14T22:13:20.000Z",
        "properties": {"n": "1"} | rows[0]["properties"],
        "all_keys": ["o-0"],
        "topic": "orders",
        "topic_2": "orders",
    }
    assert rows[7]["body"] == {"base64": "/wA="}
    assert len(ask("SELECT keys FROM orders LIMIT 3", limit=2).splitlines()) == 4
    assert len(ask("SELECT keys FROM orders LIMIT 2", limit=2).splitlines()) == 3


def test_only_columns_that_are_named_are_read(ask: Ask, spark: Any, store: Path, monkeypatch: Any) -> None:  # noqa: ANN401
    plan = ask("EXPLAIN EXTENDED SELECT tags FROM orders WHERE keys = 'o-1'")
    assert "== Physical Plan ==" in plan
    assert "all_keys" not in plan
    assert "body" not in plan
    assert "body" in ask("EXPLAIN EXTENDED SELECT * FROM orders")


def test_a_dry_run(ask: Ask, store: Path) -> None:
    said = ask("SELECT tags FROM orders", dry_run=True)
    assert said.splitlines()[0] == f"reads orders of {store}: tags"
    assert said.splitlines()[2].split() == ["tags", "string"]
    (told,) = objects(ask("SELECT count(*) AS n FROM queues", dry_run=True, as_json=True))
    assert told == {
        "source": str(store),
        "reads": [{"table": "queues", "columns": None}],
        "columns": [{"name": "n", "type": "bigint"}],
    }


def test_files(ask: Ask, tmp_path: Path) -> None:
    text = "SELECT keys, body, store_timestamp, properties FROM orders ORDER BY queue_id DESC, queue_offset"
    for name in ("o.parquet", "o.jsonl", "o.json", "o.csv"):
        (tmp_path / name).write_text("old")
        assert ask(text, out=tmp_path / name).startswith(f"{tmp_path / name}: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.csv", "o.json", "o.jsonl", "o.parquet"]
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [row["keys"] for row in rows] == [f"o-{n}" for n in (*range(1, 300, 2), *range(0, 300, 2))]
    assert rows[3]["body"] == {"base64": "/wA="}
    assert rows[0]["store_timestamp"] == "2023-11-14T22:13:20.001Z" or rows[0]["store_timestamp"].endswith("Z")
    assert rows[0]["properties"]["n"] == "1"
    assert json.loads((tmp_path / "o.json").read_text()) == rows
    table = list(csv.reader((tmp_path / "o.csv").open()))
    assert table[0] == ["keys", "body", "store_timestamp", "properties"]
    assert [row[:3] for row in table[1:3]] == [[row["keys"], row["body"], row["store_timestamp"]] for row in rows[:2]]
    kept = pq.read_table(tmp_path / "o.parquet")
    assert kept.column("keys").to_pylist() == [row["keys"] for row in rows]
    assert kept.column("body")[3].as_py() == b"\xff\x00"
    ask("SELECT keys FROM orders WHERE keys = 'none'", out=tmp_path / "none.json")
    assert json.loads((tmp_path / "none.json").read_text()) == []
    ask("SELECT keys FROM orders", out=tmp_path / "two.csv", limit=2)
    assert len((tmp_path / "two.csv").read_text().splitlines()) == 3


def test_a_file_is_whole_or_not_there(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text("old")
    with pytest.raises(Exception, match="no such order"):
        ask("SELECT if(queue_offset = 140, raise_error('no such order'), keys) FROM orders", out=tmp_path / "o.csv")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("o.csv", "old")]


def test_since_until_and_topic(ask: Ask, store: Path) -> None:
    text = "SELECT count(*) AS n FROM messages"
    (all_,) = objects(ask(text, Source(str(store), "", {"subscribe": "my-topic"}), as_json=True))
    assert all_ == {"n": 1}
    late = Source(str(store), "", {"startingTimestamp": "2100-01-01"})
    assert objects(ask(text, late, as_json=True)) == [{"n": 0}]
    dead = Source(str(store), "", {"subscribe": "my-topic"})
    assert objects(ask("SELECT count(*) AS n FROM dlq", dead, as_json=True)) == [{"n": 0}]
    dead = Source(str(store), "", {"subscribe": "orders"})
    assert objects(ask("SELECT count(*) AS n FROM dlq", dead, as_json=True)) == [{"n": 1}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "SELECT * FROM order",
            "there is no table 'order'; tables are: messages, queues, segments, .*`my-topic`, orders",
        ),
        ("SELECT * FORM orders", r"Syntax error at or near 'orders'.* \(line 1, column 15\)$"),
        ("SELECT\n tgas FROM orders", r"`tgas` cannot be resolved.*`tags`.*\(line 2, column 2\)$"),
        ("SELECT my-topic.body FROM my-topic", r"back quoted as: `my-topic`\. \(line 1, column 29\)$"),
        ("EXPLAIN FORMATTED SELECT nothing FROM orders", "`nothing` cannot be resolved"),
    ],
)
def test_wrong_sql(ask: Ask, text: str, said: str) -> None:
    with pytest.raises(BadQuery, match=said) as caught:
        ask(text)
    assert "\n" not in str(caught.value)
    assert "'Project" not in str(caught.value)


def test_show_and_describe(ask: Ask) -> None:
    assert "`my-topic`" in ask("SHOW TABLES") or "my-topic" in ask("SHOW TABLES")
    assert ["body", "binary", "-"] in [line.split() for line in ask("DESCRIBE `my-topic`").splitlines()]


def test_a_cluster(ask: Ask, tmp_path: Path) -> None:
    with broker() as cluster, litemq.Admin(cluster.nameservers) as admin:
        admin.create_topic("orders", queues=1)
        with litemq.Producer(cluster.nameservers) as producer:
            producer.send("orders", b"17 apples", keys="o-17")
        live = Source("", cluster.nameservers)
        assert objects(ask("SELECT keys, body FROM orders", live, as_json=True)) == [
            {"keys": "o-17", "body": "17 apples"}
        ]
        assert [one["topic"] for one in objects(ask("SELECT topic FROM topics", live, as_json=True))] == ["orders"]
        with pytest.raises(BadQuery, match=r"no table .segments.; tables are: .* topics, orders$"):
            ask("SELECT * FROM segments", live)


def test_the_command(store: Path, tmp_path: Path) -> None:
    query = tmp_path / "q.sql"
    query.write_text("SELECT count(*) AS n -- all\nFROM orders;\n")
    command = [sys.executable, "-m", "litemq", "sql", "--path", str(store), "--file", str(query), "--json"]
    conf = ["--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"]
    done = subprocess.run([*command, *conf], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, '{"n": 300}\n'), done.stderr


@pytest.fixture(autouse=True)
def _no_views_are_left(spark: Any) -> Iterator[None]:  # noqa: ANN401
    before = spark.catalog.listTables()
    yield
    assert spark.catalog.listTables() == before
