"""SQL92 filters in RocketMQ's dialect: tree to closures.

Three-valued: a closure returns True, False or None (NULL, unknown); a message matches on True only.  Properties are
texts.  Rules of RocketMQ that are not SQL's:

- ``a = b`` is TRUE when both are missing, NULL when only a is, FALSE when only b is.
- Text against TRUE or FALSE: "true" in any case is TRUE, every other text FALSE.
- Text against a number: as numbers.  Text against text with < and >: as numbers, too.
- CONTAINS and its kin are FALSE, with NOT as well, where the property is missing or the text to look for is empty.

Where RocketMQ fails with an error, and leaves the message out, the comparison is unknown here, so that the rest of the
expression may still decide: a text that is no number against a number.  And where it fails only because of Java's
types, the numbers are compared: '3.5' and '3000000000' are above 3.  A number is decimal, ``[+-]digits[.digits][e…]``
with blanks around it; 0x10, NaN and 1d are none.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Final, assert_never

from litemq.features.filters.sql_parser import parse
from litemq.features.filters.sql_tree import (
    All,
    Either,
    Equal,
    IsNull,
    Literal,
    Node,
    Not,
    OneOf,
    Order,
    Property,
    Search,
)

Value = str | int | float | bool | None
Properties = Mapping[str, str]
Condition = Callable[[Properties], bool | None]
_Operand = Callable[[Properties], Value]
_Comparator = Callable[[float, float], bool]

_ORDERS: Final[dict[str, _Comparator]] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_NUMBER = re.compile(
    r"[ \t\r\n]*([+-]?(?:([0-9]+)|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[ \t\r\n]*", re.ASCII
)
_EXACT_DIGITS: Final = 19  # of a long; more are compared as floats, like RocketMQ's doubles


class SqlFilter:
    """A compiled SQL92 filter; needs a message's properties, queue entries say nothing about it."""

    hashes: frozenset[int] | None = None
    is_all = False

    def __init__(self, expression: str) -> None:
        self.expression = expression
        self._condition = _condition(parse(expression))

    def evaluate(self, properties: Properties) -> bool:
        """Return whether a message with these properties matches."""
        return self._condition(properties) is True

    def __repr__(self) -> str:
        return f"SqlFilter({self.expression!r})"


def number(text: str) -> int | float | None:
    """Return the number that a property's text is; None when it is none."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    return int(match[1]) if match[2] is not None and len(match[2]) <= _EXACT_DIGITS else float(match[1])


def _condition(node: Node) -> Condition:
    match node:
        case Not():
            return _not(node)
        case All():
            return _all(tuple(_condition(part) for part in node.parts))
        case Either():
            return _either(tuple(_condition(part) for part in node.parts))
        case Equal():
            return _equal(node.left, node.right)
        case Order():
            return _order(node)
        case OneOf():
            return _one_of(node)
        case Search():
            return _search(node)
        case IsNull():
            left = _operand(node.left)
            return lambda properties: left(properties) is None
        case Literal() | Property():
            return _constant(node)
        case _:
            assert_never(node)


def _constant(node: Literal | Property) -> Condition:
    assert isinstance(node, Literal)  # the parser lets no property be a condition,
    value = node.value
    assert value is None or isinstance(value, bool)  # and no text or number either
    return lambda properties: value


def _operand(node: Node) -> _Operand:
    if isinstance(node, Property):
        name = node.name
        return lambda properties: properties.get(name)
    if isinstance(node, Literal):
        value = node.value
        return lambda properties: value
    return _condition(node)


# -- logic ---------------------------------------------------------------------------------------


def _not(node: Not) -> Condition:
    inner = _condition(node.operand)

    def evaluate(properties: Properties) -> bool | None:
        value = inner(properties)
        return None if value is None else not value

    return evaluate


def _all(parts: tuple[Condition, ...]) -> Condition:
    def evaluate(properties: Properties) -> bool | None:
        answer: bool | None = True
        for part in parts:
            value = part(properties)
            if value is False:
                return False
            if value is None:
                answer = None
        return answer

    return evaluate


def _either(parts: tuple[Condition, ...]) -> Condition:
    def evaluate(properties: Properties) -> bool | None:
        answer: bool | None = False
        for part in parts:
            value = part(properties)
            if value:
                return True
            if value is None:
                answer = None
        return answer

    return evaluate


# -- comparisons ---------------------------------------------------------------------------------


def _equal(left: Node, right: Node) -> Condition:
    if isinstance(left, Property) and isinstance(right, Literal) and isinstance(right.value, str):
        # The most frequent one, in one step.
        name, text = left.name, right.value

        def equals_text(properties: Properties) -> bool | None:
            found = properties.get(name)
            return None if found is None else found == text

        return equals_text

    first, second = _operand(left), _operand(right)

    def evaluate(properties: Properties) -> bool | None:
        return _are_equal(first(properties), second(properties))

    return evaluate


def _are_equal(left: Value, right: Value) -> bool | None:
    if left is None:
        return True if right is None else None
    if right is None:
        return False
    if isinstance(left, str):
        return left == right if isinstance(right, str) else _text_equals(left, right)
    if isinstance(right, str):
        return _text_equals(right, left)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return _compare(operator.eq, left, right)


def _text_equals(text: str, value: float | bool) -> bool | None:
    if isinstance(value, bool):
        return (text.lower() == "true") is value
    return _compare(operator.eq, number(text), value)


def _order(node: Order) -> Condition:
    compare = _ORDERS[node.sign]
    first, second = _number_of(node.left), _number_of(node.right)
    return lambda properties: _compare(compare, first(properties), second(properties))


def _compare(compare: _Comparator, left: float | None, right: float | None) -> bool | None:
    if left is None or right is None:
        return None
    if type(left) is not type(right):
        # A whole number beside a fraction is a double in RocketMQ, with a double's precision.
        return compare(float(left), float(right))
    return compare(left, right)


def _number_of(node: Node) -> Callable[[Properties], float | None]:
    """Return what gives the number that a literal or a property is."""
    if isinstance(node, Literal):
        value = node.value
        assert isinstance(value, int | float)  # the parser lets nothing else be ordered
        return lambda properties: value
    assert isinstance(node, Property)
    name = node.name

    def read(properties: Properties) -> float | None:
        text = properties.get(name)
        return None if text is None else number(text)

    return read


def _one_of(node: OneOf) -> Condition:
    name, texts = node.name, node.texts

    def evaluate(properties: Properties) -> bool | None:
        found = properties.get(name)
        return None if found is None else found in texts

    return evaluate


def _search(node: Search) -> Condition:
    left, text, negated = _operand(node.left), node.text, node.negated
    holds: Callable[[str, str], bool] = {
        "CONTAINS": str.__contains__,
        "STARTSWITH": str.startswith,
        "ENDSWITH": str.endswith,
    }[node.word]

    def evaluate(properties: Properties) -> bool | None:
        found = left(properties)
        return isinstance(found, str) and bool(text) and holds(found, text) is not negated

    return evaluate
