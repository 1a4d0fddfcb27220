"""What an SQL92 filter means: the tree between parser and evaluation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that stands in the expression."""

    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Property:
    """A property of the message: a text, or NULL where it has none."""

    name: str


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; NULL stays NULL."""

    operand: Node


@dataclass(frozen=True, slots=True)
class All:
    """AND of two or more conditions."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """OR of two or more conditions."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Equal:
    """left = right."""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Order:
    """left < right and its kin; ``sign`` is one of < <= > >=."""

    sign: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class OneOf:
    """name IN (…)."""

    name: str
    texts: frozenset[str]


@dataclass(frozen=True, slots=True)
class Search:
    """left CONTAINS text and its kin; FALSE, even with NOT, where left is no text."""

    word: str
    left: Node
    text: str
    negated: bool


@dataclass(frozen=True, slots=True)
class IsNull:
    """left IS NULL."""

    left: Node


Node = Literal | Property | Not | All | Either | Equal | Order | OneOf | Search | IsNull


def is_condition(node: Node) -> bool:
    """Return whether a node is TRUE, FALSE or NULL, never a text or a number."""
    if isinstance(node, Literal):
        return node.value is None or isinstance(node.value, bool)
    return not isinstance(node, Property)
