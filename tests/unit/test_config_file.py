"""Settings come from file, environment and flags alike, and what is wrong is told with its place."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.cli.config import toml_text
from litemq.cli.main import run
from litemq.config import BrokerConfig, LimitsConfig, StoreConfig
from litemq.config_file import DEFAULT, RESERVED, SECTIONS, load
from litemq.errors import BadStore

_NAMES = st.text("abcxyz.-09:", min_size=1, max_size=12)
_VALUES: dict[object, st.SearchStrategy[object]] = {
    int: st.integers(3, 20),
    int | None: st.none() | st.integers(2000, 3000),
    float: st.floats(0.9, 1.0),
    bool: st.booleans(),
    str: _NAMES,
    Path | None: st.none() | _NAMES.map(Path),
    tuple[str, ...]: st.lists(_NAMES, min_size=1, max_size=3).map(tuple),
}
_SPECIAL: dict[str, st.SearchStrategy[object]] = {
    "format": st.sampled_from([None, "litemq", "rocketmq"]),
    "flush": st.sampled_from(["async", "group", "sync"]),
    "delete_hour": st.none() | st.integers(0, 23),
    "disk_start_ratio": st.just(0.5),
    "disk_force_ratio": st.just(0.8),
    "store_host": st.just("10.1.2.3:4"),
    "heartbeat_expiry_ms": st.just(5000),
    "broker_expiry_ms": st.just(5000),
    "max_checks": st.integers(1, 255),
    "end": st.sampled_from(["drop", "dead-letter"]),
    "scan_interval_ms": st.just(5000),
    "name_servers": st.lists(_NAMES.map(lambda name: f"{name}:9876"), min_size=1, max_size=3).map(tuple),
}


@st.composite
def settings(draw: st.DrawFn) -> dict[tuple[str, str], object]:
    """Draw good values for some of all settings."""
    known = [(section, field.name) for section, kind in SECTIONS.items() for field in fields(kind)]
    answer = {}
    for section, key in draw(st.lists(st.sampled_from(known), unique=True)):
        kind = get_type_hints(SECTIONS[section])[key]
        answer[section, key] = draw(_SPECIAL[key] if key in _SPECIAL else _VALUES[kind])
    return answer


def to_toml(chosen: dict[tuple[str, str], object]) -> str:
    lines = []
    for section in SECTIONS:
        lines.append(f"[{section}]")
        lines += [f"{key} = {toml_text(value)}" for (at, key), value in chosen.items() if at == section]
    return "\n".join(lines)


def to_text(value: object) -> str:
    if value is None:
        return "none"
    return ";".join(value) if isinstance(value, tuple) else str(value)


@given(settings())
def test_file_environment_and_flags_give_the_same(
    tmp_path_factory: pytest.TempPathFactory, chosen: dict[tuple[str, str], object]
) -> None:
    file = tmp_path_factory.mktemp("config", numbered=True) / "some.toml"
    file.write_text(to_toml(chosen))
    by_file = load(file)
    by_environment = load(
        environment={f"LITEMQ_{section}__{key}".upper(): to_text(value) for (section, key), value in chosen.items()}
    )
    by_flags = load(
        flags={
            f"{section}.{key}": ("--set", to_text(value) if value is None else value)
            for (section, key), value in chosen.items()
        }
    )
    for section, kind in SECTIONS.items():
        wanted = kind(**{key: value for (at, key), value in chosen.items() if at == section})
        assert by_file.section(kind) == by_environment.section(kind) == by_flags.section(kind) == wanted
    assert {setting.origin for setting in by_file.settings()} <= {DEFAULT, str(file)}
    file.unlink()


def test_without_anything_all_is_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = load(environment={"LITEMQ_PURE": "1", "LITEMQ_NAMESERVER": "a:1", "PATH": "/bin", "OTHER__KEY": "1"})
    assert found.file is None
    assert found.section(StoreConfig) == StoreConfig()
    assert found.section(BrokerConfig) == BrokerConfig()
    assert found.section(LimitsConfig) == LimitsConfig()
    assert {setting.origin for setting in found.settings()} == {DEFAULT}


def test_the_file_of_the_current_directory_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("litemq.toml").write_text('[store]\nflush = "group"\n')
    found = load()
    assert found.file == Path("litemq.toml")
    assert found.section(StoreConfig).flush == "group"


def test_a_later_source_wins(tmp_path: Path) -> None:
    file = tmp_path / "f.toml"
    file.write_text("[broker]\nport = 1\ndefault_queues = 2\nmax_topics = 3\n")
    found = load(
        file,
        environment={"LITEMQ_BROKER__PORT": "10", "LITEMQ_BROKER__DEFAULT_QUEUES": "20", "LITEMQ_BROKER__NAME": ""},
        flags={"broker.port": ("--port", 100), "broker.name": ("--name", None)},
    )
    broker = found.section(BrokerConfig)
    assert (broker.port, broker.default_queues, broker.max_topics, broker.name) == (100, 20, 3, "broker-a")
    assert found.origin("broker", "port") == "--port"
    assert found.origin("broker", "default_queues") == "LITEMQ_BROKER__DEFAULT_QUEUES"
    assert found.origin("broker", "max_topics") == str(file)
    assert found.origin("broker", "name") == DEFAULT


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[stor]\n", r"there is no section \[stor\]; the nearest is \[store\]"),
        ("[store]\nflsh = 1\n", r"there is no setting store.flsh; the nearest is store.flush$"),
        ('[broker]\nflush = "sync"\n', r"there is no setting broker.flush; there is store.flush$"),
        ("prt = 1\n", r"prt stands outside of a section; the nearest is broker.port$"),
        ("flush = 1\n", r"flush stands outside of a section; there is store.flush$"),
        ("[http]\nport = 1\n", r"http.port: this version has no settings in \[http\] yet"),
        ('[store]\nflush = "never"\n', r"store.flush is 'never', it must be one of async, group, sync$"),
        ("[store]\nflush = 1\n", r"store.flush is 1, it must be one of async, group, sync$"),
        ('[store]\nflush_bytes = "1"\n', r"store.flush_bytes is '1', it must be a whole number$"),
        ("[store]\nflush_bytes = true\n", r"store.flush_bytes is True, it must be a whole number$"),
        ("[store]\nflush_bytes = 1.0\n", r"store.flush_bytes is 1.0, it must be a whole number$"),
        ("[store]\nflush_bytes = 0\n", r"store.flush_bytes: the setting flush_bytes is 0, it must be 1 to"),
        ('[store]\ndelete_hour = "any"\n', r"store.delete_hour is 'any', it must be a whole number, or 'none'$"),
        ("[store]\nretention_hours = nan\n", r"store.retention_hours: the setting retention_hours is nan"),
        ("[broker]\nauto_create_topics = 1\n", r"broker.auto_create_topics is 1, it must be true or false$"),
        ("[broker]\nname_servers = 'a:1'\n", r"broker.name_servers is 'a:1', it must be a list of texts$"),
        ("[broker]\nname_servers = [1]\n", r"broker.name_servers is \[1\], it must be a list of texts$"),
        ("[broker]\nname = 2020-01-01\n", r"broker.name is datetime.date\(2020, 1, 1\), it must be a text$"),
        ("[broker.name]\nx = 1\n", r"broker.name is \{'x': 1\}, it must be a text$"),
        ("[store\n", r"is no TOML: .*line 1"),
        ("[store]\ndisk_start_ratio = 0.8\ndisk_force_ratio = 0.78\n", r"\[store\]: .*must not fall$"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "f.toml"
    file.write_text(text)
    with pytest.raises(BadStore, match=f"f.toml.*{told}"):
        load(file)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("LITEMQ_STORE__FLUSH", "never", "LITEMQ_STORE__FLUSH is 'never', it must be one of"),
        ("LITEMQ_STORE__DELETE_HOUR", "24", "LITEMQ_STORE__DELETE_HOUR: the setting delete_hour is 24"),
        ("LITEMQ_STORE__DELETE_HOUR", "four", "LITEMQ_STORE__DELETE_HOUR is 'four', it must be a whole number"),
        ("LITEMQ_STORE__RETENTION_HOURS", "x", "LITEMQ_STORE__RETENTION_HOURS is 'x', it must be a number$"),
        ("LITEMQ_STOER__FLUSH", "sync", r"LITEMQ_STOER__FLUSH: there is no section \[stoer\]; .* \[store\]"),
        ("LITEMQ_STORE__FLUSH__MS", "1", "there is no setting store.flush__ms; the nearest is store.flush"),
        ("LITEMQ_BROKER__AUTO_CREATE_TOPICS", "maybe", "must be true or false"),
        ("LITEMQ_GRPC__PORT", "1", r"LITEMQ_GRPC__PORT: grpc.port: this version has no settings in \[grpc\]"),
    ],
)
def test_what_is_wrong_in_the_environment_is_named(name: str, value: str, told: str) -> None:
    with pytest.raises(BadStore, match=told):
        load(environment={name: value})


@pytest.mark.parametrize("data", [None, b"\xff"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, data: bytes | None) -> None:
    file = tmp_path / "f.toml"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(BadStore, match=r"f\.toml"):
        load(file)


def test_sections_to_come_may_stand_empty(tmp_path: Path) -> None:
    file = tmp_path / "f.toml"
    file.write_text("".join(f"[{section}]\n" for section in RESERVED))
    assert load(file).section(StoreConfig) == StoreConfig()


def test_lists_in_the_environment_are_separated_by_either_sign() -> None:
    found = load(environment={"LITEMQ_BROKER__NAME_SERVERS": "a:1; b:2,c:3;"})
    assert found.section(BrokerConfig).name_servers == ("a:1", "b:2", "c:3")


def test_what_is_shown_can_be_read_back(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    file, copy = tmp_path / "f.toml", tmp_path / "copy.toml"
    file.write_text('[store]\nflush = "group"\ndelete_hour = "none"\n[broker]\nname = "ü\\u0001"\n')
    assert run(["config", "show", "--config", str(file)]) == 0
    copy.write_bytes(capfdbinary.readouterr().out)
    assert load(copy).section(StoreConfig) == replace(StoreConfig(), flush="group", delete_hour=None)
    assert load(copy).section(BrokerConfig).name == "ü\x01"


def test_settings_as_json(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    file = tmp_path / "f.toml"
    file.write_text('[store]\nflush = "group"\n')
    assert run(["config", "show", "--json", "--config", str(file)]) == 0
    shown = json.loads(capfdbinary.readouterr().out)
    assert shown["file"] == str(file)
    assert shown["settings"]["store"]["flush"] == {"value": "group", "origin": str(file)}
    assert shown["settings"]["broker"]["port"] == {"value": 10911, "origin": DEFAULT}
    assert run(["config", "check", "--json", "--config", str(file)]) == 0
    assert json.loads(capfdbinary.readouterr().out) == {"ok": True, "file": str(file), "settings": 1}


def test_a_check_that_fails_ends_with_status_2(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    file = tmp_path / "f.toml"
    file.write_text('[store]\nflash = "group"\n')
    assert run(["config", "check", "--config", str(file)]) == 2
    assert b"the nearest is store.flush" in capfdbinary.readouterr().err


def test_the_page_has_every_setting_with_its_default() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "configuration.md").read_text()
    for section, kind in SECTIONS.items():
        rows = page.partition(f"## [{section}]\n")[2].partition("\n## ")[0]
        if kind is StoreConfig:
            assert "store-config.md" in rows
            continue
        wanted = [f"| `{field.name}` | `{toml_text(field.default)}` |" for field in fields(kind)]
        assert [row.rpartition(" | ")[0] + " |" for row in rows.splitlines() if row.startswith("| `")] == wanted
    for section in RESERVED:
        assert f"`[{section}]`" in page
