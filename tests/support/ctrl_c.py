"""Ctrl-C for a program that calls ``consumer.wait()``: not before it does, as Python's own answer is a traceback."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

_LIMIT_S = 30.0


def press_ctrl_c(process: subprocess.Popen[str]) -> None:
    """Send SIGINT when the process has taken over SIGTERM, which ``wait()`` does and Python does not."""
    end = time.monotonic() + _LIMIT_S
    while not _catches(process.pid, signal.SIGTERM) and process.poll() is None:
        assert time.monotonic() < end, "it never waits"
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)


def _catches(pid: int, number: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (number - 1) & 1)
