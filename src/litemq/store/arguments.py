"""What a caller hands to an open store: an argument of a wrong type is named before anything is done with it."""

from __future__ import annotations


def check_text(name: str, value: object) -> None:
    """Raise ``TypeError`` when ``value`` is no text."""
    if not isinstance(value, str):
        raise _must_be(name, "str", value)


def check_number(name: str, value: object) -> None:
    """Raise ``TypeError`` when ``value`` is no whole number; a bool is none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise _must_be(name, "int", value)


def check_queue(topic: object, queue_id: object) -> None:
    """Raise ``TypeError`` when these cannot name a queue."""
    check_text("topic", topic)
    check_number("queue_id", queue_id)


def _must_be(name: str, wanted: str, value: object) -> TypeError:
    return TypeError(f"{name} must be {wanted}, not {type(value).__name__}")
