"""One RabbitMQ node on loopback as Debian packages it, with an Erlang port mapper of its own."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from benchmarks.peers.process import Missing, Server, end, free_ports, wait_until_listening
from benchmarks.peers.process import start as start_process

# The packaged `rabbitmq-server` on the PATH changes to another user; the script in here does not.
_LIBRARY = Path("/usr/lib/rabbitmq/lib")
_INSTALL = "install RabbitMQ (Debian: rabbitmq-server; its own service need not run)"


def script() -> Path:
    """Return the script that starts the server in the foreground.

    Raises:
        Missing: RabbitMQ or Erlang is not installed.
    """
    scripts = sorted(_LIBRARY.glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    on_path = shutil.which("rabbitmq-server")
    if not scripts and on_path is None:
        raise Missing(f"no `rabbitmq-server` on the PATH: {_INSTALL}")
    if _port_mapper() is None or shutil.which("erl") is None:
        raise Missing(f"RabbitMQ is here, but Erlang's `erl` or `epmd` is not: {_INSTALL}")
    return scripts[-1] if scripts else Path(str(on_path))


def _port_mapper() -> str | None:
    """Return Erlang's ``epmd``, which Debian keeps off the PATH when it is installed beside the virtual machine."""
    beside = sorted(Path("/usr/lib/erlang").glob("erts-*/bin/epmd"))
    return shutil.which("epmd") or (str(beside[-1]) if beside else None)


def start(folder: Path) -> Server:
    """Start a port mapper and one node; both end with the server."""
    command = script()
    port, distribution, mapper_port = free_ports(3)
    folder.mkdir(parents=True, exist_ok=True)
    plugins = folder / "enabled_plugins"
    plugins.write_text("[].\n")
    mapper_place = {"ERL_EPMD_PORT": str(mapper_port), "ERL_EPMD_ADDRESS": "127.0.0.1"}
    environment = {
        **mapper_place,
        "HOME": str(folder),  # of Erlang's cookie
        "RABBITMQ_NODENAME": f"litemq-bench-{os.getpid()}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none.conf"),
        "RABBITMQ_CONFIG_FILE": str(folder / "none"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        # Has the script become the virtual machine, so that what is ended and measured is the server itself.
        "RUNNING_UNDER_SYSTEMD": "yes",
    }
    began = time.monotonic()
    mapper = start_process([str(_port_mapper())], folder, environment=mapper_place, log="epmd.log")
    try:
        wait_until_listening(mapper, mapper_port, folder / "epmd.log")
        process = start_process([command], folder, environment=environment)
        server = Server("rabbitmq", port, process, folder, others=[mapper])
    except BaseException:
        end(mapper)
        raise
    try:
        wait_until_listening(process, port, folder / "out.log")
        server.ready_s = time.monotonic() - began
    except BaseException:
        server.__exit__()
        raise
    return server
