"""``scripts/setup.py``: how it ends, how it waits, and that it leaves nothing outside the checkout."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

RUN = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("setup_script", "scripts/setup.py")
script = importlib.util.module_from_spec(spec)
sys.modules["setup_script"] = script
spec.loader.exec_module(script)
"""
STEP_WITH_A_GRANDCHILD = """
script.run_steps = lambda steps: script.run(["sh", "-c", "sleep 300 & echo $!; wait"])
sys.exit(script.main())
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What set-up reads, and nothing to set up."""
    for name in ("scripts", "requirements"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "src" / "litemq").mkdir(parents=True)
    return tmp_path


def start(checkout: Path, code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN + code],
        cwd=checkout,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [(signal.SIGINT, 130, "setup: interrupted; run make setup again\n"), (signal.SIGTERM, 128 + signal.SIGTERM, "")],
)
def test_interrupted_it_ends_its_children_too(checkout: Path, number: int, status: int, said: str) -> None:
    with start(checkout, STEP_WITH_A_GRANDCHILD) as running:
        assert running.stdout is not None
        grandchild = int(running.stdout.readline())
        running.send_signal(number)
        _, errors = running.communicate(timeout=60)  # to the end of the pipe, which the grandchild holds too
    assert (running.returncode, errors) == (status, said)
    assert is_gone(grandchild)


def is_gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_it_says_that_it_waits_for_another_one(checkout: Path) -> None:
    folder = os.open(checkout, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with start(checkout, "script.run_steps = lambda steps: False\nsys.exit(script.main())") as waiting:
            assert waiting.stdout is not None
            assert waiting.stdout.readline() == "setup: waiting for another set-up of this checkout\n"
            fcntl.flock(folder, fcntl.LOCK_UN)
            shown, _ = waiting.communicate(timeout=60)
    finally:
        os.close(folder)
    assert waiting.returncode == 0
    assert "up to date" in shown


def test_temporary_files_of_uv_stay_in_the_checkout(checkout: Path) -> None:
    (checkout / ".venv").mkdir()
    code = "script.PYTHON = sys.executable\nprint(script.uv_environment()['TMPDIR'])"
    with start(checkout, code) as running:
        shown, _ = running.communicate(timeout=60)
    assert Path(shown.strip()) == checkout / ".venv" / "tmp"
    assert (checkout / ".venv" / "tmp").is_dir()


def test_the_editable_package_is_found_from_a_folder_that_is_not_ascii(checkout: Path) -> None:
    site = checkout / "Prüfstand" / ".venv" / "lib" / "python3" / "site-packages"
    site.mkdir(parents=True)
    link = site / "__editable__.litemq-1.pth"
    link.write_bytes(os.fsencode(checkout / "Prüfstand" / "src"))
    with start(checkout, f"script.make_relative(script.Path({os.fspath(link)!r}))") as running:
        assert running.communicate(timeout=60) == ("", "")
    assert link.read_bytes() == b"../../../../src\n"
