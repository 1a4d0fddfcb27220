"""Columns against records: the compiled kernel, its plain twin and ``values_of`` say the same of every record."""

from __future__ import annotations

import itertools
import struct
from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.format.strategies import any_text, messages, placements

from litemq.errors import RecordTooLarge
from litemq.format import _columns_py, columns, rows
from litemq.format._scan_cy import scan
from litemq.format.placement import Placement
from litemq.format.record import FORMATS, Format, decode_row
from litemq.types import LogPosition, Message

NAMES = list(columns.KINDS)
FAR = (1 << 63) - 1


def log_of(fmt: Format, written: Sequence[Message], places: Sequence[Placement]) -> tuple[bytes, array[int], int]:
    """Write the records behind each other; return them with their rows."""
    data = b""
    for message, place in zip(written, places, strict=True):
        try:
            data += fmt.write(message, replace(place, position=LogPosition(len(data))))
        except RecordTooLarge:
            continue
    table = rows.table(max(1, len(written)))
    count, _, _ = scan(fmt.code, data or b"\0", 0, len(data), 0, table)
    return data, table, count


def decoded(buffers: dict[str, tuple[Any, ...]], count: int) -> dict[str, list[object]]:
    """Read the buffers as Arrow would."""
    found: dict[str, list[object]] = {}
    for name, parts in buffers.items():
        kind = columns.KINDS[name]
        if kind in ("int", "long", "time"):
            values: list[object] = list(struct.unpack(f"<{count}{'i' if kind == 'int' else 'q'}", parts[1]))
            found[name] = nulled(values, parts[0])
        elif kind == "texts":
            every = slices(parts[1], parts[2])
            found[name] = [[text.decode() for text in every[low:high]] for low, high in spans(parts[0])]
        elif kind == "map":
            keys, items = slices(parts[1], parts[2]), slices(parts[3], parts[4])
            found[name] = [
                [(keys[at].decode(), items[at].decode()) for at in range(low, high)] for low, high in spans(parts[0])
            ]
        else:
            texts: list[object] = [data if kind == "binary" else data.decode() for data in slices(parts[1], parts[2])]
            found[name] = nulled(texts, parts[0])
    return found


def spans(offsets: bytes) -> list[tuple[int, int]]:
    ends = struct.unpack(f"<{len(offsets) // 4}i", offsets)
    return list(itertools.pairwise(ends))


def slices(offsets: bytes, data: bytes) -> list[bytes]:
    return [bytes(data[low:high]) for low, high in spans(offsets)]


def nulled(values: list[object], bits: bytes | None) -> list[object]:
    if bits is None:
        return values
    return [value if bits[at >> 3] >> (at & 7) & 1 else None for at, value in enumerate(values)]


def expected(fmt: Format, data: bytes, table: array[int], count: int) -> dict[str, list[object]]:
    records = [columns.values_of(decode_row(fmt, memoryview(data), table, row, "")) for row in range(count)]
    found: dict[str, list[object]] = {}
    for index, (name, kind) in enumerate(columns.KINDS.items()):
        values: list[Any] = [values[index] for values in records]
        if kind == "texts":
            values = [list(value) for value in values]
        elif kind == "map":
            values = [list(value.items()) for value in values]
        found[name] = values
    return found


some_messages = st.lists(messages() | messages(texts=any_text), max_size=12)


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=list(FORMATS))
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_both_builds_say_what_records_say(fmt: Format, data: st.DataObject) -> None:
    written = data.draw(some_messages)
    places = data.draw(st.lists(placements, min_size=len(written), max_size=len(written)))
    log, table, count = log_of(fmt, written, places)
    if not count:
        return
    want = expected(fmt, log, table, count)
    picked = array("q", range(count))
    for build in (columns.Columns, _columns_py.Columns):
        made = build(fmt.code, NAMES)
        assert made.add(memoryview(log), table, picked, 0, count, 1000, 1 << 30) == count
        assert made.rows == count
        assert decoded(made.finish(), count) == want
        # … and begun anew, with fewer columns
        made = build(fmt.code, ["tags", "body", "properties"])
        made.add(memoryview(log), table, picked, 0, count, 1000, 1 << 30)
        assert decoded(made.finish(), count) == {name: want[name] for name in ("tags", "body", "properties")}
        assert made.rows == 0


PLAIN = {
    "properties": {"CLUSTER": "c", "MSG_REGION": "r", "TRACE_ON": "true", "a": "b"},
    "tags": ("TagA",),
    "keys": ("k1", "k2"),
    "born_host": "10.0.0.1:50000",
    "born_time": 1_700_000_000_000,
}


@pytest.mark.skipif(not columns.is_compiled(), reason="the plain twin makes a record of every row")
@pytest.mark.parametrize("fmt", FORMATS.values(), ids=list(FORMATS))
def test_ordinary_records_are_not_odd(fmt: Format) -> None:
    written = [
        Message("orders", b"x", message_id=f"{number:032}", sharding_key="s", type=4, **PLAIN)  # type: ignore[arg-type]
        for number in range(20)
    ]
    places = [Placement(LogPosition(0), number, 1_700_000_000_000, "10.0.0.9:10911") for number in range(20)]  # type: ignore[arg-type]
    log, table, count = log_of(fmt, written, places)
    made = columns.Columns(fmt.code, NAMES)
    made.add(memoryview(log), table, array("q", range(count)), 0, count, 1000, 1 << 30)
    assert (count, made.rows, made.odd) == (20, 20, 0)


@pytest.mark.parametrize("build", [columns.Columns, _columns_py.Columns], ids=["chosen", "plain"])
def test_a_batch_ends_at_its_limits(build: type[_columns_py.Columns]) -> None:
    fmt = FORMATS["litemq"]
    written = [Message("t", bytes(100)) for _ in range(10)]
    places = [Placement(LogPosition(0), number, 0, "1.2.3.4:5") for number in range(10)]  # type: ignore[arg-type]
    log, table, count = log_of(fmt, written, places)
    picked = array("q", range(count))
    size = len(log) // 10
    made = build(fmt.code, ["body"])
    assert made.add(memoryview(log), table, picked, 0, count, 4, 1 << 30) == 4
    assert made.add(memoryview(log), table, picked, 4, count, 4, 1 << 30) == 4
    made.finish()
    assert made.add(memoryview(log), table, picked, 4, count, 100, 2 * size) == 6
    made.finish()
    assert made.add(memoryview(log), table, picked, 6, count, 100, 1) == 7


@pytest.mark.parametrize("chooser", [columns.pick, _columns_py.pick], ids=["chosen", "plain"])
def test_pick(chooser: Any) -> None:  # noqa: ANN401 - either build's function
    fmt = FORMATS["litemq"]
    written = [Message("a" if number % 2 else "b", b"", queue_id=number % 3, status=number % 4) for number in range(24)]
    places = [Placement(LogPosition(0), number, 1000 + number, "1.2.3.4:5") for number in range(24)]  # type: ignore[arg-type]
    log, table, count = log_of(fmt, written, places)
    picked = array("q", bytes(8 * 24))

    def chosen(
        *, end: int = FAR, choose: object = None, placed: bool = True, low: int = -FAR, high: int = FAR
    ) -> list[int]:
        found = chooser(memoryview(log), table, 0, count, end, choose, {}, placed, low, high, picked)
        return list(picked[:found])

    assert chosen(placed=False) == list(range(24))
    assert chosen() == [row for row in range(24) if row % 4 in (0, 2)]
    assert chosen(placed=False, low=1003, high=1007) == [3, 4, 5, 6]
    assert chosen(placed=False, end=table[5 * rows.WIDTH + rows.POSITION]) == [0, 1, 2, 3, 4]
    asked: list[tuple[bytes, int]] = []

    def choose(topic: bytes, queue_id: int) -> tuple[int, int, int] | None:
        asked.append((topic, queue_id))
        return (4, 20, table[6 * rows.WIDTH + rows.POSITION]) if topic == b"b" else None

    assert chosen(choose=choose) == [row for row in range(6, 20) if row % 2 == 0]
    assert len(asked) == len(set(asked))  # each queue is asked about once
