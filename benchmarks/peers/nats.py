"""NATS with JetStream in files, its default syncing; built by Go once and kept in the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from benchmarks.peers.process import Missing, Server, cache_dir, end, found, free_ports, wait_until_listening
from benchmarks.peers.process import start as start_process

VERSION = "v2.15.2"


def command() -> Path:
    """Return the server's program, building it when the cache lacks it.

    Raises:
        Missing: Go is not installed, or cannot fetch or build it.
    """
    folder = cache_dir() / "litemq-bench" / f"nats-server-{VERSION}"
    program = folder / "nats-server"
    if program.exists():
        return program
    go = found("go", "install Go, 1.24 or newer, to build nats-server")
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [go, "install", f"github.com/nats-io/nats-server/v2@{VERSION}"],
        env={**os.environ, "GOBIN": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 or not program.exists():
        shutil.rmtree(folder, ignore_errors=True)
        raise Missing(f"Go could not build nats-server {VERSION}: {done.stderr.strip()[-500:]}")
    return program


def start(folder: Path) -> Server:
    """Start one server."""
    program = command()
    (port,) = free_ports(1)
    began = time.monotonic()
    arguments = ["-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder / "data")]
    process = start_process([program, *arguments], folder)
    try:
        wait_until_listening(process, port, folder / "out.log")
    except BaseException:
        end(process)
        raise
    return Server("nats", port, process, folder, ready_s=time.monotonic() - began)
