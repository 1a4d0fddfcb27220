"""The native load tool: built on demand by the C compiler, run as a child, its broker's CPU read around the run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from benchmarks.peers.process import Missing, die_with_parent

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build" / "bench"

Process = subprocess.Popen[bytes]
Found = dict[str, Any]
"""What a load program found, as its JSON line says; ``broker_us`` and ``broker_cores`` are added here."""


class Measured(Protocol):
    """A server whose CPU time can be read."""

    def cpu_s(self) -> float:
        """Return the CPU time it took so far."""

    def sync_calls(self) -> int:
        """Return how often it synced files."""


class LoadFailed(Exception):
    """The load program stopped by itself; says what it printed."""


def loadtool() -> Path:
    """Return the tool, compiling it when its source is newer."""
    sources = sorted(path for path in HERE.glob("*.c") if path.name != "syncs.c")
    return _compiled("loadtool", [*sources], ["-O2", "-std=gnu11"], sorted(HERE.glob("*.h")))


def syncs_library() -> Path:
    """Return the library that counts sync calls."""
    return _compiled("syncs.so", [HERE / "syncs.c"], ["-O2", "-shared", "-fPIC", "-ldl"], [])


def _compiled(name: str, sources: list[Path], options: list[str], headers: list[Path]) -> Path:
    target = BUILD / name
    if target.exists() and target.stat().st_mtime > max(path.stat().st_mtime for path in sources + headers):
        return target
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise Missing("no C compiler on the PATH: install one (Debian: gcc)")
    BUILD.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f"{name}.{os.getpid()}")
    command: list[str | Path] = [compiler, "-Wall", "-Wextra", "-Werror", "-o", new, *sources, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LoadFailed(f"{name} does not compile: {done.stderr[-2000:]}")
    new.rename(target)
    return target


def run(server: Measured, mode: str, **options: object) -> Found:
    """Run the tool against a server to its end.

    Raises:
        LoadFailed: it could not connect, was cut off, or met an answer that it cannot read.
    """
    with begin(mode, **options) as process:
        try:
            assert process.stdout is not None
            return measured(map(bytes.decode, process.stdout), server, process)
        finally:
            process.kill()


def begin(mode: str, **options: object) -> Process:
    """Start the tool and return at once; ``measured`` reads what it prints."""
    given = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    return subprocess.Popen(
        [loadtool(), mode, *given],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=die_with_parent,
    )


def measured(lines: Iterable[str], server: Measured, process: Process | None = None) -> Found:
    """Read ``begin``, ``end`` and the JSON line of a load program; add what the server spent between the two."""
    cpu = syncs = 0.0
    for line in lines:
        word = line.strip()
        if word == "begin":
            cpu, syncs = server.cpu_s(), server.sync_calls()
        elif word == "end":
            cpu, syncs = server.cpu_s() - cpu, server.sync_calls() - syncs
        elif word.startswith("{"):
            found: Found = json.loads(word)
            if "error" in found:
                raise LoadFailed(found["error"])
            found["broker_us"] = cpu / max(found["measured"], 1) * 1e6
            found["syncs"] = syncs
            if process is not None and process.stderr is not None and (found.get("bad") or found.get("refused")):
                found["complaint"] = process.stderr.read().decode(errors="replace").strip()
            return found
    said = process.stderr.read().decode(errors="replace") if process is not None and process.stderr is not None else ""
    raise LoadFailed(said.strip() or "the load program ended without a word")
