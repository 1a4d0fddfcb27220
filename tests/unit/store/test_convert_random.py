"""Conversions of made-up logs: what is lost is what a comparison of the record objects finds, and nothing else."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.format import strategies as make
from tests.unit.store.convert_support import LAZY, NAMES, SMALL, content, contents, is_sound, lost, records

from litemq.format import limits, names
from litemq.format.placement import Placement
from litemq.format.record import FORMATS
from litemq.store.convert import convert
from litemq.types import LogPosition, Message, QueueOffset

RESERVED = sorted(make.TAKEN | {"__ORIGIN"})
VALUES = ["1", "0", "-5", "order", "prepared", "[]", '["a","b"]', "x y", "10.0.0.1:5", "99999999999999999999", "ü"]


@st.composite
def odd_messages(draw: st.DrawFn) -> Message:
    """Return a message as a broker would hardly write it: empty texts, reserved names, long topics."""
    message = draw(make.messages(texts=make.any_text))
    properties = draw(st.dictionaries(st.sampled_from(RESERVED) | make.any_text, st.sampled_from(VALUES), max_size=4))
    topic = draw(
        st.just(message.topic) | st.sampled_from(["t" * 127, "t" * 128, "ü" * 127, "a", "commitlog", "config"])
    )
    return Message(
        topic,
        message.body,
        **{
            name: getattr(message, name)
            for name in Message.__slots__
            if name not in ("topic", "body", "properties", "queue_id")
        },
        properties={**message.properties, **properties},
        queue_id=draw(st.integers(0, 3)),
    )


@st.composite
def logs(
    draw: st.DrawFn, messages: st.SearchStrategy[Message], hosts: st.SearchStrategy[str] = make.hosts
) -> tuple[str, list[tuple[Message, Placement]]]:
    """Return a format, and messages for it with their places but for positions."""
    name = draw(st.sampled_from(NAMES))
    found = draw(st.lists(messages, min_size=1, max_size=12))
    offsets: dict[tuple[str, int], int] = {}
    placed = []
    for message in found:
        if name == "tmq" and message.sys_flag is not None and message.sys_flag & 1:
            continue  # bodies of that format are plain
        if limits.check_fits(message, name) is not None:
            continue
        queue = (message.topic, message.queue_id)
        offset = offsets.get(queue, draw(st.sampled_from([0, 0, 7, 99, 250])))
        offsets[queue] = offset + 1 + draw(st.sampled_from([0, 0, 0, 2, 300]))
        placed.append((message, Placement(LogPosition(0), QueueOffset(offset), draw(make.times), draw(hosts))))
    return name, placed


def write(root: Path, name: str, placed: list[tuple[Message, Placement]]) -> Path:
    """Write the log; a tmq tree has one for each queue."""
    ends: dict[Path, int] = {}
    for message, place in placed:
        folder = root / "log"
        if name == "tmq":
            folder = root / "tree" / message.topic / str(message.queue_id)
        folder.mkdir(parents=True, exist_ok=True)
        position = ends.get(folder, 0)
        at = Placement(LogPosition(position), place.queue_offset, place.store_time, place.store_host)
        data = FORMATS[name].write(message, at)
        with (folder / f"{0:020d}").open("ab") as file:
            file.write(data)
        ends[folder] = position + len(data)
    return root / ("tree" if name == "tmq" else "log")


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(logs(odd_messages()), st.sampled_from(NAMES))
def test_what_is_lost_is_told(log: tuple[str, list[tuple[Message, Placement]]], to: str) -> None:
    name, placed = log
    if not placed:
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        source = write(root, name, placed)
        origins = {"litemq", "rocketmq"} >= {name, to}
        before = [without_origin(record) if origins else record for record in contents(source, name)]
        report = convert(source, root / "target", to=to, from_format=name, fs=LAZY, **SMALL)
        assert report.rejected == []
        after = [without_origin(record) if origins else record for record in contents(root / "target", to)]
        assert report.dropped == lost(before, after)
        assert is_sound(root / "target", to)


def without_origin(record: dict[str, object]) -> dict[str, object]:
    """Return the record without ``__ORIGIN``: it names a position, which is another one in the new log."""
    properties = record["properties"]
    assert isinstance(properties, dict)
    return {**record, "properties": {key: value for key, value in properties.items() if key != names.ORIGIN}}


# RocketMQ's text cannot hold an empty one: no host at all becomes 0.0.0.0:0, or [::]:0 where the sys flag wants that.
sound_messages = make.messages().filter(
    lambda message: names.ORIGIN not in message.properties and message.born_host != ""
)
sound_hosts = make.hosts.filter(bool)


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(logs(sound_messages, sound_hosts), st.sampled_from(["litemq", "rocketmq"]))
def test_litemq_and_rocketmq_hold_what_the_other_holds(
    log: tuple[str, list[tuple[Message, Placement]]], first: str
) -> None:
    _, placed = log
    if not placed:
        return
    second = "rocketmq" if first == "litemq" else "litemq"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        convert(write(root, "litemq", placed), root / "one", to=first, fs=LAZY, **SMALL)
        assert convert(root / "one", root / "two", to=second, fs=LAZY, **SMALL).dropped == {}
        assert convert(root / "two", root / "three", to=first, fs=LAZY, **SMALL).dropped == {}
        one, three = records(root / "one"), records(root / "three")
        for before, after in zip(one, three, strict=True):
            assert content(after) == content(before)


@pytest.mark.parametrize("to", ["litemq", "rocketmq", "blueprint"])
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(offsets=st.lists(st.integers(0, 700) | st.sampled_from([0, 5000, 100_000, 1 << 40]), unique=True, max_size=12))
def test_queue_offsets_in_any_order(to: str, offsets: list[int]) -> None:
    """A log that no broker wrote: offsets go back and leap, and each entry stands where its record says."""
    placed = [
        (Message("t", b"%d" % offset, keys=(f"k{offset}",)), Placement(LogPosition(0), QueueOffset(offset), 5))
        for offset in offsets
    ]
    if not placed:
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        convert(write(root, "litemq", placed), root / "target", to=to, fs=LAZY, **SMALL)
        assert [record.queue_offset for record in records(root / "target")] == offsets
        assert is_sound(root / "target")


@pytest.mark.parametrize("to", ["litemq", "rocketmq"])
def test_a_negative_or_repeated_offset_is_kept_as_it_is(to: str, tmp_path: Path) -> None:
    offsets = [0, 1, 1, -4, 2, (1 << 63) - 1]
    placed = [(Message("t", b"", keys=("k",)), Placement(LogPosition(0), QueueOffset(offset))) for offset in offsets]
    convert(write(tmp_path, "litemq", placed), tmp_path / "target", to=to, fs=LAZY, **SMALL)
    assert [record.queue_offset for record in records(tmp_path / "target")] == offsets
