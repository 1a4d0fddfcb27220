"""Header fields of a request: texts that stand for texts, numbers and booleans."""

from __future__ import annotations

from collections.abc import Mapping

from litemq.errors import BadField

INT32 = (-(1 << 31), (1 << 31) - 1)
INT64 = (-(1 << 63), (1 << 63) - 1)
_LONGEST = 20
"""Characters of the longest number of 64 bits."""


def text(ext: Mapping[str, str], name: str) -> str:
    """Return a field that must be there."""
    value = ext.get(name)
    if not value:
        raise BadField(f"the request has no field {name}")
    return value


def whole(ext: Mapping[str, str], name: str, default: int | None = None) -> int:
    """Return a number of 32 bits; ``default`` when the field is not there, an error without one."""
    return _number(ext, name, default, INT32)


def long(ext: Mapping[str, str], name: str, default: int | None = None) -> int:
    """Return a number of 64 bits; ``default`` when the field is not there, an error without one."""
    return _number(ext, name, default, INT64)


def _number(ext: Mapping[str, str], name: str, default: int | None, bounds: tuple[int, int]) -> int:
    value = ext.get(name)
    if not value:
        if default is None:
            raise BadField(f"the request has no field {name}")
        return default
    digits = value[1:] if value[0] == "-" else value
    if not digits.isascii() or not digits.isdigit() or len(value) > _LONGEST:
        raise BadField(f"the field {name} is {value[:40]!r}, it must be a whole number")
    number = int(value)
    if not bounds[0] <= number <= bounds[1]:
        raise BadField(f"the field {name} is {value}, it must be {bounds[0]} to {bounds[1]}")
    return number


def truth(ext: Mapping[str, str], name: str, default: bool = False) -> bool:
    """Return a boolean; anything but ``true`` is false, as in Java."""
    value = ext.get(name)
    return default if value is None else value.lower() == "true"
