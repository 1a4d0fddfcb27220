"""Where a broker listens, and what it tells clients to connect to."""

from __future__ import annotations

import socket

from litemq.config import BrokerConfig
from litemq.errors import CannotListen
from litemq.wire.remoting.server import bind

VIP_DISTANCE = 2
"""The VIP port is so far below the port."""

_TRIES = 20
_ANYWHERE = ("0.0.0.0", "::", "")


def bind_pair(config: BrokerConfig) -> tuple[socket.socket, socket.socket]:
    """Return the sockets of the port and of the VIP port, bound but not listening.

    Raises:
        CannotListen: one of them is taken.
    """
    if config.port:
        return _bind_both(config.listen, config.port)
    for _ in range(_TRIES):
        main = bind(config.listen, 0)
        try:
            return main, bind(config.listen, main.getsockname()[1] - VIP_DISTANCE)
        except CannotListen:
            main.close()
    raise CannotListen(f"no two free ports {VIP_DISTANCE} apart were found on {config.listen}")


def _bind_both(host: str, port: int) -> tuple[socket.socket, socket.socket]:
    main = bind(host, port)
    try:
        return main, bind(host, port - VIP_DISTANCE)
    except BaseException:
        main.close()
        raise


def advertised(config: BrokerConfig) -> str:
    """Return the address that clients are told: as set, the listen address, or that of the default route."""
    if config.advertise:
        return config.advertise
    if config.listen not in _ANYWHERE:
        return config.listen
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: it only asks the routing table
            host: str = probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"
        return host


def join(host: str, port: int) -> str:
    """Return ``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
