"""Which build runs: compiled kernels, or their plain twins.

A kernel is found beside its plain twin, and by default the compiled one is imported when
it exists.  Two environment variables change that, for the whole process, when ``litemq``
is first imported:

    LITEMQ_PURE=1         plain twins only
    LITEMQ_REQUIRE_EXT=1  a kernel that is not compiled is an error, not a slower import

There are two kinds of kernel, told apart by name:

    _name_cy.py   one source, two builds; PURE loads the .py although a .so is there
    _name_c.pyx   compiled only; PURE hides it, so that `except ImportError` beside it takes _name_py

Neither variable set: nothing is installed and nothing costs anything.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    FileFinder,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
)
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_PACKAGE = __name__.partition(".")[0]


class ExtensionMissing(RuntimeError):
    """LITEMQ_REQUIRE_EXT=1, and a kernel is not compiled, or LITEMQ_PURE=1 asks for plain ones.

    Not an ImportError: the ``except ImportError`` that chooses a plain twin must not swallow it.
    """


def is_pure_requested() -> bool:
    """Say whether LITEMQ_PURE asks for the plain twins."""
    return _is_set("LITEMQ_PURE")


def is_ext_required() -> bool:
    """Say whether LITEMQ_REQUIRE_EXT forbids falling back to a plain twin."""
    return _is_set("LITEMQ_REQUIRE_EXT")


def install() -> None:
    """Obey the two variables from now on.  Called once, first thing in ``litemq/__init__.py``.

    Where they contradict each other, it is the first kernel that cannot be imported: here nobody could catch it.
    """
    pure, required = is_pure_requested(), is_ext_required()
    if any(isinstance(finder, _KernelFinder) for finder in sys.meta_path):
        return
    if pure or required:
        sys.meta_path.insert(0, _KernelFinder(pure=pure, required=required))


def load_plain(name: str) -> ModuleType:
    """Return the plain twin of the pure-mode kernel ``name``, beside the compiled one.

    For parity tests and benchmarks.  The twin sees plain twins of the other kernels too,
    because some of what they share exists in C only; ``sys.modules`` is as before afterwards.
    Not for threads that import at the same time.
    """
    if is_pure_requested():
        return import_module(name)
    import_module(name.rpartition(".")[0])
    finder = _KernelFinder(pure=True, required=False)
    compiled = _take_kernels()
    sys.modules.update(_twins)
    sys.meta_path.insert(0, finder)
    try:
        return import_module(name)
    finally:
        sys.meta_path.remove(finder)
        _twins.update(_take_kernels())
        for kernel, module in compiled.items():
            sys.modules[kernel] = module
            package, _, leaf = kernel.rpartition(".")
            setattr(sys.modules[package], leaf, module)


_twins: dict[str, ModuleType] = {}
"""Plain twins that ``load_plain`` loaded in a process with compiled ones."""


def _take_kernels() -> dict[str, ModuleType]:
    """Take the pure-mode kernels out of ``sys.modules``."""
    names = [name for name in sys.modules if name.startswith(_PACKAGE + ".") and _is_twin(name)]
    return {name: sys.modules.pop(name) for name in names}


def kernels() -> dict[str, bool]:
    """Return every kernel's module name, and whether this process imports it compiled."""
    from pathlib import Path  # here, because every `import litemq` loads this module

    root = Path(__file__).parent
    compiled = {_module_name(path, root) for suffix in EXTENSION_SUFFIXES for path in root.rglob(f"_*{suffix}")}
    sources = {_module_name(path, root) for kind in ("_*_cy.py", "_*_c.pyx") for path in root.rglob(kind)}
    pure = is_pure_requested()
    return {name: name in compiled and not pure for name in sorted(compiled | sources)}


def build_kind() -> str:
    """Return ``compiled``, ``plain``, or ``mixed`` when only some kernels are compiled."""
    states = set(kernels().values())
    if states == {True}:
        return "compiled"
    return "mixed" if True in states else "plain"


class _KernelFinder:
    """Answers for LiteMQ's kernels only; every other import goes on to the next finder."""

    def __init__(self, *, pure: bool, required: bool) -> None:
        self._pure = pure
        self._required = required

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if path is None or not name.startswith(_PACKAGE + "."):
            return None
        if not _is_twin(name) and not _is_cython_only(name):
            return None
        if self._pure and self._required:
            raise ExtensionMissing("LITEMQ_PURE=1 and LITEMQ_REQUIRE_EXT=1 contradict each other; unset one")
        if self._pure:
            if _is_twin(name):
                return _source_spec(name, path)
            raise ModuleNotFoundError(f"{name} is hidden by LITEMQ_PURE=1", name=name)
        spec = PathFinder.find_spec(name, path)
        if spec is None or not (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES)):
            raise ExtensionMissing(f"{name} is not compiled and LITEMQ_REQUIRE_EXT=1 is set; run: make ext")
        return spec


def _is_twin(name: str) -> bool:
    leaf = name.rpartition(".")[2]
    return leaf.startswith("_") and leaf[1:].endswith("_cy")


def _is_cython_only(name: str) -> bool:
    leaf = name.rpartition(".")[2]
    return leaf.startswith("_") and leaf[1:].endswith("_c")


def _source_spec(name: str, path: Sequence[str]) -> ModuleSpec | None:
    for folder in path:
        spec = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name)
        if spec is not None:
            return spec
    return None


def _module_name(path: Path, root: Path) -> str:
    inside = path.relative_to(root)
    return ".".join((_PACKAGE, *inside.parts[:-1], inside.name.partition(".")[0]))


def _is_set(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")
