"""Settings are checked once, and the text says which one is wrong."""

from __future__ import annotations

from dataclasses import Field, fields, replace

import pytest

from litemq.config import BrokerConfig, LimitsConfig, NameserverConfig, StoreConfig
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
        ("segment_bytes", "1"),
        ("segment_bytes", 1e9),
        ("queue_entries", True),
        ("flush_bytes", None),
        ("open_files", [256]),
        ("retention_hours", "72"),
        ("disk_start_ratio", None),
        ("flush", None),
        ("store_host", None),
        ("store_host", b"127.0.0.1:10911"),
        ("store_host", "x"),
        ("store_host", ":10911"),
        ("store_host", "1.2.3.4:"),
        ("store_host", "1.2.3.4:99999"),
        ("store_host", "1.2.3.4:-1"),
        ("store_host", "1.2.3.4:²"),
    ],
)
def test_a_setting_out_of_range_is_named(name: str, value: object) -> None:
    with pytest.raises(BadStore, match=f"the setting {name} is .*, it must be"):
        replace(StoreConfig(), **{name: value})  # type: ignore[arg-type]


def test_the_type_that_a_setting_must_have_is_named() -> None:
    with pytest.raises(BadStore, match="the setting segment_bytes is '1', it must be a whole number, not str"):
        StoreConfig(segment_bytes="1")  # type: ignore[arg-type]
    with pytest.raises(
        BadStore, match=r"the setting store_host is '.*:99999', it must be a host and a port of 0 to 65535"
    ):
        StoreConfig(store_host="1.2.3.4:99999")


@pytest.mark.parametrize("host", ["127.0.0.1:0", "[fe80::1]:10911", "broker-a:65535"])
def test_a_store_host_may_be_a_name(host: str) -> None:
    assert StoreConfig(store_host=host).store_host == host


def test_disk_ratios_must_not_fall() -> None:
    with pytest.raises(BadStore, match="must not fall"):
        StoreConfig(disk_start_ratio=0.9, disk_force_ratio=0.8)
    StoreConfig(disk_start_ratio=0.5, disk_force_ratio=0.5, disk_refuse_ratio=0.5)


def test_what_is_left_out_is_left_to_the_store() -> None:
    config = StoreConfig()
    assert (config.format, config.segment_bytes, config.queue_entries) == (None, None, None)
    assert (config.flush, config.delete_hour) == ("async", 4)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", -1),
        ("port", 65536),
        ("port", "9876"),
        ("listen", ""),
        ("listen", None),
        ("data", "/tmp"),
        ("heartbeat_expiry_ms", 999),
        ("broker_expiry_ms", None),
        ("scan_interval_ms", 0),
        ("list_all_topics", "true"),
        ("return_order_config", 1),
    ],
)
def test_a_wrong_setting_of_a_name_server_is_named(name: str, value: object) -> None:
    with pytest.raises(BadStore, match=f"the setting {name} is .*, it must be"):
        replace(NameserverConfig(), **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", -1),
        ("port", 2),
        ("port", 65536),
        ("name", ""),
        ("cluster", None),
        ("listen", ""),
        ("advertise", 1),
        ("default_queues", 0),
        ("max_topics", 0),
        ("max_groups", "1"),
        ("auto_create_topics", 1),
        ("name_servers", ("127.0.0.1",)),
        ("name_servers", ("a:1", "b:")),
    ],
)
def test_a_wrong_setting_of_a_broker_is_named(name: str, value: object) -> None:
    with pytest.raises(BadStore, match=f"the setting {name} is .*, it must be"):
        replace(BrokerConfig(), **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("field", fields(LimitsConfig), ids=lambda field: field.name)
def test_every_limit_is_a_number_that_is_not_negative(field: Field[int]) -> None:
    for value in (-1, True, "1", None):
        with pytest.raises(BadStore, match=f"the setting {field.name} is .*, it must be"):
            replace(LimitsConfig(), **{field.name: value})  # type: ignore[arg-type]
