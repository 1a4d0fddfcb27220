"""What the demo shows: drawn in colours on a terminal, plain lines elsewhere; rich is imported only to draw."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from litemq.cli import output

_STYLES: Final = {"OK": "bold green", "FAILED": "bold red", "not run": "yellow", "left out": "yellow"}
_WIDTH: Final = 100
"""Columns of the summary where it is no terminal that says how many there are."""

Row = tuple[str, str, str, str]
"""Step, what came out, seconds, verdict."""


class Screen:
    """Where the demo writes; raises ``output.PipeClosed`` or ``output.NotWritten`` when that cannot be."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()

    def heading(self, text: str) -> None:
        """Show what comes now."""
        self._line(text, "bold cyan")

    def note(self, text: str) -> None:
        """Show what happened, below the heading."""
        self._line(f"  {text}", "")

    def verdict(self, word: str, seconds: float) -> None:
        """Show how a step ended."""
        self._line(f"  {word} ({seconds:.1f} s)\n", _STYLES.get(word, ""))

    def _line(self, text: str, style: str) -> None:
        if self._is_terminal:
            from rich.console import Console
            from rich.text import Text

            Console().print(Text(text, style=style))
        else:
            output.write_line(text)
            output.flush()

    def table(self, rows: Sequence[Row]) -> None:
        """Show the summary."""
        headers = ("step", "result", "seconds", "verdict")
        if self._is_terminal:
            self._draw(headers, rows)
            return
        for line in table_lines((headers, *rows)):
            self._line(line, "")

    @staticmethod
    def _draw(headers: Row, rows: Sequence[Row]) -> None:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        drawn = Table(title="LiteMQ demo", header_style="bold")
        for header in headers:
            drawn.add_column(header, justify="right" if header == "seconds" else "left", overflow="fold")
        for step, result, seconds, verdict in rows:
            drawn.add_row(step, Text(result), seconds, Text(verdict, style=_STYLES.get(verdict, "")))
        Console().print(drawn)


def table_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the rows as aligned text; a long result goes on below itself."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    widths[1] = min(widths[1], _WIDTH - sum(widths) + widths[1] - 2 * (len(widths) - 1))
    for step, result, *others in rows:
        first, *more = textwrap.wrap(result, widths[1]) or [""]
        for row in ((step, first, *others), *(("", text, "", "") for text in more)):
            yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
