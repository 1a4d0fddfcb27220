"""Amounts on the command line: durations (``90s``, ``5m``, ``2h``, ``1d``) and sizes in bytes (``128m``, ``1g``)."""

from __future__ import annotations

import re
from typing import Final

import click

_DURATION: Final = re.compile(r"(\d{1,9})(ms|s|m|h|d)", re.ASCII)
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_SIZE: Final = re.compile(r"(\d{1,12})(b|k|m|g|)b?", re.ASCII)
_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class Duration(click.ParamType[float]):
    """How long, in seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds that a text stands for."""
        found = _DURATION.fullmatch(str(value).strip().lower())
        if isinstance(value, float):
            return value
        if found is None:
            self.fail(f"{value!r} is no duration; give one such as 90s, 5m, 2h or 1d", param, ctx)
        return int(found[1]) * _UNITS_S[found[2]]


class Size(click.ParamType[int]):
    """How many bytes, at least one."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the bytes that a text stands for."""
        found = _SIZE.fullmatch(str(value).strip().lower())
        if found is None or int(found[1]) == 0:
            self.fail(f"{value!r} is no size in bytes; give one such as 64k, 128m or 1g", param, ctx)
        return int(found[1]) * _UNITS[found[2]]


DURATION: Final = Duration()
SIZE: Final = Size()
