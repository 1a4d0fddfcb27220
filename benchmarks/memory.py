"""Memory that the host has found already.

A virtual machine's host may back memory only when it is touched, and take back what is free: a page costs 12 µs then
where it costs a fraction of one else.  That would be charged to whoever writes most bytes into the file cache, so
memory is touched and freed right before anything is measured, whoever is measured.
"""

from __future__ import annotations

import mmap
from pathlib import Path

_MOST_BYTES = 3 << 30
"""More than one run writes."""


def touch_memory() -> None:
    """Have the host find memory for what comes next."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    available = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    mmap.mmap(-1, min(_MOST_BYTES, available // 4), flags=flags).close()
