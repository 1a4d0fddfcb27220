"""SQL92 filters in RocketMQ's dialect: text to tree.

    condition  = all (OR all)*
    all        = equality (AND equality)*
    equality   = comparison (("=" | "<>") comparison | IS [NOT] NULL)*
    comparison = operand ( ("<" | "<=" | ">" | ">=") operand
                         | [NOT] BETWEEN operand AND operand
                         | [NOT] IN "(" text ("," text)* ")"
                         | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) text )*
    operand    = NOT operand | ["+" | "-"] number | text | property | TRUE | FALSE | NULL | "(" condition ")"

Refused here as in RocketMQ: < and > with anything but numbers and properties, = with NULL, IN with numbers, a BETWEEN
whose bounds fall.  Refused here alone, because what RocketMQ makes of them is not what they say: text behind the end
(it is ignored there), a comparison under NOT without parentheses (there NOT covers the property alone), a property as
a condition by itself (never true there), a sign before anything but a number (never a number there).
"""

from __future__ import annotations

from typing import Final, NoReturn

from litemq.errors import BadFilter
from litemq.features.filters.sql_lexer import Kind, Token, tokens
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
    is_condition,
)

MAX_DEPTH: Final = 32
"""Parentheses and NOTs within each other; and comparisons, beyond one each, of comparisons: ``a = b = c`` has one."""

_ORDERS: Final = frozenset(("<", "<=", ">", ">="))
_SEARCHES: Final = frozenset(("CONTAINS", "STARTSWITH", "ENDSWITH"))
_CONSTANTS: Final[dict[str, bool | None]] = {"TRUE": True, "FALSE": False, "NULL": None}
_OPERATORS: Final = frozenset(("=", "<>", "IS", "NOT", "BETWEEN", "IN")) | _ORDERS | _SEARCHES


def parse(expression: str) -> Node:
    """Return the condition that ``expression`` is.

    Raises:
        BadFilter: it is none; says the column and what was expected there.
    """
    return _Parser(expression).parse()


class _Parser:
    """One pass over the tokens of one expression."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens = tokens(expression)
        self._at = 0
        self._depth = 0
        self._chained = 0  # in the whole expression: parentheses and chains together must not make a deep tree

    def parse(self) -> Node:
        begin = self._next
        node = self._either()
        if self._next.kind is not Kind.END:
            self._refuse("AND, OR or the end expected")
        return self._checked(node, begin)

    # -- tokens ----------------------------------------------------------------------------------

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _is(self, *images: str) -> bool:
        """Return whether the next tokens are these keywords or signs."""
        ahead = self._tokens[self._at : self._at + len(images)]
        return len(ahead) == len(images) and all(
            token.image == image and token.kind in (Kind.WORD, Kind.SIGN)
            for token, image in zip(ahead, images, strict=True)
        )

    def _take(self, *images: str) -> bool:
        """Step over these keywords or signs if they are next."""
        found = self._is(*images)
        if found:
            self._at += len(images)
        return found

    def _expect(self, image: str) -> None:
        if not self._take(image):
            self._refuse(f"{image} expected")

    def _text(self) -> str:
        token = self._next
        if token.kind is not Kind.TEXT or not isinstance(token.value, str):
            self._refuse("a text in single quotes expected")
        self._at += 1
        return token.value

    def _refuse(self, reason: str, at: Token | None = None) -> NoReturn:
        """Raise, at the next token unless told where."""
        if at is None:
            at = self._next
            reason = f"{reason}, found {at}"
        raise BadFilter(reason, self._expression, at.column)

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._refuse(f"at most {MAX_DEPTH} levels are taken", self._next)

    # -- conditions ------------------------------------------------------------------------------

    def _either(self) -> Node:
        begin = self._next
        first = self._all()
        if not self._is("OR"):
            return first
        parts = [self._checked(first, begin)]
        while self._take("OR"):
            begin = self._next
            parts.append(self._checked(self._all(), begin))
        return Either(tuple(parts))

    def _all(self) -> Node:
        begin = self._next
        first = self._equality()
        if not self._is("AND"):
            return first
        parts = [self._checked(first, begin)]
        while self._take("AND"):
            begin = self._next
            parts.append(self._checked(self._equality(), begin))
        return All(tuple(parts))

    def _checked(self, node: Node, begin: Token) -> Node:
        if not is_condition(node):
            if isinstance(node, Property):
                self._refuse(f"a property by itself is no condition: write {node.name} = TRUE", begin)
            self._refuse("a condition expected", begin)
        return node

    def _equality(self) -> Node:
        begin = self._next
        node = self._comparison()
        chained = False
        while True:
            sign = self._next
            if self._take("=") or self._take("<>"):
                node = self._equal(node, begin, sign)
            elif self._take("IS", "NULL"):
                node = IsNull(node)
            elif self._take("IS", "NOT", "NULL"):
                node = Not(IsNull(node))
            elif self._take("IS"):
                self._refuse("NULL or NOT NULL expected")
            else:
                return node
            if chained:
                self._chain(sign)
            chained = True

    def _equal(self, left: Node, begin: Token, sign: Token) -> Node:
        operand = self._next
        right = self._comparison()
        for side, at in ((left, begin), (right, operand)):
            if side == Literal(None):
                self._refuse("NULL equals nothing: write IS NULL or IS NOT NULL", at)
        if (
            isinstance(left, Literal)
            and isinstance(left.value, bool)
            and isinstance(right, Literal)
            and not isinstance(right.value, bool)
        ):
            self._refuse("TRUE or FALSE expected", operand)
        node = Equal(left, right)
        return node if sign.image == "=" else Not(node)

    def _chain(self, sign: Token) -> None:
        """Count a comparison whose left side is a comparison."""
        self._chained += 1
        if self._chained > MAX_DEPTH:
            self._refuse(f"at most {MAX_DEPTH} comparisons of comparisons are taken", sign)

    # -- comparisons -----------------------------------------------------------------------------

    def _comparison(self) -> Node:
        begin = self._next
        node = self._operand()
        chained = False
        while True:
            sign = self._next
            if sign.kind is Kind.SIGN and sign.image in _ORDERS:
                self._at += 1
                node = self._order(sign.image, node, begin)
            elif self._is_negatable(sign):
                node = self._negatable(node, begin)
            else:
                return node
            if chained:
                self._chain(sign)
            chained = True

    def _is_negatable(self, token: Token) -> bool:
        """Return whether BETWEEN, IN, CONTAINS …, or NOT and one of them, comes next."""
        return token.kind is Kind.WORD and token.image in ("NOT", "BETWEEN", "IN", *_SEARCHES)

    def _negatable(self, left: Node, begin: Token) -> Node:
        negated = self._take("NOT")
        if self._take("BETWEEN"):
            return self._between(left, begin, negated=negated)
        if self._take("IN"):
            return self._one_of(left, begin, negated=negated)
        word = self._next
        if word.kind is not Kind.WORD or word.image not in _SEARCHES:
            self._refuse("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH expected")
        self._at += 1
        return Search(word.image, left, self._text(), negated)

    def _order(self, sign: str, left: Node, begin: Token) -> Node:
        operand = self._next
        right = self._operand()
        self._check_ordered(left, begin)
        self._check_ordered(right, operand)
        return Order(sign, left, right)

    def _between(self, value: Node, begin: Token, *, negated: bool) -> Node:
        low_at = self._next
        low = self._operand()
        self._expect("AND")
        high_at = self._next
        high = self._operand()
        for side, at in ((value, begin), (low, low_at), (high, high_at)):
            self._check_ordered(side, at)
        if negated:
            return Either((Order("<", value, low), Order(">", value, high)))
        # Only numbers are left among the literals.
        if (
            isinstance(low, Literal)
            and isinstance(high, Literal)
            and isinstance(low.value, int | float)
            and isinstance(high.value, int | float)
            and low.value > high.value
        ):
            self._refuse(f"the upper bound is below the lower one, {low.value}", high_at)
        return All((Order(">=", value, low), Order("<=", value, high)))

    def _check_ordered(self, node: Node, at: Token) -> None:
        """Only numbers have an order, and properties, which may be numbers."""
        if isinstance(node, Property):
            return
        if isinstance(node, Literal) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return
        self._refuse("a number or a property expected: nothing else has an order", at)

    def _one_of(self, left: Node, begin: Token, *, negated: bool) -> Node:
        if not isinstance(left, Property):
            self._refuse("a property expected before IN", begin)
        self._expect("(")
        texts = [self._text()]
        while self._take(","):
            texts.append(self._text())
        if not self._take(")"):
            self._refuse(", or ) expected")
        node = OneOf(left.name, frozenset(texts))
        return Not(node) if negated else node

    # -- operands --------------------------------------------------------------------------------

    def _operand(self) -> Node:
        token = self._next
        if self._take("NOT"):
            return self._not(token)
        if self._take("("):
            return self._parenthesized(token)
        if self._is("+") or self._is("-"):
            return self._signed()
        if token.kind in (Kind.TEXT, Kind.NUMBER):
            node: Node = Literal(token.value)
        elif token.kind is Kind.NAME:
            node = Property(token.image)
        elif token.kind is Kind.WORD and token.image in _CONSTANTS:
            node = Literal(_CONSTANTS[token.image])
        else:
            self._refuse("a property, a number, a text, TRUE, FALSE, NOT or ( expected")
        self._at += 1
        return node

    def _not(self, token: Token) -> Node:
        self._enter()
        begin = self._next
        operand = self._operand()
        self._depth -= 1
        if self._next.kind in (Kind.WORD, Kind.SIGN) and self._next.image in _OPERATORS:
            self._refuse("NOT before a comparison needs parentheses: write NOT (…)", token)
        return Not(self._checked(operand, begin))

    def _parenthesized(self, token: Token) -> Node:
        self._enter()
        node = self._either()  # a lone value in parentheses is still that value
        self._depth -= 1
        if not self._take(")"):
            self._refuse(f"AND, OR or the ) for column {token.column} expected")
        return node

    def _signed(self) -> Node:
        negative = False
        while self._is("+") or self._is("-"):
            negative ^= self._next.image == "-"
            self._at += 1
        token = self._next
        if token.kind is not Kind.NUMBER or isinstance(token.value, str):
            self._refuse("a number expected behind the sign")
        self._at += 1
        return Literal(-token.value if negative else token.value)
