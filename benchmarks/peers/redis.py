"""Redis with its append-only file, flushed every second, as the peer of asynchronous flush."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.peers.process import Server, end, found, free_ports, wait_until_listening
from benchmarks.peers.process import start as start_process


def start(folder: Path) -> Server:
    """Start one server."""
    command = found("redis-server", "install Redis (Debian: redis-server)")
    (port,) = free_ports(1)
    folder.mkdir(parents=True, exist_ok=True)
    options = {
        "port": port,
        "bind": "127.0.0.1",
        "dir": folder,
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
    }
    began = time.monotonic()
    process = start_process(
        [command, *(part for name, value in options.items() for part in (f"--{name}", str(value)))], folder
    )
    try:
        wait_until_listening(process, port, folder / "out.log")
    except BaseException:
        end(process)
        raise
    return Server("redis", port, process, folder, ready_s=time.monotonic() - began)
