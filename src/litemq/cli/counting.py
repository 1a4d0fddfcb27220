"""A bar on stderr for work that is counted; rich is imported only to draw it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Told = Callable[[int, int], None]


@contextmanager
def counted(label: str, *, is_typed: bool = False) -> Iterator[Told | None]:
    """Show a bar while something is done, if a person looks; yield what is told of (done, total).

    With ``is_typed`` the person writes on that terminal, and there is none.
    """
    if sys.stderr is None or not sys.stderr.isatty() or is_typed:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task(label, total=None)

        def told(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None)

        yield told
