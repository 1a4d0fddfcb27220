"""What tests look at in messages."""

from __future__ import annotations

from collections.abc import Iterable

from litemq.client._message_cy import Message


def bodies(messages: Iterable[Message]) -> list[str]:
    """Return the bodies as text."""
    return [message.text() for message in messages]
