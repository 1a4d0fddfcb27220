"""Values of a query as JSON and CSV."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest

from litemq.spark.errors import BadOption
from litemq.spark.sql_output import check_output, csv_line, json_line, plain, unique_names


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, None),
        (True, True),
        (2**60, 2**60),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (b"17 \xc3\xa4pfel", "17 äpfel"),
        (b"\xff\x00", {"base64": "/wA="}),
        (bytearray(b"x"), "x"),
        (datetime(2026, 1, 2, 3, 4, 5, 6000, UTC), "2026-01-02T03:04:05.006Z"),
        (datetime(2026, 1, 2, 3, 4, 5, 7, timezone(timedelta(hours=2))), "2026-01-02T01:04:05.000007Z"),
        (datetime(2026, 1, 2), "2026-01-02T00:00:00.000"),  # noqa: DTZ001 - a time without a zone stays one
        (date(2026, 1, 2), "2026-01-02"),
        (Decimal("1.10"), "1.10"),
        ({"a": b"\xff", 3: None}, {"a": {"base64": "/w=="}, "3": None}),
        ([1, [b"a"]], [1, ["a"]]),
    ],
)
def test_plain(value: object, said: object) -> None:
    assert plain(value) == said


def test_lines() -> None:
    names = unique_names(["topic", "n", "topic", "topic_2"])
    assert names == ["topic", "n", "topic_2", "topic_2_2"]
    row = ['a"b', 3, None, {"k": [True]}]
    assert json_line(names, row) == '{"topic": "a\\"b", "n": 3, "topic_2": null, "topic_2_2": {"k": [true]}}'
    assert csv_line(names, row) == '"a""b",3,,"{""k"": [true]}"'
    assert csv_line([], ["two\nlines", True]) == '"two\nlines",true'


def test_files_that_cannot_be(tmp_path: Path) -> None:
    check_output(tmp_path / "x.CSV")
    with pytest.raises(BadOption, match=r"says no format; call the file \.parquet"):
        check_output(tmp_path / "x.txt")
    with pytest.raises(BadOption, match="no such directory"):
        check_output(tmp_path / "a" / "x.csv")
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(BadOption, match="it is a directory"):
        check_output(tmp_path / "d.csv")
