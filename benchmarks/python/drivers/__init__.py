"""How each client library does the four kinds of work: its fastest form in which every message is acknowledged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Send = Callable[[int], int]
"""Send so many messages and return how many were acknowledged, once all of them are."""
Read = Callable[[int], tuple[int, int]]
"""Consume so many messages; return how many there were and the sum of ``body[0] + len(body)``."""


class Library(Protocol):
    """A client library, connected to its server, at work on one topic."""

    def create(self) -> None:
        """Make the topic, unless it exists."""

    def stored(self) -> int:
        """Return how many messages the topic holds."""

    def discard(self) -> None:
        """Delete the topic, where that gives space back."""

    def sender(self, work: str) -> Send:
        """Return what does one of the works ``sync``, ``pipelined`` and ``batch``."""

    def reader(self, group: str) -> Read:
        """Return what reads the topic from its beginning for a new group."""

    def close(self) -> None:
        """Disconnect."""
