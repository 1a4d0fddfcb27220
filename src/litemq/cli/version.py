"""``litemq version``: what is installed here."""

from __future__ import annotations

import platform

import click

from litemq._version import VERSION
from litemq.cli import output


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def version(*, as_json: bool) -> int:
    """Show version, kind of build, Python and record formats."""
    from litemq._plain import build_kind
    from litemq.format.limits import FACTS

    kind = build_kind()
    if as_json:
        output.write_json(
            {"version": VERSION, "build": kind, "python": platform.python_version(), "formats": list(FACTS)}
        )
        return 0
    output.write_fields(
        [
            ("litemq", VERSION),
            ("build", kind),
            ("python", f"{platform.python_version()} ({platform.python_implementation()})"),
            ("formats", ", ".join(f"{facts.name} 0x{facts.magic:08X}" for facts in FACTS.values())),
        ]
    )
    return 0
