"""``litemq up``, ``litemq nameserver``, ``litemq broker``: the servers' options.

Options only: what runs is in ``cli.up``, imported when a command does, so that ``--help`` stays quick.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from litemq.config_file import Config

STORE: Final = Path("litemq-store")
_LEVELS: Final = ("debug", "info", "warning", "error")

Command = Callable[..., int]
Flags = dict[str, tuple[str, object]]
"""``section.key`` → (flag, value)."""


def _option(flag: str, key: str, metavar: str, text: str, *, name: str | None = None) -> Callable[[Command], Command]:
    """Return an option that is a setting; its value is checked with all others."""
    return click.option(flag, name or key.replace(".", "_"), metavar=metavar, help=f"{text} [{key}]")


_DATA = click.option(
    "--data", type=click.Path(path_type=Path), default=STORE, show_default=True, help="Store directory."
)
_CONFIG = click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help="Settings in TOML (default: litemq.toml, if it is here).",
)
_SET = click.option("--set", "given", multiple=True, metavar="SECTION.KEY=VALUE", help="Any other setting.")
_LEVEL = click.option(
    "--log-level", type=click.Choice(_LEVELS), default="info", show_default=True, help="What goes to stderr."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the ready line as one JSON object.")
_CHILD = click.option("--child", "is_child", is_flag=True, hidden=True, help="End when stdin does.")
_FORMAT = _option("--format", "store.format", "litemq|rocketmq", "Record format of a new store.")
_FLUSH = _option("--flush", "store.flush", "async|group|sync", "When a message counts as stored.")


@click.command()
@_DATA
@_CONFIG
@click.option(
    "--brokers",
    "count",
    type=click.IntRange(1, 26),
    default=1,
    show_default=True,
    help="Brokers; above 1 as processes.",
)
@_option("--listen", "broker.listen", "ADDRESS", "Address of name server and brokers.")
@_option("--port", "broker.port", "PORT", "Port of the first broker; 0 chooses free ones.")
@_option("--nameserver-port", "nameserver.port", "PORT", "Port of the name server.")
@_FORMAT
@_FLUSH
@_SET
@_LEVEL
@_JSON
@_CHILD
def up(
    *, data: Path, file: Path | None, count: int, log_level: str, as_json: bool, is_child: bool, **given: object
) -> int:
    """Run a name server and a broker, all in one process.

    With --brokers N the brokers are processes of their own, at ports ten apart, with stores in folders of the data
    directory.
    """
    flags = _flags(given, ("broker.port", "nameserver.port", "store.format", "store.flush"))
    listen = given["broker_listen"]
    flags["broker.listen"] = flags["nameserver.listen"] = ("--listen", listen)
    config = _start(file, flags, log_level, "up" if count > 1 else "")
    from litemq.cli.up import run_up

    options = ["--log-level", log_level, *(("--config", str(config.file)) if config.file is not None else ())]
    for key, (_, value) in flags.items():
        if value is not None and key not in ("broker.name", "broker.name_servers", "broker.port"):
            options += ("--set", f"{key}={value}")
    run_up(config, data, count=count, child_options=options, as_json=as_json, is_child=is_child)
    return 0


@click.command()
@_CONFIG
@_option("--listen", "nameserver.listen", "ADDRESS", "Address to listen on.")
@_option("--port", "nameserver.port", "PORT", "Port; 0 chooses a free one.")
@_option("--data", "nameserver.data", "DIR", "Folder of the key/value config (default: only in memory).")
@_SET
@_LEVEL
@_JSON
def nameserver(*, file: Path | None, log_level: str, as_json: bool, **given: object) -> int:
    """Run a name server."""
    flags = _flags(given, ("nameserver.listen", "nameserver.port", "nameserver.data"))
    config = _start(file, flags, log_level, "")
    from litemq.cli.up import run_name_server

    run_name_server(config, as_json=as_json)
    return 0


@click.command()
@_DATA
@_CONFIG
@_option("--nameserver", "broker.name_servers", "HOST:PORT;…", "Name servers to register with.")
@_option("--name", "broker.name", "NAME", "Name of the broker.")
@_option("--cluster", "broker.cluster", "NAME", "Name of its cluster.")
@_option("--listen", "broker.listen", "ADDRESS", "Address to listen on.")
@_option("--port", "broker.port", "PORT", "Port; the VIP port is two below.  0 chooses free ones.")
@_option("--advertise", "broker.advertise", "ADDRESS", "Address that clients are told.")
@_FORMAT
@_FLUSH
@_SET
@_LEVEL
@_JSON
@_CHILD
def broker(*, data: Path, file: Path | None, log_level: str, as_json: bool, is_child: bool, **given: object) -> int:
    """Run a broker that registers with name servers."""
    keys = ("name_servers", "name", "cluster", "listen", "port", "advertise")
    flags = _flags(given, (*(f"broker.{key}" for key in keys), "store.format", "store.flush"))
    name = given["broker_name"] if is_child else ""
    config = _start(file, flags, log_level, str(name or ""))
    from litemq.cli.up import run_broker

    run_broker(config, data, as_json=as_json, is_child=is_child)
    return 0


def _flags(options: dict[str, object], keys: tuple[str, ...]) -> Flags:
    """Return the settings that options and ``--set`` give."""
    context = click.get_current_context()
    opts = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    answer: Flags = {}
    for key in keys:
        name = key.replace(".", "_")
        answer[key] = (opts[name], options[name])
    texts = options["given"]
    assert isinstance(texts, tuple)
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or "." not in key:
            raise click.BadParameter(f"{text!r} is not SECTION.KEY=VALUE", param_hint="--set")
        answer[key] = (f"--set {key}", value)
    return answer


def _start(file: Path | None, flags: Flags, log_level: str, name: str) -> Config:
    """Read the settings and begin the log: the first things that any server does."""
    from litemq import process
    from litemq.config_file import load

    config = load(file, environment=os.environ, flags=flags)
    process.configure_logging(log_level, name)
    return config
