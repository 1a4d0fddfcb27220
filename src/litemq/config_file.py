"""Settings from a TOML file, the environment and flags → the structs of ``config``.

What a section may hold, and of which type, is read from its struct; nothing is listed here twice.  A later source
wins: default, file, environment (``LITEMQ_SECTION__KEY``), flag.  A section or key that is not known is an error that
names the nearest one; a wrong value is an error with its place.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

from litemq.config import BrokerConfig, LimitsConfig, NameserverConfig, PipelineConfig, StoreConfig, TransactionConfig
from litemq.errors import BadStore

FILE_NAME: Final = "litemq.toml"
"""Read from the current directory when no file is named and there is one."""

SECTIONS: Final[Mapping[str, type]] = {
    "nameserver": NameserverConfig,
    "broker": BrokerConfig,
    "store": StoreConfig,
    "limits": LimitsConfig,
    "transaction": TransactionConfig,
    "pipeline": PipelineConfig,
}
RESERVED: Final = (
    "replication",
    "http",
    "grpc",
    "security",
    "delay",
    "cron",
    "console",
    "telemetry",
)
"""Sections of capabilities that this version does not have: they may stand there, but empty."""

DEFAULT: Final = "default"
_PREFIX: Final = "LITEMQ_"
_TRUE: Final = ("true", "yes", "on", "1")
_FALSE: Final = ("false", "no", "off", "0")
_NONE: Final = "none"
"""How a setting that may be None is written: TOML has no word for it."""

Key = tuple[str, str]
Struct = TypeVar("Struct")


@dataclass(frozen=True, slots=True)
class Setting:
    """One effective setting and where it comes from: ``default``, a file, a variable or a flag."""

    section: str
    key: str
    value: object
    origin: str


@dataclass(frozen=True, slots=True)
class _Given:
    """A value as it was given, and by whom."""

    value: object
    origin: str
    place: str
    """How an error names it."""
    is_text: bool
    """Whether it is text that stands for a value of whatever type the setting has."""


class Config:
    """The effective settings: a struct for each section, and their origins."""

    def __init__(self, file: Path | None, structs: Mapping[str, object], origins: Mapping[Key, str]) -> None:
        self.file = file
        """The file that was read; None: there was none."""
        self._structs = structs
        self._origins = origins

    def section(self, kind: type[Struct]) -> Struct:
        """Return the struct of a kind: ``config.section(StoreConfig)``."""
        for struct in self._structs.values():
            if isinstance(struct, kind):
                return struct
        raise KeyError(kind.__name__)

    def origin(self, section: str, key: str) -> str:
        """Return where a setting comes from."""
        return self._origins.get((section, key), DEFAULT)

    def settings(self) -> Iterator[Setting]:
        """Yield every setting, in the order of the structs."""
        for section, kind in SECTIONS.items():
            for field in fields(kind):
                value = getattr(self._structs[section], field.name)
                yield Setting(section, field.name, value, self.origin(section, field.name))


def load(
    file: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, tuple[str, object]] | None = None,
) -> Config:
    """Read and check all settings.

    Args:
        file: The file that was asked for; without one ``litemq.toml`` of the current directory, if it is there.
        environment: Only names with ``LITEMQ_`` and a double underscore are looked at; an empty one counts as not set.
        flags: ``section.key`` → (name of the flag, value); None as a value counts as not given.  Texts are converted.

    Raises:
        BadStore: a file that cannot be read, or a setting that is unknown or wrong; the text says where.
    """
    if file is None and Path(FILE_NAME).is_file():
        file = Path(FILE_NAME)
    given: dict[Key, _Given] = {}
    if file is not None:
        given.update(_from_file(file))
    given.update(_from_environment(environment or {}))
    given.update(_from_flags(flags or {}))
    values: dict[str, dict[str, object]] = {section: {} for section in SECTIONS}
    for key, found in given.items():
        values[key[0]][key[1]] = _checked(key, found)
    structs = {section: _build(section, values[section], given) for section in SECTIONS}
    return Config(file, structs, {key: found.origin for key, found in given.items()})


def from_text(section: str, key: str, text: str) -> object:
    """Return the value that a text stands for, as a variable of the environment would be read.

    Raises:
        BadStore: there is no such setting, or the text is no value of it.
    """
    place = f"{section}.{key}"
    _check_section(section, place)
    _check_key((section, key), place)
    return _checked((section, key), _Given(text, place, place, is_text=True))


# -- sources ------------------------------------------------------------------------------------------------------


def _from_file(path: Path) -> Iterator[tuple[Key, _Given]]:
    try:
        tree = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise BadStore(f"the settings of {path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadStore(f"{path} is no TOML: byte {error.start} is not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise BadStore(f"{path} is no TOML: {error}") from error
    for section, table in tree.items():
        if not isinstance(table, dict):
            raise BadStore(f"{path}: {section} stands outside of a section; {_nearest_place(section)}")
        _check_section(section, str(path))
        for key, value in table.items():
            _check_key((section, key), str(path))
            yield (section, key), _Given(value, str(path), f"{path}: {section}.{key}", is_text=False)


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[Key, _Given]]:
    for name in sorted(environment):
        section, separator, key = name.removeprefix(_PREFIX).lower().partition("__")
        if not name.startswith(_PREFIX) or not separator or not environment[name]:
            continue
        _check_section(section, name)
        _check_key((section, key), name)
        yield (section, key), _Given(environment[name], name, name, is_text=True)


def _from_flags(flags: Mapping[str, tuple[str, object]]) -> Iterator[tuple[Key, _Given]]:
    for name, (flag, value) in flags.items():
        section, _, key = name.partition(".")
        _check_section(section, flag)
        _check_key((section, key), flag)
        if value is not None:
            yield (section, key), _Given(value, flag, flag, is_text=isinstance(value, str))


# -- names --------------------------------------------------------------------------------------------------------


def _check_section(section: str, origin: str) -> None:
    if section not in SECTIONS and section not in RESERVED:
        nearest = _nearest(section, [*SECTIONS, *RESERVED])
        raise BadStore(f"{origin}: there is no section [{section}]; the nearest is [{nearest}]")


def _check_key(key: Key, origin: str) -> None:
    section, name = key
    if section in RESERVED:
        raise BadStore(f"{origin}: {section}.{name}: this version has no settings in [{section}] yet; remove it")
    if name not in _names(section):
        raise BadStore(f"{origin}: there is no setting {section}.{name}; {_nearest_place(name, section)}")


def _names(section: str) -> list[str]:
    return [field.name for field in fields(SECTIONS[section])]


def _nearest_place(name: str, section: str | None = None) -> str:
    """Return what was probably meant: the same name in another section, or the most alike in this one."""
    elsewhere = [f"{other}.{name}" for other in SECTIONS if name in _names(other)]
    if elsewhere:
        return f"there is {' and '.join(elsewhere)}"
    places = [section] if section is not None else list(SECTIONS)
    known = {known: place for place in places for known in _names(place)}
    nearest = _nearest(name, list(known))
    return f"the nearest is {known[nearest]}.{nearest}"


def _nearest(name: str, known: list[str]) -> str:
    import difflib  # only on the way to an error

    return difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]


# -- values -------------------------------------------------------------------------------------------------------


class _Unfit(Exception):
    """A value that cannot be what is wanted; the text says what is."""


def _checked(key: Key, found: _Given) -> object:
    """Return the value as the setting's type."""
    wanted = get_type_hints(SECTIONS[key[0]])[key[1]]
    value = found.value
    try:
        if found.is_text:
            assert isinstance(value, str)
            return _from_text(value.strip(), wanted)
        return _from_value(value, wanted)
    except _Unfit as unfit:
        raise BadStore(f"{found.place} is {value!r}, it must be {unfit}") from None


def _from_text(text: str, wanted: Any) -> object:  # noqa: ANN401 - a type, or one of typing's forms
    kind, may_be_none, description = _wanted(wanted)
    if may_be_none and text.lower() == _NONE:
        return None
    if kind is bool:
        if text.lower() in (*_TRUE, *_FALSE):
            return text.lower() in _TRUE
        raise _Unfit(description)
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            raise _Unfit(description) from None
    if get_origin(kind) is tuple:
        return tuple(part.strip() for part in text.replace(";", ",").split(",") if part.strip())
    return _from_value(text, wanted)


def _from_value(value: object, wanted: Any) -> object:  # noqa: ANN401
    kind, may_be_none, description = _wanted(wanted)
    if may_be_none and isinstance(value, str) and value.lower() == _NONE:
        return None
    if kind is float and type(value) is int:
        return float(value)
    if kind is Path and isinstance(value, str) and value:
        return Path(value)
    if get_origin(kind) is tuple:
        if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
            return tuple(value)
        raise _Unfit(description)
    if get_origin(kind) is Literal:
        is_fit = isinstance(value, str) and value in get_args(kind)
    else:
        is_fit = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not is_fit:
        raise _Unfit(description)
    return value


_DESCRIPTIONS: Final = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    Path: "a path",
}


def _wanted(wanted: Any) -> tuple[Any, bool, str]:  # noqa: ANN401
    """Return the type without its None, whether it may be None, and both in words."""
    may_be_none = False
    if NoneType in get_args(wanted):
        (kind,) = (part for part in get_args(wanted) if part is not NoneType)
        may_be_none = True
    else:
        kind = wanted
    if get_origin(kind) is Literal:
        description = f"one of {', '.join(get_args(kind))}"
    elif get_origin(kind) is tuple:
        description = "a list of texts"
    else:
        description = _DESCRIPTIONS[kind]
    return kind, may_be_none, f"{description}, or {_NONE!r}" if may_be_none else description


def _build(section: str, values: Mapping[str, object], given: Mapping[Key, _Given]) -> object:
    """Make the struct; what it refuses is told with the place of the setting that is at fault."""
    kind = SECTIONS[section]
    try:
        return kind(**values)
    except BadStore as error:
        for key, value in values.items():
            try:
                kind(**{key: value})
            except BadStore as alone:
                raise BadStore(f"{given[section, key].place}: {alone}") from error
        origins = sorted({given[section, key].origin for key in values})
        raise BadStore(f"{', '.join(origins)}: [{section}]: {error}") from error
