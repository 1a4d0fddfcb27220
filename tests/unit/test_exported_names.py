"""What ``import litemq`` offers: names that exist, loaded late, and none that the SDK will own."""

from __future__ import annotations

import subprocess
import sys

import pytest

import litemq


@pytest.mark.parametrize("name", litemq.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(litemq, name) is not None


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = litemq.Nonsense


def test_message_is_left_to_the_sdk() -> None:
    assert not hasattr(litemq, "Message"), "the store's has other fields than an application's: litemq.types.Message"


def test_the_import_loads_no_store() -> None:
    code = "import sys, litemq; print([name for name in sys.modules if name.startswith('litemq.store')])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"
