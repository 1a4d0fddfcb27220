"""What the reference pages of commands say of flags and of JSON, and whether it is so."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from litemq.cli.main import run

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


class CliPage:
    """One page: each command has a section with tables of flags and of JSON keys."""

    def __init__(self, name: str) -> None:
        text = (REFERENCE / name).read_text()
        parts = re.split(r"^## `(litemq [^`]+)`\n", text, flags=re.MULTILINE)
        self.sections = dict(zip(parts[1::2], parts[2::2], strict=True))

    def keys(self, command: str) -> dict[str, str]:
        """Return path → type of the JSON that a command prints."""
        section = self.sections[command]
        same = re.search(r"with the keys of `(litemq [^`]+)`", section)
        if same:
            return self.keys(same[1])
        rows = section.partition("| JSON key |")[2].splitlines()
        cells = [row.split("|") for row in rows if row.startswith("| `")]
        return {row[1].strip().strip("`"): row[2].strip() for row in cells}

    def flags(self, command: str) -> set[str]:
        """Return the flags that a command has, but for those that all have."""
        rows = re.findall(r"^\| (`-[^|]*) \|", self.sections[command], re.MULTILINE)
        return {flag for row in rows for flag in re.findall(r"`(--[a-z-]+)", row)}

    def check(self, command: str, objects: Iterable[dict[str, Any]], *, unseen: Iterable[str] = ()) -> None:
        """Compare what a command printed with what the page says; ``unseen`` keys need not be there."""
        keys = self.keys(command)
        assert keys, command
        seen = set()
        for told in objects:
            for path, value in _leaves(told, keys):
                assert path in keys, f"{command}: {path} is not on the page"
                assert _is_of(value, keys[path]), f"{command}: {path} is {value!r}, the page says {keys[path]}"
                seen.add(path)
        assert {*keys} - seen == {*unseen}, command


def _leaves(value: object, keys: dict[str, str], path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        dot = f"{path}." if path else ""
        is_any = any(key.startswith(f"{path}.*") for key in keys)
        for name, member in value.items():
            yield from _leaves(member, keys, f"{path}.*" if is_any else f"{dot}{name}")
    elif isinstance(value, list):
        if path in keys:
            yield path, value
        for member in value:
            yield from _leaves(member, keys, f"{path}[]")
    else:
        yield path, value


def _is_of(value: object, kind: str) -> bool:
    if kind.endswith(" or null"):
        return value is None or _is_of(value, kind.removesuffix(" or null"))
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, {"text": str, "true or false": bool, "list": list}[kind])


class Command:
    """Gives commands to ``litemq``, in this process."""

    def __init__(self, servers: str, capture: pytest.CaptureFixture[bytes]) -> None:
        self.servers = servers
        self._capture = capture

    def said(self, *arguments: str, status: int = 0) -> str:
        """Give a command that must end so; return what it printed, on stderr where it failed."""
        found = run([*arguments, "--nameserver", self.servers])
        out, err = (text.decode() for text in self._capture.readouterr())
        assert found == status, out + err
        if status == 2:
            assert not out
            assert err.startswith("litemq: error: ")
            assert err.count("\n") == 1
            return err
        assert not err
        return out

    def told(self, *arguments: str, status: int = 0) -> list[dict[str, Any]]:
        """Give a command; return the objects that it printed."""
        return [json.loads(line) for line in self.said(*arguments, "--json", status=status).splitlines()]
