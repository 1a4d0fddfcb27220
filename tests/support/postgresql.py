"""A PostgreSQL server of a test's own: made in a temporary directory, on a Unix socket, gone at the end.

``LITEMQ_POSTGRESQL`` names the directory of its programs, else they are looked for where systems have them.
PostgreSQL refuses to run as root: then it runs as the user ``postgres`` or ``nobody``.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_USERS = ("postgres", "nobody")


def find_programs() -> Path | None:
    """Return where ``initdb`` and ``postgres`` are; None when there are none."""
    named = os.environ.get("LITEMQ_POSTGRESQL")
    if named:
        return Path(named)
    there = [Path(path).parent for path in (shutil.which("initdb"),) if path]
    there += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    there += sorted(Path("/usr").glob("pgsql-*/bin"), reverse=True)
    return next((place for place in there if (place / "initdb").exists() and (place / "postgres").exists()), None)


class Server:
    """A running PostgreSQL."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._data = folder / "data"
        self._user = _user()
        if self._user is not None:
            found = pwd.getpwnam(self._user)
            os.chown(folder, found.pw_uid, found.pw_gid)
        self._run("initdb", "-D", str(self._data), "-U", "litemq", "-A", "trust", "-E", "UTF8", "--no-sync")

    @property
    def url(self) -> str:
        """What SQLAlchemy takes."""
        return f"postgresql+psycopg://litemq@/postgres?host={self._folder}"

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        options = f"-c listen_addresses='' -c unix_socket_directories={self._folder} -c max_connections=60"
        log = str(self._folder / "log")
        self._run("pg_ctl", "-D", str(self._data), "-w", "-t", "60", "-l", log, "-o", options, "start")

    def stop(self, how: str = "fast") -> None:
        """Stop it; ``immediate`` is a crash."""
        self._run("pg_ctl", "-D", str(self._data), "-w", "-t", "60", "-m", how, "stop")

    def _run(self, program: str, *arguments: str) -> None:
        # The server inherits what pg_ctl has open: not a pipe that somebody reads to its end.
        with (self._folder / f"{program}.out").open("a+") as output:
            done = subprocess.run(
                [str(self._programs / program), *arguments],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                cwd=self._folder,
                user=self._user,
                check=False,
            )
            output.seek(0)
            assert done.returncode == 0, output.read()


def _user() -> str | None:
    """Return as whom it runs; None: as who runs the tests."""
    if os.geteuid() != 0:
        return None
    known = {one.pw_name for one in pwd.getpwall()}
    return next(name for name in _USERS if name in known)


@contextmanager
def postgresql(programs: Path) -> Iterator[Server]:
    """Yield a running server."""
    with tempfile.TemporaryDirectory(prefix="litemq-pg-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        server = Server(programs, Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")
