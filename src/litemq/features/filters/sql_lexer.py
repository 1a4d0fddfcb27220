"""Words of an SQL92 filter, each with its column.

    word        one of KEYWORDS, in any case; cannot be the name of a property
    name        [A-Za-z_$][A-Za-z0-9_$]*: a property, case matters
    number      5  5L  5.5  5.  .5  5e10; no sign, no leading zeros
    text        '…', a quote within is doubled
    sign        ( ) , = <> < <= > >= + -

Blanks and comments (-- to the end of the line, /* … */) stand between words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from litemq.errors import BadFilter

MAX_LENGTH: Final = 4096
"""Characters of a filter."""

KEYWORDS: Final = frozenset(
    ("AND", "OR", "NOT", "BETWEEN", "IN", "IS", "NULL", "TRUE", "FALSE", "CONTAINS", "STARTSWITH", "ENDSWITH")
)
MAX_LONG: Final = (1 << 63) - 1

# Every alternative begins with another character, so that nothing is tried twice.
_WORD = re.compile(
    r"""(?P<blank>[ \t\n\r\f]+|--[^\n\r]*|/\*(?:[^*]|\*(?!/))*+\*/)
      | (?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
      | (?P<float>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
      | (?P<integer>(?:0|[1-9][0-9]*)[lL]?)
      | (?P<text>'(?:[^']|'')*+')
      | (?P<sign><>|<=|>=|[()=<>,+-])""",
    re.VERBOSE,
)


class Kind(Enum):
    """What a token is."""

    WORD = "a keyword"
    NAME = "a property"
    NUMBER = "a number"
    TEXT = "a text"
    SIGN = "a sign"
    END = "the end"


@dataclass(frozen=True, slots=True)
class Token:
    """One word; ``image`` is how it was written (keywords: in capitals), ``column`` begins at 1."""

    kind: Kind
    image: str
    column: int
    value: str | int | float = ""

    def __str__(self) -> str:
        return "the end" if self.kind is Kind.END else self.image


def tokens(expression: str) -> list[Token]:
    """Return the words of ``expression``, the last one being the end.

    Raises:
        BadFilter: it is too long, or a character begins no word.
    """
    if len(expression) > MAX_LENGTH:
        raise BadFilter(f"{len(expression)} characters, at most {MAX_LENGTH} are taken", expression, MAX_LENGTH + 1)
    found = []
    at = 0
    while at < len(expression):
        match = _WORD.match(expression, at)
        if match is None:
            raise BadFilter(_no_word(expression, at), expression, at + 1)
        if match.lastgroup != "blank":
            found.append(_token(match, expression))
        at = match.end()
    found.append(Token(Kind.END, "", at + 1))
    return found


def _token(match: re.Match[str], expression: str) -> Token:
    image = match[0]
    column = match.start() + 1
    match match.lastgroup:
        case "name":
            if image.upper() in KEYWORDS:
                return Token(Kind.WORD, image.upper(), column)
            return Token(Kind.NAME, image, column)
        case "integer" | "float":
            return Token(Kind.NUMBER, image, column, _number(image, expression, column))
        case "text":
            return Token(Kind.TEXT, image, column, image[1:-1].replace("''", "'"))
        case _:
            return Token(Kind.SIGN, image, column)


def _number(image: str, expression: str, column: int) -> int | float:
    digits = image.rstrip("lL")
    if digits.isdigit():
        # 19 digits first: a number of thousands of them takes quadratic time.
        if len(digits) > 19 or int(digits) > MAX_LONG:
            raise BadFilter(f"a whole number up to {MAX_LONG} expected", expression, column)
        return int(digits)
    value = float(image)
    if value == float("inf"):
        raise BadFilter("a number below 1.8e308 expected", expression, column)
    return value


def _no_word(expression: str, at: int) -> str:
    if expression[at] == "'":
        return "the text has no closing quote"
    if expression.startswith("/*", at):
        return "the comment has no end"
    if expression[at] == '"':
        return "a text stands in single quotes"
    if expression.startswith("!=", at):
        return "unequal is written <>"
    return f"{expression[at]!r} begins no word"
