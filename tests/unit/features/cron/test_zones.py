"""Zones: their spans beside zoneinfo, and what is told of wrong names."""

from __future__ import annotations

import random
import zoneinfo
from datetime import datetime
from importlib import import_module
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.support.cron_oracle import ZONES

from litemq.errors import UnknownZone
from litemq.features.cron import zones
from litemq.features.cron.zones import Zone


def offset_of(at: int, info: ZoneInfo) -> float:
    offset = datetime.fromtimestamp(at, info).utcoffset()
    assert offset is not None
    return offset.total_seconds()


@pytest.mark.parametrize("name", ZONES)
def test_spans_have_the_offsets_of_the_zone(name: str) -> None:
    zone, info = Zone(name), ZoneInfo(name)
    rng = random.Random(name)
    for at in (rng.randrange(0, 5_000_000_000) for _ in range(60)):
        span = zone.span(at)
        assert span.start <= at < span.end
        for inside in (max(span.start, 0), at, min(span.end, 1 << 37) - 1):
            assert offset_of(inside, info) == span.offset, datetime.fromtimestamp(inside, info)


@pytest.mark.parametrize("name", ["Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia"])
def test_spans_follow_each_other(name: str) -> None:
    zone = Zone(name)
    span = zone.span(1_000_000_000)
    highest = span.end + span.offset
    while span.end < 2_000_000_000:
        before, span = span, zone.span(span.end)
        if span.start == before.end:  # not just the next block
            assert span.offset != before.offset
            assert span.seen == highest
        assert zone.span(span.end - 1) is span
        highest = max(highest, span.end + span.offset)


def test_utc_needs_no_data() -> None:
    spans = {zones.zone(name).span(at) for name in ("UTC", "Etc/UTC", "GMT") for at in (0, 1 << 40)}
    assert len(spans) == 1
    assert spans.pop().offset == 0


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("europe/berlin", "did you mean Europe/Berlin?"),
        ("Berlin", "did you mean Europe/Berlin?"),
        ("new york", "did you mean America/New_York?"),
        ("Europe/Berlni", "did you mean Europe/Berlin or "),
        ("Asia/Berlin", "did you mean Europe/Berlin?"),
        ("", "use a name such as Europe/Berlin, or UTC"),
        ("Middle-earth", "use a name such as Europe/Berlin, or UTC"),
        ("x" * 500, "use a name such as Europe/Berlin, or UTC"),
        ("Europe", "did you mean "),
        ("../../etc/passwd", "use a name such as"),
        ("/etc/localtime", "there is no time zone"),
        ("Europe/Ber\0lin", "did you mean Europe/Berlin"),
        ("\ud800", "use a name such as"),
        ("right/Europe/Berlin", "did you mean Europe/Berlin?"),
        ("posix/Europe/Berlin", "did you mean Europe/Berlin?"),
        ("localtime", "there is no time zone"),
        ("zone.tab", "there is no time zone"),
    ],
)
def test_wrong_names_are_refused_with_those_that_are_near(wrong: str, near: str) -> None:
    with pytest.raises(UnknownZone) as caught:
        zones.zone(wrong)
    assert near in str(caught.value)
    assert len(str(caught.value)) < 250
    for name in caught.value.near:
        zones.zone(name)


def test_the_version_of_the_rules_is_that_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Europe").mkdir()
    (tmp_path / "tzdata.zi").write_text("# version 2031c\n# more\n")
    monkeypatch.setattr(zones, "TZPATH", (str(tmp_path / "none"), str(tmp_path)))
    zones.data_version.cache_clear()
    assert zones.data_version() == "2031c"
    (tmp_path / "tzdata.zi").unlink()
    zones.data_version.cache_clear()
    assert zones.data_version() == ""
    zones.data_version.cache_clear()


def test_the_package_is_there_for_machines_without_rules() -> None:
    zones.data_version.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zones, "TZPATH", ())
        assert zones.data_version() == import_module("tzdata").IANA_VERSION
    zones.data_version.cache_clear()
    path = zoneinfo.TZPATH
    try:
        zoneinfo.reset_tzpath(())
        ZoneInfo.clear_cache()
        assert Zone("Australia/Lord_Howe").span(1_800_000_000).offset in (37_800, 39_600)
    finally:
        zoneinfo.reset_tzpath(path)
        ZoneInfo.clear_cache()
