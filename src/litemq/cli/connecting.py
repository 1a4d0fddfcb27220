"""Options that commands on a running cluster share, and their connection to it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from litemq.cli import output

if TYPE_CHECKING:
    from litemq.client.admin import Admin

NAMESERVERS: Final = click.option(
    "--nameserver",
    "--name-server",
    "nameservers",
    metavar="HOST:PORT;…",
    envvar=["LITEMQ_NAMESERVER", "NAMESRV_ADDR"],
    default="127.0.0.1:9876",
    show_default=True,
    help="Name servers of the cluster [variable LITEMQ_NAMESERVER or NAMESRV_ADDR].",
)
JSON_OBJECT: Final = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
JSON_LINES: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
YES: Final = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Tell what would be, and change nothing.")
TIME: Final = "ms since the epoch or ISO 8601, UTC unless it says otherwise"

NOT_DONE: Final = 1
"""Exit status when the answer was no."""


@contextmanager
def connected(nameservers: str) -> Iterator[Admin]:
    """Yield what asks the cluster."""
    from litemq.client.admin import Admin  # not at the top, as all that help does not need

    with Admin(nameservers) as admin:
        yield admin


def check_can_ask(*, yes: bool) -> None:
    """Refuse, before anything is done, what would have to be asked where nobody can answer.

    Raises:
        click.UsageError: there is no terminal, and no ``--yes``.
    """
    if not yes and not _is_terminal():
        raise click.UsageError("this cannot be undone, and there is no terminal to ask on: add --yes")


def is_confirmed(question: str, *, yes: bool) -> bool:
    """Ask whether to go on; True at once with ``--yes``."""
    if yes or click.confirm(output.one_line(question), err=True):
        return True
    click.echo("nothing was changed", err=True)
    return False


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def parse_pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """Return the pairs of ``NAME=VALUE`` texts."""
    found: dict[str, str] = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if not name or not mark or not value:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
        found[name] = value
    return found


def attribute_changes(given: Sequence[str], removed: Sequence[str] = ()) -> dict[str, str | None]:
    """Return what ``--attribute`` and ``--no-attribute`` change."""
    for text in given:
        if "," in text:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE without a comma", param_hint="--attribute")
    changes: dict[str, str | None] = {**parse_pairs(given, "--attribute")}
    return changes | dict.fromkeys(removed, None)


def shown(value: object) -> str:
    """Return a value for a person: ``-`` for none, yes or no, lists without brackets."""
    if value is None or value == () or value == [] or value == {}:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name}={text}" for name, text in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(str(one) for one in value)
    return f"{value:.1f}" if isinstance(value, float) else str(value)
