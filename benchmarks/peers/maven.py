"""Jars by name from the public Maven registry, kept in the user's cache."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from benchmarks.peers.process import Missing, cache_dir, found


def java() -> str:
    """Return the ``java`` command."""
    return found("java", "install a JDK, 17 or newer (Debian: openjdk-17-jdk-headless)")


def jars(name: str, version: str, pom: Path, cache: str) -> Path:
    """Return the folder with what ``pom`` names; fetch it when the cache lacks it.

    Raises:
        Missing: Maven is not installed, or cannot fetch it.
    """
    key = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    folder = cache_dir() / cache / f"{name.lower()}-{version}-{key}"
    if folder.is_dir():
        return folder
    maven = found("mvn", f"and {name}'s jars are not in the cache: install Maven, 3.6 or newer (Debian: maven)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = folder.with_name(f"{folder.name}.{os.getpid()}")
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
    command: list[str | Path] = [maven, "-q", "-B", "-f", pom, goal, f"-DoutputDirectory={new}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(new, ignore_errors=True)
        said = (done.stdout + done.stderr).strip().splitlines()
        raise Missing(f"Maven could not fetch {name} {version} ({said[0] if said else 'it said nothing'})")
    with contextlib.suppress(OSError):  # another run was quicker
        new.rename(folder)
    shutil.rmtree(new, ignore_errors=True)
    return folder
