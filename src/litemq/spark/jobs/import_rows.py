"""Rows of files on their way into messages: which column is what, and what cannot be a message."""

from __future__ import annotations

import base64
import binascii
import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from litemq.client._message_cy import OWN_PROPERTIES, Message
from litemq.errors import InvalidRequest
from litemq.format import properties as property_text
from litemq.spark.errors import SchemaMismatch
from litemq.spark.schema import DEAD_LETTERS, KAFKA, MESSAGES

Extra = Literal["error", "drop", "properties"]

MAX_BODY: Final = 4 << 20
"""What brokers take, unless they are told otherwise."""
_MAX_PROPERTIES: Final = 31_000
"""Brokers add some of their own to what a record can hold."""
_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "body": ("body", "value", "body_base64", "body_json"),
    "keys": ("all_keys", "keys", "key"),
    "tags": ("tags",),
    "properties": ("properties", "headers"),
    "sharding_key": ("sharding_key",),
}
"""By part of a message, the columns that it is taken from, the best first."""
_KNOWN: Final = tuple(name for names in _PARTS.values() for name in names)
_OF_A_PLACE: Final = {
    *(column.name for column in (*MESSAGES, *KAFKA, *DEAD_LETTERS)),
    *("timestamp", "headers"),
} - set(_KNOWN)
"""Columns of an export that say where a message was: another place has its own."""


class Parts(NamedTuple):
    """What a message is made of."""

    body: bytes
    keys: str | None
    tags: str | None
    properties: dict[str, str]
    sharding_key: str | None


class BadRow(Exception):
    """A row that no message can hold; the text says why."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column is what part of a message."""

    taken: tuple[tuple[str, str, str], ...]
    """Part, column, and how the column is read: the name that the column would have by itself."""
    known: frozenset[str] = frozenset()
    """All columns of which it is known what to do with them."""
    extra: Extra = "error"
    """What to do with another one."""

    def parts_of(self, row: Mapping[str, Any], max_body: int) -> Parts:
        """Return what the message of a row is made of.

        Raises:
            BadRow: it cannot be a message.
        """
        found: dict[str, Any] = {}
        for part, column, kind in self.taken:
            try:
                found[part] = _READ.get(kind, _READ[part])(row.get(column))
            except BadRow as error:
                raise BadRow(f"{column}: {error}") from error
        properties = found.get("properties") or {}
        if self.extra != "drop" and not row.keys() <= self.known:
            properties |= self._of_others(row)
        if found["body"] is None:
            raise BadRow("it has no body")
        parts = Parts(found["body"], found.get("keys"), found.get("tags"), properties, found.get("sharding_key"))
        _check(parts, max_body)
        return parts

    def _of_others(self, row: Mapping[str, Any]) -> dict[str, str]:
        """Return the columns of a row that nobody knows, as properties of their names."""
        others = row.keys() - self.known
        if self.extra == "error":  # names that the first rows of a file did not have
            raise BadRow(f"{', '.join(sorted(others))} is no part of a message (--extra drop or properties)")
        texts = {name: _plain_text(row[name]) for name in row if name in others}
        return {name: text for name, text in texts.items() if text is not None}


def columns_of(there: Sequence[str], renames: Mapping[str, str], extra: Extra) -> Columns:
    """Return which columns of a file are taken for what.

    Raises:
        SchemaMismatch: there is no body, or a column nobody knows what to do with; the text says what to do.
    """
    for name, column in renames.items():
        if name not in _KNOWN:
            near = difflib.get_close_matches(name, _KNOWN, 1, 0.5)
            advice = f"did you mean {near[0]}? " if near else ""
            raise SchemaMismatch(f"--columns {name}=…: messages have no {name}; {advice}there are: {', '.join(_KNOWN)}")
        if column not in there:
            raise SchemaMismatch(f"--columns {name}={column}: there is no such column; there are: {', '.join(there)}")
    renamed = set(renames.values())
    taken = []
    for part, names in _PARTS.items():
        given = [(name, renames[name]) for name in names if name in renames]
        own = [(name, name) for name in names if name in there and name not in renamed]
        if part == "body" and len(given or own) > 1:
            both = " and ".join(column for _, column in (given or own))
            raise SchemaMismatch(f"{both} would both be the body; say which: --columns body={(given or own)[0][1]}")
        for name, column in (given or own)[:1]:
            taken.append((part, column, name))
    if not any(part == "body" for part, _, _ in taken):
        raise SchemaMismatch(
            f"there is no column body or value among: {', '.join(there) or 'no columns'}; "
            "say which one it is: --columns body=payload"
        )
    known = frozenset(renamed | set(_KNOWN) | _OF_A_PLACE)
    unknown = [name for name in there if name not in known]
    if unknown and extra == "error":
        raise SchemaMismatch(
            f"the columns {', '.join(unknown)} are no part of a message; rename them (--columns tags=…), leave them "
            "out (--extra drop), or have them as properties (--extra properties)"
        )
    return Columns(tuple(taken), known, extra)


def _check(parts: Parts, max_body: int) -> None:
    if len(parts.body) > max_body:
        raise BadRow(f"the body has {len(parts.body)} bytes, at most {max_body} fit (--max-body)")
    try:
        message = Message(
            "t",
            parts.body,
            tags=parts.tags,
            keys=parts.keys or (),
            properties=parts.properties,
            sharding_key=parts.sharding_key,
        )
    except InvalidRequest as error:
        raise BadRow(str(error)) from error
    size = len(property_text.write(message.raw_properties.items()))
    if size > _MAX_PROPERTIES:
        raise BadRow(f"keys, tags and properties have {size} bytes together, at most {_MAX_PROPERTIES} fit")


def _plain_text(value: Any) -> str | None:  # noqa: ANN401 - a value of JSON, CSV or Arrow
    """Return a value as a text; None for nothing."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise BadRow(f"{value[:40]!r} is no UTF-8") from error
    if isinstance(value, bool | int | float | dict | list):
        return _dumped(value)
    return str(value)


def _dumped(value: Any) -> str:  # noqa: ANN401 - a value of JSON
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRow(f"it has no form in JSON: {error}") from error


def _body(value: Any) -> bytes | None:  # noqa: ANN401
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return _utf8(value)
    return None if value is None else _utf8(_dumped(value))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadRow("it has no UTF-8 form") from error


def _base64(value: Any) -> bytes | None:  # noqa: ANN401
    if value is None:
        return None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise BadRow(f"it is no base64: {error}") from error


def _json_body(value: Any) -> bytes | None:  # noqa: ANN401
    """Return the bytes of a body that stands in the file as JSON, in CSV as its text."""
    return _body(value) if isinstance(value, bytes | str) else None if value is None else _utf8(_dumped(value))


def _words(value: Any) -> str | None:  # noqa: ANN401
    """Return keys as they are stored: words with spaces between them."""
    if isinstance(value, list | tuple):
        words = [_plain_text(one) for one in value]
        return " ".join(word for word in words if word is not None) or None
    return _plain_text(value)


def _list(value: Any) -> str | None:  # noqa: ANN401
    """Return keys of a column that is a list, in CSV the text of one."""
    if isinstance(value, str) and value.startswith("["):
        with_words = _parsed(value)
        if isinstance(with_words, list):
            return _words(with_words)
    return _words(value)


def _pairs(value: Any) -> dict[str, str]:  # noqa: ANN401
    """Return properties: of an object, its text, or Arrow's pairs; what brokers say by properties is left out."""
    if isinstance(value, str | bytes):
        value = _parsed(value) if value else None
    if value is None:
        return {}
    if isinstance(value, Mapping):
        pairs: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list):
        pairs = [_pair(one) for one in value]
    else:
        raise BadRow(f"it must be an object of names and texts, not {type(value).__name__}")
    texts = ((_plain_text(name), _plain_text(text)) for name, text in pairs)
    return {name: text for name, text in texts if name and text and name not in OWN_PROPERTIES}


def _pair(one: Any) -> tuple[Any, Any]:  # noqa: ANN401
    if isinstance(one, tuple) and len(one) == 2:
        return one[0], one[1]
    if isinstance(one, dict) and {"key", "value"} <= one.keys():
        return one["key"], one["value"]
    raise BadRow("a list of properties must be of objects with key and value")


def _parsed(text: str | bytes) -> Any:  # noqa: ANN401
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRow(f"it is no JSON: {error}") from error


_READ: Final[dict[str, Callable[[Any], Any]]] = {
    "body": _body,
    "body_base64": _base64,
    "body_json": _json_body,
    "keys": _words,
    "all_keys": _list,
    "tags": _plain_text,
    "properties": _pairs,
    "sharding_key": _plain_text,
}
