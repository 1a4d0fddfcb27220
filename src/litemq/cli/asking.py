"""What the commands of messages and dead letters ask a cluster with: the core of ``Admin``, on this thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TypeVar

from litemq.client.admin_messages import MessageAdmin
from litemq.client.dead_letters import DeadLetter, Progress, Wanted
from litemq.client.lookups import Lookups
from litemq.client.net import BlockingNet
from litemq.client.routes import Routes, name_servers
from litemq.client.running import run

T = TypeVar("T")
_TIMEOUT_S = 10.0
_NAMED_S = 2.5
"""Name servers answer at once, or are not there."""


class Asking(MessageAdmin):
    """The core, and what only commands do: read on for as long as somebody looks."""

    def __init__(self, servers: str) -> None:
        self._net: BlockingNet = BlockingNet()
        self._routes = Routes(self._net, name_servers(servers), timeout=_NAMED_S)
        self._timeout = _TIMEOUT_S

    @property
    def lookups(self) -> Lookups:
        """What asks the brokers."""
        return self._lookups()

    def each_dead_letter(
        self, group: str | None, wanted: Wanted, on_progress: Progress | None = None
    ) -> Iterator[DeadLetter]:
        """Yield dead letters one by one, however many there are."""
        return each(self._walk_dead_letters(group, wanted, on_progress))

    def close(self) -> None:
        """Close the connections."""
        run(self._net.close())


@contextmanager
def asking(servers: str) -> Iterator[Asking]:
    """Yield the core, and close its connections at the end."""
    core = Asking(servers)
    try:
        yield core
    finally:
        core.close()


def each(found: AsyncIterator[T]) -> Iterator[T]:
    """Yield what an asynchronous iterator over a blocking net yields."""

    async def following() -> T:
        return await anext(found)

    while True:
        try:
            one = run(following())
        except StopAsyncIteration:
            return
        yield one
