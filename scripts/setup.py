"""Set the checkout up: ``.venv`` with everything of the lock, the package in editable mode, kernels compiled.

Needs Python 3.11 and nothing else (the Makefile checks that).  Each step leaves a stamp in ``.venv`` with a hash of
what it was made from; a step whose stamp is right is skipped, so a second run takes a
fraction of a second.  Steps in order, each depends on the one before:

    venv      the interpreter
    packages  requirements/dev.lock, by uv (pinned in requirements/bootstrap.lock), else by pip
    package   pyproject.toml: metadata and the ``litemq`` command
    kernels   setup.py and every kernel source; the environment that chooses the build

Writes to ``.venv``, ``build/`` and beside the kernels, and to the user's package cache.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
TEMPORARY = VENV / "tmp"
LOCK = ROOT / "requirements" / "dev.lock"
BOOTSTRAP = ROOT / "requirements" / "bootstrap.lock"
EXT_SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
END_S = 5.0
"""How long a child may take to end when it is told to."""


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    key: str
    """Hash or text of what the step is made from."""
    action: Callable[[], None]
    title: str


class SetupFailed(Exception):
    """A step could not be done; the text says which and what to do."""


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    started = time.monotonic()
    try:
        with only_one():
            if is_set("LITEMQ_REQUIRE_EXT") and plain_kernels():
                stamp("kernels").unlink(missing_ok=True)
            ran = run_steps(
                [
                    Step("venv", venv_key(), make_venv, "create .venv"),
                    Step("packages", digest(LOCK, BOOTSTRAP), install_packages, "install the locked packages"),
                    Step("package", digest(ROOT / "pyproject.toml"), install_package, "install litemq (editable)"),
                    Step("kernels", kernels_key(), build_kernels, "build the kernels"),
                ]
            )
    except SetupFailed as failure:
        print(f"litemq: error: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("setup: interrupted; run make setup again", file=sys.stderr)
        return 130
    warn_about_plain_kernels()
    took_s = time.monotonic() - started
    print(f"setup: {'ready' if ran else 'up to date'} in {took_s:.1f} s", flush=True)
    return 0


# ── steps ──


def make_venv() -> None:
    if VENV.exists():
        shutil.rmtree(VENV)
    try:
        run([sys.executable, "-m", "venv", str(VENV)])
    except SetupFailed as failure:
        shutil.rmtree(VENV, ignore_errors=True)
        raise SetupFailed("this Python cannot make a virtual environment; install its venv package") from failure


def install_packages() -> None:
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    try:
        run([*pip, "install", "--quiet", "--require-hashes", "--only-binary", ":all:", "-r", str(BOOTSTRAP)])
        run(
            [*uv(), "pip", "install", "--python", str(PYTHON), "--require-hashes", "-r", str(LOCK)],
            env=uv_environment(),
        )
    except SetupFailed as failure:
        print(f"setup: uv did not work ({failure}); the same lock with pip, this takes a minute", flush=True)
        run([*pip, "install", "--require-hashes", "-r", str(LOCK)])


def install_package() -> None:
    # Metadata and command only: the next step compiles, where its output can be seen.
    env = {**os.environ, "LITEMQ_PURE": "1"}
    env.pop("LITEMQ_REQUIRE_EXT", None)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)]
    if (VENV / "bin" / "uv").exists():
        run([*uv(), "pip", "install", "--python", str(PYTHON), *options], env=uv_environment(env))
    else:
        run([str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", *options], env=env)
    for link in VENV.glob("lib/python*/site-packages/__editable__.litemq-*.pth"):
        make_relative(link)


def make_relative(link: Path) -> None:
    """Write the folder in a ``.pth`` file relative to it.

    Python reads these files in the locale's encoding, so with LC_ALL=C a path that is not ASCII would keep it from
    starting at all.
    """
    folder = Path(os.fsdecode(link.read_bytes().strip()))
    if folder.is_absolute():
        link.write_bytes(os.fsencode(os.path.relpath(folder.resolve(), link.parent.resolve())) + b"\n")


def build_kernels() -> None:
    run([str(PYTHON), "setup.py", "--quiet", "build_ext", "--inplace"])


def warn_about_plain_kernels() -> None:
    if is_set("LITEMQ_PURE"):
        print("setup: plain build, as LITEMQ_PURE=1 asks", flush=True)
        return
    if plain := plain_kernels():
        print(
            f"litemq: warning: {len(plain)} of {len(kernels())} kernels are not compiled:"
            " no C compiler, or no Python headers\n"
            "litemq: warning: LiteMQ runs the same but slower; install a C compiler, then: make ext",
            file=sys.stderr,
        )


# ── stamps ──


def run_steps(steps: list[Step]) -> bool:
    """Run each step whose stamp is missing or old; say whether there was one."""
    due: list[tuple[Step, str]] = []
    chain = ""
    for step in steps:
        # The stamp covers the keys before it too: a change makes every later step due.
        chain = hashlib.sha256(f"{chain} {step.key}".encode()).hexdigest()
        if not stamp(step.name).is_file() or stamp(step.name).read_text() != chain:
            due.append((step, chain))
    for number, (step, made_from) in enumerate(due, 1):
        print(f"setup: [{number}/{len(due)}] {step.title}", flush=True)
        step.action()
        stamp(step.name).write_text(made_from)
    return bool(due)


def stamp(name: str) -> Path:
    return VENV / f".litemq-{name}"


def digest(*paths: Path) -> str:
    total = hashlib.sha256()
    for path in paths:
        total.update(str(path.relative_to(ROOT)).encode())
        total.update(path.read_bytes())
    return total.hexdigest()


def venv_key() -> str:
    return f"{sys.version} {sys.base_prefix} {VENV}"


def kernels_key() -> str:
    compiler = shutil.which(os.environ.get("CC", "").split(" ")[0] or "cc") or shutil.which("gcc")
    return f"pure={is_set('LITEMQ_PURE')} compiler={compiler} " + digest(ROOT / "setup.py", *kernel_sources())


def kernel_sources() -> list[Path]:
    """Return everything that decides what a kernel compiles to."""
    package = ROOT / "src" / "litemq"
    return [*kernels(), *sorted([*package.rglob("*.pxd"), *package.rglob("*.h")])]


def kernels() -> list[Path]:
    package = ROOT / "src" / "litemq"
    return sorted([*package.rglob("_*_cy.py"), *package.rglob("*.pyx")])


def plain_kernels() -> list[Path]:
    return [path for path in kernels() if not path.with_suffix(EXT_SUFFIX).exists()]


# ── processes ──


def run(command: list[str], env: dict[str, str] | None = None) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until we know the child that would have to end too
    try:
        # A session of its own: Ctrl-C reaches us alone, and with its group we can end compilers that it started.
        child = subprocess.Popen(command, cwd=ROOT, env=env, start_new_session=True, preexec_fn=heed_signals)
    except OSError as error:
        heed_signals()
        raise SetupFailed(f"{command[0]}: {error}") from error
    try:
        heed_signals()
        status = child.wait()
    except BaseException:
        end_group(child)
        raise
    if status != 0:
        raise SetupFailed(f"exit status {status} from: {' '.join(command)}")


def heed_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def end_group(child: subprocess.Popen[bytes]) -> None:
    """End a child and every process that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
    try:
        child.wait(END_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def leave(number: int, _frame: FrameType | None) -> None:
    """End as after Ctrl-C: children do not get the signals of our own group."""
    raise SystemExit(128 + number)


def uv() -> list[str]:
    return [str(VENV / "bin" / "uv")]


def uv_environment(env: dict[str, str] | None = None) -> dict[str, str]:
    """Return the environment for uv, with the package index that pip is configured for: uv does not read that.

    It leaves a lock file among its temporary files for each build, so these lie in ``.venv``.
    """
    env = dict(os.environ if env is None else env)
    TEMPORARY.mkdir(exist_ok=True)
    env["TMPDIR"] = str(TEMPORARY)
    env.setdefault("UV_PYTHON_DOWNLOADS", "never")
    if "UV_DEFAULT_INDEX" not in env and "UV_INDEX_URL" not in env:
        shown = subprocess.run(
            [str(PYTHON), "-m", "pip", "config", "list"], check=False, capture_output=True, text=True
        ).stdout
        for line in shown.splitlines():
            name, _, value = line.partition("=")
            if name.endswith(".index-url"):
                env["UV_DEFAULT_INDEX"] = value.strip("'\"")
    return env


def is_set(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


@contextlib.contextmanager
def only_one() -> Iterator[None]:
    """Hold the checkout's set-up lock: two ``make`` at once wait for each other."""
    checkout = os.open(ROOT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(checkout, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("setup: waiting for another set-up of this checkout", flush=True)
            fcntl.flock(checkout, fcntl.LOCK_EX)
        yield
    finally:
        os.close(checkout)


if __name__ == "__main__":
    sys.exit(main())
