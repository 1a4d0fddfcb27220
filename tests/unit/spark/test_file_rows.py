"""Rows into files and back: what an export writes, an import makes the same message of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litemq.spark.jobs.export_rows import Body, Form, HashedFile, rows_into
from litemq.spark.jobs.import_files import Wish, batches_of, names_in, parts_in, survey
from litemq.spark.jobs.import_rows import MAX_BODY, BadRow, Columns, Parts, columns_of

pa = pytest.importorskip("pyarrow")

TEXT = pa.string()
EXPORTED = pa.schema(
    [
        ("topic", TEXT),
        ("queue_offset", pa.int64()),
        ("keys", TEXT),
        ("tags", TEXT),
        ("body", pa.binary()),
        ("properties", pa.map_(TEXT, TEXT)),
        ("born_timestamp", pa.timestamp("us", tz="UTC")),
        ("all_keys", pa.list_(TEXT)),
        ("sharding_key", TEXT),
    ]
)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\1\2"), min_size=1, max_size=12)
odd = st.sampled_from(
    ['"', '""', "a,b", "\r", "\n", "x\r\ny", "é", "\x00", "\ufeff", " ", "'", "\u2028", "[", "{}", "null"]
)
words = st.one_of(texts, odd).filter(lambda text: not any(one.isspace() for one in text))
tag_words = words.filter(lambda text: text != "*" and "|" not in text)
names = st.one_of(texts, odd).map(lambda name: "p" + name)
messages = st.builds(
    Parts,
    body=st.one_of(st.binary(max_size=40), odd.map(str.encode)),
    keys=st.one_of(st.none(), st.lists(words, min_size=1, max_size=3).map(" ".join)),
    tags=st.one_of(st.none(), tag_words),
    properties=st.dictionaries(names, st.one_of(texts, odd), max_size=3),
    sharding_key=st.one_of(st.none(), texts, odd),
)


def exported(some: list[Parts], form: Form, body: Body, path: Path) -> None:
    columns = {
        "topic": ["orders"] * len(some),
        "queue_offset": list(range(len(some))),
        "keys": [None if one.keys is None else one.keys.split(" ")[0] for one in some],
        "tags": [one.tags for one in some],
        "body": [one.body for one in some],
        "properties": [[("WAIT", "true"), *one.properties.items()] for one in some],
        "born_timestamp": [1_700_000_000_123_000] * len(some),
        "all_keys": [[] if one.keys is None else one.keys.split(" ") for one in some],
        "sharding_key": [one.sharding_key for one in some],
    }
    arrays = [pa.array(columns[field.name], field.type) for field in EXPORTED]
    with path.open("wb") as file:
        hashed = HashedFile(file)
        rows = rows_into(hashed, form, EXPORTED, body)
        rows.write(pa.RecordBatch.from_arrays(arrays, schema=EXPORTED))
        rows.close()
    assert hashed.size == path.stat().st_size


def imported(path: Path, form: Form, piece_rows: int = 3) -> list[Parts]:
    wish = Wish(form, (), "error", MAX_BODY, piece_rows)
    found = survey(str(path), wish)
    assert (found.problem, found.first_bad) == ("", "")
    return [one for piece in found.pieces for one in parts_in(piece, found.columns, wish)]


@pytest.mark.parametrize("form", ["parquet", "jsonl", "csv"])
@given(some=st.lists(messages, min_size=1, max_size=8))
@settings(deadline=None)
def test_what_is_exported_is_imported_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, form: Form, some: list[Parts]
) -> None:
    path = tmp_path_factory.mktemp("rows") / f"x.{form}"
    exported(some, form, "base64", path)
    assert imported(path, form) == some


@pytest.mark.parametrize("form", ["jsonl", "csv"])
@given(bodies=st.lists(st.one_of(texts, odd, st.just("")), min_size=1, max_size=5))
@settings(deadline=None)
def test_texts_as_bodies(tmp_path_factory: pytest.TempPathFactory, form: Form, bodies: list[str]) -> None:
    path = tmp_path_factory.mktemp("rows") / f"x.{form}"
    some = [Parts(body.encode(), None, None, {}, None) for body in bodies]
    exported(some, form, "text", path)
    assert imported(path, form) == some


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_bodies_of_json_keep_what_they_say(tmp_path: Path, form: Form) -> None:
    path = tmp_path / f"x.{form}"
    exported([Parts(b'{"a": [1, null, "\xc3\xa9"]}', None, None, {}, None)], form, "json", path)
    [one] = imported(path, form)
    assert json.loads(one.body) == {"a": [1, None, "é"]}


@pytest.mark.parametrize(("body", "told"), [("text", "no UTF-8; export with --body base64"), ("json", "is no JSON")])
def test_bodies_that_do_not_fit_say_what_to_choose(tmp_path: Path, body: Body, told: str) -> None:
    with pytest.raises(Exception, match=told):
        exported([Parts(b"\xff\xfe", None, None, {}, None)], "jsonl", body, tmp_path / "x.jsonl")


def test_an_export_says_how_its_bodies_are_written(tmp_path: Path) -> None:
    some = [Parts(b"17", "a b", "t", {"p": "v"}, None)]
    exported(some, "jsonl", "base64", tmp_path / "x.jsonl")
    assert json.loads((tmp_path / "x.jsonl").read_text()) == {
        "topic": "orders",
        "queue_offset": 0,
        "keys": "a",
        "tags": "t",
        "body_base64": "MTc=",
        "properties": {"WAIT": "true", "p": "v"},
        "born_timestamp": "2023-11-14T22:13:20.123000Z",
        "all_keys": ["a", "b"],
        "sharding_key": None,
    }
    exported(some, "csv", "text", tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_bytes() == (
        b"topic,queue_offset,keys,tags,body,properties,born_timestamp,all_keys,sharding_key\r\n"
        b'orders,0,a,t,17,"{""WAIT"":""true"",""p"":""v""}",2023-11-14T22:13:20.123000Z,"[""a"",""b""]",\r\n'
    )


def test_foreign_rows() -> None:
    columns = columns_of(["payload", "id", "region", "Zeit"], {"body": "payload", "keys": "id"}, "properties")
    row = {"payload": {"n": 1}, "id": 17, "region": "eu", "Zeit": None}
    assert columns.parts_of(row, 100) == Parts(b'{"n":1}', "17", None, {"region": "eu"}, None)
    columns = columns_of(["value", "key", "headers"], {}, "error")
    row = {"value": "x", "key": b"k", "headers": [{"key": "a", "value": b"b"}]}
    assert columns.parts_of(row, 100) == Parts(b"x", "k", None, {"a": "b"}, None)


@pytest.mark.parametrize(
    ("there", "renames", "told"),
    [
        (["text"], {}, "no column body or value among: text"),
        (["body", "colour"], {}, "colour are no part of a message"),
        (["body"], {"tagz": "body"}, "did you mean tags"),
        (["body"], {"keys": "id"}, "there is no such column; there are: body"),
        (["body", "value"], {}, "would both be the body"),
        ([], {}, "among: no columns"),
    ],
)
def test_columns_that_do_not_fit_are_named(there: list[str], renames: dict[str, str], told: str) -> None:
    with pytest.raises(Exception, match=told):
        columns_of(there, renames, "error")


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"body": None}, "it has no body"),
        ({"body_base64": "***"}, "body_base64: it is no base64"),
        ({"body": "x" * 101}, "at most 100 fit"),
        ({"body": "x", "tags": "a|b"}, "cannot be asked for"),
        ({"body": "x", "properties": "[1"}, "properties: it is no JSON"),
        ({"body": "x", "properties": 7}, "an object of names and texts"),
        ({"body": "x", "properties": {"a": "\1"}}, "the characters 1 and 2"),
        ({"body": "x", "properties": {"a": "b" * 40_000}}, "at most 31000 fit"),
        ({"body": "x", "colour": "red"}, "colour is no part of a message"),
    ],
)
def test_rows_that_cannot_be_messages_say_why(row: dict[str, object], told: str) -> None:
    columns: Columns = columns_of([name for name in row if name != "colour"], {}, "error")
    with pytest.raises(BadRow, match=told):
        columns.parts_of(row, 100)


def test_bad_rows_are_counted_where_they_are_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"body": "a"}\n\nnonsense\n{"body": "b"}\n[1]\n{"body": "\xff"}\n{"body": "c"}')
    wish = Wish("jsonl", (), "error", MAX_BODY, 2, str(tmp_path))
    found = survey(str(path), wish)
    assert (found.rows, found.bad) == (6, 3)
    assert found.first_bad.startswith(f"{path} at byte 15: the line is no JSON")
    parts = [one.body for piece in found.pieces for one in parts_in(piece, found.columns, wish)]
    assert parts == [b"a", b"b", b"c"]
    [kept] = tmp_path.glob("*.bad.jsonl")
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [line.get("row") for line in lines] == ["nonsense", "[1]", None]
    assert lines[2]["row_base64"]


def test_csv_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(b'\xef\xbb\xbfbody,tags\na,t\n"b\nc",\n1,2,3\n"x"y,t\n\n\xff,t\nlast,t')
    wish = Wish("csv", (), "error", MAX_BODY)
    found = survey(str(path), wish)
    assert names_in(str(path), "csv") == ["body", "tags"]
    assert (found.rows, found.bad) == (6, 3)
    assert "the line has 3 fields" in found.first_bad
    [piece] = found.pieces
    assert [(one.body, one.tags) for one in parts_in(piece, found.columns, wish)] == [
        (b"a", "t"),
        (b"b\nc", None),
        (b"last", "t"),
    ]


@pytest.mark.parametrize(("name", "told"), [("x.csv", "no line of names"), ("x.parquet", "no Parquet file")])
def test_files_that_are_something_else(tmp_path: Path, name: str, told: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"")
    form: Form = "csv" if name.endswith("csv") else "parquet"
    assert told in survey(str(path), Wish(form, (), "error", MAX_BODY)).problem


def test_batches_are_small() -> None:
    big = [Parts(bytes(3 << 20), None, None, {}, None)] * 5
    assert [batch.num_rows for batch in batches_of(iter(big))] == [2, 2, 1]
