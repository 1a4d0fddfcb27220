"""What ``litemq message send`` sends, and how: from an argument, a file or stdin."""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from litemq.cli import output
from litemq.client._message_cy import Message
from litemq.client.producer import Producer
from litemq.client.values import Sent
from litemq.errors import LiteMQError

_IN_FLIGHT: Final = 2_000
STDIN: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """All of a message but its body."""

    topic: str
    tags: str | None = None
    keys: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    sharding_key: str | None = None

    def with_body(self, body: bytes) -> Message:
        """Return the message."""
        return Message(
            self.topic,
            body,
            tags=self.tags,
            keys=self.keys,
            properties=self.properties,
            sharding_key=self.sharding_key,
        )


def is_typed(text: str | None, file: str | None) -> bool:
    """Return whether a person writes on the terminal what is to be sent."""
    return text is None and file in (None, STDIN) and sys.stdin is not None and sys.stdin.isatty()


def bodies_of(text: str | None, file: str | None, *, lines: bool) -> Iterator[bytes]:
    """Yield what is to be sent: the argument, or a file's or stdin's content as one body or line by line."""
    if text is not None:
        data = text.encode("utf-8", "surrogateescape")
        yield from _lines([data]) if lines else [data]
        return
    if file is not None and file != STDIN:
        with Path(file).open("rb") as opened:
            yield from _lines(opened) if lines else [opened.read()]
        return
    if sys.stdin is None:
        raise click.UsageError("there is no stdin; give the body as an argument, or --file")
    if is_typed(text, file):
        click.echo("reading the body from the terminal; end it with Ctrl-D", err=True)
    if lines:
        yield from _lines(sys.stdin.buffer)
        return
    data = sys.stdin.buffer.read()
    if not data:
        raise click.UsageError("stdin is empty, so there is nothing to send; give BODY or --file")
    yield data


def _lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines without their ends; empty ones are none."""
    for block in blocks:
        for line in block.split(b"\n"):
            body = line.removesuffix(b"\r")
            if body:
                yield body


def send_all(producer: Producer, messages: Iterator[Message], *, batch: int) -> Iterator[Sent]:
    """Send messages and yield where they are, in order; many are under way at once, and no more.

    Raises:
        LiteMQError: one could not be sent; it tells how many were stored before it.
    """
    count = 0
    try:
        for sent in _batches(producer, messages, batch) if batch > 1 else _pipelined(producer, messages):
            count += 1
            yield sent
    except LiteMQError as error:
        if count:
            error.args = (f"{error}; {count} messages were stored before it",)
        raise


def _pipelined(producer: Producer, messages: Iterator[Message]) -> Iterator[Sent]:
    first = next(messages, None)
    if first is None:
        return
    yield producer.send(first)  # alone: what is wrong with the topic or the cluster shows at once
    waiting: deque[Future[Sent]] = deque()
    try:
        for message in messages:
            waiting.append(producer.send_async(message))
            while len(waiting) >= _IN_FLIGHT or (waiting and waiting[0].done()):
                yield waiting.popleft().result()
    except KeyboardInterrupt:
        if waiting:
            output.warn(f"interrupted; {len(waiting)} more messages were under way and are sent")
        raise
    while waiting:
        yield waiting.popleft().result()


def _batches(producer: Producer, messages: Iterator[Message], size: int) -> Iterator[Sent]:
    while batch := list(itertools.islice(messages, size)):
        yield from producer.send_batch(batch)
