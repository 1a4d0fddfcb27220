"""``make demo``: runs the steps, and shows the summary.

Nothing is left behind, neither a process nor a file, also when the demo is interrupted.
``producer`` and ``consumer`` run those processes (``traffic``).
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from litemq._plain import build_kind
from litemq.cli import output
from litemq.demo import traffic
from litemq.demo.processes import Failed, LeftOut
from litemq.demo.screen import Row, Screen
from litemq.demo.stage import Demo
from litemq.demo.steps import STEPS, Step

MESSAGES: Final = 20_000 if build_kind() == "compiled" else 5_000
"""Few enough for half a minute on a busy machine."""


def run(messages: int, steps: Sequence[Step] = STEPS) -> int:
    """Run the steps and show the summary; return the exit status."""
    screen = Screen()
    screen.heading(f"LiteMQ demo: {messages:,} messages, {build_kind()} build")
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="litemq-demo-") as directory:
        demo = Demo(Path(directory), messages, screen)
        try:
            rows = list(_run(demo, steps))
        finally:
            demo.close()
    is_ok = all(verdict in ("OK", "left out") for *_, verdict in rows)
    rows.append(("all", f"{messages:,} messages", f"{time.perf_counter() - started:.1f}", "OK" if is_ok else "FAILED"))
    screen.table(rows)
    if is_ok:
        screen.note(
            "your own: docs/tutorial/first-message.md, examples/python; from Java and Go: docs/how-to/README.md"
        )
    return 0 if is_ok else 1


def _run(demo: Demo, steps: Sequence[Step]) -> list[Row]:
    rows: list[Row] = []
    is_ok = True
    for number, step in enumerate(steps, 1):
        if not is_ok:
            rows.append((step.name, "", "", "not run"))
            continue
        demo.screen.heading(f"{number}. {step.name}")
        begun = time.perf_counter()
        verdict = "OK"
        try:
            result = step.run(demo)
        except LeftOut as missing:
            verdict, result = "left out", str(missing)
        except (output.PipeClosed, output.NotWritten):
            raise  # the screen's failure, not the step's
        except Exception as error:  # noqa: BLE001 - whatever a step raises is its failure, and the summary says so
            is_ok, verdict = False, "FAILED"
            result = str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - begun
        demo.screen.note(result)
        demo.screen.verdict(verdict, seconds)
        rows.append((step.name, result, f"{seconds:.1f}", verdict))
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo, or one of its processes."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] in (["producer"], ["consumer"]):
        return _run_child(arguments)
    parser = argparse.ArgumentParser(
        prog="litemq.demo", description="Send and consume across processes, and kill the broker on the way."
    )
    parser.add_argument("--messages", type=_count, default=MESSAGES, help=f"how many (default {MESSAGES})")
    options = parser.parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        return run(options.messages)
    except output.PipeClosed:
        output.forget_stdout()
        return 0
    except output.NotWritten as error:
        output.forget_stdout()
        print(f"litemq: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("litemq: demo interrupted; nothing is left behind", file=sys.stderr)
        return 130


def _run_child(arguments: Sequence[str]) -> int:
    """Run the producer or the consumer."""
    kind, name_server, *others = arguments
    try:
        if kind == "producer":
            first, until = others
            traffic.produce(name_server, int(first), int(until))
        else:
            group, wanted, until = others
            traffic.consume(name_server, group, wanted, int(until))
    except BrokenPipeError:  # the demo is gone: nobody is told anything any more
        output.forget_stdout()
        return 1
    return 0


def _count(text: str) -> int:
    """Return how many messages an option asks for."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 2")
    return number


def _end(number: int, _frame: FrameType | None) -> None:
    """End as after Ctrl-C, so that the processes and the directory go."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
