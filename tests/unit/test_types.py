"""A message is checked when it is made: both builds refuse the same, in the same words."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import pytest

from litemq import _plain
from litemq.types import Message, MessageType, Status

PLAIN = _plain.load_plain("litemq._message_cy")
NUMBERS = {
    "queue_id": (-(1 << 31), (1 << 32) - 1),
    "type": (0, 4),
    "priority": (0, 255),
    "reliability": (0, 3),
    "delay_time": (0, (1 << 64) - 1),
    "status": (0, 3),
    "born_time": (0, (1 << 64) - 1),
    "flag": (-(1 << 31), (1 << 31) - 1),
    "sys_flag": (-(1 << 31), (1 << 31) - 1),
    "reconsume_times": (-(1 << 31), (1 << 32) - 1),
    "prepared_offset": (-(1 << 63), (1 << 63) - 1),
    "consume_start_time": (0, (1 << 64) - 1),
    "consume_end_time": (0, (1 << 64) - 1),
}
WANTED = {
    **dict.fromkeys(("topic", "message_id", "transaction_id", "sharding_key", "born_host"), "str"),
    **dict.fromkeys(("tags", "keys"), "a tuple of str"),
    **dict.fromkeys(NUMBERS, "int"),
    "sys_flag": "int or None",
    "body": "bytes",
    "properties": "a dict of str to str",
    "broadcast": "bool",
}


class Five(IntEnum):
    """A number with a name."""

    FIVE = 5


class Text(str):
    """Something like a ``StrEnum``."""


class Everything:
    """Has all the methods that a number may be made with."""

    def __int__(self) -> int:
        return 1

    __index__ = __int__

    def __float__(self) -> float:
        return 1.0


EDGES = [edge for power in (1, 2, 8, 31, 32, 63, 64, 200, 100_000) for edge in (1 << power, (1 << power) - 1)]
ODD: list[Any] = [
    *(None, True, False, 0, 1, 3, 4, 5, 1.0, 1.9, float("nan"), float("inf"), 1j, Five.FIVE, Everything()),
    *("", "text", "1", "\ud800", Text("text"), b"", b"text", bytearray(b"text"), memoryview(b"text")),
    *((), ("a",), (5,), [], ["a"], {}, {"a": "b"}, {5: 5}, {"a"}, object(), int, Message("t", b"")),
    *EDGES,
    *(-edge for edge in EDGES),
]


def made(kind: type[Message], name: str, value: object) -> tuple[str, str, object]:
    """Return how a message with one odd field comes out: the error, or the field and all that is seen of it."""
    fields: dict[str, object] = {"topic": "t", "body": b"b", name: value}
    try:
        message = kind(**fields)  # type: ignore[arg-type]
    except Exception as error:  # noqa: BLE001 - any: that is the question
        return type(error).__name__, str(error), None
    found = getattr(message, name)
    return "", f"{type(found).__name__} {message!r}", found


def test_every_field_is_looked_at() -> None:
    assert set(WANTED) == set(Message.__slots__)


@pytest.mark.parametrize("name", WANTED)
def test_both_builds_make_the_same_of_odd_values(name: str) -> None:
    for value in ODD:
        assert made(Message, name, value) == made(PLAIN.Message, name, value), f"{type(value).__name__} as {name}"


@pytest.mark.parametrize("kind", [Message, PLAIN.Message], ids=["this build", "plain"])
@pytest.mark.parametrize("name", WANTED)
def test_a_wrong_type_is_named(name: str, kind: type[Message]) -> None:
    for value in (object(), 1.5, bytearray(b"a"), ["a"], Text("a"), Everything()):
        expected = ("TypeError", f"{name} must be {WANTED[name]}, not {type(value).__name__}", None)
        assert made(kind, name, value) == expected


@pytest.mark.parametrize("kind", [Message, PLAIN.Message], ids=["this build", "plain"])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_out_of_range_is_named(name: str, kind: type[Message]) -> None:
    low, high = NUMBERS[name]
    for value in (low, high):
        assert made(kind, name, value)[2] == value
    for value in (low - 1, high + 1):
        assert made(kind, name, value) == ("ValueError", f"{name} is {value}, it must be {low} to {high}", None)
    huge = f"{name} is a number of 100001 bits, it must be {low} to {high}"
    assert made(kind, name, 1 << 100_000) == ("ValueError", huge, None)


@pytest.mark.parametrize("kind", [Message, PLAIN.Message], ids=["this build", "plain"])
def test_what_users_write_is_taken(kind: type[Message]) -> None:
    message = kind("t", b"b", tags=("a",), type=MessageType.DELAY, status=Status.COMMITTED, broadcast=True)
    assert (message.type, message.status, message.broadcast) == (1, 2, True)
    assert [type(value) for value in (message.type, message.status)] == [int, int]
    assert made(kind, "queue_id", True) == ("TypeError", "queue_id must be int, not bool", None)
    assert made(kind, "broadcast", 1) == ("TypeError", "broadcast must be bool, not int", None)
    assert made(kind, "tags", "loud") == ("TypeError", "tags must be a tuple of str, not str", None)
