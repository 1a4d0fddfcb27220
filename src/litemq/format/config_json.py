"""The files ``config/*.json``: a lenient reader of what RocketMQ writes, a strict writer that RocketMQ reads.

RocketMQ's fastjson leaves integer keys unquoted (``{0:142,1:52}``), so its files are no JSON.  The reader takes JSON
and that; keys are texts either way.  It goes through the text once, without recursion, so that neither size nor depth
of a foreign file can hurt; depth is limited to 64.  The writer quotes all keys, sorts members and indents with tabs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

JsonValue = str | int | float | bool | None | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
JsonObject = dict[str, "Value"]
Value = str | int | float | bool | None | list["Value"] | JsonObject

MAX_DEPTH: Final = 64

_STRINGS = json.JSONDecoder(strict=False)  # line ends within a text are read
_BLANK = re.compile(r"[ \t\r\n\f\b]*")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", re.ASCII)
_BARE_KEY = re.compile(r"-?[0-9]+|[A-Za-z_$][A-Za-z0-9_$.]*", re.ASCII)
_WORDS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}
_MAX_DIGITS: Final = 400  # a number of more digits fits no field, and costs quadratic time


class BadConfig(ValueError):
    """A text that is neither JSON nor what fastjson writes; says where."""


def read(text: str | bytes) -> JsonObject:
    """Return the object in ``text``.

    Raises:
        BadConfig: the text is no object, or deeper than 64.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise BadConfig(f"not UTF-8 at byte {error.start}") from error
    value = _Reader(text).read()
    if not isinstance(value, dict):
        raise BadConfig("not an object")
    return value


def write(value: Mapping[str, JsonValue]) -> bytes:
    """Return the text of an object: strict JSON, members sorted by name, tabs."""
    return (json.dumps(value, ensure_ascii=False, indent="\t", sort_keys=True, separators=(",", ":")) + "\n").encode()


class _Reader:
    """One pass over one text; ``_open`` holds the lists and objects that are not closed yet."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open: list[list[Value] | JsonObject] = []
        self._keys: list[str] = []
        self._top: Value = None

    def read(self) -> Value:
        self._value()
        while self._open:
            self._member()
        self._skip_blank()
        if self._at < len(self._text):
            raise self._bad("text behind the end")
        return self._top

    def _member(self) -> None:
        """Read one member of the innermost list or object, or its end."""
        inner = self._open[-1]
        closing = "}" if isinstance(inner, dict) else "]"
        mark = self._peek()
        if mark == closing:
            self._at += 1
            self._open.pop()
            return
        if mark == "," and inner:
            self._at += 1
            if self._peek() == closing:  # fastjson reads a comma before the end, so do we
                return
        elif inner:
            raise self._bad(f"',' or '{closing}' expected")
        if isinstance(inner, dict):
            self._key()
        self._value()

    def _key(self) -> None:
        if self._peek() == '"':
            key = self._string()
        else:
            match = _BARE_KEY.match(self._text, self._at)
            if match is None:
                raise self._bad("key expected")
            key = match[0]
            self._at = match.end()
        if self._peek() != ":":
            raise self._bad("':' expected")
        self._at += 1
        self._keys.append(key)

    def _value(self) -> None:
        mark = self._peek()
        if mark == "{":
            self._enter({})
        elif mark == "[":
            self._enter([])
        elif mark == '"':
            self._put(self._string())
        else:
            self._put(self._scalar())

    def _enter(self, empty: list[Value] | JsonObject) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise self._bad(f"deeper than {MAX_DEPTH}")
        self._at += 1
        self._put(empty)
        self._open.append(empty)

    def _put(self, value: Value) -> None:
        if not self._open:
            self._top = value
        elif isinstance(inner := self._open[-1], dict):
            inner[self._keys.pop()] = value
        else:
            inner.append(value)

    def _scalar(self) -> Value:
        for word, value in _WORDS.items():
            if self._text.startswith(word, self._at):
                self._at += len(word)
                return value
        match = _NUMBER.match(self._text, self._at)
        if match is None or len(match[0]) > _MAX_DIGITS:
            raise self._bad("value expected")
        self._at = match.end()
        return int(match[0]) if match[0].lstrip("-").isdigit() else float(match[0])

    def _string(self) -> str:
        """Read a quoted text with the library's own scanner, which is C and not recursive."""
        try:
            text: str
            text, self._at = _STRINGS.raw_decode(self._text, self._at)
        except json.JSONDecodeError as error:
            raise self._bad("text without an end, or a wrong escape") from error
        return text if text.isascii() else text.encode("utf-8", "replace").decode()

    def _peek(self) -> str:
        """Return the next character that is not blank, "" at the end."""
        self._skip_blank()
        return self._text[self._at : self._at + 1]

    def _skip_blank(self) -> None:
        match = _BLANK.match(self._text, self._at)
        assert match is not None  # it matches no blank, too
        self._at = match.end()

    def _bad(self, what: str) -> BadConfig:
        line = self._text.count("\n", 0, self._at) + 1
        return BadConfig(f"line {line}: {what}")
