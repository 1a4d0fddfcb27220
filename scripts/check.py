"""Run every check of the source tree, all of them even when one fails: ``make check``.

Checks named on the command line run alone: ``scripts/check.py locks docs``.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"

# Put together here, so that this file does not contain what it looks for.
REGISTRIES = [name + "." + top for name, top in [("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org")]]
INDEX_OPTION = rb"(?:index[-_]url|find[-_]links)[\s=:\"']+[a-z]+:" + rb"//"


def tool(*command: str) -> Callable[[], list[str]]:
    def check() -> list[str]:
        done = subprocess.run(
            [BIN / command[0], *command[1:]],
            cwd=ROOT,
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return [] if done.returncode == 0 else done.stdout.splitlines()

    return check


def locks() -> list[str]:
    """Locks name no host, and hold what pyproject.toml pins."""
    problems = []
    locked: set[str] = set()
    for path in sorted((ROOT / "requirements").glob("*.lock")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if "://" in line or line.startswith("-"):
                problems.append(f"{path.relative_to(ROOT)}:{number}: a lock holds names, versions and hashes only")
            if match := re.match(r"([A-Za-z0-9._-]+)==(\S+)", line):
                locked.add(f"{normal(match[1])}=={match[2]}")
    names = {pin.partition("==")[0] for pin in locked}
    for requirement in requirements():
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        assert name is not None, requirement
        pin = requirement.partition(";")[0].strip().replace(name[0], normal(name[0]), 1)
        if normal(name[0]) not in names or ("==" in pin and pin not in locked):
            problems.append(f"{requirement} is not in requirements/*.lock as pyproject.toml asks; run: make lock")
    return problems


def requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"].values()
    pinned = [entry for group in groups for entry in group if isinstance(entry, str)]
    return [*project["project"]["dependencies"], *pinned]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def leaks() -> list[str]:
    """No tracked file holds a path of this machine or the address of a package registry."""
    here = [ROOT, ROOT.parent, Path.home()]
    # A folder at the top (/tmp, /home) is nobody's secret, unless the checkout lies right in it.
    places = {str(path) for path in here if len(path.parts) > 2 or path == ROOT.parent} - {"/", "/tmp", "/var/tmp"}
    words = b"|".join(re.escape(place.encode()) + rb"(?=[/\"'\s])" for place in sorted(places, reverse=True))
    hosts = b"|".join(re.escape(host.encode()) for host in REGISTRIES)
    pattern = re.compile(rb"(?<![\w.-])(?:" + words + rb")|" + hosts + rb"|" + INDEX_OPTION)
    return [
        f"{path.relative_to(ROOT)}: {match[0].decode(errors='replace')!r} belongs to one machine"
        for path in tracked()
        for match in pattern.finditer(path.read_bytes())
    ]


def docs() -> list[str]:
    """Each relative link in a page leads to a file of the checkout."""
    return [
        f"{page.relative_to(ROOT)}: no such file: {target}"
        for page in tracked()
        if page.suffix == ".md"
        for target in links(page)
        if not (page.parent / target).exists()
    ]


def links(page: Path) -> list[str]:
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose)
    return [target for target in targets if "://" not in target and not target.startswith("mailto:")]


def tracked() -> Iterator[Path]:
    """Files that git knows; in a copy without git, all but what set-up and tests leave."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        found = [ROOT / name for name in listed.split("\0") if name]
    else:
        left = {".venv", "build", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
        found = [path for path in sorted(ROOT.rglob("*")) if left.isdisjoint(path.relative_to(ROOT).parts)]
    return (path for path in found if path.is_file() and path.suffix != ".so")


CHECKS: dict[str, Callable[[], list[str]]] = {
    "lint": tool("ruff", "check", "."),
    "format": tool("ruff", "format", "--check", "."),
    "types": tool("mypy"),
    "imports": tool("lint-imports", "--no-logo"),
    "locks": locks,
    "leaks": leaks,
    "docs": docs,
}


def main(names: list[str]) -> int:
    failed = []
    for name in names or CHECKS:
        if name not in CHECKS:
            print(f"check: no check {name!r}; there are: {', '.join(CHECKS)}", file=sys.stderr)
            return 2
        started = time.monotonic()
        problems = CHECKS[name]()
        verdict = "FAILED" if problems else "ok"
        print(f"check: {name:8} {verdict} ({time.monotonic() - started:.1f} s)", flush=True)
        if problems:
            failed.append(name)
            print("\n".join(f"    {line}" for line in problems), flush=True)
    if failed:
        print(f"check: failed: {', '.join(failed)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
