"""List LiteMQ's compiled kernels and build them where that is possible.

    _name_cy.py   pure-mode kernel: plain Python that is also compiled
    _name_c.pyx   Cython-only kernel; its plain twin is _name_py.py

LITEMQ_PURE=1         compile nothing
LITEMQ_REQUIRE_EXT=1  a kernel that does not compile fails the build
neither               where the machine cannot compile, all of them stay plain, with a warning
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
import threading
from collections.abc import Collection
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
SOURCE = ROOT / "src"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")

FLAGS = ["-O3"]
DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": True,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
}


def settings_digest(cython_version: str) -> str:
    return hashlib.sha256(repr((cython_version, FLAGS, DIRECTIVES)).encode()).hexdigest()[:12]


def is_set(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


PURE = is_set("LITEMQ_PURE")
REQUIRED = is_set("LITEMQ_REQUIRE_EXT")


def kernels() -> list[Path]:
    """Return every kernel source, as a path below ``src``."""
    package = SOURCE / "litemq"
    found = [*package.rglob("_*_cy.py"), *package.rglob("*.pyx")]
    return sorted(path.relative_to(SOURCE) for path in found)


def module_name(kernel: Path) -> str:
    return ".".join(kernel.with_suffix("").parts)


def extensions() -> list[Extension]:
    if PURE and REQUIRED:
        raise SystemExit("litemq: LITEMQ_PURE=1 and LITEMQ_REQUIRE_EXT=1 contradict each other; unset one")
    if PURE:
        return []
    return [Extension(module_name(path), [f"src/{path.as_posix()}"], extra_compile_args=FLAGS) for path in kernels()]


def to_c(wanted: list[Extension]) -> list[Extension]:
    """Translate the kernels to C; without Cython, return none of them."""
    try:
        import Cython.Shadow
        from Cython.Build import cythonize
    except ModuleNotFoundError:
        if REQUIRED:
            raise
        warn("Cython is not installed, so the kernels stay plain Python: same results, slower")
        return []
    translated: list[Extension] = cythonize(  # type: ignore[no-untyped-call]  # Cython has no annotations there
        wanted,
        # Cython compares times of sources only; a folder per setting rebuilds when a setting changes.
        build_dir=f"build/cython-{settings_digest(Cython.Shadow.__version__)}",
        compiler_directives=DIRECTIVES,
        include_path=["src"],
        nthreads=os.cpu_count() or 1,
    )
    for extension in translated:
        # On the result: cythonize() drops the flag from what it is given.
        extension.optional = not REQUIRED
    return translated


def warn(text: str) -> None:
    print(f"litemq: warning: {text}", file=sys.stderr)


class BuildKernels(build_ext):
    """Builds in parallel, and all kernels or none.

    A plain kernel cannot take from a compiled one what exists in C only, so a half compiled package would not import.
    Nor may an older compiled file shadow a source that fails now.
    """

    def initialize_options(self) -> None:
        super().initialize_options()
        self.parallel = os.cpu_count()
        self._done = 0
        self._failures: list[str] = []
        self._speaks = threading.Lock()

    def finalize_options(self) -> None:
        if self.distribution.ext_modules:
            try:
                self.distribution.ext_modules = [*to_c(extensions())]
            except Exception as error:
                # Not this machine's fault but the source's, so never a reason to stay plain.
                if type(error).__name__ != "CompileError":
                    raise
                if self.inplace or self.editable_mode:
                    drop_in_place()
                raise SystemExit(
                    f"litemq: error: Cython does not accept a kernel, its words are above: {error}"
                ) from None
        super().finalize_options()

    def run(self) -> None:
        in_place = self.inplace  # setuptools resets it while it runs
        if in_place:
            drop_in_place(but={extension.name for extension in self.extensions or ()})
        built = [self._built(extension) for extension in self.extensions or ()]
        if built:
            print(f"compiling {len(built)} kernels, {self.parallel or 1} at a time", flush=True)
        try:
            super().run()
        finally:
            if not all(path.exists() for path in built):
                reason = f" ({self._failures[0]})" if self._failures else ""
                warn(f"the C compiler failed{reason}, so all kernels stay plain Python: same results, slower")
                for path in built:
                    path.unlink(missing_ok=True)
                if in_place:
                    drop_in_place()

    def build_extension(self, ext: Extension) -> None:
        # A build that was killed may leave half a file that looks newer than its source.
        unfinished = Path(self.build_temp, f"{ext.name}.unfinished")
        if unfinished.exists():
            self._built(ext).unlink(missing_ok=True)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        unfinished.touch()
        try:
            super().build_extension(ext)
        except Exception:
            self._built(ext).unlink(missing_ok=True)
            raise
        unfinished.unlink()
        with self._speaks:
            self._done += 1
            print(f"[{self._done:2}/{len(self.extensions)}] compiled {ext.name}", flush=True)

    def warn(self, msg: object) -> None:
        """Note why a kernel failed: setuptools would say it for each of them, ``run`` says it once."""
        self._failures.append(str(msg))

    def _built(self, ext: Extension) -> Path:
        return Path(self.build_lib, *ext.name.split(".")).with_suffix(SUFFIX)


def drop_in_place(but: Collection[str] = ()) -> None:
    """Remove compiled kernels beside their sources: the plain build, a failure, or a source that is gone."""
    for path in (SOURCE / "litemq").rglob(f"_*{SUFFIX}"):
        name = ".".join(path.relative_to(SOURCE).parts).removesuffix(SUFFIX)
        if name not in but:
            path.unlink(missing_ok=True)


# The build front end runs this file as a script; tests import it for the list above.
if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildKernels})
