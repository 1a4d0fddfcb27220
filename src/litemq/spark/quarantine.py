"""Damaged bytes put aside: one file for each place, so that a second run finds them there and writes nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from litemq.spark.backend import Damaged
from litemq.store.log_walk import Log

_MOST: Final = 64 << 20
"""Bytes of one damage that are kept."""


def put_aside(log: Log, damage: Damaged, folder: Path) -> None:
    """Copy the bytes of a damage into ``folder``, named by their position, with the reason beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{damage.position:020d}"
    if (folder / name).exists():
        return
    data = b""
    for stream in log.files.streams:
        for segment in reversed(stream.segments):
            start = segment.number or 0
            if start <= damage.position and (segment.name == damage.segment or len(log.files.streams) == 1):
                file = log.fs.open(segment.path)
                try:
                    data = file.read_at(min(damage.size, _MOST), damage.position - start)
                finally:
                    file.close()
                break
    (folder / f"{name}.reason").write_text(f"{damage.reason}\n")
    part = folder / f"{name}.{os.getpid()}.tmp"
    part.write_bytes(data)
    part.replace(folder / name)  # in one step: another attempt may be at it
