"""What a benchmark prints: a name, a figure, its unit, and the bar it is held to."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from litemq import _plain


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the result; ``bar`` is the most (or, with ``at_least``, the least) that it may be."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    at_least: bool = False

    @property
    def verdict(self) -> str:
        """Return whether the bar is held."""
        if self.bar is None:
            return ""
        held = self.value >= self.bar if self.at_least else self.value <= self.bar
        return "ok" if held else "MISSED"


def show(title: str, figures: Iterable[Figure]) -> list[Figure]:
    """Print figures as they come and return them."""
    print(f"\n{title}")
    answer = []
    for figure in figures:
        bar = "" if figure.bar is None else f"{'≥' if figure.at_least else '≤'} {figure.bar:g}"
        print(f"  {figure.name:<58} {figure.value:>12,.3f} {figure.unit:<8} {bar:>10} {figure.verdict}", flush=True)
        answer.append(figure)
    return answer


def machine() -> dict[str, object]:
    """Return what a reader of the figures must know."""
    return {
        "python": platform.python_version(),
        "build": _plain.build_kind(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
    }


def save(path: Path, results: dict[str, list[Figure]]) -> None:
    """Keep the figures as JSON."""
    content = {
        "machine": machine(),
        "results": {title: [asdict(figure) for figure in figures] for title, figures in results.items()},
    }
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def rss_anon_bytes() -> int:
    """Return this process's anonymous memory."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    sys.exit("this machine does not tell RssAnon")
