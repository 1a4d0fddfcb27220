"""Our load program on RocketMQ's official Java client: compiled on demand, one process per broker and header codec."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Self

from benchmarks import native
from benchmarks.peers import maven, rocketmq
from benchmarks.peers.process import Broken, Server, end, found, start

HERE = Path(__file__).resolve().parent


def classes() -> Path:
    """Return the folder of the compiled program, compiling it when the source is newer."""
    source, target = HERE / "Load.java", native.BUILD / "classes"
    compiled = target / "Load.class"
    if compiled.exists() and compiled.stat().st_mtime > source.stat().st_mtime:
        return target
    compiler = found("javac", "install a JDK, 17 or newer (Debian: openjdk-17-jdk-headless)")
    command: list[str | Path] = [
        compiler,
        "-nowarn",
        "-encoding",
        "UTF-8",
        "-cp",
        f"{rocketmq.jars()}/*",
        "-d",
        target,
        source,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Broken(f"Load.java does not compile: {done.stderr[-2000:]}")
    return target


class JavaLoad:
    """The load program, running; it keeps what its JVM has compiled from one run to the next."""

    def __init__(self, server: Server, folder: Path, header: str = "json") -> None:
        self._server = server
        self._folder = folder
        command = [
            maven.java(),
            "-Xms512m",
            "-Xmx512m",
            "-XX:+UseG1GC",
            f"-Duser.home={folder}",
            f"-Drocketmq.client.logRoot={folder}",
            "-Drocketmq.log.root.level=WARN",
            f"-Drocketmq.serialize.type={'ROCKETMQ' if header == 'binary' else 'JSON'}",
            "-cp",
            f"{classes()}:{rocketmq.jars()}/*",
            "Load",
            server.name_server,
        ]
        self._process = start(command, folder, pipes=True)

    def run(self, command: str, **options: object) -> native.Found:
        """Have it do one run.

        Raises:
            LoadFailed: the client library threw, or the program ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = " ".join([command, *(f"{name}={value}" for name, value in options.items())])
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()
        try:
            answer = native.measured(map(bytes.decode, self._process.stdout), self._server)
        except native.LoadFailed as error:
            raise native.LoadFailed(f"{line}: {error}; {self._said()}") from None
        if answer["refused"]:
            answer["complaint"] = self._said()
        return answer

    def _said(self) -> str:
        return (self._folder / "out.log").read_text(errors="replace")[-400:].strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        end(self._process, 3)
