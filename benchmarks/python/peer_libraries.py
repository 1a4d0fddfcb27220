"""The interpreter with the peers' client libraries: an environment of its own, made at first use by name from PyPI."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks import native
from benchmarks.peers.process import Missing

REQUIREMENTS = Path(__file__).resolve().with_name("requirements.txt")


def interpreter() -> Path:
    """Return the Python of that environment: of the version that runs this, with what requirements.txt pins.

    Raises:
        Missing: there is no uv, or it cannot install them.
    """
    folder = native.BUILD / "python-peers"
    python, mark = folder / "bin" / "python", folder / "installed"
    wanted = hashlib.sha256(sys.version.encode() + REQUIREMENTS.read_bytes()).hexdigest()
    if python.exists() and mark.exists() and mark.read_text() == wanted:
        return python
    uv = _uv()
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    commands: tuple[list[str | Path], ...] = (
        [uv, "venv", "--quiet", "--python", sys.executable, folder],
        [uv, "pip", "install", "--quiet", "--python", python, "--requirement", REQUIREMENTS],
    )
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Missing(f"uv could not install the peers' client libraries: {done.stderr.strip()[-500:]}")
    mark.write_text(wanted)
    return python


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        raise Missing("no `uv`, which installs the peers' client libraries: run make setup")
    return uv
