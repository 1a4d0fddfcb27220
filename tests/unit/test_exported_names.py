"""What ``import litemq`` and ``litemq.aio`` offer: names that exist, loaded late."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import litemq
from litemq import aio, testing


@pytest.mark.parametrize("name", litemq.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(litemq, name) is not None
    assert name in dir(litemq)


@pytest.mark.parametrize("name", aio.__all__)
def test_every_name_of_the_awaited_face_is_one_of_the_blocking(name: str) -> None:
    found = getattr(aio, name)
    blocking = getattr(litemq, name)
    if found is not blocking:  # a class that waits has the same public methods
        assert public(blocking) <= public(found)
    assert name in dir(aio)


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_every_class_that_waits_has_both_faces() -> None:
    waiting = {name for name in litemq.__all__ if hasattr(getattr(litemq, name), "__enter__")} - {"MessageStore"}
    assert waiting == {name for name in aio.__all__ if hasattr(getattr(aio, name), "__aenter__")}


@pytest.mark.parametrize("name", sorted(set(aio.__all__)))
def test_both_faces_take_the_same_arguments(name: str) -> None:
    ours, theirs = (getattr(module, name) for module in (litemq, aio))
    if ours is theirs:
        return
    for method in sorted(public(ours) | {"__init__"}):
        blocking, awaited = getattr(ours, method), getattr(theirs, method)
        if callable(blocking):
            assert parameters(blocking) == parameters(awaited), f"{name}.{method}"


def parameters(method: object) -> list[tuple[str, object, object]]:
    assert callable(method)
    return [(one.name, one.kind, one.default) for one in inspect.signature(method).parameters.values()]


@pytest.mark.parametrize("module", [litemq, aio], ids=["litemq", "litemq.aio"])
def test_other_names_are_not(module: object) -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = module.Nonsense  # type: ignore[attr-defined]


def test_the_parts_come_with_it() -> None:
    assert litemq.aio is aio
    assert litemq.testing is testing


def test_the_import_loads_neither_store_nor_loop() -> None:
    code = "import sys, litemq, litemq.aio; print(*sys.modules, sep='\\n')"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(answer.stdout.split())
    assert not loaded & {"asyncio", "socket", "ssl", "logging", "click", "rich", "uvloop"}
    ours = {name for name in loaded if name.startswith("litemq")}
    assert ours <= {"litemq", "litemq._plain", "litemq._version", "litemq.aio"}


def test_a_producer_loads_no_store() -> None:
    code = "import sys, litemq; litemq.Producer; print(*sys.modules, sep='\\n')"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    parts = {name.split(".")[1] for name in answer.stdout.split() if name.startswith("litemq.")}
    assert not parts & {"store", "broker", "nameserver", "cli"}
