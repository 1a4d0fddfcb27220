"""SQL92 filters answer as RocketMQ's do, refuse with the place, and stay small whatever they are given."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import BadFilter
from litemq.features.filters import SqlFilter, compile_filter
from litemq.features.filters.sql_lexer import MAX_LENGTH
from litemq.features.filters.sql_parser import MAX_DEPTH


def value(expression: str, properties: dict[str, str]) -> bool | None:
    """Return what the whole expression is: NULL and FALSE are the same to a message, not to NOT."""
    return SqlFilter(expression)._condition(properties)


# Every line was put to the classes of RocketMQ 5.4.0, which gave this answer.
ANSWERS: list[tuple[str, dict[str, str], bool | None]] = [
    ("a = 1", {"a": "1"}, True),
    ("a = 5", {"a": "+5"}, True),
    ("a = 5L", {"a": "5"}, True),
    ("a = 5.0", {"a": "5"}, True),
    ("a = 1e3", {"a": "1000"}, True),
    ("a = .5", {"a": "0.5"}, True),
    ("a = 5.", {"a": "5"}, True),
    ("a = 9007199254740992.0", {"a": "9007199254740993"}, True),
    ("a > 3.5", {"a": " 5 "}, True),
    ("a > -5", {"a": "-3"}, True),
    ("a > - -5", {"a": "6"}, True),
    ("a>=3 and b<=4", {"a": "3", "b": "4"}, True),
    ("a > b", {"a": "6", "b": "5.5"}, True),
    ("a > b", {"a": "6"}, None),
    ("a = TRUE", {"a": "TRUE"}, True),
    ("a = FALSE", {"a": "abc"}, True),
    ("a = b", {}, True),
    ("a = b", {"a": "1"}, False),
    ("a = b", {"b": "1"}, None),
    ("a = 1", {}, None),
    ("5 = a", {}, False),
    ("1 = TRUE", {}, False),
    ("a = 'it''s'", {"a": "it's"}, True),
    ("a = 'é'", {"a": "é"}, True),
    ("a <> 'x'", {"a": "y"}, True),
    ("a <> 'x'", {}, None),
    ("a BETWEEN 1 AND 3", {"a": "3"}, True),
    ("a BETWEEN 1 AND 3.5", {"a": "3"}, True),
    ("a BETWEEN b AND c", {"a": "2", "b": "1", "c": "3"}, True),
    ("a NOT BETWEEN 5 AND 3", {"a": "4"}, True),
    ("a BETWEEN 1 AND 2 AND b = 'x'", {"a": "1", "b": "x"}, True),
    ("a IN ('1', '2')", {"a": "1"}, True),
    ("a NOT IN ('1', '2')", {"a": "3"}, True),
    ("a NOT IN ('1', '2')", {}, None),
    ("a CONTAINS 'x'", {"a": "axb"}, True),
    ("a CONTAINS 'x'", {}, False),
    ("a CONTAINS ''", {"a": "xa"}, False),
    ("a NOT CONTAINS ''", {"a": "xa"}, False),
    ("a NOT CONTAINS 'x'", {"a": "axb"}, False),
    ("a NOT CONTAINS 'x'", {}, False),
    ("'abc' CONTAINS 'b'", {}, True),
    ("(a = 1) CONTAINS 'b'", {"a": "1"}, False),
    ("a STARTSWITH 'x'", {"a": "xa"}, True),
    ("a NOT STARTSWITH 'x'", {"a": "xa"}, False),
    ("a endswith 'x'", {"a": "ax"}, True),
    ("a NOT ENDSWITH 'x'", {"a": "xa"}, True),
    ("a IS NULL", {}, True),
    ("a IS NOT NULL", {"a": ""}, True),
    ("a IS NULL IS NULL", {}, False),
    ("NULL", {}, None),
    ("NULL IS NULL", {}, True),
    ("NOT TRUE", {}, False),
    ("NOT NULL", {}, None),
    ("NULL AND FALSE", {}, False),
    ("NULL OR TRUE", {}, True),
    ("NULL OR FALSE", {}, None),
    ("TAGS IS NOT NULL AND TAGS <> 'no'", {"TAGS": "yes"}, True),
    ("$a_1 = 'x'", {"$a_1": "x"}, True),
    ("(((a = 1)))", {"a": "1"}, True),
    ("(a) IN ('x')", {"a": "x"}, True),
    ("(a = 1) = TRUE", {"a": "1"}, True),
    ("a = (b = 'x')", {"a": "true", "b": "x"}, True),
    ("a = 1 = 1", {"a": "1"}, False),
    ("a = /* c */ 1", {"a": "1"}, True),
    ("a = -- c\n 1", {"a": "1"}, True),
]


@pytest.mark.parametrize(("expression", "properties", "answer"), ANSWERS)
def test_answers_of_rocketmq(expression: str, properties: dict[str, str], answer: bool | None) -> None:
    assert value(expression, properties) is answer
    assert SqlFilter(expression).evaluate(properties) is (answer is True)


@pytest.mark.parametrize(
    ("expression", "properties", "answer"),
    [
        ("a > 3", {"a": "3.5"}, True),
        ("a > 3", {"a": "3000000000"}, True),
        ("a = 5", {"a": "5.0"}, True),
        ("a > 3", {"a": "1" + "0" * 30_000}, True),
        ("a > 3", {"a": "abc"}, None),
        ("a <> 3", {"a": "abc"}, None),
        ("a > 3", {"a": ""}, None),
        ("a > 3", {"a": "6_0"}, None),
        ("a > b", {"a": "x", "b": "5"}, None),
        ("a = 5 OR b = 'x'", {"a": "abc", "b": "x"}, True),
        ("TRUE = a", {"a": "true"}, True),
    ],
)
def test_where_rocketmq_fails_with_an_error(expression: str, properties: dict[str, str], answer: bool | None) -> None:
    assert value(expression, properties) is answer


@pytest.mark.parametrize(
    ("expression", "column", "reason"),
    [
        ("", 1, "a property, a number"),
        ("a = = 1", 5, "found ="),
        ("a = 1 b", 7, "the end expected, found b"),
        ("a = 1)", 6, "the end expected, found )"),
        ("(a = 1", 7, "the ) for column 1 expected, found the end"),
        ("a like 'x'", 3, "the end expected, found like"),
        ("a = 007", 6, "found 0"),
        ("a != 1", 3, "<>"),
        ('a = "x"', 5, "single quotes"),
        ("a.b = 'x'", 2, "begins no word"),
        ("é = 'x'", 1, "begins no word"),
        ("a = 'x", 5, "closing quote"),
        ("a = /* x", 5, "the comment has no end"),
        ("a IS 5", 6, "NULL or NOT NULL expected"),
        ("a NOT 5", 7, "BETWEEN, IN"),
        ("a IN (1)", 7, "a text in single quotes expected, found 1"),
        ("a IN ()", 7, "a text in single quotes expected"),
        ("a IN ('x' 'y')", 11, ", or ) expected"),
        ("5 IN ('5')", 1, "a property expected"),
        ("a CONTAINS b", 12, "a text in single quotes expected"),
        ("a = NULL", 5, "IS NULL"),
        ("NULL <> a", 1, "IS NULL"),
        ("TRUE = 1", 8, "TRUE or FALSE expected"),
        ("a > 'x'", 5, "nothing else has an order"),
        ("TRUE < a", 1, "nothing else has an order"),
        ("a > 1 > 0", 1, "nothing else has an order"),
        ("a BETWEEN 'a' AND 'b'", 11, "nothing else has an order"),
        ("a BETWEEN NULL AND 3", 11, "nothing else has an order"),
        ("a BETWEEN 5 AND 3", 17, "below the lower one, 5"),
        ("a BETWEEN -3 AND -5", 18, "below the lower one, -3"),
        ("a BETWEEN 1 OR 2", 13, "AND expected, found OR"),
        ("a", 1, "write a = TRUE"),
        ("b = 'x' AND NOT a", 17, "write a = TRUE"),
        ("5 AND a = 1", 1, "a condition expected"),
        ("a = 1 OR 'x'", 10, "a condition expected"),
        ("NOT a = 1", 1, "NOT (…)"),
        ("b = 1 OR NOT a IS NULL", 10, "NOT (…)"),
        ("-a > 5", 2, "a number expected"),
        ("a > 9223372036854775808", 5, "9223372036854775807"),
        ("a > 1e999", 5, "1.8e308"),
        ("contains = 'x'", 1, "a property, a number"),
    ],
)
def test_refused_with_the_place(expression: str, column: int, reason: str) -> None:
    with pytest.raises(BadFilter) as caught:
        compile_filter(expression, "SQL92")
    assert caught.value.column == column
    assert reason in caught.value.reason
    assert f"column {column}: " in str(caught.value)


# -- bounds --------------------------------------------------------------------------------------


def test_length_is_bounded() -> None:
    fits = f"a = '{'x' * (MAX_LENGTH - 6)}'"
    assert SqlFilter(fits).evaluate({"a": "x" * (MAX_LENGTH - 6)})
    with pytest.raises(BadFilter, match="4097 characters"):
        SqlFilter(fits + " ")


def test_depth_is_bounded() -> None:
    assert SqlFilter("(" * MAX_DEPTH + "a = 1" + ")" * MAX_DEPTH).evaluate({"a": "1"})
    assert value("NOT " * MAX_DEPTH + "TRUE", {}) is True
    for expression in ("(" * (MAX_DEPTH + 1) + "a = 1" + ")" * (MAX_DEPTH + 1), "NOT " * (MAX_DEPTH + 1) + "TRUE"):
        with pytest.raises(BadFilter, match="at most 32 levels"):
            SqlFilter(expression)
    with pytest.raises(BadFilter, match="at most 32 comparisons"):
        SqlFilter("a = b" + " = b" * (MAX_DEPTH + 1))


def test_the_deepest_tree_that_is_taken() -> None:
    expression = "a = b" + "=b" * MAX_DEPTH
    for _ in range(MAX_DEPTH):
        expression = f"({expression})CONTAINS'x'=b AND a=b OR b=a"
    assert SqlFilter(expression).evaluate({}) is True


def test_many_conditions_in_a_row_are_no_depth() -> None:
    count = MAX_LENGTH // len("a=1 AND ")
    expression = " AND ".join(["a=1"] * count)
    assert SqlFilter(expression).evaluate({"a": "1"})
    assert SqlFilter(expression.replace("AND", "OR")).evaluate({"a": "1"})


@given(st.text(st.sampled_from("ab1.'()=<>-+ \n/*,$é\x00") | st.characters(), max_size=60))
def test_any_text_compiles_or_is_refused(expression: str) -> None:
    _compile_or_refuse(expression)


WORDS = ["AND", "OR", "NOT", "BETWEEN", "IN", "IS", "NULL", "TRUE", "CONTAINS", "a", "b", "1", "-", "'x'", "(", ")"]


@given(st.lists(st.sampled_from([*WORDS, "=", "<>", "<", ">=", ","]), max_size=14))
def test_any_words_compile_or_are_refused(words: list[str]) -> None:
    _compile_or_refuse(" ".join(words))


def _compile_or_refuse(expression: str) -> None:
    column = 1
    try:
        SqlFilter(expression).evaluate({"a": "1", "b": "x"})
    except BadFilter as error:
        column = error.column
    assert 1 <= column <= len(expression) + 1


# -- against an evaluator that shares nothing ----------------------------------------------------

Logic = bool | None
Written = tuple[str, Callable[[dict[str, str]], Logic]]
NAMES = ["a", "b", "TAGS"]
TEXTS = ["x", "xy", "it's", "1", "true", ""]
NUMBERS = ["0", "1", "-3", "4.5", "100"]


def decimal(text: str) -> Decimal | None:
    try:
        found = Decimal(text.strip())
    except InvalidOperation:
        return None
    return found if found.is_finite() else None


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def equals_text(name: str, text: str) -> Written:
    return f"{name} = {quoted(text)}", lambda p: p[name] == text if name in p else None


def ordered(name: str, sign: str, bound: str) -> Written:
    tests = {"<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1), "=": (0,)}

    def evaluate(p: dict[str, str]) -> Logic:
        found = decimal(p[name]) if name in p else None
        return None if found is None else int(found.compare(Decimal(bound))) in tests[sign]

    return f"{name} {sign} {bound}", evaluate


def between(name: str, bounds: list[str]) -> Written:
    low, high = sorted(bounds, key=Decimal)
    left, right = ordered(name, ">=", low)[1], ordered(name, "<=", high)[1]
    return f"{name} between {low} and {high}", lambda p: conjunction([left(p), right(p)])


def conjunction(values: list[Logic]) -> Logic:
    return False if False in values else None if None in values else True


def opposite(found: Logic) -> Logic:
    return None if found is None else not found


def negated(written: Written) -> Written:
    return f"NOT ({written[0]})", lambda p: opposite(written[1](p))


def joined(word: str, parts: list[Written]) -> Written:
    def evaluate(p: dict[str, str]) -> Logic:
        values = [part[1](p) for part in parts]
        return conjunction(values) if word == "AND" else opposite(conjunction([opposite(each) for each in values]))

    return f" {word} ".join(f"({part[0]})" for part in parts), evaluate


names = st.sampled_from(NAMES)
simple: st.SearchStrategy[Written] = st.one_of(
    st.builds(equals_text, names, st.sampled_from(TEXTS)),
    st.builds(ordered, names, st.sampled_from(["<", "<=", ">", ">=", "="]), st.sampled_from(NUMBERS)),
    st.builds(between, names, st.lists(st.sampled_from(NUMBERS), min_size=2, max_size=2)),
    names.map(lambda name: (f"{name} IS NULL", lambda p: name not in p)),
    names.map(
        lambda name: (f"{name} IN ('x', 'xy', '1')", lambda p: p[name] in ("x", "xy", "1") if name in p else None)
    ),
    names.map(lambda name: (f"{name} STARTSWITH 'x'", lambda p: p.get(name, "").startswith("x"))),
    names.map(lambda name: (f"{name} NOT CONTAINS 'y'", lambda p: name in p and "y" not in p[name])),
)
conditions: st.SearchStrategy[Written] = st.recursive(
    simple,
    lambda inner: (
        st.builds(negated, inner)
        | st.builds(joined, st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=4))
    ),
    max_leaves=8,
)


@given(conditions, st.dictionaries(names, st.sampled_from([*TEXTS, *NUMBERS, " 4.50 ", "1e2", "1.", "nan"])))
def test_same_as_an_independent_evaluator(written: Written, properties: dict[str, str]) -> None:
    assert value(written[0], properties) is written[1](properties)
