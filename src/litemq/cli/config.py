"""``litemq config``: the effective settings, and where each comes from."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from litemq.cli import output

_FILE = click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help="Settings in TOML (default: litemq.toml, if it is here).",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group()
def config() -> None:
    """Show and check the settings of file and environment."""


@config.command()
@_FILE
@_JSON
def show(*, file: Path | None, as_json: bool) -> int:
    """Print every setting with its origin: default, file or variable."""
    from litemq.config_file import load

    found = load(file, environment=os.environ)
    if as_json:
        sections: dict[str, dict[str, object]] = {}
        for setting in found.settings():
            value = str(setting.value) if isinstance(setting.value, Path) else setting.value
            sections.setdefault(setting.section, {})[setting.key] = {"value": value, "origin": setting.origin}
        output.write_json({"file": None if found.file is None else str(found.file), "settings": sections})
        return 0
    rows = [(s.section, s.key, toml_text(s.value), s.origin) for s in found.settings()]
    widths = [max(len(row[column]) for row in rows) for column in (1, 2)]
    section = ""
    for row in rows:
        if row[0] != section:
            output.write_line(f"[{row[0]}]" if not section else f"\n[{row[0]}]")
            section = row[0]
        output.write_line(output.one_line(f"{row[1]:{widths[0]}} = {row[2]:{widths[1]}}  # {row[3]}"))
    return 0


@config.command()
@_FILE
@_JSON
def check(*, file: Path | None, as_json: bool) -> int:
    """Check file and environment; exit status 2 names the first thing that is wrong."""
    from litemq.config_file import DEFAULT, load

    found = load(file, environment=os.environ)
    count = sum(setting.origin != DEFAULT for setting in found.settings())
    if as_json:
        output.write_json({"ok": True, "file": None if found.file is None else str(found.file), "settings": count})
    else:
        output.write_line(f"ok: {count} settings given, {found.file or 'no file'}")
    return 0


def toml_text(value: object) -> str:
    """Return a value as it is written in the file."""
    if value is None:
        return '"none"'
    if isinstance(value, tuple):
        return f"[{', '.join(map(toml_text, value))}]"
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)  # TOML writes these alike
