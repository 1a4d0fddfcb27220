"""What ``litemq up``, ``nameserver`` and ``broker`` start, and the ready line that they print.

Imported when one of them runs: the options are in ``cli.server``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_lowercase

from litemq import process
from litemq._version import VERSION
from litemq.broker.addresses import advertised, join
from litemq.broker.processes import BrokerProcesses
from litemq.cli import output
from litemq.config import BrokerConfig, NameserverConfig
from litemq.config_file import DEFAULT, Config
from litemq.errors import BadStore

MAX_BROKERS = len(ascii_lowercase)
_PORT_DISTANCE = 10
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True, slots=True)
class Seat:
    """Name, port and store of one of several brokers."""

    name: str
    port: int
    data: Path


def seats(config: BrokerConfig, data: Path, count: int) -> list[Seat]:
    """Return where each of ``count`` brokers runs: names and folders end in a letter, ports are ten apart.

    Raises:
        BadStore: the directory belongs to another number of brokers, or a port would be too high.
    """
    if count == 1:
        stores = [path.parent.name for path in sorted(data.glob("*/commitlog"))]
        if stores and not (data / "commitlog").exists():
            raise BadStore(f"{data} holds the stores of several brokers ({', '.join(stores)}); use --brokers")
        return [Seat(config.name, config.port, data)]
    if (data / "commitlog").exists():
        raise BadStore(f"{data} is the store of a single broker; choose another directory for {count} brokers")
    base = config.name.removesuffix("-a")
    last = config.port + _PORT_DISTANCE * (count - 1)
    if last > 65535:
        raise BadStore(f"broker.port is {config.port}, the last of {count} brokers would be at {last}")
    return [
        Seat(
            f"{base}-{letter}",
            config.port + _PORT_DISTANCE * number if config.port else 0,
            data / f"{base}-{letter}",
        )
        for number, letter in enumerate(ascii_lowercase[:count])
    ]


def run_up(
    config: Config, data: Path, *, count: int, child_options: Sequence[str], as_json: bool, is_child: bool
) -> None:
    """Run a name server and brokers until the process is told to end."""
    broker_config = config.section(BrokerConfig)
    taken = seats(broker_config, data, count)
    name_server_config = config.section(NameserverConfig)
    if name_server_config.data is None:
        name_server_config = replace(name_server_config, data=data / "config")

    async def start(stack: AsyncExitStack) -> None:
        from litemq.nameserver.main import begin as begin_name_server

        if count == 1:
            from litemq.store.message_store import check_free

            check_free(data)  # before the name server's port: a second start is told of the store
        server = await begin_name_server(stack, name_server_config, flag="--nameserver-port")
        own = join(_ANYWHERE.get(server.config.listen, server.config.listen), server.port)
        # Its own name server, and others only when they were asked for.
        others = () if config.origin("broker", "name_servers") == DEFAULT else broker_config.name_servers
        name_servers = (own, *(other for other in others if other != own))
        brokers: list[Mapping[str, object]]
        if count == 1:
            from litemq.broker.main import begin, ready

            brokers = [ready(await begin(stack, config, data, name_servers=name_servers))]
        else:
            processes = BrokerProcesses(
                {seat.name: _child_command(seat, name_servers, child_options) for seat in taken}
            )
            await process.begin(stack, processes)
            brokers = [_said(child.ready) for child in processes.children]
        _print_ready(name_server_address(server.config, server.port), brokers, as_json=as_json)

    process.serve(start, is_child=is_child)


def run_name_server(config: Config, *, as_json: bool) -> None:
    """Run a name server until the process is told to end."""

    async def start(stack: AsyncExitStack) -> None:
        from litemq.nameserver.main import begin

        server = await begin(stack, config.section(NameserverConfig), flag="--port")
        _print_ready(name_server_address(server.config, server.port), [], as_json=as_json)

    process.serve(start)


def run_broker(config: Config, data: Path, *, as_json: bool, is_child: bool) -> None:
    """Run a broker until the process is told to end."""
    seats(config.section(BrokerConfig), data, 1)

    async def start(stack: AsyncExitStack) -> None:
        from litemq.broker.main import begin, ready

        broker = await begin(stack, config, data)
        _print_ready(None, [ready(broker)], as_json=as_json)

    process.serve(start, is_child=is_child)


def _child_command(seat: Seat, name_servers: Sequence[str], options: Sequence[str]) -> list[str]:
    return [
        *(sys.executable, "-P", "-m", "litemq", "broker", "--child", "--json"),
        *options,
        *("--data", str(seat.data), "--name", seat.name, "--port", str(seat.port)),
        *("--nameserver", ";".join(name_servers)),
    ]


def _said(ready: Mapping[str, object]) -> Mapping[str, object]:
    brokers = ready["brokers"]
    assert isinstance(brokers, list)
    answer: Mapping[str, object] = brokers[0]
    return answer


def name_server_address(config: NameserverConfig, port: int) -> str:
    """Return where clients find a name server; listening on all addresses, that of the default route."""
    return join(advertised(BrokerConfig(listen=config.listen)), port)


def _print_ready(name_server: str | None, brokers: Sequence[Mapping[str, object]], *, as_json: bool) -> None:
    if as_json:
        output.write_json(
            {
                "ready": True,
                "version": VERSION,
                "pid": os.getpid(),
                "name_server": name_server,
                "brokers": [dict(broker) for broker in brokers],
            }
        )
    else:
        for line in ready_lines(name_server, brokers):
            output.write_line(output.one_line(line))
    output.flush()


def ready_lines(name_server: str | None, brokers: Sequence[Mapping[str, object]]) -> list[str]:
    """Return what a person reads when everything runs; the last line comes last."""
    lines = []
    if name_server is not None:
        lines.append(f"name server  {name_server}")
    for broker in brokers:
        vip = str(broker["vip_address"]).rpartition(":")[2]
        lines.append(f"{broker['name']:<11}  {broker['address']} (VIP {vip}), cluster {broker['cluster']}")
        lines.append(f"  store      {broker['store']}, format {broker['format']}")
        lines.append(f"  flush      {broker['flush']}: {broker['may_lose']}")
    lines.append(f"LiteMQ {VERSION} is ready; Ctrl-C or SIGTERM stops it (pid {os.getpid()})")
    return lines
