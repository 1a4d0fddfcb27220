"""Positions in ``__ORIGIN``: translated, or given up where nothing is left that they could name."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.store.convert_support import SMALL, is_sound, records

from litemq.format.names import ORIGIN
from litemq.format.placement import Placement
from litemq.format.record import FORMATS
from litemq.store import convert_origin
from litemq.store.convert import convert
from litemq.types import LogPosition, Message, QueueOffset

START = 1 << 20
"""Where the source's log starts: retention took what was before."""


def write_log(folder: Path, origins: list[str | int | None], fmt: str = "litemq") -> list[int]:
    """Write one record for each origin (a number below 100: that of an earlier record); return their positions."""
    folder.mkdir(parents=True)
    data = b""
    positions: list[int] = []
    for number, origin in enumerate(origins):
        text = str(positions[origin]) if isinstance(origin, int) and origin < 100 else origin
        message = Message("t", b"%d" % number, properties={} if text is None else {ORIGIN: str(text)})
        positions.append(START + len(data))
        data += FORMATS[fmt].write(message, Placement(LogPosition(positions[-1]), QueueOffset(number), 5))
    (folder / f"{START:020d}").write_bytes(data)
    return positions


def origins_of(path: Path) -> list[int | str | None]:
    """Return each record's origin: the number of the record that it names, or the text when it names none."""
    found = records(path)
    numbers = {str(record.position): number for number, record in enumerate(found)}
    texts = [record.properties.get(ORIGIN) for record in found]
    return [None if text is None else numbers.get(text, text) for text in texts]


@pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])
@pytest.mark.parametrize("to", ["litemq", "rocketmq"])
def test_origins_follow_their_records(fmt: str, to: str, tmp_path: Path) -> None:
    write_log(tmp_path / "log", [None, None, 0, 1, 0, None], fmt)
    report = convert(tmp_path / "log", tmp_path / "target", to=to, **SMALL)
    assert origins_of(tmp_path / "target") == [None, None, 0, 1, 0, None]
    assert report.dropped == {}
    assert is_sound(tmp_path / "target")


def test_the_first_copy_of_what_is_gone_becomes_the_origin(tmp_path: Path) -> None:
    write_log(tmp_path / "log", [None, 500, 700, None, 500, 700, 500])
    report = convert(tmp_path / "log", tmp_path / "target", to="rocketmq", **SMALL)
    assert origins_of(tmp_path / "target") == [None, None, None, None, 1, 2, 1]
    assert report.dropped == {}


def test_what_no_broker_writes_stays(tmp_path: Path) -> None:
    odd: list[str | int | None] = ["x", "-1", "9" * 19, str(START * 9), "٣"]
    write_log(tmp_path / "log", odd)
    convert(tmp_path / "log", tmp_path / "target", to="litemq", **SMALL)
    assert origins_of(tmp_path / "target") == odd


def test_other_formats_know_no_origins(tmp_path: Path) -> None:
    positions = write_log(tmp_path / "log", [None, 0])
    convert(tmp_path / "log", tmp_path / "target", to="blueprint", **SMALL)
    assert origins_of(tmp_path / "target") == [None, str(positions[0])]


def test_many_records_go_through_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert_origin, "_MOST_WAITING", 4)
    wanted: list[str | int | None] = [None, None, 0, None, 1, None, 3, 2, None, 0, 9, 8, 4, None, 13]
    write_log(tmp_path / "log", wanted)
    convert(tmp_path / "log", tmp_path / "target", to="rocketmq", **SMALL)
    assert origins_of(tmp_path / "target") == wanted
    assert sorted(path.name for path in (tmp_path / "target").iterdir()) == [
        *("checkpoint", "commitlog", "config", "consumequeue", "index")
    ]
