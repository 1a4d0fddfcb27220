"""Options of the jobs that choose messages and send them: where they are, which, how fast."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from litemq.cli.connecting import NAMESERVERS

_Command = TypeVar("_Command", bound=Callable[..., object])


def place_options(command: _Command) -> _Command:
    """Add ``--path`` and ``--nameserver``."""
    path = click.option("--path", metavar="STORE", default="", help="Read store files instead of running brokers.")
    return path(NAMESERVERS(command))


def time_options(command: _Command) -> _Command:
    """Add ``--since`` and ``--until``."""
    since = click.option(
        "--since", metavar="TIME", default="", help="Only what was stored then or later; -1h: an hour ago."
    )
    return since(click.option("--until", metavar="TIME", default="", help="Only what was stored before then.")(command))


def where_option(command: _Command) -> _Command:
    """Add ``--where``."""
    help_text = "Only what fits this condition over the columns: \"tags = 'paid'\"."
    return click.option("--where", metavar="SQL", default="", help=help_text)(command)


def rate_option(command: _Command) -> _Command:
    """Add ``--rate``, for ``parse_rate``."""
    return click.option("--rate", metavar="N[/s]", help="So many messages a second at most, over all brokers.")(command)


def parse_rate(text: str | None) -> float | None:
    """Return messages a second; None: as fast as it goes.

    Raises:
        click.BadParameter: it is no number above 0.
    """
    if text is None:
        return None
    try:
        found = float(text.removesuffix("/s"))
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise click.BadParameter(f"{text!r} is no number of messages a second: 50 or 0.5/s", param_hint="--rate")
    return found
