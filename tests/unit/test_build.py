"""The two builds: what is compiled, which one is imported, and that the plain one needs no Cython."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

import pytest

from litemq import _cython_shim, _plain
from litemq._version import VERSION

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
SO = EXTENSION_SUFFIXES[0]

PURE_MODE = sorted((SOURCE / "litemq").rglob("_*_cy.py"))
NAMES = [".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in PURE_MODE]


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a fresh interpreter in which only ``variables`` choose the build."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("LITEMQ_")}
    return subprocess.run(
        [sys.executable, "-c", code], env=env | variables, cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_version_has_one_home() -> None:
    assert importlib.metadata.version("litemq") == VERSION


def test_every_kernel_is_in_the_build_list() -> None:
    build = runpy.run_path(str(ROOT / "setup.py"))
    listed = {build["module_name"](path) for path in build["kernels"]()}
    assert listed == set(_plain.kernels())


def test_every_kernel_is_in_mypys_list_of_kernels() -> None:
    overrides = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    assert NAMES in [override["module"] for override in overrides]


def test_every_cython_only_kernel_has_a_plain_twin() -> None:
    for path in (SOURCE / "litemq").rglob("*.pyx"):
        assert path.stem.startswith("_"), path
        assert path.stem.endswith("_c"), path
        assert path.with_name(f"{path.stem.removesuffix('_c')}_py.py").is_file(), f"{path} has no plain twin"


# ── which one is imported ──

IMPORT_ALL = f"""
import importlib
for name in {NAMES}:
    print(importlib.import_module(name).__file__)
"""


def test_pure_imports_sources_only() -> None:
    done = run(IMPORT_ALL, LITEMQ_PURE="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(path) for path in PURE_MODE]


def test_default_imports_what_is_compiled() -> None:
    done = run(IMPORT_ALL)
    assert done.returncode == 0, done.stderr
    expected = [path.with_suffix(SO) if path.with_suffix(SO).exists() else path for path in PURE_MODE]
    assert done.stdout.splitlines() == [str(path) for path in expected]


def test_build_kind_tells_the_build() -> None:
    code = "from litemq import _plain; print(_plain.build_kind())"
    assert run(code, LITEMQ_PURE="1").stdout.strip() == "plain"
    built = {path.with_suffix(SO).exists() for path in [*PURE_MODE, *(SOURCE / "litemq").rglob("*.pyx")]}
    expected = "mixed" if len(built) == 2 else "compiled" if True in built else "plain"
    assert run(code).stdout.strip() == expected


def test_contradicting_variables_are_refused() -> None:
    done = run("from litemq import MessageStore", LITEMQ_PURE="1", LITEMQ_REQUIRE_EXT="1")
    assert done.returncode != 0
    assert "contradict" in done.stderr


@pytest.mark.parametrize("argv", [["version"], ["store", "formats"]])
def test_the_command_says_so_in_one_line(argv: list[str]) -> None:
    code = f"from litemq.cli.main import main; main({argv})"
    done = run(code, LITEMQ_PURE="1", LITEMQ_REQUIRE_EXT="1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("litemq: error: LITEMQ_PURE=1 and LITEMQ_REQUIRE_EXT=1 contradict each other; unset one\n")


@pytest.mark.parametrize("value", ["", "0"])
def test_zero_and_empty_mean_unset(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITEMQ_PURE", value)
    monkeypatch.setenv("LITEMQ_REQUIRE_EXT", value)
    assert not _plain.is_pure_requested()
    assert not _plain.is_ext_required()


class TestFinder:
    """The finder against a folder of empty files: what it answers depends on names alone."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        for name in ("_both_cy.py", f"_both_cy{SO}", "_plain_cy.py", f"_only_c{SO}"):
            (tmp_path / name).touch()
        return tmp_path

    def test_pure_prefers_the_source(self, folder: Path) -> None:
        spec = _plain._KernelFinder(pure=True, required=False).find_spec("litemq.x._both_cy", [str(folder)])
        assert spec is not None
        assert spec.origin == str(folder / "_both_cy.py")

    def test_pure_hides_a_cython_only_kernel(self, folder: Path) -> None:
        with pytest.raises(ModuleNotFoundError, match="LITEMQ_PURE"):
            _plain._KernelFinder(pure=True, required=False).find_spec("litemq.x._only_c", [str(folder)])

    def test_required_takes_the_compiled_one(self, folder: Path) -> None:
        for leaf in ("_both_cy", "_only_c"):
            spec = _plain._KernelFinder(pure=False, required=True).find_spec(f"litemq.x.{leaf}", [str(folder)])
            assert spec is not None
            assert spec.origin == str(folder / f"{leaf}{SO}")

    @pytest.mark.parametrize("leaf", ["_plain_cy", "_missing_c"])
    def test_required_refuses_what_is_not_compiled(self, folder: Path, leaf: str) -> None:
        with pytest.raises(_plain.ExtensionMissing, match="make ext"):
            _plain._KernelFinder(pure=False, required=True).find_spec(f"litemq.x.{leaf}", [str(folder)])

    def test_an_except_import_error_does_not_swallow_it(self) -> None:
        assert not issubclass(_plain.ExtensionMissing, ImportError)

    @pytest.mark.parametrize("name", ["litemq.types", "other._both_cy", "litemq.x._c"])
    def test_other_modules_are_none_of_its_business(self, folder: Path, name: str) -> None:
        assert _plain._KernelFinder(pure=True, required=False).find_spec(name, [str(folder)]) is None


# ── the plain build needs no Cython ──


IMPORT_WITHOUT_CYTHON = f"""
import importlib, sys
sys.modules["cython"] = None
for name in {NAMES}:
    module = importlib.import_module(name)
    assert getattr(module, "cython", None) in (None, importlib.import_module("litemq._cython_shim")), name
"""


def test_kernels_load_without_cython() -> None:
    done = run(IMPORT_WITHOUT_CYTHON, LITEMQ_PURE="1")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_both_builds_of_a_kernel_can_be_loaded_side_by_side(name: str) -> None:
    usual = importlib.import_module(name)
    twin = _plain.load_plain(name)
    assert twin.__file__ == str(SOURCE / Path(*name.split("."))) + ".py"
    assert sys.modules[name] is usual
    assert importlib.import_module(name) is usual
    assert _plain.load_plain(name) is twin


class CythonNames(ast.NodeVisitor):
    """Collects each ``cython.name`` that the plain build can meet."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) != "cython.compiled":
            self.generic_visit(node)
            return
        for statement in node.orelse:
            self.visit(statement)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name) and node.value.id == "cython":
            self.found.add(node.attr)
        self.generic_visit(node)


@pytest.mark.parametrize("path", PURE_MODE, ids=NAMES)
def test_shim_has_every_name_that_the_kernel_uses(path: Path) -> None:
    names = CythonNames()
    names.visit(ast.parse(path.read_text()))
    assert {name for name in names.found if not hasattr(_cython_shim, name)} == set()


def modules() -> list[ModuleType]:
    """The shim, and the real module where Cython is installed: kernels must work with either."""
    try:
        import cython
    except ModuleNotFoundError:
        return [_cython_shim]
    return [_cython_shim, cython]


@pytest.mark.parametrize("cython", modules(), ids=lambda module: str(module.__name__))
class TestStandIn:
    def test_is_not_compiled(self, cython: ModuleType) -> None:
        assert not cython.compiled

    def test_types_can_stand_in_annotations(self, cython: ModuleType) -> None:
        for text in (
            "cython.uchar[::1]",
            "cython.const[cython.uchar][::1]",
            "cython.pointer(cython.const[cython.uchar])",
            "cython.pointer[cython.uchar]",
            "cython.uchar[32]",
            "cython.p_uchar",
        ):
            eval(text, {"cython": cython})

    def test_cast_and_declare_keep_the_value(self, cython: ModuleType) -> None:
        assert cython.cast(cython.uint, 1 << 40) == 1 << 40
        assert cython.declare(cython.longlong, 7) == 7

    def test_decorators_change_nothing(self, cython: ModuleType) -> None:
        @cython.cfunc
        @cython.inline
        @cython.nogil
        @cython.returns(cython.uint)
        @cython.locals(i=cython.Py_ssize_t)
        @cython.exceptval(-1, check=False)
        @cython.boundscheck(False)
        @cython.wraparound(False)
        @cython.cdivision(True)
        def double(value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - as untyped as its decorators
            return 2 * value

        @cython.cclass
        @cython.final
        @cython.no_gc
        @cython.freelist(8)
        class Cell:
            pass

        assert double(21) == 42
        assert isinstance(Cell(), Cell)

    def test_nogil_is_a_block_too(self, cython: ModuleType) -> None:
        with cython.nogil:
            pass


def test_shim_has_no_addresses() -> None:
    with pytest.raises(TypeError, match="no meaning in the plain build"):
        _cython_shim.address(1)


# ── a machine that cannot compile ──

KERNEL = """
try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython


def double(value: cython.int) -> int:
    return 2 * value
"""


class TestBuild:
    """``setup.py`` on a machine whose compiler fails, in a scratch project of two kernels."""

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        pytest.importorskip("Cython")
        shutil.copy(ROOT / "setup.py", tmp_path)
        (tmp_path / "pyproject.toml").write_text('[project]\nname = "scratch"\nversion = "0"\n')
        package = tmp_path / "src" / "litemq"
        package.mkdir(parents=True)
        (package / "_double_cy.py").write_text(KERNEL)
        (package / f"_double_cy{SO}").touch()
        (package / f"_gone_cy{SO}").touch()
        return tmp_path

    def build(self, project: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("LITEMQ_")}
        return subprocess.run(
            [sys.executable, "setup.py", "build_ext", "--inplace"],
            env=env | {"CC": "false"} | variables,
            cwd=project,
            capture_output=True,
            text=True,
            check=False,
        )

    def test_a_failing_compiler_leaves_no_compiled_kernel_at_all(self, project: Path) -> None:
        package = project / "src" / "litemq"
        (package / "_sound_cy.py").write_text(KERNEL)
        built = project / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}" / "litemq"
        built.mkdir(parents=True)
        (built / f"_sound_cy{SO}").touch()
        os.utime(built / f"_sound_cy{SO}", (2**32, 2**32))  # as if compiled already: newer than its source
        done = self.build(project)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("failed") == 2  # one line: the compiler failed, and why
        assert "stay plain" in done.stderr
        assert "compiling 2 kernels" in done.stdout
        assert "compiled litemq._sound_cy" in done.stdout
        assert list(project.rglob("*.so")) == []

    def test_half_a_file_of_a_killed_build_is_not_taken_for_a_kernel(self, project: Path) -> None:
        kind = f"{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
        built = project / "build" / f"lib.{kind}" / "litemq" / f"_double_cy{SO}"
        built.parent.mkdir(parents=True)
        built.touch()
        os.utime(built, (2**32, 2**32))  # newer than its source
        unfinished = project / "build" / f"temp.{kind}" / "litemq._double_cy.unfinished"
        unfinished.parent.mkdir(parents=True)
        unfinished.touch()
        done = self.build(project)
        assert "stay plain" in done.stderr
        assert list(project.rglob("*.so")) == []

    def test_required_makes_that_an_error(self, project: Path) -> None:
        assert self.build(project, LITEMQ_REQUIRE_EXT="1").returncode != 0
        assert list(project.rglob("*.so")) == []

    def test_the_plain_build_removes_what_was_compiled(self, project: Path) -> None:
        done = self.build(project, LITEMQ_PURE="1")
        assert done.returncode == 0, done.stderr
        assert list(project.rglob("*.so")) == []

    def test_a_wrong_kernel_is_an_error_and_leaves_nothing_stale(self, project: Path) -> None:
        (project / "src" / "litemq" / "_double_cy.py").write_text("def double(:\n")
        done = self.build(project)
        assert done.returncode != 0
        assert "Cython does not accept a kernel" in done.stderr
        assert list(project.rglob("*.so")) == []
