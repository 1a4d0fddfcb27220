"""Records that were picked out of a log are scanned as in their place."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from litemq._plain import load_plain
from litemq.config import StoreConfig
from litemq.format import _scan_cy, rows
from litemq.format.record import FORMATS, decode_row
from litemq.store.message_store import MessageStore
from litemq.types import Message, Record


def _stored(folder: Path, name: Literal["litemq", "rocketmq"]) -> tuple[list[Record], list[bytes]]:
    with MessageStore.open(folder, StoreConfig(format=name), background=False) as store:
        for number in range(30):
            store.append(Message("T", b"x" * number, keys=(f"k{number}",), tags=("t",), properties={"a": "b"}))
        records = [record for record in store.reader.walk(store.start) if record.topic == "T"]
        raw = [store.reader.record_bytes(record.position, as_rocketmq=False) or b"" for record in records]
    return records, raw


@pytest.mark.parametrize("name", ["litemq", "rocketmq"])
@pytest.mark.parametrize("kernel", [_scan_cy, load_plain("litemq.format._scan_cy")], ids=["compiled", "plain"])
def test_any_choice_of_records(name: Literal["litemq", "rocketmq"], kernel: object, tmp_path: Path) -> None:
    records, raw = _stored(tmp_path, name)
    fmt = FORMATS[name]

    @settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.sets(st.integers(0, 29), min_size=1), st.integers(1, 40))
    def check(chosen: set[int], room: int) -> None:
        data = b"".join(raw[number] for number in sorted(chosen))
        at, found = 0, []
        while at < len(data):
            table = rows.table(room)
            count, at, why = kernel.scan_apart(fmt.code, data, at, len(data), table)  # type: ignore[attr-defined]
            assert why in (rows.ROOM, rows.END)
            found += [decode_row(fmt, memoryview(data), table, row, "") for row in range(count)]
        assert [(one.position, one.queue_offset, one.body, one.keys, one.check) for one in found] == [
            (one.position, one.queue_offset, one.body, one.keys, one.check)
            for number, one in enumerate(records)
            if number in chosen
        ]

    check()


@pytest.mark.parametrize("name", ["litemq", "rocketmq"])
def test_damage_is_named_and_not_read(name: Literal["litemq", "rocketmq"], tmp_path: Path) -> None:
    _, raw = _stored(tmp_path, name)
    data = bytearray(raw[3] + raw[9])
    data[len(raw[3]) + 95] ^= 1
    table = rows.table(4)
    count, at, why = _scan_cy.scan_apart(FORMATS[name].code, data, 0, len(data), table)
    assert (count, at) == (1, len(raw[3]))
    assert why >= rows.DAMAGE
    for end in (1, 5, len(raw[3]) - 1):
        assert _scan_cy.scan_apart(FORMATS[name].code, raw[3], 0, end, table)[:2] == (0, 0)
    assert _scan_cy.scan_apart(FORMATS[name].code, bytes(200), 0, 200, table)[0] == 0
