"""What can be said of a query before Spark sees it: whether it only reads, and which names are in it.

Read as words, not parsed: Spark does that, and says best what is wrong.  What is said here errs on the safe side.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from litemq.spark.errors import BadQuery

READING: Final = ("SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "VALUES")
_WRITING: Final = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})
_MAIN: Final = frozenset({"SELECT", "VALUES", "FROM", "TABLE", *_WRITING})
_OF_ALL_COLUMNS: Final = frozenset({"NATURAL", "TABLE", "PIVOT", "UNPIVOT", "DESCRIBE", "DESC", "SHOW", "|>"})
"""Words with which columns count that are not named."""

_EXPLAIN: Final = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*EXPLAIN\s+(?:(?:EXTENDED|CODEGEN|COST|FORMATTED)\s+)?", re.IGNORECASE | re.DOTALL
)
_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?\*/)
      |(?P<text>[rR]?'(?:[^'\\]|\\.|'')*'|[rR]?"(?:[^"\\]|\\.|"")*")
      |`(?P<quoted>(?:[^`]|``)*)`
      |(?P<word>[^\W\d]\w*)
      |(?P<mark>\|>|.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Query:
    """A query and the names in it."""

    text: str
    names: frozenset[str]
    """All words and quoted names, in lower case; texts and comments are none."""
    needs_all_columns: bool
    """Whether columns may count that are not named."""
    explained: str
    """What is behind EXPLAIN; empty for other statements."""

    def names_one(self, name: str) -> bool:
        """Return whether a name is in the query, in whatever case."""
        return name.lower() in self.names


def read_query(text: str) -> Query:
    """Return a query that only reads.

    Raises:
        BadQuery: it is empty, or does more than that.
    """
    text = text.strip().rstrip(";").rstrip()
    tokens = _tokens(text)
    words = [token for token in tokens if token not in "();"]
    if not words:
        raise BadQuery('the query is empty; for example: litemq sql "SELECT topic, messages FROM topics"')
    first = words[0].upper()
    if first not in READING:
        raise BadQuery(
            f"{first} is refused: litemq sql only reads, by SELECT, WITH, VALUES, SHOW, DESCRIBE and EXPLAIN; "
            "messages are written by litemq pipeline import and litemq pipeline replay"
        )
    verb = _main_verb(tokens) if first == "WITH" else first
    if verb in _WRITING:
        raise BadQuery(f"WITH … {verb} is refused: litemq sql only reads; write WITH … SELECT")
    inner = text[match.end() :] if (match := _EXPLAIN.match(text)) else ""
    if inner:
        read_query(inner)
    return Query(text, frozenset(token.lower() for token in words), _needs_all_columns(tokens), inner)


def _tokens(text: str) -> list[str]:
    """Return words, quoted names and marks; comments and texts are left out, but a text leaves its place."""
    found = []
    for match in _TOKEN.finditer(text):
        if match["quoted"] is not None:
            found.append(match["quoted"].replace("``", "`"))
        elif match["text"] is not None:
            found.append("''")
        elif match["skip"] is None:
            found.append(match[0])
    return found


def _main_verb(tokens: list[str]) -> str:
    """Return what a WITH does: its first verb that is in no brackets."""
    depth = 0
    for token in tokens:
        depth += (token == "(") - (token == ")")
        if depth == 0 and token.upper() in _MAIN:
            return token.upper()
    return ""


def _needs_all_columns(tokens: list[str]) -> bool:
    upper = [token.upper() for token in tokens]
    for at, token in enumerate(upper):
        if token in _OF_ALL_COLUMNS:
            return True
        if token == "*" and upper[at - 2 : at] != ["COUNT", "("]:
            return True
        if token == "FROM" and upper[at - 1 : at] == ["("]:  # a FROM without SELECT gives all
            return True
    return False
