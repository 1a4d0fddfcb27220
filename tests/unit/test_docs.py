"""The pages tell the truth: their commands run, and print what the page says.

A fenced block whose info string is ``sh run`` or ``python run`` is run, block after block of a page in one empty
directory.  A block ``text output`` right behind it is what it prints, on stdout and stderr together: ``…`` stands for
anything, a line that is only ``…`` for any lines.  ``text output in any order`` lists lines as they stand.
In the README the commands of the tour run on a small store.

With ``run broker`` in place of ``run`` a broker runs as the page says that one does: the blocks of a page share it,
and find it by LITEMQ_NAMESERVER.  With ``run broker until ctrl-c`` the block would go on for ever: Ctrl-C is pressed
when it has printed what the page says, and then it must end well.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.ctrl_c import press_ctrl_c

from litemq import MessageStore, StoreConfig
from litemq.testing import broker
from litemq.types import Message

ROOT = Path(__file__).resolve().parents[2]
MARKS = {"run", "run broker", "run broker until ctrl-c"}
PAGES = sorted([*ROOT.glob("docs/how-to/*.md"), *ROOT.glob("docs/tutorial/*.md")])
LIMIT_S = 60.0
RUN = """
import builtins, sys, threading
lock, print_plain = threading.Lock(), print
def print_line(*args, **kwargs):
    with lock:
        print_plain(*args, **{"flush": True, **kwargs})
builtins.print = print_line
exec(compile(sys.stdin.read(), "<page>", "exec"), {"__name__": "__main__"})
"""
"""Prints appear at once, as on a terminal, and those of several threads do not run into each other."""
_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block that is run, and what it should print; None: anything."""

    language: str
    code: str
    line: int
    output: str | None
    needs_broker: bool = False
    goes_on: bool = False
    """Until Ctrl-C is pressed."""
    in_any_order: bool = False

    def is_shown(self, printed: str) -> bool:
        """Return whether what was printed is what the page shows."""
        if self.output is None:
            return True
        if self.in_any_order:
            return sorted(printed.splitlines()) == sorted(self.output.splitlines())
        return pattern(self.output).fullmatch(printed) is not None


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page that are run."""
    found = list(_FENCE.finditer(page))
    answer = []
    for number, fence in enumerate(found):
        behind = found[number + 1] if number + 1 < len(found) else None
        language, _, mark = fence["info"].partition(" ")
        if mark not in MARKS:
            assert not mark.startswith("run"), f"a block cannot be marked {mark!r}"
            continue
        output = None
        is_next = behind is not None and not page[fence.end() : behind.start()].strip()
        if behind is not None and is_next and behind["info"].startswith("text output"):
            assert behind["info"] in ("text output", "text output in any order")
            output = behind["body"]
        in_any_order = output is not None and behind is not None and behind["info"] != "text output"
        line = page.count("\n", 0, fence.start()) + 1
        goes_on = mark.endswith("ctrl-c")
        assert output is not None or not goes_on, f"line {line}: Ctrl-C is pressed when the output is there"
        answer.append(Block(language, fence["body"], line, output, "broker" in mark, goes_on, in_any_order))
    return answer


def pattern(output: str) -> re.Pattern[str]:
    """Return what matches the output that a page shows."""
    lines = [
        r"(?:.*\n)*" if line == "…" else ".*".join(re.escape(part) for part in line.split("…")) + r"[ ]*\n"
        for line in output.splitlines()
    ]
    return re.compile("".join(lines))


def run(
    language: str,
    code: str,
    where: Path,
    *,
    variables: Mapping[str, str] | None = None,
    press_ctrl_c_at: Callable[[str], bool] = lambda _: False,
) -> subprocess.CompletedProcess[str]:
    """Run code as a reader of the page would, with the tested interpreter's commands first on the path.

    What it started in the background ends with it, also when a command in the middle fails.
    """
    command = [sys.executable, "-c", RUN] if language == "python" else ["bash", "-euo", "pipefail", "-s"]
    here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    fixed = {"PATH": here, "TZ": "UTC", "LC_ALL": "C.UTF-8", "HOME": str(where)}
    with subprocess.Popen(
        command,
        cwd=where,
        env={**os.environ, **fixed, **(variables or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        watch = threading.Timer(LIMIT_S, os.killpg, (running.pid, signal.SIGKILL))
        watch.start()
        try:
            with suppress(BrokenPipeError):  # it ended before it read all
                running.stdin.write(code)
                running.stdin.close()
            shown = ""
            for line in running.stdout:
                shown += line
                if press_ctrl_c_at(shown):
                    press_ctrl_c(running)
            running.wait()
        finally:
            watch.cancel()
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, running.returncode, shown)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT / "docs").as_posix())
def test_the_commands_of_a_page_do_what_it_says(page: Path, tmp_path: Path) -> None:
    found = blocks(page.read_text())
    with ExitStack() as stack:
        variables = {}
        if any(block.needs_broker for block in found):
            address = stack.enter_context(broker()).nameservers
            variables = {"LITEMQ_NAMESERVER": address, "NAMESRV_ADDR": address}
        for block in found:
            check(block, page, tmp_path, variables)


def check(block: Block, page: Path, where: Path, variables: Mapping[str, str]) -> None:
    """Run a block, and compare what it prints with what the page says."""
    done = run(
        block.language,
        block.code,
        where,
        variables=variables,
        press_ctrl_c_at=lambda shown: block.goes_on and block.is_shown(shown),
    )
    place = f"{page.relative_to(ROOT)}:{block.line}"
    assert done.returncode == 0, f"{place}: status {done.returncode}\n{done.stdout}"
    assert block.is_shown(done.stdout), f"{place} printed:\n{done.stdout}"


def test_python_of_the_tutorial_can_be_pasted_into_an_interactive_python(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tutorial" / "first-store.md").read_text()
    pasted = [block for block in blocks(page) if block.language == "python"]
    assert len(pasted) >= 3
    for block in pasted:
        done = subprocess.run(
            [sys.executable, "-i", "-q"],
            input=block.code + "\n",
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert "Error" not in done.stderr, f"docs/tutorial/first-store.md:{block.line}\n{done.stderr}"
        assert block.output is None or pattern(block.output).fullmatch(done.stdout)


def test_every_page_but_the_shelves_has_something_to_run() -> None:
    silent = [page.name for page in PAGES if page.name != "README.md" and not blocks(page.read_text())]
    assert not silent


def test_the_tour_of_the_readme_runs(tmp_path: Path) -> None:
    small = StoreConfig(segment_bytes=1 << 20, queue_entries=1000, index_slots=1000, index_entries=4000)
    with MessageStore.open(tmp_path / "litemq-store", small) as store:
        store.append_many([Message("orders", b"an order", keys=(f"order-{i}",)) for i in range(20)])
    tour = (ROOT / "README.md").read_text().partition("## A short tour")[2].partition("\n## ")[0]
    shown = "".join(fence["body"] for fence in _FENCE.finditer(tour) if fence["info"] == "console")
    commands = re.findall(r"^\$ (litemq .*?)\s*(?:#.*)?$", shown, re.MULTILINE)
    assert len(commands) >= 10
    done = run("sh", "\n".join(f"{command} || exit 9" for command in commands), tmp_path)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("keys=order-17") >= 1


def test_one_sentence_stands_on_one_line() -> None:
    """Prose of the pages only: not tables, lists' marks, headings or blocks."""
    wrong = [
        f"{page.relative_to(ROOT)}: {line}"
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for line in _FENCE.sub("", page.read_text()).splitlines()
        if not line.startswith(("|", "#")) and re.search(r"[a-z`)]\. [A-Z]", line) and "**D**" not in line
    ]
    assert not wrong


def test_shelves_lead_to_every_page() -> None:
    for shelf in ("tutorial", "how-to", "reference", "explanation", "adr"):
        index = (ROOT / "docs" / shelf / "README.md").read_text()
        for page in (ROOT / "docs" / shelf).glob("*.md"):
            assert page.name == "README.md" or f"]({page.name})" in index, f"docs/{shelf}/README.md: no {page.name}"


def test_nothing_that_a_block_started_is_left(tmp_path: Path) -> None:
    done = run("sh", "sleep 1000 > /dev/null 2>&1 & echo $!; false; kill %1", tmp_path)
    assert done.returncode == 1
    status = Path(f"/proc/{done.stdout.strip()}/stat")
    until = time.monotonic() + 10
    while status.exists() and status.read_text().split()[2] != "Z":
        assert time.monotonic() < until  # a killed process may take a moment to end
        time.sleep(0.01)


def test_a_wrong_output_is_noticed() -> None:
    shown = pattern("result  ok\n…\nat … bytes\n")
    assert shown.fullmatch("result  ok\na\nb\nat 17 bytes\n")
    assert not shown.fullmatch("result  not ok\nat 17 bytes\n")
    assert not shown.fullmatch("result  ok\nat 17 bytes\nmore\n")
