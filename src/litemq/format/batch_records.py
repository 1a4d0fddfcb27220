"""Records of ``LITEMQ_SYS_STAGE``: facts about batch transactions, in the order in which they became true.

    at  size  field
     0     1  version, 1
     1     1  kind
     2     4  size of the object, big-endian
     6     …  one JSON object, UTF-8; its members are the fields of the fact's class
     …     …  staged: messages as in the body of a batch (request 320), each with two numbers more, see ``_staged_cy``

    kind
    1  staged       rows of an attempt of a partition
    2  ended        a decision, with its winners; on the coordinator it is the commit point
    3  dropped      staged rows that nobody wants any more; the transaction stays open
    4  publishing   winning messages ``first`` to ``first + count - 1`` follow directly, as far as the log goes
    5  published    all of them are in their topics
    6  confirmed    a broker has the decision in its log

What is carried (decision 9) is said again as the same kind of fact: ``staged`` with the first position in ``__ORIGIN``,
``ended`` with how far it was published and who confirmed it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeVar

VERSION: Final = 1
_HEAD: Final = 6


class Kind(IntEnum):
    """What a record says."""

    STAGED = 1
    ENDED = 2
    DROPPED = 3
    PUBLISHING = 4
    PUBLISHED = 5
    CONFIRMED = 6


class Winner(NamedTuple):
    """The attempt of a partition that counts, and how many rows it has on each broker."""

    partition: int
    attempt: int
    rows: dict[str, int]


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows of an attempt; ``queues`` of a topic are counted when its rows are published."""

    producer_id: str
    epoch: int
    partition: int
    attempt: int
    sequence: int
    """The how-manieth request of this attempt on this broker, from 0."""
    coordinator: str
    count: int
    size: int
    """Bytes of the messages."""
    checksum: int
    """CRC-32C of the messages."""
    topics: tuple[str, ...]
    born_ms: int
    born_host: str


@dataclass(frozen=True, slots=True)
class Ended:
    """How a transaction ended."""

    producer_id: str
    epoch: int
    is_committed: bool
    winners: tuple[Winner, ...]
    """Those of all brokers on the coordinator, those of this broker elsewhere."""
    coordinator: str
    reason: str
    used_ms: int
    """When it was ended, or asked about last."""
    rows: int = 0
    """Of all winners on all brokers."""
    published: int = 0
    """Winning messages of this broker that are in their topics; -1: all."""
    confirmed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dropped:
    """Staged rows that do not count any more: of one attempt, or of all (-1)."""

    producer_id: str
    epoch: int
    partition: int = -1
    attempt: int = -1


@dataclass(frozen=True, slots=True)
class Publishing:
    """Messages that follow."""

    producer_id: str
    epoch: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Published:
    """The end of a publication."""

    producer_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A broker that has the decision."""

    producer_id: str
    epoch: int
    broker: str


Fact = Staged | Ended | Dropped | Publishing | Published | Confirmed

_CLASSES: Final[dict[int, type[Fact]]] = {
    Kind.STAGED: Staged,
    Kind.ENDED: Ended,
    Kind.DROPPED: Dropped,
    Kind.PUBLISHING: Publishing,
    Kind.PUBLISHED: Published,
    Kind.CONFIRMED: Confirmed,
}
_KINDS: Final = {of: kind for kind, of in _CLASSES.items()}

T = TypeVar("T")


def encode(fact: Fact, messages: bytes = b"") -> bytes:
    """Return the body of a record."""
    text = to_text(fact).encode()
    return b"".join((bytes((VERSION, _KINDS[type(fact)])), len(text).to_bytes(4, "big"), text, messages))


def decode(body: bytes) -> tuple[Fact, int] | None:
    """Return what a body says, and where its messages begin; None for a kind of a later version.

    Raises:
        ValueError: it cannot be read.
    """
    if len(body) < _HEAD:
        raise ValueError(f"{len(body)} bytes are no fact")
    kind = _CLASSES.get(body[1])
    if body[0] != VERSION or kind is None:
        return None
    end = _HEAD + int.from_bytes(body[2:_HEAD], "big")
    if end > len(body):
        raise ValueError("the object does not end")
    return _from_json(kind, json.loads(body[_HEAD:end])), end


def to_text(fact: Fact) -> str:
    """Return the JSON object."""
    return json.dumps(asdict(fact), ensure_ascii=False, separators=(",", ":"))


def from_text(kind: type[T], text: str) -> T:
    """Return the fact that a JSON object tells.

    Raises:
        ValueError: it cannot be read.
    """
    return _from_json(kind, json.loads(text))


def read_winners(found: object) -> tuple[Winner, ...]:
    """Return winners of JSON: ``[[partition, attempt, {broker: rows}], …]``.

    Raises:
        ValueError: it is something else; the text says where.
    """
    if not isinstance(found, list):
        raise ValueError("the winners are no list")
    answer = []
    for number, item in enumerate(found):
        match item:
            case [int() as partition, int() as attempt, dict() as rows] if (
                type(partition) is type(attempt) is int  # true is none
            ) and all(broker.isprintable() and type(count) is int and count >= 0 for broker, count in rows.items()):
                answer.append(Winner(partition, attempt, rows))
            case _:
                raise ValueError(
                    f"winner {number} is {str(item)[:80]}, it must be [partition, attempt, {{broker: rows}}]"
                )
    return tuple(answer)


def _from_json(kind: type[T], found: Any) -> T:  # noqa: ANN401 - as JSON has it
    try:
        if kind is Ended:
            found["winners"] = read_winners(found["winners"])
            found["confirmed"] = tuple(found.get("confirmed", ()))
        elif kind is Staged:
            found["topics"] = tuple(found["topics"])
        return kind(**found)
    except (KeyError, TypeError) as error:
        raise ValueError(f"a {kind.__name__} cannot be read: {error}") from error
