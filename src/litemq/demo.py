"""``make demo``: the store does its main job, and loses its writer to ``kill -9`` on the way.

A list of named steps over one temporary directory; each returns what the summary says of it, or raises ``Failed``.
Nothing is left behind, neither a process nor a file, also when the demo is interrupted.
``--child`` runs the writer (``demo_writer``).
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

from litemq._plain import build_kind
from litemq.cli import output
from litemq.demo_screen import Row, Screen
from litemq.demo_writer import CONFIG, TOPICS, body_of, key_of, write
from litemq.store.message_store import MessageStore

MESSAGES: Final = 200_000
_CLI: Final = "from litemq.cli.main import main; main()"
_LIMIT_S: Final = 300


class Failed(Exception):
    """A step did not do what it promised; the text says what."""


@dataclass
class Demo:
    """What the steps share."""

    directory: Path
    messages: int
    screen: Screen = field(default_factory=Screen)
    acknowledged: int = 0
    present: int = 0
    store_times: list[int] = field(default_factory=list)

    @property
    def store(self) -> Path:
        return self.directory / "store"

    @property
    def copy(self) -> Path:
        return self.directory / "for-rocketmq"

    def litemq(self, *arguments: str | Path) -> list[dict[str, object]]:
        """Run a command of ``litemq store`` and return the objects that it prints."""
        shown = " ".join(str(argument).replace(str(self.directory), "DIR") for argument in arguments)
        self.screen.note(f"$ litemq store {shown}")
        done = subprocess.run(
            [sys.executable, "-c", _CLI, "store", *map(str, arguments), "--json"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT_S,
        )
        if done.returncode:
            raise Failed(f"exit status {done.returncode}: {(done.stderr or done.stdout).strip()[:300]}")
        return [json.loads(line) for line in done.stdout.splitlines()]


# -- steps --------------------------------------------------------------------------------------------------------


def write_until_killed(demo: Demo) -> str:
    """Let a writer append, and kill it in the middle."""
    demo.acknowledged, status, seconds = _run_writer(demo, 0, kill_at=demo.messages // 2)
    if status != -signal.SIGKILL:
        raise Failed(f"the writer ended with status {status} before it could be killed")
    return f"{demo.acknowledged:,} acknowledged = flushed, then kill -9; {demo.acknowledged / seconds:,.0f}/s"


def recover(demo: Demo) -> str:
    """Open the store as it was left."""
    started = time.perf_counter()
    store = MessageStore.open(demo.store)
    seconds = time.perf_counter() - started
    with store:
        found = store.recovered
        demo.screen.note(f"clean stop before: {'yes' if store.was_clean else 'no'}; log ends at {found.end:,}")
        demo.screen.note(f"cut off: {len(found.cut)} torn tails; stepped over: {len(found.damaged)} damaged records")
        if store.was_clean:
            raise Failed("the store says that it was stopped cleanly")
        if found.damaged:
            raise Failed(f"{len(found.damaged)} records are damaged")
    return f"open in {seconds * 1000:.0f} ms, {found.records:,} records behind the checkpoint scanned"


def prove_nothing_is_lost(demo: Demo) -> str:
    """Read everything and compare it with what was acknowledged."""
    demo.present = _check_content(demo)
    if demo.present < demo.acknowledged:
        raise Failed(f"{demo.acknowledged - demo.present} acknowledged messages are gone")
    more = demo.present - demo.acknowledged
    return f"all {demo.acknowledged:,} acknowledged are there, and {more:,} that were written but not acknowledged yet"


def go_on(demo: Demo) -> str:
    """Let a second writer append the rest."""
    acknowledged, status, seconds = _run_writer(demo, demo.present, kill_at=None)
    if status or acknowledged != demo.messages:
        raise Failed(f"the writer ended with status {status} at {acknowledged:,}")
    added = acknowledged - demo.present
    demo.present = _check_content(demo)
    if demo.present != demo.messages:
        raise Failed(f"{demo.present:,} messages are there")
    return f"{added:,} more, {added / seconds:,.0f}/s; all {demo.messages:,} in order, none lost, none twice"


def query_by_key(demo: Demo) -> str:
    """Find one message by its key."""
    number = demo.messages * 5 // 8
    found = demo.litemq("query", demo.store, "--key", key_of(number))
    _expect_ids(found, [number])
    return f"{key_of(number)}: 1 message"


def query_by_time(demo: Demo) -> str:
    """Find the messages that were stored in one millisecond."""
    moment = demo.store_times[demo.messages * 3 // 4]
    wanted = [number for number, stored in enumerate(demo.store_times) if stored == moment]
    found = demo.litemq("query", demo.store, "--time", f"{moment}..{moment}", "--limit", str(demo.messages))
    _expect_ids([record for record in found if record["topic"] in TOPICS], wanted)
    return f"{len(wanted):,} messages of one millisecond"


def convert(demo: Demo) -> str:
    """Write the store in RocketMQ's format."""
    sizes = {
        "--segment-size": CONFIG.segment_bytes,
        "--queue-entries": CONFIG.queue_entries,
        "--index-slots": CONFIG.index_slots,
        "--index-entries": CONFIG.index_entries,
    }
    options = [text for name, size in sizes.items() for text in (name, str(size))]
    (report,) = demo.litemq("convert", demo.store, demo.copy, "--to", "rocketmq", *options)
    if report["dropped"] or report["rejected"]:
        raise Failed(f"dropped {report['dropped']}, rejected {report['rejected']}")
    return f"{report['records']:,} records, nothing dropped"


def verify_both(demo: Demo) -> str:
    """Check every record, queue entry and index entry of both stores."""
    reports = [demo.litemq("verify", path)[0] for path in (demo.store, demo.copy)]
    if not all(report["ok"] for report in reports):
        raise Failed(f"verify: {reports}")
    if reports[0]["records"] != reports[1]["records"]:
        raise Failed(f"{reports[0]['records']} and {reports[1]['records']} records")
    sizes = [demo.litemq("info", path)[0]["disk_bytes"] for path in (demo.store, demo.copy)]
    shown = ", ".join(f"{size / (1 << 20):.0f} MiB" for size in sizes if isinstance(size, int))
    return f"{reports[0]['records']:,} records each, no damage; on disk {shown}"


class Step(NamedTuple):
    """One step of the demo."""

    name: str
    run: Callable[[Demo], str]


STEPS: Final = (
    Step("write, kill -9", write_until_killed),
    Step("recover", recover),
    Step("nothing acknowledged is lost", prove_nothing_is_lost),
    Step("go on", go_on),
    Step("query by key", query_by_key),
    Step("query by time", query_by_time),
    Step("convert to RocketMQ", convert),
    Step("verify both", verify_both),
)


# -- what steps use -----------------------------------------------------------------------------------------------


def _run_writer(demo: Demo, first: int, *, kill_at: int | None) -> tuple[int, int, float]:
    """Run a writer; return what it acknowledged, its exit status and the seconds from its first to its last word."""
    command = [sys.executable, "-m", "litemq.demo", "--child", str(demo.store)]
    command += ["--first", str(first), "--messages", str(demo.messages)]
    acknowledged = begun = first
    start = end = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None
            demo.screen.note(f"writer {writer.pid} appends from {first:,}; topics: {', '.join(TOPICS)}")
            for line in writer.stdout:  # to the end of the pipe: what it said before it died counts
                if acknowledged == first:
                    begun, start = int(line), time.perf_counter()
                acknowledged, end = int(line), time.perf_counter()
                if kill_at is not None and acknowledged >= kill_at:
                    writer.kill()
                    kill_at = None
        finally:
            writer.kill()
    seconds = (end - start) * (acknowledged - first) / max(acknowledged - begun, 1)
    return acknowledged, writer.returncode, max(seconds, 1e-6)


def _check_content(demo: Demo) -> int:
    """Read all messages; return how many there are when each is the right one at the right place."""
    demo.store_times = []
    with MessageStore.open(demo.store) as store:
        for record in store.reader.walk(store.start):
            if record.topic not in TOPICS:
                continue
            number = len(demo.store_times)
            if record.message_id != f"demo-{number:08d}" or record.body != body_of(number):
                raise Failed(f"message {number} is expected at position {record.position}, not {record.message_id}")
            demo.store_times.append(record.store_time or 0)
    return len(demo.store_times)


def _expect_ids(found: Sequence[dict[str, object]], numbers: Sequence[int]) -> None:
    ids = [record["message_id"] for record in found]
    if ids != [f"demo-{number:08d}" for number in numbers]:
        raise Failed(f"{len(ids)} messages came back where {len(numbers)} were stored")


# -- running ------------------------------------------------------------------------------------------------------


def run(messages: int, steps: Sequence[Step] = STEPS) -> int:
    """Run the steps and show the summary; return the exit status."""
    screen = Screen()
    screen.heading(f"LiteMQ demo: {messages:,} messages, {build_kind()} build")
    rows: list[Row] = []
    is_ok = True
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="litemq-demo-") as directory:
        demo = Demo(Path(directory), messages, screen)
        for number, step in enumerate(steps, 1):
            if not is_ok:
                rows.append((step.name, "", "", "not run"))
                continue
            screen.heading(f"{number}. {step.name}")
            begun = time.perf_counter()
            try:
                result = step.run(demo)
            except (output.PipeClosed, output.NotWritten):
                raise  # the screen's failure, not the step's
            except Exception as error:  # noqa: BLE001 - whatever a step raises is its failure, and the summary says so
                is_ok = False
                result = str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
            seconds = time.perf_counter() - begun
            screen.note(result)
            verdict = "OK" if is_ok else "FAILED"
            screen.verdict(verdict, seconds)
            rows.append((step.name, result, f"{seconds:.1f}", verdict))
    rows.append(("all", f"{messages:,} messages", f"{time.perf_counter() - started:.1f}", "OK" if is_ok else "FAILED"))
    screen.table(rows)
    return 0 if is_ok else 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo, or its writer."""
    parser = argparse.ArgumentParser(prog="litemq.demo", description="Show the store surviving a kill -9.")
    parser.add_argument("--messages", type=_count, default=MESSAGES, help=f"how many (default {MESSAGES})")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child is not None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both; the parent ends this process
        try:
            write(options.child, options.first, options.messages)
        except BrokenPipeError:  # the parent is gone: nobody is told anything any more
            return 1
        return 0
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


def _count(text: str) -> int:
    """Return how many messages an option asks for."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def _end(number: int, _frame: FrameType | None) -> None:
    """End as after Ctrl-C, so that the writer and the directory go."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
