"""The Python process in which Spark runs tasks, one after the other."""

from __future__ import annotations

import gc

_is_settled = False


def settle() -> None:
    """Take what this process has imported out of its garbage collections.

    PySpark collects after every task, and looks at all objects of PyArrow and pandas each time: 15 to 30 ms, as long
    as decoding 60 000 messages.  Modules stay as long as the process does, so nothing is kept that would have gone.
    """
    global _is_settled
    if not _is_settled:
        _is_settled = True
        gc.freeze()
