"""A server as a child process: started, watched through ``/proc``, ended whatever happens to the benchmark."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class Missing(Exception):
    """Something to install is not here; says what and how."""


class Broken(Exception):
    """A server did not start or a load program failed; says what was printed."""


def cache_dir() -> Path:
    """Return where jars and built servers are kept between runs."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home)


def found(command: str, how: str) -> str:
    """Return the path of a command.

    Raises:
        Missing: it is not on the PATH; ``how`` says where it comes from.
    """
    path = shutil.which(command)
    if path is None:
        raise Missing(f"no `{command}` on the PATH: {how}")
    return path


def die_with_parent() -> None:
    """Have the kernel end this process when its parent ends; runs in the child, before its program."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass(slots=True)
class Server:
    """A running server; ``with`` ends it."""

    name: str
    port: int
    process: subprocess.Popen[bytes]
    folder: Path
    name_server: str = ""
    ready_s: float = 0.0
    syncs: Path | None = None
    others: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """Processes that belong to it but are not measured, a name server for one."""

    @property
    def pid(self) -> int:
        """Return the id of the measured process."""
        return self.process.pid

    def cpu_s(self) -> float:
        """Return user and system time of all its threads so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory_bytes(self, kind: str = "RssAnon") -> int:
        """Return its memory: ``RssAnon`` or ``VmRSS``."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{kind}:"):
                return int(line.split()[1]) * 1024
        raise Broken(f"this machine does not tell {kind}")

    def open_files(self) -> int:
        """Return how many file descriptors it holds."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))  # noqa: PTH208 - a count, not paths

    def sync_calls(self) -> int:
        """Return how often it called fsync, fdatasync or msync; needs ``counting_syncs``."""
        if self.syncs is None:
            return 0
        data = self.syncs.read_bytes()
        return sum(int.from_bytes(data[at : at + 8], "little") for at in (0, 8, 16))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (self.process, *self.others):
            end(process)


def start(
    command: Sequence[str | Path],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    pipes: bool = False,
    log: str = "out.log",
) -> subprocess.Popen[bytes]:
    """Start a process in ``folder`` that cannot outlive this one; its output goes to ``log`` unless ``pipes``."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / log).open("ab") as out:
        return subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
            stdout=subprocess.PIPE if pipes else out,
            stderr=out,
            start_new_session=True,  # Ctrl-C is ours to handle
            preexec_fn=die_with_parent,
        )


def end(process: subprocess.Popen[bytes], seconds: float = 10) -> None:
    """End a process, by force when it does not hear in time."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def wait_until_listening(process: subprocess.Popen[bytes], port: int, log: Path, seconds: float = 60) -> None:
    """Return once somebody accepts connections on ``port``.

    Raises:
        Broken: the process ended, or nobody listens in time.
    """
    limit = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None or time.monotonic() > limit:
            said = log.read_text(errors="replace")[-2000:]
            raise Broken(f"{log.parent.name} does not listen on port {port}: {said}")
        time.sleep(0.02)


def free_ports(count: int, steps: tuple[int, ...] = (0,)) -> list[int]:
    """Return ports that nobody listens on, each with its neighbours at ``steps``."""
    answer: list[int] = []
    for port in range(20000 + os.getpid() * 10 % 10000, 32000, 10):
        if all(_is_free(port + step) for step in steps):
            answer.append(port)
        if len(answer) == count:
            return answer
    raise Broken("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def counting_syncs(folder: Path, library: Path) -> tuple[dict[str, str], Path]:
    """Return the environment that makes a process count its sync calls, and the file that holds the counts."""
    folder.mkdir(parents=True, exist_ok=True)
    counts = folder / "syncs"
    counts.write_bytes(bytes(24))
    return {"LD_PRELOAD": str(library), "LITEMQ_BENCH_SYNCS": str(counts)}, counts


@contextlib.contextmanager
def ending_on_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into ``SystemExit``, so that every ``with`` block ends its process."""

    def stop(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
