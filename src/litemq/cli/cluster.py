"""``litemq cluster``: brokers of a running cluster, their load, health and settings."""

from __future__ import annotations

import click

from litemq.cli import output
from litemq.cli.connecting import (
    DRY_RUN,
    JSON_LINES,
    JSON_OBJECT,
    NAMESERVERS,
    connected,
    parse_pairs,
    shown,
)


@click.group()
def cluster() -> None:
    """Look at the brokers of a cluster, check whether all is well, change settings."""


@cluster.command("list")
@NAMESERVERS
@JSON_LINES
def list_brokers(*, nameservers: str, as_json: bool) -> int:
    """List brokers with their load."""
    with connected(nameservers) as admin:
        found = admin.brokers()
    if as_json:
        for info in found:
            output.write_json(info.to_json())
        return 0
    rows = [
        (
            info.cluster,
            info.broker,
            info.number,
            info.address,
            info.version or "no answer",
            shown(info.in_per_s),
            shown(info.out_per_s),
            shown(info.in_today),
            shown(info.out_today),
            "-" if info.disk_used is None else f"{info.disk_used:.0%}",
            "-" if info.log_bytes is None else output.size_text(info.log_bytes),
            _duration(info.uptime_s),
        )
        for info in found
    ]
    load = ("IN/S", "OUT/S", "IN TODAY", "OUT TODAY", "DISK", "LOG", "UP")
    output.write_table(("CLUSTER", "BROKER", "NO", "ADDRESS", "VERSION", *load), rows)
    if not found:
        output.write_line(f"no broker has registered; start one with: litemq broker --nameserver {nameservers}")
    return 0


def _duration(seconds: int | None) -> str:
    """Return a time span in its two largest units."""
    if seconds is None:
        return "-"
    parts = [(seconds // 86_400, "d"), (seconds // 3_600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    while len(parts) > 1 and not parts[0][0]:
        del parts[0]
    return " ".join(f"{count} {unit}" for count, unit in parts[:2])


@cluster.command()
@click.option(
    "--max-lag",
    type=click.IntRange(min=0),
    default=10_000,
    show_default=True,
    help="A group with more messages to read on a broker is slow.",
)
@NAMESERVERS
@JSON_OBJECT
def health(*, max_lag: int, nameservers: str, as_json: bool) -> int:
    """Check every name server and broker; exit status 1: something failed."""
    with connected(nameservers) as admin:
        found = admin.health(max_lag=max_lag)
    if as_json:
        output.write_json(found.to_json())
    else:
        rows = [(one.status.name, one.where, one.check, one.text) for one in found.checks]
        output.write_table(("STATUS", "WHERE", "CHECK", "FOUND"), rows)
    return int(found.status.name == "FAIL")


@cluster.group()
def config() -> None:
    """Show and change settings of a running broker."""


@config.command()
@click.argument("broker")
@click.argument("names", nargs=-1)
@NAMESERVERS
@JSON_OBJECT
def get(*, broker: str, names: tuple[str, ...], nameservers: str, as_json: bool) -> int:
    """Print the settings of BROKER, a name or address; all, or those with these NAMES."""
    with connected(nameservers) as admin:
        settings = admin.config(broker)
    for name in names:
        if name not in settings:
            raise click.UsageError(f"{broker} has no setting {name!r}; without names all of them are shown")
    shown_settings = {name: settings[name] for name in names or sorted(settings)}
    if as_json:
        output.write_json({"broker": broker, "settings": shown_settings})
    else:
        output.write_fields(list(shown_settings.items()))
    return 0


@config.command("set")
@click.argument("broker")
@click.argument("changes", nargs=-1, required=True, metavar="NAME=VALUE…")
@DRY_RUN
@NAMESERVERS
@JSON_LINES
def set_(*, broker: str, changes: tuple[str, ...], dry_run: bool, nameservers: str, as_json: bool) -> int:
    """Change settings of BROKER while it runs: all of them, or none."""
    pairs = parse_pairs(changes, "NAME=VALUE")
    with connected(nameservers) as admin:
        done = admin.set_config(broker, pairs, dry_run=dry_run)
    if as_json:
        for change in done:
            output.write_json({**change.to_json(), "dry_run": dry_run})
        return 0
    output.write_table(
        ("BROKER", "SETTING", "BEFORE", "AFTER"), [(one.broker, one.name, one.before, one.after) for one in done]
    )
    return 0
