"""LiteMQ as a user starts it: ``litemq up`` in a process of its own.

Everything that depends on the command line, the configuration's keys and the ready line is here.
"""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks import native
from benchmarks.peers.process import Broken, Server, counting_syncs, end, free_ports
from benchmarks.peers.process import start as start_process

ROOT = Path(__file__).resolve().parent.parent.parent
READY_S = 60.0


def start(
    folder: Path,
    *,
    store_format: str = "litemq",
    flush: str = "async",
    data: Path | None = None,
    settings: Mapping[str, Mapping[str, object]] | None = None,
    counts_syncs: bool = False,
) -> Server:
    """Start name server and broker in one process; ``settings`` go into its configuration file, by section."""
    folder.mkdir(parents=True, exist_ok=True)
    data = data or folder / "data"
    name_server, broker = free_ports(2, (-2, 0, 1))
    config = folder / "litemq.toml"
    sections: dict[str, dict[str, object]] = {
        "nameserver": {"port": name_server},
        "broker": {"port": broker, "name_servers": [f"127.0.0.1:{name_server}"]},
        "store": {"format": store_format, "flush": flush},
    }
    for section, values in (settings or {}).items():
        sections.setdefault(section, {}).update(values)
    # Numbers, texts and lists look the same in JSON and in TOML.
    config.write_text(
        "\n".join(
            f"[{section}]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
            for section, values in sections.items()
        )
    )
    environment, counts = counting_syncs(folder, native.syncs_library()) if counts_syncs else ({}, None)
    command: list[str | Path] = [sys.executable, "-m", "litemq", "up", "--data", data, "--config", config, "--json"]
    began = time.monotonic()
    process = start_process(command, folder, environment=environment | {"PYTHONPATH": str(ROOT / "src")}, pipes=True)
    _wait_until_ready(process, folder, began)
    return Server(
        f"litemq-{store_format}",
        broker,
        process,
        folder,
        name_server=f"127.0.0.1:{name_server}",
        ready_s=time.monotonic() - began,
        syncs=counts,
    )


def _wait_until_ready(process: native.Process, folder: Path, began: float) -> None:
    """Return at the ready line, the first that it prints."""
    assert process.stdout is not None
    while not select.select([process.stdout], [], [], 0.1)[0]:
        if time.monotonic() - began > READY_S:
            end(process)
            raise Broken(f"litemq up printed no ready line within {READY_S:.0f} s")
    if not process.stdout.readline():
        process.wait()
        raise Broken(f"litemq up ended: {(folder / 'out.log').read_text(errors='replace')[-2000:]}")
