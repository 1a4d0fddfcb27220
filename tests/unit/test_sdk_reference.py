"""docs/reference/sdk.md is what the docstrings say, in the shape that pages have."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "sdk_reference.py"


def test_the_page_is_as_the_docstrings_are() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def script() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LITEMQ_PURE", "1")  # it sets the variable itself, and would leave it set
        spec = importlib.util.spec_from_file_location("sdk_reference", SCRIPT)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def test_prose_examples_and_tables(script: ModuleType) -> None:
    text = """Do ``this``.  Then that
on a second line.

>>> 1 + 1
2

Args:
    first: a | b,
        and more.
    *rest: others.

Raises:
    Closed: it is over.
"""
    assert list(script.text_of(text)) == [
        "Do `this`.\nThen that on a second line.\n",
        "```pycon\n>>> 1 + 1\n2\n```\n",
        "| argument | |\n|---|---|\n| `first` | a \\| b, and more. |\n| `*rest` | others. |\n",
        "| raises | when |\n|---|---|\n| `Closed` | it is over. |\n",
    ]


def test_signatures(script: ModuleType) -> None:
    class Sender:
        def send(self, topic: str, *, how: object = len, timeout: float | None = None) -> str:
            return topic

    assert script.signature("Sender.send", Sender.send) == (
        "Sender.send(topic: str, *, how: object = len, timeout: float | None = None) -> str"
    )
