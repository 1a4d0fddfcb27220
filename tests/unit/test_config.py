"""Settings are checked once, and the text says which one is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from litemq.config import StoreConfig
from litemq.errors import BadStore


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment_bytes", 1023),
        ("segment_bytes", 1 << 31),
        ("queue_entries", 0),
        ("index_slots", 0),
        ("index_entries", 1),
        ("flush_interval_ms", 0),
        ("flush_bytes", 0),
        ("dirty_limit_bytes", -1),
        ("flush_timeout_ms", 0),
        ("checkpoint_interval_ms", 0),
        ("checkpoint_bytes", 0),
        ("progress_interval_ms", 0),
        ("progress_changes", 0),
        ("max_body_bytes", 0),
        ("retention_hours", -1.0),
        ("retention_hours", float("nan")),
        ("delete_hour", 24),
        ("disk_start_ratio", 1.1),
        ("disk_free_floor", -1),
        ("open_files", 0),
        ("flush", "never"),
        ("store_host", "\ud800:10911"),
        ("format", "tmq"),
    ],
)
def test_a_setting_out_of_range_is_named(name: str, value: object) -> None:
    with pytest.raises(BadStore, match=f"the setting {name} is .*, it must be"):
        replace(StoreConfig(), **{name: value})  # type: ignore[arg-type]


def test_disk_ratios_must_not_fall() -> None:
    with pytest.raises(BadStore, match="must not fall"):
        StoreConfig(disk_start_ratio=0.9, disk_force_ratio=0.8)
    StoreConfig(disk_start_ratio=0.5, disk_force_ratio=0.5, disk_refuse_ratio=0.5)


def test_what_is_left_out_is_left_to_the_store() -> None:
    config = StoreConfig()
    assert (config.format, config.segment_bytes, config.queue_entries) == (None, None, None)
    assert (config.flush, config.delete_hour) == ("async", 4)
