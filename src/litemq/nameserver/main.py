"""A name server in a process: built from the settings, started, closed with the process."""

from __future__ import annotations

from contextlib import AsyncExitStack

from litemq import process
from litemq.config import NameserverConfig
from litemq.nameserver.server import NameServer


async def begin(stack: AsyncExitStack, config: NameserverConfig, *, flag: str) -> NameServer:
    """Start a name server; it is closed with the stack.

    Args:
        stack: What the process closes at its end.
        config: Its settings.
        flag: How the port is chosen on the command line, for the error.

    Raises:
        CannotListen: the address is in use.
    """
    server = NameServer(config)
    with process.listening("the name server", f"{flag} or nameserver.listen"):
        await process.begin(stack, server)
    return server
