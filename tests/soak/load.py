"""What the soak sends and consumes: topics, groups, and which messages fail."""

from __future__ import annotations

from tests.support.push_consumer import GroupSpec

QUEUES = 4
ORDERS, TAGGED, BATCHES, RETRIED = "orders", "tagged", "batches", "retried"
TOPICS = (ORDERS, TAGGED, BATCHES, RETRIED)
TAGS = ("a", "b", "c")
MAX_RETRIES = 2

GROUPS = {
    "in-order": GroupSpec({ORDERS: "*"}, is_ordered=True),
    "some-tags": GroupSpec({TAGGED: "a || b"}),
    "everything": GroupSpec({TAGGED: "*", BATCHES: "*"}),
    "again": GroupSpec({RETRIED: "*"}, max_retries=MAX_RETRIES),
}


def body_of(topic: str, serial: int, *, tag: str = "") -> bytes:
    """Return the body of a message: it says who it is."""
    return f"{topic}:{serial}:{tag}:".encode() + b"x" * (serial * 37 % 700)


def identity(body: bytes) -> tuple[str, int, str]:
    """Return topic, serial and tag of a message, wherever it is found."""
    topic, serial, tag, _ = body.split(b":", 3)
    return topic.decode(), int(serial), tag.decode()


def tag_of(serial: int) -> str:
    """Return the tag of a message of the tagged topic."""
    return TAGS[serial % len(TAGS)]


def wants(group: str, topic: str, serial: int) -> bool:
    """Return whether a group must get a message."""
    spec = GROUPS[group]
    return topic in spec.topics and (group != "some-tags" or tag_of(serial) != "c")


def fails(serial: int, times: int) -> bool:
    """Return whether a message of the retried topic fails when it comes for the ``times``-th time (from 0)."""
    return dies(serial) or (serial % 20 == 3 and times == 0)


def dies(serial: int) -> bool:
    """Return whether a message of the retried topic fails each time."""
    return serial % 200 == 7
