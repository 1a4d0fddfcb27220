"""Completion: the scripts, and what they ask for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from litemq.cli.main import run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["completion", shell]) == 0
    out, err = (text.decode() for text in capfdbinary.readouterr())
    assert err == ""
    assert out.startswith("# ")
    assert f"_LITEMQ_COMPLETE={shell}_complete" in out


def test_an_unknown_shell(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["completion", "tcsh"]) == 2
    assert b"'bash', 'fish', 'zsh'" in capfdbinary.readouterr().err


def test_what_the_script_asks_for() -> None:
    asked = {"_LITEMQ_COMPLETE": "bash_complete", "COMP_WORDS": "litemq message t", "COMP_CWORD": "2"}
    command = [sys.executable, "-c", "import sys; sys.argv[0] = 'litemq'; from litemq.cli.main import main; main()"]
    found = subprocess.run(command, env=os.environ | asked, capture_output=True, check=True, text=True)
    assert found.stdout.split() == ["plain,tail", "plain,trace", "plain,transactions"]
